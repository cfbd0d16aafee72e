//! The peers that were accepted by their chains, so that sessions with them may be resumed.

use crate::spki::SpkiHash;
use alloc::collections::BTreeMap;
use core::fmt;
use std::sync::{Mutex, PoisonError};

/// The largest number of peers. Each takes about 50 bytes. A peer that is forgotten only has to show
/// its certificate again.
const PEERS: usize = 4096;

/// Until when the chains of peers are valid, in seconds since 1970-01-01, by the hash of the peer's
/// key and name.
#[derive(Default)]
pub(crate) struct AcceptedPeers(Mutex<BTreeMap<SpkiHash, u64>>);

impl AcceptedPeers {
    /// Remembers that a peer was accepted. If there are too many peers, the one of the others whose
    /// chain ends first is forgotten.
    pub(crate) fn insert(&self, spki: &SpkiHash, name: Option<&str>, valid_until: u64) {
        let mut peers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let peer = identifier(spki, name);
        peers.remove(&peer);
        if peers.len() >= PEERS {
            let first = peers.iter().min_by_key(|(_, valid_until)| **valid_until);
            if let Some(first) = first.map(|(peer, _)| *peer) {
                peers.remove(&first);
            }
        }
        peers.insert(peer, valid_until);
    }

    /// Whether the peer was accepted by a chain that is still valid.
    pub(crate) fn contains(&self, spki: &SpkiHash, name: Option<&str>, now: u64) -> bool {
        let peers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        peers.get(&identifier(spki, name)).is_some_and(|valid_until| now <= *valid_until)
    }
}

/// A hash of both, so that a peer with long names takes no more memory than another.
fn identifier(spki: &SpkiHash, name: Option<&str>) -> SpkiHash {
    let kind = [u8::from(name.is_some())];
    SpkiHash::of(&[&spki.0[..], &kind, name.unwrap_or_default().as_bytes()].concat())
}

impl fmt::Debug for AcceptedPeers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcceptedPeers").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_is_bounded_and_forgets_the_chain_that_ends_first() {
        let peers = AcceptedPeers::default();
        let peer = |number: usize| SpkiHash::of(&number.to_be_bytes());
        let end = |number: usize| 1000 + number as u64;
        (0..=PEERS).for_each(|number| peers.insert(&peer(number), None, end(number)));
        assert_eq!(peers.0.lock().unwrap().len(), PEERS);
        assert!(!peers.contains(&peer(0), None, 0));
        for number in [1, PEERS] {
            assert!(peers.contains(&peer(number), None, end(number)));
            assert!(!peers.contains(&peer(number), None, end(number) + 1));
        }
        // The latest peer is remembered, whenever its chain ends: whoever has just shown it is asked
        // about next.
        peers.insert(&peer(0), None, end(0));
        assert!(peers.contains(&peer(0), None, 0) && !peers.contains(&peer(1), None, 0));
        assert_eq!(peers.0.lock().unwrap().len(), PEERS);
    }

    #[test]
    fn a_peer_is_its_key_and_its_name() {
        let peers = AcceptedPeers::default();
        let (one, other) = (SpkiHash::of(b"one"), SpkiHash::of(b"other"));
        peers.insert(&one, Some("a"), 10);
        assert!(peers.contains(&one, Some("a"), 10));
        for (spki, name) in [(one, Some("b")), (one, Some("")), (one, None), (other, Some("a"))] {
            assert!(!peers.contains(&spki, name, 10), "{name:?}");
        }
        // The last chain counts.
        peers.insert(&one, Some("a"), 5);
        assert!(!peers.contains(&one, Some("a"), 10));
    }
}
