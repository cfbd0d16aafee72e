//! A rekey message on the wire, and the controller's signature over it.
//!
//! ```text
//! version (1) = 1
//! kind (1) = 1
//! alias (1)             the group's
//! flags (1)             1: first and last are present; 2: next anchor is present; others: 0
//! epoch (8)             the new epoch: the previous one is one less
//! element (16)          of the hash chain
//! activation (2)        tenths of a second until senders use the new epoch
//! retention (1)         seconds for which the old epoch is received after that, at most 60
//! depth (1)             levels of the tree above its leaves, 1 to 24
//! [ first (3) last (3)  the leaves that this message is for; if absent: all ]
//! [ next anchor (16)    of the next hash chain ]
//! shape                 which nodes have new keys, and under which keys: see `shape`
//! wraps (24 each)       the wrapped keys, as many as the shape implies
//! signature (64)        Ed25519 over "lightseal group rekey" ‖ 0 ‖ group (16) ‖ all of the above
//! ```
//!
//! If a change does not fit into one message of the requested size, it is split into several
//! messages with the same epoch and element. Each message is complete for the leaves in its range:
//! a member needs only the message for its own leaf.

use alloc::vec::Vec;
use core::fmt;
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use lightseal_core::parts::PartState;
use lightseal_core::wire::BufferFull;
use lightseal_core::{DecodeError, Reader, Writer};

use super::chain::Element;
use super::head::{REKEY, read_depth, read_kind};
use super::node::Leaf;
use super::shape::Shape;
use super::timing::Timing;
use super::wrap::WRAPPED;
use super::{MAX_MESSAGE_BYTES, VERSION};
use crate::GroupId;
use crate::parts::Signatures;

/// The bits of the flags.
const HAS_RANGE: u8 = 1;
const HAS_NEXT_ANCHOR: u8 = 2;
/// The length in bytes of the parts that are always present: the fields up to `depth`, and the
/// signature.
const FIXED: usize = 32 + SIGNATURE;
pub(super) const SIGNATURE: usize = 64;
const DOMAIN: &[u8] = b"lightseal group rekey\0";

/// The controller's Ed25519 private key, zeroized when dropped.
#[derive(Clone)]
pub struct ControllerSecret(pub(super) SigningKey);

impl ControllerSecret {
    /// A key from its seed, which must be 32 secret bytes with full entropy.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self(SigningKey::from_bytes(seed))
    }

    /// The seed, for storage.
    pub fn seed(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }

    /// The public key that verifies its signatures.
    pub fn public(&self) -> ControllerKey {
        let key = self.0.verifying_key();
        let verifying = PartState::new(Signatures::INCLUDED, |_| key);
        ControllerKey { bytes: key.to_bytes(), verifying }
    }
}

impl fmt::Debug for ControllerSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ControllerSecret(..)")
    }
}

/// A controller's Ed25519 public key. A build without signatures keeps its bytes, and takes no
/// message for the controller's.
#[derive(Clone)]
pub struct ControllerKey {
    bytes: [u8; 32],
    verifying: PartState<Signatures, VerifyingKey>,
}

impl fmt::Debug for ControllerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl PartialEq for ControllerKey {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for ControllerKey {}

impl ControllerKey {
    /// A public key from its 32 bytes; `None` if they are not a point of the curve, or a point of
    /// small order. A build without signatures does not check this.
    pub fn from_bytes(bytes: &[u8; 32]) -> Option<Self> {
        let Some(part) = Signatures::INCLUDED else {
            return Some(Self { bytes: *bytes, verifying: PartState::EMPTY });
        };
        let key = VerifyingKey::from_bytes(bytes).ok().filter(|key| !key.is_weak())?;
        Some(Self { bytes: *bytes, verifying: PartState::new(Some(part), |_| key) })
    }

    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.bytes
    }

    /// Whether `signature` is this controller's over `message`.
    pub(super) fn has_signed(&self, message: &[&[u8]], signature: &[u8; SIGNATURE]) -> bool {
        let Some(key) = self.verifying.get() else { return false };
        key.verify_strict(&message.concat(), &Signature::from_bytes(signature)).is_ok()
    }
}

/// The signature is not a valid signature of the controller over this message for this group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadSignature;

/// The fields of a message before it is signed.
#[derive(Debug)]
pub(super) struct Draft<'a> {
    pub(super) group: &'a GroupId,
    pub(super) epoch: u64,
    pub(super) element: Element,
    pub(super) timing: Timing,
    pub(super) depth: u8,
    pub(super) range: Option<[Leaf; 2]>,
    pub(super) next_anchor: Option<Element>,
    pub(super) shape: Vec<u8>,
    pub(super) wraps: Vec<[u8; WRAPPED]>,
}

impl Draft<'_> {
    /// The length in bytes of a message with `shape` bytes of shape and `wraps` wrapped keys.
    pub(super) const fn length(ranged: bool, anchored: bool, shape: usize, wraps: usize) -> usize {
        let range = if ranged { 6 } else { 0 };
        let anchor = if anchored { 16 } else { 0 };
        FIXED + range + anchor + shape + WRAPPED * wraps
    }

    /// Encodes and signs the message.
    pub(super) fn sign(&self, secret: &ControllerSecret) -> Vec<u8> {
        let (ranged, anchored) = (self.range.is_some(), self.next_anchor.is_some());
        let mut message =
            alloc::vec![0; Self::length(ranged, anchored, self.shape.len(), self.wraps.len())];
        let mut w = Writer::new(&mut message);
        self.write(&mut w).expect("the length is counted above");
        let signature = secret.0.sign(&[DOMAIN, &self.group.0, w.written()].concat());
        w.bytes(&signature.to_bytes()).expect("the length is counted above");
        message
    }

    fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        let range = if self.range.is_some() { HAS_RANGE } else { 0 };
        let anchor = if self.next_anchor.is_some() { HAS_NEXT_ANCHOR } else { 0 };
        w.bytes(&[VERSION, REKEY, self.group.alias(), range | anchor])?;
        w.u64(self.epoch)?;
        w.bytes(&self.element)?;
        self.timing.write(w)?;
        w.u8(self.depth)?;
        self.range.into_iter().flatten().try_for_each(|leaf| w.u24(leaf.get()))?;
        self.next_anchor.iter().try_for_each(|anchor| w.bytes(anchor))?;
        w.bytes(&self.shape)?;
        self.wraps.iter().try_for_each(|wrap| w.bytes(wrap))
    }
}

/// A well-formed message whose signature was not checked. Anybody may have written it.
#[derive(Clone, Debug)]
pub struct Unverified<'a> {
    /// The alias of the group that it is for.
    pub alias: u8,
    /// The new epoch.
    pub epoch: u64,
    /// Its element of the hash chain.
    pub element: Element,
    /// The first and the last leaf that it is for.
    pub range: [Leaf; 2],
    message: RekeyMessage<'a>,
    signed: &'a [u8],
    signature: [u8; SIGNATURE],
}

impl<'a> Unverified<'a> {
    /// Parses a message, which must fill `bytes`.
    ///
    /// # Errors
    /// The bytes are not a rekey message, or one of another version, longer than
    /// [`MAX_MESSAGE_BYTES`], truncated, or followed by other bytes.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        if bytes.len() > MAX_MESSAGE_BYTES {
            return Err(DecodeError::invalid("length of a rekey message"));
        }
        let mut reader = Reader::new(bytes);
        let message = Self::read(&mut reader, bytes)?;
        reader.finish()?;
        Ok(message)
    }

    fn read(reader: &mut Reader<'a>, bytes: &'a [u8]) -> Result<Self, DecodeError> {
        read_kind(reader, REKEY)?;
        let alias = reader.u8()?;
        let flags = reader.u8()?;
        if flags & !(HAS_RANGE | HAS_NEXT_ANCHOR) != 0 {
            return Err(DecodeError::invalid("flags of a rekey message"));
        }
        let epoch = reader.u64()?;
        let element = reader.array()?;
        let timing = Timing::read(reader)?;
        let depth = read_depth(reader)?;
        let mut range = [Leaf::new(0), Leaf::new((1 << depth) - 1)];
        if flags & HAS_RANGE != 0 {
            range = [Leaf::new(reader.u24()?), Leaf::new(reader.u24()?)];
        }
        let [Some(first), Some(last)] = range else {
            return Err(DecodeError::invalid("leaf"));
        };
        if first > last || last.get() >> depth != 0 {
            return Err(DecodeError::invalid("range of leaves"));
        }
        let next_anchor = if flags & HAS_NEXT_ANCHOR != 0 { Some(reader.array()?) } else { None };
        let shape = Shape::read(reader, depth)?;
        // There are at most MAX_MESSAGE_BYTES × 2 × 2 wraps of 24 bytes, so this cannot overflow.
        let (wraps, _) = reader.take(WRAPPED * shape.wraps())?.as_chunks();
        let signed = &bytes[..bytes.len() - reader.rest().len()];
        let message =
            RekeyMessage { epoch, timing, depth, range: [first, last], next_anchor, shape, wraps };
        Ok(Self {
            alias,
            epoch,
            element,
            range: message.range,
            message,
            signed,
            signature: reader.array()?,
        })
    }

    /// Checks the signature.
    ///
    /// # Errors
    /// The signature is not by `controller`, or is for another group.
    pub fn verify(
        self,
        group: &GroupId,
        controller: &ControllerKey,
    ) -> Result<RekeyMessage<'a>, BadSignature> {
        let signed = [DOMAIN, &group.0, self.signed];
        if controller.has_signed(&signed, &self.signature) {
            Ok(self.message)
        } else {
            Err(BadSignature)
        }
    }
}

/// A message whose signature by the controller was verified.
#[derive(Clone, Debug)]
pub struct RekeyMessage<'a> {
    /// The new epoch.
    pub epoch: u64,
    /// When members switch to the new epoch.
    pub timing: Timing,
    /// Levels of the tree above its leaves.
    pub depth: u8,
    /// The first and the last leaf that it is for.
    pub range: [Leaf; 2],
    /// The anchor of the next hash chain, if the next message's element belongs to a new chain.
    pub next_anchor: Option<Element>,
    /// The nodes that have new keys.
    pub shape: Shape<'a>,
    /// The new keys, each wrapped under another key, in the order of the shape.
    pub wraps: &'a [[u8; WRAPPED]],
}
