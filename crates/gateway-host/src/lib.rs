//! The host of a MACsec gateway: configuration, identity, management channel, and the threads that
//! carry frames.
//!
//! - [`config`]: the configuration, which is one TOML file;
//! - [`mod@check`]: what a configuration refers to on this machine;
//! - [`credential`]: what a gateway proves its identity with, and what peers know it by;
//! - [`identity`]: an Ed25519 key as the identity of a gateway;
//! - [`channel`]: mutually authenticated connections with other gateways;
//! - [`status`]: the state of the gateway, for administrators who ask at a Unix socket;
//! - [`metrics`]: the state of the gateway as metrics;
//! - [`privileges`]: the rights that the gateway gives up once its sockets are open.
//!
//! The crate `gateway` decides what happens to frames, and `packet-io` reads and writes them. The
//! module `run` joins them: it starts threads, passes each [`channel::Event`] to the engine, and
//! fills in [`status::GatewayStatus`].
#![forbid(unsafe_code)]

pub mod channel;
pub mod check;
pub mod config;
pub mod credential;
mod error_line;
pub mod identity;
pub mod metrics;
pub mod privileges;
#[cfg(target_os = "linux")]
mod queue_mismatch;
#[cfg(target_os = "linux")]
pub mod run;
#[cfg(target_os = "linux")]
mod sides;
pub mod status;

pub use error_line::ErrorLine;
