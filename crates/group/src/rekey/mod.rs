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
pub mod ending;
pub mod kept;
pub mod listing;
pub mod member;
pub mod message;
pub mod node;
mod plan;
pub mod pull;
pub mod restoration;
pub mod schedule;
pub mod server;
pub mod shape;
pub mod tree;
pub mod wrap;

pub use chain::Chain;
pub use kept::UnchangedOwners;
pub use member::{KeyPath, NewEpoch, Outcome, Refusal};
pub use message::{ControllerKey, ControllerSecret, Timing};
pub use node::{EpochKey, Leaf, Node, NodeKey};
pub use pull::{Grant, PullRequest};
pub use restoration::epoch_after_restoration;
pub use schedule::EpochSchedule;
pub use server::{KeyServer, Rekeying};
pub use tree::{Change, ChangeError, KeyTree};

/// The version number at the start of every message of this module.
pub const VERSION: u8 = 1;
/// The maximum number of levels above the leaves. A leaf's number then fits into three bytes, as a
/// ListenerID.
pub const MAX_DEPTH: u8 = 24;
/// The maximum length of a rekey message in bytes: the most that one record can hold (RFC 8446,
/// section 5.1).
pub const MAX_MESSAGE_BYTES: usize = 1 << 14;
