//! Secure multicast groups over an adapted DTLS record layer: the engine.
//!
//! A *sender* multicasts group requests; *listeners* answer each with a unicast group response. A
//! group controller gives all members one group security association, and the only handshakes are
//! those between a member and the controller. The engine has no socket, thread, clock or global
//! state.
//!
//! - [`member`]: a group member (sender, listener or both);
//! - [`symmetric`]: a member with symmetric keys alone that needs no allocator, for small devices;
//! - [`node`]: a member of several groups;
//! - [`controller`]: the group controller, which admits and evicts members and announces rekeys;
//!   [`control`]: the requests and answers between a member and its controller; [`start`]: how the
//!   controller tells the runs of a member's program apart;
//! - [`keys`]: the keys of members and controllers, which a program stores or passes on;
//! - [`policy`]: the settings that are fixed for a group and common to all its members;
//! - [`numbers`]: record numbers, which are never used twice, even after a restart;
//! - [`identity`]: the long-term keys of a single member; [`directory`]: how other members look up
//!   its public keys;
//! - [`ids`]: identifiers of groups, senders and listeners.
//!
//! The policy of a group says which of two profiles its records have. `axiom-1.2` is Axiom as
//! Tiloca, Nikitin and Raza describe it (*Axiom – DTLS-based secure IoT group communication*, ACM
//! TECS): DTLS 1.2's record with its sequence number split. `compact` is defined by this project:
//! DTLS 1.3's unified header, encrypted record numbers, optional source authentication. New keys
//! reach all members except evicted ones by a logical key hierarchy.
//!
//! With the feature `internals` the modules of both profiles, of rekeying and of code points are
//! public, for the crates of this repository. They are not covered by semantic versioning.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(feature = "internals"),
    allow(dead_code, unreachable_pub, unused_imports, reason = "the internals are private")
)]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(test)]
extern crate std;

#[cfg(not(feature = "internals"))]
mod axiom;
#[cfg(feature = "internals")]
pub mod axiom;
#[cfg(not(feature = "internals"))]
mod codepoints;
#[cfg(feature = "internals")]
pub mod codepoints;
#[cfg(not(feature = "internals"))]
mod compact;
#[cfg(feature = "internals")]
pub mod compact;
#[cfg(feature = "alloc")]
pub mod control;
#[cfg(feature = "controller")]
pub mod controller;
#[cfg(feature = "alloc")]
pub mod directory;
mod epoch;
#[cfg(feature = "alloc")]
pub mod identity;
pub mod ids;
mod interface;
#[cfg(feature = "alloc")]
pub mod keys;
mod list;
#[cfg(feature = "alloc")]
pub mod member;
#[cfg(feature = "alloc")]
pub mod node;
pub mod numbers;
mod parts;
pub mod policy;
#[cfg(not(feature = "internals"))]
mod rekey;
#[cfg(feature = "internals")]
pub mod rekey;
pub mod start;
pub mod symmetric;

#[cfg(all(feature = "signatures", feature = "pairwise"))]
pub use compact::self_test;
#[cfg(feature = "controller")]
pub use controller::Controller;
#[cfg(feature = "alloc")]
pub use identity::Identity;
pub use ids::{GroupId, ListenerId, SenderId, SenderSet};
pub use lightseal_core::{Decode, Encode, Instant, Random, Writer};
#[cfg(feature = "alloc")]
pub use member::Member;
#[cfg(feature = "alloc")]
pub use node::MultiGroupNode;
pub use policy::Policy;
pub use start::Start;

/// The examples of the page that the registry shows.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
