//! The slots of many associations, in trees: each question is answered in a few steps.

use super::{ClientProof, Handle, Session};
use alloc::collections::{BTreeMap, BTreeSet};
use core::num::NonZeroU64;
use lightseal_core::Instant;

/// The associations of an endpoint that are neither ending nor ended.
#[derive(Debug, Default)]
pub(in crate::endpoint) struct Slots {
    /// Associations whose handshakes are in progress.
    handshakes: BTreeSet<Handle>,
    /// Associations in `handshakes` whose clients have not proved key and address, oldest first.
    unproved: BTreeSet<Handle>,
    /// Complete associations, oldest first.
    sessions: BTreeMap<Handle, Session>,
    /// Complete associations, sorted by the time of the last authenticated record of their peers.
    /// An entry's time may be too early, but never too late. It is corrected when the longest
    /// silent peer is looked up, so that records cost nothing here.
    quiet: BTreeSet<(Instant, Handle)>,
    /// Complete associations that have a digest, sorted by it.
    of_peers: BTreeSet<(NonZeroU64, Handle)>,
}

impl Slots {
    /// A handshake begins.
    pub(super) fn begin(&mut self, handle: Handle, proof: ClientProof) {
        self.handshakes.insert(handle);
        if let ClientProof::Missing(_) = proof {
            self.unproved.insert(handle);
        }
    }

    /// A handshake is complete: its association is a session from now on.
    pub(super) fn complete(&mut self, handle: Handle, session: Session) {
        self.handshake_ended(handle);
        self.sessions.insert(handle, session);
        self.quiet.insert((session.at, handle));
        if let Some(peer) = session.peer {
            self.of_peers.insert((peer, handle));
        }
    }

    fn handshake_ended(&mut self, handle: Handle) {
        for set in [&mut self.handshakes, &mut self.unproved] {
            if set.remove(&handle) && set.is_empty() {
                // An empty set keeps the memory of its first node.
                *set = BTreeSet::new();
            }
        }
    }

    /// Frees the slot of an association that is ending.
    pub(in crate::endpoint) fn release(&mut self, handle: Handle) {
        self.handshake_ended(handle);
        if let Some(Session { at, peer }) = self.sessions.remove(&handle) {
            self.quiet.remove(&(at, handle));
            if let Some(peer) = peer {
                self.of_peers.remove(&(peer, handle));
            }
        }
    }

    /// The number of handshakes in progress.
    pub(super) fn handshakes(&self) -> usize {
        self.handshakes.len()
    }

    /// The number of handshakes whose clients have not proved key and address.
    pub(super) fn unproved(&self) -> usize {
        self.unproved.len()
    }

    /// The oldest of these handshakes.
    pub(super) fn first_unproved(&self) -> Option<Handle> {
        self.unproved.first().copied()
    }

    /// The number of complete associations.
    pub(super) fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// The association that was accepted first among the complete ones.
    pub(super) fn first_session(&self) -> Option<Handle> {
        self.sessions.first_key_value().map(|(first, _)| *first)
    }

    /// The session whose peer has been silent for the longest time, and since when.
    pub(super) fn quietest(
        &mut self,
        heard: impl Fn(Handle) -> Option<Instant>,
    ) -> Option<(Instant, Handle)> {
        loop {
            let (at, handle) = self.quiet.first().copied()?;
            match heard(handle).filter(|heard| *heard > at) {
                None => return Some((at, handle)),
                Some(heard) => {
                    self.quiet.remove(&(at, handle));
                    self.quiet.insert((heard, handle));
                    if let Some(session) = self.sessions.get_mut(&handle) {
                        session.at = heard;
                    }
                }
            }
        }
    }

    /// The sessions whose peers have this digest, oldest first.
    pub(super) fn of_peer(&self, peer: NonZeroU64) -> impl Iterator<Item = Handle> {
        let all = (peer, Handle::from_number(0))..=(peer, Handle::from_number(u64::MAX));
        self.of_peers.range(all).map(|(_, handle)| *handle)
    }
}
