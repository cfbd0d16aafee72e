//! A member that missed a rekey asks for its keys; one that joins gets them the same way.
//!
//! Both messages travel point to point, under the member's DTLS association with the controller:
//! that gives them secrecy and tells each end who the other is. A request is answered with the
//! keys of the leaf that the controller knows the asking member by, and of no other.
//!
//! ```text
//! request: version (1) = 1 ‖ kind (1) = 2 ‖ group (16) ‖ epoch (8): the one that the member is at
//! answer:  version (1) = 1 ‖ kind (1) = 3 ‖ group (16) ‖ epoch (8): the current one
//!          ‖ activation (2) ‖ retention (1) ‖ leaf (3) ‖ depth (1) ‖ anchor (16)
//!          ‖ depth + 1 keys (16 each), the leaf's first, the root's last
//! ```
//!
//! `activation` is what is left of it when the answer is sent.

use alloc::vec::Vec;
use vocabulary::wire::BufferFull;
use vocabulary::{Decode, DecodeError, Encode, Reader, Writer};
use zeroize::Zeroizing;

use super::chain::Element;
use super::message::{Timing, read_depth, read_kind};
use super::node::{KEY, Leaf, NodeKey};
use super::{MAX_DEPTH, VERSION};
use crate::GroupId;

const PULL: u8 = 2;
const GRANT: u8 = 3;
/// An answer without its keys.
const GRANT_HEAD: usize = 2 + 16 + 8 + 3 + 3 + 1 + 16;
/// The longest answer.
pub const MAX_GRANT_BYTES: usize = GRANT_HEAD + KEY * (MAX_DEPTH as usize + 1);

/// "I am at epoch k": the request for what came after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PullRequest {
    /// The group.
    pub group: GroupId,
    /// The epoch that the member is at.
    pub epoch: u64,
}

impl Decode<'_> for PullRequest {
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        read_kind(reader, PULL)?;
        Ok(Self { group: GroupId(reader.array()?), epoch: reader.u64()? })
    }
}

impl Encode for PullRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        w.bytes(&[VERSION, PULL])?;
        w.bytes(&self.group.0)?;
        w.u64(self.epoch)
    }
}

/// All keys of one leaf: what a joiner gets, and a member that missed a message.
#[derive(Clone, Debug)]
pub struct Grant {
    /// The group.
    pub group: GroupId,
    /// The epoch of these keys.
    pub epoch: u64,
    /// When that epoch is, or was, to be sent in: an activation that has passed is zero.
    pub timing: Timing,
    /// The member's leaf.
    pub leaf: Leaf,
    /// What the next message's element of the hash chain leads to.
    pub anchor: Element,
    /// The keys from the leaf's up to the root's: 2 to 25 of them.
    keys: Vec<NodeKey>,
}

impl Grant {
    /// `None` unless there are 2 to 25 keys and the leaf is in a tree of that depth.
    pub fn new(
        group: GroupId,
        epoch: u64,
        timing: Timing,
        leaf: Leaf,
        anchor: Element,
        keys: Vec<NodeKey>,
    ) -> Option<Self> {
        let depth = keys.len().checked_sub(1)?;
        let fits = (1..=usize::from(MAX_DEPTH)).contains(&depth) && leaf.get() >> depth == 0;
        fits.then_some(Self { group, epoch, timing, leaf, anchor, keys })
    }

    /// The keys from the leaf's up to the root's.
    pub fn keys(&self) -> &[NodeKey] {
        &self.keys
    }

    pub(super) fn into_keys(self) -> Vec<NodeKey> {
        self.keys
    }

    /// As it is sent, under DTLS.
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let mut bytes = Zeroizing::new(alloc::vec![0; GRANT_HEAD + KEY * self.keys.len()]);
        let mut w = Writer::new(&mut bytes);
        w.put(self).expect("the length is counted above");
        bytes
    }
}

impl Decode<'_> for Grant {
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        read_kind(reader, GRANT)?;
        let (group, epoch) = (GroupId(reader.array()?), reader.u64()?);
        let timing = Timing::read(reader)?;
        let leaf = Leaf::new(reader.u24()?).ok_or(DecodeError::Invalid("leaf"))?;
        let depth = read_depth(reader)?;
        let anchor = reader.array()?;
        // The whole of them at once: a vector that grows would leave copies behind.
        let (keys, _) = reader.take(KEY * (usize::from(depth) + 1))?.as_chunks::<KEY>();
        let keys = keys.iter().map(|key| NodeKey::new(*key)).collect();
        Self::new(group, epoch, timing, leaf, anchor, keys).ok_or(DecodeError::Invalid("leaf"))
    }
}

impl Encode for Grant {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        w.bytes(&[VERSION, GRANT])?;
        w.bytes(&self.group.0)?;
        w.u64(self.epoch)?;
        self.timing.write(w)?;
        w.u24(self.leaf.get())?;
        // 2 to 25 keys.
        w.u8(self.keys.len() as u8 - 1)?;
        w.bytes(&self.anchor)?;
        self.keys.iter().try_for_each(|key| w.bytes(key.as_bytes()))
    }
}
