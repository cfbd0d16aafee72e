//! The two cyclic redundancy checks of 32 bits that WebRTC needs, bit by bit.

/// The CRC-32 of a STUN fingerprint (RFC 8489, section 14.7).
pub(super) fn crc32(bytes: &[u8]) -> u32 {
    reflected(0xedb8_8320, bytes)
}

/// The CRC-32c of an SCTP packet (RFC 9260, appendix A).
pub(super) fn crc32c(bytes: &[u8]) -> u32 {
    reflected(0x82f6_3b78, bytes)
}

fn reflected(polynomial: u32, bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            (sum >> 1) ^ if sum & 1 == 1 { polynomial } else { 0 }
        })
    })
}

#[cfg(test)]
mod tests {
    /// The check values of both in the catalogue of parametrised CRC algorithms.
    #[test]
    fn both_have_their_check_values() {
        assert_eq!(super::crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(super::crc32c(b"123456789"), 0xe306_9283);
    }
}
