//! Identities of peers in one form, for access lists, logs and metrics.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Write};
use core::str::FromStr;

/// The identity of a peer, as its handshake has shown it.
///
/// The text form is the same wherever an identity is read or written:
///
/// ```text
/// psk:<PSK identity>
/// spki:<SHA-256 of the SubjectPublicKeyInfo in DER: 64 hexadecimal digits>
/// subject:<name that the certificate proves>
/// ```
///
/// In PSK identities and names, bytes other than the visible characters of ASCII are written as `%`
/// and two hexadecimal digits, and so is `%` itself. An identity therefore has no spaces, and two
/// different identities have different texts.
///
/// ```
/// use lightseal_dtls::Identity;
///
/// let identity: Identity = "psk:sensor%207".parse()?;
/// assert_eq!(identity, Identity::Psk(b"sensor 7".to_vec()));
/// assert_eq!(identity.to_string(), "psk:sensor%207");
/// # Ok::<(), lightseal_dtls::IdentityError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Identity {
    /// The identity of a PSK.
    Psk(Vec<u8>),
    /// The SHA-256 hash of a public key, as SubjectPublicKeyInfo in DER.
    Key([u8; 32]),
    /// The name that a certificate proves.
    Subject(String),
}

/// The text is not an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdentityError;

impl fmt::Display for IdentityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an identity is psk:<identity>, spki:<64 hexadecimal digits> or subject:<name>")
    }
}

impl core::error::Error for IdentityError {}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Psk(identity) => {
                f.write_str("psk:")?;
                write_escaped(identity, f)
            }
            Self::Key(hash) => {
                f.write_str("spki:")?;
                hash.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Self::Subject(name) => {
                f.write_str("subject:")?;
                write_escaped(name.as_bytes(), f)
            }
        }
    }
}

impl FromStr for Identity {
    type Err = IdentityError;

    fn from_str(text: &str) -> Result<Self, IdentityError> {
        let (kind, rest) = text.split_once(':').ok_or(IdentityError)?;
        match kind {
            "psk" => Ok(Self::Psk(unescaped(rest)?)),
            "spki" => {
                let mut hash = [0; 32];
                if rest.len() != 2 * hash.len() {
                    return Err(IdentityError);
                }
                for (byte, digits) in hash.iter_mut().zip(rest.as_bytes().chunks_exact(2)) {
                    *byte = hexadecimal(digits)?;
                }
                Ok(Self::Key(hash))
            }
            "subject" => {
                String::from_utf8(unescaped(rest)?).map(Self::Subject).map_err(|_| IdentityError)
            }
            _ => Err(IdentityError),
        }
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Identity {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Identity {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl serde::de::Visitor<'_> for Text {
            type Value = Identity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an identity")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Identity, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}

fn write_escaped(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| match byte {
        b'%' => f.write_str("%25"),
        byte if byte.is_ascii_graphic() => f.write_char(char::from(*byte)),
        byte => write!(f, "%{byte:02x}"),
    })
}

/// The bytes of an escaped text, which is not empty.
fn unescaped(text: &str) -> Result<Vec<u8>, IdentityError> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        out.push(match first {
            b'%' => {
                let (digits, after) = rest.split_at_checked(2).ok_or(IdentityError)?;
                rest = after;
                hexadecimal(digits)?
            }
            byte if byte.is_ascii_graphic() => *byte,
            _ => return Err(IdentityError),
        });
    }
    if out.is_empty() { Err(IdentityError) } else { Ok(out) }
}

/// The value of two hexadecimal digits.
fn hexadecimal(digits: &[u8]) -> Result<u8, IdentityError> {
    digits.iter().try_fold(0, |value, digit| {
        let digit = char::from(*digit).to_digit(16).ok_or(IdentityError)?;
        Ok(value << 4 | digit as u8)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn texts_and_identities_belong_together() {
        let identities = [
            (Identity::Psk(b"sensor-7".to_vec()), "psk:sensor-7"),
            (Identity::Psk(b"a b%:\n\xff".to_vec()), "psk:a%20b%25:%0a%ff"),
            (Identity::Subject("device.example".into()), "subject:device.example"),
            (Identity::Subject("Gerät 1".into()), "subject:Ger%c3%a4t%201"),
        ];
        for (identity, text) in identities {
            assert_eq!(identity.to_string(), text);
            assert_eq!(text.parse(), Ok(identity));
        }
        let mut hash = [0xab; 32];
        hash[0] = 1;
        let text = Identity::Key(hash).to_string();
        assert_eq!((text.len(), &text[..9]), (69, "spki:01ab"));
        assert_eq!(text.parse(), Ok(Identity::Key(hash)));
        assert_eq!(text.to_uppercase().replace("SPKI", "spki").parse(), Ok(Identity::Key(hash)));
    }

    #[test]
    fn other_texts_are_refused() {
        let wrong = [
            "",
            "psk",
            "psk:",
            "subject:",
            "spki:",
            "spki:0102",
            "key:a",
            "PSK:a",
            "psk:a b",
            "psk:%",
            "psk:%0",
            "psk:%0g",
            "subject:%ff",
            "psk:ä",
            " psk:a",
            "psk:a\n",
        ];
        for text in wrong {
            assert_eq!(text.parse::<Identity>(), Err(IdentityError), "{text:?}");
        }
        let long = std::format!("spki:{}", "0".repeat(65));
        assert_eq!(long.parse::<Identity>(), Err(IdentityError));
        let plus = std::format!("spki:{}", "+f".repeat(32));
        assert_eq!(plus.parse::<Identity>(), Err(IdentityError));
    }

    #[test]
    fn every_identity_comes_back_from_its_text() {
        for byte in 0..=255 {
            let identity = Identity::Psk(alloc::vec![byte, b'x']);
            assert_eq!(identity.to_string().parse(), Ok(identity));
        }
    }
}
