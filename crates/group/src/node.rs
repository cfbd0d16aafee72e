//! A node that is a member of several groups: which of them a datagram is for.
//!
//! A request's group is told by the multicast address and port that it was sent to, a response's
//! by its GroupID and the port that it came to (Axiom, sections 5.4 and 6.1). Where that leaves
//! several groups, because they share an address, or a GroupID and a port, the epoch is looked at,
//! and after that the tag alone tells: then, and only then, the datagram is copied. What is another
//! group's counts there as a record whose tag is wrong.

use crate::member::{Delivery, Event, Member, Transmit};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::SocketAddr;
use vocabulary::Instant;
use zeroize::Zeroize;

/// A member's place in its [`Node`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seat(u32);

/// Whose a datagram was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A member of this group wrote it.
    By(Seat),
    /// It is of a unicast DTLS session, which takes precedence (Axiom, section 5.6).
    Session,
    /// Of no group here, or of none that can tell.
    Nobody,
}

/// The members that a node is.
#[derive(Debug, Default)]
pub struct Node {
    members: BTreeMap<Seat, (SocketAddr, Member)>,
    next: u32,
    scratch: Vec<u8>,
}

impl Node {
    /// A node that is no member yet.
    pub const fn new() -> Self {
        Self { members: BTreeMap::new(), next: 0, scratch: Vec::new() }
    }

    /// Takes a member that sends from `local`, whose address may be the unspecified one.
    pub fn add(&mut self, local: SocketAddr, member: Member) -> Seat {
        let seat = Seat(self.next);
        self.next += 1;
        self.members.insert(seat, (local, member));
        seat
    }

    /// Gives a member up.
    pub fn remove(&mut self, seat: Seat) -> Option<Member> {
        self.members.remove(&seat).map(|(_, member)| member)
    }

    /// A member.
    pub fn member(&mut self, seat: Seat) -> Option<&mut Member> {
        self.members.get_mut(&seat).map(|(_, member)| member)
    }

    /// All members, and where they send from.
    pub fn members(&self) -> impl Iterator<Item = (Seat, SocketAddr, &Member)> {
        self.members.iter().map(|(seat, (local, member))| (*seat, *local, member))
    }

    /// Takes a datagram that came from `from` to `to`, a multicast address or one of the node's
    /// own, and delivers what is in it. It is decrypted where it stands.
    pub fn receive(
        &mut self,
        now: Instant,
        from: SocketAddr,
        to: SocketAddr,
        datagram: &mut [u8],
        mut deliver: impl FnMut(Seat, Delivery<'_>),
    ) -> Received {
        let is_multicast = to.ip().is_multicast();
        let is_for = |local: &SocketAddr, member: &Member| {
            let own = if is_multicast { member.policy().address } else { *local };
            let any = !is_multicast && own.ip().is_unspecified();
            own.port() == to.port() && (any || own.ip() == to.ip())
        };
        let mut last = None;
        for (seat, (local, member)) in &self.members {
            if !is_for(local, member) {
                continue;
            }
            if !is_multicast && member.has_session(from) {
                return Received::Session;
            }
            if member.may_open(datagram, is_multicast) {
                last = Some(*seat);
            }
        }
        // Those that have no such epoch come after those that have: they do not open it, but one
        // of them may have missed a rekey.
        for fits in [true, false] {
            for (seat, (local, member)) in &mut self.members {
                if !is_for(local, member) || member.may_open(datagram, is_multicast) != fits {
                    continue;
                }
                let before = member.authentic();
                let deliver = |delivery: Delivery<'_>| deliver(*seat, delivery);
                let copy = fits && last != Some(*seat);
                let datagram = if copy {
                    self.scratch.extend_from_slice(datagram);
                    &mut self.scratch[..]
                } else {
                    &mut *datagram
                };
                if is_multicast {
                    member.receive_multicast(now, from, datagram, deliver);
                } else {
                    member.receive_unicast(now, from, datagram, deliver);
                }
                if copy {
                    self.scratch.zeroize();
                }
                if member.authentic() > before {
                    return Received::By(*seat);
                }
            }
        }
        Received::Nobody
    }

    /// Lets what is due by `now` happen.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.members.values_mut().for_each(|(_, member)| member.handle_timeout(now));
    }

    /// When [`Self::handle_timeout`] is to be called next; `None`: never.
    pub fn wake_at(&self, now: Instant) -> Option<Instant> {
        self.members.values().map(|(_, member)| member.wake_at(now)).min()
    }

    /// What the host should know or do next, and for which member.
    pub fn next_event(&mut self) -> Option<(Seat, Event)> {
        self.members
            .iter_mut()
            .find_map(|(seat, (_, member))| member.next_event().map(|event| (*seat, event)))
    }

    /// What is to be sent next, and by which member: from its address.
    pub fn poll_transmit(&mut self) -> Option<(Seat, Transmit)> {
        self.members
            .iter_mut()
            .find_map(|(seat, (_, member))| member.poll_transmit().map(|sent| (*seat, sent)))
    }
}
