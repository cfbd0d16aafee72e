//! A credential as users write it.

use super::KeyFiles;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use core::str::FromStr;
use std::path::PathBuf;

/// A credential on the command line or in a configuration file:
///
/// ```text
/// psk:FILE                    a file of pre-shared keys
/// key:FILE                    a private key, whose public key is its own credential (RFC 7250)
/// cert:FILE,key:FILE          a private key with a chain of X.509 certificates
/// cert:FILE                   the same, from one PEM file
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialForm {
    /// A file of pre-shared keys.
    Psks(PathBuf),
    /// A private key.
    RawKey(PathBuf),
    /// A chain of certificates, which begins with this end's own, and its private key.
    Certificate {
        /// The file of the chain.
        chain: PathBuf,
        /// The file of the key.
        key: PathBuf,
    },
}

impl CredentialForm {
    /// The files of the key; `None` for pre-shared keys.
    pub fn key_files(&self) -> Option<KeyFiles> {
        match self {
            Self::Psks(_) => None,
            Self::RawKey(key) => Some(KeyFiles::raw(key)),
            Self::Certificate { chain, key } => Some(KeyFiles::x509(key, chain)),
        }
    }
}

/// What a credential looks like, for messages.
const EXPECTED: &str = "expected psk:FILE, key:FILE, or cert:FILE,key:FILE";

impl FromStr for CredentialForm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (mut psks, mut key, mut chain) = (None, None, None);
        for part in text.split(',') {
            let (kind, file) = part.split_once(':').ok_or(EXPECTED)?;
            let place = match kind {
                "psk" => &mut psks,
                "key" => &mut key,
                "cert" => &mut chain,
                _ => return Err(EXPECTED.to_owned()),
            };
            if file.is_empty() {
                return Err(format!("no file after {kind}:"));
            }
            if place.replace(PathBuf::from(file)).is_some() {
                return Err(format!("{kind}: twice in one credential"));
            }
        }
        match (psks, chain, key) {
            (Some(file), None, None) => Ok(Self::Psks(file)),
            (None, None, Some(key)) => Ok(Self::RawKey(key)),
            (None, Some(chain), Some(key)) => Ok(Self::Certificate { chain, key }),
            (None, Some(chain), None) => Ok(Self::Certificate { key: chain.clone(), chain }),
            _ => Err("psk: is a credential of its own; give --credential twice for two".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_names_its_files() {
        let (chain, key) = (PathBuf::from("a.pem"), PathBuf::from("b:c.pem"));
        for (text, form) in [
            ("psk:a.pem", CredentialForm::Psks(chain.clone())),
            ("key:b:c.pem", CredentialForm::RawKey(key.clone())),
            (
                "cert:a.pem,key:b:c.pem",
                CredentialForm::Certificate { chain: chain.clone(), key: key.clone() },
            ),
            ("key:b:c.pem,cert:a.pem", CredentialForm::Certificate { chain: chain.clone(), key }),
            ("cert:a.pem", CredentialForm::Certificate { key: chain.clone(), chain }),
        ] {
            assert_eq!(text.parse(), Ok(form), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_its_reason() {
        for (text, expected) in [
            ("", "expected psk:FILE"),
            ("keys.psk", "expected psk:FILE"),
            ("pem:a", "expected psk:FILE"),
            ("psk:", "no file after psk:"),
            ("cert:a,key:", "no file after key:"),
            ("psk:a,key:b", "psk: is a credential of its own"),
            ("key:a,key:b", "key: twice"),
        ] {
            let error = text.parse::<CredentialForm>().unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
