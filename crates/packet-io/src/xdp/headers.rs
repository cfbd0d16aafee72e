//! Ethernet, IP and UDP headers of a tunnel's datagrams.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;

/// Length in bytes of an Ethernet header.
pub(super) const ETHERNET: usize = 14;
/// Length in bytes of an IPv4 header without options (RFC 791).
pub(super) const IPV4: usize = 20;
/// Length in bytes of an IPv6 header (RFC 8200).
pub(super) const IPV6: usize = 40;
/// Length in bytes of a UDP header (RFC 768).
pub(super) const UDP: usize = 8;
/// Length in bytes of the longest headers before a payload.
pub(super) const LONGEST: usize = ETHERNET + IPV6 + UDP;
/// The TTL or hop limit: how many routers a datagram may pass.
const HOPS: u8 = 64;

pub(super) mod protocol {
    pub(in crate::xdp) const UDP: u8 = 17;
}

/// The EtherType of an address family.
pub(super) fn ethertype_of(ip: IpAddr) -> u16 {
    if ip.is_ipv4() { 0x0800 } else { 0x86DD }
}

/// Length in bytes of the IP and UDP headers.
pub(super) fn overhead(ip: IpAddr) -> usize {
    UDP + if ip.is_ipv4() { IPV4 } else { IPV6 }
}

/// The addresses of a datagram and of the link it is sent on.
#[derive(Clone, Copy, Debug)]
pub(super) struct DatagramAddresses {
    pub(super) own_mac: [u8; 6],
    pub(super) next_mac: [u8; 6],
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
}

/// Writes the headers for a payload into `buffer` and returns their length in bytes; `None` if the
/// addresses are of two families or the payload is too long for its length field.
///
/// Over IPv4 the datagram may not be fragmented and has no UDP checksum (RFC 768). Over IPv6 it has
/// one.
pub(super) fn write(
    buffer: &mut [u8; LONGEST],
    addresses: &DatagramAddresses,
    class: u8,
    payload: &[u8],
) -> Option<usize> {
    let udp_len = u16::try_from(UDP + payload.len()).ok()?;
    buffer[..6].copy_from_slice(&addresses.next_mac);
    buffer[6..12].copy_from_slice(&addresses.own_mac);
    buffer[12..14].copy_from_slice(&ethertype_of(addresses.to.ip()).to_be_bytes());
    let ip_len = match (addresses.from.ip(), addresses.to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let ip = &mut buffer[ETHERNET..ETHERNET + IPV4];
            ip.fill(0);
            (ip[0], ip[1]) = (0x45, class);
            ip[2..4].copy_from_slice(&udp_len.checked_add(IPV4 as u16)?.to_be_bytes());
            ip[6] = 0x40; // Do not fragment.
            (ip[8], ip[9]) = (HOPS, protocol::UDP);
            ip[12..16].copy_from_slice(&from.octets());
            ip[16..20].copy_from_slice(&to.octets());
            let checksum = !sum(0, ip);
            ip[10..12].copy_from_slice(&checksum.to_be_bytes());
            IPV4
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let ip = &mut buffer[ETHERNET..ETHERNET + IPV6];
            ip.fill(0);
            (ip[0], ip[1]) = (0x60 | class >> 4, class << 4);
            ip[4..6].copy_from_slice(&udp_len.to_be_bytes());
            (ip[6], ip[7]) = (protocol::UDP, HOPS);
            ip[8..24].copy_from_slice(&from.octets());
            ip[24..40].copy_from_slice(&to.octets());
            IPV6
        }
        _ => return None,
    };
    let at = ETHERNET + ip_len;
    let udp = &mut buffer[at..at + UDP];
    udp[..2].copy_from_slice(&addresses.from.port().to_be_bytes());
    udp[2..4].copy_from_slice(&addresses.to.port().to_be_bytes());
    udp[4..6].copy_from_slice(&udp_len.to_be_bytes());
    udp[6..].fill(0);
    if ip_len == IPV6 {
        // RFC 8200, section 8.1: the checksum covers the pseudo-header, the UDP header and the
        // payload. Zero is sent as all ones.
        let pseudo = u64::from(udp_len) + u64::from(protocol::UDP);
        let headers = sum(pseudo, &buffer[ETHERNET + 8..at + UDP]);
        let checksum = match !sum(u64::from(headers), payload) {
            0 => u16::MAX,
            checksum => checksum,
        };
        buffer[at + 6..at + 8].copy_from_slice(&checksum.to_be_bytes());
    }
    Some(at + UDP)
}

/// The sum of RFC 1071 over bytes, added to the sum `before`.
fn sum(before: u64, bytes: &[u8]) -> u16 {
    let mut sum = u128::from(before);
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        sum += u128::from(u64::from_be_bytes(word.try_into().expect("eight bytes")));
    }
    let mut last = [0; 8];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    sum += u128::from(u64::from_be_bytes(last));
    // 2^16 is 1 modulo 2^16 - 1, so words of any multiple of 16 bits fold to the same.
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    sum as u16
}

/// The headers of a received datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DatagramHeaders {
    pub(super) from: SocketAddr,
    pub(super) class: u8,
    /// The position of the payload in the frame.
    pub(super) payload: Range<usize>,
}

/// Reads the headers of a frame that the program took; `None` if their lengths do not match the
/// frame.
///
/// The program has already compared addresses and protocols. Checksums are ignored, because packets
/// of a tunnel carry an authentication tag.
pub(super) fn read(frame: &[u8]) -> Option<DatagramHeaders> {
    let (from, class, ip_len, ip_payload) = match frame.get(12..14)? {
        [0x08, 0x00] => {
            let ip = frame.get(ETHERNET..ETHERNET + IPV4)?;
            let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
            let from = Ipv4Addr::new(ip[12], ip[13], ip[14], ip[15]);
            (IpAddr::V4(from), ip[1], IPV4, total.checked_sub(IPV4)?)
        }
        [0x86, 0xDD] => {
            let ip = frame.get(ETHERNET..ETHERNET + IPV6)?;
            let from: [u8; 16] = ip[8..24].try_into().ok()?;
            let class = ip[0] << 4 | ip[1] >> 4;
            let len = usize::from(u16::from_be_bytes([ip[4], ip[5]]));
            (IpAddr::V6(Ipv6Addr::from(from)), class, IPV6, len)
        }
        _ => return None,
    };
    let at = ETHERNET + ip_len;
    let udp = frame.get(at..at + UDP)?;
    let port = u16::from_be_bytes([udp[0], udp[1]]);
    let udp_len = usize::from(u16::from_be_bytes([udp[4], udp[5]]));
    // Bytes after the datagram are padding of a short Ethernet frame.
    let whole = udp_len >= UDP && udp_len <= ip_payload && at + udp_len <= frame.len();
    let payload = at + UDP..at + udp_len;
    whole.then_some(DatagramHeaders { from: SocketAddr::new(from, port), class, payload })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(from: &str, to: &str) -> DatagramAddresses {
        let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
        DatagramAddresses { own_mac: [2; 6], next_mac: [4; 6], from, to }
    }

    fn frame(addresses: &DatagramAddresses, class: u8, payload: &[u8]) -> Vec<u8> {
        let mut headers = [0xEE; LONGEST];
        let len = write(&mut headers, addresses, class, payload).unwrap();
        [&headers[..len], payload].concat()
    }

    #[test]
    fn what_is_written_is_read() {
        for addresses in
            [addresses("192.0.2.1:4500", "192.0.2.2:9"), addresses("[fd00::1]:1", "[fd00::2]:2")]
        {
            for class in [0, 0xB8, 0xFF] {
                for len in [0, 1, 9, 1400] {
                    let mut frame = frame(&addresses, class, &vec![7; len]);
                    let end = frame.len();
                    frame.resize(end.max(60), 0);
                    let read = read(&frame).unwrap();
                    assert_eq!((read.from, read.class), (addresses.from, class));
                    assert_eq!(read.payload, end - len..end);
                }
            }
        }
    }

    #[test]
    fn checksums_are_those_of_the_standards() {
        let four = frame(&addresses("192.0.2.1:1", "192.0.2.2:2"), 0xB8, b"odd");
        assert_eq!(sum(0, &four[ETHERNET..ETHERNET + IPV4]), 0xFFFF);
        let six = frame(&addresses("[2001:db8::1]:1", "[2001:db8::2]:2"), 0, b"odd");
        assert_eq!(sum(11 + 17, &six[ETHERNET + 8..]), 0xFFFF);
        // The example of RFC 1071, section 3.
        assert_eq!(sum(0, &[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
    }

    #[test]
    fn addresses_of_two_families_and_long_payloads_are_refused() {
        let mut headers = [0; LONGEST];
        assert!(write(&mut headers, &addresses("192.0.2.1:1", "[fd00::2]:2"), 0, b"").is_none());
        let four = addresses("192.0.2.1:1", "192.0.2.2:2");
        assert!(write(&mut headers, &four, 0, &vec![0; 65535 - 28]).is_some());
        assert!(write(&mut headers, &four, 0, &vec![0; 65535 - 27]).is_none());
    }

    proptest::proptest! {
        #[test]
        fn noise_is_read_inside_of_its_frame(
            kind in proptest::sample::select(vec![[0x08, 0x00], [0x86, 0xDD]]),
            mut noise in proptest::collection::vec(proptest::num::u8::ANY, 14..120),
        ) {
            noise[12..14].copy_from_slice(&kind);
            if let Some(read) = read(&noise) {
                proptest::prop_assert!(noise.get(read.payload).is_some());
            }
        }
    }

    #[test]
    fn lengths_that_are_not_true_and_cut_frames_are_nothing() {
        for addresses in
            [addresses("192.0.2.1:4500", "192.0.2.2:9"), addresses("[fd00::1]:1", "[fd00::2]:2")]
        {
            let frame = frame(&addresses, 0, b"payload");
            for cut in 0..frame.len() {
                assert_eq!(read(&frame[..cut]), None, "{cut}");
            }
            let udp_len = frame.len() - 7 - 4;
            for len in [0_u16, 7, 16, 65535] {
                let mut altered = frame.clone();
                altered[udp_len..udp_len + 2].copy_from_slice(&len.to_be_bytes());
                assert_eq!(read(&altered), None, "{len}");
            }
        }
    }
}
