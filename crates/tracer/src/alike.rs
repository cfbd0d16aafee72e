//! What is compared, whichever way operations are watched.

use crate::compare;

/// Counts of what was compared and found equal.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Alike {
    /// Number of instructions that each process executed.
    pub instructions: u64,
    /// Number of memory addresses that each process used, or of its accesses.
    pub addresses: u64,
}

/// Byte strings with little in common, so that shortcuts for zeros are detected as well.
pub fn secrets(length: usize) -> [Vec<u8>; 2] {
    let mut state = 1u64;
    let mut next = || {
        // Knuth's generator for MMIX.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    [vec![0; length], (0..length).map(|_| next()).collect()]
}

/// Asserts that `operation` executes the same instructions with the same addresses, whichever
/// secret `prepare` got.
pub fn alike<T, R>(
    name: &str,
    secrets: &[Vec<u8>],
    prepare: impl Fn(&[u8]) -> T,
    operation: impl Fn(&mut T) -> R,
) {
    match compare(secrets, prepare, operation) {
        Ok(alike) => println!(
            "{name}: {} instructions with {} memory addresses alike",
            alike.instructions, alike.addresses
        ),
        Err(leak) => panic!("{name}: {leak}"),
    }
}

/// # Panics
/// If runs with these secrets would show nothing.
pub(crate) fn assert_comparable(secrets: &[Vec<u8>]) {
    assert!(secrets.len() > 1, "nothing to compare with");
    assert!(
        secrets.windows(2).all(|pair| pair[0].len() == pair[1].len()),
        "secrets of equal length"
    );
}
