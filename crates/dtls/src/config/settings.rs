//! The settings that clients and servers have in common.

use super::{
    Adapt, AggregationPolicy, ConnectionIds, Delivery, KeyLog, NumberMasks, OnForgery, Packing,
    ProtocolVersion, RecordLengths, RecordNumbers,
};
use crate::codepoints::{
    CertificateCompressionAlgorithm, ExtensionType, LEAST_RECORD_SIZE_LIMIT, MAX_CONTENT,
    PskKeyExchangeMode,
};
use crate::credential::CertificateCompression;
use crate::crypto::{
    CipherSuite, CipherSuite12, CipherSuiteId, Exchange12, Keying, NamedGroup, Provider,
};
use crate::error::ConfigError;
use crate::messages::extensions::MaxFragmentLength;
use crate::parts::{self, Part};
use crate::record::ConnectionId;
use crate::tuning;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use lightseal_core::text;

/// The settings that clients and servers have in common: plain data, which
/// [`ClientConfig`](super::ClientConfig) and [`ServerConfig`](super::ServerConfig) check.
#[derive(Clone)]
#[non_exhaustive]
pub struct Settings {
    /// The implementation of the cryptography.
    pub provider: &'static Provider,
    /// The protocol versions that this end speaks; a version needs at least one suite in `suites`.
    /// DTLS 1.2 is used only if the peer does not speak 1.3.
    pub versions: Vec<ProtocolVersion>,
    /// The cipher suites of all these versions, at most 32, in order of preference. If aggregation
    /// is wanted, suites that can aggregate come before the others, except that a suite without
    /// encryption never moves before a preferred one that encrypts.
    pub suites: Vec<CipherSuiteId>,
    /// The key exchange groups, at most 16, in order of preference.
    pub groups: Vec<NamedGroup>,
    /// The PSK key exchange modes, at most 16, in order of preference. `PSK_KE` gives no forward
    /// secrecy.
    pub psk_modes: Vec<PskKeyExchangeMode>,
    /// The accepted aggregation schemes, at most 16 for each direction.
    pub aggregation: AggregationPolicy,
    /// Whether, and by which rule, this end requests other schemes for the records that it
    /// receives. A build without the feature `adaptation` requests none.
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
    /// Whether sessions may be resumed, in DTLS 1.3 by tickets (feature `resumption`), in 1.2 by
    /// session IDs and tickets.
    pub resumption: bool,
    /// The number of DTLS 1.3 tickets that a server sends after a handshake with certificates or raw
    /// public keys, at most 16. After a resumed handshake it sends one in place of the one that was
    /// used. A client that begins several associations needs as many tickets.
    pub tickets: u8,
    /// The number of DTLS 1.3 tickets that a server sends after a handshake under an external PSK, at
    /// most 16. By default there are none: resumption of such a session saves no computation, and a
    /// ticket takes some 180 bytes. It hides the identity, and allows early data.
    pub psk_tickets: u8,
    /// How long the DTLS 1.3 tickets of a server may be used: one second to seven days (RFC 8446,
    /// section 4.6.1). They end earlier with the endpoint that sealed them.
    pub ticket_lifetime: Duration,
    /// Whether a server accepts each of its DTLS 1.3 tickets any number of times. By default it
    /// accepts each one once: an observer then cannot tell which associations belong to one client
    /// (RFC 8446, appendix C.4), and a recorded hello resumes nothing.
    pub reusable_tickets: bool,
    /// Whether DTLS 1.2 sessions may be resumed with tickets, for which the server stores no
    /// session state.
    pub session_tickets: bool,
    /// Whether a client adds values to its hello that no standard defines, one to each list of suites,
    /// versions, groups, signature schemes and application protocols, and an extension (RFC 8701).
    /// Servers must ignore them, and these keep them from forgetting that. It costs about 30 bytes. It
    /// needs the feature `grease`.
    pub grease: bool,
    /// The protocols of the application, at most 16 of 1 to 255 bytes each, in order of preference
    /// (RFC 7301), such as `co` for CoAP (RFC 9952). A client offers them, and a server takes the
    /// first of its own that the client offers. A server refuses a client that offers none of them,
    /// and takes clients that offer nothing. If the list is empty, and in a build without the feature
    /// `alpn`, nothing is negotiated.
    pub application_protocols: Vec<Vec<u8>>,
    /// The algorithms with which the peer may compress its certificates (RFC 8879), at most 4, in
    /// order of preference: none by default. They are offered in DTLS 1.3 by ends that verify
    /// certificates. Its own certificates an end compresses with
    /// [`CertifiedKey::with_compression`](crate::CertifiedKey). It needs the feature
    /// `certificate-compression`.
    #[cfg(feature = "certificate-compression")]
    pub certificate_compression: Vec<Arc<dyn CertificateCompression>>,
    /// The largest number of bytes of early data (0-RTT, RFC 8446, section 2.3) in DTLS 1.3: a server
    /// accepts this number with each of its tickets, and a client offers early data if this is not 0 and
    /// the server accepts some. By default it is 0, because early data can be replayed and has no
    /// forward secrecy; see [`Connection::send_early`](crate::Connection::send_early). A server that
    /// asks for a cookie accepts none, so that it also needs
    /// [`CookiePolicy::WhenRetrying`](crate::CookiePolicy::WhenRetrying). It needs the feature
    /// `early-data`.
    pub early_data: u32,
    /// How flights are packed into records and datagrams.
    pub packing: Packing,
    /// The maximum fragment length that a DTLS 1.2 client asks for (RFC 6066, section 4). Servers
    /// grant what clients ask for.
    pub max_fragment_length: Option<MaxFragmentLength>,
    /// The record size limit that this end states (RFC 8449), in bytes: 64 to 16,385, in DTLS 1.3
    /// with content type and padding included. Longer records are dropped unread. `None`: no limit
    /// is stated, except that an end which wants shared tags states what fits a datagram of
    /// [`datagram_bytes`](Self::datagram_bytes). A peer with larger datagrams must then keep to
    /// that limit. A build without the feature `record-size-limit` and without shared tags states
    /// none, and is stated none.
    pub record_size_limit: Option<u16>,
    /// The connection IDs that this end negotiates: in a build without the feature
    /// `connection-ids` only [`ConnectionIds::Off`] is valid.
    pub connection_ids: ConnectionIds,
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
    /// should forbid IP fragmentation. `None`, or a build without the feature `path-mtu`: the path is
    /// not probed, and no datagram is longer than `datagram_bytes`.
    pub path_mtu: Option<usize>,
    /// The length of record numbers in data records.
    pub record_numbers: RecordNumbers,
    /// Whether all DTLS 1.3 records have a length field.
    pub record_lengths: RecordLengths,
    /// How the record numbers of records with aggregated tags are encrypted.
    pub number_masks: NumberMasks,
    /// The longest time that a message under shared tags waits for further messages before its set
    /// is closed by a tag of its own; zero: it does not wait. `None`: the time follows from the
    /// traffic that this end observes. It is then at most 200 ms in a one-way stream and at most 20
    /// ms if messages are received as well. Messages that are answered, and messages that too few
    /// others would follow in that time, do not wait. A build without the feature `pacing` does not
    /// observe the traffic: `None` then means 200 ms.
    pub max_wait: Option<Duration>,
    /// How long a queued payload may wait, for example for the end of the handshake, before it is
    /// dropped and counted. `None`: without limit.
    pub max_age: Option<Duration>,
    /// How long nobody has used an association of an [`Endpoint`](crate::Endpoint) when it falls
    /// asleep: until it is used again it takes a fraction of its memory, and then its keys are
    /// derived anew. `None`: never. By default it is one minute. Associations with shared tags never
    /// sleep. It needs the feature `sleep`.
    #[cfg(feature = "sleep")]
    pub sleep_after: Option<Duration>,
    /// Whether associations write ahead, so that they survive the end of their process: complete
    /// associations ask with [`Event::Save`](crate::Event::Save) to be saved before each act that
    /// their successor must know of. Associations with shared tags do not, nor do those of DTLS 1.3
    /// whose PSK the store does not find at once. It needs the feature `persistence`.
    #[cfg(feature = "persistence")]
    pub write_ahead: bool,
    /// The first retransmission timeout, at least one millisecond.
    pub initial_timeout: Duration,
    /// How long the acknowledgement of a message after the handshake may wait, so that one ACK
    /// covers several, for example all tickets of a server (DTLS 1.3). The peer of an association
    /// should wait longer before it sends its message again.
    pub ack_delay: Duration,
    /// The time after which an incomplete handshake fails, at least one millisecond.
    pub handshake_deadline: Duration,
    /// The size of the receive buffer, in bytes with overhead. Payloads that wait for shared tags
    /// may take only a part of it: for each record number that the scheme waits for, four
    /// candidates as long as the longest payload verified so far or one candidate as long as the
    /// longest record, whichever takes more.
    pub receive_buffer_bytes: usize,
    /// The size of the queue of payloads to send, in bytes with overhead. A build without the
    /// feature `send-queue` has no such queue.
    pub send_buffer_bytes: usize,
    /// Receives the traffic secrets, for debugging. It needs the feature `key-log`.
    #[cfg(feature = "key-log")]
    pub key_log: Option<Arc<dyn KeyLog>>,
}

/// The PSK modes that a build has, in order of preference.
const PSK_MODES: &[PskKeyExchangeMode] = match parts::KeyExchange::IS_INCLUDED {
    true => &[PskKeyExchangeMode::PSK_DHE_KE, PskKeyExchangeMode::PSK_KE],
    false => &[PskKeyExchangeMode::PSK_KE],
};

impl Settings {
    /// The smallest valid [`datagram_bytes`](Self::datagram_bytes), in bytes of UDP payload.
    pub const MIN_DATAGRAM_BYTES: usize = tuning::MIN_DATAGRAM_BYTES;
    /// The largest valid [`datagram_bytes`](Self::datagram_bytes), in bytes of UDP payload.
    pub const MAX_DATAGRAM_BYTES: usize = tuning::MAX_DATAGRAM_BYTES;
    /// The smallest valid [`initial_timeout`](Self::initial_timeout) and
    /// [`handshake_deadline`](Self::handshake_deadline).
    pub const LEAST_TIMEOUT: Duration = tuning::LEAST_TIMEOUT;

    /// The defaults with `provider`: both versions, all its suites except those with short tags or
    /// without encryption, all its groups but those with ML-KEM, both PSK modes with preference for the one with key
    /// exchange, no aggregation.
    ///
    /// A client sends a share for its first group only. A ClientHello with an ML-KEM share takes
    /// several datagrams, and a PSK alone already withstands quantum computers, so programs choose
    /// such groups explicitly. Browsers send X25519MLKEM768 first, and X25519 beside it.
    ///
    /// The provider is not tested: a program calls [`Provider::self_test`] once, when it starts.
    pub fn new(provider: &'static Provider) -> Self {
        // Hosts must choose short tags and plaintext explicitly, because of the risk.
        let suites_13 = provider.suites.iter().filter(|s| s.encrypts && s.tag_len >= 16);
        let mut suites: Vec<_> = suites_13.map(|suite| suite.id).collect();
        if parts::Dtls12::IS_INCLUDED {
            let suites_12 = provider.suites_12.iter().filter(|suite| suite.tag_len >= 16);
            suites.extend(suites_12.map(|suite| suite.id));
        }
        let mut groups = Vec::new();
        if parts::KeyExchange::IS_INCLUDED {
            let known = provider.groups.iter().filter(|group| !group.is_kem());
            groups.extend(known.map(|group| group.id()));
        }
        Self {
            provider,
            versions: alloc::vec![ProtocolVersion::Dtls13, ProtocolVersion::Dtls12],
            suites,
            groups,
            psk_modes: PSK_MODES.to_vec(),
            aggregation: AggregationPolicy::default(),
            adapt: None,
            delivery: Delivery::default(),
            on_forgery: OnForgery::default(),
            aggregation_extension: ExtensionType::MAC_AGGREGATION,
            require_extended_master_secret: true,
            resumption: true,
            tickets: tuning::TICKETS,
            psk_tickets: 0,
            ticket_lifetime: tuning::SESSION_LIFETIME,
            reusable_tickets: false,
            session_tickets: true,
            grease: false,
            application_protocols: Vec::new(),
            #[cfg(feature = "certificate-compression")]
            certificate_compression: Vec::new(),
            early_data: 0,
            packing: Packing::default(),
            max_fragment_length: None,
            record_size_limit: None,
            connection_ids: ConnectionIds::Off,
            return_routability: true,
            unchecked_address_change: false,
            datagram_bytes: tuning::DATAGRAM_BYTES,
            path_mtu: None,
            record_numbers: RecordNumbers::default(),
            record_lengths: RecordLengths::default(),
            number_masks: NumberMasks::default(),
            max_wait: None,
            max_age: None,
            #[cfg(feature = "sleep")]
            sleep_after: Some(tuning::SLEEP_AFTER),
            #[cfg(feature = "persistence")]
            write_ahead: false,
            initial_timeout: tuning::INITIAL_TIMEOUT,
            ack_delay: Duration::ZERO,
            handshake_deadline: tuning::HANDSHAKE_DEADLINE,
            receive_buffer_bytes: tuning::RECEIVE_BUFFER_BYTES,
            send_buffer_bytes: tuning::SEND_BUFFER_BYTES,
            #[cfg(feature = "key-log")]
            key_log: None,
        }
    }

    /// The profile of RFC 7925 for small devices with a PSK (section 4.2): DTLS 1.2 with
    /// `TLS_PSK_WITH_AES_128_CCM_8` only, and its longer timeouts.
    pub fn rfc7925(provider: &'static Provider) -> Self {
        Self {
            versions: alloc::vec![ProtocolVersion::Dtls12],
            suites: alloc::vec![CipherSuiteId::PSK_WITH_AES_128_CCM_8],
            initial_timeout: tuning::INITIAL_TIMEOUT_7925,
            handshake_deadline: tuning::HANDSHAKE_DEADLINE_7925,
            ..Self::new(provider)
        }
    }

    /// Checks that the settings are valid, each alone and together, as the making of a
    /// configuration does.
    ///
    /// On a device settings are often constant: a build without the feature `settings-checks`, and
    /// without debug assertions, makes configurations of whatever settings it gets. Its program is
    /// tried with debug assertions, or calls this function.
    ///
    /// # Errors
    /// Returns the first invalid setting.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.check_lengths()?;
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
        let known = PSK_MODES;
        if self.psk_modes.is_empty() || self.psk_modes.iter().any(|mode| !known.contains(mode)) {
            return Err(ConfigError::PskModes);
        }
        let needs_group = speaks_13 && self.psk_modes.contains(&PskKeyExchangeMode::PSK_DHE_KE)
            || self.offers_ecdhe_psk();
        if needs_group
            && (self.groups.is_empty()
                || self.groups.iter().any(|id| self.provider.group(*id).is_none()))
        {
            return Err(ConfigError::Groups);
        }
        if self
            .record_size_limit
            .is_some_and(|limit| !(LEAST_RECORD_SIZE_LIMIT..=1 + (1 << 14)).contains(&limit))
        {
            return Err(ConfigError::RecordSizeLimit);
        }
        let right = match self.connection_ids {
            ConnectionIds::Off => true,
            ConnectionIds::SendOnly => ConnectionId::MAX_LEN > 0,
            ConnectionIds::Bytes(len) => (1..=ConnectionId::MAX_LEN).contains(&usize::from(len)),
        };
        if !right {
            return Err(ConfigError::ConnectionIdLength);
        }
        if self.application_protocols.iter().any(|name| !(1..=255).contains(&name.len())) {
            return Err(ConfigError::ApplicationProtocol);
        }
        if self.aggregation.is_wanted() && !self.ordered_suites().any(can_aggregate) {
            return Err(ConfigError::AggregationSuite);
        }
        if !parts::OtherMasks::IS_INCLUDED
            && self.aggregation.is_wanted()
            && self.number_masks != NumberMasks::Standard
        {
            return Err(ConfigError::NumberMasks);
        }
        let least = tuning::MIN_DATAGRAM_BYTES;
        if !(least..=tuning::MAX_DATAGRAM_BYTES).contains(&self.datagram_bytes) {
            return Err(ConfigError::DatagramSize { bytes: self.datagram_bytes, least });
        }
        if let Some(bytes) = self.path_mtu.filter(|bytes| *bytes > tuning::MAX_DATAGRAM_BYTES) {
            return Err(ConfigError::DatagramSize { bytes, least });
        }
        if self.tickets.max(self.psk_tickets) > tuning::MOST_TICKETS
            || !tuning::TICKET_LIFETIMES.contains(&self.ticket_lifetime)
        {
            return Err(ConfigError::Tickets);
        }
        if self.early_data > 0 && self.reusable_tickets {
            return Err(ConfigError::EarlyData);
        }
        if self.initial_timeout.min(self.handshake_deadline) < tuning::LEAST_TIMEOUT {
            return Err(ConfigError::Timeout);
        }
        Ok(())
    }

    /// Checks the settings of a configuration that is made. A build without the feature
    /// `settings-checks` does so only with debug assertions.
    pub(crate) fn check_when_made(&self) -> Result<(), ConfigError> {
        match cfg!(any(feature = "settings-checks", debug_assertions)) {
            true => self.check(),
            false => Ok(()),
        }
    }

    /// Checks that the lists are short enough for a ClientHello with all of them.
    fn check_lengths(&self) -> Result<(), ConfigError> {
        let AggregationPolicy { send, receive } = &self.aggregation;
        let check = |list, entries, most| match entries > most {
            true => Err(ConfigError::ListTooLong { list: text(list), entries, most }),
            false => Ok(()),
        };
        check("suites", self.suites.len(), tuning::MOST_SUITES)?;
        check("groups", self.groups.len(), tuning::MOST_GROUPS)?;
        check("psk_modes", self.psk_modes.len(), tuning::MOST_PSK_MODES)?;
        let protocols = self.application_protocols.len();
        check("application_protocols", protocols, tuning::MOST_APPLICATION_PROTOCOLS)?;
        let compressions = self.accepted_compressions().len();
        check("certificate_compression", compressions, tuning::MOST_CERTIFICATE_COMPRESSIONS)?;
        check("aggregation.send", send.len(), tuning::MOST_SCHEMES)?;
        check("aggregation.receive", receive.len(), tuning::MOST_SCHEMES)
    }

    /// The longest datagram that an association may send, in bytes of UDP payload: the least length
    /// of a buffer for [`poll_output`](lightseal_core::Engine::poll_output).
    pub fn longest_datagram(&self) -> usize {
        let probed = self.path_mtu.filter(|_| parts::PathMtu::IS_INCLUDED);
        probed.unwrap_or(0).max(self.datagram_bytes)
    }

    /// The longest payload, in bytes, of which it is certain beforehand that an association with
    /// these settings takes it from its first one on. Most take longer ones after the handshake, but
    /// before it nobody knows what the peer asks for.
    pub fn longest_first_payload(&self) -> usize {
        let probes = self.connection_ids.are_negotiated() && self.return_routability;
        let datagram = if probes { self.longest_datagram() } else { self.datagram_bytes };
        datagram.saturating_sub(self.largest_overhead()).min(MAX_CONTENT)
    }

    /// The largest overhead of a datagram beside its payload, in bytes, whatever is negotiated.
    pub(crate) fn largest_overhead(&self) -> usize {
        /// Flags, a 16-bit record number, and the content type.
        const MOST: usize = 1 + 2 + 1;
        /// The DTLS 1.2 header, explicit nonce, inner content type and full tag.
        const MOST_12: usize = 13 + 8 + 1 + 16;
        let cid = if self.connection_ids.are_negotiated() { self.longest_peer_id() } else { 0 };
        match self.speaks(ProtocolVersion::Dtls12) {
            true => MOST_12 + cid,
            false => {
                MOST + self.length_bytes()
                    + cid
                    + self.ordered_suites().map(|s| s.tag_len).max().unwrap_or(0)
            }
        }
    }

    /// The bytes of the length field in the last record of a datagram (DTLS 1.3).
    pub(crate) fn length_bytes(&self) -> usize {
        if self.record_lengths == RecordLengths::Always { 2 } else { 0 }
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
        parts::RecordSizeLimit::INCLUDED?;
        let shares = self.aggregation.is_wanted() && self.max_fragment_length.is_none();
        self.record_size_limit.or_else(|| {
            // The shortest header: the flags and one byte of the record number.
            let limit = self.longest_datagram().saturating_sub(2).min(MAX_CONTENT + 1);
            shares.then_some(u16::try_from(limit).unwrap_or(u16::MAX))
        })
    }

    /// The application protocols, where this build negotiates them.
    pub(crate) fn protocols(&self) -> &[Vec<u8>] {
        match parts::Alpn::INCLUDED {
            Some(_) => &self.application_protocols,
            None => &[],
        }
    }

    /// The compressions of certificates that this end accepts.
    pub(crate) const fn accepted_compressions(&self) -> &[Arc<dyn CertificateCompression>] {
        #[cfg(feature = "certificate-compression")]
        return self.certificate_compression.as_slice();
        #[cfg(not(feature = "certificate-compression"))]
        return &[];
    }

    /// The algorithms of compressed certificates that this end accepts.
    pub(crate) fn certificate_compressions(&self) -> Vec<CertificateCompressionAlgorithm> {
        self.accepted_compressions().iter().map(|accepted| accepted.algorithm()).collect()
    }

    /// How long nobody has used an association when it falls asleep.
    pub(crate) const fn sleep_after(&self) -> Option<Duration> {
        #[cfg(feature = "sleep")]
        return self.sleep_after;
        #[cfg(not(feature = "sleep"))]
        return None;
    }

    /// The part that keeps the secrets of replaced epochs, if associations may sleep or write ahead.
    pub(crate) const fn keeps_replaced_secrets(&self) -> Option<parts::ReplacedSecrets> {
        if self.write_ahead().is_some() || self.sleep_after().is_some() {
            return parts::ReplacedSecrets::INCLUDED;
        }
        None
    }

    /// The part that saves associations, if they write ahead.
    pub(crate) const fn write_ahead(&self) -> Option<parts::Persistence> {
        #[cfg(feature = "persistence")]
        if self.write_ahead {
            return parts::Persistence::INCLUDED;
        }
        None
    }

    /// Whether session tickets of DTLS 1.2 may be used.
    pub(crate) const fn uses_tickets(&self) -> bool {
        parts::Resumption12::IS_INCLUDED && self.resumption && self.session_tickets
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
        (0..).map_while(|at| self.suite_12(at))
    }

    /// The suite at a place in [`suites_12`](Self::suites_12). Callers have only the call of this
    /// function, not an iterator of their own type each, which takes flash.
    fn suite_12(&self, at: usize) -> Option<&'static CipherSuite12> {
        parts::Dtls12::INCLUDED?;
        let spoken = self.versions.contains(&ProtocolVersion::Dtls12);
        let suites = self.suites.iter().filter(|_| spoken);
        let known = suites.filter_map(|id| self.provider.suite_12(*id));
        // Without the part no suite with a key exchange can be used.
        known
            .filter(|suite| parts::KeyExchange::IS_INCLUDED || !suite.exchange.is_ephemeral())
            .nth(at)
    }

    /// The suites of DTLS 1.2 of an end with these credentials, in order of preference.
    pub(crate) fn suites_12_with(
        &self,
        psks: bool,
        certificates: bool,
    ) -> impl Iterator<Item = &'static CipherSuite12> + Clone + use<'_> {
        self.suites_12().filter(move |suite| match suite.exchange.is_signed() {
            true => certificates,
            false => psks,
        })
    }

    /// What receives the traffic secrets.
    pub(crate) fn key_log(&self) -> Option<&dyn KeyLog> {
        #[cfg(feature = "key-log")]
        return self.key_log.as_deref();
        #[cfg(not(feature = "key-log"))]
        return None;
    }

    /// Whether an ECDHE_PSK suite of DTLS 1.2 may be negotiated.
    pub(crate) fn offers_ecdhe_psk(&self) -> bool {
        self.suites_12().any(|suite| suite.exchange == Exchange12::EcdhePsk)
    }

    /// The suites of DTLS 1.3 in order of preference. If aggregation is wanted, suites that can
    /// aggregate come first.
    pub(crate) fn ordered_suites(&self) -> impl Iterator<Item = &'static CipherSuite> + Clone + '_ {
        (0..).map_while(|at| self.ordered_suite(at))
    }

    /// The suite at a place in [`ordered_suites`](Self::ordered_suites), as [`suite_12`](Self::suite_12).
    fn ordered_suite(&self, at: usize) -> Option<&'static CipherSuite> {
        let spoken = self.versions.contains(&ProtocolVersion::Dtls13);
        let suites = || {
            let suites = self.suites.iter().filter(|_| spoken);
            suites.filter_map(|id| self.provider.suite(*id))
        };
        if !self.aggregation.is_wanted() {
            return suites().nth(at);
        }
        let (mut first, mut rest) = (preferable(), preferable());
        let first = suites().filter(|suite| first(suite));
        first.chain(suites().filter(|suite| !rest(suite))).nth(at)
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
