//! Which process a datagram belongs to, where several serve one address.
//!
//! - [`ids`]: what connection IDs say;
//! - [`scramble`]: IDs that say it to nobody else;
//! - [`envelope`]: datagrams on their way from one node to another;
//! - [`router`]: how a node passes them on.

pub(crate) mod envelope;
pub(crate) mod ids;
pub(crate) mod router;
mod scramble;
