//! The identity of a gateway: an Ed25519 key pair (RFC 8032), and nothing else.
//!
//! A private key has a file of its own, which only its owner can read:
//!
//! ```text
//! lightseal-gateway-private-1:BASE64 of the seed (32 bytes)
//! ```
//!
//! Empty lines and lines that begin with `#` are ignored. A public key is 44 characters of base64
//! (RFC 4648, section 4). Other kinds of keys in later versions will have a prefix in both places.

use crate::ErrorLine;
use base64ct::{Base64, Encoding};
use ed25519_dalek::{SigningKey, VerifyingKey};
use lightseal_gateway::keys::GatewayId;
use lightseal_owner_only::file::{create, refuse_exposed};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;
use zeroize::Zeroizing;

/// The text before the key in a key file of version 1.
const PREFIX: &str = "lightseal-gateway-private-1:";
/// Number of base64 characters for 32 bytes.
const BASE64_CHARS: usize = 44;
/// The bytes before an Ed25519 public key in a SubjectPublicKeyInfo (RFC 8410, section 4).
const SPKI: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
/// Longest key file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 4096;

/// The public key of a gateway, by which its peers identify it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// Makes a public key of the 32 bytes of RFC 8032, section 5.1.2. `None` if they are no point
    /// on the curve, or one of the points of small order, for which anybody can make signatures.
    pub fn from_bytes(bytes: [u8; 32]) -> Option<Self> {
        let key = VerifyingKey::from_bytes(&bytes).ok()?;
        (!key.is_weak()).then_some(Self(bytes))
    }

    /// The 32 bytes of RFC 8032, section 5.1.2.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The key as SubjectPublicKeyInfo in DER.
    pub(crate) fn spki(&self) -> Vec<u8> {
        [&SPKI[..], &self.0].concat()
    }

    /// The key in a SubjectPublicKeyInfo, if it is an Ed25519 key.
    pub(crate) fn from_spki(der: &[u8]) -> Option<Self> {
        let key = der.strip_prefix(&SPKI)?;
        Self::from_bytes(key.try_into().ok()?)
    }

    /// The identity of the gateway that has this key.
    pub const fn id(&self) -> GatewayId {
        GatewayId(self.0)
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Base64::encode_string(&self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PublicKey {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut bytes = [0; 32];
        match Base64::decode(text, &mut bytes) {
            Ok(decoded) if decoded.len() == 32 => {}
            _ => return Err("not a public key of 44 characters, as printed by `keygen`"),
        }
        Self::from_bytes(bytes).ok_or("not a public key: mistyped?")
    }
}

impl Serialize for PublicKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PublicKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A gateway's private key. It is wiped from memory when it is dropped.
#[derive(Clone)]
pub struct Identity {
    seed: Zeroizing<[u8; 32]>,
    public: PublicKey,
}

impl Identity {
    /// Makes a private key of a seed, which must be 32 bytes of full entropy that nobody else ever
    /// sees.
    pub fn from_seed(seed: Zeroizing<[u8; 32]>) -> Self {
        let public = PublicKey(SigningKey::from_bytes(&seed).verifying_key().to_bytes());
        Self { seed, public }
    }

    /// Generates a new private key.
    ///
    /// # Errors
    /// If the operating system provides no randomness.
    pub fn generate() -> Result<Self, ErrorLine> {
        let mut seed = Zeroizing::new([0; 32]);
        getrandom::fill(&mut *seed).map_err(|error| ErrorLine::of("no randomness", error))?;
        Ok(Self::from_seed(seed))
    }

    /// Reads a key file.
    ///
    /// # Errors
    /// If the file cannot be read, is accessible to other users, or contains no key.
    pub fn load(path: &Path) -> Result<Self, ErrorLine> {
        let name = format!("identity {}", path.display());
        let failed = |error: std::io::Error| ErrorLine::of(&name, error);
        let file = File::open(path).map_err(failed)?;
        refuse_exposed(path, &file.metadata().map_err(failed)?)
            .map_err(|exposed| ErrorLine::of(&name, exposed))?;
        // Reserves the whole capacity, so that the string never grows and leaves no copy behind in
        // freed memory.
        let mut text = Zeroizing::new(String::with_capacity(MAX_FILE_BYTES as usize + 1));
        file.take(MAX_FILE_BYTES).read_to_string(&mut text).map_err(failed)?;
        Self::parse(&text).map_err(|what| ErrorLine::of(name, what))
    }

    /// Writes a key file that only this user can read.
    ///
    /// # Errors
    /// If the file cannot be written, or exists already: an existing key is never overwritten.
    pub fn store(&self, path: &Path) -> Result<(), ErrorLine> {
        create(path, self.to_text().as_bytes()).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => {
                ErrorLine::of(path.display(), "there already, and not overwritten")
            }
            _ => ErrorLine::of(path.display(), error),
        })
    }

    /// The content of a key file.
    fn to_text(&self) -> Zeroizing<String> {
        let mut encoded = Zeroizing::new([0; BASE64_CHARS]);
        let encoded =
            Base64::encode(&*self.seed, &mut *encoded).expect("44 characters hold 32 bytes");
        let mut text = Zeroizing::new(String::with_capacity(PREFIX.len() + BASE64_CHARS + 1));
        text.push_str(PREFIX);
        text.push_str(encoded);
        text.push('\n');
        text
    }

    fn parse(text: &str) -> Result<Self, &'static str> {
        let mut lines =
            text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let line = lines.next().ok_or("holds no key")?;
        if lines.next().is_some() {
            return Err("holds more than one key");
        }
        let encoded = line.strip_prefix(PREFIX).ok_or_else(|| {
            match line.strip_prefix("lightseal-gateway-private-") {
                Some(_) => "a key of a version that this program does not know",
                None => "not the private key of a gateway, as written by `keygen`",
            }
        })?;
        let mut seed = Zeroizing::new([0; 32]);
        match Base64::decode(encoded, &mut *seed) {
            Ok(decoded) if decoded.len() == 32 => {}
            _ => return Err("a key that was cut or mistyped"),
        }
        Ok(Self::from_seed(seed))
    }

    /// The public key.
    pub const fn public_key(&self) -> PublicKey {
        self.public
    }

    /// The seed, which is the private key.
    pub(crate) fn seed(&self) -> &[u8; 32] {
        &self.seed
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("public", &self.public).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(seed: u8) -> Identity {
        Identity::from_seed(Zeroizing::new([seed; 32]))
    }

    #[test]
    fn the_public_key_is_that_of_rfc_8032() {
        // Section 7.1, test 1.
        let seed = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
        let public = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
        let bytes = |hex: &str| -> [u8; 32] {
            std::array::from_fn(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap())
        };
        let identity = Identity::from_seed(Zeroizing::new(bytes(seed)));
        assert_eq!(identity.public_key().as_bytes(), &bytes(public));
    }

    #[test]
    fn only_ed25519_is_a_key() {
        let key = identity(1).public_key();
        let der = key.spki();
        assert_eq!(PublicKey::from_spki(&der), Some(key));
        for len in 0..der.len() {
            assert_eq!(PublicKey::from_spki(&der[..len]), None);
        }
        let mut other = der;
        other[8] = 0x6e; // X25519
        assert_eq!(PublicKey::from_spki(&other), None);
    }

    #[test]
    fn a_key_is_read_as_it_was_written_and_never_mistyped() {
        let text = identity(7).to_text();
        let read = Identity::parse(&format!("# plant A\n\n{}", *text)).unwrap();
        assert_eq!((read.public, *read.seed), (identity(7).public, [7; 32]));
        assert!(!format!("{read:?}").contains("7, 7"));
        for len in 0..text.trim_end().len() {
            assert!(Identity::parse(&text[..len]).is_err(), "{len}");
        }
        assert!(Identity::parse(&text.replace("-1:", "-2:")).unwrap_err().contains("version"));
        assert!(Identity::parse(&format!("{}{}", *text, *text)).unwrap_err().contains("one key"));
    }

    #[test]
    fn a_public_key_is_44_characters_and_a_point_of_large_order() {
        let text = identity(7).public_key().to_string();
        assert_eq!(text.len(), BASE64_CHARS);
        assert_eq!(text.parse(), Ok(identity(7).public_key()));
        for wrong in ["", &text[..43], &text[1..], &format!("{text}="), &"A".repeat(44)] {
            assert!(wrong.parse::<PublicKey>().is_err(), "{wrong}");
        }
        // The neutral element of the group, for which anybody can make signatures.
        let mut one = [0; 32];
        one[0] = 1;
        assert_eq!(PublicKey::from_bytes(one), None);
    }
}
