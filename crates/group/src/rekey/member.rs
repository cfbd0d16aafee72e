//! A member's side: the keys on its path to the root.

use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use vocabulary::{DecodeError, Instant};

use super::chain::{self, Element};
use super::checks::Checks;
use super::kept::Kept;
use super::message::{BadSignature, ControllerKey, RekeyMessage, Timing, Unverified};
use super::node::{EpochKey, Leaf, NodeKey};
use super::pull::{Grant, PullRequest};
use super::shape::Described;
use super::wrap;
use crate::GroupId;

/// A message of a later epoch that is off the hash chain is still the controller's if its member
/// has slept through more than the chain's steps or a change of chains. Its signature is checked
/// at most so often: nobody is to make a member check one after the other.
pub const OFF_CHAIN_INTERVAL: Duration = Duration::from_secs(10);

/// What a message means to the member.
#[derive(Debug)]
pub enum Outcome {
    /// The message is genuine, and the member in a new epoch.
    Moved(NewEpoch),
    /// The member is there already, or the message is for another group of the same alias. Nothing
    /// was checked and nothing changed.
    Duplicate,
    /// A part of a message that is for other leaves. Nothing was checked; the member waits for its
    /// own.
    OtherLeaves,
    /// The message is genuine, and the member has missed at least one before it: it should send this
    /// request to the controller, once, after a random delay, since others may have missed it too.
    Pull(PullRequest),
}

/// An epoch that the member has the key of.
#[derive(Debug)]
pub struct NewEpoch {
    /// Its number.
    pub epoch: u64,
    /// Its root key.
    pub key: EpochKey,
    /// When to switch to it.
    pub timing: Timing,
    /// Who is certain to have been a member in the epoch before, at the same leaf.
    pub kept: Kept,
}

/// Why a message was of no use. The member's state is what it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It does not parse.
    Malformed(DecodeError),
    /// It is for another group.
    OtherGroup,
    /// Its element is not on the hash chain: junk, dropped before its signature was looked at.
    OffChain,
    /// The controller did not sign it.
    BadSignature,
    /// Its element is on the hash chain, but many others of which this was true had wrong signatures:
    /// there is no time for this one. A pull may help.
    Unchecked,
    /// It is genuine and tells this member nothing: the member is no longer one.
    Excluded,
    /// It is genuine and does not open: this member's keys are not those that the controller
    /// believes it has. A pull may help.
    OutOfStep,
    /// A grant for an epoch that the member has left behind.
    Stale,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => error.fmt(f),
            Self::OtherGroup => f.write_str("message for another group"),
            Self::OffChain => f.write_str("message is not on the controller's hash chain"),
            Self::BadSignature => f.write_str("message is not signed by the controller"),
            Self::Unchecked => f.write_str("too many messages with wrong signatures"),
            Self::Excluded => f.write_str("no longer a member of the group"),
            Self::OutOfStep => f.write_str("keys differ from those the controller has on record"),
            Self::Stale => f.write_str("keys of an earlier epoch"),
        }
    }
}

impl core::error::Error for Refusal {}

/// The keys of one member.
///
/// For a tree of `depth` levels that is `depth + 1` keys of 16 bytes: 18 at 100 000 members.
#[derive(Debug)]
pub struct KeyPath {
    group: GroupId,
    controller: ControllerKey,
    leaf: Leaf,
    epoch: u64,
    anchor: Element,
    /// From the leaf's up to the root's.
    keys: Vec<NodeKey>,
    /// From when on a signature off the hash chain may be checked.
    off_chain_at: Instant,
    /// How many signatures on the hash chain may be checked.
    checks: Checks,
    /// The latest epoch that is known to have begun.
    begun: u64,
}

impl KeyPath {
    /// A member that has just joined, with what its controller gave it point to point.
    pub fn join(controller: ControllerKey, grant: Grant) -> (Self, NewEpoch) {
        let new = entered(&grant.group, grant.epoch, grant.timing, grant.keys(), Kept::default());
        let Grant { group, epoch, leaf, anchor, .. } = grant;
        let (keys, off_chain_at, checks) = (grant.into_keys(), Instant::ZERO, Checks::new());
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

    /// What the controller's signatures are checked with.
    pub const fn controller(&self) -> &ControllerKey {
        &self.controller
    }

    /// The group.
    pub const fn group(&self) -> &GroupId {
        &self.group
    }

    /// The epoch that the member has the keys of.
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The member's leaf.
    pub const fn leaf(&self) -> Leaf {
        self.leaf
    }

    /// How many leaves the tree has.
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

    /// What the member's state is, for storage: [`Self::join`] takes it back.
    pub fn to_grant(&self, timing: Timing) -> Grant {
        let Self { group, leaf, epoch, anchor, ref keys, .. } = *self;
        Grant::new(group, epoch, timing, leaf, anchor, keys.clone()).expect("as it was granted")
    }

    /// The request for what came after the member's epoch.
    pub const fn pull_request(&self) -> PullRequest {
        PullRequest { group: self.group, epoch: self.epoch }
    }

    /// Takes the answer to a pull. `None` if the member is there already.
    ///
    /// # Errors
    /// It is of another group, or of an earlier epoch.
    pub fn grant(&mut self, grant: Grant) -> Result<Option<NewEpoch>, Refusal> {
        if grant.group != self.group {
            return Err(Refusal::OtherGroup);
        }
        if grant.epoch < self.epoch {
            return Err(Refusal::Stale);
        }
        if grant.epoch == self.epoch {
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
        let message = Unverified::decode(message).map_err(Refusal::Malformed)?;
        if message.alias != self.group.alias() {
            return Err(Refusal::OtherGroup);
        }
        let Some(ahead @ 1..) = message.epoch.checked_sub(self.epoch) else {
            return Ok(Outcome::Duplicate);
        };
        // Whether that is genuine does not matter. One signature an epoch is enough.
        if ahead == 1 && (self.leaf < message.range[0] || message.range[1] < self.leaf) {
            return Ok(Outcome::OtherLeaves);
        }
        // Nor does it here: that the member is behind was proven by a message of this epoch or a later one.
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
        let kept = Kept::said_by(&message.shape);
        Ok(Outcome::Moved(entered(&self.group, self.epoch, message.timing, &self.keys, kept)))
    }

    /// The path as it is after the message: what is below the lowest node with a new key stays.
    fn open(&self, message: &RekeyMessage<'_>) -> Result<Vec<NodeKey>, Refusal> {
        // Described nodes are an upper part of the tree: on the path, one a level from the root.
        let on_path =
            |described: &Described| self.leaf.ancestor(described.node.level()) == described.node;
        let mut described: Vec<_> = message.shape.nodes().filter(on_path).collect();
        described.reverse();
        let depth = usize::from(message.depth);
        let from = depth + 1 - described.len();
        // A tree that shrank, or one that grew without telling all that lies between.
        if depth + 1 < self.keys.len() || self.keys.len() < from {
            return Err(Refusal::OutOfStep);
        }
        // Room for all of them at once: a vector that grows would leave copies behind.
        let mut path = Vec::with_capacity(depth + 1);
        path.extend_from_slice(&self.keys[..from]);
        for described in described {
            let level = described.node.level();
            let wrapped = described.wrap_for(self.leaf).ok_or(Refusal::Excluded)?;
            let wrapped = message.wraps.get(wrapped).ok_or(Refusal::OutOfStep)?;
            // Under its own old key, or under the one below, which is the path's last: new or not.
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

fn entered(group: &GroupId, epoch: u64, timing: Timing, keys: &[NodeKey], kept: Kept) -> NewEpoch {
    NewEpoch { epoch, key: entered_key(group, epoch, keys), timing, kept }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rekey::message::{ControllerSecret, Draft};
    use crate::rekey::node::Node;
    use crate::rekey::shape::{Child, Nibbles, Shape};
    use crate::rekey::wrap::wrap;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::vec;
    use vocabulary::{Random, Reader};

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

    /// Any shape that can be read.
    fn describe(level: u8, rng: &mut Random, nibbles: &mut Nibbles) {
        let children = if rng.below(3) == 0 {
            let code = |rng: &mut Random| [Child::Nothing, Child::Own][rng.below(2) as usize];
            [code(rng), code(rng)]
        } else {
            let code = |rng: &mut Random| {
                [Child::Nothing, Child::Unchanged, Child::Changed, Child::Changed]
                    [rng.below(4) as usize]
            };
            [code(rng), code(rng)]
        };
        let children = children.map(|child| match child {
            Child::Changed | Child::Own if level == 1 => Child::Unchanged,
            child => child,
        });
        nibbles.push(children);
        for child in children {
            if matches!(child, Child::Changed | Child::Own) {
                describe(level - 1, rng, nibbles);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        /// What a controller that has gone mad signs, with wraps that open.
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
                // A tree so small that the member is not in it.
                Ok(Outcome::OtherLeaves) => prop_assert!(leaf >> says != 0),
                other => prop_assert!(false, "{:?}", other),
            }
        }
    }
}
