//! ECDH in a NIST curve of RustCrypto (RFC 8446, section 4.2.8.2).

/// Defines the group `$Group` over the curve of the crate `$krate`, with scalars and uncompressed
/// points of these lengths in bytes.
macro_rules! curve {
    (
        $(#[$doc:meta])* $Group:ident: $krate:ident, $name:literal, $id:ident,
        scalar: $scalar:literal, point: $point:literal
    ) => {
        use crate::crypto::{
            Group, GroupAnswer, InvalidKeyShare, KeyExchange, NamedGroup, SharedSecret,
        };
        use alloc::boxed::Box;
        use lightseal_core::Random;
        use $krate::elliptic_curve::sec1::ToSec1Point;
        use $krate::{PublicKey, SecretKey};
        use zeroize::Zeroizing;

        /// The first byte of an uncompressed point.
        const UNCOMPRESSED: u8 = 4;

        $(#[$doc])*
        pub struct $Group;

        impl Group for $Group {
            fn id(&self) -> NamedGroup {
                NamedGroup::$id
            }

            fn name(&self) -> &'static str {
                $name
            }

            fn known_answer(&self) -> &'static GroupAnswer {
                &GroupAnswer::$id
            }

            fn start(&self, rng: &mut Random) -> Box<dyn KeyExchange> {
                loop {
                    let scalar = Zeroizing::new(rng.array::<$scalar>());
                    if let Ok(secret) = SecretKey::from_slice(&*scalar) {
                        return Box::new(KeyPair::new(secret));
                    }
                }
            }
        }

        struct KeyPair {
            secret: SecretKey,
            public: [u8; $point],
        }

        impl KeyPair {
            fn new(secret: SecretKey) -> Self {
                let mut public = [0; $point];
                public.copy_from_slice(secret.public_key().to_sec1_point(false).as_bytes());
                Self { secret, public }
            }
        }

        impl KeyExchange for KeyPair {
            fn public_key(&self) -> &[u8] {
                &self.public
            }

            fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, InvalidKeyShare> {
                if peer.len() != $point || peer.first() != Some(&UNCOMPRESSED) {
                    return Err(InvalidKeyShare);
                }
                let peer = PublicKey::from_sec1_bytes(peer).map_err(|_| InvalidKeyShare)?;
                let shared = self.secret.diffie_hellman(&peer);
                SharedSecret::new(shared.raw_secret_bytes())
            }
        }

        #[cfg(test)]
        mod tests {
            use super::*;
            use std::vec::Vec;

            fn start(seed: u64) -> Box<dyn KeyExchange> {
                $Group.start(&mut Random::insecure(seed))
            }

            #[test]
            fn only_points_of_the_curve_pass() {
                let good = start(2).public_key().to_vec();
                assert!(start(1).complete(&good).is_ok());
                let last = good[$point - 1];
                let mut off_curve = good.clone();
                off_curve[$point - 1] ^= 1;
                let mut hybrid = good.clone();
                hybrid[0] = 6 | last & 1;
                let mut compressed = good[..=$scalar].to_vec();
                compressed[0] = 2 | last & 1;
                let infinity = [0].to_vec();
                let mut zeros = [0; $point].to_vec();
                zeros[0] = UNCOMPRESSED;
                let short = good[..$point - 1].to_vec();
                for bad in [off_curve, hybrid, compressed, infinity, zeros, short, Vec::new()] {
                    let refused = start(1).complete(&bad).err();
                    assert_eq!(refused, Some(InvalidKeyShare), "{bad:?}");
                }
            }
        }
    };
}
pub(super) use curve;
