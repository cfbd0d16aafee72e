//! The controller's side of rekeying: it changes the membership and writes the rekey messages (the
//! key server of RFC 4046's GCKS).

use alloc::vec::Vec;
use lightseal_core::Random;

use super::MAX_MESSAGE_BYTES;
use super::chain::Chain;
use super::message::{ControllerKey, ControllerSecret, Draft};
use super::node::{EpochKey, Leaf, Node};
use super::pull::Grant;
use super::timing::Timing;
use super::tree::{Change, ChangeError, KeyTree};
use super::wrap::{epoch_key, wrap};
use crate::GroupId;

/// The result of a rekey.
#[derive(Debug)]
pub struct Rekeying {
    /// The new epoch.
    pub epoch: u64,
    /// The root key of the new epoch; `None` if no member is left.
    pub key: Option<EpochKey>,
    /// The messages for the members that stay: usually one, more if the size limit requires it.
    /// They are retransmitted unchanged. There are none if no member stays.
    pub messages: Vec<Vec<u8>>,
    /// The leaves of the new members, in the order in which they are to be assigned. Each new
    /// member gets its [`KeyServer::grant`] point to point.
    pub joined: Vec<Leaf>,
    /// The nodes whose stored keys must be updated to [`KeyTree::key`], or deleted where that is
    /// `None`.
    pub nodes: Vec<Node>,
}

/// The key server of one group.
///
/// A change is made in memory first. Its result (the nodes, the tree's depth, the epoch and the
/// chain) must be on disk before a message is sent or a new member is answered. If storing fails,
/// the state must be read from the disk again.
#[derive(Clone, Debug)]
pub struct KeyServer {
    group: GroupId,
    secret: ControllerSecret,
    epoch: u64,
    chain: Chain,
    tree: KeyTree,
}

impl KeyServer {
    /// A key server for a new group without members, at epoch 0.
    pub fn new(group: GroupId, secret: ControllerSecret, rng: &mut Random) -> Self {
        Self { group, secret, epoch: 0, chain: Chain::new(rng), tree: KeyTree::new() }
    }

    /// A key server from storage.
    pub const fn restore(
        group: GroupId,
        secret: ControllerSecret,
        epoch: u64,
        chain: Chain,
        tree: KeyTree,
    ) -> Self {
        Self { group, secret, epoch, chain, tree }
    }

    /// The group's identifier.
    pub const fn group(&self) -> &GroupId {
        &self.group
    }

    /// The current epoch.
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The public key with which members verify the controller's signatures.
    pub fn controller(&self) -> ControllerKey {
        self.secret.public()
    }

    /// The private key that signs messages, for storage.
    pub const fn secret(&self) -> &ControllerSecret {
        &self.secret
    }

    /// The hash chain, for storage.
    pub const fn chain(&self) -> &Chain {
        &self.chain
    }

    /// The key tree.
    pub const fn tree(&self) -> &KeyTree {
        &self.tree
    }

    /// The root key of the current epoch; `None` while there are no members.
    pub fn epoch_key(&self) -> Option<EpochKey> {
        let root = self.tree.key(Node::root(self.tree.depth()))?;
        Some(epoch_key(&self.group, self.epoch, &root))
    }

    /// The keys for the member at `leaf`, to be sent to that member only, under its own DTLS
    /// association. `timing` has the remaining activation time of the epoch. `None` if `leaf` does
    /// not belong to a member.
    pub fn grant(&self, leaf: Leaf, timing: Timing) -> Option<Grant> {
        let (keys, anchor) = (self.tree.path_for(leaf)?, self.chain.anchor(&self.group));
        Grant::new(self.group, self.epoch, timing, leaf, anchor, keys)
    }

    /// Makes a change, and writes messages of at most `max_bytes` bytes each.
    ///
    /// # Errors
    /// See [`ChangeError`]. The state is unchanged then.
    pub fn rekey(
        &mut self,
        change: &Change<'_>,
        timing: Timing,
        max_bytes: usize,
        rng: &mut Random,
    ) -> Result<Rekeying, ChangeError> {
        let epoch = self.epoch.checked_add(1).ok_or(ChangeError::Exhausted)?;
        // A message must have room for the wraps of one audience in the deepest tree that this
        // change can lead to.
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

    /// The minimum `max_bytes` in a tree of `depth` levels, with one wrap for each level.
    pub fn least_bytes(depth: u8) -> usize {
        let depth = usize::from(depth);
        Draft::length(true, true, depth.div_ceil(2), depth)
    }
}
