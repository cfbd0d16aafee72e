//! How long a device takes to compute.

use serde::{Deserialize, Serialize};

/// The amount of computation that a program did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Computation {
    /// Datagrams that went through the network stack.
    pub datagrams: u32,
    /// Blocks of 16 bytes that a block cipher processed.
    pub cipher_blocks: u32,
    /// Blocks of 64 bytes that a hash function processed.
    pub hash_blocks: u32,
    /// Multiplications on an elliptic curve.
    pub curve_multiplications: u32,
}

impl core::ops::AddAssign for Computation {
    fn add_assign(&mut self, other: Self) {
        self.datagrams += other.datagrams;
        self.cipher_blocks += other.cipher_blocks;
        self.hash_blocks += other.hash_blocks;
        self.curve_multiplications += other.curve_multiplications;
    }
}

/// A processor: the cycles of each operation, and the clock rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cpu {
    /// The clock rate, in MHz.
    pub megahertz: f64,
    /// Cycles that the network stack takes for a datagram, sent or received.
    pub datagram_cycles: f64,
    /// Cycles for one block of a block cipher.
    pub cipher_block_cycles: f64,
    /// Cycles for one block of a hash function.
    pub hash_block_cycles: f64,
    /// Cycles for one multiplication on an elliptic curve.
    pub exchange_cycles: f64,
}

impl Cpu {
    /// How long the computation takes, in microseconds.
    pub fn micros(&self, work: Computation) -> u64 {
        let cycles = f64::from(work.datagrams) * self.datagram_cycles
            + f64::from(work.cipher_blocks) * self.cipher_block_cycles
            + f64::from(work.hash_blocks) * self.hash_block_cycles
            + f64::from(work.curve_multiplications) * self.exchange_cycles;
        (cycles / self.megahertz).round() as u64
    }
}
