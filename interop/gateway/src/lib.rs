//! Grounds for the MACsec gateway: real MACsec ends, and other tunnels to be measured beside.
//!
//! - [`namespace`]: network namespaces, and what runs in them;
//! - [`daemon`]: programs that end with us, and what they take of the processor;
//! - [`site`]: two LANs of a host and a gateway each, and a network between;
//! - [`rows`]: what carries frames from one to the other: bridge, VXLAN, WireGuard, ours;
//! - [`gateways`]: ours, as processes;
//! - [`ends`]: our own MACsec endpoints at the hosts;
//! - [`frames`]: MACsec frames made beforehand;
//! - [`mod@bench`]: all rows measured in turns;
//! - [`soak`]: three gateways under load for long, one of them killed, and every frame accounted for;
//! - [`standby`]: two machines at one LAN, of which keepalived lets one carry;
//! - [`guest`]: a small Linux in QEMU with the MACsec and MKA that this machine's kernel lacks;
//! - [`interrupt`]: being asked to stop.
//!
//! A package of its own, because `interop` links wolfSSL, OpenSSL and Mbed TLS, of which nothing
//! here needs any.
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
