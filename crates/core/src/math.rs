//! Mathematical functions that return the same bits on every processor and system.
//!
//! The standard library takes these functions from the system's C library. The last bits of their
//! results differ between C libraries, and one bit can turn a simulated loss into a delivery. All
//! computations whose results must repeat therefore use this module: the functions are those of the
//! crate `libm`, which computes them in Rust. Clippy refuses the standard library's functions in the
//! crates of engines and of the laboratory (`crates/clippy.toml`).
//!
//! `+`, `-`, `*`, `/`, `sqrt`, `abs`, `floor`, `ceil`, `round` and `trunc` are exact in IEEE 754 and are
//! missing here.

/// e^x.
#[must_use]
pub fn exp(x: f64) -> f64 {
    libm::exp(x)
}

/// 2^x.
#[must_use]
pub fn exp2(x: f64) -> f64 {
    libm::exp2(x)
}

/// The natural logarithm: -∞ for 0, and no number for what is negative.
#[must_use]
pub fn ln(x: f64) -> f64 {
    libm::log(x)
}

/// The logarithm to base 2: -∞ for 0, and no number for what is negative.
#[must_use]
pub fn log2(x: f64) -> f64 {
    libm::log2(x)
}

/// The logarithm to base 10: -∞ for 0, and no number for what is negative.
#[must_use]
pub fn log10(x: f64) -> f64 {
    libm::log10(x)
}

/// `base` to the power of a real number.
#[must_use]
pub fn powf(base: f64, exponent: f64) -> f64 {
    libm::pow(base, exponent)
}

/// `base` to the power of an integer, by repeated squaring from the lowest bit of the exponent. The
/// result is rounded after each multiplication; a negative exponent divides 1 by the result.
#[must_use]
pub const fn powi(base: f64, exponent: i32) -> f64 {
    let (mut square, mut left, mut product) = (base, exponent.unsigned_abs(), 1.0);
    loop {
        if left % 2 == 1 {
            product *= square;
        }
        left /= 2;
        if left == 0 {
            return if exponent < 0 { 1.0 / product } else { product };
        }
        square *= square;
    }
}

/// The length of the hypotenuse of a right triangle with these legs, without overflow on the way.
#[must_use]
pub fn hypot(x: f64, y: f64) -> f64 {
    libm::hypot(x, y)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bits were computed on x86-64. `cargo xtask processors` runs this test on other processors.
    #[test]
    fn bits_are_known() {
        let all = [
            (exp(-0.7), 0x3fdf_c80d_b9dd_5542),
            (exp2(0.3), 0x3ff3_b2c4_7bff_8329),
            (ln(0.1), 0xc002_6bb1_bbb5_5515),
            (log2(10.0), 0x400a_934f_0979_a371),
            (log10(0.02), 0xbffb_2efb_2bd8_2180),
            (powf(10.0, -2.5), 0x3f69_e7c6_e433_90b7),
            (powi(0.999, 127), 0x3fec_2e83_0599_bdfd),
            (hypot(0.1, 0.3), 0x3fd4_3d13_6248_490f),
        ];
        let found = all.map(|(value, _)| value.to_bits());
        assert_eq!(found, all.map(|(_, bits)| bits), "{found:#x?}");
    }

    #[test]
    fn integer_powers() {
        for (base, exponent, power) in [
            (2.0, 32, 4_294_967_296.0),
            (2.0, -2, 0.25),
            (3.0, 0, 1.0),
            (0.0, 0, 1.0),
            (-2.0, 3, -8.0),
            (2.0, i32::MIN, 0.0),
            (2.0, i32::MAX, f64::INFINITY),
        ] {
            assert_eq!(powi(base, exponent).to_bits(), f64::to_bits(power), "{base}^{exponent}");
        }
    }

    #[test]
    fn edges() {
        assert_eq!(ln(0.0), f64::NEG_INFINITY);
        assert!(ln(-1.0).is_nan() && log2(-1.0).is_nan() && log10(-1.0).is_nan());
        assert_eq!([exp(0.0), exp2(3.0), powf(4.0, 0.5)], [1.0, 8.0, 2.0]);
        assert_eq!(hypot(3e300, 4e300), 5e300);
    }
}
