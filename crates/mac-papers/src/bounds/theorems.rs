//! LightMAC's own theorems.

use super::{largest, power_of_two};
use lightmac::{ParameterError, max_message_bits};

/// The lengths of block, counter and tag of a LightMAC, in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    block_bits: u32,
    counter_bits: u32,
    tag_bits: u32,
}

/// The number of queries to the cipher under each key during an attack on LightMAC. These are the
/// arguments of the terms PRP(·) that the theorems add to the statistical part.
///
/// Each number saturates at `u128::MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CipherQueries {
    /// Queries under K1 for tagging, q·(2^s − 1).
    pub hash: u128,
    /// Queries under K2 for tagging, q.
    pub finalisation: u128,
    /// Queries for verification, v·2^s.
    pub verification: u128,
}

impl Parameters {
    /// Checks the three lengths: a block of 32 to 128 bits in whole bytes, a counter of 1 bit to
    /// half a block, a tag of 1 bit to a block.
    ///
    /// # Errors
    ///
    /// Fails if LightMAC is not defined for these lengths.
    pub const fn new(
        block_bits: u32,
        counter_bits: u32,
        tag_bits: u32,
    ) -> Result<Self, ParameterError> {
        if !block_bits.is_multiple_of(8) || block_bits < 32 || block_bits > 128 {
            return Err(ParameterError::BlockSize);
        }
        if counter_bits == 0 || counter_bits > block_bits / 2 {
            return Err(ParameterError::CounterBits);
        }
        if tag_bits == 0 || tag_bits > block_bits {
            return Err(ParameterError::TagBits);
        }
        Ok(Self { block_bits, counter_bits, tag_bits })
    }

    /// n, the length of the cipher's block in bits.
    pub const fn block_bits(self) -> u32 {
        self.block_bits
    }

    /// s, the length of the counter in bits.
    pub const fn counter_bits(self) -> u32 {
        self.counter_bits
    }

    /// t, the length of the tag in bits.
    pub const fn tag_bits(self) -> u32 {
        self.tag_bits
    }

    /// The length of the longest message in bits, 2^s·(n − s).
    pub const fn longest_message_bits(self) -> u128 {
        max_message_bits(self.block_bits as usize / 8, self.counter_bits)
    }

    /// The length of the longest message in whole blocks of n bits.
    pub const fn longest_message_blocks(self) -> u128 {
        self.longest_message_bits() / self.block_bits as u128
    }

    /// Theorem 1: the bound as a pseudorandom function, for `messages` messages of any permitted
    /// length:
    ///
    /// ```text
    /// (1 + 1/(2^(n/2) − 1) + 1/(2·(2^(n/2) − 1)²)) · q²/2^n
    /// ```
    pub fn prf(self, messages: f64) -> f64 {
        let root = self.root();
        (1.0 + 1.0 / root + 0.5 / (root * root)) * self.birthday(messages)
    }

    /// Theorem 2: the bound as a MAC, for `messages` tagged messages and `verifications` attempts
    /// to have a forgery accepted:
    ///
    /// ```text
    /// (1 + 2/(2^(n/2) − 1) + 1/(2^(n/2) − 1)²) · (q²/2^n + v/2^t)
    /// ```
    pub fn mac(self, messages: f64, verifications: f64) -> f64 {
        let root = self.root();
        let guessed = verifications * power_of_two(-(self.tag_bits as i32));
        (1.0 + 2.0 / root + 1.0 / (root * root)) * (self.birthday(messages) + guessed)
    }

    /// The bound with `outputs` tags of a block each from one pass over a message
    /// ([`LongLightMac`](lightmac::LongLightMac)), as a pseudorandom function for `messages` messages:
    ///
    /// ```text
    /// (1 + ε)·(r + 1)/2 · q²/2^n     with Theorem 1's ε
    /// ```
    ///
    /// In the theorem's proof, half of q²/2^n is the probability of collisions of the inner sum,
    /// which all outputs share. The other half is for taking one permutation for a random function,
    /// which now happens r times. With one output it is Theorem 1.
    pub fn long_output(self, messages: f64, outputs: u32) -> f64 {
        self.prf(messages) * (f64::from(outputs) + 1.0) / 2.0
    }

    /// Proposition 1: a bound on the probability that two distinct messages have the same inner
    /// sum, 1/(2^n − l₁ − l₂ + 1). The lengths l₁ and l₂ are in blocks of n − s bits, rounded up.
    pub fn collision(self, first_blocks: f64, second_blocks: f64) -> f64 {
        1.0 / (self.blocks() - first_blocks - second_blocks + 1.0)
    }

    /// q²/2^n: the theorems without their small terms.
    pub fn birthday(self, messages: f64) -> f64 {
        messages * messages / self.blocks()
    }

    /// The largest number of messages for which [`Self::prf`] is at most `probability`.
    pub fn most_messages(self, probability: f64) -> u128 {
        largest(self.distinct(), |q| self.prf(q as f64) <= probability)
    }

    /// The largest number of messages for which [`Self::birthday`] is at most `probability`, which
    /// is the paper's rounded figure.
    pub fn most_messages_roughly(self, probability: f64) -> u128 {
        largest(self.distinct(), |q| self.birthday(q as f64) <= probability)
    }

    /// The largest number of messages for which [`Self::mac`] is at most `probability`, with this
    /// many attempts to forge; 0 if the attempts alone exceed it.
    pub fn most_messages_as_mac(self, probability: f64, verifications: f64) -> u128 {
        largest(self.distinct(), |q| self.mac(q as f64, verifications) <= probability)
    }

    /// The largest number of messages for which [`Self::long_output`] is at most `probability`.
    pub fn most_messages_of_long_output(self, probability: f64, outputs: u32) -> u128 {
        largest(self.distinct(), |q| self.long_output(q as f64, outputs) <= probability)
    }

    /// The number of bits in `messages` messages of the greatest length. It saturates at
    /// `u128::MAX`.
    pub fn data_bits(self, messages: u128) -> u128 {
        messages.saturating_mul(self.longest_message_bits())
    }

    /// The number of queries to the cipher under each key.
    pub fn cipher_queries(self, messages: u128, verifications: u128) -> CipherQueries {
        let counters = 1 << self.counter_bits;
        CipherQueries {
            hash: messages.saturating_mul(counters - 1),
            finalisation: messages,
            verification: verifications.saturating_mul(counters),
        }
    }

    /// 2^n, the number of different blocks.
    pub(super) fn blocks(self) -> f64 {
        power_of_two(self.block_bits as i32)
    }

    /// 2^n, a number of messages for which every bound is at least 1 and therefore vacuous.
    pub(super) fn distinct(self) -> u128 {
        1u128.checked_shl(self.block_bits).unwrap_or(u128::MAX)
    }

    /// 2^(n/2) − 1. n/2 is an integer because blocks are whole bytes.
    fn root(self) -> f64 {
        power_of_two(self.block_bits as i32 / 2) - 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MEBIBYTE_BITS: u128 = 8 << 20;

    fn papers() -> Parameters {
        Parameters::new(32, 16, 32).expect("the paper's own example")
    }

    #[test]
    fn the_papers_example() {
        let (paper, once_in_a_million) = (papers(), power_of_two(-20));
        assert_eq!(paper.most_messages_roughly(once_in_a_million), 64);
        assert_eq!(paper.most_messages(once_in_a_million), 63);
        assert_eq!(paper.longest_message_blocks(), 1 << 15);
        assert_eq!(paper.data_bits(64), 8 * MEBIBYTE_BITS);
        assert_eq!(paper.data_bits(64) / 2, 4 * MEBIBYTE_BITS);
        // Equation (3): the small terms are of the order of 2^(-n/2).
        let epsilon = paper.prf(64.0) / paper.birthday(64.0) - 1.0;
        assert!(epsilon > 0.0 && epsilon < 1.1 * power_of_two(-16), "{epsilon}");
    }

    #[test]
    fn theorem_two_counts_verifications_against_the_tag() {
        let paper = papers();
        let probability = power_of_two(-20);
        assert_eq!(paper.most_messages_as_mac(probability, 0.0), 63);
        // The 2^12 attempts at a 32-bit tag alone exceed the probability.
        assert_eq!(paper.most_messages_as_mac(probability, 4096.0), 0);
        assert_eq!(paper.most_messages_as_mac(probability, 4095.0), 0);
        assert!(paper.most_messages_as_mac(probability, 2048.0) < 63);
        let short = Parameters::new(32, 16, 8).expect("a tag of 8 bits");
        assert!(short.mac(1.0, 1.0) > power_of_two(-8));
    }

    #[test]
    fn one_long_output_is_theorem_one() {
        let parameters = Parameters::new(128, 8, 128).expect("AES");
        let q = power_of_two(40);
        assert_eq!(parameters.long_output(q, 1), parameters.prf(q));
        assert_eq!(parameters.long_output(q, 3), 2.0 * parameters.prf(q));
        // Seven outputs have four times the advantage, so they allow as many messages as one output
        // does with a quarter of the probability.
        let most = |outputs| parameters.most_messages_of_long_output(power_of_two(-21), outputs);
        assert_eq!(most(1), parameters.most_messages(power_of_two(-21)));
        assert_eq!(most(7), parameters.most_messages(power_of_two(-23)));
    }

    #[test]
    fn collisions_are_those_of_equation_eleven() {
        let paper = papers();
        let longest = power_of_two(16);
        assert_eq!(paper.collision(longest, longest), 1.0 / (power_of_two(32) - 131_071.0));
        assert!(paper.collision(1.0, 1.0) < paper.collision(2.0, 1.0));
        // Theorem 1 covers the small terms: equation (12) is at most equation (13).
        for (n, s) in [(32, 16), (32, 1), (64, 32), (96, 48), (128, 64)] {
            let parameters = Parameters::new(n, s, n).expect("permitted");
            let longest = power_of_two(s as i32);
            let q = 1000.0;
            let equation_12 =
                q * q / 2.0 * (1.0 / parameters.blocks() + parameters.collision(longest, longest));
            assert!(equation_12 <= parameters.prf(q), "n = {n}, s = {s}");
        }
    }

    #[test]
    fn edges_come_in_pairs() {
        assert!(Parameters::new(32, 16, 32).is_ok());
        assert_eq!(Parameters::new(31, 8, 8), Err(ParameterError::BlockSize));
        assert_eq!(Parameters::new(24, 8, 8), Err(ParameterError::BlockSize));
        assert_eq!(Parameters::new(136, 8, 8), Err(ParameterError::BlockSize));
        assert_eq!(Parameters::new(32, 17, 32), Err(ParameterError::CounterBits));
        assert_eq!(Parameters::new(32, 16, 33), Err(ParameterError::TagBits));
        assert_eq!(Parameters::new(32, 16, 0), Err(ParameterError::TagBits));
        assert!(Parameters::new(128, 64, 128).is_ok());
    }

    #[test]
    fn nothing_fits_a_margin_of_nothing() {
        for probability in [0.0, -1.0, f64::NAN] {
            assert_eq!(papers().most_messages(probability), 0);
        }
        assert_eq!(papers().most_messages(f64::INFINITY), 1 << 32);
        let aes = Parameters::new(128, 64, 128).expect("AES");
        assert_eq!(aes.most_messages(f64::INFINITY), u128::MAX);
        assert_eq!(aes.data_bits(u128::MAX), u128::MAX);
        assert_eq!(aes.cipher_queries(1, u128::MAX).verification, u128::MAX);
        assert_eq!(papers().cipher_queries(2, 3).hash, 2 * 65_535);
    }

    fn any() -> impl Strategy<Value = Parameters> {
        (4u32..=16, 1u32..=64, 1u32..=128).prop_filter_map("defined", |(bytes, s, t)| {
            Parameters::new(bytes * 8, s.min(bytes * 4), t.min(bytes * 8)).ok()
        })
    }

    proptest! {
        #[test]
        fn more_messages_never_help(parameters in any(), q in 1.0..1e18, v in 0.0..1e18) {
            prop_assert!(parameters.prf(q) <= parameters.prf(q * 1.5));
            prop_assert!(parameters.mac(q, v) <= parameters.mac(q * 1.5, v));
            prop_assert!(parameters.mac(q, v) <= parameters.mac(q, v + 1.0));
            prop_assert!(parameters.prf(q) <= parameters.mac(q, 0.0));
            prop_assert!(parameters.birthday(q) <= parameters.prf(q));
        }

        #[test]
        fn the_most_messages_fit_and_one_more_does_not(parameters in any(), bits in 1i32..40) {
            let probability = power_of_two(-bits);
            let most = parameters.most_messages(probability);
            // Above this number, the bounds of consecutive numbers are too close for an f64.
            if most < 1 << 45 {
                prop_assert!(most == 0 || parameters.prf(most as f64) <= probability);
                prop_assert!(parameters.prf((most + 1) as f64) > probability);
            }
        }
    }
}
