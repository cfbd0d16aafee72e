//! The output of any engine.

use lightseal_core::{Engine, Instant, Output};
use std::net::SocketAddr;

/// The output of an engine until it was idle, without its events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// The datagrams and their destinations.
    pub datagrams: Vec<(SocketAddr, Vec<u8>)>,
    /// When the engine wants to be woken.
    pub wake: Option<Instant>,
}

impl Drained {
    /// The datagrams without their destinations.
    pub fn payloads(self) -> impl Iterator<Item = Vec<u8>> {
        self.datagrams.into_iter().map(|(_, payload)| payload)
    }
}

/// Takes an engine's output until it is idle.
///
/// # Panics
/// If a datagram is longer than 4096 bytes.
pub fn drain<E: Engine>(engine: &mut E, mut event: impl FnMut(E::Event<'_>)) -> Drained {
    let (mut buf, mut drained) = ([0; 4096], Drained::default());
    loop {
        match engine.poll_output(&mut buf) {
            Output::Datagram { to, payload } => drained.datagrams.push((to, payload.to_vec())),
            Output::Event(reported) => event(reported),
            Output::BufferTooSmall { needed } => panic!("{needed} bytes are needed"),
            Output::WakeAt(at) => {
                drained.wake = Some(at);
                return drained;
            }
            Output::Idle => return drained,
        }
    }
}
