//! The host of a MACsec gateway, but for its packets.
//!
//! - [`config`]: what it is told, in one TOML file;
//! - [`identity`]: who it is, an Ed25519 key;
//! - [`channel`]: connections with other gateways, mutually authenticated;
//! - [`status`]: how things stand, for whoever asks at a Unix socket;
//! - [`metrics`]: the same for Prometheus;
//! - [`privileges`]: what it gives up once its sockets are open;
//! - [`service_manager`]: what systemd is told.
//!
//! What happens to frames is decided by the crate `gateway` and moved by `packet-io`; whoever joins
//! them starts threads, hands the engine what [`channel::Event`] brings, and fills in
//! [`status::Standing`].
#![forbid(unsafe_code)]

pub mod channel;
pub mod config;
pub mod identity;
pub mod metrics;
mod one_line;
pub mod privileges;
#[cfg(target_os = "linux")]
pub mod run;
pub mod service_manager;
#[cfg(target_os = "linux")]
mod sides;
#[cfg(target_os = "linux")]
mod spread;
pub mod status;
mod visitors;

pub use one_line::OneLine;

/// A generator seeded by the operating system.
///
/// # Errors
/// The operating system has no randomness to give.
pub fn os_random() -> Result<vocabulary::Random, getrandom::Error> {
    let mut seed = zeroize::Zeroizing::new([0; 32]);
    getrandom::fill(&mut *seed)?;
    Ok(vocabulary::Random::from_seed(*seed))
}
