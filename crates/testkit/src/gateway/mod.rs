//! Gateways that are connected without sockets: their [`world`], random [histories](history), and
//! [`trials`] of every scheme.

pub mod history;
pub mod trials;
#[cfg(feature = "vectors")]
pub mod vectors;
pub mod world;
