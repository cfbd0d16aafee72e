//! The controller's list of members.

use crate::directory::{DirectoryEntry, Lookup, Names, PAGE_SIZE};
use crate::identity::PublicKeys;
use crate::member::Roles;
use crate::rekey::Leaf;
use crate::start::Start;
use crate::{SenderId, SenderSet};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

/// The controller's record of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its leaf in the key tree, whose number is also its ListenerID.
    pub leaf: Leaf,
    /// The last start of its program. A join counts as the start with the counter 0, and has the
    /// nonce of the join.
    pub start: Start,
    /// The number of times that a copy of it was detected.
    pub clones: u32,
    /// The roles of the member.
    pub roles: Roles,
    /// The IP address that it sends from.
    pub address: IpAddr,
    /// Its public keys.
    pub keys: PublicKeys,
}

/// All members, by the name of their device.
#[derive(Clone, Debug, Default)]
pub struct Roster {
    members: BTreeMap<String, Member>,
    /// The directory entry of each member, and whether the member is a listener.
    leaves: BTreeMap<Leaf, (DirectoryEntry, bool)>,
    /// The names of the devices, by their leaves.
    names: BTreeMap<Leaf, String>,
    senders: BTreeMap<SenderId, Leaf>,
}

impl Roster {
    /// A roster from storage.
    pub fn restore(members: impl IntoIterator<Item = (String, Member)>) -> Self {
        let mut roster = Self::default();
        members.into_iter().for_each(|(name, member)| roster.insert(name, member));
        roster
    }

    /// The number of members.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The member with this device name.
    pub fn get(&self, device: &str) -> Option<&Member> {
        self.members.get(device)
    }

    /// All members, ordered by device name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Member)> {
        self.members.iter().map(|(name, member)| (&**name, member))
    }

    /// The active senders.
    pub fn senders(&self) -> SenderSet {
        self.senders.keys().copied().collect()
    }

    /// The members whose X25519 key is of small order, so that no secret can be shared with them.
    /// Other members do not learn their keys. An earlier controller has admitted them; an
    /// administrator should evict them.
    pub fn unusable(&self) -> impl Iterator<Item = &str> {
        let unusable = |(_, member): &(&str, &Member)| member.keys.exchange.is_small_order();
        self.iter().filter(unusable).map(|(name, _)| name)
    }

    /// The directory entries of a page.
    pub(super) fn page(&self, lookup: Lookup) -> Vec<DirectoryEntry> {
        let mut members = self.members_of(lookup);
        // A page with a key of small order could not be read.
        members.retain(|member| !member.keys.exchange.is_small_order());
        members
    }

    /// All members of a page, in ascending order.
    fn members_of(&self, lookup: Lookup) -> Vec<DirectoryEntry> {
        match lookup {
            Lookup::Senders(SenderId(first)) => {
                let last = first.saturating_add(PAGE_SIZE as u8 - 1);
                let leaves = self.senders.range(SenderId(first)..=SenderId(last));
                leaves.filter_map(|(_, leaf)| Some(self.leaves.get(leaf)?.0)).collect()
            }
            Lookup::Listeners(first) => {
                let ends = [first.get(), first.get() + PAGE_SIZE - 1].map(Leaf::new);
                let [Some(first), Some(last)] = ends else { return Vec::new() };
                let leaves = self.leaves.range(first..=last);
                leaves.filter(|(_, entry)| entry.1).map(|(_, entry)| entry.0).collect()
            }
        }
    }

    /// The names of the devices that are the members of a page in this epoch.
    pub(super) fn names(&self, lookup: Lookup, epoch: u64) -> Names {
        let name = |member: DirectoryEntry| {
            let id = match lookup {
                Lookup::Senders(_) => member.sender?.0.into(),
                Lookup::Listeners(_) => member.leaf.get(),
            };
            Some((id, self.names.get(&member.leaf)?.clone()))
        };
        Names {
            lookup,
            epoch,
            names: self.members_of(lookup).into_iter().filter_map(name).collect(),
        }
    }

    /// A SenderID that no member has. The SenderID of a former member may be given out again,
    /// because that member's membership ended with the previous epoch.
    pub(super) fn free_sender(&self, is_free: impl Fn(&SenderId) -> bool) -> Option<SenderId> {
        let mut ids = (0..SenderId::CONTROLLER.0).map(SenderId);
        ids.find(|id| !self.senders.contains_key(id) && is_free(id))
    }

    pub(super) fn set_start(&mut self, device: &str, start: Start) {
        if let Some(member) = self.members.get_mut(device) {
            member.start = start;
        }
    }

    /// Counts a copy of the device and returns the number of copies detected so far.
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
        let entry = DirectoryEntry { sender: roles.sender, leaf, keys };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ListenerId;
    use crate::identity::Identity;
    use lightseal_core::Random;

    #[test]
    fn other_members_do_not_get_keys_of_small_order() {
        let mut rng = Random::insecure(1);
        let mut member = |leaf, is_small| {
            let mut keys = Identity::generate(&mut rng).public().to_bytes();
            if is_small {
                keys[32..].fill(0);
            }
            Member {
                leaf: Leaf::new(leaf).unwrap(),
                start: Start { instance: 1, counter: 0, nonce: [0; 8] },
                clones: 0,
                roles: Roles { sender: None, listener: true },
                address: [127, 0, 0, 1].into(),
                keys: PublicKeys::from_storage(&keys).unwrap(),
            }
        };
        let members = [("bell".into(), member(0, true)), ("lamp".into(), member(1, false))];
        let roster = Roster::restore(members);
        assert_eq!(roster.unusable().collect::<Vec<_>>(), ["bell"]);
        let page = roster.page(Lookup::listener(ListenerId::new(0).unwrap()));
        assert_eq!(page.iter().map(|entry| entry.leaf.get()).collect::<Vec<_>>(), [1]);
    }
}
