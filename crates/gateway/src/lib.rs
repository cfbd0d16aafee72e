//! Tunnels that carry MACsec frames between LANs over IP, sans I/O.
//!
//! A [`Gateway`](gateway::Gateway) stands at the edge of a LAN. It takes MACsec frames from the
//! LAN, hides their headers, and sends them to the peer gateway behind which the destination is. A
//! frame that arrives from a peer is forwarded to the LAN only if it is authentic and was not
//! received before. A gateway holds no MACsec keys and needs none.
//!
//! - [`schemes`]: how a frame is represented in a tunnel datagram; one trait, which schemes outside of
//!   this crate may implement too;
//! - [`flows`]: the state that both gateways keep for frames with a common header, so that
//!   datagrams can carry a short header;
//! - [`link`]: sealed datagrams between two gateways, and [`keys`] for them;
//! - [`stations`]: the table of station addresses, learned within limits;
//! - [`fragments`]: frames that are longer than a datagram may be;
//! - [`config`]: the settings, which are checked where a gateway is made from them;
//! - [`control`]: key agreement, keepalives and the path's MTU, over the management channel;
//! - [`counters`]: how many frames and datagrams were dropped, by reason.
//!
//! The host owns sockets, clocks, threads and buffers. Each of its threads has its own lane (key and
//! packet counter) for sending, and may receive any datagram. A thread gives each frame of the LAN
//! to [`Gateway::dispatch`](gateway::Gateway::dispatch), which decides which peers the frame is for
//! and returns datagrams to the host's [`Sink`](gateway::Sink). It gives each datagram of a peer to
//! [`Gateway::open_datagram`](gateway::Gateway::open_datagram). Under some schemes a frame must wait
//! until the peer knows its flow: the gateway then holds the frame, and sends it from
//! [`Gateway::dispatch_released`](gateway::Gateway::dispatch_released).
//!
//! ```
//! use lightseal_gateway::Instant;
//! use lightseal_gateway::gateway::{Gateway, Sink};
//!
//! /// One turn of a thread: a frame from the LAN, then frames that were held.
//! fn turn<S: Sink>(gateway: &Gateway, now: Instant, frame: S::Buffer, sink: &mut S) {
//!     let lane = 0;
//!     gateway.dispatch(now, lane, frame, sink);
//!     gateway.dispatch_released(now, lane, sink);
//! }
//! ```

#![forbid(unsafe_code)]

pub mod bucket;
mod claims;
pub mod codepoints;
pub mod config;
pub mod control;
pub mod counters;
mod echoes;
pub mod flows;
pub mod fragments;
pub mod gateway;
mod hashing;
mod hold_queue;
pub mod keys;
pub mod link;
mod notices;
mod other_gateway;
pub mod peer_set;
mod route;
pub mod schemes;
pub mod stations;
pub mod tuning;
pub mod window;

pub use lightseal_core::{Instant, PacketBuf, Random};

/// The examples of the page that the registry shows.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Locks a mutex, also after a thread panicked with the lock held: no critical section in this
/// crate leaves its data inconsistent.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read<T: ?Sized>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T: ?Sized>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
