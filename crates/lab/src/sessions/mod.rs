//! A server that has room for few sessions, and the clients it has no room for: section IV of
//! the paper on duty-cycled networks.
//!
//! - [`Engset`]: how often that happens, by formula;
//! - [`Crowd`]: the same counted: real clients at a real server, in virtual time.
//!
//! The paper's 17 % (3 slots, 5 clients, ρ = 0.5) are *time congestion*, the share of time in which
//! every slot is taken. A client that comes finds them taken less often (*call congestion*, 10 %):
//! while they are, fewer clients are left to come.

mod client;
mod crowd;
mod engset;
mod world;

pub use crowd::{Crowd, Measured};
pub use engset::Engset;
