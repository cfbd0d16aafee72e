//! What a host decides before an association begins.

use crate::codepoints::{ExtensionType, LEAST_RECORD_SIZE_LIMIT, MAX_CONTENT, PskKeyExchangeMode};
use crate::crypto::{
    CipherSuite, CipherSuite12, CipherSuiteId, Exchange12, Keying, NamedGroup, Provider,
};
use crate::error::ConfigError;
use crate::handshake::dtls12::session::Session;
use crate::messages::extensions::MaxFragmentLength;
use crate::record::ConnectionId;
use crate::tuning;
use aggregation::Scheme;
use aggregation::choice::Family;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::num::NonZeroUsize;
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
    /// It is for two ends, of which one is always the client and the other always the server. An end
    /// that uses it in both roles can be made to talk to itself (RFC 9257, section 7).
    ///
    /// # Errors
    /// The identity must have 1 to 256 bytes, the key 16 to 65,535.
    pub fn external(identity: &[u8], key: &[u8]) -> Result<Self, ConfigError> {
        if identity.is_empty() || identity.len() > 256 {
            return Err(ConfigError::PskIdentityLength(identity.len()));
        }
        if !(16..=usize::from(u16::MAX)).contains(&key.len()) {
            return Err(ConfigError::PskLength(key.len()));
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

    /// A family's schemes for both directions, the second of them first: between sharing most and
    /// least, until a receiver has seen enough to choose ([`Settings::adapt`]).
    pub fn family(family: Family) -> Self {
        let [most, first, rest @ ..] = family.members();
        let schemes = [first, most].into_iter().chain(rest).filter(|scheme| scheme.aggregates());
        let schemes: Vec<_> = schemes.collect();
        Self { send: schemes.clone(), receive: schemes }
    }

    /// Whether aggregation is wanted at all.
    pub fn is_wanted(&self) -> bool {
        self.send.iter().chain(&self.receive).any(|scheme| *scheme != Scheme::Plain)
    }
}

/// How a receiver chooses among the schemes of a family, as the losses it sees and the lengths of
/// the payloads demand: it asks for another as
/// [`Connection::request_aggregation`](crate::Connection::request_aggregation) does, at most every
/// 200 records. Only schemes that the client offered for the direction are asked for, and plain
/// tags, as far as [`Settings::aggregation`] accepts them; in place of any other the next that
/// shares less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adapt {
    /// The schemes.
    pub family: Family,
    /// What decides.
    pub rule: AdaptRule,
}

impl Adapt {
    /// Within a family, by the better rule.
    pub const fn within(family: Family) -> Self {
        Self { family, rule: AdaptRule::Hindsight }
    }
}

/// What decides when another scheme is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdaptRule {
    /// What each scheme would have verified of late: [`aggregation::choice::Hindsight`].
    #[default]
    Hindsight,
    /// The loss rate of the last 200 records, as in the MAC aggregation paper:
    /// [`aggregation::choice::LossRate`].
    LossRate,
}

/// When received data whose tags are shared goes to the application. With plain tags all data
/// is verified as it comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// Once it is verified: the application sees nothing else.
    #[default]
    Verified,
    /// Once this many bits speak for it, 1 to 127: an attacker's record is taken with a chance of
    /// 2^-bits, and found out afterwards. It is the plaintext of a stream cipher until then:
    /// whoever sees how the application reacts to altered data learns from it.
    ///
    /// After 2^(bits − 20) such records, below 21 bits after one, data of the epoch is delivered
    /// verified only.
    Progressive(u8),
    /// At once, before anything speaks for it. As `Progressive`; the first forgery that is found
    /// out ends it for the epoch.
    Unauthenticated,
}

impl Delivery {
    /// The level at which data is delivered, if before it is verified.
    pub(crate) const fn threshold(self) -> Option<u8> {
        match self {
            Self::Verified => None,
            Self::Progressive(bits) => Some(if bits == 0 { 1 } else { bits }),
            Self::Unauthenticated => Some(0),
        }
    }
}

/// What follows when records turn out to be forged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum OnForgery {
    /// Nothing: they are dropped and counted. Whoever can send datagrams can make such records.
    #[default]
    Drop,
    /// The association ends with `bad_record_mac` when one of them was delivered before.
    CloseWhenRefuted,
    /// The association ends with `bad_record_mac`. Then whoever can send one datagram ends it.
    Close,
}

/// A version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProtocolVersion {
    /// DTLS 1.2 (RFC 6347).
    Dtls12,
    /// DTLS 1.3 (RFC 9147).
    Dtls13,
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Dtls12 => "DTLS 1.2",
            Self::Dtls13 => "DTLS 1.3",
        })
    }
}

/// How a flight's messages share records and datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Packing {
    /// `Full` in DTLS 1.3 and `RecordPerMessage` in 1.2, where some peers (tinydtls) read
    /// one message a record.
    #[default]
    Auto,
    /// As many messages a record and records a datagram as fit: the fewest bytes.
    Full,
    /// One message a record, as many records a datagram as fit.
    RecordPerMessage,
    /// One record a datagram, for peers that read no further and for links where
    /// short frames arrive more often.
    RecordPerDatagram,
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

/// How the numbers of records with aggregated tags are hidden. Both ends must have the same: it
/// is not negotiated, and between others no such record is understood.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NumberMasks {
    /// As in RFC 9147; a record shorter than 16 bytes is filled up with zeros and its length. An
    /// observer sees when two such records have the same mask: they look the same.
    #[default]
    Standard,
    /// The same with the epoch in place of the length, as in the MAC aggregation paper, to compare
    /// with.
    Paper,
    /// As `Standard`, and a record shorter than 16 bytes is hidden by a function of its masked
    /// number, so that records which look the same have the same mask no more often than
    /// others: one more AES call at either end. Without effect where numbers are not hidden.
    Strong,
}

/// What clients and servers have in common.
#[derive(Clone)]
pub struct Settings {
    /// Who computes the cryptography.
    pub provider: &'static Provider,
    /// Versions this end speaks, as far as `suites` has any for them. DTLS 1.2 is spoken
    /// only where the peer speaks no 1.3.
    pub versions: Vec<ProtocolVersion>,
    /// Cipher suites of all these versions, best first. With aggregation wanted, those
    /// that can aggregate go before the others, but one that does not encrypt never
    /// before one that does and is preferred here.
    pub suites: Vec<CipherSuiteId>,
    /// Key exchange groups, best first.
    pub groups: Vec<NamedGroup>,
    /// Ways to use a PSK, best first. `PSK_KE` gives no forward secrecy.
    pub psk_modes: Vec<PskKeyExchangeMode>,
    /// Aggregation schemes.
    pub aggregation: AggregationPolicy,
    /// Whether this end changes the scheme of what it receives by itself, and how.
    pub adapt: Option<Adapt>,
    /// When data whose tags are shared is delivered.
    pub delivery: Delivery,
    /// What follows when records turn out to be forged.
    pub on_forgery: OnForgery,
    /// The aggregation extension's number.
    pub aggregation_extension: ExtensionType,
    /// Whether a DTLS 1.2 peer must bind its keys to the whole handshake (RFC 7627).
    pub require_extended_master_secret: bool,
    /// Whether DTLS 1.2 sessions may be resumed.
    pub resumption: bool,
    /// Whether that may be by ticket, of which the server needs to remember nothing.
    pub session_tickets: bool,
    /// How flights are packed.
    pub packing: Packing,
    /// The longest record a DTLS 1.2 client asks for (RFC 6066, section 4). Servers
    /// grant what they are asked for.
    pub max_fragment_length: Option<MaxFragmentLength>,
    /// The longest plaintext this end takes in a record, in bytes, type and padding
    /// included in DTLS 1.3 (RFC 8449): 64 to 16,385. Longer ones are dropped unread. By default
    /// none is stated, but where shared tags are wanted what fits a datagram of
    /// [`datagram_bytes`](Self::datagram_bytes): then a peer with larger ones must keep to it.
    pub record_size_limit: Option<u16>,
    /// Whether the peer may use connection IDs, and how long its ones for this end are
    /// to be, in bytes: zero to give one and want none (RFC 9146, RFC 9147, section 9).
    pub connection_id: Option<u8>,
    /// Whether a peer with connection IDs is to check this end's address, and lets its own be
    /// checked, before it is believed that it changed (RFC 9853).
    pub return_routability: bool,
    /// Whether a peer with a connection ID is followed to another address at its word: where it
    /// takes no part in return routability checks (RFC 9853), as most do not yet. Then whoever
    /// sees a record can copy it, and so direct what this end sends to anybody until the peer's
    /// next record; off, such a peer is heard from anywhere but answered where it first was. RFC 9146,
    /// section 6, wants this off unless the application checks addresses itself.
    pub unchecked_address_change: bool,
    /// The largest datagram to send, in bytes of UDP payload: 80 to 65,535. Below 96 bytes no
    /// connection ID of the peer is taken that is longer than what is above 64.
    pub datagram_bytes: usize,
    /// The longest datagram to look for, in bytes of UDP payload: where payloads need more than
    /// [`datagram_bytes`](Self::datagram_bytes), the path is probed for what it takes up to here (RFC
    /// 8899), and they wait for the answer. Only with a peer that takes part in return routability
    /// checks and, in DTLS 1.2, has a connection ID; the socket should forbid IP fragments. None: nothing
    /// is probed, and no datagram is longer than `datagram_bytes`.
    pub path_mtu: Option<usize>,
    /// Record numbers of data records.
    pub record_numbers: RecordNumbers,
    /// How those of records with aggregated tags are hidden.
    pub number_masks: NumberMasks,
    /// How long a message under shared tags waits for others at most, before its set is closed by a
    /// tag of its own; zero for not at all. None: as long as what this end sees allows, at most 200 ms
    /// in a stream, at most 20 ms where something is received as well, and not at all where messages
    /// are answered or too few would come in that time.
    pub max_wait: Option<Duration>,
    /// How long a queued payload may wait, as during the handshake, before it is dropped and counted; none: as
    /// long as it takes.
    pub max_age: Option<Duration>,
    /// The first retransmission timeout, at least a millisecond.
    pub initial_timeout: Duration,
    /// A handshake fails when it takes longer; at least a millisecond.
    pub handshake_deadline: Duration,
    /// Received payloads held at once, at most, in bytes with overhead. Those that wait for shared
    /// tags take less of it: four of each number that the scheme waits for, as long as the longest
    /// payload that was verified so far, or one as long as a record may be.
    pub receive_buffer_bytes: usize,
    /// Payloads queued for sending, in bytes.
    pub send_buffer_bytes: usize,
    /// Where traffic secrets are written, for debugging.
    pub key_log: Option<Arc<dyn KeyLog>>,
}

impl Settings {
    /// Defaults with `provider`: both versions, every suite it has but those with
    /// short tags or without encryption, every group, both PSK modes with key exchange first, no aggregation.
    ///
    /// # Errors
    /// The provider must compute its known answers.
    pub fn new(provider: &'static Provider) -> Result<Self, ConfigError> {
        provider.self_test()?;
        // Short tags and clear text are for hosts that choose their risk themselves.
        let suites_13 = provider.suites.iter().filter(|s| s.encrypts && s.tag_len >= 16);
        let suites_12 = provider.suites_12.iter().filter(|s| s.tag_len >= 16);
        Ok(Self {
            provider,
            versions: alloc::vec![ProtocolVersion::Dtls13, ProtocolVersion::Dtls12],
            suites: suites_13.map(|s| s.id).chain(suites_12.map(|s| s.id)).collect(),
            groups: provider.groups.iter().map(|group| group.id()).collect(),
            psk_modes: alloc::vec![PskKeyExchangeMode::PSK_DHE_KE, PskKeyExchangeMode::PSK_KE],
            aggregation: AggregationPolicy::default(),
            adapt: None,
            delivery: Delivery::default(),
            on_forgery: OnForgery::default(),
            aggregation_extension: ExtensionType::MAC_AGGREGATION,
            require_extended_master_secret: true,
            resumption: true,
            session_tickets: true,
            packing: Packing::default(),
            max_fragment_length: None,
            record_size_limit: None,
            connection_id: None,
            return_routability: true,
            unchecked_address_change: false,
            datagram_bytes: tuning::DATAGRAM_BYTES,
            path_mtu: None,
            record_numbers: RecordNumbers::default(),
            number_masks: NumberMasks::default(),
            max_wait: None,
            max_age: None,
            initial_timeout: tuning::INITIAL_TIMEOUT,
            handshake_deadline: tuning::HANDSHAKE_DEADLINE,
            receive_buffer_bytes: tuning::RECEIVE_BUFFER_BYTES,
            send_buffer_bytes: tuning::SEND_BUFFER_BYTES,
            key_log: None,
        })
    }

    /// RFC 7925's profile for small devices with a PSK (section 4.2): DTLS 1.2 with
    /// `TLS_PSK_WITH_AES_128_CCM_8`, nothing else.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn rfc7925(provider: &'static Provider) -> Result<Self, ConfigError> {
        Ok(Self {
            versions: alloc::vec![ProtocolVersion::Dtls12],
            suites: alloc::vec![CipherSuiteId::PSK_WITH_AES_128_CCM_8],
            initial_timeout: tuning::INITIAL_TIMEOUT_7925,
            handshake_deadline: tuning::HANDSHAKE_DEADLINE_7925,
            ..Self::new(provider)?
        })
    }

    /// Checks that the settings make sense together.
    ///
    /// # Errors
    /// Names the first setting that does not.
    pub fn check(&self) -> Result<(), ConfigError> {
        let known = |id| self.provider.suite(id).is_some() || self.provider.suite_12(id).is_some();
        if !self.suites.iter().all(|id| known(*id)) {
            return Err(ConfigError::CipherSuites);
        }
        if self.versions.is_empty() {
            return Err(ConfigError::Versions);
        }
        let speaks_13 = self.speaks(ProtocolVersion::Dtls13);
        if !(speaks_13 || self.speaks(ProtocolVersion::Dtls12)) {
            return Err(ConfigError::CipherSuites);
        }
        let needs_group = speaks_13 && self.psk_modes.contains(&PskKeyExchangeMode::PSK_DHE_KE)
            || self.offers_ecdhe_psk();
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
        if self
            .record_size_limit
            .is_some_and(|limit| !(LEAST_RECORD_SIZE_LIMIT..=1 + (1 << 14)).contains(&limit))
        {
            return Err(ConfigError::RecordSizeLimit);
        }
        if self.connection_id.is_some_and(|len| usize::from(len) > ConnectionId::MAX_LEN) {
            return Err(ConfigError::ConnectionIdLength);
        }
        if self.aggregation.is_wanted() && !self.ordered_suites().any(can_aggregate) {
            return Err(ConfigError::AggregationSuite);
        }
        let least = tuning::MIN_DATAGRAM_BYTES;
        if !(least..=tuning::MAX_DATAGRAM_BYTES).contains(&self.datagram_bytes) {
            return Err(ConfigError::DatagramSize { bytes: self.datagram_bytes, least });
        }
        if let Some(bytes) = self.path_mtu.filter(|bytes| *bytes > tuning::MAX_DATAGRAM_BYTES) {
            return Err(ConfigError::DatagramSize { bytes, least });
        }
        if self.initial_timeout.min(self.handshake_deadline) < tuning::LEAST_TIMEOUT {
            return Err(ConfigError::Timeout);
        }
        Ok(())
    }

    /// The longest connection ID of the peer that this end takes. It is in each record, and in short
    /// datagrams has to leave room for what cannot be split: closing tags, and path messages.
    pub(crate) fn longest_peer_id(&self) -> usize {
        let room = self.datagram_bytes.saturating_sub(tuning::LEAST_BESIDE_ID);
        ConnectionId::MAX_LEN.min(room)
    }

    /// The limit on records that this end states (RFC 8449): as set, or, where shared tags are
    /// wanted and received records wait for them, what datagrams as large as its own can have.
    pub(crate) fn stated_record_limit(&self) -> Option<u16> {
        let shares = self.aggregation.is_wanted() && self.max_fragment_length.is_none();
        self.record_size_limit.or_else(|| {
            // A header of the flags and a byte of the number.
            let longest = self.path_mtu.unwrap_or(0).max(self.datagram_bytes);
            let limit = longest.saturating_sub(2).min(MAX_CONTENT + 1);
            shares.then_some(u16::try_from(limit).unwrap_or(u16::MAX))
        })
    }

    /// Whether tickets may be used.
    pub(crate) const fn uses_tickets(&self) -> bool {
        self.resumption && self.session_tickets
    }

    /// Whether this version may be spoken.
    pub(crate) fn speaks(&self, version: ProtocolVersion) -> bool {
        match version {
            ProtocolVersion::Dtls12 => self.suites_12().next().is_some(),
            ProtocolVersion::Dtls13 => self.ordered_suites().next().is_some(),
        }
    }

    /// The suites of DTLS 1.2 in order of preference; none if that is not spoken.
    pub(crate) fn suites_12(&self) -> impl Iterator<Item = &'static CipherSuite12> + Clone + '_ {
        let spoken = self.versions.contains(&ProtocolVersion::Dtls12);
        let suites = self.suites.iter().filter(move |_| spoken);
        suites.filter_map(|id| self.provider.suite_12(*id))
    }

    /// Whether a suite of DTLS 1.2 with a key exchange may be spoken.
    pub(crate) fn offers_ecdhe_psk(&self) -> bool {
        self.suites_12().any(|suite| suite.exchange == Exchange12::EcdhePsk)
    }

    /// The suites of DTLS 1.3 in order of preference, those that can aggregate first if that is wanted.
    pub(crate) fn ordered_suites(&self) -> impl Iterator<Item = &'static CipherSuite> + Clone + '_ {
        let wanted = self.aggregation.is_wanted();
        let spoken = self.versions.contains(&ProtocolVersion::Dtls13);
        let suites = move || {
            let suites = self.suites.iter().filter(move |_| spoken);
            suites.filter_map(|id| self.provider.suite(*id))
        };
        let (mut first, mut rest) = (preferable(), preferable());
        suites()
            .filter(move |suite| wanted && first(suite))
            .chain(suites().filter(move |suite| !(wanted && rest(suite))))
    }
}

/// Whether a suite's tags may be aggregated.
pub(crate) fn can_aggregate(suite: &CipherSuite) -> bool {
    matches!(suite.keying, Keying::Prf { .. })
}

/// Asked of suites in order of preference: which ones aggregation goes first with. One that does
/// not encrypt is not to come before one that does because of it.
pub(crate) fn preferable() -> impl FnMut(&CipherSuite) -> bool + Clone {
    let mut encrypted = false;
    move |suite| {
        let preferable = can_aggregate(suite) && (suite.encrypts || !encrypted);
        encrypted |= suite.encrypts;
        preferable
    }
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
    /// A DTLS 1.2 session of this PSK to resume, from [`Connection::session`](crate::Connection::session).
    pub session: Option<Session>,
    /// Everything else.
    pub settings: Settings,
}

impl ClientConfig {
    /// A client with these settings and no session to resume.
    pub const fn with(psk: Psk, settings: Settings) -> Self {
        Self { psk, session: None, settings }
    }

    /// Defaults with the portable provider.
    ///
    /// # Errors
    /// As [`Settings::new`].
    #[cfg(feature = "rustcrypto")]
    pub fn new(psk: Psk) -> Result<Self, ConfigError> {
        Ok(Self::with(psk, Settings::new(&crate::crypto::rustcrypto::PROVIDER)?))
    }
}

/// When a server asks a client to prove its address before it keeps any state
/// (RFC 9147, section 5.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CookiePolicy {
    /// Always: a round trip more, and nobody can make this server send or remember.
    #[default]
    Always,
    /// Only where a HelloRetryRequest is needed anyway: in DTLS 1.2 never. Anybody can then make this
    /// server remember, and send at most three bytes for each that came to an address that is not
    /// its own (RFC 9147, section 5.1). For closed networks.
    WhenRetrying,
}

/// How many associations a server keeps at once, and what becomes of one more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionSlots {
    /// The most; none: as many as come.
    ///
    /// A handshake holds a slot too. One whose client has not proved key and address gives
    /// it up, if need be, to one whose client has, and after four first timeouts to any. A client that
    /// begins anew at the address of its association is let in beside that.
    pub most: Option<NonZeroUsize>,
    /// What becomes of a client for which no slot is left.
    pub when_full: WhenFull,
}

impl SessionSlots {
    /// At most so many.
    pub const fn at_most(most: NonZeroUsize, when_full: WhenFull) -> Self {
        Self { most: Some(most), when_full }
    }
}

/// What a server does when a client comes and all session slots are taken.
///
/// A session that is evicted ends with close_notify and
/// [`CloseReason::Evicted`](crate::CloseReason::Evicted), and not before the other client has
/// completed its handshake: who has no key evicts nobody. Those handshakes go on beside the
/// sessions, at most as many as there are slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// It refuses: `internal_error`, which stands for a lack of memory too (RFC 8446, section 6.2), once
    /// the client has proved its address where cookies are asked for. The alert is shorter than
    /// the hello it answers.
    #[default]
    Refuse,
    /// It ends the session that was accepted first.
    EvictOldest,
    /// It ends the session of the peer that was not heard of for the longest time, if that is at
    /// least this long; else it refuses.
    EvictIdle(Duration),
}

/// A server's configuration.
#[derive(Clone)]
pub struct ServerConfig {
    /// The keys it knows.
    pub psks: Arc<dyn PskStore>,
    /// Whether it asks for cookies.
    pub cookies: CookiePolicy,
    /// How many DTLS 1.2 sessions of clients without tickets it remembers.
    pub remembered_sessions: usize,
    /// How many associations it keeps at once.
    pub slots: SessionSlots,
    /// Whether in DTLS 1.3 it may send data right behind its own Finished, half a round trip
    /// before the client's comes (RFC 8446, section 2): [`Event::MaySend`](crate::Event::MaySend)
    /// tells when. Off by default.
    ///
    /// Such data can be read by who holds the PSK, with psk_dhe_ke by who sent this hello
    /// besides. But nothing shows yet that the client is there: its hello may be a recording,
    /// which while a cookie lasts, or without cookies, brings forth the data once more. To a
    /// client that has not proved its address go three bytes at most for each that came from
    /// there (RFC 9147, section 5.1), the server's flight and what is sent again included; what
    /// is left over waits.
    pub send_half_rtt_data: bool,
    /// Whether a peer that sends records of an association that the endpoint does not know gets a
    /// hint, which proves nothing: it then finds out sooner that the endpoint was restarted. On by
    /// default.
    pub hints: bool,
    /// Everything else.
    pub settings: Settings,
}

impl ServerConfig {
    /// A server with these settings that always asks for cookies.
    pub fn with(psks: Arc<dyn PskStore>, settings: Settings) -> Self {
        Self {
            psks,
            cookies: CookiePolicy::default(),
            remembered_sessions: tuning::REMEMBERED_SESSIONS,
            slots: SessionSlots::default(),
            send_half_rtt_data: false,
            hints: true,
            settings,
        }
    }

    /// Defaults with the portable provider.
    ///
    /// # Errors
    /// As [`Settings::new`].
    #[cfg(feature = "rustcrypto")]
    pub fn new(psks: Arc<dyn PskStore>) -> Result<Self, ConfigError> {
        Ok(Self::with(psks, Settings::new(&crate::crypto::rustcrypto::PROVIDER)?))
    }
}

impl fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerConfig")
            .field("cookies", &self.cookies)
            .field("slots", &self.slots)
            .field("send_half_rtt_data", &self.send_half_rtt_data)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
