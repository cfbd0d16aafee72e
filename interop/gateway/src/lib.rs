//! Test grounds for the MACsec gateway: real MACsec endpoints, and other tunnels to compare with.
//!
//! - [`namespace`]: network namespaces, and programs in them;
//! - [`daemon`]: background programs that end with us, and their processor time;
//! - [`site`]: two LANs with a host and a gateway each, and a network between the gateways;
//! - [`rows`]: ways to carry frames from one LAN to the other: bridge, VXLAN, WireGuard, our
//!   gateway;
//! - [`gateways`]: our gateways as processes;
//! - [`ends`]: our own MACsec endpoints at the hosts;
//! - [`frames`]: MACsec frames made beforehand;
//! - [`mod@bench`]: all rows measured in turns;
//! - [`soak`]: three gateways under load for minutes, one of them killed, and every frame accounted
//!   for;
//! - [`standby`]: two machines at one LAN, of which keepalived lets one carry frames;
//! - [`guest`]: a small Linux in QEMU with the MACsec and MKA that this machine's kernel lacks;
//! - [`interrupt`]: requests to stop.
//!
//! This is a package of its own, because the package `interop` links wolfSSL, OpenSSL and Mbed TLS,
//! which nothing here needs.
#![forbid(unsafe_code)]

pub mod bench;
pub mod daemon;
pub mod ends;
mod failure;
pub mod frames;
pub mod gateways;
pub mod guest;
pub mod interrupt;
pub mod namespace;
pub mod rows;
pub mod site;
pub mod soak;
pub mod standby;
mod station;

pub use failure::Failure;
