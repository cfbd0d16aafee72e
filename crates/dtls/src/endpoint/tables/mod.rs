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
#[cfg(any(test, not(feature = "many-associations")))]
use alloc::vec::Vec;
use core::net::SocketAddr;
#[cfg(feature = "many-associations")]
pub(super) use hashed::{ByHandle, Deadlines, Index, Map};
#[cfg(not(feature = "many-associations"))]
pub(super) use listed::{ByHandle, Deadlines, Index, Map};

/// The number of places by which a full list grows. Twice as much memory, as a [`Vec`] takes by itself,
/// would stay half empty where there is little of it.
#[cfg(any(test, not(feature = "many-associations")))]
const GROWTH: usize = 2;

/// Makes room for another item.
#[cfg(any(test, not(feature = "many-associations")))]
pub(super) fn make_room<T>(list: &mut Vec<T>) {
    if list.len() == list.capacity() {
        list.reserve_exact(GROWTH);
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_takes_little_more_memory_than_its_items() {
        let mut list = Vec::new();
        for len in 1..100 {
            make_room(&mut list);
            list.push(len);
            assert!(list.capacity() < len + GROWTH, "{len}");
        }
    }
}
