//! Attacks on the engines, each a function of a seed.
//!
//! - [`fleet`]: many handshakes over a lossy relay;
//! - [`drops`]: any two datagrams of a handshake lost, and bursts of each;
//! - [`world`]: two engines and a network whose rule an attacker chooses;
//! - [`secrets`]: the engines' keys, for a peer that lies under them;
//! - [`cuts`]: every message cut and changed at every byte;
//! - [`junk`]: random, altered and replayed datagrams; [`mutate`] makes them;
//! - [`forgery`]: an attacker on the path against aggregated tags;
//! - [`injection`]: what junk costs those who share tags; [`rivals`]: what junk ahead of genuine
//!   records, of any length, leaves of them;
//! - [`masks`]: how soon record number masks are seen to repeat;
//! - [`histories`]: groups whose members come, go, crash and miss what is said;
//! - [`clones`]: copies of devices, by token and by state;
//! - [`noise`]: any bytes to members of groups and their controller;
//! - [`strangers`]: attackers without a key against handshakes and associations;
//! - [`tunnel`]: the MACsec gateway watched, forged, flooded, and over a network that loses;
//! - [`updates`]: aggregation schemes changed again and again over a lossy network;
//! - [`targets`]: what libFuzzer and the seeded driver feed with bytes.
#![forbid(unsafe_code)]

pub mod clones;
pub mod cuts;
#[cfg(feature = "dangerous-gcm-aggregation")]
pub mod dangerous;
pub mod drops;
#[path = "../../crates/group/tests/field/mod.rs"]
mod field;
pub mod fleet;
pub mod forgery;
pub mod histories;
pub mod injection;
pub mod junk;
pub mod masks;
pub mod mutate;
pub mod noise;
mod onpath;
mod parallel;
pub mod rivals;
pub mod secrets;
pub mod strangers;
pub mod targets;
pub mod tunnel;
pub mod updates;
pub mod world;
