//! What a host chooses: which suites and groups there are, and who computes them.

use super::suites::known_answer::{KnownAnswer, KnownAnswer12};
use super::{Aead, CipherSuiteId, Group, Limits, Pad, PrfProtection, Protection, TrafficSecret};
use alloc::boxed::Box;
use core::fmt;

/// A cipher suite of 1.3. All of them use SHA-256.
#[derive(Debug)]
pub struct CipherSuite {
    /// Its code point.
    pub id: CipherSuiteId,
    /// Its name in the registry, or ours.
    pub name: &'static str,
    /// Whether records are encrypted. If not, the suite is in no default (RFC 9150, section 9).
    pub encrypts: bool,
    /// Length of a record's own tag in the standard layout, in bytes: 32, 16 or 8.
    pub tag_len: usize,
    /// How long one of its keys may be used.
    pub limits: Limits,
    /// What makes a traffic secret into record protection.
    pub keying: Keying,
    /// What the self-test must compute.
    pub known_answer: KnownAnswer,
}

/// What makes a traffic secret into a [`Pad`], under an aggregation context.
pub type PadKeying = fn(&TrafficSecret, context: [u8; 3]) -> Box<dyn Pad>;

/// What a suite can do with a traffic secret.
///
/// Aggregation needs tags that are a pseudorandom function's output. GCM,
/// ChaCha20-Poly1305 and short tags are excluded by this type, not by configuration.
#[derive(Debug)]
pub enum Keying {
    /// Plain tags only.
    Aead(fn(&TrafficSecret) -> Box<dyn Protection>),
    /// Tags may be aggregated.
    Prf {
        /// The standard layout, one tag a record.
        plain: fn(&TrafficSecret) -> Box<dyn Protection>,
        /// Content type first and tags aggregated. The context is scheme ‖ n ‖ o,
        /// so that two ends with different parameters fail closed.
        aggregated: fn(&TrafficSecret, context: [u8; 3]) -> Box<dyn PrfProtection>,
        /// What hides short records beside their numbers; `None` where numbers are not hidden.
        pad: Option<PadKeying>,
    },
}

impl Keying {
    /// Protection in the standard layout.
    pub fn plain(&self, secret: &TrafficSecret) -> Box<dyn Protection> {
        match self {
            Self::Aead(plain) | Self::Prf { plain, .. } => plain(secret),
        }
    }
}

/// A cipher suite of 1.2. All of them use SHA-256.
#[derive(Clone, Copy, Debug)]
pub struct CipherSuite12 {
    /// Its code point.
    pub id: CipherSuiteId,
    /// Its name in the registry.
    pub name: &'static str,
    /// Where the premaster secret comes from.
    pub exchange: Exchange12,
    /// Length of a record's tag in bytes: 16 or 8.
    pub tag_len: usize,
    /// Length of a key in bytes, at most 32.
    pub key_len: usize,
    /// Length of a key block's IVs in bytes: 4, with 8 more of the nonce in
    /// each record (RFC 5288, section 3; RFC 6655, section 3), or all 12 (RFC
    /// 7905, section 2).
    pub fixed_iv_len: usize,
    /// How long one of its keys may be used.
    pub limits: Limits,
    /// What makes a key and an IV of the lengths above into record protection.
    /// Where a record carries a part of the nonce, [`Record::number`](crate::crypto::Record::number) is that part,
    /// which its sender has chosen.
    pub aead: fn(key: &[u8], fixed_iv: &[u8]) -> Box<dyn Aead>,
    /// What the self-test must compute.
    pub known_answer: KnownAnswer12,
}

/// Where the premaster secret of 1.2 comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchange12 {
    /// A pre-shared key alone (RFC 4279): no forward secrecy.
    Psk,
    /// A pre-shared key and an ephemeral key exchange (RFC 5489).
    EcdhePsk,
}

impl CipherSuite12 {
    /// How many bytes of the nonce a record carries: 8 or 0.
    pub const fn explicit_nonce_len(&self) -> usize {
        12 - self.fixed_iv_len
    }
}

/// The cryptography of one host.
#[derive(Clone, Copy)]
pub struct Provider {
    /// Who computes it.
    pub name: &'static str,
    /// Cipher suites of 1.3, in order of preference.
    pub suites: &'static [&'static CipherSuite],
    /// Cipher suites for group records alone: no handshake negotiates them.
    pub suites_multicast: &'static [&'static CipherSuite],
    /// Cipher suites of 1.2, in order of preference.
    pub suites_12: &'static [&'static CipherSuite12],
    /// Key exchange groups, in order of preference.
    pub groups: &'static [&'static dyn Group],
}

impl Provider {
    /// The suite of 1.3 with this code point, if there is one.
    pub fn suite(&self, id: CipherSuiteId) -> Option<&'static CipherSuite> {
        self.suites.iter().copied().find(|suite| suite.id == id)
    }

    /// The suite for group records with this code point, if there is one.
    pub fn suite_multicast(&self, id: CipherSuiteId) -> Option<&'static CipherSuite> {
        let known = self.suites_multicast.iter().chain(self.suites);
        known.copied().find(|suite| suite.id == id)
    }

    /// The suite of 1.2 with this code point, if there is one.
    pub fn suite_12(&self, id: CipherSuiteId) -> Option<&'static CipherSuite12> {
        self.suites_12.iter().copied().find(|suite| suite.id == id)
    }

    /// The group with this code point, if there is one.
    pub fn group(&self, id: super::NamedGroup) -> Option<&'static dyn Group> {
        self.groups.iter().copied().find(|group| group.id() == id)
    }

    /// Recomputes the known answers of every suite and group.
    ///
    /// # Errors
    /// Names the first suite or group that computes something else. It must not be used.
    pub fn self_test(&self) -> Result<(), SelfTestFailed> {
        for suite in self.suites.iter().chain(self.suites_multicast) {
            if !suite.known_answer.holds(suite) {
                return Err(SelfTestFailed(suite.name));
            }
        }
        for suite in self.suites_12 {
            if !suite.known_answer.holds(suite) {
                return Err(SelfTestFailed(suite.name));
            }
        }
        for group in self.groups {
            if !group.known_answer().holds(*group) {
                return Err(SelfTestFailed(group.name()));
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Provider({})", self.name)
    }
}

/// A suite or group, named here, does not compute its known answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelfTestFailed(pub &'static str);

impl fmt::Display for SelfTestFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} does not compute its known answers", self.0)
    }
}

impl core::error::Error for SelfTestFailed {}
