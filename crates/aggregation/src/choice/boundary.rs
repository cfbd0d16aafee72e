//! Boundaries between neighbouring members of a family: y = a·e^(b/x) + c, where x is the payload
//! length in bytes and y the share of records lost.

use super::{Family, MEMBERS};

/// One boundary. Below it the member that shares more is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boundary {
    /// In units of 1/2^32; less than 1.
    pub a: i64,
    /// In units of 1/2^16 byte; less than 2^15 bytes.
    pub b: i64,
    /// In units of 1/2^32; less than 1.
    pub c: i64,
}

/// log2 e, in 1/2^30.
const LOG2_E: i64 = 1_549_082_005;
/// ln 2, in 1/2^30.
const LN_2: i64 = 744_261_118;
const ONE: i64 = 1 << 30;

/// 2^(i/16), in 1/2^30.
const SIXTEENTHS: [i64; 16] = [
    1_073_741_824,
    1_121_280_436,
    1_170_923_762,
    1_222_764_986,
    1_276_901_417,
    1_333_434_672,
    1_392_470_869,
    1_454_120_821,
    1_518_500_250,
    1_585_730_000,
    1_655_936_265,
    1_729_250_827,
    1_805_811_301,
    1_885_761_398,
    1_969_251_188,
    2_056_437_387,
];

impl Boundary {
    /// y in 1/65536 for payloads of `payload_bytes` (0 counts as 1), from 0 to 65 536. The error is
    /// at most one such unit.
    pub const fn loss(self, payload_bytes: u16) -> u32 {
        let bytes = if payload_bytes == 0 { 1 } else { payload_bytes as i64 };
        // In 1/2^32.
        let exponent = ((self.b * LOG2_E) >> 14) / bytes;
        let whole = exponent >> 32;
        let grown = if whole > 30 {
            self.a.saturating_mul(i64::MAX)
        } else {
            let right = 30 - whole;
            self.a.saturating_mul(power(exponent & 0xffff_ffff))
                >> if right < 63 { right } else { 63 }
        };
        let y = grown.saturating_add(self.c) >> 16;
        if y < 0 {
            0
        } else if y > 65_536 {
            65_536
        } else {
            y as u32
        }
    }
}

/// 2^f in 1/2^30, for f from 0 to 1 in 1/2^32. It is computed from a table of sixteenths and, for
/// the rest, from three terms of the exponential series, with an error of less than 2^-22.
const fn power(f: i64) -> i64 {
    let rest = ((f & 0x0fff_ffff) * LN_2) >> 32;
    let series = ONE + ((rest * (ONE + ((rest * (ONE + rest / 3)) >> 31))) >> 30);
    (SIXTEENTHS[(f >> 28) as usize] * series) >> 30
}

/// The index of the best member in [`Family::members`].
pub(super) fn best(family: Family, payload_bytes: u16, loss: u16) -> usize {
    let above = |boundary: &Boundary| u32::from(loss) < boundary.loss(payload_bytes);
    shipped_boundaries(family).iter().position(above).unwrap_or(MEMBERS - 1)
}

/// The shipped boundaries, between each member and the next. `lightseal lab choice` fits them and
/// reports how well they fit; `lightseal lab choice --check` compares a new fit with these.
pub const fn shipped_boundaries(family: Family) -> &'static [Boundary; MEMBERS - 1] {
    match family {
        Family::Agg => &AGG,
        Family::R2d2 => &R2D2,
    }
}

const AGG: [Boundary; MEMBERS - 1] = [
    Boundary { a: -97_080_744, b: -470_152, c: 96_620_809 },
    Boundary { a: -251_869_142, b: -687_392, c: 252_879_132 },
    Boundary { a: -682_039_061, b: -882_216, c: 695_498_158 },
    Boundary { a: -1_029_158_999, b: -3_156_938, c: 969_280_442 },
];

const R2D2: [Boundary; MEMBERS - 1] = [
    Boundary { a: -88_220_366, b: -1_466_967, c: 97_776_971 },
    Boundary { a: -146_015_035, b: -1_341_763, c: 219_854_895 },
    Boundary { a: -171_371_015, b: -1_707_875, c: 304_608_358 },
    Boundary { a: -271_460_028, b: -1_860_832, c: 559_787_379 },
];

#[cfg(test)]
mod tests {
    use super::*;
    use lightseal_core::math;
    use std::vec::Vec;

    fn exactly(boundary: Boundary, x: u16) -> f64 {
        let [a, c] = [boundary.a, boundary.c].map(|v| v as f64 / math::powi(2.0, 32));
        let b = boundary.b as f64 / 65_536.0;
        (65_536.0 * (a * math::exp(b / f64::from(x)) + c)).clamp(0.0, 65_536.0)
    }

    #[test]
    fn integers_agree_with_real_numbers() {
        let shipped = Family::ALL.into_iter().flat_map(|family| *shipped_boundaries(family));
        let odd = [(-1, 40, 3), (1 << 20, 1 << 22, 0), (-(1 << 28), -(1 << 21), 1 << 28)];
        let odd = odd.map(|(a, b, c)| Boundary { a, b, c });
        for boundary in shipped.chain(odd) {
            for x in 1..=1500 {
                let error = f64::from(boundary.loss(x)) - exactly(boundary, x);
                assert!(error.abs() <= 1.0, "{boundary:?} at {x}: off by {error}");
            }
        }
    }

    #[test]
    fn extremes_saturate() {
        for (a, b, c) in [(1, i64::from(i32::MAX), 0), ((1 << 32) - 1, 1 << 30, 1 << 31)] {
            assert_eq!(Boundary { a, b, c }.loss(0), 65_536);
            assert_eq!(Boundary { a: -a, b, c }.loss(1), 0);
        }
        let vanishing = Boundary { a: 1 << 31, b: i64::from(i32::MIN), c: 1 << 31 };
        assert_eq!(vanishing.loss(1), 1 << 15);
    }

    #[test]
    fn more_loss_and_longer_payloads_never_mean_more_sharing() {
        for family in Family::ALL {
            for x in 1..=1500 {
                let places: Vec<_> =
                    (0..=u16::MAX).step_by(64).map(|y| best(family, x, y)).collect();
                assert!(places.is_sorted(), "{family:?} at {x} bytes");
            }
            for y in (0..=u16::MAX).step_by(64) {
                let places: Vec<_> = (1..=1500).map(|x| best(family, x, y)).collect();
                assert!(places.is_sorted(), "{family:?} at a loss of {y}");
            }
        }
    }
}
