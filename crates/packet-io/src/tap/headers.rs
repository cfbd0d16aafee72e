//! Headers of TCP in IP in Ethernet, as far as splitting and joining segments needs them, and their
//! checksums.

use std::ops::Range;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86DD;
/// The EtherTypes of both kinds of VLAN tags (IEEE 802.1Q, 9.5).
const TAGS: [u16; 2] = [0x8100, 0x88A8];
/// The protocol number of TCP (RFC 9293).
const TCP: u8 = 6;

/// Bits of TCP's flags (RFC 9293, 3.1; RFC 3168).
pub(super) const FIN: u8 = 0x01;
pub(super) const PSH: u8 = 0x08;
pub(super) const ACK: u8 = 0x10;
pub(super) const CWR: u8 = 0x80;

/// The offset in bytes of the checksum in a TCP header.
pub(super) const TCP_CHECKSUM: usize = 16;

/// Offsets in bytes of the headers of a TCP segment in its frame. The frame they were read from is
/// at least `payload` bytes long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentOffsets {
    pub(super) is_ipv6: bool,
    pub(super) ip: usize,
    pub(super) tcp: usize,
    pub(super) payload: usize,
}

impl SegmentOffsets {
    /// Finds the headers; `None` for any other frame, for fragments, and if IP has options or
    /// extension headers.
    pub(super) fn find(frame: &[u8]) -> Option<Self> {
        let mut at = 12;
        let mut kind = be16(frame, at)?;
        for _ in 0..2 {
            if TAGS.contains(&kind) {
                at += 4;
                kind = be16(frame, at)?;
            }
        }
        let ip = at + 2;
        let tcp = match kind {
            IPV4 => {
                let header = frame.get(ip..ip + 20)?;
                let is_whole = be16(header, 6)? & 0x3FFF == 0;
                (header[0] == 0x45 && is_whole && header[9] == TCP).then_some(ip + 20)?
            }
            IPV6 => {
                let header = frame.get(ip..ip + 40)?;
                (header[0] >> 4 == 6 && header[6] == TCP).then_some(ip + 40)?
            }
            _ => return None,
        };
        let words = usize::from(*frame.get(tcp + 12)? >> 4);
        let payload = tcp + 4 * words;
        let is_there = words >= 5 && payload <= frame.len();
        is_there.then_some(Self { is_ipv6: kind == IPV6, ip, tcp, payload })
    }

    /// The length of the IP packet in bytes, from its header.
    pub(super) fn ip_len(&self, frame: &[u8]) -> Option<usize> {
        if self.is_ipv6 {
            Some(usize::from(be16(frame, self.ip + 4)?) + 40)
        } else {
            be16(frame, self.ip + 2).map(usize::from)
        }
    }

    /// The position of the IP addresses.
    pub(super) const fn addresses(&self) -> Range<usize> {
        if self.is_ipv6 { self.ip + 8..self.ip + 40 } else { self.ip + 12..self.ip + 20 }
    }

    /// Writes the IP length of a packet that ends `len` bytes after the beginning of its frame (at
    /// most 65 535 bytes of IP), and IPv4's checksum.
    pub(super) fn set_len(&self, headers: &mut [u8], len: usize) {
        let ip_len = len - self.ip;
        if self.is_ipv6 {
            put16(headers, self.ip + 4, (ip_len - 40) as u16);
        } else {
            put16(headers, self.ip + 2, ip_len as u16);
            put16(headers, self.ip + 10, 0);
            let checksum = !fold(sum(&headers[self.ip..self.tcp]));
            put16(headers, self.ip + 10, checksum);
        }
    }

    /// The sum over the pseudo-header (RFC 9293, 3.1; RFC 8200, 8.1) of a segment that ends `len`
    /// bytes after the beginning of its frame.
    pub(super) fn pseudo_sum(&self, headers: &[u8], len: usize) -> u64 {
        sum(&headers[self.addresses()]) + u64::from(TCP) + (len - self.tcp) as u64
    }

    /// Whether TCP's checksum and IPv4's header checksum are right.
    pub(super) fn is_right(&self, frame: &[u8]) -> bool {
        let tcp = self.pseudo_sum(frame, frame.len()) + sum(&frame[self.tcp..]);
        fold(tcp) == 0xFFFF && (self.is_ipv6 || fold(sum(&frame[self.ip..self.tcp])) == 0xFFFF)
    }
}

/// The sum of RFC 1071 over bytes, not folded. Sums of parts of even length can be added.
pub(super) fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    // Words are summed in the machine's byte order, which is corrected at the end (RFC 1071, 2B).
    // No sum over a frame comes near 2^64.
    let mut sum: u64 = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    sum += u64::from(u32::from_ne_bytes(last));
    u64::from(u16::from_be(fold(sum)))
}

/// Folds a sum to 16 bits: 2^16 is 1 modulo 2^16 - 1.
pub(super) const fn fold(mut sum: u64) -> u16 {
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    sum as u16
}

pub(super) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_be_bytes)
}

pub(super) fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes)
}

pub(super) fn put16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A segment with right checksums, from its sequence number, flags and payload.
    pub(in crate::tap) fn segment(is_ipv6: bool, seq: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        if is_ipv6 {
            frame.extend([0x86, 0xDD, 0x60, 0, 0, 0, 0, 0, TCP, 64]);
            frame.extend([0x11; 32]);
        } else {
            frame.extend([
                8, 0, 0x45, 0, 0, 0, 0, 7, 0x40, 0, 64, TCP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
            ]);
        }
        frame.extend([0, 80, 0xC0, 1]);
        frame.extend(seq.to_be_bytes());
        frame.extend([9, 9, 9, 9, 0x80, flags, 1, 0, 0, 0, 0, 0]);
        frame.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
        frame.extend(payload);
        let offsets = SegmentOffsets::find(&frame).unwrap();
        let len = frame.len();
        offsets.set_len(&mut frame, len);
        let checksum = !fold(offsets.pseudo_sum(&frame, len) + sum(&frame[offsets.tcp..]));
        put16(&mut frame, offsets.tcp + TCP_CHECKSUM, checksum);
        frame
    }

    #[test]
    fn sums_are_those_of_the_slow_way() {
        for len in [0, 1, 2, 3, 4, 5, 31, 1500] {
            let bytes: Vec<u8> = (0..len).map(|i| (i * 37 + 5) as u8).collect();
            let slow: u64 = bytes
                .chunks(2)
                .map(|two| u64::from(two[0]) << 8 | two.get(1).copied().map_or(0, u64::from))
                .sum();
            assert_eq!(fold(sum(&bytes)), fold(slow), "{len}");
        }
    }

    #[test]
    fn headers_are_found_and_each_changed_byte_is_noticed() {
        for is_ipv6 in [false, true] {
            let frame = segment(is_ipv6, 5, ACK, b"payload");
            let offsets = SegmentOffsets::find(&frame).unwrap();
            assert_eq!(offsets.ip_len(&frame), Some(frame.len() - 14));
            assert!(offsets.is_right(&frame) && &frame[offsets.payload..] == b"payload");
            for at in offsets.addresses().chain(offsets.tcp..frame.len()) {
                let mut changed = frame.clone();
                changed[at] ^= 1;
                assert!(!offsets.is_right(&changed), "{at}");
            }
            for cut in 0..offsets.payload {
                assert_eq!(SegmentOffsets::find(&frame[..cut]), None, "{cut}");
            }
        }
    }

    #[test]
    fn tags_are_skipped_and_fragments_left_alone() {
        let mut frame = segment(false, 5, ACK, b"payload");
        let untagged = SegmentOffsets::find(&frame).unwrap();
        frame[20] = 0x20;
        assert_eq!(SegmentOffsets::find(&frame), None, "more fragments");
        frame[20] = 0x40;
        frame.splice(12..12, [0x81, 0, 0, 5]);
        assert_eq!(SegmentOffsets::find(&frame).unwrap().ip, untagged.ip + 4);
    }
}
