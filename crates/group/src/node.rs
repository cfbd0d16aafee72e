//! A node that is a member of several groups, and how it finds the group that a datagram is for.
//!
//! The group of a request follows from the multicast address and port that it was sent to, the
//! group of a response from its GroupID and the port at which it arrived (Axiom, sections 5.4 and
//! 6.1). If several groups remain, because they have the same address or the same GroupID and port,
//! the epoch is compared next. If several groups still remain, each of them tries to open the
//! record. Only in this case is the datagram copied. A group that tries a record of another group
//! counts it as a record with a wrong tag.

use crate::member::{DatagramOrigin, Delivery, Event, Member, Transmit};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::SocketAddr;
use lightseal_core::Instant;
use zeroize::Zeroize;

/// A handle to a member of a [`MultiGroupNode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberHandle(u32);

/// Which member or session a datagram belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum Received {
    /// A record in it was authentic for the member with this handle.
    Member(MemberHandle),
    /// It belongs to a unicast DTLS session, which takes precedence (Axiom, section 5.6).
    UnicastSession,
    /// No member of this node could authenticate it.
    Unauthenticated,
}

/// The memberships of one node, one for each of its groups.
#[derive(Debug, Default)]
pub struct MultiGroupNode {
    members: BTreeMap<MemberHandle, (SocketAddr, Member)>,
    next: u32,
    scratch: Vec<u8>,
}

impl MultiGroupNode {
    /// A node without members.
    pub const fn new() -> Self {
        Self { members: BTreeMap::new(), next: 0, scratch: Vec::new() }
    }

    /// Adds a member that sends from `local`. The IP address of `local` may be unspecified (`::` or
    /// `0.0.0.0`).
    pub fn add(&mut self, local: SocketAddr, member: Member) -> MemberHandle {
        let handle = MemberHandle(self.next);
        self.next += 1;
        self.members.insert(handle, (local, member));
        handle
    }

    /// Removes a member and returns it.
    pub fn remove(&mut self, handle: MemberHandle) -> Option<Member> {
        self.members.remove(&handle).map(|(_, member)| member)
    }

    /// The member with this handle; `None` if it was removed.
    pub fn member(&mut self, handle: MemberHandle) -> Option<&mut Member> {
        self.members.get_mut(&handle).map(|(_, member)| member)
    }

    /// All members with their handles and local addresses.
    pub fn members(&self) -> impl Iterator<Item = (MemberHandle, SocketAddr, &Member)> {
        self.members.iter().map(|(handle, (local, member))| (*handle, *local, member))
    }

    /// Takes a datagram that was sent from `from` to `to`, which is a multicast address or one of
    /// the node's own addresses, and delivers its content. The datagram is decrypted in place.
    pub fn receive(
        &mut self,
        now: Instant,
        from: SocketAddr,
        to: SocketAddr,
        datagram: &mut [u8],
        mut deliver: impl FnMut(MemberHandle, Delivery<'_>),
    ) -> Received {
        let is_multicast = to.ip().is_multicast();
        let is_for = |local: &SocketAddr, member: &Member| {
            let own = if is_multicast { member.policy().address } else { *local };
            let any = !is_multicast && own.ip().is_unspecified();
            own.port() == to.port() && (any || own.ip() == to.ip())
        };
        let mut last = None;
        for (handle, (local, member)) in &self.members {
            if !is_for(local, member) {
                continue;
            }
            if !is_multicast && member.has_session(from) {
                return Received::UnicastSession;
            }
            if member.may_open(datagram, is_multicast) {
                last = Some(*handle);
            }
        }
        // Members that know the record's epoch are tried first. The others cannot open it, but must
        // see it as well, because one of them may have missed a rekey.
        for fits in [true, false] {
            for (handle, (local, member)) in &mut self.members {
                if !is_for(local, member) || member.may_open(datagram, is_multicast) != fits {
                    continue;
                }
                let deliver = |delivery: Delivery<'_>| deliver(*handle, delivery);
                let copy = fits && last != Some(*handle);
                let datagram = if copy {
                    self.scratch.extend_from_slice(datagram);
                    &mut self.scratch[..]
                } else {
                    &mut *datagram
                };
                let origin = if is_multicast {
                    member.receive_multicast(now, from, datagram, deliver)
                } else {
                    member.receive_unicast(now, from, datagram, deliver)
                };
                if copy {
                    self.scratch.zeroize();
                }
                if origin == DatagramOrigin::Member {
                    return Received::Member(*handle);
                }
            }
        }
        Received::Unauthenticated
    }

    /// Runs the timers that are due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.members.values_mut().for_each(|(_, member)| member.handle_timeout(now));
    }

    /// When [`Self::handle_timeout`] is to be called next; `None` if the node has no members.
    pub fn wake_at(&self, now: Instant) -> Option<Instant> {
        self.members.values().map(|(_, member)| member.wake_at(now)).min()
    }

    /// The next event for the host, with the handle of the member that it comes from.
    pub fn next_event(&mut self) -> Option<(MemberHandle, Event)> {
        self.members
            .iter_mut()
            .find_map(|(handle, (_, member))| member.next_event().map(|event| (*handle, event)))
    }

    /// The next datagram to be sent, with the handle of the member whose address it is sent from.
    pub fn poll_transmit(&mut self) -> Option<(MemberHandle, Transmit)> {
        self.members
            .iter_mut()
            .find_map(|(handle, (_, member))| member.poll_transmit().map(|sent| (*handle, sent)))
    }
}
