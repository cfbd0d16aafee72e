//! The flags for credentials, which all commands with DTLS have.

use clap::Args;
use lightseal_pki::SpkiHash;
use lightseal_pki::file::CredentialForm;
use std::path::PathBuf;

/// The heading of these flags in help texts. Each flag names it: a heading of the whole struct would
/// also stand above the flags of other structs that follow.
pub(crate) const HEADING: &str = "Credentials";

/// What this end proves its identity with, and whom it accepts.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct CredentialArgs {
    /// What this end proves its identity with: `psk:FILE` is a file of pre-shared keys,
    /// `cert:FILE,key:FILE` a chain of X.509 certificates with its private key, `key:FILE` a private
    /// key whose public key the other end knows (raw public key, RFC 7250). Files of certificates
    /// and private keys are PEM or DER. May be given several times, best first.
    #[arg(help_heading = HEADING, long, value_name = "KIND:FILE")]
    pub(crate) credential: Vec<CredentialForm>,
    /// File of pre-shared keys, one identity:hexkey per line: the same as --credential psk:FILE.
    #[arg(help_heading = HEADING, long, value_name = "FILE")]
    pub(crate) psk_file: Option<PathBuf>,
    /// Accept certificates that the authorities in this file have issued.
    #[arg(help_heading = HEADING, long, value_name = "FILE")]
    pub(crate) ca: Vec<PathBuf>,
    /// Heed the revocation lists in this file: a certificate without a list of its issuer is then
    /// refused.
    #[arg(help_heading = HEADING, long, value_name = "FILE", requires = "ca")]
    pub(crate) crl: Vec<PathBuf>,
    /// Accept this public key, raw or in a certificate of any issuer: `spki:` and the SHA-256 of its
    /// SubjectPublicKeyInfo, or a file of such lines.
    #[arg(help_heading = HEADING, long, value_name = "spki:HASH|FILE")]
    pub(crate) pin: Vec<Pin>,
    /// Accept only peers whose identity is in this file, one in each line: `psk:IDENTITY`,
    /// `spki:HASH` or `subject:NAME`. The other flags say how a peer proves its identity.
    #[arg(help_heading = HEADING, long, value_name = "FILE")]
    pub(crate) allow: Option<PathBuf>,
}

impl CredentialArgs {
    /// Whether one of the flags is given.
    pub(crate) const fn is_given(&self) -> bool {
        !self.credential.is_empty()
            || self.psk_file.is_some()
            || !self.ca.is_empty()
            || !self.pin.is_empty()
            || self.allow.is_some()
    }
}

/// Public keys that are accepted for themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pin {
    Key(SpkiHash),
    File(PathBuf),
}

impl std::str::FromStr for Pin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "" => Err("no file".to_owned()),
            _ if text.starts_with("spki:") => {
                text.parse().map(Self::Key).map_err(|error| format!("{error}"))
            }
            _ => Ok(Self::File(PathBuf::from(text))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_is_a_hash_or_a_file() {
        let hash = format!("spki:{}", "5a".repeat(32));
        assert_eq!(hash.parse(), Ok(Pin::Key(SpkiHash([0x5a; 32]))));
        assert_eq!("pins".parse(), Ok(Pin::File("pins".into())));
        assert!("".parse::<Pin>().is_err() && "spki:5a".parse::<Pin>().is_err());
    }
}
