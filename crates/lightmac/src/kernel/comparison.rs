//! Kernels for the MACs that LightMAC is compared with, EMAC and PMAC/P.
//!
//! A comparison is fair only if these MACs have kernels as good as LightMAC's. Without them EMAC
//! takes half as long again and PMAC/P three times as long, because round keys and blocks pass
//! through memory. The MACs themselves are in the crate `lightseal-mac-papers`.

/// The block of a pair that is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// The first block.
    First,
    /// The second block.
    Second,
    /// The sum of both blocks.
    Sum,
}

/// A kernel of a 128-bit cipher for EMAC and PMAC/P.
pub trait ComparisonKernel {
    /// Encrypts one block of each pair, with its mask, and adds it to `state`, for PMAC/P.
    ///
    /// The mask of pair i is the sum of `base` and block i of `masks`. Pairs without a mask are
    /// ignored.
    fn add_halves(&self, half: Half, base: &[u8], masks: &[u8], pairs: &[u8], state: &mut [u8]);

    /// Chains whole blocks into `state`, state ← E(state ⊕ block), for EMAC.
    fn chain(&self, blocks: &[u8], state: &mut [u8]);
}
