//! Several keys, one of which is chosen for each peer.

use crate::names::{Names, sequence};
use crate::signatures;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use lightseal_dtls::codepoints::{CertificateType, SignatureScheme};
use lightseal_dtls::{CertifiedKey, KeyStore, OfferedCertificates};
use pki_types::CertificateDer;
use webpki::EndEntityCert;

/// Keys in order of preference. Among those that fit what the peer accepts, it chooses by
///
/// 1. the name of the server that the client wants: a certificate with this name, then one with a
///    wildcard for it, then any other;
/// 2. the signature schemes that the peer accepts in certificates, if it names some;
/// 3. the authorities that the peer trusts, if it names some;
/// 4. the order of the keys.
#[derive(Clone, Default)]
pub struct KeysByName {
    keys: Vec<NamedKey>,
    only_known_names: bool,
}

#[derive(Clone)]
struct NamedKey {
    key: CertifiedKey,
    /// The DNS names of the certificate, in lower case.
    names: Vec<String>,
    /// The issuers of the certificates of the chain, distinguished names in DER.
    issuers: Vec<Vec<u8>>,
    /// For each certificate of the chain, the schemes one of which its signature has.
    signatures: Vec<&'static [SignatureScheme]>,
}

/// How well a key fits; the largest is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Fit {
    name: NameFit,
    signatures: bool,
    authority: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NameFit {
    Other,
    Wildcard,
    Exact,
}

impl KeysByName {
    /// These keys in order of preference.
    pub fn new(keys: impl IntoIterator<Item = CertifiedKey>) -> Self {
        let keys = keys.into_iter().map(NamedKey::new).collect();
        Self { keys, only_known_names: false }
    }

    /// Serves no client that wants a name which no certificate has, in place of showing it another
    /// certificate. Raw public keys have no names, and fit all.
    #[must_use]
    pub fn only_known_names(self) -> Self {
        Self { only_known_names: true, ..self }
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

impl NamedKey {
    fn new(key: CertifiedKey) -> Self {
        let is_x509 = key.kind() == CertificateType::X509;
        let entries = if is_x509 { key.entries() } else { &[] };
        let names = entries.first().and_then(|own| Names::of(own).ok());
        let names = names.map(|names| names.dns).unwrap_or_default();
        let issuer = |entry: &Vec<u8>| {
            let certificate = CertificateDer::from(&entry[..]);
            sequence(EndEntityCert::try_from(&certificate).ok()?.issuer())
        };
        let issuers = entries.iter().filter_map(issuer).collect();
        let signatures = entries.iter().filter_map(|entry| signatures::of_certificate(entry));
        let signatures = signatures.collect();
        Self { key, names, issuers, signatures }
    }

    fn fit(&self, offered: &OfferedCertificates<'_>) -> Fit {
        let authority =
            self.issuers.iter().any(|issuer| offered.authorities.contains(&&issuer[..]));
        let name = offered.server_name.map_or(NameFit::Other, |wanted| self.name_fit(wanted));
        let accepted = offered.certificate_schemes;
        let accepts = |schemes: &[SignatureScheme]| schemes.iter().any(|s| accepted.contains(s));
        let signatures = accepted.is_empty() || self.signatures.iter().all(|s| accepts(s));
        Fit { name, signatures, authority }
    }

    fn name_fit(&self, wanted: &str) -> NameFit {
        let wanted = wanted.strip_suffix('.').unwrap_or(wanted);
        if self.names.iter().any(|name| name.eq_ignore_ascii_case(wanted)) {
            return NameFit::Exact;
        }
        // A wildcard stands for one label (RFC 6125, section 6.4.3).
        let domain = wanted.split_once('.').map(|(_, domain)| domain);
        let covers = |name: &String| {
            let pattern = name.strip_prefix("*.");
            pattern.zip(domain).is_some_and(|(own, wanted)| own.eq_ignore_ascii_case(wanted))
        };
        if self.names.iter().any(covers) { NameFit::Wildcard } else { NameFit::Other }
    }
}

impl KeyStore for KeysByName {
    fn choose(&self, offered: &OfferedCertificates<'_>) -> Option<CertifiedKey> {
        let refused = |named: &NamedKey, fit: Fit| {
            self.only_known_names
                && offered.server_name.is_some()
                && named.key.kind() == CertificateType::X509
                && fit.name == NameFit::Other
        };
        let mut best: Option<(Fit, &NamedKey)> = None;
        for named in &self.keys {
            let fit = named.fit(offered);
            let better = best.is_none_or(|(so_far, _)| fit > so_far);
            if better && !refused(named, fit) && offered.scheme_for(&named.key).is_some() {
                best = Some((fit, named));
            }
        }
        best.map(|(_, named)| named.key.clone())
    }

    fn kinds(&self) -> Vec<CertificateType> {
        let mut kinds = Vec::new();
        for named in &self.keys {
            if !kinds.contains(&named.key.kind()) {
                kinds.push(named.key.kind());
            }
        }
        kinds
    }
}

impl fmt::Debug for KeysByName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.keys.iter().map(|named| (&named.key, &named.names))).finish()
    }
}
