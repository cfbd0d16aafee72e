//! ECDH in P-384.

super::curve::curve!(
    /// P-384.
    P384: p384, "secp384r1", P384, scalar: 48, point: 97
);
