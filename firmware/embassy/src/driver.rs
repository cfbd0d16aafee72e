//! An engine without I/O, run over a socket of edge-nal. Nothing here knows embassy's network, so
//! that the engine runs over any socket with these traits.

use crate::time::now;
use edge_nal::{UdpReceive, UdpSend};
use embassy_time::{Instant, with_deadline};
use exchange::Request;
use exchange::step::Step;
use lightseal_core::Engine;

/// The longest UDP payload of an Ethernet frame, in bytes.
const DATAGRAM_BYTES: usize = 1472;

/// Carries datagrams between the engine and the socket until the engine asks to stop. The socket
/// keeps its port.
///
/// # Errors
/// Those of the socket.
pub(crate) async fn run<E, S>(engine: &mut E, socket: &mut S) -> Result<(), S::Error>
where
    E: for<'a> Engine<Event<'a> = Request> + 'static,
    S: UdpSend + UdpReceive,
{
    let mut buf = [0; DATAGRAM_BYTES];
    loop {
        let wake = match Step::of(engine, &mut buf) {
            Step::Datagram { to, len } => {
                socket.send(to, buf.get(..len).unwrap_or_default()).await?;
                continue;
            }
            Step::Request(Request::End) => return Ok(()),
            Step::Request(Request::NewPort) => continue,
            Step::WakeAt(at) => at.as_micros(),
            Step::BufferTooSmall { .. } | Step::Idle => u64::MAX,
        };
        match with_deadline(Instant::from_micros(wake), socket.receive(&mut buf)).await {
            Ok(received) => {
                let (len, from) = received?;
                engine.handle_datagram(now(), from, buf.get_mut(..len).unwrap_or_default());
            }
            Err(_) => engine.handle_timeout(now()),
        }
    }
}
