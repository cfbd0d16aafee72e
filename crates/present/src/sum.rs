//! Sums of encrypted counter blocks, from which the crate `lightmac` makes LightMAC's tags.

/// Length of a block, in bytes.
const BLOCK: usize = 8;

/// A cipher that encrypts and sums up counter blocks.
///
/// A counter block has `counter_bytes` bytes of a counter, 1 to 4, in big endian, and behind them a
/// share: that many bytes of a message as fill the block. The sum is kept in registers, so that
/// only message bytes pass through memory. A counter that does not fit is cut off; LightMAC's last
/// counter, 2^s, is written as 0 in this manner.
///
/// # Panics
///
/// The functions of [`Present80`](crate::Present80) and [`Present128`](crate::Present128) panic if
/// the counter does not have 1 to 4 bytes, or a state does not have 8 bytes.
pub trait CounterSum {
    /// Writes the sum of a whole message to `state`, which is zero before: its encrypted counter
    /// blocks, counted from 1, and the remainder of the message, padded with 10*.
    fn hash(&self, counter_bytes: usize, message: &[u8], state: &mut [u8]);

    /// Writes the sum of each of `messages` to its block of `states`, which is zero before. Blocks
    /// of several messages are encrypted together.
    fn hash_many(&self, counter_bytes: usize, messages: &[&[u8]], states: &mut [u8]);

    /// Encrypts the blocks of whole `shares` and adds them to `state`. The first counter is
    /// `counter`.
    fn add(&self, counter_bytes: usize, counter: u64, shares: &[u8], state: &mut [u8]);
}

/// Checks the arguments of a [`CounterSum`] with this number of states.
#[inline]
pub(crate) fn check(counter_bytes: usize, count: usize, states: &[u8]) {
    assert!((1..=BLOCK / 2).contains(&counter_bytes), "a counter has 1 to 4 bytes");
    assert_eq!(states.len(), count * BLOCK, "a state has 8 bytes");
}
