//! Associations that sleep.
//!
//! Most associations of a large server are idle. Such an association needs neither buffers nor
//! expanded keys: its parameters, secrets and counters are written one after the other into bytes,
//! from which the association is made again when somebody uses it.
//!
//! An association can sleep when nothing waits to be sent, acknowledged, reassembled or taken by the
//! application, and no timer runs but that of [`Liveness`](super::liveness). Shared tags keep it
//! awake: they join each record to those before it.

use super::form::{read_addresses, read_negotiated, write_addresses, write_negotiated};
use super::ids::Ids;
use super::liveness::Liveness;
use super::mtu::{PathMtu, PathSearch};
use super::saved::Persistence;
use super::stage::Stage;
use super::{Connection, Ending, LossMeter, Role};
use crate::config::session::Session12;
use crate::crypto::{CipherSuite, CipherSuite12, ExporterSecret, MasterSecret12, TrafficSecret};
use crate::handshake::flight::Flight;
use crate::handshake::reassembly::Reassembly;
use crate::handshake::{
    Channel, Established, EstablishedKeys, EstablishedKeys12, Negotiated, OfferedSchemes,
    RenegotiationRefusal,
};
use crate::parts::{self, LossReports, OfPart, PartState};
use crate::record::epochs::EPOCH_12;
use crate::record::own_ids::OwnIds;
use crate::record::{ConnectionId, NumberLength, ReceiveEpoch, SecurityLevel, SendEpoch};
use crate::stats::Stats;
use crate::timer::{Retransmission, Timer};
use alloc::boxed::Box;
use core::fmt;
use core::time::Duration;
use lightseal_aggregation::Scheme;
use lightseal_core::wire::BufferFull;
use lightseal_core::{DecodeError, Instant, Random, Reader, Writer};
use zeroize::Zeroizing;

/// The most bytes that an association is written into. One that takes more, because its identities
/// are long, stays awake.
const MOST_BYTES: usize = 2048;

/// Why the bytes of an association can be read.
const WRITTEN_HERE: &str = "an association reads the bytes that it has written";

/// An association that sleeps.
pub(crate) struct Asleep {
    role: Role,
    rng: Random,
    keys: Keys,
    /// What few associations have.
    ids: Ids,
    liveness: PartState<parts::Liveness, Liveness>,
    mtu: PathMtu,
    loss: PartState<LossReports, LossMeter>,
    persistence: PartState<parts::Persistence, Persistence>,
    read_only: ReadOnly,
    /// See [`Connection::write`].
    bytes: Zeroizing<Box<[u8]>>,
}

/// What an association that is made to be read knows of its keys, which are not derived for that.
/// Neither changes while it sleeps.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadOnly {
    /// The largest overhead in bytes of application data that is sent, for any record number.
    pub(super) data_overhead: usize,
    /// The security level of data that is received.
    pub(super) security_level: SecurityLevel,
}

/// What an association is made for.
enum Purpose {
    /// It is only read: it has no keys, and draws no random numbers.
    Reading,
    /// It sends and receives.
    Waking,
}

/// What the bytes are read with.
#[derive(Clone)]
enum Keys {
    Dtls12 { suite: &'static CipherSuite12, session: Option<Box<Session12>> },
    Dtls13 { suite: &'static CipherSuite },
}

impl Connection {
    /// Whether the association can sleep, as far as that is seen without writing it.
    fn can_sleep(&self) -> bool {
        let searches = |mtu: &PathSearch| !mtu.is_idle();
        self.is_quiet()
            && self.ending == Ending::Open
            && self.timers.only(Timer::Liveness)
            && self.taken.is_none()
            && self.held.bytes() == 0
            && self.notices.is_empty()
            && self.acks.is_empty()
            && self.early.is_empty()
            && self.early_data.get().is_none()
            && self.incoming.is_empty()
            && self.channel.flight.is_done()
            && self.key_update.is_at_rest()
            && self.updates.is_over()
            && self.path.is_settled()
            && self.is_saved()
            && self.pace.get().is_none()
            && self.adaptation.get().is_none()
            && !self.mtu.get().is_some_and(searches)
    }

    /// How long nobody has used the association when it is to fall asleep.
    pub(crate) fn sleep_after(&self) -> Option<Duration> {
        self.settings().sleep_after.filter(|_| parts::Sleep::INCLUDED.is_some())
    }

    /// Lets the association sleep; `None` if it cannot. The connection must not be used afterwards.
    pub(crate) fn sleep(&mut self) -> Option<Asleep> {
        let Stage::Established(established) = &self.stage else { return None };
        let keys = match &established.keys {
            EstablishedKeys::Dtls12(keys) if keys.refusal == RenegotiationRefusal::None => {
                Keys::Dtls12 { suite: keys.suite, session: keys.session.clone() }
            }
            EstablishedKeys::Dtls13 { suite, resumption, .. } if resumption.get().is_none() => {
                Keys::Dtls13 { suite }
            }
            _ => return None,
        };
        let (send, receive) = (self.channel.send.peek()?, self.channel.receive.newest()?);
        let read_only = ReadOnly {
            data_overhead: send.largest_data_overhead(NumberLength::Two),
            security_level: receive.security_level(),
        };
        let mut buffer = Zeroizing::new([0; MOST_BYTES]);
        let mut w = Writer::new(&mut *buffer);
        if !self.can_sleep() || !self.write(established, &mut w).ok()? {
            return None;
        }
        Some(Asleep {
            bytes: Zeroizing::new(w.written().into()),
            role: self.role.clone(),
            rng: core::mem::replace(&mut self.channel.rng, Random::from_seed([0; 32])),
            keys,
            ids: self.ids.clone(),
            liveness: self.liveness.clone(),
            mtu: self.mtu.clone(),
            loss: self.loss.clone(),
            persistence: self.persistence.clone(),
            read_only,
        })
    }

    /// Writes what is kept of an association that sleeps. Returns whether that is all of it.
    ///
    /// ```text
    /// | statistics | negotiated parameters | addresses | times | numbers of handshake messages
    /// | limits | connection IDs | epochs | secrets | progress of both epochs |
    /// ```
    ///
    /// The secrets are those of both directions and the exporter's, in DTLS 1.2 the master secret and
    /// the randoms of both ends.
    fn write(&self, established: &Established, w: &mut Writer<'_>) -> Result<bool, BufferFull> {
        let Established { keys, negotiated, offered } = established;
        let channel = &self.channel;
        let [send] = channel.send.all() else { return Ok(false) };
        let [receive] = channel.receive.all() else { return Ok(false) };
        if !offered.is_empty() || negotiated.send.aggregates() || negotiated.receive.aggregates() {
            return Ok(false);
        }
        self.stats.get().write(w)?;
        write_negotiated(negotiated, w)?;
        write_addresses(self.path.to, w)?;
        w.varint(self.now.as_micros())?;
        w.varint(self.timers.deadline(Timer::Liveness).as_micros())?;
        self.retransmission.write(w)?;
        self.finished.write(w)?;
        self.key_update.write(w)?;
        self.incoming.write(w)?;
        w.varint(channel.flight.next_number().into())?;
        w.varint(channel.plaintext_next)?;
        w.varint(channel.record_limit as u64)?;
        w.varint(channel.receive_limit as u64)?;
        w.vec8(|w| w.bytes(&channel.send_cid))?;
        w.vec8(|w| w.bytes(&self.cid))?;
        channel.own_ids.write(w)?;
        w.varint(send.epoch())?;
        w.varint(receive.epoch())?;
        match keys {
            EstablishedKeys::Dtls12(keys) => {
                w.bytes(keys.master.as_bytes())?;
                w.bytes(&keys.client_random)?;
                w.bytes(&keys.server_random)?;
            }
            EstablishedKeys::Dtls13 { send, receive, exporter, .. } => {
                w.bytes(send.as_bytes())?;
                w.bytes(receive.as_bytes())?;
                w.bytes(exporter.as_bytes())?;
            }
        }
        Ok(send.write_progress(w)? & receive.write_progress(w)?)
    }
}

impl Asleep {
    /// The counters of the association.
    pub(crate) fn stats(&self) -> Stats {
        Stats::read(&mut Reader::new(&self.bytes)).expect(WRITTEN_HERE)
    }

    /// The negotiated parameters.
    pub(crate) fn negotiated(&self) -> Negotiated {
        let mut r = Reader::new(&self.bytes);
        let read = Stats::read(&mut r).and_then(|_| read_negotiated(self.suite_name(), &mut r));
        read.expect(WRITTEN_HERE)
    }

    /// The association, to be read. No keys are derived for this.
    pub(crate) fn view(&self) -> Box<Connection> {
        self.read(Purpose::Reading).expect(WRITTEN_HERE)
    }

    /// The association, awake. Nothing may be made of `self` afterwards.
    pub(crate) fn wake(&mut self) -> Box<Connection> {
        let mut connection = self.read(Purpose::Waking).expect(WRITTEN_HERE);
        core::mem::swap(&mut connection.channel.rng, &mut self.rng);
        connection
    }

    const fn suite_name(&self) -> &'static str {
        match &self.keys {
            Keys::Dtls12 { suite, .. } => suite.name,
            Keys::Dtls13 { suite } => suite.name,
        }
    }

    /// Reads what [`Connection::write`] has written. The generator of random numbers is left out.
    fn read(&self, purpose: Purpose) -> Result<Box<Connection>, DecodeError> {
        let rng = Random::from_seed([0; 32]);
        let mut r = Reader::new(&self.bytes);
        let stats = Stats::read(&mut r)?;
        let negotiated = read_negotiated(self.suite_name(), &mut r)?;
        let to = read_addresses(&mut r)?;
        let now = Instant::from_micros(r.varint()?);
        let channel = Channel::new(rng, self.role.settings(), 0, 0);
        let role = self.role.clone();
        let (peer, incoming) = (to.peer, Reassembly::default());
        let mut connection = Box::new(Connection::new(role, peer, now, channel, incoming));
        connection.stats.restore(stats);
        connection.path.to = to;
        connection.timers.stop_all();
        connection.timers.set(Timer::Liveness, Instant::from_micros(r.varint()?));
        connection.retransmission = Retransmission::read(&mut r)?;
        connection.finished.read(&mut r)?;
        connection.key_update.read(&mut r)?;
        connection.incoming = Reassembly::read(&mut r)?;
        let Connection { channel, cid, stage, .. } = &mut *connection;
        channel.flight = Flight::after(r.varint()? as u32);
        channel.plaintext_next = r.varint()?;
        channel.record_limit = r.varint()? as usize;
        channel.receive_limit = r.varint()? as usize;
        channel.send_cid = ConnectionId::read(&mut r)?;
        *cid = ConnectionId::read(&mut r)?;
        channel.own_ids = OwnIds::read(&mut r)?;
        let epochs = (r.varint()?, r.varint()?);
        let epochs = matches!(purpose, Purpose::Waking).then_some(epochs);
        let keys = self.keys(channel, &negotiated, epochs, &mut r)?;
        if epochs.is_some() {
            channel.send.newest().map_or(Ok(()), |send| send.read_progress(&mut r))?;
            channel.receive.newest_mut().map_or(Ok(()), |receive| receive.read_progress(&mut r))?;
            r.finish()?;
        }
        *stage = Stage::Established(Established {
            keys,
            negotiated,
            offered: OfferedSchemes::default(),
        });
        connection.ids = self.ids.clone();
        connection.liveness = self.liveness.clone();
        connection.mtu = self.mtu.clone();
        connection.loss = self.loss.clone();
        connection.persistence = self.persistence.clone();
        if let (Purpose::Reading, Some(part)) = (purpose, parts::Sleep::INCLUDED) {
            connection.read_only.set(part, self.read_only);
        }
        Ok(connection)
    }

    /// Reads the secrets, and for these epochs (of sending and receiving) installs the keys that follow
    /// from them.
    fn keys(
        &self,
        channel: &mut Channel,
        negotiated: &Negotiated,
        epochs: Option<(u64, u64)>,
        r: &mut Reader<'_>,
    ) -> Result<EstablishedKeys, DecodeError> {
        match &self.keys {
            Keys::Dtls12 { suite, session } => {
                let master = MasterSecret12::from_bytes(suite.hash, r.array()?);
                let (client_random, server_random) = (r.array()?, r.array()?);
                if epochs.is_some() {
                    let keys = master.keys(suite, &client_random, &server_random);
                    let (send, receive) = match self.role {
                        Role::Client(..) => (keys.client, keys.server),
                        Role::Server(..) => (keys.server, keys.client),
                    };
                    let Negotiated { send_cid, receive_cid, .. } = *negotiated;
                    let send = SendEpoch::dtls12(EPOCH_12, suite, send, send_cid);
                    let receive = ReceiveEpoch::dtls12(EPOCH_12, suite, receive, receive_cid);
                    channel.send.install(send);
                    channel.receive.install(receive);
                }
                let session = session.clone();
                let refusal = RenegotiationRefusal::None;
                Ok(EstablishedKeys::Dtls12(OfPart::new(
                    suite.part,
                    Box::new(EstablishedKeys12 {
                        suite,
                        master,
                        session,
                        client_random,
                        server_random,
                        refusal,
                    }),
                )))
            }
            Keys::Dtls13 { suite } => {
                let len = suite.hash.algorithm().output_len();
                let send = TrafficSecret::new(suite.hash, r.take(len)?);
                let receive = TrafficSecret::new(suite.hash, r.take(len)?);
                let exporter = ExporterSecret::new(suite.hash, r.take(len)?);
                if let Some((send_epoch, receive_epoch)) = epochs {
                    channel.install_sending(send_epoch, suite, (&send, Scheme::Plain));
                    channel.install_receiving(receive_epoch, suite, (&receive, Scheme::Plain));
                }
                let resumption = PartState::EMPTY;
                Ok(EstablishedKeys::Dtls13 { suite, send, receive, exporter, resumption })
            }
        }
    }
}

impl fmt::Debug for Asleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asleep").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}
