//! The keys of members and controllers, which a program stores, restores or passes on.

pub use crate::compact::{InvalidPublicKey, PrivateKey, PublicKey, SigningKey, VerifyingKey};
pub use crate::rekey::{
    Chain, ChangeError, ControllerKey, ControllerSecret, EpochKey, Grant, KeyPath, KeyServer,
    KeyTree, Leaf, Node, NodeKey, PullRequest, Refusal, Timing,
};
