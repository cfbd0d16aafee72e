//! Cipher suites of `axiom-1.2`: the DTLS 1.2 suites that need only a pre-shared key.

use super::null::NullSha256;
use crate::parts::{Axiom12, NullSuite};
use core::fmt;
use lightseal_dtls::crypto::{Aead, CipherSuite12, CipherSuiteId, Limits};
#[cfg(feature = "alloc")]
use lightseal_dtls::crypto::{Exchange12, Provider};
use lightseal_dtls::heap::Box;

/// Length of a record's header in bytes.
pub const HEADER_LEN: usize = lightseal_dtls::record::dtls12::HEADER;

/// A cipher suite that a group's controller can choose (section 5.3). Lengths in bytes.
///
/// | suite | tag | explicit nonce | overhead of a record |
/// |---|---|---|---|
/// | TLS_PSK_WITH_AES_128_CCM_8 | 8 | 8 | 29 |
/// | TLS_PSK_WITH_AES_128_CCM | 16 | 8 | 37 |
/// | TLS_PSK_WITH_AES_128_GCM_SHA256 | 16 | 8 | 37 |
/// | TLS_PSK_WITH_CHACHA20_POLY1305_SHA256 | 16 | – | 29 |
/// | TLS_PSK_WITH_NULL_SHA256, **which does not encrypt** | 32 | – | 45 |
#[derive(Clone, Copy)]
pub struct Suite {
    kind: SuiteKind,
    pub(crate) part: Axiom12,
}

#[derive(Clone, Copy)]
enum SuiteKind {
    Aead(&'static CipherSuite12),
    Null(NullSuite),
}

impl Suite {
    /// HMAC-SHA256 over records that are **not encrypted** (RFC 5487, section 3; RFC 5246,
    /// section 6.2.3.1). It needs no provider.
    #[cfg(feature = "null-suite")]
    pub const PSK_WITH_NULL_SHA256: Self = match (NullSuite::INCLUDED, Axiom12::INCLUDED) {
        (Some(null), Some(part)) => Self { kind: SuiteKind::Null(null), part },
        _ => panic!("the feature `null-suite`"),
    };

    /// The suite with this code point, if a group can use it: a PSK suite of `provider` without a
    /// key exchange, or the NULL suite with HMAC-SHA256.
    #[cfg(feature = "alloc")]
    pub fn new(provider: &Provider, id: CipherSuiteId) -> Option<Self> {
        let part = Axiom12::INCLUDED?;
        if id == CipherSuiteId::PSK_WITH_NULL_SHA256 {
            return NullSuite::INCLUDED.map(|null| Self { kind: SuiteKind::Null(null), part });
        }
        let suite = provider.suite_12(id).filter(|suite| suite.exchange == Exchange12::Psk)?;
        Some(Self { kind: SuiteKind::Aead(suite), part })
    }

    /// The suite's code point.
    pub const fn id(&self) -> CipherSuiteId {
        match self.kind {
            SuiteKind::Aead(suite) => suite.id,
            SuiteKind::Null(_) => CipherSuiteId::PSK_WITH_NULL_SHA256,
        }
    }

    /// The suite's name in the IANA registry.
    pub const fn name(&self) -> &'static str {
        match self.kind {
            SuiteKind::Aead(suite) => suite.name,
            SuiteKind::Null(_) => "TLS_PSK_WITH_NULL_SHA256",
        }
    }

    /// Whether records are encrypted.
    pub const fn encrypts(&self) -> bool {
        matches!(self.kind, SuiteKind::Aead(_))
    }

    /// The usage limits of one key. All senders seal under one server write key, and none knows how
    /// much the others have sealed. Each sender therefore counts with
    /// [`Usage::add_sealed_by`](lightseal_dtls::crypto::Usage::add_sealed_by), as if every possible SenderID
    /// of the epoch had sealed as much. A record's additional data has [`HEADER_LEN`] bytes.
    pub const fn limits(&self) -> &'static Limits {
        match self.kind {
            SuiteKind::Aead(suite) => &suite.limits,
            SuiteKind::Null(_) => &Limits::HMAC,
        }
    }

    /// The length of a record without its content, in bytes.
    pub const fn overhead(&self) -> usize {
        HEADER_LEN + self.explicit_nonce_len() + self.tag_len()
    }

    /// `mac_length`, or the length of an AEAD's tag, in bytes.
    pub const fn tag_len(&self) -> usize {
        match self.kind {
            SuiteKind::Aead(suite) => suite.tag_len,
            SuiteKind::Null(_) => NullSha256::LEN,
        }
    }

    /// `record_iv_length`: the length in bytes of the explicit nonce in front of a record's
    /// content.
    pub const fn explicit_nonce_len(&self) -> usize {
        match self.kind {
            SuiteKind::Aead(suite) => suite.explicit_nonce_len(),
            SuiteKind::Null(_) => 0,
        }
    }

    /// `mac_key_length` in bytes: 0 for an AEAD.
    pub const fn mac_key_len(&self) -> usize {
        match self.kind {
            SuiteKind::Aead(_) => 0,
            SuiteKind::Null(_) => NullSha256::LEN,
        }
    }

    /// `enc_key_length` in bytes.
    pub const fn enc_key_len(&self) -> usize {
        match self.kind {
            SuiteKind::Aead(suite) => suite.key_len,
            SuiteKind::Null(_) => 0,
        }
    }

    /// `fixed_iv_length` in bytes.
    pub const fn fixed_iv_len(&self) -> usize {
        match self.kind {
            SuiteKind::Aead(suite) => suite.fixed_iv_len,
            SuiteKind::Null(_) => 0,
        }
    }
}

/// A suite with which records are sealed and opened, wherever its keys lie.
pub trait RecordSuite: Copy {
    /// The protection of one direction.
    type Aead: Aead;

    /// As [`Suite::limits`].
    fn limits(&self) -> &'static Limits;

    /// As [`Suite::encrypts`].
    fn encrypts(&self) -> bool;

    /// As [`Suite::tag_len`].
    fn tag_len(&self) -> usize;

    /// As [`Suite::explicit_nonce_len`].
    fn explicit_nonce_len(&self) -> usize;

    /// As [`Suite::mac_key_len`].
    fn mac_key_len(&self) -> usize;

    /// As [`Suite::enc_key_len`].
    fn enc_key_len(&self) -> usize;

    /// As [`Suite::fixed_iv_len`].
    fn fixed_iv_len(&self) -> usize;

    /// Record protection from keys and an IV of the lengths above. An AEAD suite ignores the MAC
    /// key, the NULL suite uses only the MAC key.
    fn protection(&self, mac_key: &[u8], enc_key: &[u8], iv: &[u8]) -> Self::Aead;
}

impl RecordSuite for Suite {
    type Aead = Box<dyn Aead>;

    fn limits(&self) -> &'static Limits {
        Self::limits(self)
    }

    fn encrypts(&self) -> bool {
        Self::encrypts(self)
    }

    fn tag_len(&self) -> usize {
        Self::tag_len(self)
    }

    fn explicit_nonce_len(&self) -> usize {
        Self::explicit_nonce_len(self)
    }

    fn mac_key_len(&self) -> usize {
        Self::mac_key_len(self)
    }

    fn enc_key_len(&self) -> usize {
        Self::enc_key_len(self)
    }

    fn fixed_iv_len(&self) -> usize {
        Self::fixed_iv_len(self)
    }

    fn protection(&self, mac_key: &[u8], enc_key: &[u8], iv: &[u8]) -> Box<dyn Aead> {
        match self.kind {
            SuiteKind::Aead(suite) => (suite.aead)(enc_key, iv),
            SuiteKind::Null(part) => null_protection(part, mac_key),
        }
    }
}

#[cfg(feature = "null-suite")]
fn null_protection(_: NullSuite, mac_key: &[u8]) -> Box<dyn Aead> {
    Box::new(NullSha256::new(mac_key))
}

#[cfg(not(feature = "null-suite"))]
fn null_protection(part: NullSuite, _: &[u8]) -> Box<dyn Aead> {
    match part {}
}

impl PartialEq for Suite {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl Eq for Suite {}

impl fmt::Debug for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightseal_dtls::crypto::rustcrypto::PROVIDER;

    #[test]
    fn overheads_are_those_of_the_table() {
        let overheads = [
            (CipherSuiteId::PSK_WITH_AES_128_CCM_8, 29),
            (CipherSuiteId::PSK_WITH_AES_128_CCM, 37),
            (CipherSuiteId::PSK_WITH_AES_128_GCM_SHA256, 37),
            (CipherSuiteId::PSK_WITH_CHACHA20_POLY1305_SHA256, 29),
            (CipherSuiteId::PSK_WITH_NULL_SHA256, 45),
        ];
        for (id, overhead) in overheads {
            let suite = Suite::new(&PROVIDER, id).unwrap();
            assert_eq!((suite.id(), suite.overhead()), (id, overhead));
            assert_eq!(suite.encrypts(), id != CipherSuiteId::PSK_WITH_NULL_SHA256);
        }
    }

    /// Members of a group perform no handshake and hence no key exchange, and DTLS 1.3 has another
    /// record format.
    #[test]
    fn suites_with_a_key_exchange_and_those_of_1_3_are_refused() {
        for id in [
            CipherSuiteId::ECDHE_PSK_WITH_AES_128_GCM_SHA256,
            CipherSuiteId::ECDHE_PSK_WITH_AES_128_CCM_8_SHA256,
            CipherSuiteId::AES_128_CCM_8_SHA256,
            CipherSuiteId::SHA256_SHA256,
        ] {
            assert_eq!(Suite::new(&PROVIDER, id), None, "{id:?}");
        }
    }
}
