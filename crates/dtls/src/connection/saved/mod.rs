//! Associations that outlive their process.
//!
//! An association with [`Settings::write_ahead`](crate::Settings::write_ahead) tells its host what
//! must be durable ([`Event::Save`](super::Event::Save)), and goes on when the host has stored it
//! ([`Connection::saved`]). One rule makes every crash harmless: **no datagram leaves and no payload
//! is delivered before what they depend on is durable.** Two things are needed for that:
//!
//! - The state is that of the last write ([`Revision`]). It changes with handshake messages and with
//!   epochs, so that an ACK never leaves before the effect of what it acknowledges, and no message
//!   before its body, which a successor sends again.
//! - Record numbers are reserved: those sent are below [`Marks::send_below`], and those delivered
//!   below [`Marks::deliver_below`]. Both are ahead of the traffic, so that records seldom wait.
//!
//! What may be lost is written within [`SAVE_INTERVAL`]: acknowledged messages, old epochs, failed
//! authentications, the peer's address. An association that was idle for that long gives back the
//! numbers that it has reserved: its successor then delivers the peer's next payload.
//!
//! A successor ([`Connection::restore`]) begins at `send_below`, delivers nothing below
//! `deliver_below`, and is quiet until the peer is heard or the application sends. In DTLS 1.3 it then
//! begins a new epoch and requests one of the peer, where all numbers count again.

mod marks;
mod shared;
mod state;
mod successor;
mod unsaved;

pub use marks::{Marks, RestoreError, SaveError, SavedAssociation};
pub use shared::OpenSets;
use successor::{Adopted, Renewal};

use super::stage::Stage;
use super::{Connection, Role};
use crate::config::Lookup;
use crate::credential::psk::KEY_CHECK;
use crate::credential::{PeerKey, PeerLookup};
use crate::messages::RecordNumber;
use crate::parts::{self, Part, PartState};
use crate::record::epochs::{APPLICATION_EPOCH, EPOCH_12};
use crate::record::{ReceiveBuffer, ReceiveEpoch, RecordId, SendEpoch};
use crate::timer::Timer;
use crate::tuning::{
    DELIVERIES_12, LEAST_DELIVERIES_12, LEAST_RESERVE, MOST_RESERVE, RECORDS_OF_DATAGRAM,
    SAVE_INTERVAL,
};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use lightseal_core::{AddressPair, Instant};

/// The version of the format of [`SavedAssociation::state`]. A change of any field is another version.
/// A build reads its own versions and those for which it has code. It never guesses, so that after a
/// downgrade peers need new handshakes.
///
/// An association that has negotiated shared tags is written in [`SHARED_FORMAT`], and any other one
/// as it was written before there was that format.
pub(super) const FORMAT: u8 = 1;
/// As [`FORMAT`], with what only shared tags need.
pub(super) const SHARED_FORMAT: u8 = 2;

/// What an association keeps in order to be saved, and about its predecessor.
#[derive(Clone, Debug)]
pub(super) struct Persistence {
    part: parts::Persistence,
    /// Whether the association writes ahead. One that was only restored does not.
    writes: bool,
    /// Identifies the key of the PSK; zero without a PSK. `None` before it is known.
    key_check: Option<[u8; KEY_CHECK]>,
    /// The last write that the host has confirmed, and the one that it has not.
    durable: Option<Written>,
    pending: Option<Written>,
    /// The number of the last write, confirmed or not.
    version: u64,
    sending: Reserve,
    delivering: Reserve,
    /// The epoch and number after the highest payload that was handed to the receive buffer.
    top: (u64, u64),
    /// Payloads before this epoch and number may have been delivered by a predecessor.
    floor: (u64, u64),
    /// How many record numbers predecessors have skipped, and where this association began.
    skipped: u64,
    began_at: u64,
    /// The numbers in use when the timer was last set, and whether it has expired since.
    used: (u64, (u64, u64)),
    look: bool,
    /// The reserved numbers were given back.
    idle: bool,
    /// `None` unless the association was restored.
    adopted: Option<Adopted>,
    /// Payloads that wait for the write that must come before their delivery: since when, and how many.
    #[expect(clippy::box_collection, reason = "hardly any association has such payloads")]
    unsaved: Option<Box<VecDeque<(Instant, usize)>>>,
}

/// What was written.
#[derive(Clone, Copy, Debug)]
struct Written {
    marks: Marks,
    revision: Revision,
    later: Later,
}

/// What changes whenever a part of the state changes that must be durable before any output: each
/// handshake message in either direction, each epoch, and each change to a spare connection ID, after
/// which the peer forgets the ID before, changes one of these numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Revision {
    send_epoch: u64,
    receive_epoch: u64,
    next_out: u32,
    next_in: u32,
    spare_ids: usize,
}

/// What may be written later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Later {
    messages: usize,
    oldest: u64,
    is_used: bool,
    failed: u64,
    to: AddressPair,
}

/// The next record number of the sending epoch, and how many numbers a successor leaves out at most.
#[derive(Clone, Copy, Debug)]
struct Next {
    number: u64,
    gap: u64,
}

/// How many numbers are reserved at once: about a second's.
#[derive(Clone, Copy, Debug)]
struct Reserve {
    count: u64,
    at: Instant,
}

impl Reserve {
    const NEW: Self = Self { count: LEAST_RESERVE, at: Instant::ZERO };

    /// For the delivery of payloads, in an association that begins here or elsewhere.
    const fn delivering(is_12: bool) -> Self {
        match is_12 {
            true => Self { count: LEAST_DELIVERIES_12, at: Instant::ZERO },
            false => Self::NEW,
        }
    }

    /// Reserves again, at least this many numbers, where the last reservation should have lasted this
    /// long at least.
    fn renew(&mut self, now: Instant, least: u64, interval: core::time::Duration) {
        let since = now.saturating_since(self.at);
        if since < interval {
            self.count = (self.count * 2).min(MOST_RESERVE);
        } else if since > interval * 4 {
            self.count = (self.count / 2).max(least);
        }
        self.at = now;
    }
}

impl Persistence {
    /// The state of an association that begins.
    pub(super) const fn new(part: parts::Persistence, writes: bool) -> Self {
        Self {
            part,
            writes,
            key_check: None,
            durable: None,
            pending: None,
            version: 0,
            sending: Reserve::NEW,
            delivering: Reserve::NEW,
            top: (0, 0),
            floor: (0, 0),
            skipped: 0,
            began_at: 0,
            used: (0, (0, 0)),
            look: false,
            idle: false,
            adopted: None,
            unsaved: None,
        }
    }

    /// A payload with this epoch and number is about to be handed to the receive buffer. Returns
    /// whether it may be: a predecessor has not delivered it.
    pub(super) fn admits(&mut self, epoch: u64, number: u64) -> bool {
        let admitted = self.floor <= (epoch, number);
        if admitted {
            self.top = self.top.max((epoch, number + 1));
        }
        admitted
    }

    /// Whether the association was restored and its predecessor has not ended in an orderly way.
    #[cfg(feature = "persistence")]
    fn is_cut(&self) -> bool {
        self.adopted.is_some_and(|adopted| adopted.cut)
    }

    fn is_dormant(&self) -> bool {
        self.adopted.is_some_and(|adopted| adopted.dormant)
    }

    /// Decides whether a write is due, and how many numbers it reserves. `next` is the next record
    /// number of the sending epoch.
    fn begin_write(
        &mut self,
        (now, is_12): (Instant, bool),
        revision: Revision,
        later: Later,
        next: u64,
    ) -> bool {
        let (top, durable) = (self.top, self.durable);
        let changed = durable.is_none_or(|durable| durable.revision != revision);
        let looks = core::mem::take(&mut self.look);
        let rests = looks && core::mem::replace(&mut self.used, (next, top)) == (next, top);
        // An idle association reserves nothing before it has to.
        let (ahead, delivered) = match self.idle && !changed {
            true => (RECORDS_OF_DATAGRAM, 0),
            false => (self.sending.count / 2, self.delivering.count / 2),
        };
        let (mut send, mut deliver) = (false, false);
        if let Some(Written { marks, .. }) = durable {
            send = changed || next + ahead.max(RECORDS_OF_DATAGRAM) > marks.send_below;
            let wanted = (top.0, top.1 + delivered);
            deliver = wanted > (marks.deliver_epoch, marks.deliver_below);
        }
        let stale = durable.is_some_and(|durable| looks && durable.later != later);
        let lowers = rests && !self.idle;
        if !(changed || send || deliver || stale || lowers) {
            return false;
        }
        if send || deliver {
            self.idle = false;
        } else if rests {
            self.idle = true;
        }
        if send {
            self.sending.renew(now, LEAST_RESERVE, SAVE_INTERVAL);
        }
        if deliver {
            match is_12 {
                true => self.delivering.renew(now, LEAST_DELIVERIES_12, DELIVERIES_12),
                false => self.delivering.renew(now, LEAST_RESERVE, SAVE_INTERVAL),
            }
        }
        true
    }

    /// The marks of the next write, which reserve numbers from `next.number` on. `oldest` is the oldest epoch in
    /// which the peer may send payloads.
    fn next_marks(&mut self, revision: Revision, next: Next, oldest: u64, is_12: bool) -> Marks {
        let Next { number: next, gap } = next;
        let (send_ahead, deliver_ahead) = match self.idle {
            true => (LEAST_RESERVE, 0),
            false => (self.sending.count, self.delivering.count),
        };
        let (deliver_epoch, deliver_below) = match self.top.max(self.floor) {
            // Nothing was delivered yet. The peer may not have the ACK of its KeyUpdate.
            (0, _) => (oldest, 0),
            delivered => delivered,
        };
        self.version += 1;
        let send_below = next + send_ahead.max(RECORDS_OF_DATAGRAM * 2);
        Marks {
            version: self.version,
            send_epoch: revision.send_epoch,
            send_below,
            deliver_epoch,
            deliver_below: deliver_below + deliver_ahead,
            skipped: if is_12 { 0 } else { self.skipped + (send_below - next) + gap },
        }
    }

    /// Whether what is durable includes this state, and reserves the numbers before `next` and
    /// `top`. A write that may or may not have reached the store counts only as far as both allow.
    fn covers(&self, revision: Revision, next: u64, top: (u64, u64)) -> bool {
        let reserves = |written: &Written| {
            let marks = written.marks;
            (marks.send_epoch != revision.send_epoch || next <= marks.send_below)
                && top <= (marks.deliver_epoch, marks.deliver_below)
        };
        let Some(durable) = self.durable.filter(|durable| durable.revision == revision) else {
            return false;
        };
        reserves(&durable) && self.pending.as_ref().is_none_or(reserves)
    }
}

impl Connection {
    /// The part that saves the association, if it can be saved as it is now.
    fn saving(&self) -> Option<&Persistence> {
        let persistence = self.persistence.get().filter(|persistence| persistence.writes)?;
        let Stage::Established(_) = &self.stage else { return None };
        // A client's Finished is sent under the handshake's keys, which are not saved: until it is
        // acknowledged the association ends with its process.
        let alone = matches!(self.channel.send.all(), [_]);
        let savable = alone && persistence.key_check.is_some();
        savable.then_some(persistence)
    }

    /// Whether a datagram may leave now.
    pub(super) fn may_transmit(&self) -> bool {
        if !parts::Persistence::IS_INCLUDED {
            return true;
        }
        let Some(persistence) = self.saving() else { return true };
        let next = self.next_number() + RECORDS_OF_DATAGRAM;
        let behind = (0, 0);
        !persistence.is_dormant() && persistence.covers(self.revision(), next, behind)
    }

    /// Whether the payloads in the receive buffer may be delivered now.
    pub(super) fn may_deliver(&self) -> bool {
        if !parts::Persistence::IS_INCLUDED {
            return true;
        }
        let Some(persistence) = self.saving() else { return true };
        !persistence.is_dormant() && persistence.covers(self.revision(), 0, persistence.top)
    }

    /// How many record numbers a successor leaves out at most, besides those that were reserved.
    fn longest_gap(&self) -> u64 {
        self.channel.send.peek().map_or(0, SendEpoch::longest_gap)
    }

    fn next_number(&self) -> u64 {
        self.channel.send.peek().map_or(0, SendEpoch::next)
    }

    fn revision(&self) -> Revision {
        Revision {
            send_epoch: self.channel.send.peek().map_or(0, SendEpoch::epoch),
            receive_epoch: self.channel.receive.newest().map_or(0, ReceiveEpoch::epoch),
            next_out: self.channel.flight.next_number(),
            next_in: self.incoming.taken(),
            spare_ids: self.spare_ids(),
        }
    }

    /// The newest epoch in which the peer has sent, or else the oldest in which it may send payloads, and
    /// the number after its highest record there. A newer epoch may have keys here alone: the peer
    /// changes to it when it has the ACK of its KeyUpdate.
    #[cfg(feature = "persistence")]
    fn heard(&self) -> (u64, u64) {
        let least = if self.is_12() { EPOCH_12 } else { APPLICATION_EPOCH };
        let mut epochs = self.channel.receive.all().iter().filter(|epoch| epoch.epoch() >= least);
        let used = epochs.clone().rfind(|epoch| epoch.is_used());
        let heard = used.or_else(|| epochs.next());
        heard.map_or((0, 0), |epoch| (epoch.epoch(), epoch.authentic_end()))
    }

    fn later(&self) -> Later {
        let receive = self.channel.receive.all();
        let newest = receive.last().map(ReceiveEpoch::for_successor);
        Later {
            messages: self.channel.flight.len(),
            oldest: receive.first().map_or(0, ReceiveEpoch::epoch),
            is_used: newest.is_some_and(|(_, used, _)| used),
            failed: newest.map_or(0, |(_, _, failed)| failed),
            to: self.path.to(),
        }
    }

    /// The handshake is complete: notes which key it used.
    pub(super) fn begin_saving(&mut self) {
        if self.persistence.get().is_none_or(|persistence| !persistence.writes) {
            return;
        }
        let (key_check, is_12) = (self.key_check(), self.is_12());
        if let Some(persistence) = self.persistence.get_mut() {
            persistence.key_check = key_check;
            persistence.delivering = Reserve::delivering(is_12);
        }
        if self.may_share_tags() {
            self.role.held(&mut self.held).note_deliveries(None);
        }
    }

    /// Identifies the key of the PSK, zero without a PSK; `None` if the key is not known.
    fn key_check(&self) -> Option<[u8; KEY_CHECK]> {
        let negotiated = self.agreed()?;
        if negotiated.psk_identity.is_empty() {
            return Some([0; KEY_CHECK]);
        }
        let saved = self.persistence.get().and_then(|persistence| persistence.key_check);
        let used = negotiated.key_check.map(|check| check.0).or(saved);
        match self.role.look_up(&negotiated.psk_identity) {
            Lookup::Found(psk) => used.or(Some(psk.check().0)),
            Lookup::Later => used,
            Lookup::Unknown => None,
        }
    }

    /// What the host is to store next, if anything.
    pub(super) fn next_save(&mut self) -> Option<(parts::Persistence, Box<SavedAssociation>)> {
        let persistence = self.saving()?;
        if persistence.pending.is_some() || persistence.is_dormant() {
            return None;
        }
        let (revision, later, next) = (self.revision(), self.later(), self.next_number());
        let (now, is_12, gap) = (self.now, self.is_12(), self.longest_gap());
        let persistence = self.persistence.get_mut()?;
        let (part, durable) = (persistence.part, persistence.durable);
        if !persistence.begin_write((now, is_12), revision, later, next) {
            return None;
        }
        let oldest = later.oldest.max(if is_12 { EPOCH_12 } else { APPLICATION_EPOCH });
        let next = Next { number: next, gap };
        let marks = persistence.next_marks(revision, next, oldest, is_12);
        persistence.pending = Some(Written { marks, revision, later });
        let is_same = |durable: Written| durable.revision == revision && durable.later == later;
        let state = if durable.is_some_and(is_same) { None } else { self.state(false) };
        Some((part, Box::new(SavedAssociation::of(marks, state))))
    }

    /// Sets the timer of what may be saved later.
    pub(super) fn schedule_saving(&mut self) {
        let Some(Persistence { durable: Some(durable), idle, .. }) = self.saving() else { return };
        let waits = !idle || durable.later != self.later();
        if waits && !self.timers.is_set(Timer::Save) {
            self.timers.set(Timer::Save, self.now + SAVE_INTERVAL);
        }
    }

    /// The timer of what may be saved later has expired.
    pub(super) fn saving_due(&mut self) {
        if let Some((_, reason)) = self.ending.farewell() {
            // The alert has waited long enough for a write.
            return self.end(reason);
        }
        if let Some(persistence) = self.persistence.get_mut() {
            persistence.look = true;
        }
    }

    /// Whether nothing waits to be saved.
    pub(super) fn is_saved(&self) -> bool {
        let Some(persistence) = self.saving() else { return true };
        let durable = persistence.durable;
        let same =
            |durable: Written| durable.revision == self.revision() && durable.later == self.later();
        persistence.is_dormant()
            || persistence.pending.is_none() && persistence.idle && durable.is_some_and(same)
    }

    /// The host has stored what [`Event::Save`](super::Event::Save) of this version asked for. What
    /// waited for it follows in the output. Other versions have no effect.
    #[cfg(feature = "persistence")]
    pub fn saved(&mut self, now: Instant, version: u64) {
        self.now = self.now.max(now);
        if let Some(persistence) = self.persistence.get_mut()
            && let Some(written) = persistence.pending.take_if(|w| w.marks.version == version)
        {
            persistence.durable = Some(written);
        }
    }

    /// Saves the association and ends it without a word to the peer, so that
    /// [`restore`](Self::restore) goes on with it: for a device before deep sleep, and for a host
    /// that stops. Nothing may be sent or delivered by this connection afterwards.
    ///
    /// **What is returned serves once**: who restores it twice uses nonces twice. A store marks it
    /// as used before it is restored.
    ///
    /// Messages of the peer under shared tags that have not arrived yet are lost
    /// ([`security_level`](Self::security_level) says how many messages wait), and messages of this end
    /// get their tag before: an open set is closed. In a direction with shared tags, the successor's
    /// data waits for its new keys.
    ///
    /// # Errors
    /// Fails while output waits: poll it first. Payloads that wait to be sent are output too, and so is
    /// the tag of an open set.
    #[cfg(feature = "persistence")]
    pub fn save(&mut self, now: Instant) -> Result<SavedAssociation, SaveError> {
        self.now = self.now.max(now);
        let part = parts::Persistence::INCLUDED.ok_or(SaveError::NotConnected)?;
        if !self.is_connected() {
            return Err(SaveError::NotConnected);
        }
        let [send] = self.channel.send.all() else { return Err(SaveError::Busy) };
        if send.has_open_data() {
            self.close_sets(now);
            return Err(SaveError::Busy);
        }
        let undelivered =
            self.held.get().is_some_and(|held| held.ready_len() > 0) || self.taken.is_some();
        if !self.queue.is_empty() || undelivered || !self.acks.is_empty() {
            return Err(SaveError::Busy);
        }
        let key_check = self.key_check().ok_or(SaveError::UnknownKey)?;
        let (revision, heard, gap) = (self.revision(), self.heard(), self.longest_gap());
        let persistence =
            self.persistence.get_or_insert_with(part, || Persistence::new(part, false));
        persistence.key_check = Some(key_check);
        persistence.version += 1;
        let (deliver_epoch, deliver_below) = heard.max(persistence.top).max(persistence.floor);
        let (version, skipped) = (persistence.version, persistence.skipped + gap);
        let renews = persistence.adopted.is_some_and(|of| of.renewal != Renewal::Done);
        let marks = Marks {
            version,
            send_epoch: revision.send_epoch,
            send_below: self.next_number(),
            deliver_epoch,
            deliver_below,
            skipped,
        };
        let state = self.state(!renews).ok_or(SaveError::Busy)?;
        self.abandon_undecided();
        self.end(crate::error::CloseReason::Local);
        self.notices.clear();
        Ok(SavedAssociation::of(marks, Some(state)))
    }

    /// Payloads that wait for shared tags are lost, and counted.
    fn abandon_undecided(&mut self) {
        for epoch in self.channel.receive.all_mut() {
            let outcomes = epoch.abandon(self.role.held(&mut self.held));
            self.stats.received(|received| received.count(&outcomes));
        }
    }

    /// Notes which payloads under shared tags were handed to the receive buffer.
    pub(super) fn note_delivered(&mut self) {
        if let Some(persistence) = self.persistence.get_mut()
            && let Some(RecordId { epoch, number }) =
                self.held.get().and_then(ReceiveBuffer::newest_delivered)
        {
            persistence.top = persistence.top.max((epoch, number + 1));
        }
    }

    /// Whether a payload may be handed to the receive buffer.
    pub(super) fn admits(&mut self, epoch: u64, number: u64) -> bool {
        self.persistence.get_mut().is_none_or(|persistence| persistence.admits(epoch, number))
    }

    /// Whether a predecessor may have received a record: it does not tell where the peer is now.
    pub(super) fn may_repeat(&self, epoch: u64, number: u64) -> bool {
        self.persistence.get().is_some_and(|persistence| (epoch, number) < persistence.floor)
    }

    /// A record of ours was acknowledged: if it came after what predecessors skipped, the peer has
    /// followed.
    pub(super) fn followed(&mut self, record: RecordNumber) {
        if let Some(persistence) = self.persistence.get_mut()
            && record.number >= persistence.began_at
        {
            persistence.skipped = 0;
        }
    }

    /// A new sending epoch begins.
    pub(super) fn nothing_skipped(&mut self) {
        if let Some(persistence) = self.persistence.get_mut() {
            (persistence.skipped, persistence.began_at) = (0, 0);
        }
    }

    /// Whether records need long numbers, because the peer may not have followed yet.
    pub(super) fn has_skipped(&self) -> bool {
        self.persistence.get().is_some_and(|persistence| persistence.skipped > 0)
    }
}

impl Role {
    /// Looks up the PSK with an identity.
    fn look_up(&self, identity: &[u8]) -> Lookup {
        match self {
            Self::Client(config) => {
                config.psk.clone().filter(|psk| psk.identity() == identity).into()
            }
            Self::Server(config) => config.psks.look_up(identity),
        }
    }

    /// Whether this end accepts a client that has proved this key. Only servers ask.
    pub(super) fn look_up_client(&self, client: &PeerKey) -> PeerLookup {
        match self {
            Self::Client(_) => PeerLookup::Accepted,
            Self::Server(config) => {
                let certificates = config.certificates.get();
                certificates.map_or(PeerLookup::Accepted, |own| own.look_up(client))
            }
        }
    }

    /// Whether this end still accepts a peer without a PSK that has this verified key. A client had
    /// asked for `server_name`.
    fn still_accepts(&self, peer: Option<&PeerKey>, server_name: Option<&str>) -> bool {
        match self {
            Self::Client(config) => {
                let certificates = config.certificates.get();
                certificates.is_some_and(|own| own.still_accept(peer, server_name))
            }
            Self::Server(config) => {
                config.certificates.get().is_some_and(|own| own.still_accept(peer))
            }
        }
    }
}

/// The state of a new association.
pub(super) fn begin(role: &Role) -> PartState<parts::Persistence, Persistence> {
    let mut persistence = PartState::EMPTY;
    if let Some(part) = role.settings().write_ahead() {
        persistence.set(part, Persistence::new(part, true));
    }
    persistence
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    /// A successor of DTLS 1.2 delivers nothing below what was reserved.
    #[test]
    fn deliveries_of_dtls_12_are_reserved_for_two_seconds_at_most() {
        for per_second in [1_u64, 4, 30, 1000] {
            let mut reserve = Reserve::delivering(true);
            let (mut now, mut below) = (Instant::ZERO, 0);
            for top in 1..=per_second * 60 {
                now += Duration::from_secs(1) / u32::try_from(per_second).unwrap();
                if top + reserve.count / 2 > below {
                    reserve.renew(now, LEAST_DELIVERIES_12, DELIVERIES_12);
                    below = top + reserve.count;
                }
            }
            let most = LEAST_DELIVERIES_12.max(2 * per_second);
            assert!(reserve.count <= most, "{per_second} a second: {} reserved", reserve.count);
            assert!(8 * reserve.count >= per_second, "{per_second} a second: writes are rare");
        }
    }
}
