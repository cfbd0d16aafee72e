//! Extensions that rustls-webpki does not read: what a key may be used for, and which certificates a
//! revocation list is about.

use crate::names::{NameKinds, sequence};
use alloc::vec::Vec;
use webpki::{CertRevocationList, Error, VerifiedPath};
use x509_cert::Certificate;
use x509_cert::der::oid::AssociatedOid;
use x509_cert::der::{Decode, Encode};
use x509_cert::ext::pkix::crl::dp::IssuingDistributionPoint;
use x509_cert::ext::pkix::{CrlDistributionPoints, CrlNumber, KeyUsage, NameConstraints};

/// What was read in a path that is accepted, so that no certificate is parsed again.
pub(crate) struct Checked {
    /// The peer's certificate.
    pub(crate) peer: Certificate,
    /// The kinds of names for which all authorities of the path vouch.
    pub(crate) names: NameKinds,
    /// When the first certificate of the path expires, in seconds since 1970-01-01.
    #[cfg(feature = "std")]
    pub(crate) valid_until: u64,
}

/// Checks a path that rustls-webpki accepts. `lists` are those by which the certificates' status was
/// looked up, if it must be known.
pub(crate) fn check(
    path: &VerifiedPath<'_>,
    only_peer: bool,
    lists: Option<&[&CertRevocationList<'_>]>,
) -> Result<Checked, Error> {
    let peer = parsed(&path.end_entity().der())?;
    #[cfg(feature = "std")]
    let mut valid_until = end(&peer);
    // RFC 8446, section 4.4.2.2, and RFC 8422, section 5.3: the peer signs with its key.
    if key_usage(&peer)?.is_some_and(|usage| !usage.digital_signature()) {
        return Err(Error::CaUsedAsEndEntity);
    }
    let lists = lists.unwrap_or_default();
    has_a_list(&peer, lists)?;
    let mut names = NameKinds::ALL;
    if let Some(constraints) = &path.anchor().name_constraints {
        let constraints = sequence(constraints).ok_or(Error::BadDer)?;
        let constraints = NameConstraints::from_der(&constraints);
        names = names.within(&constraints.map_err(|_| Error::ExtensionValueInvalid)?);
    }
    for issuer in path.intermediate_certificates() {
        let issuer = parsed(&issuer.der())?;
        // RFC 5280, section 6.1.4 n.
        if key_usage(&issuer)?.is_some_and(|usage| !usage.key_cert_sign()) {
            return Err(Error::EndEntityUsedAsCa);
        }
        let constraints = issuer.tbs_certificate().get_extension::<NameConstraints>();
        if let Some((_, constraints)) = constraints.map_err(|_| Error::ExtensionValueInvalid)? {
            names = names.within(&constraints);
        }
        if !only_peer {
            has_a_list(&issuer, lists)?;
        }
        #[cfg(feature = "std")]
        {
            valid_until = valid_until.min(end(&issuer));
        }
    }
    Ok(Checked {
        peer,
        names,
        #[cfg(feature = "std")]
        valid_until,
    })
}

/// When a certificate expires, in seconds since 1970-01-01.
#[cfg(feature = "std")]
fn end(certificate: &Certificate) -> u64 {
    certificate.tbs_certificate().validity().not_after.to_unix_duration().as_secs()
}

/// The age of a revocation list.
#[derive(Clone, Debug, Default)]
pub(crate) struct Age {
    /// When it was issued, in seconds since 1970-01-01, and the length of its number and the number
    /// (RFC 5280, section 5.2.3). The greater, the newer.
    pub(crate) issued: (u64, usize, Vec<u8>),
    /// Until when it is in force, in seconds since 1970-01-01.
    #[cfg(feature = "std")]
    pub(crate) next_update: Option<u64>,
}

/// The age of a list in DER; `None` if it does not parse.
pub(crate) fn age(list: &[u8]) -> Option<Age> {
    let list = <x509_cert::crl::CertificateList>::from_der(list).ok()?.tbs_cert_list;
    let extensions = list.crl_extensions.iter().flatten();
    let number = extensions.filter(|extension| extension.extn_id == CrlNumber::OID);
    let number = number.into_iter().find_map(|extension| {
        Some(CrlNumber::from_der(extension.extn_value.as_bytes()).ok()?.0.as_bytes().to_vec())
    });
    let number = number.unwrap_or_default();
    Some(Age {
        issued: (list.this_update.to_unix_duration().as_secs(), number.len(), number),
        #[cfg(feature = "std")]
        next_update: list.next_update.map(|time| time.to_unix_duration().as_secs()),
    })
}

/// Whether a list is about all certificates of its issuer, and not those of one distribution point.
pub(crate) fn is_whole(list: &CertRevocationList<'_>) -> bool {
    let Some(point) = list.issuing_distribution_point() else { return true };
    IssuingDistributionPoint::from_der(point).is_ok_and(|point| point.distribution_point.is_none())
}

/// A list of one distribution point says nothing about a certificate that names none (RFC 5280,
/// section 6.3.3 b 2 i), though rustls-webpki consults it.
fn has_a_list(certificate: &Certificate, lists: &[&CertRevocationList<'_>]) -> Result<(), Error> {
    let tbs = certificate.tbs_certificate();
    let points = tbs.get_extension::<CrlDistributionPoints>();
    if lists.is_empty() || points.map_err(|_| Error::ExtensionValueInvalid)?.is_some() {
        return Ok(());
    }
    let issuer = tbs.issuer().to_der().map_err(|_| Error::BadDer)?;
    let of_issuer = |list: &&&CertRevocationList<'_>| {
        sequence(list.issuer()).is_some_and(|name| name == issuer)
    };
    match lists.iter().filter(of_issuer).any(|list| is_whole(list)) {
        true => Ok(()),
        false => Err(Error::UnknownRevocationStatus),
    }
}

fn parsed(der: &[u8]) -> Result<Certificate, Error> {
    Certificate::from_der(der).map_err(|_| Error::BadDer)
}

fn key_usage(certificate: &Certificate) -> Result<Option<KeyUsage>, Error> {
    let usage = certificate.tbs_certificate().get_extension::<KeyUsage>();
    Ok(usage.map_err(|_| Error::ExtensionValueInvalid)?.map(|(_, usage)| usage))
}
