//! Rekeying by a binary logical key hierarchy: new group keys for all members except the evicted
//! ones.
//!
//! The group controller keeps a binary tree of keys. Each member has one leaf, and knows the keys
//! on the path from its leaf to the root (Wong, Gouda and Lam, *Secure Group Communications Using
//! Key Graphs*, 2000, which Axiom refers to in section 7.6). A *rekey* draws a fresh key for every
//! node on every changed path. One signed message carries these keys, each encrypted for the
//! members that may know it. The key of an epoch is derived from the root's key.
//!
//! - [`server`]: the controller's side, which changes the membership and writes rekey messages;
//!   [`tree`]: its key tree;
//! - [`member`]: a member's side; [`schedule`]: the epochs in which a member sends and receives;
//! - [`message`]: the format and signature of rekey messages; [`shape`]: which nodes have new keys,
//!   and under which keys these are wrapped;
//! - [`kept`]: the leaves whose owners certainly did not change in a rekey; [`ending`]: the signed
//!   end of an epoch; [`listing`]: the signed list of active senders;
//! - [`pull`]: the request of a member that missed a rekey, and the answer;
//! - [`wrap`]: key wrapping; [`chain`]: a cheap filter in front of signature checks;
//! - [`node`]: nodes of the tree and their keys.
//!
//! Security properties: a former member cannot read later epochs, and a new member cannot read
//! earlier ones. A renewal without a change of members draws only a new root key and wraps it under
//! the old root key. This limits how long one key is used, but does not exclude anybody that had
//! the old key. `docs/spec/group.md`, section 4, specifies the wire format.

pub mod chain;
pub mod checks;
#[cfg(feature = "alloc")]
pub mod ending;
pub mod head;
#[cfg(feature = "alloc")]
pub mod kept;
#[cfg(feature = "alloc")]
pub mod listing;
#[cfg(feature = "alloc")]
pub mod member;
#[cfg(feature = "alloc")]
pub mod message;
pub mod node;
#[cfg(feature = "alloc")]
mod plan;
pub mod pull;
pub mod refusal;
#[cfg(feature = "alloc")]
pub mod restoration;
pub mod schedule;
#[cfg(feature = "alloc")]
pub mod server;
#[cfg(feature = "alloc")]
pub mod shape;
pub mod timing;
#[cfg(feature = "alloc")]
pub mod tree;
pub mod wrap;

pub use chain::Chain;
#[cfg(feature = "alloc")]
pub use kept::UnchangedOwners;
#[cfg(feature = "alloc")]
pub use member::{KeyPath, NewEpoch, Outcome};
#[cfg(feature = "alloc")]
pub use message::{ControllerKey, ControllerSecret};
pub use node::{EpochKey, Leaf, Node, NodeKey};
#[cfg(feature = "alloc")]
pub use pull::Grant;
pub use pull::{PullRequest, ReceivedGrant};
pub use refusal::Refusal;
#[cfg(feature = "alloc")]
pub use restoration::epoch_after_restoration;
#[cfg(feature = "alloc")]
pub use schedule::EpochSchedule;
#[cfg(feature = "alloc")]
pub use server::{KeyServer, Rekeying};
pub use timing::Timing;
#[cfg(feature = "alloc")]
pub use tree::{Change, ChangeError, KeyTree};

/// The version number at the start of every message of this module.
pub const VERSION: u8 = 1;
/// The maximum number of levels above the leaves. A leaf's number then fits into three bytes, as a
/// ListenerID.
pub const MAX_DEPTH: u8 = 24;
/// The maximum length of a rekey message in bytes: the most that one record can hold (RFC 8446,
/// section 5.1).
pub const MAX_MESSAGE_BYTES: usize = 1 << 14;
