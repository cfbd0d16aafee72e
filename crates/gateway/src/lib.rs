//! Tunnels that carry MACsec frames between LANs over IP, sans I/O.
//!
//! A [`Gateway`](gateway::Gateway) stands at the edge of a LAN. It takes MACsec frames from the
//! LAN, hides their headers, and sends them to the peer gateway behind which the destination is. A
//! frame that arrives from a peer is forwarded to the LAN only if it is authentic and was not
//! received before. A gateway holds no MACsec keys and needs none.
//!
//! - [`schemes`]: how a frame is represented in a tunnel datagram; one trait, five schemes;
//! - [`flows`]: the state that both gateways keep for frames with a common header, so that
//!   datagrams can carry a short header;
//! - [`link`]: sealed datagrams between two gateways, and [`keys`] for them;
//! - [`stations`]: the table of station addresses, learned within limits;
//! - [`fragments`]: frames that are longer than a datagram may be;
//! - [`control`]: key agreement, keepalives and the path's MTU, over the management channel;
//! - [`counters`]: how many frames and datagrams were dropped, by reason.
//!
//! Under some schemes a frame must wait until the peer knows its flow. `seal` answers such a frame
//! with `Hold`: the host then gives a copy to [`Gateway::hold`](gateway::Gateway::hold), and later
//! sends the frames that [`Gateway::poll_released`](gateway::Gateway::poll_released) returns.
//!
//! The host owns sockets, clocks and threads. Each of its threads has its own lane (key and packet
//! counter) for sending, and may receive any datagram:
//!
//! ```
//! use lightseal_gateway::gateway::{DatagramPlan, Gateway};
//! use lightseal_gateway::schemes::SealOutcome;
//! use lightseal_gateway::{Instant, PacketBuf};
//!
//! /// A frame of the LAN that fits one datagram and goes to one peer.
//! fn out(gateway: &Gateway, now: Instant, packet: &mut PacketBuf<'_>, mut send: impl FnMut(&[u8])) {
//!     let Ok(route) = gateway.route_frame(now, packet.bytes()) else { return };
//!     for peer in route.peers {
//!         if gateway.plan_datagrams(peer, &route) == Ok(DatagramPlan::Single)
//!             && gateway.seal(now, 0, peer, &route, packet) == Ok(SealOutcome::Ready)
//!         {
//!             send(packet.bytes());
//!         }
//!     }
//! }
//! ```

#![forbid(unsafe_code)]

pub mod bucket;
mod claims;
pub mod codepoints;
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
pub mod pcbc;
pub mod peer_set;
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
