//! Numbers that no standard prescribes, each with the reason for its value.

use crate::codepoints::HandshakeType;
use core::time::Duration;
use lightseal_aggregation::tuning as aggregation;

/// The first retransmission timeout. RFC 9147, section 5.8.2, suggests one second.
pub const INITIAL_TIMEOUT: Duration = Duration::from_secs(1);
/// The first retransmission timeout for small devices on slow links (RFC 7925, section 11).
pub const INITIAL_TIMEOUT_7925: Duration = Duration::from_secs(9);
/// The longest retransmission timeout, to which timeouts double. The RFC's 60 s leaves six attempts
/// a minute, too few at 20 % loss; 8 s leaves ten, and a tenth of a datagram a second is no load.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(8);
/// On links where the first timeout is longer than one second, timeouts double up to this multiple
/// of it instead of [`MAX_TIMEOUT`], but not above [`MAX_IDLE_TIMEOUT`]: such a link is slow. RFC
/// 7925, section 11, wants 60 s for its first timeout of 9 s.
pub const MAX_TIMEOUT_FACTOR: u32 = 8;
/// The longest retransmission timeout after the handshake, the RFC's own bound: nobody waits for a
/// KeyUpdate, and the peer may be gone for good.
pub const MAX_IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// The fraction of the retransmission timeout (1/3) after which an end acknowledges the part of a
/// flight that it has received, if the rest is missing. RFC 9147, section 7.1, calls a quarter
/// reasonable. On links where a single frame takes long, the timeout is at least three frame times,
/// two for a hello and one for the first frame of the answer, so a third of it lets the next frame
/// arrive.
pub const ACK_PATIENCE: u32 = 3;
/// The shortest retransmission timeout that follows from a measured round trip: peers need time to
/// compute.
pub const MIN_TIMEOUT: Duration = Duration::from_millis(50);
/// The number of plaintext alerts that end a handshake, each of them in answer to a retransmitted
/// flight. A single one may be forged, or answer a flight that was damaged in transit.
pub const MAX_REFUSALS: u8 = 3;
/// The time after which an incomplete handshake fails.
pub const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(60);
/// The handshake deadline for small devices on slow links; it leaves seven attempts. On duty-cycled
/// links a handshake may take 200 s (Vučinić et al., "DTLS Performance in Duty-Cycled Networks",
/// table II).
pub const HANDSHAKE_DEADLINE_7925: Duration = Duration::from_secs(300);
/// How many handshake deadlines pass before a client whose Finished was never acknowledged
/// concludes from received data that the server has it. The data must have come between the last
/// two of them. A server may send data before it has the client's Finished (RFC 8446, section 2),
/// but one with the same deadline has given up by then: its handshake began no later than the
/// client sent the Finished.
pub const DEADLINES_WITHOUT_ACK: u8 = 3;
/// The shortest interval between two retransmissions of a flight that are caused by duplicates of
/// the peer's flight.
pub const REPEAT_INTERVAL: Duration = Duration::from_millis(100);
/// The longest time that a message of a one-way stream waits for its set of shared tags: well below
/// CoAP's timeout of two seconds.
pub const STREAM_WAIT: Duration = Duration::from_millis(200);
/// The longest time that a message waits for its set of shared tags if the peer sends messages as
/// well: short enough that nobody notices an occasional wait.
pub const DIALOGUE_WAIT: Duration = Duration::from_millis(20);
/// The largest number of configured cipher suites. This and the next three numbers are several
/// times what providers have, and let a ClientHello with the longest lists fit the room for it.
pub const MOST_SUITES: usize = 32;
/// The largest number of configured key exchange groups.
pub const MOST_GROUPS: usize = 16;
/// The largest number of configured PSK key exchange modes.
pub const MOST_PSK_MODES: usize = 16;
/// The largest number of configured application protocols.
pub const MOST_APPLICATION_PROTOCOLS: usize = 16;
/// The largest number of configured algorithms that compress certificates.
pub const MOST_CERTIFICATE_COMPRESSIONS: usize = 4;
/// The largest number of configured aggregation schemes for one direction.
pub const MOST_SCHEMES: usize = 32;
/// The longest ticket that a client keeps, in bytes: with it a ClientHello remains far
/// below the 65,535 bytes that its extensions may have.
pub const LONGEST_TICKET: usize = 1 << 14;
/// The shortest timeout that may be configured. With zero a flight would be sent without end.
pub const LEAST_TIMEOUT: Duration = Duration::from_millis(1);
/// The default for the largest datagram sent, in bytes of UDP payload: with headers it fits IPv6's
/// smallest MTU.
pub const DATAGRAM_BYTES: usize = 1200;
/// The smallest datagram limit that may be configured, in bytes of UDP payload; flights are
/// fragmented to it.
pub const MIN_DATAGRAM_BYTES: usize = 80;
/// The bytes of a datagram that must remain beside the peer's connection ID: a closing tag takes 57
/// bytes, a path message in DTLS 1.2 47.
pub const LEAST_BESIDE_ID: usize = 64;
/// The default size of the receive buffer, in bytes: as many candidates as an
/// [`Opener`](lightseal_aggregation::Opener) holds, each as long as a datagram.
pub const RECEIVE_BUFFER_BYTES: usize = 256 * 1024;
/// Whether the build has the feature `aggregation`, which is for hosts.
pub(crate) const IS_FOR_HOSTS: bool = cfg!(feature = "aggregation");
/// Whether empty lists of received payloads give their memory back: on small devices where payloads wait
/// for shared tags. Elsewhere one payload waits at a time, or a few.
pub(crate) const GIVES_LISTS_BACK: bool =
    !IS_FOR_HOSTS && cfg!(any(feature = "agg-receiver", feature = "r2d2-receiver"));
/// The candidates that an [`Opener`](lightseal_aggregation::Opener) holds. On small devices Agg has room
/// for two sets of 16, so that one follows another that is not complete, and R2D2 for the 38 records
/// that a tag covers and 26 that are late or rivals.
pub(crate) const OPENER_CANDIDATES: usize = if IS_FOR_HOSTS {
    aggregation::CANDIDATES
} else if cfg!(feature = "r2d2-receiver") {
    64
} else {
    32
};
/// The record numbers of which an opener under Agg keeps track: on small devices as few as possible.
pub(crate) const OPENER_WINDOW: usize =
    if IS_FOR_HOSTS { aggregation::WINDOW } else { aggregation::LEAST_WINDOW };
/// The record numbers of which an opener under R2D2 keeps track: on small devices as few as possible.
pub(crate) const OPENER_BOARD: usize =
    if IS_FOR_HOSTS { aggregation::BOARD } else { aggregation::LEAST_BOARD };
/// The default size of the queue of payloads to send, in bytes; payloads are queued during the
/// handshake in particular.
pub const SEND_BUFFER_BYTES: usize = 64 * 1024;
/// The largest datagram limit that may be configured, in bytes of UDP payload: what UDP's length
/// field allows.
pub const MAX_DATAGRAM_BYTES: usize = 65_535;
/// The longest handshake message accepted, in bytes; a ClientHello with a post-quantum share fits.
pub const MAX_HANDSHAKE_MESSAGE: usize = 8 * 1024;
/// The longest Certificate message accepted, in bytes: four certificates with RSA keys of 4096 bits,
/// or two with ML-DSA signatures, fit.
pub const MAX_CERTIFICATE_MESSAGE: usize = 16 * 1024;
/// The longest message of this type accepted, in bytes.
pub(crate) const fn longest_message(kind: HandshakeType) -> usize {
    match kind {
        HandshakeType::CERTIFICATE | HandshakeType::COMPRESSED_CERTIFICATE => {
            MAX_CERTIFICATE_MESSAGE
        }
        _ => MAX_HANDSHAKE_MESSAGE,
    }
}
/// The largest number of certificates in a chain: several times what authorities issue.
pub const MAX_CERTIFICATES: usize = 10;
/// The number of handshake messages that are held ahead of the next expected one.
pub const MAX_MESSAGES_AHEAD: u16 = 4;
/// The number of record numbers kept for ACKs: four times what the longest flight needs.
pub const MAX_ACK_RECORDS: usize = 32;
/// The number of early records kept until their keys exist: a flight and the first data after it,
/// reordered.
pub const MAX_EARLY_RECORDS: usize = 8;
/// The bytes of early records kept until their keys exist.
pub const MAX_EARLY_BYTES: usize = 4 * 1024;
/// How long the receive keys of the previous epoch are kept after the first use of the next epoch's
/// keys (RFC 9147, section 8, asks for about one maximum segment lifetime at least).
pub const OLD_EPOCH_LIFETIME: Duration = Duration::from_secs(120);
/// How long nobody has used an association when it falls asleep.
pub const SLEEP_AFTER: Duration = Duration::from_secs(60);
/// How long the receive keys of the handshake are kept after it, so that a retransmitted last
/// flight is still read and acknowledged: twice the default maximum segment lifetime (RFC 9147,
/// section 5.8.1).
pub const HANDSHAKE_KEYS_LIFETIME: Duration = Duration::from_secs(240);
/// The largest handshake message number. Message numbers do not wrap (draft-ietf-tls-rfc9147bis,
/// section 5.2): an association that needs another message ends.
pub const LAST_MESSAGE: u32 = u16::MAX as u32;
/// The message number from which an association sends only the messages that it cannot do without:
/// it requests no other aggregation scheme or connection IDs, and ignores the application's
/// requests for a KeyUpdate. The 535 numbers left are for KeyUpdates of keys that have reached
/// their limits.
pub const LAST_VOLUNTARY_MESSAGE: u32 = 65_000;
/// Among records with one-byte record numbers, one in this many has a two-byte number, so that a
/// receiver that lost track of the numbers in a burst of losses recovers: 1/32 byte per record.
pub const LONG_NUMBER_INTERVAL: u64 = 32;
/// The loss rate, in 1/65535, below which a receiver allows its peer 8-bit record numbers in
/// aggregated records: 3 %. At 13 %, eight consecutive sets of sixteen records would fail too
/// often.
pub const SHORT_NUMBER_LOSS: u16 = 1966;
/// The number of consecutive unauthenticated records after which a receiver reports that all are
/// lost: half of what makes the reconstruction of 8-bit record numbers fail, and twice what any
/// scheme takes to verify its first record without losses.
pub const UNSETTLED_RECORDS: u32 = 64;
/// The number of records between two measurements of their loss. A measurement is reported if it
/// allows 8-bit record numbers and the last report did not, or the other way round.
pub const REPORT_INTERVAL: u64 = 256;
/// The number of records between two loss reports that allow the same. Reports expire at
/// [`REPORT_LIFETIME`], so that one report may be lost.
pub const REPORT_RENEWAL: u64 = 768;
/// The number of records of an epoch before its first loss report.
pub const FIRST_REPORT: u64 = 64;
/// The number of records after a loss report for which the sender may rely on it.
pub const REPORT_LIFETIME: u64 = 1024;
/// The number of records that the peer must have sent in an epoch before it is asked for another
/// aggregation scheme. Each request begins another epoch, of which record headers show only two
/// bits. A choice of schemes looks back on as many records (MAC aggregation paper, section III-D).
pub const RECORDS_BETWEEN_UPDATES: u64 = 200;
/// How long a cookie secret is used for new cookies. Its cookies are accepted for as long again.
pub const COOKIE_ROTATION: Duration = Duration::from_secs(60);
/// Whether endpoints have many associations: the build has the feature `many-associations`.
const HAS_MANY_ASSOCIATIONS: bool = cfg!(feature = "many-associations");
/// The number of complete associations whose ClientHellos an endpoint remembers, in 8 bytes each: more
/// clients than begin anew within a cookie's lifetime.
pub const MAX_PAST_HELLOS: usize = if HAS_MANY_ASSOCIATIONS { 256 } else { 16 };
/// The number of queued answers that belong to no association. The oldest ones are dropped beyond
/// it. Each takes as many bytes as a datagram has, and a host sends them before it passes on another
/// datagram.
pub(crate) const MAX_STATELESS_ANSWERS: usize = if HAS_MANY_ASSOCIATIONS { 64 } else { 4 };
/// The number of ClientHellos that an endpoint holds while their PSKs are looked up: at most 512 KiB
/// of hellos as long as they can be, and usually 20 KiB.
pub const MAX_WAITING_HELLOS: usize = 64;
/// The number of clients about which an application has not been asked yet: as many hellos as wait
/// for lookups.
pub const MAX_INCOMING: usize = 64;
/// The number of fragmented ClientHellos that an endpoint holds at once: at most one MiB. The first
/// fragment of a hello survives 62 fragments from forged addresses in 61 of 100 cases. An endpoint with few
/// associations has 32 KiB at most.
pub const MAX_PARTIAL_HELLOS: usize = if HAS_MANY_ASSOCIATIONS { 128 } else { 4 };
/// The number of fragmented ClientHellos from one IPv4 address or one IPv6 /64 network, which has
/// one owner. The clients of an endpoint with few associations are often in one network, so that it gets more
/// of the places.
pub const MAX_PARTIAL_HELLOS_OF_NETWORK: usize =
    if HAS_MANY_ASSOCIATIONS { MAX_PARTIAL_HELLOS / 4 } else { MAX_PARTIAL_HELLOS / 2 };
/// The number of an endpoint's associations whose clients have not proved a key yet. In DTLS 1.2
/// this is every client until its Finished. If one begins every 60 ms, each can use its deadline of
/// one minute; filled with fragments, all of them hold 45 MiB. An endpoint with few associations has room
/// for as few of them.
pub const MAX_UNPROVED: usize = if HAS_MANY_ASSOCIATIONS { 1024 } else { 8 };
/// The time, in multiples of the first retransmission timeout, for which a handshake whose client
/// has not proved a key keeps its session slot from other such handshakes. By then its flight was
/// sent three times: at 20 % loss each way, one in twenty is not answered.
pub const UNPROVED_TIMEOUTS: u32 = 4;
/// The number of path challenges sent to one new address. At 20 % loss each way one in twenty
/// checks fails, and the peer's next record begins another check.
pub const MAX_PATH_CHALLENGES: u8 = 3;
/// The interval between path challenges, and the time allowed for the answer to the last one: what
/// RFC 9853, section 5.5, recommends for an unmeasured path. A measured path gives three round
/// trips, if that is longer.
pub const PATH_CHALLENGE_INTERVAL: Duration = Duration::from_secs(1);
/// The number of path challenges by which a client is asked whether it still has an association beside
/// a newer one at the same address. The interval between them doubles each time, so that the client has a
/// quarter of a minute: nothing is urgent, and an outage of some seconds ends no association.
pub const MAX_QUESTIONS: u8 = 4;
/// The number of bytes that may be sent to an unvalidated address for each byte received from there
/// (RFC 9000, section 8.1, which RFC 9853, section 2, follows).
pub const AMPLIFICATION: usize = 3;
/// The number of unanswered probes of one length after which the path is considered too narrow for
/// it (RFC 8899, section 5.1.2: `MAX_PROBES`). At 20 % loss each way one in twenty lengths fails by
/// chance.
pub const MAX_MTU_PROBES: u8 = 3;
/// The shortest time that an MTU probe waits for its answer. Handshakes measure the round trip, so
/// that RFC 8899's minimum of one second, which is for unmeasured paths, is not needed (its section
/// 5.1.1).
pub const MTU_PROBE_PATIENCE: Duration = Duration::from_millis(100);
/// The precision of the path MTU in bytes, at which the search for it ends: with the usual limits
/// after five bisections.
pub const MTU_STEP: usize = 8;
/// How long a datagram length that failed is not probed again (RFC 8899's `PMTU_RAISE_TIMER`).
pub const MTU_RAISE_INTERVAL: Duration = Duration::from_secs(600);
/// The interval at which the path is probed again while long datagrams are sent, to see whether it
/// still carries them. With [`MAX_MTU_PROBES`], a path that became narrower loses them for some 5
/// s.
pub const MTU_CONFIRM_INTERVAL: Duration = Duration::from_secs(4);
/// The number of the peer's path challenges that may wait for their answers. The peer sends one at
/// a time.
pub const MAX_PATH_RESPONSES: usize = 8;
/// The number of spare connection IDs that a peer is given, and that are kept of those it gives:
/// enough for a few address changes until the next request.
pub const MAX_SPARE_IDS: usize = 4;
/// The number of connection IDs that one association accepts in received records at once: the one
/// in use, the spare ones, and new ones in their place.
pub const MAX_OWN_IDS: usize = 2 * MAX_SPARE_IDS;
/// The number of requests for connection IDs that yield none before the association ends. Up to
/// there, a peer that repeats a request which cannot be granted is tolerated as noise.
pub const MAX_VAIN_ID_REQUESTS: u32 = 16;
/// The number of random connection IDs drawn to find one that no association has. With half of all
/// IDs taken, one association in 65,536 goes without.
pub const MAX_ID_DRAWS: u32 = 16;
/// The time for which a DTLS 1.2 session can be resumed (RFC 5077, section 5.6, leaves it open; RFC
/// 5246, appendix F.1.4, suggests at most a day).
pub const SESSION_LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// The default number of DTLS 1.3 tickets after a handshake: one to come back with, and one for a
/// second association or a lost attempt.
pub const TICKETS: u8 = 2;
/// The largest number of DTLS 1.3 tickets that may be configured: they fit a few datagrams.
pub const MOST_TICKETS: u8 = 16;
/// The lifetimes of DTLS 1.3 tickets that may be configured. RFC 8446, section 4.6.1, allows at most
/// seven days.
pub const TICKET_LIFETIMES: core::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(7 * 24 * 3600);
/// The number of DTLS 1.3 tickets that a client keeps of one association, the newest ones: twice the
/// default number that a server sends.
pub const MAX_KEPT_TICKETS: usize = 4;
/// The number of PSKs in a ClientHello that a server tries to open as tickets. A client offers one
/// or two, and each costs an attacker's hello one decryption.
pub const MAX_OFFERED_TICKETS: usize = 4;
/// How far the age that a client states for its ticket may be from the age that the server measures
/// for early data to be accepted: it bounds for how long a ClientHello that was held back counts as
/// fresh (RFC 8446, section 8.3, finds ten seconds suitable for the Internet).
pub const EARLY_DATA_WINDOW: Duration = Duration::from_secs(10);
/// The number of payloads of early data in one association: with the number of their bytes this
/// bounds the memory that they take before the application has them.
pub const MAX_EARLY_PAYLOADS: usize = 64;
/// The number of sessions that [`MemorySessions`](crate::MemorySessions) keeps of one server: as many
/// as one association keeps.
pub const MAX_CACHED_SESSIONS: usize = MAX_KEPT_TICKETS;
/// The number of used tickets that an endpoint remembers of each of its two ticket keys, beyond those
/// that were used in order: some 300 KB together. If more are used, the oldest tickets that were not
/// used yet count as used, and their clients fall back to full handshakes.
pub const MAX_USED_TICKETS: usize = 8192;
/// The default number of sessions that an endpoint stores by session ID, about 200 bytes each.
pub const REMEMBERED_SESSIONS: usize = 256;
/// The number of records under a client's new keys that fail before a DTLS 1.2 server concludes
/// that the client has another PSK. Fewer could be noise, more would keep the client waiting.
pub const MAX_WRONG_KEYS: u64 = 3;
/// The number of unanswered probes after which a peer is considered dead. At 5 % loss each way one
/// probe in ten is not answered: seven failures in a row, including the message before the probes,
/// happen once in 12 million.
pub const PROBES: u32 = 6;
/// The shortest time after which the answer to a message counts as missing, however short the path:
/// hosts are busy now and then.
pub const LEAST_PATIENCE: Duration = Duration::from_millis(300);
/// The shortest interval between the first two probes of a round; each further interval is three
/// tenths longer than the one before. All of them take 2.6 s: with the time until an answer counts
/// as missing, and the new handshake, that is well below 5 s.
pub const LEAST_PROBE_GAP: Duration = Duration::from_millis(200);
/// The time since the first unanswered probe, divided by the interval until the next probe to a peer
/// that is considered dead: its return is noticed before its absence has become an eighth longer. The
/// interval reaches half a minute after some 40 probes.
pub const ABSENCE_PER_GAP: u32 = 8;
/// The shortest interval between two rounds of probes that hints cause.
pub const LEAST_HINT_PAUSE: Duration = Duration::from_secs(1);
/// The longest interval between two rounds of probes that hints cause, reached when hints have
/// proved wrong repeatedly. A one-way flow is probed as often.
pub const MOST_HINT_PAUSE: Duration = Duration::from_secs(30);
/// The number of hints that an endpoint sends per second: some 4 kB per second, for at least as
/// much that was received.
pub const MAX_HINTS: u32 = 100;
/// The number of hints that an endpoint sends per second to one IPv4 address or IPv6 /64 network.
pub const MAX_HINTS_OF_NETWORK: u32 = 10;
/// The numbers beyond the nearest one that are tried for a record of a peer that may have counted on
/// while nobody listened: with 16 bits of the number in the record, 2^22 records.
pub const SEARCHED_NUMBERS: u64 = 64;
/// The number of records per second and epoch for which such numbers are tried: each try costs as
/// much as opening a record.
pub const SEARCHES: u32 = 100;
/// The smallest and the largest number of record numbers that an association reserves at once in what
/// it saves: about as many as it uses in a second.
pub const LEAST_RESERVE: u64 = 64;
/// See [`LEAST_RESERVE`].
pub const MOST_RESERVE: u64 = 8192;
/// The smallest number of payloads of DTLS 1.2 for whose delivery an association reserves numbers at
/// once. A successor delivers none of them, and cannot change the keys as in DTLS 1.3: a client that
/// sends one message a second is heard again after this number of messages.
pub const LEAST_DELIVERIES_12: u64 = 2;
/// How long a reservation for deliveries of DTLS 1.2 lasts at least, and at most four times as long,
/// where the numbers allow it.
pub const DELIVERIES_12: Duration = Duration::from_millis(250);
/// The record numbers that one datagram may use: an end of an epoch, an ACK, a few handshake messages
/// that follow a handshake, a payload, a closing tag and an alert.
pub const RECORDS_OF_DATAGRAM: u64 = 32;
/// The most record numbers that successors may have skipped in one epoch of DTLS 1.3 before the
/// association is given up: a peer that has received none of the records since still finds the right
/// number from 16 bits, which tell 2^15 apart.
pub const MOST_SKIPPED: u64 = 1 << 14;
/// The highest version of a saved association that is restored. An association writes a few times a
/// second at most, so that none ever gets near, and counting on from here does not overflow.
pub const MOST_VERSION: u64 = 1 << 62;
/// How long what may be saved later waits, and how long an association does nothing when the numbers
/// that it has reserved are given back.
pub const SAVE_INTERVAL: Duration = Duration::from_secs(1);

/// How long the alert at the end of an association waits for a write that must come before it. While
/// a store fails, associations that have ended must not take memory for as long.
pub(crate) const FAREWELL_PATIENCE: Duration = Duration::from_secs(5);
/// How often an association that was restored sends a flight again before it waits for the peer to be
/// heard: most peers sleep.
pub const MOST_UNHEARD_TRIES: u8 = 5;
/// How many restored associations of an endpoint ask their peers for new keys in a second. What a node
/// takes over from another one keeps its keys until its turn comes; messages do not wait for that.
pub const MOST_RENEWALS: u32 = 1000;
/// How long a received payload waits for the write that must come before its delivery. Then it is dropped:
/// an application has given it up by then.
pub const UNSAVED_PATIENCE: Duration = Duration::from_secs(120);
/// How many bytes of such payloads all associations of an endpoint hold together, with overhead, unless
/// [`Endpoint::limit_unsaved`](crate::Endpoint::limit_unsaved) says otherwise.
pub const MOST_UNSAVED_BYTES: usize = 64 << 20;
