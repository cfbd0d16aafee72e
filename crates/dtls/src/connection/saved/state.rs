//! The form of a saved association's state, and how it becomes an association again.
//!
//! ```text
//! | format (8) | flags (8) | check value of the PSK (64) | negotiated parameters | addresses
//! | next message in | messages out that are not acknowledged | KeyUpdates | connection IDs owed
//! | next plaintext record | limits | connection IDs | shared tags | sending epoch
//! | number of receiving epochs (8) | { epoch | next record | used (8) | failures | scheme } ...
//! | secrets |
//! ```
//!
//! Shared tags and schemes are there if shared tags were negotiated, and the format tells.
//! Numbers without a length are LEB128, each in as few bytes as possible. The secrets of DTLS 1.3 are
//! those of the sending epoch, of the exporter and of the receiving epochs; of DTLS 1.2 the master
//! secret and the randoms of both ends. There is one form of each state: what is read must be written
//! the same way.

use super::marks::{RestoreError, SavedAssociation};
use super::shared::{self, SharedTags};
use super::{Adopted, FORMAT, Persistence, Renewal, Reserve, SHARED_FORMAT};
use crate::codepoints::{HandshakeType, MAX_CONTENT, MAX_RECORD_NUMBER};
use crate::config::{ClientConfig, Lookup, ProtocolVersion, ServerConfig};
use crate::connection::form::{read_addresses, read_negotiated, write_addresses, write_negotiated};
use crate::connection::stage::Stage;
use crate::connection::update::KeyUpdateState;
use crate::connection::{Connection, Role, ids};
use crate::credential::PeerLookup;
use crate::credential::psk::{KEY_CHECK, KeyCheck};
use crate::crypto::{ExporterSecret, KeptSecret, MasterSecret12, TrafficSecret};
use crate::handshake::flight::Flight;
use crate::handshake::parameters::Parameters;
use crate::handshake::reassembly::Reassembly;
use crate::handshake::{
    Channel, Established, EstablishedKeys, EstablishedKeys12, KeptRandom, Negotiated,
    RenegotiationRefusal, keep_exporter,
};
use crate::parts::{self, InlineState, OfPart, PartState};
use crate::record::epochs::{APPLICATION_EPOCH, EPOCH_12, HANDSHAKE_EPOCH};
use crate::record::own_ids::OwnIds;
use crate::record::{ConnectionId, ReceiveEpoch, RecordId, SendEpoch};
use crate::timer::Timer;
use crate::tuning::{HANDSHAKE_KEYS_LIFETIME, MOST_RESERVE, MOST_SKIPPED, MOST_VERSION};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::net::SocketAddr;
use lightseal_aggregation::Scheme;
use lightseal_core::wire::BufferFull;
use lightseal_core::{DecodeError, Instant, Random, Reader, Writer};
use zeroize::Zeroizing;

/// The bits of the flags.
const SERVER: u8 = 1;
/// The predecessor has ended in an orderly way, so that its successor needs no new keys.
const CLEAN: u8 = 2;

/// The bytes for which there is room at first, and at most: handshake messages may be long.
const ROOM: usize = 1024;
const MOST_ROOM: usize = 1 << 20;

/// The longest record limit that is valid, in bytes.
const MOST_LIMIT: u64 = MAX_CONTENT as u64 + 1;

/// One receiving epoch: its number, what [`ReceiveEpoch::for_successor`] returned, and its scheme.
struct SavedEpoch {
    epoch: u64,
    progress: (u64, bool, u64),
    scheme: Scheme,
}

impl Connection {
    /// All that a successor needs but the marks; `None` if it is more than can be written, which no
    /// peer can bring about, or if a secret is not kept.
    pub(super) fn state(&self, clean: bool) -> Option<Zeroizing<Vec<u8>>> {
        let mut room = ROOM;
        while room <= MOST_ROOM {
            let mut buffer = Zeroizing::new(vec![0; room]);
            let mut w = Writer::new(&mut buffer);
            match self.write_state(clean, &mut w) {
                Ok(written) => {
                    let len = w.len();
                    return written.then(|| Zeroizing::new(buffer[..len].to_vec()));
                }
                Err(BufferFull) => room *= 4,
            }
        }
        None
    }

    /// Writes the state. Returns whether that was possible.
    fn write_state(&self, clean: bool, w: &mut Writer<'_>) -> Result<bool, BufferFull> {
        let Stage::Established(established) = &self.stage else { return Ok(false) };
        let Established { keys, parameters, offered } = &**established;
        let Some(negotiated) = parameters.get() else { return Ok(false) };
        let Some(key_check) = self.persistence.get().and_then(|saved| saved.key_check) else {
            return Ok(false);
        };
        let Some(send) = self.channel.send.peek() else { return Ok(false) };
        let Some(receive) = self.living_epochs() else { return Ok(false) };
        let channel = &self.channel;
        let shares = !offered.is_empty();
        w.u8(if shares { SHARED_FORMAT } else { FORMAT })?;
        let server = matches!(self.role, Role::Server(..));
        w.u8(if server { SERVER } else { 0 } | if clean { CLEAN } else { 0 })?;
        w.bytes(&key_check)?;
        write_negotiated(negotiated, w)?;
        write_addresses(self.path.to(), w)?;
        self.incoming.write(w)?;
        channel.flight.write_saved(w)?;
        self.key_update.write(w)?;
        ids::write_saved(&self.ids, w)?;
        w.varint(channel.plaintext_next)?;
        w.varint(channel.record_limit.into())?;
        w.varint(channel.receive_limit.into())?;
        w.vec8(|w| w.bytes(&channel.send_cid))?;
        w.vec8(|w| w.bytes(&self.cid))?;
        channel.own_ids.write(w)?;
        if shares {
            shared::write(offered, send.scheme(), &self.updates, w)?;
        }
        w.varint(send.epoch())?;
        w.u8(receive.len() as u8)?;
        for epoch in &receive {
            let (expected, used, failed) = epoch.for_successor();
            w.varint(epoch.epoch())?;
            w.varint(expected)?;
            w.u8(used.into())?;
            w.varint(failed)?;
            if shares {
                shared::write_received(epoch, w)?;
            }
        }
        match keys {
            EstablishedKeys::Dtls12(keys) => {
                w.bytes(keys.master.as_bytes())?;
                w.bytes(&keys.client_random)?;
                w.bytes(&keys.server_random)?;
            }
            EstablishedKeys::Dtls13 { send, receive: newest, exporter, .. } => {
                w.bytes(send.as_bytes())?;
                let Some(exporter) = exporter.get() else { return Ok(false) };
                w.bytes(exporter.as_bytes())?;
                if let [old, _] = receive[..] {
                    let Some(old) = channel.replaced_secret(old.epoch()) else { return Ok(false) };
                    w.bytes(old.as_bytes())?;
                }
                w.bytes(newest.as_bytes())?;
            }
        }
        Ok(true)
    }

    /// The receiving epochs whose records a successor reads, oldest first: the newest one, and the one
    /// before it while the peer may still use it. `None` if the secret of the latter is not kept.
    ///
    /// A client sends data as soon as it has sent its Finished, so that data does not show that it has
    /// the ACK: a server reads the handshake's epoch as long as its predecessor would have.
    fn living_epochs(&self) -> Option<Vec<&ReceiveEpoch>> {
        let (newest, older) = self.channel.receive.all().split_last()?;
        let old = older.last().filter(|old| match old.epoch() {
            HANDSHAKE_EPOCH => matches!(self.role, Role::Server(..)),
            epoch => epoch >= APPLICATION_EPOCH && !newest.is_used(),
        });
        let Some(old) = old else { return Some(vec![newest]) };
        match self.channel.replaced_secret(old.epoch()) {
            Some(_) => Some(vec![old, newest]),
            None => (old.epoch() == HANDSHAKE_EPOCH).then(|| vec![newest]),
        }
    }

    /// A client's association that was [saved](SavedAssociation). The configuration must be as that
    /// with which it was made: it names the PSK, and the settings for later.
    ///
    /// Nothing is sent before the peer is heard or the application sends. With
    /// [`Settings::write_ahead`](crate::Settings::write_ahead) nothing is sent or delivered before the
    /// host has stored the next version of what it has restored; without, the host marks what it has
    /// stored as used before this call.
    ///
    /// # Errors
    /// See [`RestoreError`].
    #[cfg(all(feature = "client", feature = "persistence"))]
    pub fn restore(
        config: Arc<ClientConfig>,
        saved: &SavedAssociation,
        now: Instant,
        rng: Random,
    ) -> Result<Self, RestoreError> {
        Self::succeed(Role::Client(OfPart::new(config.part, config)), saved, now, rng)
    }

    /// As [`restore`](Self::restore), for a server's association.
    #[cfg(feature = "persistence")]
    pub(crate) fn restore_server(
        config: Arc<ServerConfig>,
        saved: &SavedAssociation,
        now: Instant,
        rng: Random,
    ) -> Result<Self, RestoreError> {
        Self::succeed(Role::Server(OfPart::new(config.part, config)), saved, now, rng)
    }

    fn succeed(
        role: Role,
        saved: &SavedAssociation,
        now: Instant,
        rng: Random,
    ) -> Result<Self, RestoreError> {
        let part = parts::Persistence::INCLUDED.ok_or(RestoreError::CipherSuite)?;
        let state = saved.state().ok_or(DecodeError::Short)?;
        let writes = role.settings().write_ahead().is_some();
        let mut persistence = Persistence::new(part, writes);
        let (mut connection, clean) = read(part, role, persistence.clone(), state, now, rng)?;
        if connection.state(clean).is_none_or(|written| *written != state) {
            return Err(DecodeError::invalid("form of a saved association").into());
        }
        let marks = saved.marks;
        let send_epoch = connection.channel.send.peek().map(SendEpoch::epoch);
        let newest = connection.channel.receive.newest().map_or(0, ReceiveEpoch::epoch);
        let most = MAX_RECORD_NUMBER + 2 * MOST_RESERVE;
        if send_epoch != Some(marks.send_epoch)
            || marks.deliver_epoch > newest
            || marks.send_below > most
            || marks.deliver_below > most
            || marks.version > MOST_VERSION
        {
            return Err(DecodeError::invalid("marks of a saved association").into());
        }
        if marks.skipped > MOST_SKIPPED {
            return Err(RestoreError::Skipped);
        }
        let longest = connection.channel.record_limit.into();
        if let Some(send) = connection.channel.send.newest() {
            send.succeed(marks.send_below, longest);
        }
        // The marks are newer than the state.
        let floor = (marks.deliver_epoch, marks.deliver_below);
        let longest = connection.channel.receive_limit.into();
        for epoch in connection.channel.receive.all_mut() {
            let (expected, used, failed) = epoch.for_successor();
            if epoch.epoch() == floor.0 {
                let least = floor.1.saturating_sub(MOST_RESERVE);
                epoch.succeed((expected.max(least), used, failed), longest);
            }
            epoch.limit(longest);
        }
        if connection.channel.receive.all().iter().any(|epoch| epoch.epoch() == HANDSHAKE_EPOCH) {
            connection.timers.set(Timer::OldEpoch, now + HANDSHAKE_KEYS_LIFETIME);
        }
        persistence.version = marks.version;
        persistence.key_check = connection.persistence.get().and_then(|saved| saved.key_check);
        persistence.floor = floor;
        if connection.may_share_tags() {
            let floor = RecordId { epoch: floor.0, number: floor.1 };
            connection.role.held(&mut connection.held).note_deliveries(Some(floor));
        }
        persistence.delivering = Reserve::delivering(connection.is_12());
        persistence.skipped = marks.skipped;
        persistence.began_at = connection.next_number();
        persistence.adopted = Some(Adopted {
            dormant: true,
            cut: !clean,
            renewal: if clean && !connection.shares_tags() {
                Renewal::Done
            } else {
                Renewal::AtOnce
            },
            tries: 0,
            waits: false,
            search_from: Some(now),
        });
        connection.persistence.set(part, persistence);
        // The predecessor had the ACK of its KeyUpdate.
        connection.switch_if_closed();
        Ok(connection)
    }
}

impl SavedAssociation {
    /// How the peer's records are told from those of others: its address, and the connection IDs that
    /// they may have, oldest first. A program with several endpoints restores the association where
    /// such records arrive.
    ///
    /// # Errors
    /// If the state is of another format, or is not there.
    pub fn route(&self) -> Result<(SocketAddr, Vec<ConnectionId>), RestoreError> {
        let mut r = Reader::new(self.state().ok_or(DecodeError::Short)?);
        read_format(&mut r)?;
        let _flags = r.u8()?;
        let _: [u8; KEY_CHECK] = r.array()?;
        read_negotiated("", &mut r)?;
        let to = read_addresses(&mut r)?;
        Reassembly::read(&mut r)?;
        Flight::read_saved(&mut r)?;
        KeyUpdateState::default().read(&mut r)?;
        ids::read_saved(&mut r)?;
        for _ in ["next plaintext record", "record limit", "receive limit"] {
            r.varint()?;
        }
        for _ in ["of the peer", "agreed"] {
            ConnectionId::read(&mut r)?;
        }
        Ok((to.peer, OwnIds::read(&mut r)?.iter().collect()))
    }
}

/// Reads the version of the format. Returns whether shared tags were negotiated.
fn read_format(r: &mut Reader<'_>) -> Result<bool, RestoreError> {
    match r.u8()? {
        FORMAT => Ok(false),
        SHARED_FORMAT => Ok(true),
        other => Err(RestoreError::Format(other)),
    }
}

/// Reads what [`Connection::write_state`] has written. Returns also whether the predecessor has ended
/// in an orderly way.
fn read(
    part: parts::Persistence,
    role: Role,
    mut persistence: Persistence,
    state: &[u8],
    now: Instant,
    rng: Random,
) -> Result<(Connection, bool), RestoreError> {
    let mut r = Reader::new(state);
    let shares = read_format(&mut r)?;
    let flags = r.u8()?;
    if (flags & SERVER != 0) != matches!(role, Role::Server(..)) {
        return Err(RestoreError::Role);
    }
    let key_check = r.array()?;
    let mut negotiated = read_negotiated("", &mut r)?;
    negotiated.key_check = (!negotiated.psk_identity.is_empty()).then_some(KeyCheck(key_check));
    check_peer(&role, &negotiated, key_check)?;
    persistence.key_check = Some(key_check);
    let to = read_addresses(&mut r)?;
    let mut channel = Channel::new(KeptRandom::new(rng), role.settings(), 0, 0);
    channel.keep_replaced_secrets();
    let incoming = Reassembly::read(&mut r)?;
    let mut connection = Connection::new(role, to.peer, now, channel, incoming);
    connection.timers.stop_all();
    connection.path.set(to);
    connection.channel.flight = Flight::read_saved(&mut r)?;
    connection.key_update.read(&mut r)?;
    connection.ids = ids::read_saved(&mut r)?;
    let channel = &mut connection.channel;
    channel.plaintext_next = bounded(&mut r, MAX_RECORD_NUMBER / 2, "record number")?;
    channel.record_limit = bounded(&mut r, MOST_LIMIT, "record limit")? as u16;
    channel.receive_limit = bounded(&mut r, MOST_LIMIT, "record limit")? as u16;
    channel.send_cid = ConnectionId::read(&mut r)?;
    connection.cid = ConnectionId::read(&mut r)?;
    channel.own_ids = OwnIds::read(&mut r)?;
    let shared = if shares { SharedTags::read(&mut r)? } else { SharedTags::none() };
    if shares == shared.offered.is_empty() {
        return Err(DecodeError::invalid("aggregation scheme").into());
    }
    read_epochs(&mut connection, negotiated, shared, &mut r)?;
    r.finish()?;
    connection.persistence.set(part, persistence);
    Ok((connection, flags & CLEAN != 0))
}

/// Reads the epochs and their secrets.
fn read_epochs(
    connection: &mut Connection,
    mut negotiated: Negotiated,
    mut shared: SharedTags,
    r: &mut Reader<'_>,
) -> Result<(), RestoreError> {
    let is_12 = negotiated.version == ProtocolVersion::Dtls12;
    let least = if is_12 { EPOCH_12 } else { APPLICATION_EPOCH };
    let send_epoch = bounded(r, MAX_RECORD_NUMBER, "epoch")?;
    let count = r.u8()?;
    let mut epochs = Vec::new();
    for _ in 0..count.min(2) {
        let epoch = bounded(r, MAX_RECORD_NUMBER, "epoch")?;
        let expected = bounded(r, MAX_RECORD_NUMBER + 1, "record number")?;
        let progress = (expected, r.u8()? != 0, bounded(r, 64, "number of failures")?);
        let shares = !shared.offered.is_empty();
        let scheme = if shares { shared.read_received(r)? } else { Scheme::Plain };
        epochs.push(SavedEpoch { epoch, progress, scheme });
    }
    let valid = match &epochs[..] {
        [newest] => newest.epoch >= least && (!is_12 || newest.epoch == EPOCH_12),
        [old, newest] => !is_12 && newest.epoch >= least && newest.epoch == old.epoch + 1,
        _ => false,
    };
    let before = epochs.iter().filter(|epoch| epoch.epoch < APPLICATION_EPOCH);
    let valid = valid && before.into_iter().all(|epoch| !epoch.scheme.aggregates());
    let valid = valid && (!is_12 || shared.offered.is_empty());
    if !valid || count > 2 || send_epoch < least || is_12 && send_epoch != EPOCH_12 {
        return Err(DecodeError::invalid("epoch").into());
    }
    let settings = connection.settings();
    let configured = settings.suites.contains(&negotiated.suite);
    let speaks = configured && settings.versions.contains(&negotiated.version);
    let provider = settings.provider;
    let longest = connection.channel.receive_limit.into();
    let keys = if is_12 {
        let suite = provider.suite_12(negotiated.suite).filter(|_| speaks);
        let suite = suite.ok_or(RestoreError::CipherSuite)?;
        negotiated.suite_name = suite.name;
        let master = MasterSecret12::from_bytes(suite.hash, r.array()?);
        let (client_random, server_random) = (r.array()?, r.array()?);
        let keys = master.keys(suite, &client_random, &server_random);
        let (send, receive) = match connection.role {
            Role::Client(..) => (keys.client, keys.server),
            Role::Server(..) => (keys.server, keys.client),
        };
        let (send_cid, receive_cid) = (negotiated.send_cid, negotiated.receive_cid);
        let channel = &mut connection.channel;
        channel.send.install(SendEpoch::dtls12(EPOCH_12, suite, send, send_cid));
        channel.receive.install(ReceiveEpoch::dtls12(EPOCH_12, suite, receive, receive_cid));
        let keys = EstablishedKeys12 {
            suite,
            master,
            session: InlineState::EMPTY,
            client_random,
            server_random,
            refusal: RenegotiationRefusal::None,
        };
        EstablishedKeys::Dtls12(OfPart::new(suite.part, Box::new(keys)))
    } else {
        let suite = provider.suite(negotiated.suite).filter(|_| speaks);
        let suite = suite.ok_or(RestoreError::CipherSuite)?;
        negotiated.suite_name = suite.name;
        if !shared.offered.is_empty() {
            shared.check(settings, suite)?;
        }
        let len = suite.hash.algorithm().output_len();
        let send = TrafficSecret::new(suite.hash, r.take(len)?);
        let exporter = keep_exporter(Some(ExporterSecret::new(suite.hash, r.take(len)?)));
        let channel = &mut connection.channel;
        channel.install_sending(send_epoch, suite, (&send, shared.send));
        let schemes = epochs.iter().map(|saved| (saved.epoch, saved.scheme));
        let receive = channel.install_all_receiving(suite, schemes, r)?;
        let resumption = PartState::EMPTY;
        {
            let (send, receive) = (KeptSecret::of(&send), KeptSecret::of(&receive));
            EstablishedKeys::Dtls13 { suite, send, receive, exporter, resumption }
        }
    };
    for (epoch, saved) in connection.channel.receive.all_mut().iter_mut().zip(&epochs) {
        epoch.succeed(saved.progress, longest);
    }
    let unanswered = connection.channel.flight.has(HandshakeType::AGGREGATION_UPDATE);
    if let (Some(newest), Some(oldest)) = (connection.channel.receive.newest(), epochs.first()) {
        let waits = shared.updates.succeed(newest, unanswered)?;
        negotiated.send = shared.send;
        negotiated.receive = if waits { oldest.scheme } else { newest.scheme() };
    }
    let SharedTags { offered, updates, .. } = shared;
    connection.updates = updates;
    connection.stage = Stage::Established(Box::new(Established {
        keys,
        parameters: Parameters::new(negotiated),
        offered,
    }));
    Ok(())
}

/// A number of at most `most`.
fn bounded(r: &mut Reader<'_>, most: u64, what: &'static str) -> Result<u64, DecodeError> {
    let number = r.varint()?;
    if number <= most { Ok(number) } else { Err(DecodeError::invalid(what)) }
}

/// Fails unless this end still has the PSK with which the association was made, or still accepts the
/// peer without a PSK.
fn check_peer(
    role: &Role,
    negotiated: &Negotiated,
    key_check: [u8; KEY_CHECK],
) -> Result<(), RestoreError> {
    if negotiated.psk_identity.is_empty() {
        let peer = negotiated.peer_key();
        if !role.still_accepts(peer, negotiated.server_name()) {
            return Err(RestoreError::PeerNotAccepted);
        }
        return match peer.map_or(PeerLookup::Accepted, |peer| role.look_up_client(peer)) {
            PeerLookup::Accepted => Ok(()),
            PeerLookup::Refused(_) => Err(RestoreError::PeerNotAccepted),
            PeerLookup::Later => Err(RestoreError::LookUpLater),
        };
    }
    match role.look_up(&negotiated.psk_identity) {
        Lookup::Found(psk) if psk.check() == KeyCheck(key_check) => Ok(()),
        Lookup::Found(_) | Lookup::Unknown => Err(RestoreError::UnknownKey),
        Lookup::Later => Err(RestoreError::LookUpLater),
    }
}
