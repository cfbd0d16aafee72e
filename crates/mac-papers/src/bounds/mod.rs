//! Proven bounds: with which probability an attack succeeds after q messages of l blocks under one
//! key, for LightMAC and for the modes it is compared with (Table 2 of the paper). From a bound
//! follows how much data one key may process.
//!
//! - [`Parameters`]: LightMAC's own theorems, by the lengths of block, counter and tag;
//! - [`MODES`]: every mode with its bound, the proof's source, and how certain its coefficients
//!   are; [`TYPICAL`]: the paper's rule of thumb for most of them.
//!
//! A bound is only the statistical part of an attack's advantage: that of the mode over a random
//! permutation. The advantage against the cipher itself has to be added, for which there is no
//! formula. For LightMAC, [`Parameters::cipher_queries`] gives the number of queries to the cipher.
//!
//! # Arithmetic
//!
//! Advantages are `f64`. They range from 2^-380 to 1, which integers of a fixed size cannot
//! represent. Every 2^-n is exact, and the few products and sums after it have a relative error
//! below 2^-46. The largest number of messages is found by a search over integers, so it is exact
//! wherever the bounds of two consecutive numbers differ by more than this error, which is below
//! 2^45 messages. There is no logarithm and no power function, so nothing beyond `core` is needed.
//!
//! # Example
//!
//! ```
//! use lightseal_mac_papers::bounds::{Parameters, TYPICAL, power_of_two};
//!
//! // Section 1.1 of the paper: a 32-bit cipher, success at most once in a million.
//! let lightmac = Parameters::new(32, 16, 32)?;
//! let probability = power_of_two(-20);
//! assert_eq!(lightmac.most_messages(probability), 63);
//! assert_eq!(TYPICAL.most_messages(lightmac, probability, 16), Ok(16));
//! # Ok::<(), lightmac::ParameterError>(())
//! ```

mod modes;
mod theorems;

pub use modes::{Certainty, Formula, MODES, Mode, TYPICAL, Term, Unproved};
pub use theorems::{CipherQueries, Parameters};

/// 2^`exponent`. It is exact from -1022 to 1023, infinite above and zero below.
pub const fn power_of_two(exponent: i32) -> f64 {
    match exponent {
        ..=-1023 => 0.0,
        1024.. => f64::INFINITY,
        // The exponent field of the number 1.0 times 2^`exponent`.
        _ => f64::from_bits(((exponent + 1023) as u64) << 52),
    }
}

/// `base` to the power of `exponent`. `powi` would need `std`.
fn power(base: f64, exponent: u32) -> f64 {
    (0..exponent).fold(1.0, |product, _| product * base)
}

/// The largest number from 1 to `limit` that fits, or 0 if not even 1 does. If a number fits, all
/// smaller ones must fit as well.
fn largest(limit: u128, fits: impl Fn(u128) -> bool) -> u128 {
    let (mut fitting, mut beyond) = (0, limit);
    if limit == 0 || fits(limit) {
        return limit;
    }
    while beyond - fitting > 1 {
        let middle = fitting + (beyond - fitting) / 2;
        if fits(middle) {
            fitting = middle;
        } else {
            beyond = middle;
        }
    }
    fitting
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_are_exact() {
        assert_eq!(power_of_two(0), 1.0);
        assert_eq!(power_of_two(-20), 1.0 / 1_048_576.0);
        assert_eq!(power_of_two(-1022), f64::MIN_POSITIVE);
        assert_eq!(power_of_two(-1023), 0.0);
        assert_eq!(power_of_two(1023) * 2.0, power_of_two(1024));
        assert_eq!(power(3.0, 4), 81.0);
        assert_eq!(power(3.0, 0), 1.0);
    }

    #[test]
    fn the_largest_is_found_at_every_edge() {
        for limit in 0..20 {
            for edge in 0..=limit {
                assert_eq!(largest(limit, |x| x <= edge), edge, "{edge} of {limit}");
            }
        }
        assert_eq!(largest(u128::MAX, |_| true), u128::MAX);
        assert_eq!(largest(u128::MAX, |x| x <= 1 << 100), 1 << 100);
    }
}
