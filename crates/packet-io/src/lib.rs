//! How frames and datagrams come and go, in batches.
//!
//! - [`Pool`]: frames of one size in one region of memory, and [`Frame`], who owns one;
//! - [`LanPort`]: Ethernet frames of an interface; [`Underlay`]: UDP datagrams between gateways;
//! - [`memory`]: both in memory, for tests;
//! - `af_packet`, `udp`: both through the kernel's sockets;
//! - `xdp`: both through AF_XDP, past the kernel's network stack and without a copy here;
//! - `tap`: an Ethernet interface whose other end is this process;
//! - `Interface`: what an interface is, and what its driver does behind one's back;
//! - `Waiter`: what a thread does between packets.
//!
//! All but the pool and the ports in memory is for Linux. One thread owns a pool and the ports
//! that are used with it; several threads have one of each. Nothing here knows what is in a
//! packet but TCP's headers at a TAP device, where the host leaves large segments to be split; and no
//! packet that comes in is an error.
//!
//! # A loop
//!
//! ```
//! use packet_io::{Frame, LanPort, Pool};
//!
//! /// One round of a bridge between two ports: what comes in here goes out there.
//! fn forward(
//!     pool: &mut Pool,
//!     from: &mut impl LanPort,
//!     to: &mut impl LanPort,
//!     frames: &mut Vec<Frame>,
//! ) -> std::io::Result<usize> {
//!     let count = from.receive(pool, frames)?;
//!     to.transmit(pool, frames)?;
//!     pool.release_all(frames.drain(..));
//!     Ok(count)
//! }
//! ```
#![deny(unsafe_code)]

#[cfg(target_os = "linux")]
pub mod af_packet;
#[cfg(target_os = "linux")]
mod ethertype;
#[cfg(target_os = "linux")]
mod interface;
#[cfg(target_os = "linux")]
mod kernel;
pub mod memory;
mod pool;
mod port;
mod region;
#[cfg(target_os = "linux")]
pub mod tap;
#[cfg(target_os = "linux")]
pub mod udp;
#[cfg(target_os = "linux")]
mod wait;
#[cfg(target_os = "linux")]
pub mod xdp;

#[cfg(target_os = "linux")]
pub use interface::{Interface, Offload, OpenError};
pub use pool::{Frame, HEADROOM, Pool, PoolSettings, TAILROOM};
pub use port::{BATCH, Datagram, LanPort, Refusal, RefusalCause, Source, Statistics, Underlay};
#[cfg(target_os = "linux")]
pub use wait::Waiter;
