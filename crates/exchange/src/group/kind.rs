//! The two kinds of members: with peers on the heap, or in memory of a fixed size.

use super::Received;
use super::ledger::MemoryLedger;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::SocketAddr;
use lightseal_aes_table::Aes128;
use lightseal_core::Instant;
use lightseal_group::directory::{Lookup, Page};
use lightseal_group::member::{Delivery, Event, Member, RequestKind, SendError, Stats};
use lightseal_group::symmetric::{Ccm, DatagramOrigin, SymmetricEvent, SymmetricMember};
use lightseal_group::{ListenerId, SenderId};

/// The longest datagram that a member in fixed memory sends on its own, in bytes.
const LONGEST_SYNC: usize = 64;

/// A member in fixed memory, which follows at most four other senders and eight listeners.
pub(super) type FixedMember = SymmetricMember<Ccm<Aes128, 8>, MemoryLedger, 4, 8>;

/// What a member wants of its host.
pub(super) enum Wish {
    /// Public keys.
    Lookup(Lookup),
    /// The keys of the epoch after this one, which the controller has announced.
    Keys(u64),
}

/// A member of either kind.
pub(super) enum GroupEngine {
    Heap(Box<Member>),
    /// With counters, which this kind does not have itself.
    Fixed(Box<FixedMember>, Stats),
}

impl GroupEngine {
    pub(super) fn stats(&self) -> &Stats {
        match self {
            Self::Heap(member) => member.stats(),
            Self::Fixed(_, stats) => stats,
        }
    }

    pub(super) fn request(
        &mut self,
        now: Instant,
        content: &[u8],
        buf: &mut [u8],
    ) -> Result<usize, SendError> {
        match self {
            Self::Heap(member) => member.request(now, content, buf),
            Self::Fixed(member, _) => member.request(now, content, buf),
        }
    }

    pub(super) fn request_to(
        &mut self,
        now: Instant,
        listener: ListenerId,
        content: &[u8],
        buf: &mut [u8],
    ) -> Result<(SocketAddr, usize), SendError> {
        match self {
            Self::Heap(member) => member.request_to(now, listener, content, buf),
            Self::Fixed(..) => Err(SendError::NoPairwiseKeys),
        }
    }

    pub(super) fn respond(
        &mut self,
        now: Instant,
        (sender, kind): (SenderId, RequestKind),
        content: &[u8],
        buf: &mut [u8],
    ) -> Result<(SocketAddr, usize), SendError> {
        match self {
            Self::Heap(member) => member.respond(now, sender, kind, content, buf),
            Self::Fixed(member, _) => member.respond(now, sender, content, buf),
        }
    }

    /// Takes a datagram to the group or to this member alone, and returns what it delivers.
    pub(super) fn receive(
        &mut self,
        now: Instant,
        (from, is_multicast): (SocketAddr, bool),
        datagram: &mut [u8],
    ) -> Vec<Received> {
        let mut received = Vec::new();
        let deliver = |delivery: Delivery<'_>| received.push(Received::from(delivery));
        match (self, is_multicast) {
            (Self::Heap(member), true) => {
                member.receive_multicast(now, from, datagram, deliver);
            }
            (Self::Heap(member), false) => {
                member.receive_unicast(now, from, datagram, deliver);
            }
            (Self::Fixed(member, stats), _) => {
                let origin = match is_multicast {
                    true => member.receive_multicast(now, from, datagram, deliver),
                    false => member.receive_unicast(now, from, datagram, deliver),
                };
                stats.strangers += u64::from(origin == DatagramOrigin::Unproven);
            }
        }
        received
    }

    /// Takes a page of public keys.
    pub(super) fn learn(&mut self, now: Instant, page: impl FnOnce(u64) -> Page) {
        if let Self::Heap(member) = self {
            let page = page(member.keys().epoch());
            member.learn(now, &page);
        }
    }

    /// Takes the grant that the controller would send to this member alone.
    pub(super) fn take_grant(&mut self, now: Instant, grant: &[u8]) {
        if let Self::Fixed(member, _) = self {
            // A member refuses only what is malformed or old, and remains in its epoch then.
            let _ = member.grant(now, grant);
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        match self {
            Self::Heap(member) => member.handle_timeout(now),
            Self::Fixed(member, _) => member.handle_timeout(now),
        }
    }

    pub(super) fn wake_at(&self, now: Instant) -> Instant {
        match self {
            Self::Heap(member) => member.wake_at(now),
            Self::Fixed(member, _) => member.wake_at(now),
        }
    }

    /// What the member wants next. New epochs are counted in `rekeyed`.
    pub(super) fn next_wish(&mut self, rekeyed: &mut u32) -> Option<Wish> {
        loop {
            match self {
                Self::Heap(member) => match member.next_event()? {
                    Event::Lookup(lookup) => return Some(Wish::Lookup(lookup)),
                    Event::Rekeyed(_) => *rekeyed += 1,
                    // This kind gets its keys by multicast, and there is no controller to ask.
                    _ => {}
                },
                Self::Fixed(member, _) => match member.next_event()? {
                    SymmetricEvent::Pull(pull) => return Some(Wish::Keys(pull.epoch)),
                    SymmetricEvent::Rekeyed(_) => *rekeyed += 1,
                    _ => {}
                },
            }
        }
    }

    /// The next datagram that the member sends on its own.
    pub(super) fn poll_transmit(&mut self, now: Instant) -> Option<(SocketAddr, Vec<u8>)> {
        match self {
            Self::Heap(member) => {
                member.poll_transmit().map(|transmit| (transmit.to, transmit.datagram))
            }
            Self::Fixed(member, _) => {
                let mut buf = [0; LONGEST_SYNC];
                let (to, len) = member.poll_transmit(now, &mut buf)?;
                Some((to, buf.get(..len)?.to_vec()))
            }
        }
    }
}
