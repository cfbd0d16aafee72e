//! 6LoWPAN: UDP datagrams in IEEE 802.15.4 frames, with every byte as on a real network, checksums
//! included.
//!
//! - [`Packet`]: a UDP datagram between two nodes;
//! - [`frames`]: the frames of a packet for one hop (RFC 6282, RFC 4944);
//! - [`Reassembly`]: packets from received frames.
//!
//! Between neighbours, a datagram costs 32 bytes beside its payload: 21 of the MAC header with
//! 64-bit addresses, 2 of IPHC, 7 of the compressed UDP header and 2 of the frame's checksum. A
//! broadcast costs 27. A relayed datagram costs 17 more for the hop limit and for both interface
//! identifiers, which then cannot be derived from link addresses.

mod checksum;
mod fragments;
mod header;

pub(crate) use checksum::{append_fcs, udp as udp_checksum};
pub use fragments::Reassembly;

use crate::topology::NodeId;
use core::net::{SocketAddr, SocketAddrV6};
use header::{MAC_BYTES, compress, mac_header};

/// The UDP port of CoAP over DTLS, which both ends use.
pub const PORT: u16 = 5684;

/// The longest frame, in bytes, checksum included.
pub const FRAME_BYTES: usize = 127;

/// Length of the longest datagram between neighbours that fits a frame, in bytes.
pub const FRAME_PAYLOAD: usize = FRAME_BYTES - 32;

/// The initial hop limit of a packet.
const HOPS: u8 = 64;

/// A node's address, as engines see it.
pub(crate) const fn address(node: NodeId) -> SocketAddr {
    SocketAddr::V6(SocketAddrV6::new(node.link_local(), PORT, 0, 0))
}

/// The node with this address.
pub(crate) fn node(address: SocketAddr) -> Option<NodeId> {
    match address {
        SocketAddr::V6(v6) => Some(NodeId(v6.ip().segments()[7])),
        SocketAddr::V4(_) => None,
    }
}

/// A UDP datagram between two nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The node that sent it.
    pub from: NodeId,
    /// The node that it is for.
    pub to: NodeId,
    /// The hop limit: how many hops it may still take.
    pub hops: u8,
    /// The UDP payload.
    pub payload: Vec<u8>,
}

impl Packet {
    /// A new packet with the initial hop limit.
    pub fn new(from: NodeId, to: NodeId, payload: &[u8]) -> Self {
        Self { from, to, hops: HOPS, payload: payload.to_vec() }
    }
}

/// The counters by which a node numbers its frames and its fragmented packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeCounters {
    frame: u8,
    tag: u16,
}

/// The sender and the receiver of a frame. Acknowledgements do not tell them, and give `None`.
pub fn ends(frame: &[u8]) -> Option<[NodeId; 2]> {
    let (from, to, _) = header::read_mac(checksum::check_fcs(frame)?)?;
    Some([from, to])
}

/// The frames of a packet for the hop from `here` to `next`.
pub fn frames(
    packet: &Packet,
    here: NodeId,
    next: NodeId,
    numbers: &mut NodeCounters,
) -> Vec<Vec<u8>> {
    let headers = compress(packet, here, next);
    let room = FRAME_BYTES - MAC_BYTES - checksum::FCS_BYTES;
    numbers.tag = numbers.tag.wrapping_add(1);
    let tag = numbers.tag;
    let mut frame = |parts: &[&[u8]]| {
        let mut frame = mac_header(here, next, numbers.frame);
        numbers.frame = numbers.frame.wrapping_add(1);
        parts.iter().for_each(|part| frame.extend_from_slice(part));
        append_fcs(&mut frame);
        frame
    };
    if headers.len() + packet.payload.len() <= room {
        return vec![frame(&[&headers, &packet.payload])];
    }
    fragments::cut(&headers, &packet.payload, room, tag)
        .into_iter()
        .map(|fragment| frame(&[&fragment]))
        .collect()
}

/// The acknowledgement of a frame (IEEE 802.15.4-2006, section 7.2.2.3).
pub fn acknowledgement(frame: &[u8]) -> Vec<u8> {
    const FRAME_CONTROL: u16 = 2;
    let [low, high] = FRAME_CONTROL.to_le_bytes();
    let mut answer = vec![low, high, frame.get(2).copied().unwrap_or(0)];
    append_fcs(&mut answer);
    answer
}

/// The node that sent a frame; `None` for frames without addresses of our nodes.
pub fn sender(frame: &[u8]) -> Option<NodeId> {
    header::read_mac(frame).map(|(here, ..)| here)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightseal_core::Instant;

    fn round_trip(packet: &Packet, here: NodeId, next: NodeId) -> (usize, usize) {
        let mut reassembly = Reassembly::default();
        let frames = frames(packet, here, next, &mut NodeCounters::default());
        let mut got = None;
        for frame in &frames {
            assert!(frame.len() <= FRAME_BYTES);
            assert!(got.is_none());
            got = reassembly.take(Instant::ZERO, frame);
        }
        assert_eq!(got.as_ref(), Some(packet));
        (frames.len(), frames[0].len())
    }

    #[test]
    fn a_datagram_costs_32_bytes_between_neighbours() {
        let packet = |len: u8| Packet::new(NodeId(0), NodeId(1), &(0..len).collect::<Vec<_>>());
        assert_eq!(FRAME_PAYLOAD, 95);
        assert_eq!(round_trip(&packet(44), NodeId(0), NodeId(1)), (1, 76));
        assert_eq!(round_trip(&packet(95), NodeId(0), NodeId(1)), (1, 127));
        assert_eq!(round_trip(&packet(96), NodeId(0), NodeId(1)).0, 2);
        assert_eq!(round_trip(&packet(255), NodeId(0), NodeId(1)).0, 3);
        assert_eq!(round_trip(&packet(0), NodeId(0), NodeId(1)), (1, 32));
    }

    #[test]
    fn a_datagram_for_all_neighbours_costs_27_bytes() {
        let packet = |len| Packet::new(NodeId(3), NodeId::EVERYBODY, &vec![7; len]);
        assert_eq!(round_trip(&packet(44), NodeId(3), NodeId::EVERYBODY), (1, 71));
        assert_eq!(round_trip(&packet(150), NodeId(3), NodeId::EVERYBODY).0, 2);
    }

    #[test]
    fn relayed_packets_say_for_whom_they_are() {
        let packet = Packet { hops: 63, ..Packet::new(NodeId(0), NodeId(4), &[7; 50]) };
        assert_eq!(round_trip(&packet, NodeId(1), NodeId(2)), (1, 50 + 32 + 17));
    }

    #[test]
    fn damaged_frames_are_refused() {
        let all = [NodeId(1), NodeId::EVERYBODY].into_iter().flat_map(|to| {
            let packet = Packet::new(NodeId(0), to, &[7; 150]);
            frames(&packet, NodeId(0), to, &mut NodeCounters::default())
        });
        for frame in all {
            for at in 0..frame.len() {
                let mut damaged = frame.clone();
                damaged[at] ^= 1;
                assert_eq!(Reassembly::default().take(Instant::ZERO, &damaged), None);
                assert_eq!(Reassembly::default().take(Instant::ZERO, &frame[..at]), None);
            }
        }
    }
}
