//! Randomness as engines see it: a generator that its host supplies.

use core::convert::Infallible;
use core::fmt;
use rand_core::{TryCryptoRng, TryRng};

#[cfg(any(test, not(feature = "seeded-random")))]
mod device;
#[cfg(feature = "seeded-random")]
mod seeded;

#[cfg(not(feature = "seeded-random"))]
use device::Device as Source;
#[cfg(feature = "seeded-random")]
use {rand_core::SeedableRng, seeded::Seeded as Source};

/// The length of a seed in bytes.
#[cfg(feature = "seeded-random")]
const SEED: usize = 32;

/// The random generator of one engine, supplied by its host.
///
/// A host with an operating system draws a seed from it. A simulator derives the seed from the
/// run's seed, and the whole run then repeats to the byte. A device whose hardware makes random
/// numbers passes the function that reads them: with the feature `seeded-random` it is called once,
/// for a seed, and without the feature it makes all output, and no other generator takes flash.
///
/// Under a seed the output is the key stream of ChaCha20. A generator keeps the seed and its place in
/// the stream, and no blocks: each association has a generator and seldom asks it.
pub struct Random(Source);

impl Random {
    /// A generator over the random numbers of a device. `fill` must fill what it gets with bytes of
    /// full entropy that nobody else ever sees. It cannot fail: a device whose source reports an error
    /// waits in it, or restarts.
    pub fn from_device(fill: fn(&mut [u8])) -> Self {
        Self(Source::from_device(fill))
    }

    /// A generator whose output is a function of `seed` alone.
    ///
    /// Except in tests and simulations, the seed must be 32 bytes of full entropy that nobody else
    /// ever sees.
    #[cfg(feature = "seeded-random")]
    pub fn from_seed(seed: [u8; SEED]) -> Self {
        Self(Source::from_seed(seed))
    }

    /// A generator that is seeded by the operating system.
    ///
    /// # Errors
    /// Fails if the operating system provides no randomness.
    #[cfg(feature = "os")]
    pub fn from_os() -> Result<Self, OsRandomError> {
        let mut seed = zeroize::Zeroizing::new([0; SEED]);
        // An engine never calls this function: its host does, and passes the generator to it.
        #[expect(clippy::disallowed_methods)]
        getrandom::fill(&mut *seed).map_err(OsRandomError)?;
        Ok(Self::from_seed(*seed))
    }

    /// A generator for tests and simulations, seeded with a number that a failing test can print.
    #[cfg(feature = "seeded-random")]
    pub fn insecure(seed: u64) -> Self {
        Self(Source::seed_from_u64(seed))
    }

    /// An independent generator, for a child engine.
    pub fn fork(&mut self) -> Self {
        Self(self.0.fork())
    }

    /// `N` random bytes that are not part of the output: for the keys of hash tables, which change
    /// nothing that an engine does. Under a seed they are the same in each call, the key stream with
    /// another nonce.
    pub fn table_keys<const N: usize>(&self) -> [u8; N] {
        let mut keys = [0; N];
        self.0.table_keys(&mut keys);
        keys
    }

    /// Fills `out` with random bytes.
    pub fn fill(&mut self, out: &mut [u8]) {
        self.0.fill(out);
    }

    /// `N` random bytes.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        self.fill(&mut out);
        out
    }

    /// A uniform number below `bound`, which must not be zero.
    ///
    /// Multiply-shift: the bias is below `bound / 2^64`.
    pub fn below(&mut self, bound: u64) -> u64 {
        let word = u64::from_le_bytes(self.array());
        ((u128::from(word) * u128::from(bound)) >> 64) as u64
    }
}

impl TryRng for Random {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(u32::from_le_bytes(self.array()))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(u64::from_le_bytes(self.array()))
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Infallible> {
        self.fill(out);
        Ok(())
    }
}

impl TryCryptoRng for Random {}

impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Random(..)")
    }
}

/// The operating system provides no randomness.
#[cfg(feature = "os")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OsRandomError(getrandom::Error);

#[cfg(feature = "os")]
impl fmt::Display for OsRandomError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(feature = "os")]
impl core::error::Error for OsRandomError {}

#[cfg(all(test, feature = "seeded-random"))]
mod tests {
    use super::*;

    #[test]
    fn the_output_is_that_of_a_generator_that_keeps_blocks() {
        use chacha20::ChaCha20Rng;
        let (mut ours, mut theirs) = (Random::insecure(3), ChaCha20Rng::seed_from_u64(3));
        for len in (0..70).chain([1, 300, 3, 255, 257, 4096, 2]) {
            let (mut a, mut b) = ([0; 4096], [0; 4096]);
            ours.fill(&mut a[..len]);
            theirs.try_fill_bytes(&mut b[..len]).unwrap();
            assert_eq!(a, b, "{len} bytes");
            assert_eq!(ours.try_next_u32(), theirs.try_next_u32());
            assert_eq!(ours.try_next_u64(), theirs.try_next_u64());
        }
    }

    #[test]
    fn keys_of_tables_are_no_part_of_the_output() {
        let (mut a, mut b) = (Random::insecure(7), Random::insecure(7));
        let keys = a.table_keys::<40>();
        let output = a.array::<400>();
        assert_eq!(output, b.array());
        assert_eq!(keys, b.table_keys());
        assert_ne!(keys, Random::insecure(8).table_keys());
        assert!(output.windows(8).all(|window| window != &keys[..8]));
    }

    #[test]
    fn a_device_gives_the_seed() {
        let mut of_device = Random::from_device(|out| out.fill(7));
        assert_eq!(of_device.array::<40>(), Random::from_seed([7; SEED]).array());
    }

    #[test]
    fn same_seed_same_bytes() {
        let (mut a, mut b) = (Random::insecure(7), Random::insecure(7));
        assert_eq!(a.array::<40>(), b.array::<40>());
        assert_eq!(a.fork().array::<8>(), b.fork().array::<8>());
        assert_ne!(a.array::<8>(), a.array::<8>());
    }

    #[cfg(feature = "os")]
    #[test]
    fn the_operating_system_seeds_two_generators_differently() {
        let (mut a, mut b) = (Random::from_os().unwrap(), Random::from_os().unwrap());
        assert_ne!(a.array::<32>(), b.array::<32>());
    }

    #[test]
    fn below_is_in_range_and_uniform() {
        let mut rng = Random::insecure(1);
        let mut hits = [0; 10];
        for _ in 0..10_000 {
            hits[rng.below(10) as usize] += 1;
        }
        assert!(hits.iter().all(|n| (850..1150).contains(n)), "{hits:?}");
    }
}
