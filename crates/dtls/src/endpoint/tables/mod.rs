//! The tables in which an endpoint finds its associations and sorts them.
//!
//! With the feature `many-associations` they are hash tables and trees, and otherwise lists that are
//! searched from the beginning: for a handful of associations that is as fast, and takes a fraction of the
//! code.

#[cfg(feature = "many-associations")]
mod hashed;
#[cfg(any(test, not(feature = "many-associations")))]
mod listed;

use super::Handle;
use core::net::SocketAddr;
#[cfg(feature = "many-associations")]
pub(super) use hashed::{ByHandle, Index, Map, OrderedSet};
#[cfg(not(feature = "many-associations"))]
pub(super) use listed::{ByHandle, Index, Map, OrderedSet};

/// Where an association is: the address of its peer, and the host's socket that the peer sends to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) peer: SocketAddr,
    pub(super) socket: u32,
}

impl From<SocketAddr> for Place {
    /// The peer sends to the first socket, where clients are accepted.
    fn from(peer: SocketAddr) -> Self {
        Self { peer, socket: 0 }
    }
}
