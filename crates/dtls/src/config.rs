//! Configuration of clients and servers: what the host decides before an association begins.

use crate::codepoints::{ExtensionType, LEAST_RECORD_SIZE_LIMIT, MAX_CONTENT, PskKeyExchangeMode};
use crate::crypto::{
    CipherSuite, CipherSuite12, CipherSuiteId, Exchange12, Keying, NamedGroup, Provider,
};
use crate::error::ConfigError;
use crate::handshake::dtls12::session::Session;
use crate::messages::extensions::MaxFragmentLength;
use crate::record::ConnectionId;
use crate::tuning;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::num::NonZeroUsize;
use core::time::Duration;
use lightseal_aggregation::Scheme;
use lightseal_aggregation::choice::Family;

pub use crate::credential::{Credential, Lookup, Psk, PskStore};

/// Receives the traffic secrets in the format of SSLKEYLOGFILE, one line at a time.
///
/// Whoever has these secrets can decrypt the association. For debugging only.
pub trait KeyLog: Send + Sync {
    /// Takes one line, `LABEL client_random secret`, with the numbers in hexadecimal.
    fn log(&self, line: &str);
}

/// The aggregation schemes that an end accepts, in order of preference. An empty list stands for
/// plain tags: one tag in each record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AggregationPolicy {
    /// Schemes for the records that this end sends.
    pub send: Vec<Scheme>,
    /// Schemes for the records that this end receives.
    pub receive: Vec<Scheme>,
}

impl AggregationPolicy {
    /// Accepts the schemes of one list for the records that this end sends, and of another for the
    /// records that it receives.
    pub const fn new(send: Vec<Scheme>, receive: Vec<Scheme>) -> Self {
        Self { send, receive }
    }

    /// Accepts one scheme, for both directions.
    pub fn both(scheme: Scheme) -> Self {
        Self { send: alloc::vec![scheme], receive: alloc::vec![scheme] }
    }

    /// Accepts the schemes of a family for both directions. The family's second scheme is
    /// preferred: it lies between the one that shares tags among most records and the one that
    /// shares least, and serves until a receiver has seen enough records to choose
    /// ([`Settings::adapt`]).
    pub fn family(family: Family) -> Self {
        let [most, first, rest @ ..] = family.members();
        let schemes = [first, most].into_iter().chain(rest).filter(|scheme| scheme.aggregates());
        let schemes: Vec<_> = schemes.collect();
        Self { send: schemes.clone(), receive: schemes }
    }

    /// Whether any scheme other than plain tags is accepted in either direction.
    pub fn is_wanted(&self) -> bool {
        self.send.iter().chain(&self.receive).any(|scheme| *scheme != Scheme::Plain)
    }
}

/// How a receiver chooses among the schemes of a family by itself, from the losses and payload
/// lengths that it observes. It requests another scheme as
/// [`Connection::request_aggregation`](crate::Connection::request_aggregation) does, at most once
/// in 200 records. It requests only plain tags and schemes that the client offered for this
/// direction, and only if [`Settings::aggregation`] accepts them. If the best scheme is not among
/// them, the receiver requests the next one of the family that shares less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Adapt {
    /// The family whose schemes are considered.
    pub family: Family,
    /// The rule that selects a scheme of the family.
    pub rule: AdaptRule,
}

impl Adapt {
    /// Chooses within a family by the better rule, [`AdaptRule::Hindsight`].
    pub const fn within(family: Family) -> Self {
        Self { family, rule: AdaptRule::Hindsight }
    }

    /// Chooses by another rule.
    #[must_use]
    pub const fn with_rule(self, rule: AdaptRule) -> Self {
        Self { family: self.family, rule }
    }
}

/// The rule by which a receiver decides that another scheme is better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AdaptRule {
    /// Compares how many of the recent records each scheme would have verified:
    /// [`lightseal_aggregation::choice::Hindsight`].
    #[default]
    Hindsight,
    /// Uses the loss rate of the last 200 records, as in the MAC aggregation paper:
    /// [`lightseal_aggregation::choice::LossRate`].
    LossRate,
}

/// When received data under shared tags is delivered to the application. Data under plain tags is
/// always verified on arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delivery {
    /// Data is delivered once it is verified: the application sees verified data only.
    #[default]
    Verified,
    /// Data is delivered once its security level has reached this many bits, 1 to 127. A forged
    /// record is then delivered with a probability of 2^-bits, and refuted later. Until it is
    /// verified, the data is the plaintext of a stream cipher: an attacker who sees how the
    /// application reacts to altered data learns from that.
    ///
    /// After 2^(bits − 20) forged records were delivered (below 21 bits: after the first one), data
    /// of the epoch is delivered only when it is verified.
    Progressive(u8),
    /// Data is delivered on arrival, before any tag covers it, with the risks of `Progressive`.
    /// After the first delivered record that is refuted, data of the epoch is delivered only when
    /// it is verified.
    Unauthenticated,
}

impl Delivery {
    /// The security level in bits from which data is delivered; `None` if only verified data is.
    pub(crate) const fn threshold(self) -> Option<u8> {
        match self {
            Self::Verified => None,
            Self::Progressive(bits) => Some(if bits == 0 { 1 } else { bits }),
            Self::Unauthenticated => Some(0),
        }
    }
}

/// What an association does when it finds that records were forged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum OnForgery {
    /// Forged records are dropped and counted, nothing else. Anybody who can send datagrams can
    /// make such records.
    #[default]
    Drop,
    /// The association ends with `bad_record_mac` if a forged record was delivered before it was
    /// refuted.
    CloseWhenRefuted,
    /// The association ends with `bad_record_mac` on the first forged record. Anybody who can send
    /// one datagram can then end it.
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

/// How the messages of a flight are packed into records and datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Packing {
    /// `Full` in DTLS 1.3 and `RecordPerMessage` in 1.2, where some peers (tinydtls) read only one
    /// message in each record.
    #[default]
    Auto,
    /// As many messages in each record, and records in each datagram, as fit. Takes the fewest
    /// bytes.
    Full,
    /// One message in each record, as many records in each datagram as fit.
    RecordPerMessage,
    /// One record in each datagram: for peers that read only the first record of a datagram, and
    /// for links on which short frames are more likely to arrive.
    RecordPerDatagram,
}

/// How many bytes of the record number the header of a data record carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordNumbers {
    /// Two bytes; one byte in epochs with aggregated tags while the receiver reports less than 3 %
    /// loss.
    #[default]
    Auto,
    /// With aggregated tags as `Auto`. With plain tags one byte, but two bytes in every 32nd
    /// record: after a burst of 128 lost records the receiver cannot reconstruct one-byte numbers
    /// and drops records until one with a two-byte number arrives.
    Short,
    /// Always two bytes.
    Long,
}

/// How the record numbers of records with aggregated tags are encrypted. Both ends must have the
/// same setting. It is not negotiated: with different settings neither end can read such records of
/// the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum NumberMasks {
    /// As in RFC 9147, section 4.2.3. The input of the mask is the ciphertext; if that is shorter
    /// than 16 bytes, it is padded with zeros and its length. Equal short ciphertexts have equal
    /// masks, and an observer can see that they are equal.
    #[default]
    Standard,
    /// As `Standard`, but padded with the epoch in place of the length, as in the MAC aggregation
    /// paper. For comparison only.
    Paper,
    /// As `Standard`, but the ciphertext of a record shorter than 16 bytes is itself encrypted with
    /// a function of the masked number. Records that look equal then have equal masks no more often
    /// than other records do. This costs one more AES call at either end, and has no effect where
    /// record numbers are not encrypted.
    Strong,
}

/// The settings that clients and servers have in common.
#[derive(Clone)]
#[non_exhaustive]
pub struct Settings {
    /// The implementation of the cryptography.
    pub provider: &'static Provider,
    /// The protocol versions that this end speaks; a version needs at least one suite in `suites`.
    /// DTLS 1.2 is used only if the peer does not speak 1.3.
    pub versions: Vec<ProtocolVersion>,
    /// The cipher suites of all these versions, in order of preference. If aggregation is wanted,
    /// suites that can aggregate come before the others, except that a suite without encryption
    /// never moves before a preferred one that encrypts.
    pub suites: Vec<CipherSuiteId>,
    /// The key exchange groups, in order of preference.
    pub groups: Vec<NamedGroup>,
    /// The PSK key exchange modes, in order of preference. `PSK_KE` gives no forward secrecy.
    pub psk_modes: Vec<PskKeyExchangeMode>,
    /// The accepted aggregation schemes.
    pub aggregation: AggregationPolicy,
    /// Whether, and by which rule, this end requests other schemes for the records that it
    /// receives.
    pub adapt: Option<Adapt>,
    /// When received data under shared tags is delivered to the application.
    pub delivery: Delivery,
    /// What the association does when it finds that records were forged.
    pub on_forgery: OnForgery,
    /// The extension type of the aggregation extension.
    pub aggregation_extension: ExtensionType,
    /// Whether a DTLS 1.2 peer must support the extended master secret (RFC 7627), which binds the
    /// keys to the whole handshake.
    pub require_extended_master_secret: bool,
    /// Whether DTLS 1.2 sessions may be resumed.
    pub resumption: bool,
    /// Whether DTLS 1.2 sessions may be resumed with tickets, for which the server stores no
    /// session state.
    pub session_tickets: bool,
    /// How flights are packed into records and datagrams.
    pub packing: Packing,
    /// The maximum fragment length that a DTLS 1.2 client asks for (RFC 6066, section 4). Servers
    /// grant what clients ask for.
    pub max_fragment_length: Option<MaxFragmentLength>,
    /// The record size limit that this end states (RFC 8449), in bytes: 64 to 16,385, in DTLS 1.3
    /// with content type and padding included. Longer records are dropped unread. `None`: no limit
    /// is stated, except that an end which wants shared tags states what fits a datagram of
    /// [`datagram_bytes`](Self::datagram_bytes). A peer with larger datagrams must then keep to
    /// that limit.
    pub record_size_limit: Option<u16>,
    /// The length in bytes of the connection IDs that the peer is to use in its records to this
    /// end. Zero: this end uses connection IDs of the peer, but wants none in the peer's records.
    /// `None`: connection IDs are not negotiated (RFC 9146; RFC 9147, section 9).
    pub connection_id: Option<u8>,
    /// Whether return routability checks (RFC 9853) are negotiated: each end checks a new address
    /// of the other before it sends data there.
    pub return_routability: bool,
    /// Whether the address of a peer with a connection ID changes without a check if the peer does
    /// not take part in return routability checks (RFC 9853), as most do not yet.
    ///
    /// If it does, anybody who sees a record can send a copy of it from elsewhere, and so direct
    /// what this end sends to any address until the peer's next record. If it does not, records of
    /// such a peer are accepted from any address, but answered at its first one. RFC 9146, section
    /// 6, wants this off unless the application validates addresses itself.
    pub unchecked_address_change: bool,
    /// The largest datagram to send, in bytes of UDP payload: 80 to 65,535. Below 96 bytes, a
    /// peer's connection ID may have at most `datagram_bytes` − 64 bytes.
    pub datagram_bytes: usize,
    /// The limit of path MTU discovery (RFC 8899), in bytes of UDP payload. If a payload needs a
    /// datagram longer than [`datagram_bytes`](Self::datagram_bytes), the path is probed for
    /// lengths up to this limit, and the payload waits for the outcome. Probing needs a peer that
    /// takes part in return routability checks and, in DTLS 1.2, has a connection ID. The socket
    /// should forbid IP fragmentation. `None`: the path is not probed, and no datagram is longer
    /// than `datagram_bytes`.
    pub path_mtu: Option<usize>,
    /// The length of record numbers in data records.
    pub record_numbers: RecordNumbers,
    /// How the record numbers of records with aggregated tags are encrypted.
    pub number_masks: NumberMasks,
    /// The longest time that a message under shared tags waits for further messages before its set
    /// is closed by a tag of its own; zero: it does not wait. `None`: the time follows from the
    /// traffic that this end observes. It is then at most 200 ms in a one-way stream and at most 20
    /// ms if messages are received as well. Messages that are answered, and messages that too few
    /// others would follow in that time, do not wait.
    pub max_wait: Option<Duration>,
    /// How long a queued payload may wait, for example for the end of the handshake, before it is
    /// dropped and counted. `None`: without limit.
    pub max_age: Option<Duration>,
    /// The first retransmission timeout, at least one millisecond.
    pub initial_timeout: Duration,
    /// The time after which an incomplete handshake fails, at least one millisecond.
    pub handshake_deadline: Duration,
    /// The size of the receive buffer, in bytes with overhead. Payloads that wait for shared tags
    /// may take only a part of it: for each record number that the scheme waits for, four
    /// candidates as long as the longest payload verified so far or one candidate as long as the
    /// longest record, whichever takes more.
    pub receive_buffer_bytes: usize,
    /// The size of the queue of payloads to send, in bytes with overhead.
    pub send_buffer_bytes: usize,
    /// Receives the traffic secrets, for debugging.
    pub key_log: Option<Arc<dyn KeyLog>>,
}

impl Settings {
    /// The defaults with `provider`: both versions, all its suites except those with short tags or
    /// without encryption, all its groups, both PSK modes with preference for the one with key
    /// exchange, no aggregation.
    ///
    /// The provider is not tested: a program calls [`Provider::self_test`] once, when it starts.
    ///
    /// # Errors
    /// Fails never yet.
    pub fn new(provider: &'static Provider) -> Result<Self, ConfigError> {
        // Hosts must choose short tags and plaintext explicitly, because of the risk.
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

    /// The profile of RFC 7925 for small devices with a PSK (section 4.2): DTLS 1.2 with
    /// `TLS_PSK_WITH_AES_128_CCM_8` only, and its longer timeouts.
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

    /// Checks that the settings are valid, each alone and together.
    ///
    /// # Errors
    /// Returns the first invalid setting.
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

    /// The longest datagram that an association may send, in bytes of UDP payload: the least length
    /// of a buffer for [`poll_output`](lightseal_core::Engine::poll_output).
    pub fn longest_datagram(&self) -> usize {
        self.path_mtu.unwrap_or(0).max(self.datagram_bytes)
    }

    /// The longest connection ID of the peer that this end accepts, in bytes. The ID is part of
    /// each record, and in short datagrams must leave room for messages that cannot be split:
    /// closing tags and path messages.
    pub(crate) fn longest_peer_id(&self) -> usize {
        let room = self.datagram_bytes.saturating_sub(tuning::LEAST_BESIDE_ID);
        ConnectionId::MAX_LEN.min(room)
    }

    /// The record size limit that this end states (RFC 8449): the configured one, or, where shared
    /// tags are wanted and received records are held until they are verified, what fits a datagram
    /// as long as this end's own longest.
    pub(crate) fn stated_record_limit(&self) -> Option<u16> {
        let shares = self.aggregation.is_wanted() && self.max_fragment_length.is_none();
        self.record_size_limit.or_else(|| {
            // The shortest header: the flags and one byte of the record number.
            let limit = self.longest_datagram().saturating_sub(2).min(MAX_CONTENT + 1);
            shares.then_some(u16::try_from(limit).unwrap_or(u16::MAX))
        })
    }

    /// Whether session tickets may be used.
    pub(crate) const fn uses_tickets(&self) -> bool {
        self.resumption && self.session_tickets
    }

    /// Whether this version may be negotiated.
    pub(crate) fn speaks(&self, version: ProtocolVersion) -> bool {
        match version {
            ProtocolVersion::Dtls12 => self.suites_12().next().is_some(),
            ProtocolVersion::Dtls13 => self.ordered_suites().next().is_some(),
        }
    }

    /// The suites of DTLS 1.2 in order of preference; none if that version is not enabled.
    pub(crate) fn suites_12(&self) -> impl Iterator<Item = &'static CipherSuite12> + Clone + '_ {
        let spoken = self.versions.contains(&ProtocolVersion::Dtls12);
        let suites = self.suites.iter().filter(move |_| spoken);
        suites.filter_map(|id| self.provider.suite_12(*id))
    }

    /// Whether an ECDHE_PSK suite of DTLS 1.2 may be negotiated.
    pub(crate) fn offers_ecdhe_psk(&self) -> bool {
        self.suites_12().any(|suite| suite.exchange == Exchange12::EcdhePsk)
    }

    /// The suites of DTLS 1.3 in order of preference. If aggregation is wanted, suites that can
    /// aggregate come first.
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

/// Returns a predicate that is called with suites in order of preference and tells which of them
/// move to the front if aggregation is wanted. A suite without encryption does not move before one
/// that encrypts.
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
#[non_exhaustive]
pub struct ClientConfig {
    /// What the client proves its identity with.
    pub credential: Credential,
    /// A DTLS 1.2 session made with this credential, to resume; from
    /// [`Connection::session`](crate::Connection::session).
    pub session: Option<Session>,
    /// The settings that servers have as well.
    pub settings: Settings,
}

impl ClientConfig {
    /// A client with these settings and no session to resume.
    pub fn with(credential: impl Into<Credential>, settings: Settings) -> Self {
        Self { credential: credential.into(), session: None, settings }
    }

    /// The defaults with the portable provider.
    ///
    /// # Errors
    /// As [`Settings::new`].
    #[cfg(feature = "rustcrypto")]
    pub fn new(credential: impl Into<Credential>) -> Result<Self, ConfigError> {
        Ok(Self::with(credential, Settings::new(&crate::crypto::rustcrypto::PROVIDER)?))
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
    /// Only if a HelloRetryRequest is needed for another reason; in DTLS 1.2 never. Anybody can
    /// then make the server keep state, and send to a forged address at most three bytes for each
    /// byte received from there (RFC 9147, section 5.1). For closed networks.
    WhenRetrying,
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
    /// one needs no further slot.
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
/// proceed beside the sessions, at most as many as there are slots.
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
    EvictOldest,
    /// It ends the session of the peer that has been silent for the longest time, if that time is
    /// at least this long; otherwise it refuses the client.
    EvictIdle(Duration),
}

/// A server's configuration.
#[derive(Clone)]
#[non_exhaustive]
pub struct ServerConfig {
    /// The PSKs of the server.
    pub psks: Arc<dyn PskStore>,
    /// When the server asks clients for cookies.
    pub cookies: CookiePolicy,
    /// The number of DTLS 1.2 sessions that the server stores for clients that do not use tickets.
    pub remembered_sessions: usize,
    /// The number of associations at once, and what happens beyond it.
    pub slots: SessionSlots,
    /// Whether a DTLS 1.3 server may send data directly after its own Finished, half a round trip
    /// before the client's Finished arrives (RFC 8446, section 2).
    /// [`Event::MaySend`](crate::Event::MaySend) tells when. Off by default.
    ///
    /// Such data can be read only by a holder of the PSK, and with psk_dhe_ke only by the sender of
    /// this hello. But nothing shows yet that the client is present: its hello may be a recording,
    /// which makes the server send the data again while its cookie is valid, or at any time without
    /// cookies. A client that has not proved its address is sent at most three bytes for each byte
    /// that came from there (RFC 9147, section 5.1), including the server's flight and
    /// retransmissions; the rest waits.
    pub send_half_rtt_data: bool,
    /// Whether the endpoint sends a hint to a peer whose records belong to no known association, so
    /// that the peer notices sooner that the endpoint was restarted. A hint is not authenticated
    /// and proves nothing. On by default.
    pub hints: bool,
    /// The settings that clients have as well.
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

    /// The defaults with the portable provider.
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
