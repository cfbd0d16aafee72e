//! The flags that several subcommands have.

use super::distinguished_name::distinguished_name;
use crate::failure::{Context, Failure};
use clap::{Args, ValueEnum};
use pki_types::{DnsName, ServerName};
use rcgen::{DistinguishedName, DnType, ExtendedKeyUsagePurpose, SanType};
use std::path::PathBuf;
use time::{Duration, OffsetDateTime};

/// A kind of key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum KeyType {
    /// ECDSA with the curve P-256, which nearly all peers support.
    #[default]
    P256,
    /// ECDSA with the curve P-384.
    P384,
    /// Ed25519.
    Ed25519,
    /// RSA with 3072 bits.
    Rsa,
}

/// What a certificate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Purpose {
    Server,
    Client,
}

#[derive(Clone, Debug, Args)]
pub(super) struct OutputArgs {
    /// Overwrite files that exist.
    #[arg(long)]
    pub(super) force: bool,
    /// Print JSON.
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Clone, Debug, Args)]
pub(super) struct NewKeyArgs {
    /// Kind of the new key.
    #[arg(long = "type", value_name = "TYPE", value_enum, default_value_t)]
    pub(super) key_type: KeyType,
    /// Use the private key in this file instead of a new one.
    #[arg(long, value_name = "FILE", conflicts_with = "key_type")]
    pub(super) key: Option<PathBuf>,
}

#[derive(Clone, Debug, Args)]
pub(super) struct SubjectArgs {
    /// Name of the subject: a common name, or a distinguished name such as
    /// "CN=sensor-1,O=Example". Without it, it is the first --name, or the name of the files.
    #[arg(long, value_name = "NAME")]
    pub(super) subject: Option<String>,
    /// DNS name (also with a wildcard, *.a.example), IP address or URI (urn:dev:...) of the
    /// subject. May be repeated.
    #[arg(long = "name", value_name = "NAME")]
    pub(super) names: Vec<String>,
}

#[derive(Clone, Debug, Args)]
pub(super) struct PurposeArgs {
    /// What the certificate is for; both if this is left out.
    #[arg(long = "for", value_name = "ROLE", value_enum)]
    pub(super) purposes: Vec<Purpose>,
}

#[derive(Clone, Debug, Args)]
pub(super) struct DaysArgs {
    /// Number of days for which the certificate is valid.
    #[arg(long, value_name = "DAYS", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=36500))]
    pub(super) days: u32,
}

impl SubjectArgs {
    /// The subject's name, with `fallback` as its common name if the flags have none.
    pub(super) fn subject(&self, fallback: &str) -> Result<DistinguishedName, Failure> {
        let given = self.subject.as_deref().or(self.names.first().map(String::as_str));
        let text = given.unwrap_or(fallback);
        if self.subject.as_deref().is_some_and(|subject| subject.contains('=')) {
            let name: x509_cert::name::Name =
                text.parse().context(format_args!("--subject {text}"))?;
            return distinguished_name(&name);
        }
        let mut name = DistinguishedName::new();
        name.push(DnType::CommonName, text);
        Ok(name)
    }

    /// The subject's alternative names.
    pub(super) fn alternative_names(&self) -> Result<Vec<SanType>, Failure> {
        self.names.iter().map(|name| alternative_name(name)).collect()
    }
}

/// A DNS name, IP address or URI.
fn alternative_name(text: &str) -> Result<SanType, Failure> {
    let wrong = || Failure::new(format_args!("--name {text:?}: no DNS name, IP address or URI"));
    if let Ok(address) = text.parse() {
        return Ok(SanType::IpAddress(address));
    }
    let ascii = || text.try_into().map_err(|_| wrong());
    let host = text.strip_prefix("*.").unwrap_or(text);
    if DnsName::try_from(host).is_ok() {
        return Ok(SanType::DnsName(ascii()?));
    }
    // What is not a host is a URI if it could be expected of a server.
    match (ServerName::try_from(text), lightseal_pki::names::is_uri(text)) {
        (Err(_), true) => Ok(SanType::URI(ascii()?)),
        _ => Err(wrong()),
    }
}

impl PurposeArgs {
    /// Whether the certificate is for clients and not for servers.
    pub(super) fn only_client(&self) -> bool {
        !self.purposes.is_empty() && !self.purposes.contains(&Purpose::Server)
    }

    pub(super) fn extended_key_usages(&self) -> Vec<ExtendedKeyUsagePurpose> {
        let is_for = |purpose| self.purposes.is_empty() || self.purposes.contains(&purpose);
        [
            (Purpose::Server, ExtendedKeyUsagePurpose::ServerAuth),
            (Purpose::Client, ExtendedKeyUsagePurpose::ClientAuth),
        ]
        .into_iter()
        .filter(|(purpose, _)| is_for(*purpose))
        .map(|(_, usage)| usage)
        .collect()
    }
}

/// The time, without a fraction of a second.
pub(super) fn now() -> OffsetDateTime {
    let now = OffsetDateTime::from(std::time::SystemTime::now());
    now.replace_nanosecond(0).unwrap_or(now)
}

/// The time in a number of days.
pub(super) fn in_days(days: u32) -> OffsetDateTime {
    now() + Duration::days(i64::from(days))
}
