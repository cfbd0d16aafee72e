//! ECDSA (FIPS 186-5, section 6) over a curve of RustCrypto.

/// Defines the keys of one curve: `$Key`, the type of a private key; `$scheme`, the scheme with
/// which it signs; `$Verifier`, the verification under the schemes of the curve.
macro_rules! ecdsa {
    (
        $krate:ident, $curve:literal, $Key:ident, $Verifier:ident, $scheme:ident,
        scalar: $scalar:literal, key: $key:expr, oid: $oid:expr
    ) => {
        use crate::crypto::SignatureScheme;
        use crate::crypto::signature::{
            PrivateKeyError, Signing, SigningKey, subject_public_key_info,
        };
        use alloc::sync::Arc;
        use alloc::vec::Vec;
        use core::fmt;
        use lightseal_core::Random;
        use pki_types::{
            AlgorithmIdentifier, InvalidSignature, PrivateKeyDer, PrivatePkcs8KeyDer,
            SignatureVerificationAlgorithm, alg_id,
        };
        use sec1::{EcParameters, EcPrivateKey};
        use sha2::Digest;
        use zeroize::Zeroizing;
        use $krate::SecretKey;
        use $krate::ecdsa::signature::hazmat::{PrehashVerifier, RandomizedPrehashSigner};
        use $krate::ecdsa::{Signature, VerifyingKey};
        use $krate::pkcs8::{
            DecodePrivateKey, EncodePrivateKey, ObjectIdentifier, PrivateKeyInfoRef,
        };

        /// The curve's object identifier.
        const OID: ObjectIdentifier = ObjectIdentifier::new_unwrap($oid);

        #[doc = concat!("A private key for ECDSA over ", $curve, ".")]
        pub struct $Key {
            key: $krate::ecdsa::SigningKey,
            /// SubjectPublicKeyInfo in DER.
            public: Vec<u8>,
        }

        impl $Key {
            /// A key from its scalar in big-endian bytes.
            ///
            /// # Errors
            /// Fails if the scalar is zero, or not below the order of the curve.
            pub fn from_scalar(scalar: &[u8; $scalar]) -> Result<Self, PrivateKeyError> {
                let secret = SecretKey::from_slice(scalar).map_err(|_| PrivateKeyError::Invalid)?;
                Ok(Self::new(&secret))
            }

            /// A key from PKCS#8 in DER (RFC 5958; RFC 5915).
            ///
            /// # Errors
            /// Fails if the key is of another kind, or invalid.
            pub fn from_pkcs8(der: &[u8]) -> Result<Self, PrivateKeyError> {
                let info =
                    PrivateKeyInfoRef::try_from(der).map_err(|_| PrivateKeyError::Invalid)?;
                // The identifier of `id-ecPublicKey` and this curve.
                let (ours, theirs) = (($krate::elliptic_curve::ALGORITHM_OID, OID), info.algorithm);
                if theirs.assert_oids(ours.0, ours.1).is_err() {
                    return Err(PrivateKeyError::Unsupported);
                }
                let secret = SecretKey::from_pkcs8_der(der);
                Ok(Self::new(&secret.map_err(|_| PrivateKeyError::Invalid)?))
            }

            /// A key from `ECPrivateKey` in DER (RFC 5915, section 3).
            ///
            /// # Errors
            /// Fails if the key is for another curve, or invalid.
            pub fn from_sec1(der: &[u8]) -> Result<Self, PrivateKeyError> {
                let parsed = EcPrivateKey::try_from(der).map_err(|_| PrivateKeyError::Invalid)?;
                let ours = match parsed.parameters {
                    Some(EcParameters::NamedCurve(curve)) => curve == OID,
                    // Without a name, the length of the scalar tells the curve.
                    None => parsed.private_key.len() == $scalar,
                };
                if !ours {
                    return Err(PrivateKeyError::Unsupported);
                }
                let secret = SecretKey::try_from(parsed).map_err(|_| PrivateKeyError::Invalid)?;
                Ok(Self::new(&secret))
            }

            /// A new key. The scalar is drawn from `rng` until it is in range.
            pub fn generate(rng: &mut Random) -> Self {
                loop {
                    let scalar = Zeroizing::new(rng.array());
                    if let Ok(key) = Self::from_scalar(&scalar) {
                        return key;
                    }
                }
            }

            /// The key as PKCS#8 in DER, with the public key inside.
            pub fn to_pkcs8(&self) -> Zeroizing<Vec<u8>> {
                let der = SecretKey::from(&self.key).to_pkcs8_der();
                der.expect("a key of this curve has an encoding").to_bytes()
            }

            fn new(secret: &SecretKey) -> Self {
                let key = $krate::ecdsa::SigningKey::from(secret);
                let point = key.verifying_key().to_sec1_point(false);
                Self { public: subject_public_key_info($key, point.as_bytes()), key }
            }
        }

        impl SigningKey for $Key {
            fn schemes(&self) -> &[SignatureScheme] {
                &[SignatureScheme::$scheme]
            }

            fn public_key(&self) -> &[u8] {
                &self.public
            }

            fn sign(&self, scheme: SignatureScheme, message: &[u8], rng: &mut Random) -> Signing {
                if scheme != SignatureScheme::$scheme {
                    return Signing::Failed;
                }
                let hash = Own::digest(message);
                // RFC 6979, section 3.6: the nonce depends on the key, the message and randomness.
                // It is never used twice, even if the randomness repeats or is known.
                let signature: Result<Signature, _> = self.key.sign_prehash_with_rng(rng, &hash);
                signature.map_or(Signing::Failed, |signature| {
                    Signing::Done(signature.to_der().as_bytes().to_vec())
                })
            }
        }

        impl fmt::Debug for $Key {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($Key)).finish_non_exhaustive()
            }
        }

        #[doc = concat!("Loads a private key for ", $curve, " from PKCS#8 or SEC 1.")]
        ///
        /// # Errors
        /// Fails if the key is of another kind, or invalid.
        pub fn load_key(key: &PrivateKeyDer<'_>) -> Result<Arc<dyn SigningKey>, PrivateKeyError> {
            let key = match key {
                PrivateKeyDer::Pkcs8(key) => $Key::from_pkcs8(key.secret_pkcs8_der())?,
                PrivateKeyDer::Sec1(key) => $Key::from_sec1(key.secret_sec1_der())?,
                _ => return Err(PrivateKeyError::Unsupported),
            };
            Ok(Arc::new(key))
        }

        impl From<&$Key> for PrivatePkcs8KeyDer<'static> {
            fn from(key: &$Key) -> Self {
                key.to_pkcs8().to_vec().into()
            }
        }

        /// Verifies signatures over hash values of `D`.
        struct $Verifier<D> {
            name: &'static str,
            signature: AlgorithmIdentifier,
            hash: core::marker::PhantomData<fn() -> D>,
        }

        impl<D> $Verifier<D> {
            const fn new(name: &'static str, signature: AlgorithmIdentifier) -> Self {
                Self { name, signature, hash: core::marker::PhantomData }
            }
        }

        impl<D: Digest> SignatureVerificationAlgorithm for $Verifier<D> {
            fn verify_signature(
                &self,
                public_key: &[u8],
                message: &[u8],
                signature: &[u8],
            ) -> Result<(), InvalidSignature> {
                // RFC 5480, section 2.2: only uncompressed and compressed points.
                if !matches!(public_key.first(), Some(2..=4)) {
                    return Err(InvalidSignature);
                }
                let key = VerifyingKey::from_sec1_bytes(public_key);
                let signature = Signature::from_der(signature).map_err(|_| InvalidSignature)?;
                key.and_then(|key| key.verify_prehash(&D::digest(message), &signature))
                    .map_err(|_| InvalidSignature)
            }

            fn public_key_alg_id(&self) -> AlgorithmIdentifier {
                $key
            }

            fn signature_alg_id(&self) -> AlgorithmIdentifier {
                self.signature
            }
        }

        impl<D> fmt::Debug for $Verifier<D> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{} (RustCrypto)", self.name)
            }
        }
    };
}
pub(super) use ecdsa;
