//! The checked configurations of clients and servers.

use super::ProtocolVersion;
use super::certificates::{self, ClientCertificates, PartState, ServerCertificates};
use super::session::{Owner, Session};
use super::session_cache::{SessionCache, SessionKey};
use super::{CertificateVerifier, ClientAuthentication, KeyStore, Psk, PskStore, Settings};
use crate::crypto::HashAlgorithm;
use crate::error::ConfigError;
use crate::parts::{self, InlineState, Part};
use crate::tuning;
use alloc::sync::Arc;
use core::fmt;
use core::net::SocketAddr;
use core::num::NonZeroUsize;
use core::time::Duration;
use lightseal_core::Instant;

/// A client's configuration. It is valid, and does not change: another configuration is made from
/// it by the methods `with_…`.
///
/// A client has a PSK, or a verifier of the server's certificate or raw public key, or both: it then
/// offers both, and the server chooses.
#[derive(Clone)]
pub struct ClientConfig {
    pub(crate) psk: Option<Psk>,
    pub(crate) certificates: certificates::ForClient,
    pub(crate) session: Option<Session>,
    cache: InlineState<parts::Resumption, Arc<dyn SessionCache>>,
    pub(crate) settings: Settings,
    pub(crate) part: parts::Client,
}

#[cfg(feature = "client")]
impl ClientConfig {
    /// A client with these settings and no session to resume.
    ///
    /// # Errors
    /// The settings must pass [`Settings::check`], and the PSK must fit a suite: one of DTLS 1.2
    /// with a PSK, or one of DTLS 1.3, with SHA-256 unless the PSK is imported.
    pub fn with(psk: Psk, settings: Settings) -> Result<Self, ConfigError> {
        settings.check_when_made()?;
        check_psk(&settings, &psk)?;
        Ok(Self::unchecked(Some(psk), settings))
    }

    /// A client without a PSK, which accepts the servers whose certificate or raw public key
    /// `verifier` accepts. By itself it is anonymous: [`with_keys`](Self::with_keys) gives it keys
    /// of its own.
    ///
    /// # Errors
    /// The settings must pass [`Settings::check`]; DTLS 1.3 must be among the versions, and the
    /// provider must have signature schemes and key exchange groups.
    #[cfg(feature = "certificates")]
    pub fn verifying(
        verifier: Arc<dyn CertificateVerifier>,
        settings: Settings,
    ) -> Result<Self, ConfigError> {
        settings.check_when_made()?;
        Self::unchecked(None, settings).with_verifier(verifier)
    }

    /// A client with the default settings and the portable provider.
    #[cfg(feature = "rustcrypto")]
    pub fn new(psk: Psk) -> Self {
        // A test of this module checks the default settings.
        Self::unchecked(Some(psk), Settings::new(&crate::crypto::rustcrypto::PROVIDER))
    }

    const fn unchecked(psk: Option<Psk>, settings: Settings) -> Self {
        const PART: parts::Client = parts::Client::INCLUDED.expect("the feature `client`");
        let certificates = PartState::EMPTY;
        Self { psk, certificates, session: None, cache: InlineState::EMPTY, settings, part: PART }
    }
}

#[cfg(feature = "certificates")]
impl ClientConfig {
    const CERTIFICATES: parts::Certificates =
        parts::Certificates::INCLUDED.expect("the feature `certificates`");

    /// The configuration of a client that also accepts servers whose certificate or raw public key
    /// `verifier` accepts.
    ///
    /// # Errors
    /// As [`Self::verifying`].
    pub fn with_verifier(
        self,
        verifier: Arc<dyn CertificateVerifier>,
    ) -> Result<Self, ConfigError> {
        check_client(&self.settings, self.psk.is_some())?;
        let certificates = match self.certificates.get() {
            Some(before) => ClientCertificates { verifier, ..(**before).clone() },
            None => ClientCertificates {
                part: Self::CERTIFICATES,
                verifier,
                keys: None,
                server_name: None,
            },
        };
        Ok(self.with_certificates(certificates))
    }

    /// The configuration with keys with which the client authenticates itself, if the server has
    /// authenticated itself with a certificate or raw public key and asks the client for one.
    ///
    /// # Errors
    /// Fails if the configuration has no verifier for the server's.
    pub fn with_keys(self, keys: Arc<dyn KeyStore>) -> Result<Self, ConfigError> {
        let before = self.certificates.get().ok_or(ConfigError::NoVerifier)?;
        let certificates = ClientCertificates { keys: Some(keys), ..(**before).clone() };
        Ok(self.with_certificates(certificates))
    }

    /// The configuration with the name of the server: the client sends it (RFC 6066, section 3), and
    /// the verifier gets it to compare with the certificate. A name that is an IP address is not
    /// sent.
    ///
    /// # Errors
    /// Fails if the configuration has no verifier, or the name is not an ASCII host name or an IP
    /// address of at most 255 bytes.
    pub fn with_server_name(self, name: &str) -> Result<Self, ConfigError> {
        let before = self.certificates.get().ok_or(ConfigError::NoVerifier)?;
        let server_name = Some(certificates::checked_server_name(name)?);
        let certificates = ClientCertificates { server_name, ..(**before).clone() };
        Ok(self.with_certificates(certificates))
    }

    fn with_certificates(self, certificates: ClientCertificates) -> Self {
        let certificates = PartState::new(Some(Self::CERTIFICATES), |_| Arc::new(certificates));
        Self { certificates, ..self }
    }
}

/// Checks that a version has a suite with which a client without a verifier may use its PSK (RFC
/// 8446, section 4.2.11).
fn check_psk(settings: &Settings, psk: &Psk) -> Result<(), ConfigError> {
    // Without these parts each suite takes each PSK.
    if !parts::Sha384::IS_INCLUDED && !parts::Certificates::IS_INCLUDED {
        return Ok(());
    }
    let is_imported = psk.context().is_some();
    let mut suites = settings.ordered_suites();
    let fits = suites.any(|suite| is_imported || suite.hash.is(HashAlgorithm::Sha256))
        || settings.suites_12_with(true, false).next().is_some();
    if fits { Ok(()) } else { Err(ConfigError::CipherSuites) }
}

/// Checks the settings of a client that accepts certificates.
fn check_client(settings: &Settings, has_psk: bool) -> Result<(), ConfigError> {
    certificates::check(settings)?;
    let speaks_12 = settings.suites_12_with(has_psk, true).next().is_some();
    if speaks_12 || settings.speaks(ProtocolVersion::Dtls13) {
        Ok(())
    } else {
        Err(ConfigError::CipherSuites)
    }
}

impl ClientConfig {
    /// The configuration with other settings.
    ///
    /// # Errors
    /// As [`Self::with`] or [`Self::verifying`].
    pub fn with_settings(self, settings: Settings) -> Result<Self, ConfigError> {
        settings.check_when_made()?;
        if self.certificates.get().is_some() {
            check_client(&settings, self.psk.is_some())?;
        } else if let Some(psk) = &self.psk {
            check_psk(&settings, psk)?;
        }
        Ok(Self { settings, ..self })
    }

    /// The configuration with a PSK, which the client offers besides what it had.
    #[must_use]
    pub fn with_psk(self, psk: Psk) -> Self {
        Self { psk: Some(psk), ..self }
    }

    /// The configuration with a session to resume, from
    /// [`Connection::session`](crate::Connection::session). A session that was made with another
    /// credential, or has expired, is not used. A DTLS 1.3 session should be used for one association
    /// only; a [cache](Self::with_session_cache) sees to that.
    #[must_use]
    pub fn with_session(self, session: Session) -> Self {
        Self { session: Some(session), ..self }
    }

    /// The PSK; `None` if the client has none.
    pub const fn psk(&self) -> Option<&Psk> {
        self.psk.as_ref()
    }

    /// The name of the server, in lower case.
    pub fn server_name(&self) -> Option<&str> {
        self.certificates.get()?.server_name.as_deref()
    }

    /// The configuration with a cache of sessions. Each new association takes a session from it, and
    /// puts those into it that it gets. A session set by [`with_session`](Self::with_session) goes
    /// before the cache's.
    #[must_use]
    pub fn with_session_cache(self, cache: Arc<dyn SessionCache>) -> Self {
        let cache = InlineState::new(parts::Resumption::INCLUDED, |_| cache);
        Self { cache, ..self }
    }

    /// The cache of sessions.
    pub fn session_cache(&self) -> Option<&Arc<dyn SessionCache>> {
        self.cache.get()
    }

    /// Under what the sessions of associations with the server at `address` are cached.
    pub(crate) fn session_key(&self, address: SocketAddr) -> SessionKey {
        SessionKey::new(address, self.server_name(), self.psk())
    }

    /// The session that a new association with the server at `address` offers to resume.
    pub(crate) fn session_for(&self, address: SocketAddr, now: Instant) -> Option<Session> {
        if !(parts::Resumption::IS_INCLUDED && self.settings.resumption) {
            return None;
        }
        let cached = || self.cache.get()?.take(&self.session_key(address), now);
        self.session.clone().or_else(cached)
    }

    /// Whether an association with this configuration made a session of this owner.
    pub(crate) fn made(&self, owner: &Owner) -> bool {
        owner.is_of_client(self.psk(), self.certificates.get().map(|certificates| &**certificates))
    }

    /// The session to resume.
    pub const fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    /// The settings that servers have as well.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }
}

impl fmt::Debug for ClientConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientConfig")
            .field("psk", &self.psk)
            .field("certificates", &self.certificates)
            .field("session", &self.session)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// When a server asks a client to prove its address with a cookie before the server keeps any state
/// (RFC 9147, section 5.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CookiePolicy {
    /// Always. This costs one round trip, and nobody can make the server send to forged addresses
    /// or keep state for them.
    #[default]
    Always,
    /// Only if a HelloRetryRequest is needed for another reason; in DTLS 1.2 only if the server's
    /// certificates are longer than what it may send to an unproved address. Anybody can
    /// then make the server keep state, and send to a forged address at most three bytes for each
    /// byte received from there (RFC 9147, section 5.1). For closed networks.
    #[cfg(feature = "cookie-policies")]
    WhenRetrying,
    /// As [`Self::WhenRetrying`], and the server sends as much as it has to send: the network below
    /// has proved the client's address already, as ICE does before a WebRTC handshake (RFC 8445,
    /// section 7), or brings datagrams of one peer only.
    #[cfg(feature = "cookie-policies")]
    ProvedBelow,
}

impl CookiePolicy {
    /// Whether the server may accept a client without a cookie.
    pub(crate) fn accepts_unproved(self) -> Option<parts::CookiePolicies> {
        match self {
            Self::Always => None,
            #[cfg(feature = "cookie-policies")]
            Self::WhenRetrying | Self::ProvedBelow => parts::CookiePolicies::INCLUDED,
        }
    }

    /// As [`accepts_unproved`](Self::accepts_unproved), of a server that sends such a client only as
    /// much as an unproved address may get.
    pub(crate) fn limits_unproved(self) -> Option<parts::CookiePolicies> {
        match self {
            Self::Always => None,
            #[cfg(feature = "cookie-policies")]
            Self::WhenRetrying => parts::CookiePolicies::INCLUDED,
            #[cfg(feature = "cookie-policies")]
            Self::ProvedBelow => None,
        }
    }
}

/// How many associations a server keeps at once, and what it does with a client beyond that number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionSlots {
    /// The largest number of associations; `None`: unlimited.
    ///
    /// A handshake occupies a slot too. A handshake whose client has not proved its key and address
    /// loses the slot, if none is free, to one whose client has; after four first timeouts it loses
    /// the slot to any other. A client that begins a new association from the address of its old
    /// one needs no further slot, unless it still has the old one.
    pub most: Option<NonZeroUsize>,
    /// What the server does with a client for which no slot is free.
    pub when_full: WhenFull,
}

impl SessionSlots {
    /// Keeps at most `most` associations.
    pub const fn at_most(most: NonZeroUsize, when_full: WhenFull) -> Self {
        Self { most: Some(most), when_full }
    }
}

/// What a server does with a new client when all session slots are taken.
///
/// An evicted session ends with close_notify and
/// [`CloseReason::Evicted`](crate::CloseReason::Evicted), and only when the other client has
/// completed its handshake: a client without a valid key evicts nobody. Handshakes of such clients
/// proceed beside the sessions, at most as many as there are slots. A build without the feature `eviction`
/// refuses all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhenFull {
    /// It refuses the client with `internal_error`, which covers a lack of memory as well (RFC
    /// 8446, section 6.2), after the client has proved its address where cookies are used. The
    /// alert is shorter than the hello it answers.
    #[default]
    Refuse,
    /// It ends the session that was accepted first. If the new client has sessions that it has not
    /// used since its handshake began, the oldest such session ends instead: a client that begins
    /// anew from another port costs no other client its session.
    #[cfg(feature = "eviction")]
    EvictOldest,
    /// It ends the session of the peer that has been silent for the longest time, if that time is
    /// at least this long; otherwise it refuses the client.
    #[cfg(feature = "eviction")]
    EvictIdle(Duration),
}

/// Which session a server ends in favour of a new client.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Evicted {
    /// The one that was accepted first.
    Oldest(parts::Eviction),
    /// The one whose peer has been silent for the longest time, if that time is at least this long.
    Idle(parts::Eviction, Duration),
}

impl WhenFull {
    /// Which session the server ends; `None` if it refuses the new client.
    pub(crate) fn evicts(self) -> Option<Evicted> {
        match self {
            Self::Refuse => None,
            #[cfg(feature = "eviction")]
            Self::EvictOldest => parts::Eviction::INCLUDED.map(Evicted::Oldest),
            #[cfg(feature = "eviction")]
            Self::EvictIdle(least) => {
                parts::Eviction::INCLUDED.map(|part| Evicted::Idle(part, least))
            }
        }
    }
}

/// A server's configuration. It is valid, and does not change: another configuration is made from
/// it by the methods `with_…`.
///
/// A server that has PSKs and keys takes a client's PSK if it knows the identity, and otherwise
/// authenticates itself with a certificate or raw public key.
#[derive(Clone)]
pub struct ServerConfig {
    pub(crate) psks: Arc<dyn PskStore>,
    pub(crate) certificates: certificates::ForServer,
    pub(crate) cookies: CookiePolicy,
    pub(crate) remembered_sessions: usize,
    pub(crate) slots: SessionSlots,
    pub(crate) send_half_rtt_data: bool,
    pub(crate) hints: bool,
    pub(crate) settings: Settings,
    pub(crate) part: parts::Server,
}

#[cfg(feature = "server")]
impl ServerConfig {
    /// A server with these settings that always asks for cookies.
    ///
    /// # Errors
    /// The settings must pass [`Settings::check`].
    pub fn with(psks: Arc<dyn PskStore>, settings: Settings) -> Result<Self, ConfigError> {
        settings.check_when_made()?;
        Ok(Self::unchecked(psks, settings))
    }

    /// A server with the default settings and the portable provider that always asks for cookies.
    #[cfg(feature = "rustcrypto")]
    pub fn new(psks: Arc<dyn PskStore>) -> Self {
        // A test of this module checks the default settings.
        Self::unchecked(psks, Settings::new(&crate::crypto::rustcrypto::PROVIDER))
    }

    fn unchecked(psks: Arc<dyn PskStore>, settings: Settings) -> Self {
        const PART: parts::Server = parts::Server::INCLUDED.expect("the feature `server`");
        Self {
            psks,
            certificates: PartState::EMPTY,
            cookies: CookiePolicy::default(),
            remembered_sessions: tuning::REMEMBERED_SESSIONS,
            slots: SessionSlots::default(),
            send_half_rtt_data: false,
            hints: true,
            settings,
            part: PART,
        }
    }
}

#[cfg(all(feature = "certificates", feature = "server"))]
impl ServerConfig {
    const CERTIFICATES: parts::Certificates =
        parts::Certificates::INCLUDED.expect("the feature `certificates`");

    /// A server without PSKs, which authenticates itself with these keys and does not ask clients
    /// for certificates.
    ///
    /// # Errors
    /// The settings must pass [`Settings::check`], and the provider must have signature schemes and
    /// key exchange groups.
    pub fn certified(keys: Arc<dyn KeyStore>, settings: Settings) -> Result<Self, ConfigError> {
        Self::with(Arc::new(alloc::vec::Vec::new()), settings)?.with_keys(keys)
    }

    /// The configuration with keys with which the server authenticates itself to clients whose PSK
    /// it does not know.
    ///
    /// # Errors
    /// As [`Self::certified`].
    pub fn with_keys(self, keys: Arc<dyn KeyStore>) -> Result<Self, ConfigError> {
        certificates::check(&self.settings)?;
        let clients =
            self.certificates.get().map(|before| before.clients.clone()).unwrap_or_default();
        let certificates = ServerCertificates { part: Self::CERTIFICATES, keys, clients };
        Ok(self.with_certificates(certificates))
    }

    /// The configuration with another rule for whether clients that have not used a PSK are asked
    /// for a certificate or raw public key.
    ///
    /// # Errors
    /// Fails if the server has no keys of its own.
    pub fn with_client_authentication(
        self,
        clients: ClientAuthentication,
    ) -> Result<Self, ConfigError> {
        let before = self.certificates.get().ok_or(ConfigError::NoKeys)?;
        let certificates = ServerCertificates { clients, ..(**before).clone() };
        Ok(self.with_certificates(certificates))
    }

    fn with_certificates(self, certificates: ServerCertificates) -> Self {
        let certificates = PartState::new(Some(Self::CERTIFICATES), |_| Arc::new(certificates));
        Self { certificates, ..self }
    }
}

impl ServerConfig {
    /// The configuration with other settings.
    ///
    /// # Errors
    /// As [`Self::with`] or [`Self::certified`].
    pub fn with_settings(self, settings: Settings) -> Result<Self, ConfigError> {
        settings.check_when_made()?;
        if self.certificates.get().is_some() {
            certificates::check(&settings)?;
        }
        Ok(Self { settings, ..self })
    }

    /// The configuration with other PSKs.
    #[must_use]
    pub fn with_psks(self, psks: Arc<dyn PskStore>) -> Self {
        Self { psks, ..self }
    }

    /// The configuration with another rule for when the server asks clients for cookies.
    #[must_use]
    pub fn with_cookies(self, cookies: CookiePolicy) -> Self {
        Self { cookies, ..self }
    }

    /// The configuration with another number of DTLS 1.2 sessions that the server stores for
    /// clients that do not use tickets.
    #[must_use]
    pub fn with_remembered_sessions(self, remembered_sessions: usize) -> Self {
        Self { remembered_sessions, ..self }
    }

    /// The configuration with another number of associations at once.
    #[must_use]
    pub fn with_slots(self, slots: SessionSlots) -> Self {
        Self { slots, ..self }
    }

    /// The configuration of a DTLS 1.3 server that may send data directly after its own Finished,
    /// half a round trip before the client's Finished arrives (RFC 8446, section 2).
    /// [`Event::MaySend`](crate::Event::MaySend) tells when.
    ///
    /// Such data can be read only by a holder of the PSK, and with psk_dhe_ke or a certificate of the
    /// server only by the sender of this hello. A server that asks the client for a certificate
    /// waits for the client's Finished. But nothing shows yet that the client is present: its hello may be a recording,
    /// which makes the server send the data again while its cookie is valid, or at any time without
    /// cookies. A client that has not proved its address is sent at most three bytes for each byte
    /// that came from there (RFC 9147, section 5.1), including the server's flight and
    /// retransmissions; the rest waits.
    #[cfg(feature = "half-rtt-data")]
    #[must_use]
    pub fn with_half_rtt_data(self) -> Self {
        Self { send_half_rtt_data: true, ..self }
    }

    /// The configuration of a server whose endpoint sends no hints. A hint goes to a peer whose
    /// records belong to no known association, so that the peer notices sooner that the endpoint
    /// was restarted. It is not authenticated and proves nothing.
    #[must_use]
    pub fn without_hints(self) -> Self {
        Self { hints: false, ..self }
    }

    /// The PSKs of the server.
    pub fn psks(&self) -> &Arc<dyn PskStore> {
        &self.psks
    }

    /// When the server asks clients for cookies.
    pub const fn cookies(&self) -> CookiePolicy {
        self.cookies
    }

    /// The number of DTLS 1.2 sessions that the server stores for clients that do not use tickets.
    pub const fn remembered_sessions(&self) -> usize {
        self.remembered_sessions
    }

    /// The number of associations at once, and what happens beyond it.
    pub const fn slots(&self) -> SessionSlots {
        self.slots
    }

    /// Whether the server may send data before the client's Finished arrives
    /// ([`with_half_rtt_data`](Self::with_half_rtt_data)).
    pub const fn sends_half_rtt_data(&self) -> bool {
        self.send_half_rtt_data
    }

    /// Whether the endpoint sends hints ([`without_hints`](Self::without_hints)).
    pub const fn sends_hints(&self) -> bool {
        self.hints
    }

    /// The settings that clients have as well.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }
}

impl fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerConfig")
            .field("certificates", &self.certificates)
            .field("cookies", &self.cookies)
            .field("slots", &self.slots)
            .field("send_half_rtt_data", &self.send_half_rtt_data)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "rustcrypto"))]
mod tests {
    use super::*;
    use crate::config::{AggregationPolicy, ConnectionIds, Psk};
    use crate::crypto::rustcrypto::PROVIDER;
    use crate::{Connection, Instant, MaxFragmentLength, ProtocolVersion, Random, Scheme};
    use alloc::vec;

    #[test]
    fn the_default_settings_are_valid() {
        assert_eq!(Settings::new(&PROVIDER).check(), Ok(()));
        assert_eq!(Settings::rfc7925(&PROVIDER).check(), Ok(()));
    }

    #[test]
    fn a_clients_first_hello_may_have_lists_of_the_greatest_length_and_no_longer_ones() {
        let psk = Psk::external(&[b'a'; 256], &[1; 65_535]).unwrap();
        let mut settings = Settings::new(&PROVIDER);
        let suites = settings.suites.clone();
        settings.suites = suites.into_iter().cycle().take(tuning::MOST_SUITES).collect();
        settings.groups = vec![settings.groups[0]; tuning::MOST_GROUPS];
        settings.psk_modes = vec![settings.psk_modes[0]; tuning::MOST_PSK_MODES];
        let longest: Scheme = "r2d2:50".parse().unwrap();
        let schemes = vec![longest; tuning::MOST_SCHEMES];
        settings.aggregation = AggregationPolicy::new(schemes.clone(), schemes);
        settings.connection_ids = ConnectionIds::Bytes(32);
        settings.max_fragment_length = MaxFragmentLength::of_bytes(512);
        settings.record_size_limit = Some(512);
        settings.grease = true;
        settings.application_protocols = vec![vec![b'a'; 255]; tuning::MOST_APPLICATION_PROTOCOLS];
        let config = ClientConfig::with(psk.clone(), settings.clone()).unwrap();
        assert!(config.settings().speaks(ProtocolVersion::Dtls12));
        assert!(config.settings().speaks(ProtocolVersion::Dtls13));
        let server = "[::1]:5684".parse().unwrap();
        let client =
            Connection::client(Arc::new(config), server, Instant::ZERO, Random::insecure(1));
        assert!(client.is_open());

        settings.groups.push(settings.groups[0]);
        let most = tuning::MOST_GROUPS;
        let too_long = ConfigError::ListTooLong { list: "groups", entries: most + 1, most };
        assert_eq!(ClientConfig::with(psk, settings).map(drop), Err(too_long));
    }
}
