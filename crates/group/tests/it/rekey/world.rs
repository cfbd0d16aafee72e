//! A controller with its current and former members, and every key that each of them has ever had.

use lightseal_core::{Decode, Instant, Random};
use lightseal_group::GroupId;
use lightseal_group::rekey::message::Unverified;
use lightseal_group::rekey::wrap::{self, WRAPPED};
use lightseal_group::rekey::{
    Chain, Change, ControllerSecret, Grant, KeyPath, KeyServer, KeyTree, Leaf, NewEpoch, Node,
    NodeKey, Outcome, Refusal, Timing,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub(crate) type Key = [u8; 16];
pub(crate) const GROUP: GroupId = GroupId(*b"the lamps, hall ");

pub(crate) fn timing() -> Timing {
    Timing::new(Duration::from_millis(2_500), Duration::from_secs(60)).unwrap()
}

/// A current or former member.
pub(crate) struct Person {
    pub(crate) path: KeyPath,
    /// Every key that it was ever given or has unwrapped. None is deleted.
    pub(crate) memory: BTreeSet<Key>,
    /// The first epoch whose key it may know.
    pub(crate) joined: u64,
    /// The last epoch whose key it may know; `None` while it is a member.
    pub(crate) left: Option<u64>,
}

impl Person {
    fn remember(&mut self) {
        self.memory.extend(self.path.keys().iter().map(|key| *key.as_bytes()));
    }
}

/// A wrapped key, as an eavesdropper sees it.
#[derive(Clone)]
pub(crate) struct Seen {
    pub(crate) epoch: u64,
    pub(crate) source: Node,
    pub(crate) target: Node,
    pub(crate) wrapped: [u8; WRAPPED],
}

pub(crate) struct World {
    pub(crate) server: KeyServer,
    pub(crate) rng: Random,
    pub(crate) now: Instant,
    /// The current members by leaf.
    pub(crate) present: BTreeMap<Leaf, Person>,
    pub(crate) gone: Vec<Person>,
    pub(crate) seen: Vec<Seen>,
    /// The key at the root of the tree and the epoch's root key, by epoch.
    pub(crate) roots: BTreeMap<u64, [Key; 2]>,
    /// The maximum length of messages in bytes.
    pub(crate) max_bytes: usize,
    /// The number of leaves in the model.
    capacity: u32,
}

/// Decides whether a member receives the messages of a change.
pub(crate) type Delivery<'a> = &'a mut dyn FnMut(&mut Random) -> bool;

impl World {
    pub(crate) fn new(seed: u64, max_bytes: usize) -> Self {
        let mut rng = Random::insecure(seed);
        let secret = ControllerSecret::from_seed(&rng.array());
        let server = KeyServer::new(GROUP, secret, &mut rng);
        Self {
            server,
            rng,
            now: Instant::ZERO,
            present: BTreeMap::new(),
            gone: Vec::new(),
            seen: Vec::new(),
            roots: BTreeMap::new(),
            max_bytes,
            capacity: 2,
        }
    }

    /// A group with a full tree of `capacity` leaves, from which all members except those in the
    /// bit set `set` have left.
    pub(crate) fn with_members(capacity: u32, set: u32, max_bytes: usize) -> Self {
        let mut world = Self::new(u64::from(set) << 8 | u64::from(capacity), max_bytes);
        let all = (0..capacity).filter_map(Leaf::new);
        let (stay, leave): (Vec<_>, Vec<_>) = all.partition(|leaf| set >> leaf.get() & 1 == 1);
        let mut change = |change| {
            let rekeying =
                world.server.rekey(&change, timing(), max_bytes, &mut world.rng).unwrap();
            let root = Node::new(world.server.tree().depth(), 0).unwrap();
            if let (Some(root), Some(key)) = (world.server.tree().key(root), rekeying.key) {
                world.roots.insert(rekeying.epoch, [*root.as_bytes(), *key.as_bytes()]);
            }
        };
        change(Change { join: capacity, ..Change::default() });
        change(Change { leave: &leave, ..Change::default() });
        world.capacity = capacity;
        world.present = stay.into_iter().map(|leaf| (leaf, world.admit(leaf))).collect();
        world
    }

    /// Makes a change whose messages reach all members.
    pub(crate) fn rekey(&mut self, change: &Change<'_>) -> Vec<Vec<u8>> {
        self.rekey_with(change, &mut |_| true)
    }

    /// Makes a change whose messages reach the members that `delivered` selects, each message twice
    /// and in any order. The other members miss the epoch.
    pub(crate) fn rekey_with(
        &mut self,
        change: &Change<'_>,
        delivered: Delivery<'_>,
    ) -> Vec<Vec<u8>> {
        let expected = self.model(change);
        let members = self.present.len() as u32;
        let rekeying = self.server.rekey(change, timing(), self.max_bytes, &mut self.rng).unwrap();
        let epoch = rekeying.epoch;
        if let Some(key) = &rekeying.key {
            let root = Node::new(self.server.tree().depth(), 0).unwrap();
            let root = *self.server.tree().key(root).unwrap().as_bytes();
            assert!(self.roots.values().flatten().all(|old| *old != root && old != key.as_bytes()));
            self.roots.insert(epoch, [root, *key.as_bytes()]);
        }
        assert_eq!(self.server.tree().members(), members - change.leave.len() as u32 + change.join);
        assert!(rekeying.messages.iter().all(|message| message.len() <= self.max_bytes));
        self.see(&rekeying.messages, &expected);

        for leaf in change.leave {
            let mut person = self.present.remove(leaf).expect("a member");
            person.left = Some(epoch - 1);
            self.excluded(&mut person, epoch, &rekeying.messages);
            self.gone.push(person);
        }
        self.tell(epoch, &rekeying.messages, delivered);
        for leaf in &rekeying.joined {
            let person = self.admit(*leaf);
            assert!(self.present.insert(*leaf, person).is_none(), "a leaf is one member's");
        }
        rekeying.messages
    }

    /// A member that has left is excluded by exactly one message, and learns no key from any.
    fn excluded(&mut self, person: &mut Person, epoch: u64, messages: &[Vec<u8>]) {
        let current = person.path.epoch() + 1 == epoch;
        let before: Vec<Key> = person.path.keys().iter().map(|key| *key.as_bytes()).collect();
        let mut excluded = 0;
        for message in messages {
            match person.path.handle(self.now, message) {
                Err(Refusal::Excluded) => excluded += 1,
                Ok(Outcome::OtherLeaves) if current => {}
                Ok(Outcome::Pull(_)) | Err(Refusal::OffChain | Refusal::Unchecked) if !current => {}
                other => panic!("an evicted member: {other:?}"),
            }
        }
        assert_eq!(excluded, usize::from(current && !messages.is_empty()));
        assert!(person.path.keys().iter().map(NodeKey::as_bytes).eq(&before));
    }

    fn tell(&mut self, epoch: u64, messages: &[Vec<u8>], delivered: Delivery<'_>) {
        for person in self.present.values_mut() {
            if !delivered(&mut self.rng) {
                continue;
            }
            // Each message is delivered twice, in a rotated order.
            let start = self.rng.below(messages.len() as u64) as usize;
            let order = (0..2 * messages.len()).map(|i| &messages[(start + i) % messages.len()]);
            let current = person.path.epoch() + 1 == epoch;
            let (mut moved, mut pulls) = (0, 0);
            for message in order {
                match person.path.handle(self.now, message) {
                    Ok(Outcome::Moved(new)) => {
                        entered(&self.roots, &new);
                        moved += 1;
                    }
                    Ok(Outcome::Duplicate) => assert_eq!(person.path.epoch(), epoch),
                    Ok(Outcome::OtherLeaves) => assert!(messages.len() > 1),
                    Ok(Outcome::Pull(request)) => {
                        assert!(!current);
                        assert_eq!(request, person.path.pull_request());
                        pulls += 1;
                    }
                    Err(Refusal::OffChain) => assert!(!current),
                    Err(Refusal::Unchecked) => {
                        assert!(!current);
                        pulls += 1;
                    }
                    other => panic!("a member: {other:?}"),
                }
            }
            assert_eq!(moved, usize::from(current));
            person.remember();
            if pulls > 0 {
                pull(&self.server, person, &self.roots);
            }
        }
    }

    /// All members that are behind ask the controller for their keys.
    pub(crate) fn catch_up(&mut self) {
        for person in self.present.values_mut() {
            pull(&self.server, person, &self.roots);
        }
    }

    fn admit(&self, leaf: Leaf) -> Person {
        let grant = self.server.grant(leaf, timing()).unwrap().to_bytes();
        let (path, new) = KeyPath::join(self.server.controller(), Grant::decode(&grant).unwrap());
        entered(&self.roots, &new);
        let mut person =
            Person { path, memory: BTreeSet::new(), joined: self.server.epoch(), left: None };
        person.remember();
        person
    }

    /// Restarts the controller from its stored state.
    pub(crate) fn restart(&mut self) {
        let (server, tree) = (&self.server, self.server.tree());
        let secret = self.secret();
        let chain = Chain::restore(*server.chain().seed(), server.chain().left()).unwrap();
        let tree = KeyTree::restore(tree.depth(), tree.nodes().collect::<Vec<_>>()).unwrap();
        self.server = KeyServer::restore(*server.group(), secret, server.epoch(), chain, tree);
    }

    fn secret(&self) -> ControllerSecret {
        self.server.secret().clone()
    }

    /// Collects all wraps, which must be those of the model. Messages in parts may repeat some
    /// wraps.
    fn see(&mut self, messages: &[Vec<u8>], expected: &BTreeSet<(Node, Node)>) {
        let controller = self.server.controller();
        let mut told = BTreeMap::new();
        let mut next = Leaf::new(0);
        for message in messages {
            let message = Unverified::decode(message).unwrap().verify(&GROUP, &controller).unwrap();
            assert_eq!(Some(message.range[0]), next, "parts cover all leaves");
            next = Leaf::new(message.range[1].get() + 1);
            for described in message.shape.nodes() {
                for (at, source) in described.sources() {
                    let again = told.insert((described.node, source), message.wraps[at]);
                    assert!(again.is_none_or(|again| again == message.wraps[at]));
                }
            }
        }
        assert!(told.keys().eq(expected), "{:?} {expected:?}", told.keys());
        if messages.is_empty() {
            return;
        }
        assert_eq!(next.map_or(Leaf::LIMIT, Leaf::get), 1 << self.server.tree().depth());
        let epoch = self.server.epoch();
        let seen = told.into_iter();
        self.seen.extend(seen.map(|((target, source), wrapped)| Seen {
            epoch,
            source,
            target,
            wrapped,
        }));
    }

    /// The wraps that a change needs, computed from the definition with sets of leaves for every
    /// node.
    fn model(&mut self, change: &Change<'_>) -> BTreeSet<(Node, Node)> {
        let before: BTreeSet<u32> = self.present.keys().map(|leaf| leaf.get()).collect();
        let leave: BTreeSet<u32> = change.leave.iter().map(|leaf| leaf.get()).collect();
        let stay: BTreeSet<u32> = before.difference(&leave).copied().collect();
        let old_capacity = self.capacity;
        while self.capacity < stay.len() as u32 + change.join {
            self.capacity *= 2;
        }
        let free = (0..self.capacity).filter(|leaf| !stay.contains(leaf));
        let join: BTreeSet<u32> = free.take(change.join as usize).collect();

        let depth = self.capacity.ilog2() as u8;
        let under = |set: &BTreeSet<u32>, level: u8, index: u32| {
            set.iter().filter(|leaf| **leaf >> level == index).count()
        };
        let is_new = |level: u8, index: u32| 1 << level > old_capacity && index == 0;
        let changes = |level: u8, index: u32| {
            level > 0
                && (under(&leave, level, index) + under(&join, level, index) > 0
                    || is_new(level, index)
                    || level == depth
                    || change.refresh)
        };
        let mut told = BTreeSet::new();
        for level in 1..=depth {
            for index in 0..self.capacity >> level {
                if !changes(level, index) || under(&stay, level, index) == 0 {
                    continue;
                }
                let node = Node::new(level, index).unwrap();
                let secret = under(&leave, level, index) > 0 || is_new(level, index);
                if !secret && !change.refresh {
                    told.insert((node, node));
                    continue;
                }
                for child in [2 * index, 2 * index + 1] {
                    if under(&stay, level - 1, child) > 0 {
                        told.insert((node, Node::new(level - 1, child).unwrap()));
                    }
                }
            }
        }
        told
    }

    /// Checks that no member, with all keys that it ever had, can derive the key of an epoch in
    /// which it was not a member.
    pub(crate) fn audit(&self) {
        for person in self.gone.iter().chain(self.present.values()) {
            let last = person.left.unwrap_or(u64::MAX);
            let mut known = person.memory.clone();
            for (epoch, _) in self.closure(&mut known) {
                assert!((person.joined..=last).contains(&epoch), "opened epoch {epoch}");
            }
            for (epoch, [root, key]) in &self.roots {
                let may = (person.joined..=last).contains(epoch);
                assert!(may || !known.contains(root) && !known.contains(key));
            }
        }
    }

    /// Unwraps everything that can be unwrapped with the keys in `known`, in any order and any
    /// number of steps, and with every key tried at every node.
    pub(crate) fn closure(&self, known: &mut BTreeSet<Key>) -> Vec<(u64, Node)> {
        let mut opened = Vec::new();
        let mut untried: Vec<Key> = known.iter().copied().collect();
        let mut closed: Vec<&Seen> = self.seen.iter().collect();
        while let Some(key) = untried.pop() {
            let key = NodeKey::new(key);
            closed.retain(|seen| {
                let open = wrap::unwrap(&GROUP, seen.epoch, seen.source, &key, &seen.wrapped);
                if let Ok(new) = &open {
                    opened.push((seen.epoch, seen.target));
                    if known.insert(*new.as_bytes()) {
                        untried.push(*new.as_bytes());
                    }
                }
                open.is_err()
            });
        }
        opened
    }
}

fn entered(roots: &BTreeMap<u64, [Key; 2]>, new: &NewEpoch) {
    assert_eq!(roots[&new.epoch][1], *new.key.as_bytes());
    assert_eq!(new.timing, timing());
}

fn pull(server: &KeyServer, person: &mut Person, roots: &BTreeMap<u64, [Key; 2]>) {
    let grant = server.grant(person.path.leaf(), timing()).unwrap().to_bytes();
    let behind = person.path.epoch() < server.epoch();
    let new = person.path.grant(Grant::decode(&grant).unwrap()).unwrap();
    assert_eq!(new.is_some(), behind);
    new.iter().for_each(|new| entered(roots, new));
    person.remember();
}
