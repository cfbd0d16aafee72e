//! The state of one observed association.

use super::partial_messages::PartialMessages;
use super::secrets::{Label, Secrets};
use super::{Proof, Record, Sender};
use crate::codepoints::{ContentType, DTLS_1_3, ExtensionType, HandshakeType};
use crate::config::NumberMasks;
use crate::crypto::{CipherSuite, Provider, TrafficSecret};
use crate::messages::aggregation::read_answer;
use crate::messages::extensions::read_connection_id;
use crate::messages::{
    AggregationUpdate, ClientHello, EncryptedExtensions, EpochEnd, Fragment, NewConnectionId,
    ServerHello,
};
use crate::record::epochs::{APPLICATION_EPOCH, HANDSHAKE_EPOCH};
use crate::record::{ConnectionId, Header12, PassiveRecord, Reading, UnifiedHeader};
use crate::tuning::MAX_OWN_IDS;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use lightseal_aggregation::Scheme;
use lightseal_core::{Decode, Reader, ReplayWindow};

/// The number of epochs of one sender whose keys are kept. Headers have two bits, which distinguish
/// four epochs, and one of these is always the next one.
const EPOCHS: usize = 3;

/// The configuration that all observed associations share.
pub(super) struct ObserverConfig {
    pub(super) provider: &'static Provider,
    pub(super) secrets: Secrets,
    pub(super) masks: NumberMasks,
}

/// One association.
pub(super) struct Association {
    id: u64,
    /// `None` if its ClientHello was not observed.
    random: Option<[u8; 32]>,
    /// The connection ID that the client wants in the records that it receives.
    offered_id: Option<ConnectionId>,
    /// The DTLS 1.3 suite, once it is negotiated.
    suite: Option<&'static CipherSuite>,
    client: ObservedSide,
    server: ObservedSide,
    verdicts: Vec<(u64, Proof)>,
}

/// The state of what one end sends.
#[derive(Default)]
struct ObservedSide {
    clear: ReplayWindow,
    pieces: PartialMessages,
    /// The connection IDs in its records, all of the same length.
    ids: VecDeque<ConnectionId>,
    /// The epochs whose keys are known, oldest first.
    epochs: VecDeque<Reading>,
    /// The secret of the newest epoch, if that carries data of DTLS 1.3.
    traffic: Option<TrafficSecret>,
    /// The aggregation scheme of the newest epoch.
    scheme: Scheme,
    /// The scheme that the peer requested, for the next epoch.
    asked: Option<Scheme>,
    /// Whether a message has announced another epoch.
    announced: bool,
}

impl ObservedSide {
    fn id_len(&self) -> usize {
        self.ids.front().map_or(0, |id| id.len())
    }

    /// Adds an epoch and drops the oldest one if there are too many.
    fn install(&mut self, reading: Reading, verdicts: &mut Vec<(u64, Proof)>) {
        if self.epochs.len() == EPOCHS
            && let Some(mut old) = self.epochs.pop_front()
        {
            old.finish();
            verdicts.extend(core::iter::from_fn(|| old.next_verdict()));
        }
        self.epochs.push_back(reading);
    }
}

/// The parts of a record that its protection hides.
struct HiddenFields {
    epoch: u64,
    number: Option<u64>,
    kind: Option<ContentType>,
    content: Vec<u8>,
    proof: Proof,
    repeated: bool,
}

impl HiddenFields {
    const fn hidden(epoch: u64, number: Option<u64>, proof: Proof) -> Self {
        Self { epoch, number, kind: None, content: Vec::new(), proof, repeated: false }
    }

    fn read(epoch: u64, read: Option<PassiveRecord<'_>>) -> Self {
        let Some(read) = read else { return Self::hidden(epoch, None, Proof::Malformed) };
        let PassiveRecord { number, kind, content, proof, repeated } = read;
        Self { epoch, number: Some(number), kind, content: content.to_vec(), proof, repeated }
    }
}

impl Association {
    pub(super) fn new(id: u64, random: Option<[u8; 32]>) -> Self {
        let (client, server) = (ObservedSide::default(), ObservedSide::default());
        let verdicts = Vec::new();
        Self { id, random, offered_id: None, suite: None, client, server, verdicts }
    }

    /// The random of the association's ClientHello.
    pub(super) const fn random(&self) -> Option<&[u8; 32]> {
        self.random.as_ref()
    }

    /// The end that sends records with the connection ID of this datagram.
    pub(super) fn sender_of(&self, datagram: &[u8]) -> Option<Sender> {
        let sends = |side: &ObservedSide| {
            let id = crate::record::cid::of_datagram(datagram, side.id_len());
            id.is_some_and(|id| side.ids.iter().any(|own| **own == *id))
        };
        if sends(&self.client) {
            Some(Sender::Client)
        } else {
            sends(&self.server).then_some(Sender::Server)
        }
    }

    fn side(&mut self, sender: Sender) -> &mut ObservedSide {
        match sender {
            Sender::Client => &mut self.client,
            Sender::Server => &mut self.server,
        }
    }

    /// Reads a datagram's records. The first one gets the serial `serial`.
    pub(super) fn datagram(
        &mut self,
        known: &ObserverConfig,
        sender: Sender,
        datagram: &mut [u8],
        mut serial: u64,
    ) -> Vec<Record> {
        let (mut records, mut rest) = (Vec::new(), datagram);
        while !rest.is_empty() {
            let len = self.record_len(sender, rest).unwrap_or(rest.len());
            let (record, behind) = rest.split_at_mut(len);
            let inside = self.record(known, sender, record, serial);
            let HiddenFields { epoch, number, kind, content, proof, repeated } = inside;
            if matches!(proof, Proof::Clear | Proof::Verified) && !repeated {
                self.learn(known, sender, epoch, kind, &content);
            }
            let association = self.id;
            records.push(Record {
                serial,
                association,
                sender,
                epoch,
                number,
                kind,
                len,
                content,
                proof,
                repeated,
            });
            serial += 1;
            rest = behind;
        }
        records
    }

    /// The length of the first record in bytes; `None` if there is no valid record.
    fn record_len(&mut self, sender: Sender, datagram: &[u8]) -> Option<usize> {
        let id_len = self.side(sender).id_len();
        let len = if UnifiedHeader::begins_with(*datagram.first()?) {
            let header = UnifiedHeader::read(&mut Reader::new(datagram), id_len).ok()?;
            header.length.map(|length| header.header_len() + usize::from(length))
        } else {
            let header = Header12::read(datagram, id_len).ok()?;
            Some(header.len + usize::from(header.body))
        };
        Some(len.unwrap_or(datagram.len())).filter(|len| *len <= datagram.len())
    }

    fn record(
        &mut self,
        known: &ObserverConfig,
        sender: Sender,
        record: &mut [u8],
        serial: u64,
    ) -> HiddenFields {
        let malformed = HiddenFields::hidden(0, None, Proof::Malformed);
        let Some(first) = record.first() else { return malformed };
        let id_len = self.side(sender).id_len();
        if UnifiedHeader::begins_with(*first) {
            return match UnifiedHeader::read(&mut Reader::new(record), id_len) {
                Ok(header) => self.record_13(known, sender, header, record, serial),
                // The record has a connection ID whose length is not known.
                Err(_) => HiddenFields::hidden((*first & 3).into(), None, Proof::Locked),
            };
        }
        let Ok(header) = Header12::read(record, id_len) else { return malformed };
        if header.len + usize::from(header.body) != record.len() {
            return malformed;
        }
        let side = self.side(sender);
        let (epoch, number) = (u64::from(header.epoch), Some(header.number));
        if epoch > 0 || header.kind == ContentType::TLS12_CID {
            let Some(reading) = side.epochs.iter_mut().find(|known| known.epoch() == epoch) else {
                let kind = Some(header.kind).filter(|kind| *kind != ContentType::TLS12_CID);
                return HiddenFields { kind, ..HiddenFields::hidden(epoch, number, Proof::Locked) };
            };
            return HiddenFields::read(epoch, reading.read12(&header, record));
        }
        let repeated = !side.clear.check(header.number);
        side.clear.commit(header.number);
        let content = record.get(header.len..).unwrap_or_default().to_vec();
        HiddenFields {
            epoch,
            number,
            kind: Some(header.kind),
            content,
            proof: Proof::Clear,
            repeated,
        }
    }

    /// Reads a protected record of DTLS 1.3.
    fn record_13(
        &mut self,
        known: &ObserverConfig,
        sender: Sender,
        header: UnifiedHeader,
        record: &mut [u8],
        serial: u64,
    ) -> HiddenFields {
        let bits = u64::from(header.epoch_bits);
        let locked = HiddenFields::hidden(bits, None, Proof::Locked);
        let Self { suite: Some(suite), random: Some(random), .. } = *self else { return locked };
        let (side, verdicts) = match sender {
            Sender::Client => (&mut self.client, &mut self.verdicts),
            Sender::Server => (&mut self.server, &mut self.verdicts),
        };
        let its_own = |id: &ConnectionId| **id == *header.cid(record);
        if header.cid_len > 0 && !side.ids.iter().any(its_own) {
            return locked;
        }
        let newest = side.epochs.back().map(Reading::epoch);
        if let Some(reading) = side.epochs.iter_mut().rev().find(|r| r.epoch() & 3 == bits) {
            let inside =
                HiddenFields::read(reading.epoch(), reading.read13(header, record, serial));
            verdicts.extend(core::iter::from_fn(|| reading.next_verdict()));
            return inside;
        }
        let (handshake, traffic) = match sender {
            Sender::Client => (Label::ClientHandshake, Label::ClientTraffic),
            Sender::Server => (Label::ServerHandshake, Label::ServerTraffic),
        };
        let logged = |label| known.secrets.traffic(&random, label, suite.hash);
        let (epoch, secret, scheme) = match newest {
            None if bits == HANDSHAKE_EPOCH => (HANDSHAKE_EPOCH, logged(handshake), Scheme::Plain),
            None | Some(HANDSHAKE_EPOCH) if bits == APPLICATION_EPOCH => {
                (APPLICATION_EPOCH, logged(traffic), side.scheme)
            }
            Some(newest) if newest >= APPLICATION_EPOCH && (newest + 1) & 3 == bits => {
                let secret = side.traffic.as_ref().map(TrafficSecret::next);
                (newest + 1, secret, side.asked.unwrap_or(side.scheme))
            }
            _ => return locked,
        };
        let Some(secret) = secret else { return locked };
        let mut reading = Reading::dtls13(epoch, suite, scheme, &secret, known.masks);
        let inside = HiddenFields::read(epoch, reading.read13(header, record, serial));
        // Keys of an epoch that was not announced are kept only if the record verifies: the record
        // may be anything.
        if epoch > APPLICATION_EPOCH && !side.announced && inside.proof != Proof::Verified {
            return locked;
        }
        if epoch >= APPLICATION_EPOCH {
            (side.traffic, side.scheme) = (Some(secret), scheme);
        }
        if epoch > APPLICATION_EPOCH {
            (side.asked, side.announced) = (None, false);
        }
        verdicts.extend(core::iter::from_fn(|| reading.next_verdict()));
        side.install(reading, verdicts);
        inside
    }

    /// Learns from a record what later records need.
    fn learn(
        &mut self,
        known: &ObserverConfig,
        sender: Sender,
        epoch: u64,
        kind: Option<ContentType>,
        content: &[u8],
    ) {
        match kind {
            Some(ContentType::HANDSHAKE) => {
                let mut r = Reader::new(content);
                while !r.is_empty() {
                    let Ok(fragment) = Fragment::read(&mut r) else { return };
                    if let Some(body) = self.side(sender).pieces.take(epoch, &fragment) {
                        // A message that does not parse is ignored.
                        let _ = self.message(known, sender, epoch, fragment.kind, &body);
                    }
                }
            }
            Some(ContentType::EPOCH_END) if epoch > APPLICATION_EPOCH => {
                let Ok(EpochEnd { closing: Some(closing), .. }) = EpochEnd::decode(content) else {
                    return;
                };
                let side = match sender {
                    Sender::Client => &mut self.client,
                    Sender::Server => &mut self.server,
                };
                if let Some(old) = side.epochs.iter_mut().find(|old| old.epoch() == epoch - 1) {
                    old.end(closing);
                    self.verdicts.extend(core::iter::from_fn(|| old.next_verdict()));
                }
            }
            _ => {}
        }
    }

    fn message(
        &mut self,
        known: &ObserverConfig,
        sender: Sender,
        epoch: u64,
        kind: HandshakeType,
        body: &[u8],
    ) -> Option<()> {
        match (kind, sender, epoch) {
            (HandshakeType::CLIENT_HELLO, Sender::Client, 0) => {
                let hello = ClientHello::decode(body).ok()?;
                let id = hello.extensions.get(ExtensionType::CONNECTION_ID);
                self.offered_id = id
                    .and_then(|content| read_connection_id(content).ok())
                    .and_then(ConnectionId::new);
            }
            (HandshakeType::SERVER_HELLO, Sender::Server, 0) => self.server_hello(known, body)?,
            (HandshakeType::ENCRYPTED_EXTENSIONS, Sender::Server, HANDSHAKE_EPOCH) => {
                let extensions = EncryptedExtensions::decode(body).ok()?.extensions;
                let answer = extensions
                    .get(ExtensionType::MAC_AGGREGATION)
                    .or(extensions.get(ExtensionType::MAC_AGGREGATION_PAPER))?;
                let (to_client, to_server) = read_answer(answer).ok()?;
                (self.server.scheme, self.client.scheme) = (to_client, to_server);
            }
            (HandshakeType::NEW_CONNECTION_ID, _, APPLICATION_EPOCH..) => {
                let given = NewConnectionId::decode(body).ok()?;
                let ids = &mut self.side(sender.other()).ids;
                for id in given.iter().take(MAX_OWN_IDS).filter_map(ConnectionId::new) {
                    if ids.len() == 2 * MAX_OWN_IDS {
                        ids.pop_front();
                    }
                    ids.push_back(id);
                }
            }
            (HandshakeType::KEY_UPDATE, _, APPLICATION_EPOCH..) => {
                self.side(sender).announced = true;
            }
            (HandshakeType::AGGREGATION_UPDATE, _, APPLICATION_EPOCH..) => {
                let AggregationUpdate { scheme } = AggregationUpdate::decode(body).ok()?;
                let side = self.side(sender.other());
                (side.asked, side.announced) = (Some(scheme), true);
            }
            _ => {}
        }
        Some(())
    }

    fn server_hello(&mut self, known: &ObserverConfig, body: &[u8]) -> Option<()> {
        let hello = ServerHello::decode(body).ok()?;
        let random = self.random.filter(|_| !hello.is_retry())?;
        let id = |content| ConnectionId::new(read_connection_id(content).ok()?);
        if let (Some(wanted), Some(offered)) =
            (hello.extensions.get(ExtensionType::CONNECTION_ID).and_then(id), self.offered_id)
        {
            self.client.ids = [wanted].into();
            self.server.ids = [offered].into();
        }
        let version = hello.extensions.get(ExtensionType::SUPPORTED_VERSIONS);
        if version == Some(&DTLS_1_3.to_be_bytes()) {
            self.suite = known.provider.suite(hello.cipher_suite);
            return Some(());
        }
        let suite = known.provider.suite_12(hello.cipher_suite)?;
        let keys = known.secrets.master(&random, suite.hash)?.keys(suite, &random, hello.random);
        for (side, key) in [(&mut self.client, keys.client), (&mut self.server, keys.server)] {
            let id = side.ids.front().copied().unwrap_or_default();
            side.epochs = [Reading::dtls12(suite, key, id)].into();
        }
        Some(())
    }

    /// Takes the verdicts on records that were pending.
    pub(super) fn take_verdicts(&mut self) -> Vec<(u64, Proof)> {
        core::mem::take(&mut self.verdicts)
    }

    /// Ends the input.
    pub(super) fn finish(&mut self) {
        for reading in self.client.epochs.iter_mut().chain(&mut self.server.epochs) {
            reading.finish();
            self.verdicts.extend(core::iter::from_fn(|| reading.next_verdict()));
        }
    }
}
