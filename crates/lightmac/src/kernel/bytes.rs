//! Few bytes as numbers, for the ends of messages.

/// At most 15 bytes as a little-endian number.
#[inline(always)]
pub(super) fn number(bytes: &[u8]) -> u128 {
    let bits = 8 * bytes.len() as u32;
    // Two overlapping words take less time than a copy of variable length.
    if let (Some(low), Some(high)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let (low, high) = (u64::from_le_bytes(*low), u64::from_le_bytes(*high));
        u128::from(low) | u128::from(high) << (bits - 64)
    } else if let (Some(low), Some(high)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let (low, high) = (u32::from_le_bytes(*low), u32::from_le_bytes(*high));
        u128::from(u64::from(low) | u64::from(high) << (bits - 32))
    } else {
        bytes.iter().rev().fold(0, |number, byte| number << 8 | u128::from(*byte))
    }
}

/// The remainder of a message, at most 15 bytes, with the padding bit.
#[inline(always)]
pub(super) fn padded(rest: &[u8]) -> u128 {
    number(rest) | 0x80 << (8 * rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_follows_the_last_byte() {
        let bytes: [u8; 15] = core::array::from_fn(|i| i as u8 + 1);
        for length in 0..=15 {
            let mut expected = [0; 16];
            expected[..length].copy_from_slice(&bytes[..length]);
            expected[length] = 0x80;
            assert_eq!(padded(&bytes[..length]).to_le_bytes(), expected, "{length} bytes");
        }
    }
}
