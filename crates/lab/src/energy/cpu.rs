//! How long a device computes.

use serde::{Deserialize, Serialize};

/// What a program computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Datagrams that went through the network stack.
    pub datagrams: u32,
    /// Blocks of 16 bytes that a block cipher processed.
    pub cipher_blocks: u32,
    /// Blocks of 64 bytes that a hash function processed.
    pub hash_blocks: u32,
    /// Multiplications on an elliptic curve.
    pub exchanges: u32,
}

impl core::ops::AddAssign for Work {
    fn add_assign(&mut self, other: Self) {
        self.datagrams += other.datagrams;
        self.cipher_blocks += other.cipher_blocks;
        self.hash_blocks += other.hash_blocks;
        self.exchanges += other.exchanges;
    }
}

/// A processor: cycles an operation over the clock.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cpu {
    /// The clock.
    pub megahertz: f64,
    /// Cycles of the network stack for a datagram, either way.
    pub datagram_cycles: f64,
    /// Cycles of a block of a cipher.
    pub cipher_block_cycles: f64,
    /// Cycles of a block of a hash function.
    pub hash_block_cycles: f64,
    /// Cycles of a multiplication on an elliptic curve.
    pub exchange_cycles: f64,
}

impl Cpu {
    /// How long the work takes, in microseconds.
    pub fn micros(&self, work: Work) -> u64 {
        let cycles = f64::from(work.datagrams) * self.datagram_cycles
            + f64::from(work.cipher_blocks) * self.cipher_block_cycles
            + f64::from(work.hash_blocks) * self.hash_block_cycles
            + f64::from(work.exchanges) * self.exchange_cycles;
        (cycles / self.megahertz).round() as u64
    }
}
