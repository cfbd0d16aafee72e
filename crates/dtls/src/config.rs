//! What a host decides before an association begins.

use crate::codepoints::{ExtensionType, PskKeyExchangeMode};
use crate::crypto::{CipherSuite, CipherSuiteId, Keying, NamedGroup, Provider};
use crate::error::ConfigError;
use crate::tuning;
use aggregation::Scheme;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use zeroize::Zeroizing;

/// An external pre-shared key (RFC 8446, section 4.2.11) for use with SHA-256.
///
/// It must come from at least 128 bits of entropy: a password is no PSK, since
/// one recorded handshake lets anyone try passwords offline.
#[derive(Clone)]
pub struct Psk {
    identity: Vec<u8>,
    key: Zeroizing<Vec<u8>>,
}

impl Psk {
    /// A PSK with its identity, which is sent in clear.
    ///
    /// # Errors
    /// The identity must have 1 to 256 bytes, the key at least 16.
    pub fn external(identity: &[u8], key: &[u8]) -> Result<Self, ConfigError> {
        if identity.is_empty() || identity.len() > 256 {
            return Err(ConfigError::PskIdentityLength(identity.len()));
        }
        if key.len() < 16 {
            return Err(ConfigError::PskTooShort(key.len()));
        }
        Ok(Self { identity: identity.to_vec(), key: Zeroizing::new(key.to_vec()) })
    }

    /// The identity.
    pub fn identity(&self) -> &[u8] {
        &self.identity
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }
}

impl fmt::Debug for Psk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Psk").field("identity", &self.identity).finish_non_exhaustive()
    }
}

/// Where a server finds its PSKs.
pub trait PskStore: Send + Sync {
    /// The PSK with this identity.
    fn psk(&self, identity: &[u8]) -> Option<Psk>;
}

impl PskStore for Psk {
    fn psk(&self, identity: &[u8]) -> Option<Psk> {
        (self.identity == identity).then(|| self.clone())
    }
}

impl PskStore for Vec<Psk> {
    fn psk(&self, identity: &[u8]) -> Option<Psk> {
        self.iter().find(|psk| psk.identity == identity).cloned()
    }
}

/// Receives the traffic secrets in the format of SSLKEYLOGFILE, a line at a time.
///
/// Whoever reads them reads everything. For debugging only.
pub trait KeyLog: Send + Sync {
    /// Takes `LABEL client_random secret`, the numbers in hex.
    fn log(&self, line: &str);
}

/// Which aggregation schemes an end accepts, best first. Empty: plain tags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AggregationPolicy {
    /// For what this end sends.
    pub send: Vec<Scheme>,
    /// For what this end receives.
    pub receive: Vec<Scheme>,
}

impl AggregationPolicy {
    /// One scheme for both directions.
    pub fn both(scheme: Scheme) -> Self {
        Self { send: alloc::vec![scheme], receive: alloc::vec![scheme] }
    }

    /// Whether aggregation is wanted at all.
    pub fn is_wanted(&self) -> bool {
        self.send.iter().chain(&self.receive).any(|scheme| *scheme != Scheme::Plain)
    }
}

/// How many bytes of the record number data records carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordNumbers {
    /// Two; one in epochs with aggregated tags while the receiver reports less than 3 % loss.
    #[default]
    Auto,
    /// As `Auto` with aggregated tags. One with plain tags, but for every 32nd
    /// record: after a burst of 128 lost ones the receiver drops some more until
    /// such a record shows it its place.
    Short,
    /// Two.
    Long,
}

/// What clients and servers have in common.
#[derive(Clone)]
pub struct Settings {
    /// Who computes the cryptography.
    pub provider: &'static Provider,
    /// Cipher suites, best first. With aggregation wanted, those that can
    /// aggregate go before the others.
    pub suites: Vec<CipherSuiteId>,
    /// Key exchange groups, best first.
    pub groups: Vec<NamedGroup>,
    /// Ways to use a PSK, best first. `PSK_KE` gives no forward secrecy.
    pub psk_modes: Vec<PskKeyExchangeMode>,
    /// Aggregation schemes.
    pub aggregation: AggregationPolicy,
    /// The aggregation extension's number.
    pub aggregation_extension: ExtensionType,
    /// The largest datagram to send, in bytes of UDP payload: 80 to 65,535.
    pub datagram_bytes: usize,
    /// Record numbers of data records.
    pub record_numbers: RecordNumbers,
    /// Silence after which an open aggregate is closed.
    pub silence: Duration,
    /// The first retransmission timeout, at least a millisecond.
    pub initial_timeout: Duration,
    /// A handshake fails when it takes longer; at least a millisecond.
    pub handshake_deadline: Duration,
    /// Received payloads held at once, in bytes with overhead.
    pub receive_buffer_bytes: usize,
    /// Payloads queued for sending, in bytes.
    pub send_buffer_bytes: usize,
    /// Where traffic secrets are written, for debugging.
    pub key_log: Option<Arc<dyn KeyLog>>,
}

impl Settings {
    /// Defaults with `provider`: every suite it has but CCM_8, every group,
    /// both PSK modes with key exchange first, no aggregation.
    ///
    /// # Errors
    /// The provider must compute its known answers.
    pub fn new(provider: &'static Provider) -> Result<Self, ConfigError> {
        provider.self_test().map_err(ConfigError::Provider)?;
        Ok(Self {
            provider,
            suites: provider
                .suites
                .iter()
                .map(|suite| suite.id)
                .filter(|id| *id != CipherSuiteId::AES_128_CCM_8_SHA256)
                .collect(),
            groups: provider.groups.iter().map(|group| group.id()).collect(),
            psk_modes: alloc::vec![PskKeyExchangeMode::PSK_DHE_KE, PskKeyExchangeMode::PSK_KE],
            aggregation: AggregationPolicy::default(),
            aggregation_extension: ExtensionType::MAC_AGGREGATION,
            datagram_bytes: tuning::DATAGRAM_BYTES,
            record_numbers: RecordNumbers::default(),
            silence: tuning::SILENCE,
            initial_timeout: tuning::INITIAL_TIMEOUT,
            handshake_deadline: tuning::HANDSHAKE_DEADLINE,
            receive_buffer_bytes: tuning::RECEIVE_BUFFER_BYTES,
            send_buffer_bytes: tuning::SEND_BUFFER_BYTES,
            key_log: None,
        })
    }

    /// Checks that the settings make sense together.
    ///
    /// # Errors
    /// Names the first setting that does not.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.suites.is_empty() || self.suites.iter().any(|id| self.provider.suite(*id).is_none())
        {
            return Err(ConfigError::CipherSuites);
        }
        let needs_group = self.psk_modes.contains(&PskKeyExchangeMode::PSK_DHE_KE);
        if needs_group
            && (self.groups.is_empty()
                || self.groups.iter().any(|id| self.provider.group(*id).is_none()))
        {
            return Err(ConfigError::Groups);
        }
        let known = [PskKeyExchangeMode::PSK_KE, PskKeyExchangeMode::PSK_DHE_KE];
        if self.psk_modes.is_empty() || self.psk_modes.iter().any(|mode| !known.contains(mode)) {
            return Err(ConfigError::PskModes);
        }
        if self.aggregation.is_wanted() && !self.ordered_suites().any(can_aggregate) {
            return Err(ConfigError::AggregationSuite);
        }
        if !(tuning::MIN_DATAGRAM_BYTES..=tuning::MAX_DATAGRAM_BYTES).contains(&self.datagram_bytes)
        {
            return Err(ConfigError::DatagramSize(self.datagram_bytes));
        }
        if self.initial_timeout.min(self.handshake_deadline) < tuning::LEAST_TIMEOUT {
            return Err(ConfigError::Timeout);
        }
        Ok(())
    }

    /// The suites in order of preference, those that can aggregate first if that is wanted.
    pub(crate) fn ordered_suites(&self) -> impl Iterator<Item = &'static CipherSuite> + Clone + '_ {
        let wanted = self.aggregation.is_wanted();
        let suites = || self.suites.iter().filter_map(|id| self.provider.suite(*id));
        suites()
            .filter(move |suite| wanted && can_aggregate(suite))
            .chain(suites().filter(move |suite| !(wanted && can_aggregate(suite))))
    }
}

/// Whether a suite's tags may be aggregated.
pub(crate) fn can_aggregate(suite: &CipherSuite) -> bool {
    matches!(suite.keying, Keying::Prf { .. })
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("provider", &self.provider)
            .field("suites", &self.suites)
            .field("aggregation", &self.aggregation)
            .finish_non_exhaustive()
    }
}

/// A client's configuration.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// The key it offers.
    pub psk: Psk,
    /// Everything else.
    pub settings: Settings,
}

impl ClientConfig {
    /// Defaults with the portable provider.
    ///
    /// # Errors
    /// As [`Settings::new`].
    #[cfg(feature = "rustcrypto")]
    pub fn new(psk: Psk) -> Result<Self, ConfigError> {
        Ok(Self { psk, settings: Settings::new(&crate::crypto::rustcrypto::PROVIDER)? })
    }
}

/// When a server asks a client to prove its address before it keeps any state
/// (RFC 9147, section 5.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CookiePolicy {
    /// Always: a round trip more, and nobody can make this server send or remember.
    #[default]
    Always,
    /// Only where a HelloRetryRequest is needed anyway. For closed networks.
    WhenRetrying,
}

/// A server's configuration.
#[derive(Clone)]
pub struct ServerConfig {
    /// The keys it knows.
    pub psks: Arc<dyn PskStore>,
    /// Whether it asks for cookies.
    pub cookies: CookiePolicy,
    /// Everything else.
    pub settings: Settings,
}

impl ServerConfig {
    /// Defaults with the portable provider.
    ///
    /// # Errors
    /// As [`Settings::new`].
    #[cfg(feature = "rustcrypto")]
    pub fn new(psks: Arc<dyn PskStore>) -> Result<Self, ConfigError> {
        Ok(Self {
            psks,
            cookies: CookiePolicy::default(),
            settings: Settings::new(&crate::crypto::rustcrypto::PROVIDER)?,
        })
    }
}

impl fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerConfig")
            .field("cookies", &self.cookies)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
