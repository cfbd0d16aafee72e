//! Authorities, revocation lists and pinned keys.

use crate::extensions::{age, is_whole};
use crate::names::sequence;
use crate::pem;
use crate::spki::SpkiHash;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::fmt;
use pki_types::TrustAnchor;
use webpki::{CertRevocationList, OwnedCertRevocationList, anchor_from_trusted_cert};

/// What a verifier trusts: authorities with their revocation lists, and pinned keys.
#[derive(Clone, Default)]
pub struct Trust {
    pub(crate) authorities: Vec<TrustAnchor<'static>>,
    /// In the order of [`Rank`].
    pub(crate) crls: Vec<RankedList>,
    /// SHA-256 of the lists in DER, in ascending order.
    #[cfg(feature = "std")]
    crl_hashes: Vec<SpkiHash>,
    /// The time at which the first of the lists is out of force.
    #[cfg(feature = "std")]
    pub(crate) crls_valid_until: Option<u64>,
    pub(crate) accepted: Vec<SpkiHash>,
    pub(crate) required: Vec<SpkiHash>,
}

/// rustls-webpki consults the first list that fits: one about all certificates of its issuer before
/// those of a distribution point, and the newest first.
type Rank = (bool, Reverse<(u64, usize, Vec<u8>)>);

/// A revocation list.
#[derive(Clone)]
pub(crate) struct RankedList {
    rank: Rank,
    pub(crate) list: Arc<CertRevocationList<'static>>,
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
            let age = age(list).unwrap_or_default();
            #[cfg(feature = "std")]
            {
                let end = age.next_update.unwrap_or(0);
                self.crls_valid_until = Some(self.crls_valid_until.map_or(end, |at| at.min(end)));
                self.crl_hashes.push(SpkiHash::of(list));
            }
            let list = OwnedCertRevocationList::from_der(list);
            let list =
                CertRevocationList::from(list.map_err(|_| TrustError::RevocationList(number))?);
            let rank = (!is_whole(&list), Reverse(age.issued));
            self.crls.push(RankedList { rank, list: Arc::new(list) });
        }
        self.sort_lists();
        Ok(self)
    }

    fn sort_lists(&mut self) {
        self.crls.sort_by(|one, other| one.rank.cmp(&other.rank));
        #[cfg(feature = "std")]
        self.crl_hashes.sort_unstable();
    }

    /// Also trusts whom `other` trusts, heeds its revocation lists, and requires its keys.
    #[cfg(feature = "std")]
    pub(crate) fn extend(&mut self, other: &Self) {
        for anchor in &other.authorities {
            if !self.authorities.contains(anchor) {
                self.authorities.push(anchor.clone());
            }
        }
        self.crls.extend_from_slice(&other.crls);
        self.crl_hashes.extend_from_slice(&other.crl_hashes);
        let ends = [self.crls_valid_until, other.crls_valid_until];
        self.crls_valid_until = ends.into_iter().flatten().min();
        self.sort_lists();
        self.accepted.extend_from_slice(&other.accepted);
        self.required.extend_from_slice(&other.required);
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
