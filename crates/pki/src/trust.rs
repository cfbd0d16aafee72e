//! Authorities, revocation lists and pinned keys.

use crate::extensions::is_whole;
use crate::names::sequence;
use crate::pem;
use crate::spki::SpkiHash;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use pki_types::TrustAnchor;
use webpki::{CertRevocationList, OwnedCertRevocationList, anchor_from_trusted_cert};

/// What a verifier trusts: authorities with their revocation lists, and pinned keys.
#[derive(Clone, Default)]
pub struct Trust {
    pub(crate) authorities: Vec<TrustAnchor<'static>>,
    pub(crate) crls: Vec<Arc<CertRevocationList<'static>>>,
    /// SHA-256 of the lists in DER, in ascending order.
    #[cfg(feature = "std")]
    crl_hashes: Vec<SpkiHash>,
    /// The time at which the first of the lists is out of force.
    #[cfg(feature = "std")]
    pub(crate) crls_valid_until: Option<u64>,
    pub(crate) accepted: Vec<SpkiHash>,
    pub(crate) required: Vec<SpkiHash>,
}

/// What is wrong with a file of certificates or revocation lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrustError {
    /// It is neither PEM nor DER.
    Unreadable,
    /// It has no certificate.
    NoCertificate,
    /// It has a certificate that does not parse. The first one has the number 1.
    Certificate(usize),
    /// It has no revocation list.
    NoRevocationList,
    /// It has a revocation list that does not parse, or of a kind that is not supported: delta
    /// lists, indirect lists and lists for some reasons only. The first one has the number 1.
    RevocationList(usize),
}

impl fmt::Display for TrustError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable => f.write_str("neither PEM nor DER"),
            Self::NoCertificate => f.write_str("no certificate in it"),
            Self::Certificate(number) => write!(f, "certificate {number} in it does not parse"),
            Self::NoRevocationList => f.write_str("no revocation list in it"),
            Self::RevocationList(number) => {
                write!(f, "revocation list {number} in it does not parse, or is not supported")
            }
        }
    }
}

impl core::error::Error for TrustError {}

impl Trust {
    /// Trusts nobody.
    pub fn new() -> Self {
        Self::default()
    }

    /// Also trusts authorities: the certificates of a PEM file, or the one of a DER file. An
    /// authority is a name and a key (RFC 5280, section 6.1.1 d): when its own certificate is valid
    /// is not checked.
    ///
    /// # Errors
    /// The bytes have no certificate, or one that does not parse.
    pub fn with_authorities(mut self, pem_or_der: &[u8]) -> Result<Self, TrustError> {
        let certificates = pem::certificates(pem_or_der).map_err(|_| TrustError::Unreadable)?;
        if certificates.is_empty() {
            return Err(TrustError::NoCertificate);
        }
        for (number, certificate) in (1..).zip(&certificates) {
            let anchor = anchor_from_trusted_cert(certificate);
            let anchor = anchor.map_err(|_| TrustError::Certificate(number))?.to_owned();
            if !self.authorities.contains(&anchor) {
                self.authorities.push(anchor);
            }
        }
        Ok(self)
    }

    /// Also heeds revocation lists: those of a PEM file, or the one of a DER file.
    ///
    /// # Errors
    /// The bytes have no list, or one that does not parse or is not supported.
    pub fn with_revocation_lists(mut self, pem_or_der: &[u8]) -> Result<Self, TrustError> {
        let lists = pem::crls(pem_or_der).map_err(|_| TrustError::Unreadable)?;
        if lists.is_empty() {
            return Err(TrustError::NoRevocationList);
        }
        for (number, list) in (1..).zip(&lists) {
            #[cfg(feature = "std")]
            {
                let end = crate::extensions::next_update(list).unwrap_or(0);
                self.crls_valid_until = Some(self.crls_valid_until.map_or(end, |at| at.min(end)));
                self.crl_hashes.push(SpkiHash::of(list));
            }
            let list = OwnedCertRevocationList::from_der(list);
            let list = list.map_err(|_| TrustError::RevocationList(number))?;
            self.crls.push(Arc::new(list.into()));
        }
        #[cfg(feature = "std")]
        self.crl_hashes.sort_unstable();
        // The first list that fits is consulted.
        self.crls.sort_by_key(|list| !is_whole(list));
        Ok(self)
    }

    /// Also accepts peers with one of these keys, as a raw public key or in a certificate, whoever
    /// issued it and however long it is valid. This needs no authority and no clock.
    #[must_use]
    pub fn with_accepted_keys(mut self, keys: impl IntoIterator<Item = SpkiHash>) -> Self {
        self.accepted.extend(keys);
        self
    }

    /// Accepts a chain of certificates only if one of these keys is in it, besides a trusted
    /// authority: the peer's, an issuer's, or the authority's. So a peer is bound to one of many
    /// trusted authorities.
    #[must_use]
    pub fn with_required_keys(mut self, keys: impl IntoIterator<Item = SpkiHash>) -> Self {
        self.required.extend(keys);
        self
    }

    /// Whether neither an authority nor a key is accepted.
    pub fn is_empty(&self) -> bool {
        self.authorities.is_empty() && self.accepted.is_empty()
    }

    /// Whether every chain that `former` accepts is accepted by this as well: there is no authority
    /// less, the revocation lists are the same, and no further key is required.
    #[cfg(feature = "std")]
    pub(crate) fn accepts_chains_of(&self, former: &Self) -> bool {
        let keys_suffice = |required: &[SpkiHash], former: &[SpkiHash]| {
            required.is_empty()
                || !former.is_empty() && former.iter().all(|key| required.contains(key))
        };
        former.authorities.iter().all(|authority| self.authorities.contains(authority))
            && self.crl_hashes == former.crl_hashes
            && keys_suffice(&self.required, &former.required)
    }

    /// The distinguished names of the authorities in DER.
    pub(crate) fn authority_names(&self) -> Vec<Vec<u8>> {
        self.authorities.iter().filter_map(|anchor| sequence(&anchor.subject)).collect()
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trust")
            .field("authorities", &self.authorities.len())
            .field("revocation_lists", &self.crls.len())
            .field("accepted_keys", &self.accepted)
            .field("required_keys", &self.required)
            .finish()
    }
}
