//! Drivers, which carry datagrams between sans-I/O engines.
//!
//! - [`virtual_time`]: any number of engines in one deterministic network
//!   without sockets or clocks, for tests and simulations;
//! - [`impairment`]: seeded loss, bursts, delay, reordering, duplication,
//!   corruption and rate limits, for virtual time and sockets alike;
//! - [`blocking`]: one engine over one `std` UDP socket;
//! - `tokio` (feature `tokio`): one engine over one asynchronous UDP socket, to which its host may add others; `batch`: datagrams that
//!   are received or sent in one system call;
//! - `socket` (feature `tokio`): sockets with room for bursts, which answer from the address at
//!   which a datagram arrived; `socket_group`: several of them at one address; `socket_set`: many of
//!   them for one task; `multicast`: the sockets of a group's members; `address` and
//!   `interface`: addresses as users write them, and interfaces by name; `names`: hosts whose
//!   addresses change; `path_mtu`: the longest datagram that an interface carries;
//! - `relay` (feature `tokio`): the impairments between real sockets, with
//!   the address changes of a NAT.
//!
//! Nothing here depends on a protocol: every driver works with every
//! [`lightseal_core::Engine`]. For its driver, an endpoint that serves thousands of
//! peers is one engine.
//!
//! # A network in virtual time
//!
//! ```
//! # use lightseal_core::{Engine, Instant, Output};
//! # use core::net::SocketAddr;
//! # struct Echo(Option<(SocketAddr, Vec<u8>)>);
//! # impl Engine for Echo {
//! #     type Event<'a> = ();
//! #     fn handle_datagram(&mut self, _: Instant, from: SocketAddr, d: &mut [u8]) { self.0 = Some((from, d.to_vec())); }
//! #     fn handle_timeout(&mut self, _: Instant) {}
//! #     fn poll_output<'a>(&'a mut self, buf: &'a mut [u8]) -> Output<'a, ()> {
//! #         let Some((to, d)) = self.0.take() else { return Output::Idle };
//! #         buf[..d.len()].copy_from_slice(&d);
//! #         Output::Datagram { to, payload: &buf[..d.len()] }
//! #     }
//! # }
//! use lightseal_net::impairment::Impairments;
//! use lightseal_net::virtual_time::Network;
//! use std::time::Duration;
//!
//! let mut network = Network::new(1);
//! network.impair_all(&Impairments { delay: Duration::from_millis(20), ..Impairments::NONE });
//! let ping = network.add("10.0.0.1:1".parse().unwrap(), Echo(None));
//! let pong = network.add("10.0.0.2:2".parse().unwrap(), Echo(None));
//! network.inject(network.address(ping), network.address(pong), b"hello");
//! network.run_until(Instant::from_micros(100_000), |_node, _now, _event| {});
//! assert_eq!(network.counters(pong, ping).delivered, 3);
//! ```
#![forbid(unsafe_code)]

#[cfg(feature = "tokio")]
pub mod address;
#[cfg(feature = "tokio")]
pub mod batch;
pub mod blocking;
pub mod clock;
pub mod delay_line;
pub mod either;
pub mod impairment;
#[cfg(feature = "tokio")]
pub mod interface;
#[cfg(feature = "tokio")]
pub mod multicast;
#[cfg(feature = "tokio")]
pub mod names;
#[cfg(feature = "tokio")]
mod non_blocking;
#[cfg(feature = "tokio")]
pub mod path_mtu;
mod rate_limited_log;
#[cfg(feature = "tokio")]
pub mod relay;
#[cfg(feature = "tokio")]
pub mod socket;
#[cfg(feature = "tokio")]
pub mod socket_group;
#[cfg(feature = "tokio")]
pub mod socket_set;
#[cfg(feature = "tokio")]
mod system;
#[cfg(feature = "tokio")]
pub mod tokio;
pub mod virtual_time;

pub use clock::Clock;
pub use either::Either;
pub use impairment::{Counters, Impairments, Path, Probability};
pub use lightseal_core::{Engine, Instant, Output};
pub use rate_limited_log::RateLimitedLog;

/// The examples of the page that the registry shows.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
