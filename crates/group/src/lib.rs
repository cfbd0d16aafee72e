//! Secure multicast groups over an adapted DTLS record layer: the engine.
//!
//! A *sender* multicasts group requests; *listeners* answer each with a unicast group response.
//! All members share one group security association from a group controller, and nobody performs
//! a handshake with anybody but the controller. No socket, no thread, no clock, no global.
//!
//! - [`axiom`]: records and keys of profile `axiom-1.2`, which is Axiom as Tiloca, Nikitin and
//!   Raza describe it (*Axiom – DTLS-based secure IoT group communication*, ACM TECS): DTLS 1.2's
//!   record with its sequence number split;
//! - [`compact`]: records and keys of profile `compact`, ours: DTLS 1.3's unified header, hidden
//!   numbers, optional source authentication;
//! - [`member`]: a sender, a listener or both, on top of these;
//! - [`node`]: a member of several groups;
//! - [`controller`]: who is a member, and what all are told; [`control`]: what members and their
//!   controller say to each other; [`start`]: which run of a member speaks;
//! - [`rekey`]: new group keys for all members but the evicted, by a logical key hierarchy;
//! - [`policy`]: what holds for all members of a group;
//! - [`numbers`]: record numbers that no restart uses twice;
//! - [`identity`]: the keys of single members; [`directory`]: how others learn the public ones;
//! - [`ids`]: who is who; [`codepoints`]: the numbers of this protocol in one place.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod axiom;
pub mod codepoints;
pub mod compact;
pub mod control;
pub mod controller;
pub mod directory;
pub mod identity;
pub mod ids;
pub mod member;
pub mod node;
pub mod numbers;
pub mod policy;
pub mod rekey;
pub mod start;

pub use compact::self_test;
pub use controller::Controller;
pub use identity::Identity;
pub use ids::{GroupId, ListenerId, SenderId};
pub use member::Member;
pub use node::Node;
pub use policy::Policy;
pub use start::Start;
