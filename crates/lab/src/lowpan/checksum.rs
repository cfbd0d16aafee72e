//! Checksums of frames and datagrams.

/// Length of a frame's checksum, in bytes.
pub(super) const FCS_BYTES: usize = 2;

/// The frame check sequence of IEEE 802.15.4: polynomial x^16 + x^12 + x^5 + 1, least significant
/// bit first, initial value 0.
fn fcs(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8)
            .fold(crc ^ u16::from(*byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { 0x8408 } else { 0 })
    })
}

/// Appends the checksum to a frame.
pub(crate) fn append_fcs(frame: &mut Vec<u8>) {
    let crc = fcs(frame);
    frame.extend_from_slice(&crc.to_le_bytes());
}

/// Removes the checksum from a frame; `None` if it is wrong.
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
    // The length is summed twice, because both the pseudo-header and the UDP header have it.
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

    /// The example of IEEE 802.15.4-2006, section 7.2.1.9, with the bits in the order in which they
    /// are sent.
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
