//! Who is a member.

use crate::SenderId;
use crate::member::Roles;
use crate::rekey::Leaf;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use core::net::IpAddr;

/// What a controller knows of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its place in the tree of keys, and so its ListenerID.
    pub leaf: Leaf,
    /// Of the join that made it a member.
    pub nonce: [u8; 8],
    /// What it may do.
    pub roles: Roles,
    /// Where it sends from.
    pub address: IpAddr,
}

/// All members, by the names of their devices.
#[derive(Clone, Debug, Default)]
pub struct Roster {
    members: BTreeMap<String, Member>,
    senders: BTreeSet<SenderId>,
}

impl Roster {
    /// From storage.
    pub fn restore(members: impl IntoIterator<Item = (String, Member)>) -> Self {
        let mut roster = Self::default();
        members.into_iter().for_each(|(name, member)| roster.insert(name, member));
        roster
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The member of this name.
    pub fn get(&self, device: &str) -> Option<&Member> {
        self.members.get(device)
    }

    /// All of them, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Member)> {
        self.members.iter().map(|(name, member)| (&**name, member))
    }

    /// The active senders.
    pub fn senders(&self) -> BTreeSet<SenderId> {
        self.senders.clone()
    }

    /// A SenderID that nobody has. One that was just left may come again: who had it left with
    /// the epoch before.
    pub(super) fn free_sender(&self) -> Option<SenderId> {
        (0..SenderId::CONTROLLER.0).map(SenderId).find(|id| !self.senders.contains(id))
    }

    pub(super) fn insert(&mut self, device: String, member: Member) {
        self.remove(&device);
        self.senders.extend(member.roles.sender);
        self.members.insert(device, member);
    }

    pub(super) fn remove(&mut self, device: &str) {
        if let Some(Member { roles: Roles { sender: Some(sender), .. }, .. }) =
            self.members.remove(device)
        {
            self.senders.remove(&sender);
        }
    }
}
