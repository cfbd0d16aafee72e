//! The MAC, IPv6 and UDP headers of a datagram.

use super::{PORT, Packet, checksum};
use crate::topology::NodeId;
use lightseal_core::{DecodeError, Reader};

/// Length in bytes of the MAC header of a frame to one node: frame control, sequence number, PAN
/// identifier, two 64-bit addresses. The header of a broadcast is shorter by 6 bytes.
pub(super) const MAC_BYTES: usize = 21;

/// Frame control of a data frame with acknowledgement request, PAN identifier compression, 64-bit
/// addresses, and the frame version of 2006.
const FRAME_CONTROL: u16 = 0xdc61;
/// Frame control of a broadcast: no acknowledgement request, and a 16-bit destination address,
/// which is all ones.
const BROADCAST_CONTROL: u16 = 0xd841;
const BROADCAST: [u8; 2] = [0xff; 2];

const PAN: u16 = 0xabcd;

/// The first byte of IPHC: traffic class elided, next header compressed.
const IPHC: u8 = 0b0111_1100;
/// The two lowest bits of the first byte of IPHC encode the hop limit: it follows inline, or is 64.
const HOPS_INLINE: u8 = 0;
const HOPS_64: u8 = 2;
/// The second byte of IPHC between neighbours: both addresses are link-local and derived from those
/// of the frame.
const NEIGHBOURS: u8 = 0b0011_0011;
/// The second byte of IPHC for relayed packets: both addresses have the prefix of context 0, and
/// their interface identifiers are inline.
const RELAYED: u8 = 0b0101_0101;

/// The second byte of IPHC for multicast: the source is derived from the frame, the destination is
/// ff02:: with an inline last byte.
const GROUP: u8 = 0b0011_1011;
/// The last byte of the address of all CoAP nodes on the link (RFC 7252, section 12.8).
const ALL_COAP_NODES: u8 = 0xfd;
/// The UDP header compression with an inline checksum and both ports inline.
const UDP: u8 = 0b1111_0000;

/// The interface identifier of a node: its 64-bit address with the universal/local bit inverted.
fn identifier(node: NodeId) -> [u8; 8] {
    let [high, low] = node.0.to_be_bytes();
    [0, 0, 0, 0xff, 0xfe, 0, high, low]
}

/// The node with this interface identifier; `None` if no node has it.
fn node(identifier: [u8; 8]) -> Option<NodeId> {
    let id = NodeId(u16::from_be_bytes([identifier[6], identifier[7]]));
    (self::identifier(id) == identifier).then_some(id)
}

/// The universal/local bit, which is inverted in interface identifiers (RFC 4291, appendix A).
const LOCAL: u8 = 2;

/// A node's 64-bit address as a frame carries it: the lowest byte first.
fn address_on_air(node: NodeId) -> [u8; 8] {
    let mut address = identifier(node);
    address[0] ^= LOCAL;
    address.reverse();
    address
}

/// The node with this 64-bit address of a frame; `None` if no node has it.
fn node_on_air(mut address: [u8; 8]) -> Option<NodeId> {
    address.reverse();
    address[0] ^= LOCAL;
    node(address)
}

/// The MAC header of the frame number `sequence` from `here` to `next`.
pub(super) fn mac_header(here: NodeId, next: NodeId, sequence: u8) -> Vec<u8> {
    let to_all = next == NodeId::EVERYBODY;
    let mut header = Vec::with_capacity(super::FRAME_BYTES);
    header.extend(if to_all { BROADCAST_CONTROL } else { FRAME_CONTROL }.to_le_bytes());
    header.push(sequence);
    header.extend(PAN.to_le_bytes());
    match to_all {
        true => header.extend(BROADCAST),
        false => header.extend(address_on_air(next)),
    }
    header.extend(address_on_air(here));
    header
}

/// The sender and the receiver of a frame, and the bytes behind its MAC header.
pub(super) fn read_mac(body: &[u8]) -> Option<(NodeId, NodeId, &[u8])> {
    let (header, rest) = body.split_first_chunk::<5>()?;
    let (control, pan) = (&header[..2], &header[3..]);
    if pan != PAN.to_le_bytes() {
        return None;
    }
    let (next, rest) = if control == FRAME_CONTROL.to_le_bytes() {
        let (next, rest) = rest.split_first_chunk()?;
        (node_on_air(*next)?, rest)
    } else {
        let to_all = control == BROADCAST_CONTROL.to_le_bytes();
        (NodeId::EVERYBODY, rest.strip_prefix(&BROADCAST).filter(|_| to_all)?)
    };
    let (here, rest) = rest.split_first_chunk()?;
    Some((node_on_air(*here)?, next, rest))
}

fn ipv6(prefix: [u8; 8], node: NodeId) -> [u8; 16] {
    let mut address = [0; 16];
    address[..8].copy_from_slice(&prefix);
    address[8..].copy_from_slice(&identifier(node));
    address
}

const LINK_LOCAL: [u8; 8] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0];
/// The prefix of relayed packets, which is for documentation (RFC 3849).
const SITE: [u8; 8] = [0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0];

/// The address ff02::fd of all CoAP nodes.
fn all_coap_nodes() -> [u8; 16] {
    let mut address = [0; 16];
    [address[0], address[1], address[15]] = [0xff, 2, ALL_COAP_NODES];
    address
}

fn udp_checksum(packet: &Packet, neighbours: bool) -> u16 {
    let prefix = if neighbours { LINK_LOCAL } else { SITE };
    let [from, to] = [packet.from, packet.to].map(|node| match node {
        NodeId::EVERYBODY => all_coap_nodes(),
        node => ipv6(prefix, node),
    });
    checksum::udp(from, to, [PORT, PORT], &packet.payload)
}

/// The compressed IPv6 and UDP headers of a packet for the hop from `here` to `next`.
pub(super) fn compress(packet: &Packet, here: NodeId, next: NodeId) -> Vec<u8> {
    let neighbours = packet.from == here && packet.to == next;
    let mut headers = Vec::new();
    if next == NodeId::EVERYBODY {
        headers.extend([IPHC | HOPS_64, GROUP, ALL_COAP_NODES]);
    } else if neighbours {
        headers.extend([IPHC | HOPS_64, NEIGHBOURS]);
    } else {
        headers.extend([IPHC | HOPS_INLINE, RELAYED, packet.hops]);
        headers.extend(identifier(packet.from));
        headers.extend(identifier(packet.to));
    }
    headers.push(UDP);
    headers.extend(PORT.to_be_bytes());
    headers.extend(PORT.to_be_bytes());
    headers.extend(udp_checksum(packet, neighbours).to_be_bytes());
    headers
}

/// The fields of headers that were read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Headers {
    from: NodeId,
    to: NodeId,
    hops: u8,
    neighbours: bool,
    checksum: u16,
}

impl Headers {
    /// Reads the headers that [`compress`] wrote, in a frame from `here` to `next`. What is left in
    /// `r` is payload.
    pub(super) fn read(
        r: &mut Reader<'_>,
        here: NodeId,
        next: NodeId,
    ) -> Result<Self, DecodeError> {
        let invalid = DecodeError::invalid("6LoWPAN header");
        let (first, second) = (r.u8()?, r.u8()?);
        let to_all = next == NodeId::EVERYBODY;
        let shape = (first, second, to_all);
        let relayed = shape == (IPHC | HOPS_INLINE, RELAYED, false);
        let (from, to, hops) = if shape == (IPHC | HOPS_64, NEIGHBOURS, false) {
            (here, next, super::HOPS)
        } else if shape == (IPHC | HOPS_64, GROUP, true) {
            if r.u8()? != ALL_COAP_NODES {
                return Err(invalid);
            }
            (here, next, super::HOPS)
        } else if relayed {
            let hops = r.u8()?;
            let (from, to) = (node(r.array()?), node(r.array()?));
            (from.ok_or(invalid)?, to.ok_or(invalid)?, hops)
        } else {
            return Err(invalid);
        };
        let udp = (r.u8()?, r.u16()?, r.u16()?);
        if udp != (UDP, PORT, PORT) {
            return Err(DecodeError::invalid("UDP header"));
        }
        Ok(Self { from, to, hops, neighbours: !relayed, checksum: r.u16()? })
    }

    /// The packet with this payload; `None` if its checksum is wrong.
    pub(super) fn packet(&self, payload: Vec<u8>) -> Option<Packet> {
        let packet = Packet { from: self.from, to: self.to, hops: self.hops, payload };
        (udp_checksum(&packet, self.neighbours) == self.checksum).then_some(packet)
    }
}
