//! The names in a certificate.

use crate::reason::reason;
use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::iter;
use core::net::IpAddr;
use lightseal_dtls::BadCertificate;
use pki_types::CertificateDer;
use webpki::EndEntityCert;
use x509_cert::Certificate;
use x509_cert::der::asn1::AnyRef;
use x509_cert::der::{Decode, Encode, Tag};
use x509_cert::ext::pkix::constraints::name::GeneralSubtree;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{NameConstraints, SubjectAltName};
use x509_cert::name::Name;

/// The length of the longest name that an association keeps, in bytes.
pub const MAX_NAME_BYTES: usize = 256;

/// The names in a certificate, each in the order of the certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Names {
    /// The DNS names in lower case, those with a wildcard included.
    pub dns: Vec<String>,
    /// The URIs, such as `urn:dev:mac:0024befffe804ff1`.
    pub uris: Vec<String>,
    /// The IP addresses.
    pub addresses: Vec<IpAddr>,
    /// The subject as RFC 4514 writes it, such as `CN=sensor-1,O=Example`. `None` if it is empty, or
    /// has a character that cannot be printed.
    pub subject: Option<String>,
}

impl Names {
    /// Reads the names of a certificate in DER, which is not verified.
    ///
    /// # Errors
    /// It does not parse.
    pub fn of(certificate: &[u8]) -> Result<Self, BadCertificate> {
        let der = CertificateDer::from(certificate);
        let parsed = Certificate::from_der(certificate).ok();
        Ok(Self::of_parsed(&EndEntityCert::try_from(&der).map_err(reason)?, parsed.as_ref()))
    }

    /// The names of a certificate that is parsed for both crates; `None`: x509-cert does not parse
    /// it.
    pub(crate) fn of_parsed(certificate: &EndEntityCert<'_>, parsed: Option<&Certificate>) -> Self {
        Self {
            dns: certificate.valid_dns_names().map(str::to_ascii_lowercase).collect(),
            uris: uris(certificate).map(ToOwned::to_owned).collect(),
            addresses: parsed.map_or_else(Vec::new, addresses),
            subject: subject(certificate.subject()),
        }
    }

    /// The name by which a client is known: its first URI; without one its first DNS name without a
    /// wildcard; then its first IP address; then its subject. Names of more than [`MAX_NAME_BYTES`]
    /// are passed over.
    pub fn identity(&self) -> Option<String> {
        identity(
            self.uris.iter().cloned(),
            self.dns.iter().cloned(),
            || self.addresses.clone(),
            || self.subject.clone(),
        )
    }

    /// The [`identity`](Self::identity) of a certificate among its names of these kinds, without the
    /// names that come after it: a subject takes longer to write than all else.
    pub(crate) fn identity_of(
        certificate: &EndEntityCert<'_>,
        parsed: &Certificate,
        kinds: NameKinds,
    ) -> Option<String> {
        identity(
            uris(certificate).filter(|_| kinds.uris).map(ToOwned::to_owned),
            certificate.valid_dns_names().filter(|_| kinds.dns).map(str::to_ascii_lowercase),
            || if kinds.addresses { addresses(parsed) } else { Vec::new() },
            || subject(certificate.subject()).filter(|_| kinds.subject),
        )
    }
}

/// Kinds of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NameKinds {
    pub(crate) uris: bool,
    dns: bool,
    addresses: bool,
    subject: bool,
}

impl NameKinds {
    /// Every kind that a certificate may have.
    pub(crate) const ALL: Self = Self { uris: true, dns: true, addresses: true, subject: true };

    /// The kinds among these for which an authority with these constraints vouches. RFC 5280, section
    /// 4.2.1.10, constrains only names of the kinds that are listed. So an authority for one domain
    /// could give a device any URI or subject, which would be its identity.
    pub(crate) fn within(self, constraints: &NameConstraints) -> Self {
        let permitted = constraints.permitted_subtrees.as_deref().unwrap_or_default();
        if permitted.is_empty() {
            return self;
        }
        let has = |is_kind: fn(&GeneralName) -> bool| {
            permitted.iter().any(|GeneralSubtree { base, .. }| is_kind(base))
        };
        Self {
            uris: self.uris
                && has(|name| matches!(name, GeneralName::UniformResourceIdentifier(_))),
            dns: self.dns && has(|name| matches!(name, GeneralName::DnsName(_))),
            addresses: self.addresses && has(|name| matches!(name, GeneralName::IpAddress(_))),
            subject: self.subject && has(|name| matches!(name, GeneralName::DirectoryName(_))),
        }
    }
}

/// The first of these names, in this order, that can be kept.
fn identity(
    uris: impl Iterator<Item = String>,
    dns: impl Iterator<Item = String>,
    addresses: impl FnOnce() -> Vec<IpAddr>,
    subject: impl FnOnce() -> Option<String>,
) -> Option<String> {
    let addresses = iter::once_with(addresses).flatten().map(|address| address.to_string());
    uris.chain(dns.filter(|name| !name.contains('*')))
        .chain(addresses)
        .chain(iter::once_with(subject).flatten())
        .find(|name| name.len() <= MAX_NAME_BYTES)
}

/// The URIs of a certificate.
fn uris<'c>(certificate: &'c EndEntityCert<'_>) -> impl Iterator<Item = &'c str> {
    certificate.valid_uri_names().filter(|uri| is_uri(uri))
}

/// Whether a text is a URI (RFC 3986, section 3): a scheme, a colon, and printable ASCII. The text of
/// an IPv6 address, such as `fd00::1`, could be one too, and is none here.
pub fn is_uri(text: &str) -> bool {
    let is_address = text.parse::<IpAddr>().is_ok();
    let parts = text.split_once(':').filter(|_| !is_address);
    parts.is_some_and(|(scheme, rest)| {
        let mut letters = scheme.bytes();
        letters.next().is_some_and(|first| first.is_ascii_alphabetic())
            && letters.all(|c| c.is_ascii_alphanumeric() || b"+-.".contains(&c))
            && !rest.is_empty()
            && rest.bytes().all(|c| c.is_ascii_graphic())
    })
}

/// The IP addresses among the subject's alternative names. rustls-webpki compares them and does not
/// list them.
fn addresses(certificate: &Certificate) -> Vec<IpAddr> {
    let names = certificate.tbs_certificate().get_extension::<SubjectAltName>().ok().flatten();
    let names = names.map_or_else(Vec::new, |(_, names)| names.0);
    let address = |name: &GeneralName| match name {
        GeneralName::IpAddress(bytes) => match bytes.as_bytes().len() {
            4 => <[u8; 4]>::try_from(bytes.as_bytes()).ok().map(IpAddr::from),
            _ => <[u8; 16]>::try_from(bytes.as_bytes()).ok().map(IpAddr::from),
        },
        _ => None,
    };
    names.iter().filter_map(address).collect()
}

/// A subject as text, from the content of its SEQUENCE.
fn subject(content: &[u8]) -> Option<String> {
    let name = Name::from_der(&sequence(content)?).ok()?;
    let text = name.to_string();
    (!text.is_empty() && !text.chars().any(char::is_control)).then_some(text)
}

/// A SEQUENCE with this content.
pub(crate) fn sequence(content: &[u8]) -> Option<Vec<u8>> {
    AnyRef::new(Tag::Sequence, content).ok()?.to_der().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_has_a_scheme_and_printable_characters() {
        for good in ["urn:dev:mac:0024befffe804ff1", "coaps://[fd00::1]/a", "a+b-c.1:x"] {
            assert!(is_uri(good), "{good}");
        }
        for bad in [
            "fd00::1",
            "fe80::",
            "",
            "urn",
            ":x",
            "1a:x",
            "CN=a:b",
            "urn:",
            "urn:a b",
            "urn:a\n",
            "urn:\u{e9}",
        ] {
            assert!(!is_uri(bad), "{bad}");
        }
    }

    #[test]
    fn a_client_is_known_by_its_most_specific_name_that_is_not_too_long() {
        let mut names = Names {
            dns: ["*.a.example".into(), "b.example".into()].into(),
            uris: [alloc::format!("urn:{}", "x".repeat(MAX_NAME_BYTES - 4))].into(),
            addresses: [IpAddr::from([192, 0, 2, 1])].into(),
            subject: Some("CN=x".into()),
        };
        assert_eq!(names.identity().map(|name| name.len()), Some(MAX_NAME_BYTES));
        names.uris[0].push('x');
        assert_eq!(names.identity().as_deref(), Some("b.example"));
        names.dns.truncate(1);
        assert_eq!(names.identity().as_deref(), Some("192.0.2.1"));
        names.addresses.clear();
        assert_eq!(names.identity().as_deref(), Some("CN=x"));
        names.subject = None;
        assert_eq!(names.identity(), None);
    }
}
