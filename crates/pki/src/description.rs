//! What a certificate says, for people.

use crate::names::Names;
use crate::reason::reason;
use crate::spki::SpkiHash;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use lightseal_dtls::BadCertificate;
use pki_types::CertificateDer;
use webpki::EndEntityCert;
use x509_cert::Certificate;
use x509_cert::der::{DateTime, Decode};

/// What a certificate says. Nothing of it is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Description {
    /// The subject as RFC 4514 writes it; empty if there is none. Control characters are escaped.
    pub subject: String,
    /// The issuer, in the same form.
    pub issuer: String,
    /// The DNS names, URIs and IP addresses.
    pub names: Vec<String>,
    /// When its validity begins.
    pub not_before: UtcTime,
    /// When its validity ends.
    pub not_after: UtcTime,
    /// The hash of its public key.
    pub spki: SpkiHash,
}

/// A time in UTC. It is displayed as RFC 3339 writes it, such as `2026-11-25T12:00:00Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UtcTime(DateTime);

impl UtcTime {
    /// Seconds since 1970-01-01T00:00:00Z.
    pub fn unix_seconds(self) -> u64 {
        self.0.unix_duration().as_secs()
    }
}

impl fmt::Display for UtcTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Description {
    /// Reads a certificate in DER.
    ///
    /// # Errors
    /// It does not parse.
    pub fn of(certificate: &[u8]) -> Result<Self, BadCertificate> {
        let der = CertificateDer::from(certificate);
        let parsed = EndEntityCert::try_from(&der).map_err(reason)?;
        let certificate =
            Certificate::from_der(certificate).map_err(|_| BadCertificate::Malformed)?;
        let names = Names::of_parsed(&parsed, Some(&certificate));
        let spki = SpkiHash::of(&parsed.subject_public_key_info());
        let body = certificate.tbs_certificate();
        let addresses = names.addresses.iter().map(IpAddr::to_string);
        Ok(Self {
            subject: visible(&body.subject().to_string()),
            issuer: visible(&body.issuer().to_string()),
            names: names.dns.into_iter().chain(names.uris).chain(addresses).collect(),
            not_before: UtcTime(body.validity().not_before.to_date_time()),
            not_after: UtcTime(body.validity().not_after.to_date_time()),
            spki,
        })
    }
}

/// The SubjectPublicKeyInfo of a certificate in DER, which is not verified.
///
/// # Errors
/// It does not parse.
pub fn public_key(certificate: &[u8]) -> Result<Vec<u8>, BadCertificate> {
    let certificate = CertificateDer::from(certificate);
    let certificate = EndEntityCert::try_from(&certificate).map_err(reason)?;
    Ok(certificate.subject_public_key_info().to_vec())
}

/// A text whose control characters are escaped: whoever made the certificate chose them.
fn visible(text: &str) -> String {
    text.chars().fold(String::new(), |mut shown, character| {
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
        shown
    })
}
