//! Who is a member.

use crate::SenderId;
use crate::directory::{Introduced, Lookup, Names, PAGE};
use crate::identity::PublicKeys;
use crate::member::Roles;
use crate::rekey::Leaf;
use crate::start::Start;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

/// What a controller knows of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its place in the tree of keys, and so its ListenerID.
    pub leaf: Leaf,
    /// Its join and the last start of its program. A join is the start with the counter 0, and has
    /// its nonce.
    pub start: Start,
    /// How often a copy of it was seen.
    pub clones: u32,
    /// What it may do.
    pub roles: Roles,
    /// Where it sends from.
    pub address: IpAddr,
    /// Its public keys.
    pub keys: PublicKeys,
}

/// All members, by the names of their devices.
#[derive(Clone, Debug, Default)]
pub struct Roster {
    members: BTreeMap<String, Member>,
    /// With whether it listens.
    leaves: BTreeMap<Leaf, (Introduced, bool)>,
    /// The names of the devices, by their leaves.
    names: BTreeMap<Leaf, String>,
    senders: BTreeMap<SenderId, Leaf>,
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
        self.senders.keys().copied().collect()
    }

    /// The members of a page.
    pub(super) fn page(&self, lookup: Lookup) -> Vec<Introduced> {
        match lookup {
            Lookup::Senders(SenderId(first)) => {
                let last = first.saturating_add(PAGE as u8 - 1);
                let leaves = self.senders.range(SenderId(first)..=SenderId(last));
                leaves.filter_map(|(_, leaf)| Some(self.leaves.get(leaf)?.0)).collect()
            }
            Lookup::Listeners(first) => {
                let ends = [first.get(), first.get() + PAGE - 1].map(Leaf::new);
                let [Some(first), Some(last)] = ends else { return Vec::new() };
                let leaves = self.leaves.range(first..=last);
                leaves.filter(|(_, entry)| entry.1).map(|(_, entry)| entry.0).collect()
            }
        }
    }

    /// The names of the devices that are the members of a page.
    pub(super) fn names(&self, lookup: Lookup) -> Names {
        let name = |member: Introduced| {
            let id = match lookup {
                Lookup::Senders(_) => member.sender?.0.into(),
                Lookup::Listeners(_) => member.leaf.get(),
            };
            Some((id, self.names.get(&member.leaf)?.clone()))
        };
        Names { lookup, names: self.page(lookup).into_iter().filter_map(name).collect() }
    }

    /// A SenderID that nobody has. One that was just left may come again: who had it left with
    /// the epoch before.
    pub(super) fn free_sender(&self, is_free: impl Fn(&SenderId) -> bool) -> Option<SenderId> {
        let mut ids = (0..SenderId::CONTROLLER.0).map(SenderId);
        ids.find(|id| !self.senders.contains_key(id) && is_free(id))
    }

    pub(super) fn set_start(&mut self, device: &str, start: Start) {
        if let Some(member) = self.members.get_mut(device) {
            member.start = start;
        }
    }

    /// How many copies were seen, with this one.
    pub(super) fn count_clone(&mut self, device: &str) -> u32 {
        self.members.get_mut(device).map_or(0, |member| {
            member.clones = member.clones.saturating_add(1);
            member.clones
        })
    }

    pub(super) fn insert(&mut self, device: String, member: Member) {
        self.remove(&device);
        let Member { leaf, roles, keys, .. } = member;
        self.senders.extend(roles.sender.map(|sender| (sender, leaf)));
        let entry = Introduced { sender: roles.sender, leaf, keys };
        self.leaves.insert(leaf, (entry, roles.listener));
        self.names.insert(leaf, device.clone());
        self.members.insert(device, member);
    }

    pub(super) fn remove(&mut self, device: &str) {
        let Some(Member { leaf, roles, .. }) = self.members.remove(device) else { return };
        self.leaves.remove(&leaf);
        self.names.remove(&leaf);
        if let Some(sender) = roles.sender {
            self.senders.remove(&sender);
        }
    }
}
