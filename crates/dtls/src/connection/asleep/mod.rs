//! Associations that sleep.
//!
//! Most associations of a large server are idle. Such an association needs neither buffers nor
//! expanded keys: its parameters, secrets and counters are written one after the other into bytes,
//! from which the association is made again when somebody uses it.
//!
//! An association can sleep when nothing waits to be sent, acknowledged, reassembled or taken by the
//! application, and no timer runs but that of [`Liveness`](super::liveness) and that of replaced
//! epochs, whose receiving secrets it keeps: a peer that repeats its last flight is answered. In DTLS
//! 1.2 it also keeps its own last flight, which nobody acknowledges. Shared tags keep it awake: they
//! join each record to those before it.

use super::form::{read_addresses, read_negotiated, write_addresses, write_negotiated};
use super::ids::Ids;
use super::liveness::Liveness;
use super::mtu::{PathMtu, PathSearch};
use super::saved::Persistence;
use super::stage::Stage;
use super::{Connection, Ending, LossMeter, Role};
use crate::config::session::Session12;
use crate::crypto::{
    CipherSuite, CipherSuite12, ExporterSecret, KeptSecret, MasterSecret12, TrafficSecret,
};
use crate::handshake::flight::Flight;
use crate::handshake::parameters::Parameters;
use crate::handshake::reassembly::Reassembly;
use crate::handshake::{
    Channel, Established, EstablishedKeys, EstablishedKeys12, KeptRandom, Negotiated,
    OfferedSchemes, RenegotiationRefusal, keep_exporter,
};
use crate::parts::{self, InlineState, LossReports, OfPart, PartState};
use crate::record::epochs::EPOCH_12;
use crate::record::own_ids::OwnIds;
use crate::record::{ConnectionId, NumberLength, ReceiveEpoch, SendEpoch};
use crate::stats::Stats;
use crate::timer::{Retransmission, Timer};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use lightseal_aggregation::Scheme;
use lightseal_core::wire::BufferFull;
use lightseal_core::{DecodeError, Instant, Reader, Writer};
use zeroize::Zeroizing;

/// The most bytes that an association is written into. One that takes more, because its identities
/// are long, stays awake.
const MOST_BYTES: usize = 2048;
/// The bytes for which there is room at first.
const ROOM: usize = 512;

/// Why the bytes of an association can be read.
const WRITTEN_HERE: &str = "an association reads the bytes that it has written";

/// An association that sleeps: it takes a fraction of the memory of a [`Connection`], and can do
/// nothing before [`wake`](Self::wake).
///
/// An [`Endpoint`](crate::Endpoint) lets its associations sleep by itself
/// ([`Settings::sleep_after`](crate::Settings)). This type is for programs that keep connections of
/// their own, such as a device with many sessions and little memory. It needs the feature `sleep`.
pub struct SleepingConnection {
    role: Role,
    rng: KeptRandom,
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
    pub(super) data_overhead: u16,
    /// Whether records that are sent can be padded.
    pub(super) can_pad: bool,
    /// The security level in bits of data that is received. None of it waits for tags.
    pub(super) security_bits: u8,
}

/// What an association is made for.
#[derive(Clone, Copy)]
enum Purpose {
    /// It is only read: it has no keys, and draws no random numbers.
    Reading,
    /// It sends and receives.
    Waking,
}

/// What the bytes are read with.
#[derive(Clone)]
enum Keys {
    Dtls12 {
        suite: &'static CipherSuite12,
        session: InlineState<parts::Resumption12, Box<Session12>>,
    },
    Dtls13 {
        suite: &'static CipherSuite,
    },
}

impl Connection {
    /// Whether the association can sleep, as far as that is seen without writing it.
    fn can_sleep(&self) -> bool {
        let searches = |mtu: &PathSearch| !mtu.is_idle();
        self.is_quiet()
            && self.ending == Ending::Open
            && self.timers.only(&[Timer::Liveness, Timer::OldEpoch])
            && self.taken.is_none()
            && self.held_bytes() == 0
            && self.notices.is_empty()
            && self.acks.is_empty()
            && self.early.is_empty()
            && self.early_data.get().is_none()
            && self.incoming.is_empty()
            && (self.channel.flight.is_done() || self.is_12())
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
        self.settings().sleep_after()
    }

    /// Lets the association sleep, if it has nothing to do. Its host wakes it to send on it, for each
    /// datagram from its peer, and at the time that [`Output::WakeAt`](crate::Output) named last.
    ///
    /// Awake again, it derives its keys anew: a key block takes some eight HMACs. An association may
    /// sleep as soon as its handshake is acknowledged and its events are taken, unless
    /// [`Settings::sleep_after`](crate::Settings) is `None`: it then keeps no secret of the
    /// handshake, and is awake until it has erased the keys that follow from it.
    ///
    /// # Errors
    /// Returns the association if something waits to be sent, acknowledged, or taken by the
    /// application, if a timer runs that cannot wait, and always if its records share tags.
    #[cfg(feature = "sleep")]
    pub fn fall_asleep(mut self: Box<Self>) -> Result<SleepingConnection, Box<Self>> {
        self.sleep().ok_or(self)
    }

    /// Lets the association sleep; `None` if it cannot. The connection must not be used afterwards.
    pub(crate) fn sleep(&mut self) -> Option<SleepingConnection> {
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
            data_overhead: send.largest_data_overhead(NumberLength::Two) as u16,
            can_pad: send.can_pad(),
            security_bits: receive.security_level().delivered,
        };
        if !self.can_sleep() {
            return None;
        }
        Some(SleepingConnection {
            bytes: self.written(established)?,
            role: self.role.clone(),
            rng: self.channel.rng.take(),
            keys,
            ids: self.ids.clone(),
            liveness: self.liveness.clone(),
            mtu: self.mtu.clone(),
            loss: self.loss.clone(),
            persistence: self.persistence.clone(),
            read_only,
        })
    }

    /// What [`write`](Self::write) writes; `None` if that is not all, or too long.
    fn written(&self, established: &Established) -> Option<Zeroizing<Box<[u8]>>> {
        let mut room = ROOM;
        while room <= MOST_BYTES {
            let mut buffer = Zeroizing::new(vec![0; room]);
            let mut w = Writer::new(&mut buffer);
            match self.write(established, &mut w) {
                Ok(true) => return Some(Zeroizing::new(w.written().into())),
                Ok(false) => return None,
                Err(BufferFull) => room *= 2,
            }
        }
        None
    }

    /// Writes what is kept of an association that sleeps. Returns whether that is all of it.
    ///
    /// ```text
    /// | statistics | negotiated parameters | addresses | times | numbers of handshake messages
    /// | last flight | limits | connection IDs | epochs | secrets | progress of all epochs |
    /// ```
    ///
    /// The secrets are those of the sending epoch, the exporter's, and of the receiving epochs; in DTLS
    /// 1.2 the master secret and the randoms of both ends.
    fn write(&self, established: &Established, w: &mut Writer<'_>) -> Result<bool, BufferFull> {
        let Established { keys, parameters, offered } = established;
        let Some(negotiated) = parameters.get() else { return Ok(false) };
        let channel = &self.channel;
        let [send] = channel.send.all() else { return Ok(false) };
        let receive = channel.receive.all();
        if !offered.is_empty() || negotiated.send.aggregates() || negotiated.receive.aggregates() {
            return Ok(false);
        }
        self.stats.get().write(w)?;
        write_negotiated(negotiated, w)?;
        write_addresses(self.path.to(), w)?;
        w.varint(self.now.as_micros())?;
        self.write_deadline(Timer::Liveness, w)?;
        self.write_deadline(Timer::OldEpoch, w)?;
        self.retransmission.write(w)?;
        w.varint(self.timers.repeats_from().as_micros())?;
        self.finished.write(w)?;
        self.key_update.write(w)?;
        self.incoming.write(w)?;
        channel.flight.write_saved(w)?;
        w.varint(channel.plaintext_next)?;
        w.varint(channel.record_limit.into())?;
        w.varint(channel.receive_limit.into())?;
        w.vec8(|w| w.bytes(&channel.send_cid))?;
        w.vec8(|w| w.bytes(&self.cid))?;
        channel.own_ids.write(w)?;
        w.varint(send.epoch())?;
        w.u8(receive.len() as u8)?;
        receive.iter().try_for_each(|receive| w.varint(receive.epoch()))?;
        match keys {
            EstablishedKeys::Dtls12(keys) => {
                w.bytes(keys.master.as_bytes())?;
                w.bytes(&keys.client_random)?;
                w.bytes(&keys.server_random)?;
            }
            EstablishedKeys::Dtls13 { send, receive: newest, exporter, .. } => {
                w.bytes(send.as_bytes())?;
                if let Some(exporter) = exporter.get() {
                    w.bytes(exporter.as_bytes())?;
                }
                let Some((_, replaced)) = receive.split_last() else { return Ok(false) };
                for replaced in replaced {
                    let secret = channel.replaced_secret(replaced.epoch());
                    let Some(secret) = secret else { return Ok(false) };
                    w.bytes(secret.as_bytes())?;
                }
                w.bytes(newest.as_bytes())?;
            }
        }
        let mut complete = send.write_progress(w)?;
        for receive in receive {
            complete &= receive.write_progress(w)?;
        }
        Ok(complete)
    }

    /// Writes when a timer expires: zero if it is not set.
    fn write_deadline(&self, timer: Timer, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        w.varint(self.timers.deadline(timer).as_micros().wrapping_add(1))
    }

    /// Reads what [`write_deadline`](Self::write_deadline) has written.
    fn read_deadline(&mut self, timer: Timer, r: &mut Reader<'_>) -> Result<(), DecodeError> {
        self.timers.set(timer, Instant::from_micros(r.varint()?.wrapping_sub(1)));
        Ok(())
    }
}

impl SleepingConnection {
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

    /// The association, awake.
    pub fn wake(mut self) -> Box<Connection> {
        self.awaken()
    }

    /// The association, awake. Nothing may be made of `self` afterwards.
    pub(crate) fn awaken(&mut self) -> Box<Connection> {
        let mut connection = self.read(Purpose::Waking).expect(WRITTEN_HERE);
        connection.channel.rng = self.rng.take();
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
        let mut r = Reader::new(&self.bytes);
        let stats = Stats::read(&mut r)?;
        let negotiated = read_negotiated(self.suite_name(), &mut r)?;
        let to = read_addresses(&mut r)?;
        let now = Instant::from_micros(r.varint()?);
        let channel = Channel::new(KeptRandom::EMPTY, self.role.settings(), 0, 0);
        let role = self.role.clone();
        let (peer, incoming) = (to.peer, Reassembly::default());
        let mut connection = Box::new(Connection::new(role, peer, now, channel, incoming));
        connection.stats.restore(stats);
        connection.path.set(to);
        connection.timers.stop_all();
        connection.read_deadline(Timer::Liveness, &mut r)?;
        connection.read_deadline(Timer::OldEpoch, &mut r)?;
        connection.retransmission = Retransmission::read(&mut r)?;
        connection.timers.set_repeats_from(Instant::from_micros(r.varint()?));
        connection.finished.read(&mut r)?;
        connection.key_update.read(&mut r)?;
        connection.incoming = Reassembly::read(&mut r)?;
        let Connection { channel, cid, stage, .. } = &mut *connection;
        channel.flight = Flight::read_saved(&mut r)?;
        channel.plaintext_next = r.varint()?;
        channel.record_limit = r.varint()? as u16;
        channel.receive_limit = r.varint()? as u16;
        channel.send_cid = ConnectionId::read(&mut r)?;
        *cid = ConnectionId::read(&mut r)?;
        channel.own_ids = OwnIds::read(&mut r)?;
        let send_epoch = r.varint()?;
        let receive_epochs =
            (0..r.u8()?).map(|_| r.varint()).collect::<Result<Vec<_>, DecodeError>>()?;
        let epochs = (send_epoch, &receive_epochs[..]);
        let keys = self.keys(channel, &negotiated, purpose, epochs, &mut r)?;
        if matches!(purpose, Purpose::Waking) {
            channel.send.newest().map_or(Ok(()), |send| send.read_progress(&mut r))?;
            for receive in channel.receive.all_mut() {
                receive.read_progress(&mut r)?;
            }
            r.finish()?;
        }
        *stage = Stage::Established(Box::new(Established {
            keys,
            parameters: Parameters::new(negotiated),
            offered: OfferedSchemes::default(),
        }));
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

    /// Reads the secrets, and for an association that wakes up installs the keys of these epochs (of
    /// sending and receiving) that follow from them.
    fn keys(
        &self,
        channel: &mut Channel,
        negotiated: &Negotiated,
        purpose: Purpose,
        (send_epoch, receive_epochs): (u64, &[u64]),
        r: &mut Reader<'_>,
    ) -> Result<EstablishedKeys, DecodeError> {
        match &self.keys {
            Keys::Dtls12 { suite, session } => {
                let master = MasterSecret12::from_bytes(suite.hash, r.array()?);
                let (client_random, server_random) = (r.array()?, r.array()?);
                if matches!(purpose, Purpose::Waking) {
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
                let mut exporter = None;
                if parts::Exporter::INCLUDED.is_some() {
                    exporter = Some(ExporterSecret::new(suite.hash, r.take(len)?));
                }
                let exporter = keep_exporter(exporter);
                let receive = match purpose {
                    Purpose::Waking => {
                        channel.install_sending(send_epoch, suite, (&send, Scheme::Plain));
                        let epochs = receive_epochs.iter().map(|epoch| (*epoch, Scheme::Plain));
                        channel.install_all_receiving(suite, epochs, r)?
                    }
                    Purpose::Reading => {
                        // The newest secret is the last one.
                        r.take(len * receive_epochs.len().saturating_sub(1))?;
                        TrafficSecret::new(suite.hash, r.take(len)?)
                    }
                };
                let resumption = PartState::EMPTY;
                Ok({
                    let (send, receive) = (KeptSecret::of(&send), KeptSecret::of(&receive));
                    EstablishedKeys::Dtls13 { suite, send, receive, exporter, resumption }
                })
            }
        }
    }
}

impl fmt::Debug for SleepingConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SleepingConnection")
            .field("bytes", &self.bytes.len())
            .finish_non_exhaustive()
    }
}
