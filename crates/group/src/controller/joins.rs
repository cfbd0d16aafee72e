//! How the controller handles joins.

use super::{Controller, Join, MOST_JOIN_WAIT, Member, Pending, ReplyTo};
use crate::control::{Answer, GroupName, Reason, RoleSet};
use crate::member::Roles;
use crate::policy::Profile;
use crate::rekey::Leaf;
use crate::start::Start;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use lightseal_core::Instant;

impl Controller {
    pub(super) fn join(
        &mut self,
        now: Instant,
        device: &str,
        may: RoleSet,
        name: &GroupName,
        join: Join,
    ) -> Option<Answer> {
        let refused = |reason| Some(Answer::Refused(reason));
        let Join { ready, nonce, roles, address, .. } = join;
        if *name != self.name {
            return refused(Reason::NoSuchGroup);
        }
        if !roles.are_within(may) {
            return refused(Reason::Roles);
        }
        let known = self.roster.get(device);
        let leaves = self.pending.leaves.contains(device);
        if !leaves
            && known.is_some_and(|known| known.start.counter == 0 && known.start.nonce == nonce)
        {
            return Some(self.admitted(now, device));
        }
        if self.policy.profile == Profile::Axiom12 && self.is_taken(address, device) {
            return refused(Reason::AddressTaken);
        }
        let waiting = self.pending.joins.len() as u64;
        if known.is_none()
            && self.roster.len() as u64 + waiting >= self.settings.most_members.into()
        {
            return refused(Reason::Full);
        }
        let senders = self.pending.joins.values().filter(|join| join.roles.sender).count();
        if roles.sender && self.roster.senders().len() + senders >= usize::from(u8::MAX) {
            return refused(Reason::Full);
        }
        self.pending.joins.insert(device.into(), join);
        self.schedule_rekey(now, ready);
        // The join is carried out later nevertheless. The device is admitted when it asks again
        // then.
        (ready > now + MOST_JOIN_WAIT).then_some(Answer::Refused(Reason::NotNow))
    }

    /// Lets a device join without the minimum interval between its joins, because an administrator
    /// has readmitted it. A waiting join of the device is carried out.
    pub fn readmit(&mut self, now: Instant, device: &str) {
        self.limiter.forget_joins(device);
        if let Some(join) = self.pending.joins.get_mut(device) {
            join.ready = now;
            self.schedule_rekey(now, now);
        }
    }

    /// Forgets the requests of a device that are not carried out yet, because the device may not have
    /// made them itself: the credential under which they came is void. The device repeats its own.
    pub fn forget_requests(&mut self, device: &str) {
        self.pending.joins.remove(device);
        self.pending.leaves.remove(device);
        self.pending.starts.remove(device);
        self.pending.acknowledgements.remove(device);
    }

    /// Forgets the requests of all devices that are not carried out yet, as
    /// [`forget_requests`](Self::forget_requests) does for one device.
    pub fn forget_all_requests(&mut self) {
        let Pending { joins, leaves, starts, acknowledgements, .. } = &mut self.pending;
        joins.clear();
        leaves.clear();
        starts.clear();
        acknowledgements.clear();
    }

    /// Whether another member has this address. In `axiom-1.2` the address identifies a listener
    /// (Axiom, section 5.5).
    fn is_taken(&self, address: IpAddr, device: &str) -> bool {
        let is = |other: &str, its: IpAddr| other != device && its == address;
        self.roster.iter().any(|(name, member)| is(name, member.address))
            || self.pending.joins.iter().any(|(name, join)| is(name, join.address))
    }

    /// Removes the members that are gone from the roster and adds the joining devices. Returns the
    /// joins that are to be answered.
    pub(super) fn take_in(
        &mut self,
        now: Instant,
        joins: Vec<(String, Join)>,
        leaves: &[Leaf],
        gone: &BTreeSet<String>,
        epoch: u64,
    ) -> Vec<(String, ReplyTo)> {
        let (mut answers, mut joined) = (Vec::new(), Vec::new());
        // SenderIDs are assigned before the leaving members are removed, so that none of theirs is
        // given out again in this epoch.
        let mut given = BTreeSet::new();
        for ((name, join), leaf) in joins.into_iter().zip(leaves) {
            let Join { to, nonce, roles, address, keys, .. } = join;
            self.limiter.joined(&name, now);
            let free = roles.sender.then(|| self.roster.free_sender(|id| !given.contains(id)));
            let sender = free.flatten();
            given.extend(sender);
            let roles = Roles { sender, listener: roles.listener };
            let clones = self.roster.get(&name).map_or(0, |member| member.clones);
            let start = Start { instance: epoch, counter: 0, nonce };
            joined
                .push((name.clone(), Member { leaf: *leaf, start, clones, roles, address, keys }));
            answers.push((name, to));
        }
        gone.iter().for_each(|name| self.roster.remove(name));
        joined.into_iter().for_each(|(name, member)| self.roster.insert(name, member));
        answers
    }

    /// Refuses joins of devices that were permitted to join when they asked, but no longer are.
    pub(super) fn refuse_forbidden(&mut self, joins: &mut BTreeMap<String, Join>) {
        let Some(admission) = self.admission.take() else { return };
        joins.retain(|device, join| {
            let reason = match admission(device) {
                None => Reason::NoSuchGroup,
                Some(may) if !join.roles.are_within(may) => Reason::Roles,
                Some(_) => return true,
            };
            self.answer(device, join.to, Answer::Refused(reason));
            false
        });
        self.admission = Some(admission);
    }
}
