//! The request of a member that missed a rekey, and the grant of keys in the answer. A new member
//! gets its keys in the same format.
//!
//! Both messages are sent point to point under the member's DTLS association with the controller,
//! which encrypts them and authenticates both ends. The controller answers a request only with the
//! keys of the leaf that belongs to the authenticated member.
//!
//! ```text
//! request: version (1) = 1 ‖ kind (1) = 2 ‖ group (16) ‖ epoch (8): the member's
//! answer:  version (1) = 1 ‖ kind (1) = 3 ‖ group (16) ‖ epoch (8): the current one
//!          ‖ activation (2) ‖ retention (1) ‖ leaf (3) ‖ depth (1) ‖ anchor (16)
//!          ‖ depth + 1 keys (16 each), the leaf's first, the root's last
//! ```
//!
//! `activation` is the remaining activation time when the answer is sent.

#[cfg(feature = "alloc")]
use alloc::vec::Vec;
use lightseal_core::wire::BufferFull;
use lightseal_core::{Decode, DecodeError, Encode, Reader, Writer};
#[cfg(feature = "alloc")]
use zeroize::Zeroizing;

use super::chain::Element;
use super::head::{read_depth, read_kind};
use super::node::{EpochKey, KEY, Leaf, NodeKey};
use super::timing::Timing;
use super::{MAX_DEPTH, VERSION, wrap};
use crate::GroupId;

const PULL: u8 = 2;
const GRANT: u8 = 3;
/// The length in bytes of an answer without its keys.
const GRANT_HEAD: usize = 2 + 16 + 8 + 3 + 3 + 1 + 16;
/// The maximum length of an answer in bytes.
pub const MAX_GRANT_BYTES: usize = GRANT_HEAD + KEY * (MAX_DEPTH as usize + 1);

/// A member's request for the keys of the current epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PullRequest {
    /// The group's identifier.
    pub group: GroupId,
    /// The newest epoch whose keys the member has.
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

/// All keys of one leaf, for a new member or for a member that missed a rekey message.
#[cfg(feature = "alloc")]
#[derive(Clone, Debug)]
pub struct Grant {
    /// The group's identifier.
    pub group: GroupId,
    /// The epoch of these keys.
    pub epoch: u64,
    /// When members send in that epoch. If its activation time is over, the activation is zero.
    pub timing: Timing,
    /// The member's leaf.
    pub leaf: Leaf,
    /// The anchor of the hash chain, against which the next message's element is checked.
    pub anchor: Element,
    /// The 2 to 25 keys from the leaf's up to the root's.
    keys: Vec<NodeKey>,
}

#[cfg(feature = "alloc")]
impl Grant {
    /// A grant; `None` unless there are 2 to 25 keys and the leaf lies in a tree of that depth.
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

    /// The encoded grant, to be sent under DTLS.
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let mut bytes = Zeroizing::new(alloc::vec![0; GRANT_HEAD + KEY * self.keys.len()]);
        let mut w = Writer::new(&mut bytes);
        w.put(self).expect("the length is counted above");
        bytes
    }
}

/// The keys of a grant as it was received: they lie in the message.
pub struct ReceivedGrant<'a> {
    group: &'a [u8; 16],
    /// The epoch of these keys.
    pub epoch: u64,
    /// As [`Grant`]'s.
    pub timing: Timing,
    /// The member's leaf.
    pub leaf: Leaf,
    /// The anchor of the hash chain.
    anchor: &'a Element,
    /// The 2 to 25 keys from the leaf's up to the root's.
    keys: &'a [[u8; KEY]],
}

impl ReceivedGrant<'_> {
    /// Whether the grant is for this group.
    pub fn is_for(&self, group: &GroupId) -> bool {
        *self.group == group.0
    }

    /// The number of leaves of the tree.
    pub fn leaves(&self) -> u32 {
        1 << (self.keys.len() - 1)
    }

    /// The root key of the epoch of `group`, for which the grant is.
    pub fn epoch_key(&self, group: &GroupId) -> EpochKey {
        let root = self.keys.last().expect("a grant has two keys at least");
        wrap::epoch_key(group, self.epoch, &NodeKey::new(*root))
    }
}

impl<'a> Decode<'a> for ReceivedGrant<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        read_kind(reader, GRANT)?;
        let (group, epoch) = (chunk(reader)?, reader.u64()?);
        let timing = Timing::read(reader)?;
        let leaf = Leaf::new(reader.u24()?).ok_or(DecodeError::invalid("leaf"))?;
        let depth = usize::from(read_depth(reader)?);
        let anchor = chunk(reader)?;
        let (keys, _) = reader.take(KEY * (depth + 1))?.as_chunks::<KEY>();
        if leaf.get() >> depth != 0 {
            return Err(DecodeError::invalid("leaf"));
        }
        Ok(Self { group, epoch, timing, leaf, anchor, keys })
    }
}

/// The next 16 bytes, where they lie.
fn chunk<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8; 16], DecodeError> {
    reader.take(16)?.first_chunk().ok_or(DecodeError::Short)
}

#[cfg(feature = "alloc")]
impl Decode<'_> for Grant {
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let received = ReceivedGrant::read(reader)?;
        let ReceivedGrant { group, epoch, timing, leaf, anchor, keys } = received;
        // All keys are copied at once, because a vector that grows would leave unerased copies of
        // keys in memory.
        let keys = keys.iter().map(|key| NodeKey::new(*key)).collect();
        Ok(Self { group: GroupId(*group), epoch, timing, leaf, anchor: *anchor, keys })
    }
}

#[cfg(feature = "alloc")]
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
