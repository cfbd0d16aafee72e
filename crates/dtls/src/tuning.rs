//! Our own numbers, each with the reason for its value.

use core::time::Duration;

/// First retransmission timeout (RFC 9147, section 5.8.2, suggests one second).
pub const INITIAL_TIMEOUT: Duration = Duration::from_secs(1);
/// The same for small devices on slow links (RFC 7925, section 11).
pub const INITIAL_TIMEOUT_7925: Duration = Duration::from_secs(9);
/// Timeouts double up to this. The RFC's 60 s leaves six attempts a minute, too
/// few at 20 % loss; 8 s leaves ten, and a tenth of a datagram a second is no load.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(8);
/// Where the first timeout is longer than a second, they double up to this many of it instead,
/// as far as [`MAX_IDLE_TIMEOUT`]: such a link is slow. RFC 7925, section 11, wants 60 s for
/// its 9.
pub const MAX_TIMEOUT_FACTOR: u32 = 8;
/// After the handshake nobody waits for a KeyUpdate, and the peer may be gone for good: the
/// timeout doubles up to the RFC's own bound.
pub const MAX_IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// The part of a timeout after which what came of a flight is acknowledged, if the rest did not. RFC 9147,
/// section 7.1, calls a quarter reasonable. Where a frame takes long a timeout is three of them at
/// least, for a hello of two and the first of the answer: a third lets the next one come.
pub const ACK_PATIENCE: u32 = 3;
/// A measured path never lowers the timeout below this: peers need time to compute.
pub const MIN_TIMEOUT: Duration = Duration::from_millis(50);
/// Alerts in clear, each in answer to a flight sent again, that end a handshake. One may be
/// forged, or an answer to a flight that was damaged on its way.
pub const MAX_REFUSALS: u8 = 3;
/// A handshake that is not complete by then has failed.
pub const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(60);
/// The same for small devices on slow links: seven attempts. On duty-cycled links a handshake
/// may well take 200 s (Vučinić et al., "DTLS Performance in Duty-Cycled Networks", table II).
pub const HANDSHAKE_DEADLINE_7925: Duration = Duration::from_secs(300);
/// A client whose Finished is not acknowledged takes data that comes between the last two of so many
/// such times as a sign that the server has it. One as patient as the client that sends data before
/// that (RFC 8446, section 2) has given up by then: it began when the client was done at the latest.
pub const DEADLINES_WITHOUT_ACK: u8 = 3;
/// A flight's answer is retransmitted at most this often because of duplicates.
pub const REPEAT_INTERVAL: Duration = Duration::from_millis(100);
/// A message of a stream waits this long for its set at most: well below CoAP's two seconds.
pub const STREAM_WAIT: Duration = Duration::from_millis(200);
/// The same where the peer sends too: nobody notices it once in a while.
pub const DIALOGUE_WAIT: Duration = Duration::from_millis(20);
/// The shortest timeout that may be set. At zero a flight would be sent without end.
pub const LEAST_TIMEOUT: Duration = Duration::from_millis(1);
/// Largest UDP payload sent by default: fits IPv6's smallest MTU with headers.
pub const DATAGRAM_BYTES: usize = 1200;
/// Smallest UDP payload limit that may be set; flights are fragmented to it.
pub const MIN_DATAGRAM_BYTES: usize = 80;
/// Bytes that a datagram has to have beside the peer's connection ID: a closing tag takes 57, a path
/// message in DTLS 1.2 47.
pub const LEAST_BESIDE_ID: usize = 64;
/// Received data held for verification or for the application, in bytes: as many candidates as an
/// [`Opener`](aggregation::Opener) holds, each as long as a datagram.
pub const RECEIVE_BUFFER_BYTES: usize = 256 * 1024;
/// Application data queued before the handshake ends, in bytes.
pub const SEND_BUFFER_BYTES: usize = 64 * 1024;
/// Largest UDP payload limit that may be set: what UDP's length field allows.
pub const MAX_DATAGRAM_BYTES: usize = 65_535;
/// Longest handshake message accepted; a ClientHello with a post-quantum share fits.
pub const MAX_HANDSHAKE_MESSAGE: usize = 8 * 1024;
/// Handshake messages held ahead of the next expected one.
pub const MAX_MESSAGES_AHEAD: u16 = 4;
/// Record numbers kept for one ACK: four times what the longest flight needs.
pub const MAX_ACK_RECORDS: usize = 32;
/// Records kept that no key opens yet: a flight and its first data, reordered.
pub const MAX_EARLY_RECORDS: usize = 8;
/// Bytes of such records.
pub const MAX_EARLY_BYTES: usize = 4 * 1024;
/// The previous epoch's receive keys live this long after the next one was used
/// (RFC 9147, section 8, asks for at least one maximum segment lifetime or so).
pub const OLD_EPOCH_LIFETIME: Duration = Duration::from_secs(120);
/// The handshake's receive keys live this long after the handshake, so that a last flight that is
/// sent again is still read and acknowledged: twice the default maximum segment lifetime (RFC
/// 9147, section 5.8.1).
pub const HANDSHAKE_KEYS_LIFETIME: Duration = Duration::from_secs(240);
/// The last number of a handshake message. Numbers do not wrap (draft-ietf-tls-rfc9147bis, section
/// 5.2): an association that needs another message after it ends.
pub const LAST_MESSAGE: u32 = u16::MAX as u32;
/// From this message number on an association sends nothing that it can do without: no other
/// aggregation scheme, no other connection IDs, no KeyUpdate at the application's wish. What is
/// left are 535 KeyUpdates for keys that are used up.
pub const LAST_VOLUNTARY_MESSAGE: u32 = 65_000;
/// Of short record numbers, one in this many is long, so that a receiver that lost its
/// place in a burst finds it again: 1/32 byte a record.
pub const LONG_NUMBER_INTERVAL: u64 = 32;
/// Loss below which a receiver lets its peer use 8-bit record numbers for aggregated
/// records, in 1/65535: 3 %. At 13 % eight sets of sixteen in a row would fail too often.
pub const SHORT_NUMBER_LOSS: u16 = 1966;
/// Records in a row of which none could be authenticated, after which a receiver reports that all
/// are lost: half of what leads 8-bit numbers astray, and twice what any scheme takes to verify
/// the first without losses.
pub const UNSETTLED_RECORDS: u64 = 64;
/// Records between two looks at their loss, each reported if it allows what the last did not, or
/// the other way round.
pub const REPORT_INTERVAL: u64 = 256;
/// Records between two loss reports of the same meaning: one is spent, and a lost one costs little.
pub const REPORT_RENEWAL: u64 = 768;
/// The first report of an epoch comes after this many records.
pub const FIRST_REPORT: u64 = 64;
/// Records a sender may seal after a report before it expects another one.
pub const REPORT_LIFETIME: u64 = 1024;
/// Records the peer sends in an epoch before it is asked for another aggregation scheme again, and so
/// for another epoch, of which records show two bits. A choice looks back on as many (MAC
/// aggregation paper, section III-D).
pub const RECORDS_BETWEEN_UPDATES: u64 = 200;
/// A cookie secret serves this long, and is accepted as long again.
pub const COOKIE_ROTATION: Duration = Duration::from_secs(60);
/// Complete associations whose ClientHellos an endpoint remembers: 8 KiB, and more clients than
/// begin anew while a cookie lasts.
pub const MAX_PAST_HELLOS: usize = 256;
/// Fragmented ClientHellos that an endpoint holds at once: at most one MiB. The first piece of a
/// hello outlives 62 fragments from made-up addresses in 61 of 100 cases.
pub const MAX_PARTIAL_HELLOS: usize = 128;
/// Those of one IPv4 address, or of one IPv6 network of 64 bits, which has one owner.
pub const MAX_PARTIAL_HELLOS_OF_NETWORK: usize = MAX_PARTIAL_HELLOS / 4;
/// Associations of an endpoint whose clients have not proved a key yet, as in DTLS 1.2 all have until
/// their Finished. One every 60 ms may take its minute; filled with fragments they hold 45 MiB.
pub const MAX_UNPROVED: usize = 1024;
/// For so many first timeouts such a handshake keeps its session slot from its like. By then its
/// flight was sent three times: at 20 % loss each way, one in twenty is not answered.
pub const UNPROVED_TIMEOUTS: u32 = 4;
/// Challenges sent to one new address: at 20 % loss each way one in twenty checks fails, and the
/// peer's next record begins another.
pub const MAX_PATH_CHALLENGES: u8 = 3;
/// Time between them, and for the last one's answer: what RFC 9853, section 5.5, takes for a path
/// that was not measured. One that was gives three round trips, if that is more.
pub const PATH_CHALLENGE_INTERVAL: Duration = Duration::from_secs(1);
/// Bytes sent to an address that is not validated, for each received from there (RFC 9000,
/// section 8.1, which RFC 9853, section 2, follows).
pub const AMPLIFICATION: usize = 3;
/// Probes of one length that are not answered before the path is taken not to take it (RFC 8899,
/// section 5.1.2: `MAX_PROBES`). At 20 % loss each way one in twenty lengths fails by chance.
pub const MAX_MTU_PROBES: u8 = 3;
/// The shortest wait for a probe's answer. Handshakes measure the path, so RFC 8899's second, which is
/// for paths that are not measured, is not needed (its section 5.1.1).
pub const MTU_PROBE_PATIENCE: Duration = Duration::from_millis(100);
/// The search for the path's MTU ends when the limit is known to within this many bytes: with the
/// usual limits after five halvings.
pub const MTU_STEP: usize = 8;
/// How long a length that failed is not tried again (RFC 8899's `PMTU_RAISE_TIMER`).
pub const MTU_RAISE_INTERVAL: Duration = Duration::from_secs(600);
/// While long datagrams leave, the path is asked this often whether it still takes them. With
/// [`MAX_MTU_PROBES`] a path that became narrower costs them some 5 s.
pub const MTU_CONFIRM_INTERVAL: Duration = Duration::from_secs(4);
/// Challenges of the peer that wait to be answered. It sends one at a time.
pub const MAX_PATH_RESPONSES: usize = 8;
/// Spare connection IDs a peer gets and is taken from: a few moves until the next request.
pub const MAX_SPARE_IDS: usize = 4;
/// Connection IDs of one association that are taken at once: the one in use, the spare ones,
/// and new ones in their place.
pub const MAX_OWN_IDS: usize = 2 * MAX_SPARE_IDS;
/// Requests for connection IDs that bring none before the association ends. A peer that asks
/// again for what it did not get is no worse than any other noise for a while.
pub const MAX_VAIN_ID_REQUESTS: u32 = 16;
/// Random connection IDs tried for one that no association has. With half of them taken, one
/// association in 65,536 goes without.
pub const MAX_ID_DRAWS: u32 = 16;
/// For how long a DTLS 1.2 session can be resumed (RFC 5077, section 5.6, leaves it open;
/// RFC 5246, appendix F.1.4, suggests at most a day).
pub const SESSION_LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// A ticket key seals this long, and opens as long again.
pub const TICKET_ROTATION: Duration = SESSION_LIFETIME;
/// Sessions an endpoint remembers by ID by default, about 200 bytes each.
pub const REMEMBERED_SESSIONS: usize = 256;
/// Records under a client's new keys that may fail before a DTLS 1.2 server takes it that
/// the client has another PSK. Less could be noise, more would leave the client waiting.
pub const MAX_WRONG_KEYS: u64 = 3;
/// Probes without an answer after which a peer is taken for dead. At 5 % loss each way one question in ten
/// is not answered: seven in a row, with the message that they follow, happen once in 12 million.
pub const PROBES: u32 = 6;
/// An answer to a message is missing after this at the earliest, however short the path: hosts are busy now
/// and then.
pub const LEAST_PATIENCE: Duration = Duration::from_millis(300);
/// The first gap between two probes, at least; each is longer than the one before by three tenths. All of them
/// take 2.6 s: with the time until an answer is missed and the new handshake that is well below 5 s.
pub const LEAST_PROBE_GAP: Duration = Duration::from_millis(200);
/// A hint has a peer probed at most this often.
pub const LEAST_HINT_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause between two probes upon hints, reached when hints were wrong again and again. A one-way
/// flow is probed as often.
pub const MOST_HINT_PAUSE: Duration = Duration::from_secs(30);
/// Hints that an endpoint sends in a second, and those of them that go to one IPv4 address or IPv6 network of 64
/// bits: some 4 kB a second in all, for at least as much that came.
pub const MAX_HINTS: u32 = 100;
/// See [`MAX_HINTS`].
pub const MAX_HINTS_OF_NETWORK: u32 = 10;
