//! The limits that follow from a block length and a counter length, and the errors.

use core::fmt;

/// The block lengths of supported ciphers, in bytes (32 to 128 bits).
pub(crate) const BLOCK_BYTES: core::ops::RangeInclusive<usize> = 4..=16;

/// The length of the longest message in bits, 2^s·(n − s), for a block of `block_bytes` bytes and a
/// counter of `counter_bits` bits.
///
/// It fits a `u128` for every permitted pair, because it is at most 2^70.
pub const fn max_message_bits(block_bytes: usize, counter_bits: u32) -> u128 {
    (1u128 << counter_bits) * (block_bytes as u128 * 8 - counter_bits as u128)
}

/// The length of the longest message in whole bytes. It saturates at `u64::MAX`.
pub const fn max_message_bytes(block_bytes: usize, counter_bits: u32) -> u64 {
    let bytes = max_message_bits(block_bytes, counter_bits) / 8;
    if bytes > u64::MAX as u128 { u64::MAX } else { bytes as u64 }
}

/// Checks block length and counter length: 4 to 16 bytes, and 1 ≤ s ≤ n/2.
pub(crate) const fn check_counter(
    block_bytes: usize,
    counter_bits: u32,
) -> Result<(), ParameterError> {
    if block_bytes < *BLOCK_BYTES.start() || block_bytes > *BLOCK_BYTES.end() {
        Err(ParameterError::BlockSize)
    } else if counter_bits == 0 || counter_bits as usize > block_bytes * 4 {
        Err(ParameterError::CounterBits)
    } else {
        Ok(())
    }
}

/// The error of parameters for which LightMAC is not defined, which is a misuse by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParameterError {
    /// The cipher's block does not have 4 to 16 bytes.
    BlockSize,
    /// The counter length s is not from 1 to n/2 bits.
    CounterBits,
    /// The tag length t is not from 1 to n bits.
    TagBits,
}

impl fmt::Display for ParameterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BlockSize => "LightMAC needs a cipher with blocks of 4 to 16 bytes",
            Self::CounterBits => "the counter length must be 1 to half a block's bits",
            Self::TagBits => "the tag length must be 1 to a block's bits",
        })
    }
}

impl core::error::Error for ParameterError {}

/// The error of a message with more than 2^s·(n − s) bits, for which the counter would repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MessageTooLong {
    /// The length of the longest message that the parameters allow, in bits.
    pub max_bits: u128,
}

impl fmt::Display for MessageTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "message longer than LightMAC's counter allows ({} bits)", self.max_bits)
    }
}

impl core::error::Error for MessageTooLong {}

/// The error of a tag that does not belong to the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyError;

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tag mismatch")
    }
}

impl core::error::Error for VerifyError {}

/// The reason why a batch was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BatchError {
    /// The number of output blocks differs from that of messages, which is a misuse by the caller.
    LengthsDiffer,
    /// A message is too long for the counter.
    TooLong(MessageTooLong),
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LengthsDiffer => f.write_str("a batch needs one output block for each message"),
            Self::TooLong(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for BatchError {}

impl From<MessageTooLong> for BatchError {
    fn from(error: MessageTooLong) -> Self {
        Self::TooLong(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_example() {
        // n = 32, s = 16: a message may have up to 2^15 blocks of 32 bits (section 1.1).
        assert_eq!(max_message_bits(4, 16), 32 << 15);
        assert_eq!(max_message_bytes(16, 8), 3840);
        assert_eq!(max_message_bytes(16, 64), u64::MAX);
    }

    #[test]
    fn edges_come_in_pairs() {
        assert_eq!(check_counter(4, 16), Ok(()));
        assert_eq!(check_counter(4, 17), Err(ParameterError::CounterBits));
        assert_eq!(check_counter(4, 1), Ok(()));
        assert_eq!(check_counter(4, 0), Err(ParameterError::CounterBits));
        assert_eq!(check_counter(3, 8), Err(ParameterError::BlockSize));
        assert_eq!(check_counter(16, 64), Ok(()));
        assert_eq!(check_counter(17, 64), Err(ParameterError::BlockSize));
    }
}
