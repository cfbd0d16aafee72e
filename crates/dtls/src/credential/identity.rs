//! Who a peer is, in the one text form of access lists, logs and metrics.

use crate::handshake::Negotiated;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Write};
use core::str::FromStr;

/// Who a peer is, as the handshake proved it.
///
/// Its text form is one of:
///
/// ```text
/// psk:sensor-7                   the identity of a pre-shared key
/// spki:ba7816bf…f20015ad         SHA-256 of a SubjectPublicKeyInfo in DER, 64 hexadecimal digits
/// subject:sensor-7.example       the name that a certificate proves
/// ```
///
/// In identities and names, `\xNN` stands for a byte that is a control character or not UTF-8, and
/// `\\` for a backslash. A peer with a certificate has two identities: by its key and by its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Identity {
    /// The identity of an external pre-shared key.
    Psk(Vec<u8>),
    /// SHA-256 of a SubjectPublicKeyInfo in DER (RFC 5280, section 4.1.2.7).
    Spki([u8; 32]),
    /// The name that a certificate proves.
    Subject(String),
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Psk(identity) => {
                f.write_str("psk:")?;
                escape(f, identity)
            }
            Self::Spki(hash) => {
                f.write_str("spki:")?;
                hash.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Self::Subject(name) => {
                f.write_str("subject:")?;
                escape(f, name.as_bytes())
            }
        }
    }
}

/// Writes bytes as text without control characters.
fn escape(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => f.write_str("\\\\")?,
                _ if character.is_control() => {
                    let mut bytes = [0; 4];
                    for byte in character.encode_utf8(&mut bytes).bytes() {
                        write!(f, "\\x{byte:02x}")?;
                    }
                }
                _ => f.write_char(character)?,
            }
        }
        for byte in chunk.invalid() {
            write!(f, "\\x{byte:02x}")?;
        }
    }
    Ok(())
}

/// The bytes that [`escape`] wrote.
fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        match after {
            [b'\\', after @ ..] => {
                bytes.push(b'\\');
                rest = after;
            }
            [b'x', high, low, after @ ..] => {
                bytes.push(byte(*high, *low)?);
                rest = after;
            }
            _ => return None,
        }
    }
    Some(bytes)
}

/// The byte that two hexadecimal digits stand for.
fn byte(high: u8, low: u8) -> Option<u8> {
    let digit = |digit: u8| char::from(digit).to_digit(16);
    u8::try_from(digit(high)? << 4 | digit(low)?).ok()
}

impl Negotiated {
    /// Every identity that the handshake proved of the peer, the one for logs first. At a client
    /// with a PSK this is the identity of the PSK, which both ends share. Empty if the peer did not
    /// authenticate itself.
    pub fn peer_identities(&self) -> Vec<Identity> {
        if self.psk_identity.is_empty() {
            return Vec::new();
        }
        alloc::vec![Identity::Psk(self.psk_identity.clone())]
    }
}

/// A text is not the form of an [`Identity`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAnIdentity;

impl fmt::Display for NotAnIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected psk:IDENTITY, spki: with 64 hexadecimal digits, or subject:NAME")
    }
}

impl core::error::Error for NotAnIdentity {}

impl FromStr for Identity {
    type Err = NotAnIdentity;

    fn from_str(text: &str) -> Result<Self, NotAnIdentity> {
        let (kind, text) = text.split_once(':').ok_or(NotAnIdentity)?;
        let plain = || unescape(text).filter(|bytes| !bytes.is_empty()).ok_or(NotAnIdentity);
        match kind {
            "psk" => plain().map(Self::Psk),
            "subject" => String::from_utf8(plain()?).map(Self::Subject).map_err(|_| NotAnIdentity),
            "spki" if text.len() == 64 => {
                let mut hash = [0; 32];
                for (into, pair) in hash.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
                    let [high, low] = pair else { return Err(NotAnIdentity) };
                    *into = byte(*high, *low).ok_or(NotAnIdentity)?;
                }
                Ok(Self::Spki(hash))
            }
            _ => Err(NotAnIdentity),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec;

    #[test]
    fn an_identity_is_read_as_it_is_written() {
        for (identity, text) in [
            (Identity::Psk(b"sensor-7".to_vec()), "psk:sensor-7"),
            (Identity::Psk(b"a:b c".to_vec()), "psk:a:b c"),
            (Identity::Psk(b"\x00\xff\\\xc3\xa9\n".to_vec()), "psk:\\x00\\xff\\\\é\\x0a"),
            (Identity::Subject("CN=a, O=b".into()), "subject:CN=a, O=b"),
            // U+0085 is a control character of two bytes.
            (Identity::Subject("\u{85}".into()), "subject:\\xc2\\x85"),
            (Identity::Spki([0x5a; 32]), &*("spki:".to_string() + &"5a".repeat(32))),
        ] {
            assert_eq!(identity.to_string(), text);
            assert_eq!(text.parse(), Ok(identity));
        }
    }

    #[test]
    fn other_texts_are_no_identities() {
        let hash = "5a".repeat(32);
        let long = vec![
            "spki:".to_string() + &hash[1..],
            "spki:".to_string() + &hash + "0",
            "spki:+".to_string() + &hash[1..],
        ];
        let short = ["", "psk", "psk:", "subject:", "sensor-7", "PSK:a", "psk:\\", "psk:\\x0"];
        let short = short.into_iter().chain(["psk:\\xg0", "subject:\\xff", "name:a", ":a"]);
        for wrong in short.chain(long.iter().map(|text| &**text)) {
            assert_eq!(wrong.parse::<Identity>(), Err(NotAnIdentity), "{wrong}");
        }
    }
}
