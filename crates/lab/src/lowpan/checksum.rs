//! Checksums of frames and datagrams.

/// Bytes of a frame's checksum.
pub(super) const FCS_BYTES: usize = 2;

/// IEEE 802.15.4's frame check sequence: x^16 + x^12 + x^5 + 1, least bit first, from 0.
fn fcs(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8)
            .fold(crc ^ u16::from(*byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { 0x8408 } else { 0 })
    })
}

/// Adds a frame's checksum.
pub(crate) fn append_fcs(frame: &mut Vec<u8>) {
    let crc = fcs(frame);
    frame.extend_from_slice(&crc.to_le_bytes());
}

/// A frame without its checksum, if that is right.
pub(super) fn check_fcs(frame: &[u8]) -> Option<&[u8]> {
    let (body, sum) = frame.split_last_chunk::<FCS_BYTES>()?;
    (fcs(body).to_le_bytes() == *sum).then_some(body)
}

/// The UDP checksum over the pseudo-header of IPv6 (RFC 8200, section 8.1).
pub(crate) fn udp(from: [u8; 16], to: [u8; 16], ports: [u16; 2], payload: &[u8]) -> u16 {
    const UDP: u32 = 17;
    let length = 8 + payload.len() as u32;
    let words = |bytes: &[u8]| {
        let pairs = bytes.chunks(2);
        pairs
            .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)))
            .sum::<u32>()
    };
    // The length stands in the pseudo-header and in the header.
    let sum = words(&from) + words(&to) + 2 * length + UDP;
    let sum = sum + u32::from(ports[0]) + u32::from(ports[1]) + words(payload);
    let folded = (sum & 0xffff) + (sum >> 16);
    match !((folded & 0xffff) + (folded >> 16)) as u16 {
        0 => 0xffff,
        sum => sum,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The standard's example (IEEE 802.15.4-2006, section 7.2.1.9), its bits in the order they are
    /// sent.
    #[test]
    fn the_standards_example() {
        let bytes = |bits: &str| -> Vec<u8> {
            let bits: Vec<u8> = bits.bytes().filter(|bit| *bit != b' ').map(|b| b - b'0').collect();
            bits.chunks(8).map(|byte| byte.iter().rev().fold(0, |n, bit| n << 1 | bit)).collect()
        };
        let mut frame = bytes("0100 0000 0000 0000 0101 0110");
        append_fcs(&mut frame);
        assert_eq!(frame[3..], bytes("0010 0111 1001 1110"));
        assert_eq!(check_fcs(&frame), Some(&frame[..3]));
    }
}
