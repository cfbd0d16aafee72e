//! Cipher suites, and the keys of secure associations (IEEE 802.1AE-2018, clause 14).

use crate::crypto::{Gcm, GcmProvider};
use crate::tag::Sci;
use alloc::boxed::Box;
use core::fmt;
use core::str::FromStr;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// A cipher suite (table 14-1). All have 16-byte ICVs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CipherSuite {
    /// GCM-AES-128, the default suite.
    #[default]
    GcmAes128,
    /// GCM-AES-256.
    GcmAes256,
    /// GCM-AES-XPN-128: 64-bit packet numbers.
    GcmAesXpn128,
    /// GCM-AES-XPN-256: 64-bit packet numbers.
    GcmAesXpn256,
}

impl CipherSuite {
    /// Every suite.
    pub const ALL: [Self; 4] =
        [Self::GcmAes128, Self::GcmAes256, Self::GcmAesXpn128, Self::GcmAesXpn256];

    /// The suite's identifier in MKA and management (table 14-1).
    pub const fn id(self) -> u64 {
        0x0080_c200_0100_0000
            | match self {
                Self::GcmAes128 => 1,
                Self::GcmAes256 => 2,
                Self::GcmAesXpn128 => 3,
                Self::GcmAesXpn256 => 4,
            }
    }

    /// Length of a key in bytes: 16 or 32.
    pub const fn key_len(self) -> usize {
        match self {
            Self::GcmAes128 | Self::GcmAesXpn128 => 16,
            Self::GcmAes256 | Self::GcmAesXpn256 => 32,
        }
    }

    /// Whether packet numbers have 64 bits, of which a tag carries the lower half.
    pub const fn extended(self) -> bool {
        matches!(self, Self::GcmAesXpn128 | Self::GcmAesXpn256)
    }

    /// The highest packet number. A key protects no frame after it.
    pub const fn last_pn(self) -> u64 {
        if self.extended() { u64::MAX } else { u32::MAX as u64 }
    }

    /// The suite's name as iproute2 writes it, such as `gcm-aes-xpn-128`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::GcmAes128 => "gcm-aes-128",
            Self::GcmAes256 => "gcm-aes-256",
            Self::GcmAesXpn128 => "gcm-aes-xpn-128",
            Self::GcmAesXpn256 => "gcm-aes-xpn-256",
        }
    }
}

impl fmt::Display for CipherSuite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The error for a name that no suite has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownSuite;

impl fmt::Display for UnknownSuite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("suites are gcm-aes-128, gcm-aes-256, gcm-aes-xpn-128 and gcm-aes-xpn-256")
    }
}

impl core::error::Error for UnknownSuite {}

impl FromStr for CipherSuite {
    type Err = UnknownSuite;

    fn from_str(name: &str) -> Result<Self, UnknownSuite> {
        Self::ALL.into_iter().find(|suite| suite.name() == name).ok_or(UnknownSuite)
    }
}

/// How many bytes of the user data stay readable in encrypted frames (clause 10.7.24).
///
/// User data that is shorter stays readable as a whole. The ICV covers all of it in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConfidentialityOffset {
    /// Everything is encrypted.
    #[default]
    None,
    /// The first 30 bytes are readable: EtherType, IPv4 header and ports.
    Bytes30,
    /// The first 50 bytes are readable: EtherType, IPv6 header and ports.
    Bytes50,
}

impl ConfidentialityOffset {
    /// Converts a number of bytes: 0, 30 or 50; `None` for others.
    pub const fn from_bytes(bytes: usize) -> Option<Self> {
        match bytes {
            0 => Some(Self::None),
            30 => Some(Self::Bytes30),
            50 => Some(Self::Bytes50),
            _ => None,
        }
    }

    /// The number of bytes: 0, 30 or 50.
    pub const fn bytes(self) -> usize {
        match self {
            Self::None => 0,
            Self::Bytes30 => 30,
            Self::Bytes50 => 50,
        }
    }
}

/// The input to the nonces of the XPN suites, besides the packet number (clause 14.7).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct XpnParameters {
    /// The short SCI of the sending channel: senders under one key must have different ones.
    pub ssci: u32,
    /// The salt of the key, which is the same for all senders.
    pub salt: [u8; 12],
}

impl fmt::Debug for XpnParameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("XpnParameters").field("ssci", &self.ssci).finish_non_exhaustive()
    }
}

/// Why a key was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// The length of the key is not [`CipherSuite::key_len`].
    Length(CipherSuite),
    /// An XPN suite without SSCI and salt, or another suite with them.
    Extended(CipherSuite),
    /// An XPN suite with a confidentiality offset: these suites encrypt everything or nothing
    /// (clause 14.7).
    Offset(CipherSuite),
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(suite) => write!(f, "keys of {suite} have {} bytes", suite.key_len()),
            Self::Extended(suite) if suite.extended() => {
                write!(f, "{suite} needs an SSCI and a salt")
            }
            Self::Extended(suite) => write!(f, "{suite} has no SSCI and no salt"),
            Self::Offset(suite) => write!(f, "{suite} has no confidentiality offset"),
        }
    }
}

impl core::error::Error for KeyError {}

/// The key of one secure association, for one direction.
pub struct SaKey {
    suite: CipherSuite,
    gcm: Box<dyn Gcm>,
    nonce: NonceBase,
    offset: ConfidentialityOffset,
}

#[derive(Zeroize, ZeroizeOnDrop)]
enum NonceBase {
    Sci,
    Extended { ssci: u32, salt: [u8; 12] },
}

impl SaKey {
    /// Makes a key (SAK) of `suite`; `extended` must be given if, and only if, it is an XPN suite.
    ///
    /// # Errors
    /// See [`KeyError`].
    pub fn new(
        provider: &GcmProvider,
        suite: CipherSuite,
        key: &[u8],
        extended: Option<XpnParameters>,
        offset: ConfidentialityOffset,
    ) -> Result<Self, KeyError> {
        let nonce = match extended {
            None if !suite.extended() => NonceBase::Sci,
            Some(XpnParameters { ssci, salt }) if suite.extended() => {
                NonceBase::Extended { ssci, salt }
            }
            _ => return Err(KeyError::Extended(suite)),
        };
        if suite.extended() && offset != ConfidentialityOffset::None {
            return Err(KeyError::Offset(suite));
        }
        let gcm = if suite.key_len() == 16 {
            key.try_into().map(provider.aes_128)
        } else {
            key.try_into().map(provider.aes_256)
        };
        let gcm = gcm.map_err(|_| KeyError::Length(suite))?;
        Ok(Self { suite, gcm, nonce, offset })
    }

    /// The suite that the key is for.
    pub const fn suite(&self) -> CipherSuite {
        self.suite
    }

    pub(crate) fn gcm(&self) -> &dyn Gcm {
        &*self.gcm
    }

    /// How many of `data_len` bytes are not encrypted; all of them if the frame is not encrypted.
    pub(crate) fn clear_len(&self, encrypted: bool, data_len: usize) -> usize {
        if encrypted { self.offset.bytes().min(data_len) } else { data_len }
    }

    /// The nonce of the frame with this packet number (clauses 14.5 and 14.7).
    pub(crate) fn nonce(&self, sci: Sci, pn: u64) -> [u8; 12] {
        let mut nonce = [0; 12];
        match &self.nonce {
            NonceBase::Sci => {
                nonce[..8].copy_from_slice(&sci.to_bytes());
                nonce[8..].copy_from_slice(&(pn as u32).to_be_bytes());
            }
            NonceBase::Extended { ssci, salt } => {
                nonce[..4].copy_from_slice(&ssci.to_be_bytes());
                nonce[4..].copy_from_slice(&pn.to_be_bytes());
                nonce.iter_mut().zip(salt).for_each(|(byte, salt)| *byte ^= salt);
            }
        }
        nonce
    }
}

impl fmt::Debug for SaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SaKey").field("suite", &self.suite).finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "rustcrypto"))]
mod tests {
    use super::*;
    use crate::crypto::rustcrypto::PROVIDER;
    use std::format;

    const EXTENDED: XpnParameters = XpnParameters {
        ssci: 0x7a30_c118,
        salt: *b"\xe6\x30\xe8\x1a\x48\xde\x86\xa2\x1c\x66\xfa\x6d",
    };

    fn key(
        suite: CipherSuite,
        len: usize,
        extended: Option<XpnParameters>,
    ) -> Result<SaKey, KeyError> {
        SaKey::new(&PROVIDER, suite, &[0x5a; 33][..len], extended, ConfidentialityOffset::None)
    }

    #[test]
    fn a_key_has_its_suites_length_and_parts() {
        for suite in CipherSuite::ALL {
            let extended = suite.extended().then_some(EXTENDED);
            let len = suite.key_len();
            assert!(key(suite, len, extended).is_ok());
            for wrong in [0, len - 1, len + 1, 48 - len] {
                let error = key(suite, wrong.min(33), extended).unwrap_err();
                assert_eq!(error, KeyError::Length(suite), "{wrong}");
            }
            let other = (!suite.extended()).then_some(EXTENDED);
            assert_eq!(key(suite, len, other).unwrap_err(), KeyError::Extended(suite));
            assert_eq!(suite.name().parse(), Ok(suite));
            let offset = ConfidentialityOffset::Bytes30;
            let offset = SaKey::new(&PROVIDER, suite, &[0; 32][..len], extended, offset);
            assert_eq!(offset.is_ok(), !suite.extended());
        }
        assert!("gcm-aes-192".parse::<CipherSuite>().is_err());
    }

    #[test]
    fn nonces_are_made_as_the_clauses_say() {
        let sci = Sci::from_bytes([0x12, 0x15, 0x35, 0x24, 0xc0, 0x89, 0x5e, 0x81]);
        let pn = 0xb0df_459c_b2c2_8465;
        let plain = key(CipherSuite::GcmAes128, 16, None).unwrap();
        assert_eq!(
            plain.nonce(sci, 0xb2c2_8465),
            *b"\x12\x15\x35\x24\xc0\x89\x5e\x81\xb2\xc2\x84\x65"
        );
        let extended = key(CipherSuite::GcmAesXpn128, 16, Some(EXTENDED)).unwrap();
        assert_eq!(extended.nonce(sci, pn), *b"\x9c\x00\x29\x02\xf8\x01\xc3\x3e\xae\xa4\x7e\x08");
    }

    #[test]
    fn what_is_shown_of_a_key_tells_nothing_of_it() {
        let shown = format!("{:?}", key(CipherSuite::GcmAesXpn256, 32, Some(EXTENDED)).unwrap());
        assert_eq!(shown, "SaKey { suite: GcmAesXpn256, .. }");
        assert_eq!(format!("{EXTENDED:?}"), "XpnParameters { ssci: 2050015512, .. }");
    }

    #[test]
    fn offsets_leave_short_data_readable() {
        for (offset, data, clear) in [(0, 9, 0), (30, 29, 29), (30, 31, 30), (50, 50, 50)] {
            let offset = ConfidentialityOffset::from_bytes(offset).unwrap();
            let key =
                SaKey::new(&PROVIDER, CipherSuite::GcmAes256, &[1; 32], None, offset).unwrap();
            assert_eq!((key.clear_len(true, data), key.clear_len(false, data)), (clear, data));
        }
        assert!(ConfidentialityOffset::from_bytes(40).is_none());
    }
}
