//! New group keys for all members but the evicted: a binary logical key hierarchy.
//!
//! The group controller keeps a binary tree of keys; a member is one of its leaves and knows the
//! keys on its path to the root (Wong, Gouda and Lam, *Secure Group Communications Using Key
//! Graphs*, 2000, which Axiom points to in section 7.6). A *rekey* draws fresh keys for every
//! node on every changed path, and one signed message tells each of them to whoever may know it.
//! The key of an epoch comes from the root's.
//!
//! - [`server`]: the controller's side, which changes the membership and writes rekey messages;
//!   [`tree`]: its keys;
//! - [`member`]: a member's side; [`schedule`]: which epoch it sends with, which it receives;
//! - [`message`]: a rekey message on the wire, its signature; [`shape`]: which key it tells whom;
//! - [`kept`]: whose leaf is whose after it; [`ending`]: an epoch's end at once;
//!   [`listing`]: the list of active senders;
//! - [`pull`]: the request of a member that missed one, and the answer;
//! - [`wrap`]: a key under another one; [`chain`]: the cheap filter before signatures;
//! - [`node`]: places in the tree, and what is kept there.
//!
//! What this protects: who leaves can follow no later epoch, who joins no earlier one. A renewal
//! without a change of members draws a new root alone, under the old root: it ends the use of a
//! key, and shuts out nobody who had it. `docs/spec/group.md`, section 4, defines all of it on
//! the wire.

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
pub use kept::Kept;
pub use member::{KeyPath, NewEpoch, Outcome, Refusal};
pub use message::{ControllerKey, ControllerSecret, Timing};
pub use node::{EpochKey, Leaf, Node, NodeKey};
pub use pull::{Grant, PullRequest};
pub use restoration::epoch_after_restoration;
pub use schedule::EpochSchedule;
pub use server::{Change, ChangeError, KeyServer, Rekeying};
pub use tree::KeyTree;

/// The version that every message of this module begins with.
pub const VERSION: u8 = 1;
/// Levels above the leaves at most, so that a leaf's number takes three bytes, as a ListenerID.
pub const MAX_DEPTH: u8 = 24;
/// The longest rekey message: what one record can hold (RFC 8446, section 5.1).
pub const MAX_MESSAGE_BYTES: usize = 1 << 14;
