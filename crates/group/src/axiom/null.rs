//! The NULL suite: HMAC-SHA256 over records that are not encrypted (RFC 5246, sections 6.2.3 and
//! 6.2.3.1).

#[cfg(feature = "null-suite")]
use hmac::KeyInit;
use hmac::{Hmac, Mac};
use lightseal_dtls::crypto::{Aead, Record, Unauthentic};
use sha2::Sha256;

/// MAC(key, additional data ‖ content). In DTLS 1.2 the input of the MAC has the layout of an
/// AEAD's additional data, followed by the content. There is no nonce, because the additional data
/// contains the record number.
pub(super) struct NullSha256(Hmac<Sha256>);

impl NullSha256 {
    /// The length in bytes of a key, and of a tag.
    pub(super) const LEN: usize = 32;

    #[cfg(feature = "null-suite")]
    pub(super) fn new(mac_key: &[u8]) -> Self {
        Self(Hmac::new_from_slice(mac_key).expect("HMAC takes any key"))
    }

    fn mac(&self, record: Record<'_>, content: &[u8]) -> Hmac<Sha256> {
        self.0.clone().chain_update(record.header).chain_update(content)
    }
}

impl Aead for NullSha256 {
    fn seal(&self, record: Record<'_>, content: &mut [u8], tag: &mut [u8]) {
        tag.copy_from_slice(&self.mac(record, content).finalize().into_bytes());
    }

    fn open(&self, record: Record<'_>, content: &mut [u8], tag: &[u8]) -> Result<(), Unauthentic> {
        // `verify_slice` compares in constant time, and refuses a tag of another length.
        self.mac(record, content).verify_slice(tag).map_err(|_| Unauthentic)
    }
}
