//! Enrolment tokens: one line of text for each device, printed once and typed or scanned once.
//!
//! ```text
//! token: "lightseal-1." ‖ base64url(key (32) ‖ device<1..64> ‖ controller<1..255> ‖ check (4))
//! ```
//!
//! `check` is the first 4 bytes of the SHA-256 of the bytes before it, and detects typing errors. A
//! token is as secret as a key: anybody that reads it can impersonate the device.

use base64ct::{Base64UrlUnpadded, Encoding};
use lightseal_core::{DecodeError, Reader, Writer};
use sha2::{Digest, Sha256};
use std::fmt;
use zeroize::Zeroizing;

const PREFIX: &str = "lightseal-1.";
/// The maximum length of a device's name in bytes.
pub const MAX_NAME: usize = 64;
const MAX_BYTES: usize = 32 + 1 + MAX_NAME + 1 + 255 + CHECK;
const CHECK: usize = 4;

/// A device's name, its key, and the address of its controller.
#[derive(Clone)]
pub struct Token {
    /// The key that authenticates the device.
    pub key: Zeroizing<[u8; 32]>,
    /// The device's name.
    pub device: String,
    /// The address of its controller, as `host:port`.
    pub controller: String,
}

/// A text is not a valid token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAToken;

impl fmt::Display for NotAToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a token, or mistyped")
    }
}

impl std::error::Error for NotAToken {}

/// Whether a device can have this name: 1 to 64 bytes without control characters.
pub fn is_device_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len()) && !name.chars().any(char::is_control)
}

fn check(bytes: &[u8]) -> [u8; CHECK] {
    let digest = Sha256::digest(bytes);
    [digest[0], digest[1], digest[2], digest[3]]
}

impl Token {
    /// The token as text. `None` if the name is not valid or the address is longer than 255 bytes.
    pub fn to_text(&self) -> Option<Zeroizing<String>> {
        let mut buf = Zeroizing::new([0; MAX_BYTES]);
        let mut w = Writer::new(&mut *buf);
        let write = |w: &mut Writer<'_>| {
            w.bytes(&*self.key)?;
            w.vec8(|w| w.bytes(self.device.as_bytes()))?;
            w.vec8(|w| w.bytes(self.controller.as_bytes()))?;
            let check = check(w.written());
            w.bytes(&check)
        };
        if !is_device_name(&self.device) || self.controller.len() > 255 {
            return None;
        }
        write(&mut w).ok()?;
        let bytes = w.written();
        let mut text =
            Zeroizing::new(String::with_capacity(PREFIX.len() + bytes.len().div_ceil(3) * 4));
        text.push_str(PREFIX);
        let mut encoded = Zeroizing::new([0; MAX_BYTES.div_ceil(3) * 4]);
        text.push_str(Base64UrlUnpadded::encode(bytes, &mut *encoded).ok()?);
        Some(text)
    }

    /// A token from its text. White space around it is ignored.
    ///
    /// # Errors
    /// The text is not a valid token.
    pub fn parse(text: &str) -> Result<Self, NotAToken> {
        let encoded = text.trim().strip_prefix(PREFIX).ok_or(NotAToken)?;
        let mut buf = Zeroizing::new([0; MAX_BYTES]);
        let bytes = Base64UrlUnpadded::decode(encoded, &mut *buf).map_err(|_| NotAToken)?;
        let content = bytes.len().checked_sub(CHECK).ok_or(NotAToken)?;
        if check(&bytes[..content]) != bytes[content..] {
            return Err(NotAToken);
        }
        Self::read(&bytes[..content]).map_err(|_| NotAToken)
    }

    fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        let text = |bytes: &[u8]| {
            let text = std::str::from_utf8(bytes).map_err(|_| DecodeError::invalid("text"))?;
            Ok(text.to_owned())
        };
        let r = &mut Reader::new(bytes);
        let key = Zeroizing::new(r.array()?);
        let (device, controller) = (text(r.vec8()?)?, text(r.vec8()?)?);
        r.finish()?;
        if !is_device_name(&device) {
            return Err(DecodeError::invalid("name of a device"));
        }
        Ok(Self { key, device, controller })
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Token");
        debug.field("device", &self.device).field("controller", &self.controller);
        debug.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> Token {
        let controller = "[fd00::1]:5780".to_owned();
        Token { key: Zeroizing::new([7; 32]), device: "lamp 1".to_owned(), controller }
    }

    #[test]
    fn a_token_is_read_as_it_was_printed_and_never_mistyped() {
        let text = token().to_text().unwrap();
        let read = Token::parse(&format!("  {}\n", *text)).unwrap();
        assert_eq!((&*read.device, &*read.controller), ("lamp 1", "[fd00::1]:5780"));
        assert_eq!(*read.key, [7; 32]);
        for at in 0..text.len() {
            let mut other = text.as_bytes().to_vec();
            other[at] = if other[at] == b'x' { b'y' } else { b'x' };
            assert!(Token::parse(std::str::from_utf8(&other).unwrap()).is_err(), "{at}");
            assert!(Token::parse(&text[..at]).is_err(), "{at}");
        }
        assert!(!format!("{read:?}").contains("7, 7"));
    }

    #[test]
    fn names_have_limits() {
        let long = Token { device: "x".repeat(65), ..token() };
        assert!(long.to_text().is_none());
        assert!(Token { device: "a\nb".to_owned(), ..token() }.to_text().is_none());
        assert!(Token { controller: "x".repeat(255), ..token() }.to_text().is_some());
    }
}
