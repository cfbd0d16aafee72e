//! What tests, campaigns and measurements of several crates share.
//!
//! - `pair`: a DTLS client, a server and the network between them, in virtual time;
//! - `pace` and `watched`: conversations of a pair whose delays and alarms are measured;
//! - `restart`: two engines whose processes end at any point, and their stores;
//! - `group`: members of a group and their controller;
//! - `gateway`: gateways that are connected without sockets, and trials of their schemes;
//! - `namespace`: hosts that are threads in network namespaces;
//! - `toy_compression`: compression of certificates;
//! - `toy_signature`: keys and certificates for tests of handshakes;
//! - `postgres`: a PostgreSQL server of a test's own;
//! - `program`: programs under test, and folders for them;
//! - `vectors`: readers of test vectors;
//! - [`drain()`]: the output of any engine.
//!
//! Each module of a protocol has a feature, so that a test builds only the crates that it needs. A
//! crate that is published depends on this one for its tests, without a version: Cargo leaves such
//! a dependency out of what it publishes.
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "most items are named as those of the engines that they drive")]

mod drain;
#[cfg(feature = "gateway")]
pub mod gateway;
#[cfg(feature = "group")]
pub mod group;
#[cfg(all(feature = "namespace", target_os = "linux"))]
pub mod namespace;
#[cfg(feature = "dtls")]
pub mod pace;
#[cfg(feature = "dtls")]
pub mod pair;
pub mod ports;
#[cfg(all(feature = "postgres", target_os = "linux"))]
pub mod postgres;
pub mod program;
#[cfg(feature = "dtls")]
pub mod restart;
#[cfg(feature = "dtls")]
pub mod toy_compression;
#[cfg(feature = "dtls")]
pub mod toy_signature;
#[cfg(feature = "vectors")]
pub mod vectors;
#[cfg(feature = "dtls")]
pub mod watched;

pub use drain::{Drained, drain};
