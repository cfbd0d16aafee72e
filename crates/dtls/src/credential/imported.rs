//! The importer of external PSKs (RFC 9258): from one external key, a key of its own for DTLS 1.3 and
//! each hash algorithm.

use super::psk::LONGEST_CONTEXT;
use crate::codepoints::DTLS_1_3;
use crate::crypto::{Hash, HashAlgorithm, Sha256, TrafficSecret};
use alloc::vec::Vec;
use lightseal_core::wire::BufferFull;
use lightseal_core::{Decode, DecodeError, Encode, Reader, Writer};
use zeroize::Zeroizing;

/// The identity under which an imported PSK is offered (RFC 9258, section 5.1).
///
/// ```text
/// | external identity (2 + n) | context (2 + n) | target protocol (2) | target KDF (2) |
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportedIdentity<'a> {
    /// The identity of the external PSK; never empty.
    pub external_identity: &'a [u8],
    /// What the key was agreed for, such as the roles of the two ends.
    pub context: &'a [u8],
    /// The protocol version: `0xfefc` for DTLS 1.3.
    pub target_protocol: u16,
    /// The key derivation function: 1 for HKDF-SHA256, 2 for HKDF-SHA384.
    pub target_kdf: u16,
}

impl<'a> ImportedIdentity<'a> {
    /// The identity for DTLS 1.3 and the hash algorithm of the cipher suite.
    pub const fn new(
        external_identity: &'a [u8],
        context: &'a [u8],
        algorithm: HashAlgorithm,
    ) -> Self {
        let target_kdf = target_kdf(algorithm);
        Self { external_identity, context, target_protocol: DTLS_1_3, target_kdf }
    }

    /// Whether the identity is for DTLS 1.3 and this hash algorithm.
    pub fn is_for(&self, algorithm: HashAlgorithm) -> bool {
        self.target_protocol == DTLS_1_3 && self.target_kdf == target_kdf(algorithm)
    }

    /// The bytes on the wire.
    pub fn to_bytes(self) -> Vec<u8> {
        let room = 8 + self.external_identity.len() + self.context.len();
        let mut bytes = alloc::vec![0; room];
        self.write(&mut Writer::new(&mut bytes)).expect("there is room for all fields");
        bytes
    }

    /// The key that is imported for this identity from an external `key`. The external key has
    /// SHA-256 as its hash, which RFC 9258, section 5.1, prescribes where none is specified.
    pub fn import(&self, key: &[u8], algorithm: HashAlgorithm) -> Zeroizing<Vec<u8>> {
        let mut hash = [0; 32];
        Sha256.digest(&[&self.to_bytes()], &mut hash);
        let mut imported = Zeroizing::new(alloc::vec![0; algorithm.output_len()]);
        TrafficSecret::extract(&Sha256, &[], key).expand("derived psk", &hash, &mut imported);
        imported
    }
}

/// The number of a hash algorithm's KDF in the registry of RFC 9258, section 10.
const fn target_kdf(algorithm: HashAlgorithm) -> u16 {
    match algorithm {
        HashAlgorithm::Sha256 => 1,
        #[cfg(feature = "sha384")]
        HashAlgorithm::Sha384 => 2,
    }
}

impl<'a> Decode<'a> for ImportedIdentity<'a> {
    fn read(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let (external_identity, context) = (r.vec16()?, r.vec16()?);
        if external_identity.is_empty() || context.len() > LONGEST_CONTEXT {
            return Err(DecodeError::invalid("imported PSK identity"));
        }
        Ok(Self { external_identity, context, target_protocol: r.u16()?, target_kdf: r.u16()? })
    }
}

impl Encode for ImportedIdentity<'_> {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        w.vec16(|w| w.bytes(self.external_identity))?;
        w.vec16(|w| w.bytes(self.context))?;
        w.u16(self.target_protocol)?;
        w.u16(self.target_kdf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::EarlySecret;
    use std::format;
    use std::string::String;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// `tests/known_answers.py`, function `importer`.
    #[test]
    fn a_second_implementation_imports_the_same_keys() {
        let cases: [(&[u8], &[u8], _, _, _); 2] = [
            (
                b"",
                &[0x2a; 32],
                "000873656e736f7220370000fefc0001",
                "5e9ab9b62d1bcd2fe867c5b3df5579649239ed05ad958cd3806bd5cf54a60a1b",
                "7b49f11e40ad311754d4f46be6ec77a6066d3675e5ba92e867d5c6c85cb63411",
            ),
            (
                b"client: sensor 7, server: hub",
                &core::array::from_fn::<u8, 16, _>(|i| i as u8),
                "000873656e736f722037001d636c69656e743a2073656e736f7220372c207365727665723a20687562fefc0001",
                "abf6a16a6b2c58b9dde22342b48c5f68ab539903575cc1d274546798b908260a",
                "cbd99dfc3c4b87c91d8deeddcb7cd2f652178944ec0c608bb4239c070ed134f6",
            ),
        ];
        for (context, key, identity, imported, binder) in cases {
            let sha = HashAlgorithm::Sha256;
            let own = ImportedIdentity::new(b"sensor 7", context, sha);
            assert_eq!(hex(&own.to_bytes()), identity);
            let key = own.import(key, sha);
            assert_eq!(hex(&key), imported);
            let early = EarlySecret::from_psk(&Sha256, &key);
            assert_eq!(hex(&early.imported_binder().verify_data(&[1; 32])), binder);
        }
    }

    /// The external key is hashed with SHA-256, whatever the target's hash is.
    #[cfg(feature = "sha384")]
    #[test]
    fn a_second_implementation_imports_the_same_key_for_sha_384() {
        use crate::crypto::Sha384;
        let own = ImportedIdentity::new(b"sensor 7", b"", HashAlgorithm::Sha384);
        assert_eq!(hex(&own.to_bytes()), "000873656e736f7220370000fefc0002");
        let key = own.import(&[0x2a; 32], HashAlgorithm::Sha384);
        let imported = "7ca7df582ea196f1667814f7d003840bcda8738dd62f61343a9c8edb92516b0aeb4fc4257eea1be1296cd3a63e599fb6";
        assert_eq!(hex(&key), imported);
        let early = EarlySecret::from_psk(&Sha384, &key);
        let binder = "87ec71a14c11944c999897b965148d55fc1690ea506cc5074f8cd7f1f48d5642f1918169ab71e7141674c79fda685343";
        assert_eq!(hex(&early.imported_binder().verify_data(&[1; 48])), binder);
    }

    #[test]
    fn round_trip_and_every_cut() {
        let identity = ImportedIdentity::new(b"a", b"bc", HashAlgorithm::Sha256);
        assert!(identity.is_for(HashAlgorithm::Sha256));
        let bytes = identity.to_bytes();
        assert_eq!(ImportedIdentity::decode(&bytes), Ok(identity));
        for cut in 0..bytes.len() {
            assert!(ImportedIdentity::decode(&bytes[..cut]).is_err());
        }
        assert!(ImportedIdentity::decode(&[&bytes[..], &[0]].concat()).is_err());
        assert!(ImportedIdentity::decode(&[0, 0, 0, 0, 0xfe, 0xfc, 0, 1]).is_err());
        let of_tls = ImportedIdentity { target_protocol: 0x0304, ..identity };
        let of_sha384 = ImportedIdentity { target_kdf: 2, ..identity };
        assert!([of_tls, of_sha384].iter().all(|other| !other.is_for(HashAlgorithm::Sha256)));
    }
}
