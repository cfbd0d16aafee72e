//! ECDH in P-256.

super::curve::curve!(
    /// P-256.
    P256: p256, "secp256r1", P256, scalar: 32, point: 65
);
