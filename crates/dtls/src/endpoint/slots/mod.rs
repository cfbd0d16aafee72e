//! Session slots: which associations hold one, get one, and lose one.

#[cfg(any(test, not(feature = "many-associations")))]
mod listed;
#[cfg(feature = "many-associations")]
mod sorted;

use super::{AssociationRole, Endpoint, Entry, Handle};
use crate::codepoints::AlertDescription;
use crate::config::{Evicted, SessionSlots};
use crate::error::{CloseReason, Fault, Limit};
use crate::parts;
use crate::tuning::{MAX_UNPROVED, UNPROVED_TIMEOUTS};
use core::num::NonZeroU64;
use lightseal_core::Instant;
#[cfg(not(feature = "many-associations"))]
pub(super) use listed::Slots;
#[cfg(feature = "many-associations")]
pub(super) use sorted::Slots;

/// A complete association, as it is sorted.
#[derive(Clone, Copy, Debug)]
struct Session {
    /// When its handshake was complete, or a later time at which records came from its peer.
    at: Instant,
    /// A digest of its authenticated peer, if sessions may be evicted. Several peers may have the same.
    peer: Option<NonZeroU64>,
}

/// Where a new handshake gets its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotSource {
    /// A slot is free, or will be made free by eviction when the handshake is complete.
    Free,
    /// The slot of this handshake, which ends.
    Of(Handle),
}

/// What a peer has proved when its handshake begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientProof {
    /// Its key and its address, or this endpoint itself begins the handshake.
    Complete,
    /// Its key, its address or both are still to be proved.
    Missing(parts::Unproved),
}

impl ClientProof {
    /// What a peer has proved; `is_complete` tells whether that is its key and its address.
    pub(super) fn known(is_complete: impl FnOnce() -> bool) -> Self {
        match parts::Unproved::INCLUDED {
            Some(part) if !is_complete() => Self::Missing(part),
            _ => Self::Complete,
        }
    }
}

impl Endpoint {
    /// Where a new client gets its slot; `None` if it is to be refused.
    pub(super) fn room(&mut self, proof: ClientProof) -> Option<SlotSource> {
        let SessionSlots { most: Some(most), .. } = self.config.slots else {
            return Some(SlotSource::Free);
        };
        let can_evict = self.candidate().is_some();
        let (handshakes, sessions) = (self.slots.handshakes(), self.slots.sessions());
        let fits = |handshakes: usize| {
            handshakes + sessions < most.get() || can_evict && handshakes < most.get()
        };
        if fits(handshakes) {
            return Some(SlotSource::Free);
        }
        let _part = parts::Unproved::INCLUDED?;
        let oldest = self.slots.first_unproved()?;
        let patience = self.config.settings.initial_timeout.saturating_mul(UNPROVED_TIMEOUTS);
        let since = self.entries.get(&oldest)?.heard;
        let gives_way = proof == ClientProof::Complete || self.now >= since + patience;
        (gives_way && fits(handshakes - 1)).then_some(SlotSource::Of(oldest))
    }

    /// Where a restored association gets its slot; `None` if all are sessions'. It evicts none of them:
    /// those that were restored before it, or are in use here, are worth as much.
    pub(super) fn room_for_restored(&mut self) -> Option<SlotSource> {
        let most = self.config.slots.most;
        let is_full = most.is_some_and(|most| self.slots.sessions() >= most.get());
        (!is_full).then(|| self.room(ClientProof::Complete)).flatten()
    }

    /// The session that is evicted if a client completes its handshake now.
    fn candidate(&mut self) -> Option<Handle> {
        match self.config.slots.when_full.evicts()? {
            Evicted::Oldest(_) => self.slots.first_session(),
            Evicted::Idle(_, least) => {
                let entries = &self.entries;
                let heard = |handle| entries.get(&handle).map(|entry| entry.heard);
                let (since, handle) = self.slots.quietest(heard)?;
                (self.now >= since + least).then_some(handle)
            }
        }
    }

    /// If the oldest sessions are evicted: the oldest one of the client that has completed the
    /// handshake `newcomer`, among its sessions that have not been heard since that handshake
    /// began. A client that begins anew from another port, because it has lost its session or
    /// found the server silent, thus costs no other client its session.
    fn own_former(&self, newcomer: Handle) -> Option<Handle> {
        let Some(Evicted::Oldest(_)) = self.config.slots.when_full.evicts() else { return None };
        let accepted = |entry: &&Entry| entry.part == AssociationRole::Server;
        let newcomer = self.entries.get(&newcomer).filter(accepted)?;
        let is_own = |entry: &Entry| entry.heard < newcomer.began && entry.has_same_peer(newcomer);
        self.slots
            .of_peer(newcomer.peer_digest()?)
            .find(|handle| self.entries.get(handle).filter(accepted).is_some_and(is_own))
    }

    /// Makes room for a new handshake and gives it the slot.
    pub(super) fn enter(&mut self, handle: Handle, room: SlotSource, proof: ClientProof) {
        if let SlotSource::Of(handshake) = room {
            self.dismiss(handshake, AlertDescription::INTERNAL_ERROR, CloseReason::Crowded);
        }
        if let ClientProof::Missing(_) = proof
            && self.slots.unproved() >= MAX_UNPROVED
            && let Some(oldest) = self.slots.first_unproved()
            && let Some(entry) = self.entries.get_mut(&oldest)
        {
            entry.connection.wake().abandon(CloseReason::Crowded);
            self.touch(oldest);
        }
        self.slots.begin(handle, proof);
    }

    /// A client has completed its handshake. It takes the place of its older association, and
    /// another client's slot if necessary.
    pub(super) fn completed(&mut self, handle: Handle) {
        self.replace_older(handle);
        let open = |entry: &&mut Entry| entry.connection.is_open();
        let Some(entry) = self.entries.get_mut(&handle).filter(open) else { return };
        // A resumed session stays stored for its original lifetime, or is in its ticket; the
        // session ID beside a ticket is chosen by the client.
        let resumed = entry.connection.negotiated().is_some_and(|agreed| agreed.resumed);
        let session = entry.connection.wake().take_session_12().filter(|_| !resumed);
        if self.take_slot(handle)
            && let Some(session) = session
        {
            self.sessions.remember(self.now, session, self.config.remembered_sessions);
        }
    }

    /// Gives the slot of a session to an association whose handshake is complete, for which another
    /// one may be evicted. Returns `false` if there is none: the association then ends.
    pub(super) fn take_slot(&mut self, handle: Handle) -> bool {
        let mut session = Session { at: self.now, peer: None };
        if let Some(most) = self.config.slots.most {
            if self.config.slots.when_full.evicts().is_some() {
                session.peer = self.entries.get(&handle).and_then(Entry::peer_digest);
            }
            while self.slots.sessions() >= most.get() {
                let Some(evicted) = self.own_former(handle).or_else(|| self.candidate()) else {
                    self.stats.note(|stats| stats.full += 1);
                    if let Some(entry) = self.entries.get_mut(&handle) {
                        entry.connection.wake().turn_away(Fault::Limit(Limit::SessionSlots));
                    }
                    return false;
                };
                self.stats.note(|stats| stats.evicted += 1);
                self.dismiss(evicted, AlertDescription::CLOSE_NOTIFY, CloseReason::Evicted);
            }
        }
        self.slots.complete(handle, session);
        true
    }

    /// Ends an association in favour of another one, and sends its peer an alert.
    fn dismiss(&mut self, handle: Handle, alert: AlertDescription, reason: CloseReason) {
        if let Some(entry) = self.entries.get_mut(&handle) {
            entry.connection.wake().farewell(alert, reason);
            self.touch(handle);
        }
        // The slot is free immediately, whether or not the alert can be sent.
        self.slots.release(handle);
    }
}
