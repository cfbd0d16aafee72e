//! PRESENT on x86-64, bitsliced: every register holds one bit of many blocks.

mod avx512;

pub(crate) use avx512::Avx512;

/// Bytes of a block.
const BLOCK: usize = 8;

/// The message bytes left over, at most 7, zeros behind, with the bit that pads them: as a
/// little-endian number.
fn padded(rest: &[u8]) -> u64 {
    rest.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
        | 0x80 << (8 * rest.len())
}

/// Adds a little-endian number to a state.
fn add_to(state: &mut [u8], number: u64) {
    for (to, byte) in state.iter_mut().zip(number.to_le_bytes()) {
        *to ^= byte;
    }
}
