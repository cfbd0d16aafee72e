//! Checks a peer's chain of certificates, or its raw public key.

use crate::clock::Clock;
use crate::extensions::{self, Checked};
#[cfg(feature = "std")]
use crate::memory::AcceptedPeers;
use crate::names::{Names, is_uri, sequence};
use crate::reason::reason;
use crate::signatures;
use crate::spki::SpkiHash;
use crate::trust::Trust;
use alloc::borrow::ToOwned;
use alloc::string::String;
#[cfg(feature = "std")]
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::fmt;
use lightseal_dtls::codepoints::{CertificateType, SignatureScheme};
use lightseal_dtls::crypto::Provider;
use lightseal_dtls::{BadCertificate, CertificateVerifier, PeerKey, PresentedCertificate};
use pki_types::{CertificateDer, ServerName, SignatureVerificationAlgorithm};
use webpki::{
    CertRevocationList, EndEntityCert, ExpirationPolicy, KeyUsage, RevocationCheckDepth,
    RevocationOptions, RevocationOptionsBuilder, UnknownStatusPolicy, VerifiedPath,
};

/// What a peer may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The largest number of certificates, the peer's own included. rustls-webpki tries paths with
    /// at most six issuers between the peer and the authority.
    pub certificates: usize,
    /// The largest sum of their lengths in bytes.
    pub bytes: usize,
}

impl Default for Limits {
    /// 10 certificates of 64 KiB in all.
    fn default() -> Self {
        Self { certificates: 10, bytes: 1 << 16 }
    }
}

/// How revocation lists (RFC 5280, section 5) are heeded.
///
/// The strict form is the default: without a list of the issuer that is in force, a certificate is
/// not accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Revocation {
    /// Look up the peer's own certificate alone, and not those of its issuers.
    pub only_peer: bool,
    /// Accept a certificate for which there is no list.
    pub allow_unknown: bool,
    /// Accept a list after the time at which its issuer promised the next one.
    pub allow_expired_lists: bool,
}

/// How peers are verified, apart from who is trusted.
#[derive(Clone, Debug)]
pub struct Settings {
    algorithms: Vec<&'static dyn SignatureVerificationAlgorithm>,
    clock: Clock,
    limits: Limits,
    revocation: Option<Revocation>,
    server: ServerNames,
    /// Whether the algorithms are those of the provider, by which peers know them.
    of_provider: bool,
}

/// The names that a server may have.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ServerNames {
    /// The name that the connection asks for.
    Asked,
    /// One of these.
    OneOf(Vec<ServerIdentity>),
    /// Any name.
    Any,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ServerIdentity {
    /// A DNS name or IP address, and its text.
    Host(ServerName<'static>, String),
    Uri(String),
}

/// A text that is no DNS name, IP address or URI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAName(pub String);

impl fmt::Display for NotAName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no DNS name, IP address or URI", self.0)
    }
}

impl core::error::Error for NotAName {}

impl Settings {
    /// Signatures in chains are verified with the algorithms of `provider`, and times with `clock`.
    pub fn new(provider: &Provider, clock: Clock) -> Self {
        let algorithms = provider.signatures.iter().flat_map(|signature| signature.algorithms);
        Self { of_provider: true, ..Self::with_algorithms(algorithms.copied(), clock) }
    }

    /// Signatures in chains are verified with these algorithms, and times with `clock`. Peers are told
    /// which these are (`signature_algorithms_cert` of RFC 8446, section 4.2.3).
    pub fn with_algorithms(
        algorithms: impl IntoIterator<Item = &'static dyn SignatureVerificationAlgorithm>,
        clock: Clock,
    ) -> Self {
        let mut distinct: Vec<&'static dyn SignatureVerificationAlgorithm> = Vec::new();
        let ids = |of: &'static dyn SignatureVerificationAlgorithm| {
            (of.public_key_alg_id(), of.signature_alg_id())
        };
        for algorithm in algorithms {
            if !distinct.iter().any(|known| ids(*known) == ids(algorithm)) {
                distinct.push(algorithm);
            }
        }
        Self {
            algorithms: distinct,
            clock,
            limits: Limits::default(),
            revocation: None,
            server: ServerNames::Asked,
            of_provider: false,
        }
    }

    /// Other limits than the default.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Revocation lists are required, and heeded in this way. Without this, the strict form applies
    /// if there are revocation lists, and nothing is looked up if there are none.
    #[must_use]
    pub fn with_revocation(self, revocation: Revocation) -> Self {
        Self { revocation: Some(revocation), ..self }
    }

    /// Accepts a server that has one of these DNS names, IP addresses or URIs, in place of the name
    /// that the connection asks for.
    ///
    /// # Errors
    /// A text is none of these.
    pub fn with_server_names<'n>(
        self,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Result<Self, NotAName> {
        let identity = |name: &str| match ServerName::try_from(name) {
            Ok(host) => Ok(ServerIdentity::Host(host.to_owned(), name.to_owned())),
            Err(_) if is_uri(name) => Ok(ServerIdentity::Uri(name.to_owned())),
            Err(_) => Err(NotAName(name.to_owned())),
        };
        let names = names.into_iter().map(identity).collect::<Result<_, _>>()?;
        Ok(Self { server: ServerNames::OneOf(names), ..self })
    }

    /// Settings that weaken the check.
    pub const fn dangerous(self) -> Dangerous {
        Dangerous(self)
    }

    /// A verifier for these settings that trusts `trust`. It accepts X.509 certificates if `trust`
    /// has an authority or a key, and raw public keys if it has a key.
    pub fn verifier(&self, trust: Trust) -> X509Verifier {
        let mut kinds = Vec::new();
        if !trust.accepted.is_empty() {
            kinds.push(CertificateType::RAW_PUBLIC_KEY);
        }
        if !trust.is_empty() {
            kinds.push(CertificateType::X509);
        }
        X509Verifier {
            settings: self.clone(),
            trust,
            kinds,
            #[cfg(feature = "std")]
            accepted: Arc::default(),
        }
    }
}

/// Settings that weaken the check.
#[derive(Clone, Debug)]
pub struct Dangerous(Settings);

impl Dangerous {
    /// Accepts a server whatever its name. Whoever has a certificate of a trusted authority, and be
    /// it a client's neighbour, can then take the server's place.
    #[must_use]
    pub fn with_any_server_name(self) -> Settings {
        Settings { server: ServerNames::Any, ..self.0 }
    }
}

/// Accepts peers by their chain of X.509 certificates, and pinned keys.
///
/// The name of a server's [`PeerKey`] is the one that was verified, and a
/// client's is [`Names::identity`]. A key that was accepted for itself has no name.
///
/// A session may be resumed if its peer's key is accepted for itself, or if this verifier has
/// accepted the peer's chain and neither a certificate in it nor, where lists must be in force, a
/// revocation list has expired since. For this a verifier remembers 4096 peers, which its clones
/// share. Whoever replaces authorities or revocation lists makes a new verifier, which remembers
/// nobody; a `file::ReloadingVerifier` remembers its peers as long as only pins change or authorities
/// are added. Without the feature `std`, no session is resumed with a peer that has only a chain.
#[derive(Clone, Debug)]
pub struct X509Verifier {
    settings: Settings,
    trust: Trust,
    kinds: Vec<CertificateType>,
    #[cfg(feature = "std")]
    accepted: Arc<AcceptedPeers>,
}

impl X509Verifier {
    /// The settings with these kinds of certificates, in order of preference. A kind that is not in
    /// the list is not accepted.
    #[must_use]
    pub fn with_kinds(self, kinds: impl IntoIterator<Item = CertificateType>) -> Self {
        Self { kinds: kinds.into_iter().collect(), ..self }
    }

    /// The verifier that takes the place of `former`, which has the same settings. It remembers the
    /// peers of `former` if it would accept each of their chains.
    #[cfg(feature = "std")]
    #[must_use]
    pub(crate) fn in_place_of(self, former: &Self) -> Self {
        let accepted = match self.trust.accepts_chains_of(&former.trust) {
            true => Arc::clone(&former.accepted),
            false => self.accepted,
        };
        Self { accepted, ..self }
    }

    /// Whether the key is accepted for itself.
    fn accepts(&self, spki: &[u8]) -> bool {
        // The hashes of public keys are no secrets.
        self.trust.accepted.contains(&SpkiHash::of(spki))
    }

    fn x509(
        &self,
        presented: &PresentedCertificate<'_>,
    ) -> Result<(Vec<u8>, Option<String>), BadCertificate> {
        let Limits { certificates, bytes } = self.settings.limits;
        let sent: usize = presented.entries.iter().map(|entry| entry.len()).sum();
        if presented.entries.len() > certificates || sent > bytes {
            return Err(BadCertificate::TooLong);
        }
        let (peer, issuers) = presented.entries.split_first().ok_or(BadCertificate::Malformed)?;
        let peer = CertificateDer::from(*peer);
        let peer = EndEntityCert::try_from(&peer).map_err(reason)?;
        let spki = peer.subject_public_key_info();
        if self.accepts(&spki) {
            return Ok((spki.to_vec(), None));
        }
        let now = self.settings.clock.now()?;
        let issuers: Vec<_> = issuers.iter().map(|issuer| CertificateDer::from(*issuer)).collect();
        let crls: Vec<&CertRevocationList<'static>> =
            self.trust.crls.iter().map(|crl| &*crl.list).collect();
        let usage =
            if presented.from_client { KeyUsage::client_auth() } else { KeyUsage::server_auth() };
        let revocation = self.settings.revocation.unwrap_or_default();
        let lists = Some(&crls[..]).filter(|_| !revocation.allow_unknown);
        let checked = RefCell::new(None);
        let check = |path: &VerifiedPath<'_>| {
            let found = extensions::check(path, revocation.only_peer, lists)?;
            checked.replace(Some(found));
            Ok(())
        };
        let path = peer.verify_for_usage(
            &self.settings.algorithms,
            &self.trust.authorities,
            &issuers,
            now,
            usage,
            self.revocation(&crls)?,
            Some(&check),
        );
        let path = path.map_err(reason)?;
        if !self.has_required_key(&path) {
            return Err(BadCertificate::UnknownKey);
        }
        // The last path that was checked is the one that is accepted.
        let checked = checked.take().ok_or(BadCertificate::UnknownIssuer)?;
        let name = if presented.from_client {
            Names::identity_of(&peer, &checked.peer, checked.names)
        } else {
            self.server_name(&peer, &checked, presented.server_name)?
        };
        #[cfg(feature = "std")]
        self.remember(&spki, name.as_deref(), checked.valid_until);
        Ok((spki.to_vec(), name))
    }

    #[cfg(feature = "std")]
    fn remember(&self, spki: &[u8], name: Option<&str>, chain_valid_until: u64) {
        let expires = !self.settings.revocation.unwrap_or_default().allow_expired_lists;
        let lists = self.trust.crls_valid_until.filter(|_| expires);
        let valid_until = chain_valid_until.min(lists.unwrap_or(u64::MAX));
        self.accepted.insert(&SpkiHash::of(spki), name, valid_until);
    }

    /// Whether the peer was accepted by a chain that is still valid.
    #[cfg(feature = "std")]
    fn remembers(&self, peer: &PeerKey) -> bool {
        let now = self.settings.clock.now();
        now.is_ok_and(|now| {
            let name = peer.name.as_deref();
            self.accepted.contains(&SpkiHash(peer.spki_sha256), name, now.as_secs())
        })
    }

    #[cfg(not(feature = "std"))]
    const fn remembers(&self, _: &PeerKey) -> bool {
        false
    }

    fn revocation<'c>(
        &self,
        crls: &'c [&'c CertRevocationList<'static>],
    ) -> Result<Option<RevocationOptions<'c>>, BadCertificate> {
        let Revocation { only_peer, allow_unknown, allow_expired_lists } =
            self.settings.revocation.unwrap_or_default();
        let Ok(options) = RevocationOptionsBuilder::new(crls) else {
            let required = self.settings.revocation.is_some() && !allow_unknown;
            return if required { Err(BadCertificate::UnknownRevocation) } else { Ok(None) };
        };
        let depth =
            if only_peer { RevocationCheckDepth::EndEntity } else { RevocationCheckDepth::Chain };
        let unknown =
            if allow_unknown { UnknownStatusPolicy::Allow } else { UnknownStatusPolicy::Deny };
        let expiration =
            if allow_expired_lists { ExpirationPolicy::Ignore } else { ExpirationPolicy::Enforce };
        let options = options.with_depth(depth).with_status_policy(unknown);
        Ok(Some(options.with_expiration_policy(expiration).build()))
    }

    /// Whether a key that the trust requires is in the path.
    fn has_required_key(&self, path: &VerifiedPath<'_>) -> bool {
        let required = &self.trust.required;
        let known = |spki: &[u8]| required.contains(&SpkiHash::of(spki));
        required.is_empty()
            || known(&path.end_entity().subject_public_key_info())
            || path.intermediate_certificates().any(|one| known(&one.subject_public_key_info()))
            || sequence(&path.anchor().subject_public_key_info).is_some_and(|spki| known(&spki))
    }

    /// The name of a server, if it is one that is accepted.
    fn server_name(
        &self,
        peer: &EndEntityCert<'_>,
        checked: &Checked,
        asked: Option<&str>,
    ) -> Result<Option<String>, BadCertificate> {
        let is_valid_for = |identity: &ServerIdentity| match identity {
            ServerIdentity::Host(host, _) => peer.verify_is_valid_for_subject_name(host).is_ok(),
            ServerIdentity::Uri(uri) => {
                checked.names.uris && peer.valid_uri_names().any(|name| name == uri)
            }
        };
        match &self.settings.server {
            ServerNames::Asked => {
                let asked = asked.ok_or(BadCertificate::WrongName)?;
                let host = ServerName::try_from(asked).map_err(|_| BadCertificate::WrongName)?;
                peer.verify_is_valid_for_subject_name(&host).map_err(reason)?;
                Ok(Some(asked.to_owned()))
            }
            ServerNames::OneOf(names) => {
                let name = names.iter().find(|name| is_valid_for(name));
                match name.ok_or(BadCertificate::WrongName)? {
                    ServerIdentity::Host(_, text) | ServerIdentity::Uri(text) => {
                        Ok(Some(text.clone()))
                    }
                }
            }
            ServerNames::Any => Ok(Names::identity_of(peer, &checked.peer, checked.names)),
        }
    }
}

impl CertificateVerifier for X509Verifier {
    fn kinds(&self) -> &[CertificateType] {
        &self.kinds
    }

    fn verify(
        &self,
        presented: &PresentedCertificate<'_>,
    ) -> Result<(Vec<u8>, Option<String>), BadCertificate> {
        if !self.kinds.contains(&presented.kind) {
            return Err(BadCertificate::Unsupported);
        }
        match (presented.kind, presented.entries) {
            (CertificateType::X509, _) => self.x509(presented),
            (CertificateType::RAW_PUBLIC_KEY, [spki]) if self.accepts(spki) => {
                Ok((spki.to_vec(), None))
            }
            (CertificateType::RAW_PUBLIC_KEY, [_]) => Err(BadCertificate::UnknownKey),
            (CertificateType::RAW_PUBLIC_KEY, _) => Err(BadCertificate::Malformed),
            _ => Err(BadCertificate::Unsupported),
        }
    }

    fn still_accepts(&self, peer: &PeerKey) -> bool {
        // A key that is accepted for itself has no name. One with a name was accepted by its chain, and
        // a pin that is younger does not make up for a chain that is accepted no more.
        let is_pinned = || self.trust.accepted.contains(&SpkiHash(peer.spki_sha256));
        peer.name.is_none() && is_pinned() || self.remembers(peer)
    }

    fn certificate_schemes(&self) -> Vec<SignatureScheme> {
        match self.settings.of_provider {
            true => Vec::new(),
            false => signatures::of_verifier(&self.settings.algorithms),
        }
    }

    fn authorities(&self) -> Vec<Vec<u8>> {
        self.trust.authority_names()
    }
}
