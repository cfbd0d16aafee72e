//! The controller's side: who is a member, and the messages that tell of it (the key server of
//! RFC 4046's GCKS).

use alloc::vec::Vec;
use core::fmt;
use vocabulary::Random;

use super::MAX_MESSAGE_BYTES;
use super::chain::Chain;
use super::message::{ControllerKey, ControllerSecret, Draft, Timing};
use super::node::{EpochKey, Leaf, Node};
use super::pull::Grant;
use super::tree::KeyTree;
use super::wrap::{epoch_key, wrap};
use crate::GroupId;

/// A batch of changes, which one rekey makes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Change<'a> {
    /// The members that leave or are evicted.
    pub leave: &'a [Leaf],
    /// How many join.
    pub join: u32,
    /// How many of the joiners, the first ones, get a leaf that nobody leaves in this change.
    pub apart: u32,
    /// The members that stay where they are and get new keys point to point, a
    /// [`KeyServer::grant`]: nobody who has the keys of such a leaf can follow.
    pub renew: &'a [Leaf],
    /// Renews every node's key, told under the keys below it, down to the leaves': about two wraps
    /// a member. Without it a change of nobody renews the root's key alone, told under the old one:
    /// one wrap, which helps against no one who had the old one.
    pub refresh: bool,
}

/// Why a change was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeError {
    /// One that is to leave is no member.
    NoMember,
    /// One is to leave or to be renewed twice.
    Twice,
    /// There are more members than leaves there can be.
    Full,
    /// Messages may not be as short as asked for, or longer than [`MAX_MESSAGE_BYTES`].
    MessageSize,
    /// The last epoch there can be.
    Exhausted,
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoMember => "a leaf that is no member's was to leave",
            Self::Twice => "a member was to leave or to be renewed twice",
            Self::Full => "the group would have more members than it can",
            Self::MessageSize => "rekey messages cannot be of the size asked for",
            Self::Exhausted => "the group has had its last epoch",
        })
    }
}

impl core::error::Error for ChangeError {}

/// What a change came to.
#[derive(Debug)]
pub struct Rekeying {
    /// The new epoch.
    pub epoch: u64,
    /// Its root key; `None` if nobody is left.
    pub key: Option<EpochKey>,
    /// The messages for those who were members before and are: one, or as many as it takes. They
    /// are retransmitted as they are. None if there is nobody to be told.
    pub messages: Vec<Vec<u8>>,
    /// The joiners' leaves, in the order in which they are to be given out: each gets its
    /// [`KeyServer::grant`] point to point.
    pub joined: Vec<Leaf>,
    /// The nodes that are to be stored anew: with [`KeyTree::key`], or as gone where it is `None`.
    pub nodes: Vec<Node>,
}

/// The controller of one group.
///
/// A change is made in memory first. What came of it must be on disk before a message is sent or
/// a joiner answered: the nodes, the tree's depth, the epoch and the chain. If storing fails, the
/// state is to be read from the disk again.
#[derive(Clone, Debug)]
pub struct KeyServer {
    group: GroupId,
    secret: ControllerSecret,
    epoch: u64,
    chain: Chain,
    tree: KeyTree,
}

impl KeyServer {
    /// A group without members, at epoch 0.
    pub fn new(group: GroupId, secret: ControllerSecret, rng: &mut Random) -> Self {
        Self { group, secret, epoch: 0, chain: Chain::new(rng), tree: KeyTree::new() }
    }

    /// From storage.
    pub const fn restore(
        group: GroupId,
        secret: ControllerSecret,
        epoch: u64,
        chain: Chain,
        tree: KeyTree,
    ) -> Self {
        Self { group, secret, epoch, chain, tree }
    }

    /// The group.
    pub const fn group(&self) -> &GroupId {
        &self.group
    }

    /// The current epoch.
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// What members check signatures with.
    pub fn controller(&self) -> ControllerKey {
        self.secret.public()
    }

    /// What messages are signed with, for storage.
    pub const fn secret(&self) -> &ControllerSecret {
        &self.secret
    }

    /// The hash chain, for storage.
    pub const fn chain(&self) -> &Chain {
        &self.chain
    }

    /// The keys.
    pub const fn tree(&self) -> &KeyTree {
        &self.tree
    }

    /// The root key of the current epoch; `None` while there is no member.
    pub fn epoch_key(&self) -> Option<EpochKey> {
        let root = self.tree.key(Node::root(self.tree.depth()))?;
        Some(epoch_key(&self.group, self.epoch, &root))
    }

    /// What the member at `leaf` is to know, `timing` being what is left of the epoch's activation;
    /// `None` if that is nobody. Only for the member itself, over its own association.
    pub fn grant(&self, leaf: Leaf, timing: Timing) -> Option<Grant> {
        let (keys, anchor) = (self.tree.path_for(leaf)?, self.chain.anchor(&self.group));
        Grant::new(self.group, self.epoch, timing, leaf, anchor, keys)
    }

    /// Makes a change, with messages of at most `max_bytes` each.
    ///
    /// # Errors
    /// See [`ChangeError`]; then nothing has changed.
    pub fn rekey(
        &mut self,
        change: &Change<'_>,
        timing: Timing,
        max_bytes: usize,
        rng: &mut Random,
    ) -> Result<Rekeying, ChangeError> {
        let epoch = self.epoch.checked_add(1).ok_or(ChangeError::Exhausted)?;
        // What one audience needs in the deepest tree that this change can lead to.
        let members = self.tree.members().saturating_add(change.join).min(Leaf::LIMIT);
        let depth = self.tree.depth().max(members.next_power_of_two().ilog2() as u8);
        if max_bytes > MAX_MESSAGE_BYTES || max_bytes < Self::least_bytes(depth) {
            return Err(ChangeError::MessageSize);
        }
        let group = self.group;
        let changed =
            self.tree.change(change, rng, |node, key, new| wrap(&group, epoch, node, key, new))?;
        self.epoch = epoch;
        let (element, next_anchor) = self.chain.release(&group, rng);
        let mut messages = Vec::new();
        if let Some(plan) = changed.plan {
            let length =
                |ranged, shape, wraps| Draft::length(ranged, next_anchor.is_some(), shape, wraps);
            let whole = plan.parts(|shape, wraps| length(false, shape, wraps) <= max_bytes);
            let parts = match whole {
                Some(whole) if whole.len() == 1 => whole,
                _ => plan
                    .parts(|shape, wraps| length(true, shape, wraps) <= max_bytes)
                    .expect("there is room for one audience"),
            };
            let ranged = parts.len() > 1;
            for part in parts {
                let [first, last] = plan.leaves(&part).map(Leaf::new);
                let told = plan.tell(&part);
                let draft = Draft {
                    group: &group,
                    epoch,
                    element,
                    timing,
                    depth: plan.depth,
                    range: first.zip(last).filter(|_| ranged).map(|(first, last)| [first, last]),
                    next_anchor,
                    shape: told.shape.into_bytes(),
                    wraps: told.wraps,
                };
                messages.push(draft.sign(&self.secret));
            }
        }
        let key = self.epoch_key();
        Ok(Rekeying { epoch, key, messages, joined: changed.joined, nodes: changed.nodes })
    }

    /// The least `max_bytes` in a tree of `depth` levels: one wrap a level.
    pub fn least_bytes(depth: u8) -> usize {
        let depth = usize::from(depth);
        Draft::length(true, true, depth.div_ceil(2), depth)
    }
}
