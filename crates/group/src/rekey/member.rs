//! A member's side of rekeying: the keys on the path from its leaf to the root.

use alloc::vec::Vec;
use core::time::Duration;
use lightseal_core::Instant;

use super::chain::{self, Element};
use super::checks::SignatureBudget;
use super::head::states_later_epoch;
use super::kept::UnchangedOwners;
use super::message::{BadSignature, ControllerKey, RekeyMessage, Unverified};
use super::node::{EpochKey, Leaf, NodeKey};
use super::pull::{Grant, PullRequest};
use super::refusal::{Refusal, is_later};
use super::shape::Described;
use super::timing::Timing;
use super::wrap;
use crate::GroupId;
use crate::parts::Rekeying;

/// The minimum time between two signature checks of rekey messages whose element is not on the
/// known hash chain. Such a message may be genuine if the member has missed more messages than the
/// chain permits, or a change of chains. The interval keeps an attacker from making the member
/// check one signature after the other.
pub const OFF_CHAIN_INTERVAL: Duration = Duration::from_secs(10);

/// The result of a rekey message for a member.
#[derive(Debug)]
pub enum Outcome {
    /// The message is genuine, and the member has moved to a new epoch.
    Moved(NewEpoch),
    /// The message's epoch is not later than the member's. The state is unchanged. The signature
    /// was not checked, so the message may also be for another group with the same alias.
    Duplicate,
    /// The message has keys for other leaves of the tree only. The signature was not checked, and
    /// the member waits for the message with the keys for its own leaf.
    OtherLeaves,
    /// The member has missed at least one rekey: it has received a genuine message of the epoch
    /// after the next one or of a later epoch. The member should send this request to the controller
    /// once. It should wait for a random time first, because other members may have missed the rekey
    /// as well and would ask at the same moment.
    Pull(PullRequest),
}

/// An epoch that a member has moved to.
#[derive(Debug)]
pub struct NewEpoch {
    /// The number of the epoch.
    pub epoch: u64,
    /// The root key of the epoch.
    pub key: EpochKey,
    /// When to send in the epoch, and how long to receive in the previous one.
    pub timing: Timing,
    /// The leaves that certainly belong to the members to which they belonged in the previous epoch.
    pub kept: UnchangedOwners,
}

/// The keys that one member has: those of the nodes from its leaf up to the root of the key tree.
///
/// In a tree whose leaves are `depth` levels below the root these are `depth + 1` keys of 16 bytes:
/// 18 keys for 100 000 members.
#[derive(Debug)]
pub struct KeyPath {
    group: GroupId,
    controller: ControllerKey,
    leaf: Leaf,
    epoch: u64,
    /// The last element of the controller's hash chain that the member knows to be genuine.
    anchor: Element,
    /// The keys from the leaf's up to the root's.
    keys: Vec<NodeKey>,
    /// When the signature of a message that is not on the hash chain may be checked next.
    off_chain_at: Instant,
    /// The budget of signature checks for messages that are on the hash chain.
    checks: SignatureBudget,
    /// The latest epoch for which a genuine message was received.
    begun: u64,
}

impl KeyPath {
    /// The state of a new member, from the grant that its controller sent point to point.
    pub fn join(controller: ControllerKey, grant: Grant) -> (Self, NewEpoch) {
        let new = entered(
            &grant.group,
            grant.epoch,
            grant.timing,
            grant.keys(),
            UnchangedOwners::default(),
        );
        let Grant { group, epoch, leaf, anchor, .. } = grant;
        let (keys, off_chain_at, checks) =
            (grant.into_keys(), Instant::ZERO, SignatureBudget::new());
        (
            Self {
                group,
                controller,
                leaf,
                epoch,
                anchor,
                keys,
                off_chain_at,
                checks,
                begun: epoch,
            },
            new,
        )
    }

    /// The public key that verifies the controller's signatures.
    pub const fn controller(&self) -> &ControllerKey {
        &self.controller
    }

    /// The group's identifier.
    pub const fn group(&self) -> &GroupId {
        &self.group
    }

    /// The epoch whose keys the member has.
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The member's leaf.
    pub const fn leaf(&self) -> Leaf {
        self.leaf
    }

    /// The number of leaves of the tree.
    pub fn leaves(&self) -> u32 {
        1 << (self.keys.len() - 1)
    }

    /// The keys from the leaf's up to the root's.
    pub fn keys(&self) -> &[NodeKey] {
        &self.keys
    }

    /// The root key of the member's epoch.
    pub fn epoch_key(&self) -> EpochKey {
        entered_key(&self.group, self.epoch, &self.keys)
    }

    /// The member's state for storage. [`Self::join`] restores it.
    pub fn to_grant(&self, timing: Timing) -> Grant {
        let Self { group, leaf, epoch, anchor, ref keys, .. } = *self;
        Grant::new(group, epoch, timing, leaf, anchor, keys.clone()).expect("as it was granted")
    }

    /// The request for the keys of a later epoch than the member's.
    pub const fn pull_request(&self) -> PullRequest {
        PullRequest { group: self.group, epoch: self.epoch }
    }

    /// Takes the answer to a pull. `None` if the member already has the keys of that epoch.
    ///
    /// # Errors
    /// The grant is for another group, or for an earlier epoch.
    pub fn grant(&mut self, grant: Grant) -> Result<Option<NewEpoch>, Refusal> {
        if !is_later((&grant.group, grant.epoch), (&self.group, self.epoch))? {
            return Ok(None);
        }
        let (mut path, new) = Self::join(self.controller.clone(), grant);
        (path.off_chain_at, path.checks) = (self.off_chain_at, self.checks.clone());
        *self = path;
        Ok(Some(new))
    }

    /// Takes a rekey message. Unless the member moves to a new epoch, its keys, its epoch and its
    /// anchor stay as they are.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn handle(&mut self, now: Instant, message: &[u8]) -> Result<Outcome, Refusal> {
        if Rekeying::INCLUDED.is_none() {
            return self.ask_instead(message);
        }
        let message = Unverified::decode(message).map_err(Refusal::Malformed)?;
        if message.alias != self.group.alias() {
            return Err(Refusal::OtherGroup);
        }
        let Some(ahead @ 1..) = message.epoch.checked_sub(self.epoch) else {
            return Ok(Outcome::Duplicate);
        };
        // Messages for other leaves are not verified: one signature check in each epoch is enough.
        if ahead == 1 && (self.leaf < message.range[0] || message.range[1] < self.leaf) {
            return Ok(Outcome::OtherLeaves);
        }
        // No check is needed here either: an earlier genuine message of this epoch or a later one
        // has already proven that the member is behind.
        if ahead > 1 && message.epoch <= self.begun {
            return Ok(Outcome::Pull(self.pull_request()));
        }
        if !chain::leads_to(&self.group, &message.element, &self.anchor) {
            if ahead == 1 || now < self.off_chain_at {
                return Err(Refusal::OffChain);
            }
            self.off_chain_at = now + OFF_CHAIN_INTERVAL;
        } else if !self.checks.take(now) {
            return Err(Refusal::Unchecked);
        }
        let element = message.element;
        let message = message
            .verify(&self.group, &self.controller)
            .map_err(|BadSignature| Refusal::BadSignature)?;
        self.begun = self.begun.max(message.epoch);
        if ahead > 1 {
            self.checks.give_back();
            return Ok(Outcome::Pull(self.pull_request()));
        }
        self.keys = self.open(&message)?;
        self.epoch = message.epoch;
        self.anchor = message.next_anchor.unwrap_or(element);
        self.checks.give_back();
        let kept = UnchangedOwners::from_shape(&message.shape);
        Ok(Outcome::Moved(entered(&self.group, self.epoch, message.timing, &self.keys, kept)))
    }

    /// What a member that cannot check rekey messages makes of one: a sign that it should ask the
    /// controller.
    fn ask_instead(&self, message: &[u8]) -> Result<Outcome, Refusal> {
        let is_behind = states_later_epoch(message, (&self.group, self.epoch))?;
        Ok(if is_behind { Outcome::Pull(self.pull_request()) } else { Outcome::Duplicate })
    }

    /// Computes the member's keys in the epoch of the message. Keys below the lowest node that has a
    /// new key are unchanged.
    fn open(&self, message: &RekeyMessage<'_>) -> Result<Vec<NodeKey>, Refusal> {
        // The described nodes form a connected part of the tree that includes the root. On the
        // member's path there is therefore one for each level, from the root down to some level.
        let on_path =
            |described: &Described| self.leaf.ancestor(described.node.level()) == described.node;
        let mut described: Vec<_> = message.shape.nodes().filter(on_path).collect();
        described.reverse();
        let depth = usize::from(message.depth);
        let from = depth + 1 - described.len();
        // The message's tree is smaller than the member's, or larger without new keys for all
        // levels in between.
        if depth + 1 < self.keys.len() || self.keys.len() < from {
            return Err(Refusal::OutOfStep);
        }
        // The full capacity is allocated at once, because a vector that grows would leave unerased
        // copies of keys in memory.
        let mut path = Vec::with_capacity(depth + 1);
        path.extend_from_slice(&self.keys[..from]);
        for described in described {
            let level = described.node.level();
            let wrapped = described.wrap_for(self.leaf).ok_or(Refusal::Excluded)?;
            let wrapped = message.wraps.get(wrapped).ok_or(Refusal::OutOfStep)?;
            // The key is wrapped under the node's own old key, or under the key one level below,
            // which is the last one in `path`.
            let (source, key) = if described.is_own() {
                (described.node, self.keys.get(usize::from(level)))
            } else {
                (self.leaf.ancestor(level - 1), path.last())
            };
            let key = key.ok_or(Refusal::OutOfStep)?;
            let key = wrap::unwrap(&self.group, message.epoch, source, key, wrapped)
                .map_err(|wrap::WrongKey| Refusal::OutOfStep)?;
            path.push(key);
        }
        Ok(path)
    }
}

fn entered_key(group: &GroupId, epoch: u64, keys: &[NodeKey]) -> EpochKey {
    wrap::epoch_key(group, epoch, keys.last().expect("a path has two keys at least"))
}

fn entered(
    group: &GroupId,
    epoch: u64,
    timing: Timing,
    keys: &[NodeKey],
    kept: UnchangedOwners,
) -> NewEpoch {
    NewEpoch { epoch, key: entered_key(group, epoch, keys), timing, kept }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rekey::message::{ControllerSecret, Draft};
    use crate::rekey::node::Node;
    use crate::rekey::shape::{ChildUse, Nibbles, Shape};
    use crate::rekey::wrap::wrap;
    use lightseal_core::{Random, Reader};
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::vec;

    const GROUP: GroupId = GroupId([6; 16]);

    fn member(depth: u8, leaf: u32, rng: &mut Random) -> (KeyPath, ControllerSecret, Element) {
        let secret = ControllerSecret::from_seed(&rng.array());
        let mut chain = chain::Chain::new(rng);
        let keys = (0..=depth).map(|_| NodeKey::new(rng.array())).collect();
        let timing = Timing::new(Duration::ZERO, Duration::ZERO).unwrap();
        let anchor = chain.anchor(&GROUP);
        let grant = Grant::new(GROUP, 1, timing, Leaf::new(leaf).unwrap(), anchor, keys).unwrap();
        let (path, _) = KeyPath::join(secret.public(), grant);
        (path, secret, chain.release(&GROUP, rng).0)
    }

    fn bytes(path: &KeyPath) -> Vec<[u8; 16]> {
        path.keys().iter().map(|key| *key.as_bytes()).collect()
    }

    /// Writes a random valid shape.
    fn describe(level: u8, rng: &mut Random, nibbles: &mut Nibbles) {
        let children = if rng.below(3) == 0 {
            let code = |rng: &mut Random| [ChildUse::Nothing, ChildUse::Own][rng.below(2) as usize];
            [code(rng), code(rng)]
        } else {
            let code = |rng: &mut Random| {
                [ChildUse::Nothing, ChildUse::Unchanged, ChildUse::Changed, ChildUse::Changed]
                    [rng.below(4) as usize]
            };
            [code(rng), code(rng)]
        };
        let children = children.map(|child| match child {
            ChildUse::Changed | ChildUse::Own if level == 1 => ChildUse::Unchanged,
            child => child,
        });
        nibbles.push(children);
        for child in children {
            if matches!(child, ChildUse::Changed | ChildUse::Own) {
                describe(level - 1, rng, nibbles);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        /// A faulty controller may sign a description of any valid part of the tree, with wrapped
        /// keys that members can open.
        #[test]
        fn whatever_is_signed_moves_a_member_whole_or_not_at_all(
            (had, says) in (1..5_u8, 1..7_u8),
            leaf in 0..16_u32,
            seed in any::<u64>(),
        ) {
            let mut rng = Random::insecure(seed);
            let leaf = leaf & ((1 << had) - 1);
            let (mut path, secret, element) = member(had, leaf, &mut rng);
            let mut nibbles = Nibbles::default();
            describe(says, &mut rng, &mut nibbles);
            let shape = nibbles.into_bytes();
            let read = Shape::read(&mut Reader::new(&shape), says).unwrap();
            let mut new: BTreeMap<Node, NodeKey> = BTreeMap::new();
            let mut wraps = vec![[0; 24]; read.wraps()];
            for described in read.nodes() {
                new.insert(described.node, NodeKey::new(rng.array()));
            }
            for described in read.nodes() {
                for (at, source) in described.sources() {
                    let old = (path.leaf().ancestor(source.level()) == source)
                        .then(|| path.keys().get(usize::from(source.level()))).flatten();
                    let key = if source == described.node { old } else { new.get(&source).or(old) };
                    if let Some(key) = key {
                        wraps[at] = wrap(&GROUP, 2, source, key, &new[&described.node]);
                    }
                }
            }
            let timing = Timing::new(Duration::ZERO, Duration::ZERO).unwrap();
            let draft = Draft {
                group: &GROUP, epoch: 2, element, timing, depth: says, range: None,
                next_anchor: None, shape, wraps,
            };
            let before = bytes(&path);
            match path.handle(Instant::ZERO, &draft.sign(&secret)) {
                Ok(Outcome::Moved(_)) => {
                    prop_assert_eq!(path.keys().len(), usize::from(says) + 1);
                    for (level, key) in path.keys().iter().enumerate() {
                        let node = path.leaf().ancestor(level as u8);
                        let expected = new.get(&node).map_or_else(|| before[level], |key| *key.as_bytes());
                        prop_assert_eq!(*key.as_bytes(), expected);
                    }
                }
                Err(Refusal::Excluded | Refusal::OutOfStep) => {
                    prop_assert_eq!(bytes(&path), before);
                    prop_assert_eq!(path.epoch(), 1);
                }
                // The message's tree is so small that the member's leaf is not in it.
                Ok(Outcome::OtherLeaves) => prop_assert!(leaf >> says != 0),
                other => prop_assert!(false, "{:?}", other),
            }
        }
    }
}
