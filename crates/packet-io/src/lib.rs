//! Ports that receive and send Ethernet frames and UDP datagrams in batches.
//!
//! - [`Pool`]: frames of one size in one region of memory, and [`Frame`], the handle that owns one;
//! - [`LanPort`]: a port for Ethernet frames of an interface; [`Underlay`]: a port for UDP
//!   datagrams between gateways;
//! - [`memory`]: both kinds of port in memory, for tests;
//! - `af_packet`, `udp`: both kinds of port through the kernel's sockets;
//! - `xdp`: both kinds of port through AF_XDP, which bypasses the kernel's network stack and needs
//!   no copy in this process;
//! - `tap`: an Ethernet interface whose other end is this process;
//! - `Interface`: the properties of an interface, and the offloads of its driver;
//! - `Waiter`: how a thread waits between packets.
//!
//! All modules but the pool and the ports in memory need Linux. One thread owns a pool and the
//! ports used with it; each further thread has a pool and ports of its own. This crate does not
//! look into packets, except into TCP headers at a TAP device, where the host leaves large segments
//! to be split. No received packet is ever an error.
//!
//! # A loop
//!
//! ```
//! use lightseal_packet_io::{Frame, LanPort, Pool};
//!
//! /// One round of a bridge: frames received at one port are sent at the other.
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
pub use port::{BATCH, Datagram, LanPort, Pollable, Refusal, RefusalCause, Statistics, Underlay};
#[cfg(target_os = "linux")]
pub use wait::Waiter;
