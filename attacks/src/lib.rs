//! Attacks on the engines. Each is a function of a seed.
//!
//! - [`fleet`]: many handshakes over a lossy relay;
//! - [`drops`]: handshakes with any two datagrams lost, and with bursts of copies of each datagram;
//! - [`setup`]: the configurations of two engines;
//! - [`peer_with_keys`]: a malicious peer that uses the engines' keys;
//! - [`cuts`]: every message truncated and changed at every byte;
//! - [`control_requests`]: the requests that members of groups send to their controller;
//! - [`junk`]: random, altered and replayed datagrams; [`mutate`] makes them;
//! - [`forgery`]: an attacker on the path against aggregated tags;
//! - [`injection`]: what junk costs associations that share tags; [`rivals`]: how many genuine
//!   records are delivered if junk of any length arrives ahead of them;
//! - [`masks`]: how soon an observer sees record number masks repeat;
//! - [`histories`]: groups whose members join, leave, crash and miss messages;
//! - [`clones`]: copies of devices, made from their tokens or their stored state;
//! - [`noise`]: arbitrary bytes sent to members of groups and their controller;
//! - [`restarts`]: processes that end at any point, and the associations that go on;
//! - [`strangers`]: attackers without a key against handshakes and associations;
//! - [`tunnel`]: the MACsec gateway under observation, forgery, floods and loss;
//! - [`altering`]: an attacker in front of a real peer, such as an emulated board;
//! - [`link`]: a link between emulated boards with an attacker on it;
//! - [`updates`]: aggregation schemes that change again and again over a lossy network;
#![forbid(unsafe_code)]

pub mod altering;
pub mod clones;
pub mod control_requests;
pub mod credentials;
pub mod cuts;
pub mod dangerous;
pub mod drops;
pub mod fleet;
pub mod forgery;
pub mod histories;
pub mod injection;
pub mod junk;
pub mod link;
pub mod masks;
pub mod mutate;
pub mod noise;
mod onpath;
mod parallel;
pub mod peer_with_keys;
pub mod restarts;
pub mod rivals;
pub mod setup;
pub mod strangers;
pub mod tunnel;
pub mod updates;
