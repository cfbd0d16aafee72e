//! What all services have in common, whatever they carry.
//!
//! - [`lifecycle`]: the phases of a service, which its service manager and its health follow;
//! - [`manager`]: notifications to systemd;
//! - [`drain`]: when a service that takes nothing new may end;
//! - [`metrics`]: the state of a service as numbers with names;
//! - [`http`]: metrics and health, for Prometheus and for orchestrators;
//! - [`accept`]: serves a limited number of connections at a time.
//!
//! A service opens its sockets, calls [`Lifecycle::ready`](lifecycle::Lifecycle::ready), and then
//! [`Lifecycle::beat`](lifecycle::Lifecycle::beat) in the loop that does its work:
//!
//! ```
//! use lightseal_service::lifecycle::{Lifecycle, Phase};
//!
//! let lifecycle = Lifecycle::start();
//! assert!(!lifecycle.health().ready);
//! lifecycle.ready();
//! lifecycle.beat();
//! assert!(lifecycle.health().ready);
//! lifecycle.drain("no new associations");
//! assert_eq!(lifecycle.phase(), Phase::Draining);
//! assert!(lifecycle.health().alive && !lifecycle.health().ready);
//! ```
#![forbid(unsafe_code)]

pub mod accept;
pub mod drain;
pub mod http;
pub mod lifecycle;
pub mod manager;
pub mod metrics;
mod system;
