//! Every message truncated at every byte and with every byte changed, on the wire and behind
//! decryption.

use crate::peer_with_keys::{PeerWithKeys, scheme, suite};
use crate::setup::{Setup, arriving, clear_len, pass};
use lightseal_core::{Encode, Reader, Writer};
use lightseal_dtls::codepoints::{AlertDescription, ContentType, HandshakeType};
use lightseal_dtls::messages::{Alert, Fragment, RecordNumber, ack};
use lightseal_dtls::record::epochs::{APPLICATION_EPOCH, HANDSHAKE_EPOCH};
use lightseal_dtls::record::{ReceiveBuffer, ReceiveEpoch, UnifiedHeader};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use testkit::pair::{Direction, Pair};

/// The alteration of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// The message ends before this byte.
    Cut(usize),
    /// The byte at this index is XORed with this value.
    Flip(usize, u8),
}

/// Values to XOR: the lowest and the highest bit, all bits, and two that turn content and handshake
/// types into neighbouring ones.
const FLIPS: [u8; 5] = [0x01, 0x80, 0xff, 0x02, 0x1c];

impl Change {
    /// Every cut and every flip of a message of `len` bytes.
    fn all(len: usize) -> impl Iterator<Item = Self> {
        (0..len).flat_map(|at| {
            core::iter::once(Self::Cut(at)).chain(FLIPS.map(|flip| Self::Flip(at, flip)))
        })
    }

    fn apply(self, bytes: &[u8]) -> Vec<u8> {
        let mut copy = bytes.to_vec();
        match self {
            Self::Cut(at) => copy.truncate(at),
            Self::Flip(at, flip) => copy[at] ^= flip,
        }
        copy
    }
}

/// The results of a campaign.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of altered messages tried.
    pub cases: usize,
    /// Number of altered messages that made an engine panic.
    pub panics: usize,
    /// Number of altered messages after which a payload was delivered that was never sent, or
    /// delivered twice.
    pub deliveries: usize,
    /// The largest number of payload bytes that an end ever held.
    pub most_held: usize,
    /// The largest number of associations that a server ever had with one client.
    pub most_open: usize,
    /// Number of datagrams, or of messages behind decryption, that were altered.
    pub messages: usize,
    /// Descriptions of the first failures.
    pub failures: Vec<String>,
}

impl Report {
    /// Adds the results of another setup.
    pub fn add(&mut self, other: Self) {
        self.cases += other.cases;
        self.panics += other.panics;
        self.deliveries += other.deliveries;
        self.most_held = self.most_held.max(other.most_held);
        self.most_open = self.most_open.max(other.most_open);
        self.messages += other.messages;
        self.failures.extend(other.failures);
        self.failures.truncate(20);
    }

    fn case(&mut self, name: impl Fn() -> String, run: impl FnOnce() -> (bool, usize, usize)) {
        self.cases += 1;
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok((sound, held, open)) => {
                self.most_held = self.most_held.max(held);
                self.most_open = self.most_open.max(open);
                if sound {
                    return;
                }
                self.deliveries += 1;
            }
            Err(_) => self.panics += 1,
        }
        if self.failures.len() < 20 {
            self.failures.push(name());
        }
    }
}

fn payload(direction: Direction, index: u32) -> Vec<u8> {
    format!("{direction:?} {index}").into_bytes()
}

/// A few more records than a receiver sees before it reports loss.
const ENOUGH_FOR_A_REPORT: u32 = 70;

/// Runs a whole association: handshake, data in both directions, silence, new keys, a loss report
/// and the end.
fn conversation(pair: &mut Pair<'_>) {
    pair.run_for(Duration::from_secs(1));
    let mut next = 0;
    let mut exchange = |pair: &mut Pair<'_>, count: u32| {
        for _ in 0..count {
            for direction in Direction::BOTH {
                pair.send(direction, &payload(direction, next));
            }
            next += 1;
        }
        pair.run_for(Duration::from_millis(500));
    };
    exchange(pair, 3);
    let now = pair.now;
    pair.client.update_keys(now);
    exchange(pair, 1);
    for _ in 0..ENOUGH_FOR_A_REPORT / 10 {
        exchange(pair, 10);
    }
    let now = pair.now;
    pair.client.close(now);
    pair.run_for(Duration::from_secs(2));
}

/// Whether every delivered payload was sent, and none was delivered twice.
fn is_sound(pair: &Pair<'_>) -> bool {
    Direction::BOTH.into_iter().all(|direction| {
        let sent: BTreeSet<_> =
            (0..ENOUGH_FOR_A_REPORT + 10).map(|index| payload(direction, index)).collect();
        let told = &pair.events(direction).data;
        let once: BTreeSet<_> = told.iter().collect();
        once.len() == told.len() && told.iter().all(|data| sent.contains(data))
    })
}

/// The indices and lengths of the datagrams to alter: all at the beginning and at the end, and
/// between them those as long as a loss report.
fn interesting(pair: &Pair<'_>) -> Vec<(usize, usize)> {
    let total = pair.log.len();
    let lengths = pair.log.iter().map(|(_, datagram)| datagram.len()).enumerate();
    lengths
        .filter(|(index, len)| *index < 30 || index + 6 > total || *len == REPORT_DATAGRAM)
        .collect()
}

/// Length in bytes of a datagram with a loss report: flags, 16-bit number, type, loss, full tag.
const REPORT_DATAGRAM: usize = 1 + 2 + 1 + 2 + 16;

/// Alters one datagram at a time, with every `stride`-th alteration.
pub fn on_the_wire(setup: &Setup, seed: u64, stride: usize) -> Report {
    let mut report = Report::default();
    let mut genuine = setup.pair(seed);
    conversation(&mut genuine);
    assert!(genuine.at_server.connected.is_some() && is_sound(&genuine), "the conversation works");
    assert_eq!(genuine.at_server.data.len(), genuine.at_client.data.len());
    let mut skip = 0usize;
    for (target, len) in interesting(&genuine) {
        report.messages += 1;
        for change in Change::all(len) {
            skip += 1;
            if !skip.is_multiple_of(stride) {
                continue;
            }
            let run = || {
                let mut pair = setup.pair(seed).with_rule(|_, index, datagram| {
                    let altered = index == target && datagram.len() == len;
                    arriving([if altered { change.apply(datagram) } else { datagram.to_vec() }])
                });
                conversation(&mut pair);
                (is_sound(&pair), pair.most_held, pair.most_open)
            };
            report.case(|| format!("{setup:?}: datagram {target}, {change:?}"), run);
        }
    }
    report
}

/// The stage of an engine when an impostor with the right keys sends records to it.
#[derive(Clone, Copy, Debug)]
pub struct Stage {
    /// The direction of the records.
    pub direction: Direction,
    /// The epoch of the records.
    pub epoch: u64,
}

/// Both ends in a handshake, and both ends after it.
pub const STAGES: [Stage; 4] = [
    Stage { direction: Direction::ToClient, epoch: HANDSHAKE_EPOCH },
    Stage { direction: Direction::ToServer, epoch: HANDSHAKE_EPOCH },
    Stage { direction: Direction::ToClient, epoch: APPLICATION_EPOCH },
    Stage { direction: Direction::ToServer, epoch: APPLICATION_EPOCH },
];

impl Stage {
    /// A pair whose receiver has the keys of the stage and has seen no record protected with them.
    pub fn reach<'a>(self, setup: &Setup, seed: u64) -> Pair<'a> {
        let mut pair = setup.pair(seed).with_rule(move |direction, _, datagram| {
            let protected = &datagram[clear_len(datagram)..];
            let bits = protected.first().map_or(0, |byte| u64::from(byte & 3));
            let held_back = !protected.is_empty()
                && direction == self.direction
                && (self.epoch == HANDSHAKE_EPOCH || bits == APPLICATION_EPOCH & 3);
            let len = if held_back { datagram.len() - protected.len() } else { datagram.len() };
            if len == 0 { vec![] } else { pass(&datagram[..len]) }
        });
        pair.run_for(Duration::from_millis(40));
        pair
    }

    /// Genuine contents of records in this stage, from a conversation and from RFC 8446.
    pub fn contents(self, setup: &Setup, seed: u64) -> Vec<(ContentType, Vec<u8>)> {
        let mut pair = setup.pair(seed);
        pair.run_for(Duration::from_secs(1));
        let mut contents = opened(setup, &pair, self);
        // The sequence number of the sender's first message after its Finished.
        let retried = u16::from(pair.server.stats().retries > 0);
        let next = match self.direction {
            Direction::ToServer => 2 + retried,
            Direction::ToClient => 3 + retried,
        };
        // Lifetime, age, nonce, ticket, no extensions (RFC 8446, section 4.6.1).
        let ticket = [0, 0, 1, 0, 1, 2, 3, 4, 1, 7, 0, 4, 9, 9, 9, 9, 0, 0];
        for (kind, body) in [
            (HandshakeType::KEY_UPDATE, &[1][..]),
            (HandshakeType::AGGREGATION_UPDATE, &[1, 2]),
            (HandshakeType::NEW_SESSION_TICKET, &ticket),
            (HandshakeType::FINISHED, &[3; 32]),
        ] {
            let length = body.len() as u32;
            let fragment = Fragment { kind, length, sequence: next, offset: 0, body };
            contents.push((ContentType::HANDSHAKE, written(|w| fragment.write(w))));
        }
        let records = [0, 1].map(|number| RecordNumber { epoch: HANDSHAKE_EPOCH, number });
        contents.push((ContentType::ACK, written(|w| ack::write(&records, w))));
        for alert in [AlertDescription::CLOSE_NOTIFY, AlertDescription::DECRYPT_ERROR] {
            contents.push((ContentType::ALERT, written(|w| Alert(alert).write(w))));
        }
        contents.push((ContentType::LOSS_REPORT, vec![0, 9]));
        let mut closing = vec![1, 1];
        closing.extend([0x77; 16]);
        contents.push((ContentType::AGGREGATE_TAG, closing.clone()));
        closing.splice(0..0, [0, 0, 0, 0, 0, 3]);
        contents.push((ContentType::EPOCH_END, closing));
        contents
    }
}

fn written(
    write: impl FnOnce(&mut Writer<'_>) -> Result<(), lightseal_core::wire::BufferFull>,
) -> Vec<u8> {
    let mut buf = [0; 256];
    let mut w = Writer::new(&mut buf);
    write(&mut w).expect("the message is short");
    w.finish().to_vec()
}

/// The contents of the stage's records in a pair's log, opened with the logged keys.
fn opened(setup: &Setup, pair: &Pair<'_>, stage: Stage) -> Vec<(ContentType, Vec<u8>)> {
    let Some(secret) = pair.secrets.traffic(stage.direction, stage.epoch) else {
        return Vec::new();
    };
    let mut epoch =
        ReceiveEpoch::new(stage.epoch, suite(setup), scheme(setup, stage.epoch), &secret);
    let mut held = ReceiveBuffer::new(1 << 16);
    let mut contents = Vec::new();
    let sent = pair.log.iter().filter(|(direction, _)| *direction == stage.direction);
    for (_, datagram) in sent {
        let mut rest = datagram[clear_len(datagram)..].to_vec();
        while let Ok(header) = UnifiedHeader::read(&mut Reader::new(&rest), 0) {
            let len =
                header.length.map_or(rest.len(), |len| header.header_len() + usize::from(len));
            let mut record: Vec<u8> = rest.drain(..len).collect();
            if u64::from(header.epoch_bits) != stage.epoch & 3 {
                continue;
            }
            if let Some(inner) = epoch.open(header, &mut record, &mut held).inner {
                contents.push((inner.kind, inner.content.to_vec()));
            }
        }
    }
    contents
}

/// Checks that an impostor's records are accepted, and that a conversation contains every type of
/// message that this setup can have.
///
/// # Panics
/// If one of these does not hold, because the campaign would then find nothing.
pub fn check_impostor(setup: &Setup, seed: u64) {
    for stage in STAGES {
        let mut pair = stage.reach(setup, seed);
        let mut impostor = PeerWithKeys::new(setup, &pair.secrets, stage.direction, stage.epoch)
            .expect("the stage has keys");
        assert_eq!(
            pair.events(stage.direction).connected.is_some(),
            stage.epoch == APPLICATION_EPOCH
        );
        if stage.epoch == HANDSHAKE_EPOCH {
            let mut genuine = setup.pair(seed);
            genuine.run_for(Duration::from_secs(1));
            for (kind, content) in opened(setup, &genuine, stage) {
                let datagram = impostor.seal(kind, &content);
                pair.deliver(stage.direction, &datagram);
            }
            pair.drain();
            assert!(pair.events(stage.direction).connected.is_some(), "{setup:?} {stage:?}");
        } else {
            // Under R2D2 the last records wait for later ones.
            for _ in 0..64 {
                let datagram = impostor.seal(ContentType::APPLICATION_DATA, b"believe me");
                pair.deliver(stage.direction, &datagram);
            }
            pair.drain();
            let believed = pair.events(stage.direction).data.len();
            assert!((32..=64).contains(&believed), "{setup:?} {stage:?}: {believed}");
        }
    }
    let mut pair = setup.pair(seed);
    conversation(&mut pair);
    let met: BTreeSet<_> = STAGES
        .into_iter()
        .flat_map(|stage| opened(setup, &pair, stage))
        .map(|(kind, content)| (kind, content.first().copied().unwrap_or(0)))
        .collect();
    let handshake =
        [HandshakeType::ENCRYPTED_EXTENSIONS, HandshakeType::FINISHED, HandshakeType::KEY_UPDATE];
    for kind in handshake {
        assert!(met.contains(&(ContentType::HANDSHAKE, kind.0)), "{setup:?} lacks {kind}");
    }
    let has = |kind| met.iter().any(|(met, _)| *met == kind);
    assert!(has(ContentType::ACK), "{setup:?}");
    assert_eq!(has(ContentType::LOSS_REPORT), setup.scheme.aggregates(), "{setup:?}");
}

/// Sends altered contents that are sealed with the genuine keys.
pub fn behind_decryption(setup: &Setup, seed: u64, stride: usize) -> Report {
    let mut report = Report::default();
    let mut skip = 0usize;
    for stage in STAGES {
        let contents = stage.contents(setup, seed);
        report.messages += contents.len();
        let mut cases: Vec<_> = contents
            .iter()
            .flat_map(|(kind, content)| {
                let changes = Change::all(content.len());
                changes.map(|change| (*kind, change.apply(content)))
            })
            .collect();
        // Every content type with no content, with one byte, and with a length that is larger than
        // the content.
        let data = ContentType::APPLICATION_DATA;
        for kind in (0..=255).map(ContentType).filter(|kind| *kind != data) {
            cases.extend([&[][..], &[0], &[0xff; 40]].map(|content| (kind, content.to_vec())));
        }
        for (kind, content) in cases {
            skip += 1;
            if !skip.is_multiple_of(stride) {
                continue;
            }
            let run = || {
                let mut pair = stage.reach(setup, seed);
                let mut impostor =
                    PeerWithKeys::new(setup, &pair.secrets, stage.direction, stage.epoch)
                        .expect("the stage has keys");
                let mut datagram = impostor.seal(kind, &content);
                // The datagram is delivered twice, then the same content in a further record.
                pair.deliver(stage.direction, &datagram);
                pair.deliver(stage.direction, &datagram);
                datagram = impostor.seal(kind, &content);
                pair.deliver(stage.direction, &datagram);
                pair.run_for(Duration::from_secs(1));
                let told = Direction::BOTH.into_iter().map(|way| pair.events(way).data.len());
                (told.sum::<usize>() == 0, pair.most_held, pair.most_open)
            };
            report.case(|| format!("{setup:?}: {stage:?}, {kind} {content:02x?}"), run);
        }
    }
    report
}

/// Runs both campaigns with every setup, and the one on the wire with DTLS 1.2 too.
pub fn run(seed: u64, stride: usize) -> Report {
    let mut report = Report::default();
    for setup in Setup::all() {
        report.add(on_the_wire(&setup, seed, stride));
        report.add(behind_decryption(&setup, seed, stride));
    }
    for setup in Setup::older() {
        report.add(on_the_wire(&setup, seed, stride));
    }
    report
}
