//! UDP datagrams from captured frames.

use super::pcap::LinkType;
use crate::lowpan::{PORT, Packet, Reassembly, append_fcs, sender};
use crate::world::NodeId;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use lightseal_core::{DecodeError, Instant, Reader};
use std::collections::BTreeMap;

/// The largest number of 6LoWPAN packets, of all nodes together, that are reassembled at a time.
const PACKETS: usize = 256;

/// A UDP datagram that was captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// When the datagram's last frame was captured.
    pub at: Instant,
    /// The sender's address. Nodes of a simulated world have link-local addresses here, whatever
    /// their frames carry.
    pub from: SocketAddr,
    /// The receiver's address.
    pub to: SocketAddr,
    /// The UDP payload.
    pub payload: Vec<u8>,
}

/// Finds the UDP datagrams in captured frames. It reads Ethernet with VLAN tags, Linux's cooked
/// headers, IPv4 and IPv6 without fragments, and 6LoWPAN with fragments as
/// [`lowpan`](crate::lowpan) writes it.
#[derive(Debug)]
pub struct Datagrams {
    link: LinkType,
    reassembly: Reassembly,
    /// The last frame of each node, to recognise repetitions.
    last: BTreeMap<NodeId, Vec<u8>>,
    repeated: u64,
}

impl Datagrams {
    /// Reads frames of link type `link`.
    pub fn new(link: LinkType) -> Self {
        let reassembly = Reassembly::with_room(PACKETS);
        Self { link, reassembly, last: BTreeMap::new(), repeated: 0 }
    }

    /// Number of IEEE 802.15.4 frames that repeated their sender's previous frame.
    pub const fn repeated(&self) -> u64 {
        self.repeated
    }

    /// Takes a frame. Returns the datagram that it completes, if it does.
    pub fn take(&mut self, at: Instant, frame: &[u8]) -> Option<Datagram> {
        match self.link {
            LinkType::Ieee802154 => return self.radio(at, frame.to_vec()),
            LinkType::Ieee802154WithoutFcs => {
                let mut frame = frame.to_vec();
                append_fcs(&mut frame);
                return self.radio(at, frame);
            }
            _ => {}
        }
        let mut r = Reader::new(frame);
        let (from, to, payload) = unwrap(self.link, &mut r).ok()??;
        Some(Datagram { at, from, to, payload: payload.to_vec() })
    }

    fn radio(&mut self, at: Instant, frame: Vec<u8>) -> Option<Datagram> {
        let sender = sender(&frame)?;
        // The frame was sent again because its acknowledgement was lost, or to wake its receiver.
        if self.last.get(&sender) == Some(&frame) {
            self.repeated += 1;
            return None;
        }
        let packet = self.reassembly.take(at, &frame);
        self.last.insert(sender, frame);
        let Packet { from, to, payload, .. } = packet?;
        let address = |node: NodeId| {
            let ip = match node {
                NodeId::EVERYBODY => Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0xfd),
                node => node.link_local(),
            };
            SocketAddr::from((ip, PORT))
        };
        Some(Datagram { at, from: address(from), to: address(to), payload })
    }
}

/// Sender, receiver and payload.
type Parts<'a> = Option<(SocketAddr, SocketAddr, &'a [u8])>;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
/// The EtherTypes of IEEE 802.1Q and 802.1ad.
const VLANS: [u16; 2] = [0x8100, 0x88a8];
const UDP: u8 = 17;

fn unwrap<'a>(link: LinkType, r: &mut Reader<'a>) -> Result<Parts<'a>, DecodeError> {
    let ethertype = match link {
        LinkType::Ip | LinkType::Ipv4 | LinkType::Ipv6 => {
            return match r.rest().first().map(|first| first >> 4) {
                Some(4) => ipv4(r),
                Some(6) => ipv6(r),
                _ => Ok(None),
            };
        }
        LinkType::Ethernet => {
            r.take(12)?;
            let mut ethertype = r.u16()?;
            while VLANS.contains(&ethertype) {
                r.take(2)?;
                ethertype = r.u16()?;
            }
            ethertype
        }
        LinkType::Cooked => {
            r.take(14)?;
            r.u16()?
        }
        LinkType::Cooked2 => {
            let ethertype = r.u16()?;
            r.take(18)?;
            ethertype
        }
        LinkType::Ieee802154 | LinkType::Ieee802154WithoutFcs => return Ok(None),
    };
    match ethertype {
        ETHERTYPE_IPV4 => ipv4(r),
        ETHERTYPE_IPV6 => ipv6(r),
        _ => Ok(None),
    }
}

/// The header of RFC 791, section 3.1.
fn ipv4<'a>(r: &mut Reader<'a>) -> Result<Parts<'a>, DecodeError> {
    let first = r.u8()?;
    r.u8()?;
    let length = usize::from(r.u16()?);
    r.u16()?;
    let fragment = r.u16()?;
    r.u8()?;
    let protocol = r.u8()?;
    r.u16()?;
    let (from, to): ([u8; 4], [u8; 4]) = (r.array()?, r.array()?);
    let header = usize::from(first & 0x0f) * 4;
    r.take(header.checked_sub(20).ok_or(DecodeError::invalid("IPv4 header"))?)?;
    let body = r.take(length.checked_sub(header).ok_or(DecodeError::invalid("IPv4 length"))?)?;
    // A fragment: more fragments follow, or its offset is not zero.
    if first >> 4 != 4 || fragment & 0x3fff != 0 || protocol != UDP {
        return Ok(None);
    }
    udp(Ipv4Addr::from(from).into(), Ipv4Addr::from(to).into(), body)
}

/// The headers of RFC 8200, sections 3 and 4.
fn ipv6<'a>(r: &mut Reader<'a>) -> Result<Parts<'a>, DecodeError> {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const FRAGMENT: u8 = 44;
    const DESTINATION: u8 = 60;
    let version = r.u32()? >> 28;
    let length = usize::from(r.u16()?);
    let mut next = r.u8()?;
    r.u8()?;
    let (from, to): ([u8; 16], [u8; 16]) = (r.array()?, r.array()?);
    let mut body = Reader::new(r.take(length)?);
    loop {
        next = match next {
            HOP_BY_HOP | ROUTING | DESTINATION => {
                let next = body.u8()?;
                let units = usize::from(body.u8()?);
                body.take(6 + 8 * units)?;
                next
            }
            FRAGMENT => {
                let next = body.u8()?;
                body.u8()?;
                // An atomic fragment is a whole packet (RFC 6946).
                if body.u16()? & !6 != 0 {
                    return Ok(None);
                }
                body.u32()?;
                next
            }
            UDP if version == 6 => {
                return udp(Ipv6Addr::from(from).into(), Ipv6Addr::from(to).into(), body.rest());
            }
            _ => return Ok(None),
        }
    }
}

/// The header of RFC 768.
fn udp(from: IpAddr, to: IpAddr, body: &[u8]) -> Result<Parts<'_>, DecodeError> {
    let mut r = Reader::new(body);
    let (source, destination) = (r.u16()?, r.u16()?);
    let length = usize::from(r.u16()?);
    r.u16()?;
    let payload = r.take(length.checked_sub(8).ok_or(DecodeError::invalid("UDP length"))?)?;
    Ok(Some(((from, source).into(), (to, destination).into(), payload)))
}

/// An IPv6 packet with a UDP datagram, for a capture of [`LinkType::Ip`]. IPv4 addresses are
/// written in their IPv6-mapped form. `None` if the payload is too long for a packet.
pub(super) fn ipv6_packet(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Option<Vec<u8>> {
    let [source, destination] = [from, to].map(|address| match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    });
    let length = u16::try_from(8 + payload.len()).ok()?;
    let checksum =
        crate::lowpan::udp_checksum(source, destination, [from.port(), to.port()], payload);
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend(length.to_be_bytes());
    packet.extend([UDP, 64]);
    packet.extend(source);
    packet.extend(destination);
    for field in [from.port(), to.port(), length, checksum] {
        packet.extend(field.to_be_bytes());
    }
    packet.extend_from_slice(payload);
    Some(packet)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lowpan::frames;
    use lightseal_core::Random;

    const PAYLOAD: [u8; 5] = *b"hello";

    /// A datagram over IPv4 with options, and over IPv6 with three extension headers.
    fn packets() -> [(SocketAddr, SocketAddr, Vec<u8>); 2] {
        let udp = [&[0x9c, 0x40, 0x16, 0x34, 0, 13, 0, 0][..], &PAYLOAD].concat();
        let mut v4 = vec![0x46, 0, 0, 37, 0, 1, 0x40, 0, 64, 17, 0, 0];
        v4.extend([192, 0, 2, 1, 192, 0, 2, 2, 1, 1, 1, 1]);
        v4.extend(&udp);
        let mut v6 = vec![0x60, 0, 0, 0, 0, 8 + 16 + 8 + 13, 0, 64];
        let [from, to] = ["2001:db8::1", "2001:db8::2"].map(|ip| ip.parse::<Ipv6Addr>().unwrap());
        v6.extend(from.octets());
        v6.extend(to.octets());
        v6.extend([60, 0, 1, 4, 0, 0, 0, 0, 44, 1]);
        v6.extend([0; 14]);
        v6.extend([17, 0, 0, 0, 0, 0, 0, 7]);
        v6.extend(&udp);
        [
            ("192.0.2.1:40000".parse().unwrap(), "192.0.2.2:5684".parse().unwrap(), v4),
            ((from, 40000).into(), (to, 5684).into(), v6),
        ]
    }

    #[test]
    fn datagrams_come_out_of_every_link_layer() {
        for (i, (from, to, packet)) in packets().into_iter().enumerate() {
            let ethertype = if i == 0 { [8, 0] } else { [0x86, 0xdd] };
            let wrap = |head: &[&[u8]]| [&head.concat()[..], &packet, &[0; 4]].concat();
            let frames = [
                (LinkType::Ip, wrap(&[])),
                (LinkType::Ethernet, wrap(&[&[1; 12], &ethertype])),
                (LinkType::Ethernet, wrap(&[&[1; 12], &[0x81, 0, 0, 5], &ethertype])),
                (LinkType::Cooked, wrap(&[&[0; 14], &ethertype])),
                (LinkType::Cooked2, wrap(&[&ethertype, &[0; 18]])),
                (if i == 0 { LinkType::Ipv4 } else { LinkType::Ipv6 }, wrap(&[])),
            ];
            for (link, frame) in frames {
                let at = Instant::from_micros(3);
                let expected = Datagram { at, from, to, payload: PAYLOAD.to_vec() };
                assert_eq!(Datagrams::new(link).take(at, &frame), Some(expected), "{link:?}");
                let whole = frame.len() - 4;
                for cut in 0..whole {
                    assert_eq!(Datagrams::new(link).take(at, &frame[..cut]), None, "{link:?}");
                }
            }
        }
    }

    #[test]
    fn fragments_of_ip_are_passed_over() {
        let [(_, _, mut v4), (_, _, mut v6)] = packets();
        v4[6] = 0x20;
        v6[40 + 8 + 16 + 3] = 1;
        for packet in [v4, v6] {
            assert_eq!(Datagrams::new(LinkType::Ip).take(Instant::ZERO, &packet), None);
        }
    }

    #[test]
    fn packets_that_are_written_are_read() {
        for (from, to, _) in packets() {
            let packet = ipv6_packet(from, to, &PAYLOAD).unwrap();
            let got = Datagrams::new(LinkType::Ip).take(Instant::ZERO, &packet).unwrap();
            assert_eq!((got.from.port(), &got.payload[..]), (40000, &PAYLOAD[..]));
            assert_eq!(got.from.ip().to_canonical(), from.ip());
        }
        let [(from, to, _), _] = packets();
        assert!(ipv6_packet(from, to, &[0; 65_527]).is_some());
        assert_eq!(ipv6_packet(from, to, &[0; 65_528]), None);
    }

    #[test]
    fn radio_frames_are_put_together_and_repetitions_passed_over() {
        let packet = Packet::new(NodeId(3), NodeId(4), &[7; 300]);
        let sent = frames(&packet, NodeId(3), NodeId(4), &mut Default::default());
        for without_fcs in [false, true] {
            let link =
                if without_fcs { LinkType::Ieee802154WithoutFcs } else { LinkType::Ieee802154 };
            let mut datagrams = Datagrams::new(link);
            let mut got = Vec::new();
            for frame in sent.iter().flat_map(|frame| [frame, frame]) {
                let frame = if without_fcs { &frame[..frame.len() - 2] } else { frame };
                got.extend(datagrams.take(Instant::ZERO, frame));
            }
            assert_eq!(got.len(), 1);
            assert_eq!(got[0].payload, packet.payload);
            assert_eq!(got[0].from, "[fe80::ff:fe00:3]:5684".parse().unwrap());
            assert_eq!(datagrams.repeated(), sent.len() as u64);
        }
    }

    #[test]
    fn junk_is_read_without_a_panic() {
        let mut rng = Random::insecure(23);
        let packet = Packet::new(NodeId(3), NodeId(4), &[7; 300]);
        let mut corpus = frames(&packet, NodeId(3), NodeId(4), &mut Default::default());
        corpus.extend(packets().map(|(_, _, packet)| packet));
        for link in [
            LinkType::Ethernet,
            LinkType::Ip,
            LinkType::Cooked2,
            LinkType::Ieee802154,
            LinkType::Ieee802154WithoutFcs,
        ] {
            let mut datagrams = Datagrams::new(link);
            for _ in 0..20_000 {
                let mut frame = corpus[rng.below(corpus.len() as u64) as usize].clone();
                for _ in 0..rng.below(4) {
                    let at = rng.below(frame.len() as u64) as usize;
                    frame[at] = rng.below(256) as u8;
                }
                frame.truncate(rng.below(2 * frame.len() as u64) as usize);
                datagrams.take(Instant::from_micros(rng.below(1 << 20)), &frame);
            }
        }
    }
}
