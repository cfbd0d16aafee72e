//! Two gateways in one process carry a MACsec frame from one LAN to another, over UDP sockets.
//!
//! The management channel is in memory here; a host has a mutually authenticated TLS connection. A
//! LAN is a variable here; a host has an interface. See the package `lightseal-gateway-host`.
//!
//! Run it with `cargo run --example tunnel`.

use lightseal_gateway::control::{Control, Event, Output, Timing};
use lightseal_gateway::gateway::{Destination, Gateway, GatewaySettings, Received, Sink};
use lightseal_gateway::keys::GatewayId;
use lightseal_gateway::link::{Link, PeerPort};
use lightseal_gateway::schemes::sealed::SealedScheme;
use lightseal_gateway::stations::PeerIndex;
use lightseal_gateway::{Instant, PacketBuf, Random};
use lightseal_macsec::crypto::rustcrypto::PROVIDER;
use std::error::Error;
use std::net::{SocketAddr, UdpSocket};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// The index of each gateway's only peer.
const PEER: PeerIndex = PeerIndex(0);
/// Room in bytes before and behind a frame, for what the tunnel adds.
const ROOM: usize = 128;
/// The header of a MACsec frame that a device on the first LAN sends to one on the second: addresses
/// and SecTAG. What follows can be read by that device alone.
const HEADER: &[u8] =
    b"\x02\0\0\0\0\x0b\x02\0\0\0\0\x0a\x88\xe5\x2c\0\0\0\0\x07\x02\0\0\0\0\x0a\0\x01";

/// A gateway with the identity `id`, whose peer is at `peer`.
fn site(id: u8, peer: SocketAddr) -> Result<(Arc<Gateway>, Control), Box<dyn Error>> {
    let mut random = Random::from_os()?;
    let settings = GatewaySettings::new(GatewayId([id; 32]), [2, 0, 0, 0, 1, id]);
    let links =
        vec![Link::new(PEER, GatewayId([3 - id; 32]), Some(peer), PeerPort::Configured, 1500)];
    let now = Instant::ZERO;
    let gateway = Gateway::new(settings, links, Box::new(SealedScheme), &mut random, now)?;
    let gateway = Arc::new(gateway);
    let control = Control::new(Arc::clone(&gateway), &PROVIDER, Timing::default(), random)?;
    Ok((gateway, control))
}

/// A frame or datagram, with room before and behind it.
struct Buffer {
    bytes: Vec<u8>,
    packet: Range<usize>,
}

impl Buffer {
    fn new(content: &[u8]) -> Self {
        let bytes = [&[0; ROOM][..], content, &[0; ROOM]].concat();
        Self { bytes, packet: ROOM..ROOM + content.len() }
    }

    fn content(&self) -> &[u8] {
        &self.bytes[self.packet.clone()]
    }
}

/// The socket to which a gateway sends. A host has a pool of buffers, and queues datagrams.
struct Outgoing<'a>(&'a UdpSocket);

impl Sink for Outgoing<'_> {
    type Buffer = Buffer;

    fn bytes<'a>(&'a self, buffer: &'a Buffer) -> &'a [u8] {
        buffer.content()
    }

    fn with<R>(&mut self, buffer: &mut Buffer, change: impl FnOnce(&mut PacketBuf<'_>) -> R) -> R {
        let mut packet =
            PacketBuf::new(&mut buffer.bytes, buffer.packet.clone()).expect("in range");
        let result = change(&mut packet);
        buffer.packet = packet.range();
        result
    }

    fn allocate_with(&mut self, bytes: &[u8]) -> Option<Buffer> {
        Some(Buffer::new(bytes))
    }

    fn copy(&mut self, buffer: &Buffer) -> Option<Buffer> {
        Some(Buffer::new(buffer.content()))
    }

    fn copy_part(&mut self, buffer: &Buffer, part: Range<usize>) -> Option<Buffer> {
        buffer.content().get(part).map(Buffer::new)
    }

    fn send(&mut self, to: Destination, datagram: Buffer) {
        println!("a datagram of {} bytes goes to {}", datagram.content().len(), to.remote);
        // A datagram that the socket does not take is lost, as on the network.
        let _ = self.0.send_to(datagram.content(), to.remote);
    }

    fn release(&mut self, _buffer: Buffer) {}
}

fn main() -> Result<(), Box<dyn Error>> {
    let sockets = [UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?];
    let (here, there) = (sockets[0].local_addr()?, sockets[1].local_addr()?);
    sockets[1].set_read_timeout(Some(Duration::from_secs(5)))?;
    let now = Instant::ZERO; // A host passes the time since its start.
    let mut sites = [site(1, there)?, site(2, here)?];

    // Both ends export a secret from the management channel. Over it they agree on keys.
    for (_, control) in &mut sites {
        control.handle_up(now, PEER, [7; 32].into());
    }
    // Each gateway's turn ends when it has nothing more to say; the agreement takes a few turns.
    for at in [0, 1, 0, 1, 0, 1] {
        while let Some(output) = sites[at].1.poll(now) {
            match output {
                Output::Message(_, bytes) => sites[1 - at].1.handle_message(now, PEER, &bytes),
                Output::Event(Event::Up(_, epoch)) => {
                    println!("gateway {at}: epoch {epoch}");
                }
                Output::Close(_, error) => return Err(error.into()),
                // A host also sends probes of the path, and announcements on the LAN.
                _ => {}
            }
        }
    }

    // A frame of the first LAN becomes a datagram, and a frame of the second LAN.
    let (gateway, frame) = (&sites[0].0, [HEADER, &[0x5a; 64]].concat());
    gateway.dispatch(now, 0, Buffer::new(&frame), &mut Outgoing(&sockets[0]));
    let mut buf = [0; 2048];
    let (len, from) = sockets[1].recv_from(&mut buf)?;
    let mut packet = PacketBuf::new(&mut buf, 0..len).ok_or("no room")?;
    let received = sites[1].0.open_datagram(now, from, &mut packet);
    match received.map_err(|reason| reason.to_string())? {
        Received::Frame(_) if packet.bytes() == frame => println!("the frame arrived unchanged"),
        other => return Err(format!("not the frame: {other:?}").into()),
    }
    Ok(())
}
