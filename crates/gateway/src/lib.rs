//! Tunnels that carry MACsec frames between LANs over IP, sans I/O.
//!
//! A [`Gateway`](gateway::Gateway) stands at the edge of a LAN. It takes MACsec frames from there
//! and carries them, their headers hidden, to the peer behind which their destination is; what
//! comes from peers it lets onto the LAN only if it is authentic and new. It has no keys of MACsec
//! and needs none.
//!
//! - [`schemes`]: what a frame looks like outside; one trait, five schemes;
//! - [`flows`]: what both ends know of frames that follow each other, so that headers can be short;
//! - [`link`]: sealed datagrams between two gateways, and [`keys`] for them;
//! - [`bridge`]: where stations are, learned within limits;
//! - [`fragments`]: frames that are longer than a datagram;
//! - [`control`]: keys, signs of life and the path's MTU, over the management channel;
//! - [`counters`]: what was dropped, and why.
//!
//! Under some schemes a frame waits until the peer knows its flow: of one that `seal` answers with
//! `Hold` the host gives a copy to [`Gateway::hold`](gateway::Gateway::hold), and sends what
//! [`Gateway::poll_released`](gateway::Gateway::poll_released) lets go.
//!
//! The host owns sockets, clocks and threads. Each of its threads sends in a lane of its own
//! and may receive anything:
//!
//! ```
//! use gateway::gateway::{Arrived, Gateway, Plan};
//! use gateway::schemes::Sealed;
//! use vocabulary::{Instant, PacketBuf};
//!
//! /// A frame of the LAN that fits one datagram and goes to one peer.
//! fn out(gateway: &Gateway, now: Instant, packet: &mut PacketBuf<'_>, mut send: impl FnMut(&[u8])) {
//!     let Ok(parcel) = gateway.from_lan(now, packet.bytes()) else { return };
//!     for peer in parcel.to {
//!         if gateway.plan(peer, &parcel) == Ok(Plan::Whole)
//!             && gateway.seal(now, 0, peer, &parcel, packet) == Ok(Sealed::Ready)
//!         {
//!             send(packet.bytes());
//!         }
//!     }
//! }
//! ```

#![forbid(unsafe_code)]

pub mod bridge;
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
mod holding;
pub mod keys;
pub mod link;
mod neighbour;
mod notices;
pub mod pcbc;
pub mod schemes;
pub mod set;
pub mod tuning;
pub mod window;

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Locks; what a thread left that panicked is as whole as any.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read<T: ?Sized>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T: ?Sized>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
