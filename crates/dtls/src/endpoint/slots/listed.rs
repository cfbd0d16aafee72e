//! The slots of few associations, in a list.

use super::super::tables::make_room;
use super::{ClientProof, Handle, Session};
use crate::parts::{self, Part};
use alloc::vec::Vec;
use core::num::{NonZeroU32, NonZeroU64};
use lightseal_core::Instant;

/// How many sessions a new client may end: one, or none without the feature `eviction`.
const EVICTED: usize = parts::Eviction::IS_INCLUDED as usize;

/// How far an association is.
#[derive(Clone, Copy, Debug)]
enum Progress {
    Handshake(ClientProof),
    /// A session, with what tells whether it is evicted.
    Complete([Evictable; EVICTED]),
}

/// A session, as far as it may be evicted.
#[derive(Clone, Copy, Debug)]
struct Evictable {
    at: Instant,
    /// Half of its peer's digest: whoever asks for a peer compares the peers themselves.
    peer: Option<NonZeroU32>,
}

/// Half of a digest.
fn half(digest: NonZeroU64) -> NonZeroU32 {
    NonZeroU32::new(digest.get() as u32).unwrap_or(NonZeroU32::MIN)
}

/// The associations of an endpoint that are neither ending nor ended, in order of acceptance.
#[derive(Debug, Default)]
pub(in crate::endpoint) struct Slots(Vec<(Handle, Progress)>);

impl Slots {
    /// A handshake begins.
    pub(super) fn begin(&mut self, handle: Handle, proof: ClientProof) {
        self.set(handle, Progress::Handshake(proof));
    }

    /// A handshake is complete: its association is a session from now on.
    pub(super) fn complete(&mut self, handle: Handle, session: Session) {
        let Session { at, peer } = session;
        self.set(handle, Progress::Complete([Evictable { at, peer: peer.map(half) }; EVICTED]));
    }

    fn set(&mut self, handle: Handle, progress: Progress) {
        let place = self.0.iter().take_while(|(other, _)| *other < handle).count();
        match self.0.get_mut(place) {
            Some((other, before)) if *other == handle => *before = progress,
            _ => {
                make_room(&mut self.0);
                self.0.insert(place, (handle, progress));
            }
        }
    }

    /// Frees the slot of an association that is ending.
    pub(in crate::endpoint) fn release(&mut self, handle: Handle) {
        self.0.retain(|(other, _)| *other != handle);
    }

    /// The number of handshakes in progress.
    pub(super) fn handshakes(&self) -> usize {
        self.0.len() - self.sessions()
    }

    fn all_unproved(&self) -> impl Iterator<Item = Handle> {
        let unproved =
            |progress: &Progress| matches!(progress, Progress::Handshake(ClientProof::Missing(_)));
        self.0.iter().filter(move |(_, progress)| unproved(progress)).map(|(handle, _)| *handle)
    }

    /// The number of handshakes whose clients have not proved key and address.
    pub(super) fn unproved(&self) -> usize {
        self.all_unproved().count()
    }

    /// The oldest of these handshakes.
    pub(super) fn first_unproved(&self) -> Option<Handle> {
        self.all_unproved().next()
    }

    /// The number of complete associations.
    pub(super) fn sessions(&self) -> usize {
        let complete = |progress: &Progress| matches!(progress, Progress::Complete(_));
        self.0.iter().filter(|(_, progress)| complete(progress)).count()
    }

    /// The complete associations, as far as they may be evicted.
    fn evictable(&self) -> impl Iterator<Item = (Handle, Evictable)> {
        self.0.iter().filter_map(|(handle, progress)| match progress {
            Progress::Complete(session) => Some((*handle, *session.first()?)),
            Progress::Handshake(_) => None,
        })
    }

    /// The association that was accepted first among the complete ones.
    pub(super) fn first_session(&self) -> Option<Handle> {
        self.evictable().map(|(handle, _)| handle).next()
    }

    /// The session whose peer has been silent for the longest time, and since when.
    pub(super) fn quietest(
        &mut self,
        heard: impl Fn(Handle) -> Option<Instant>,
    ) -> Option<(Instant, Handle)> {
        let since = |handle, at: Instant| heard(handle).unwrap_or(at).max(at);
        self.evictable().map(|(handle, session)| (since(handle, session.at), handle)).min()
    }

    /// The sessions whose peers may have this digest, oldest first.
    pub(super) fn of_peer(&self, peer: NonZeroU64) -> impl Iterator<Item = Handle> {
        let peer = Some(half(peer));
        self.evictable().filter(move |(_, of)| of.peer == peer).map(|(handle, _)| handle)
    }
}

#[cfg(all(test, feature = "many-associations"))]
mod tests {
    use super::super::sorted;
    use super::*;
    use alloc::collections::BTreeMap;
    use lightseal_core::Random;

    /// What a list answers is what trees answer.
    #[test]
    fn slots_in_a_list_are_those_in_trees() {
        let mut rng = Random::insecure(8);
        let (mut list, mut trees) = (Slots::default(), sorted::Slots::default());
        let mut times = BTreeMap::new();
        for at in 0..20_000 {
            let now = Instant::from_micros(at);
            let handle = Handle::from_number(at / 4 + rng.below(3));
            let old = Handle::from_number((at / 4).saturating_sub(rng.below(12)));
            let peer = NonZeroU64::new(rng.below(4));
            match rng.below(5) {
                0 if !times.contains_key(&handle) => {
                    let proof = ClientProof::known(|| at % 2 == 0);
                    list.begin(handle, proof);
                    trees.begin(handle, proof);
                    times.insert(handle, None);
                }
                1 if times.get(&old) == Some(&None) => {
                    let session = Session { at: now, peer };
                    list.complete(old, session);
                    trees.complete(old, session);
                    times.insert(old, Some(now));
                }
                2 => {
                    list.release(old);
                    trees.release(old);
                    times.remove(&old);
                }
                3 => {
                    if let Some(heard) = times.get_mut(&old).and_then(Option::as_mut) {
                        *heard = now;
                    }
                }
                _ => {
                    let heard = |handle| times.get(&handle).copied().flatten();
                    assert_eq!(list.quietest(heard), trees.quietest(heard));
                }
            }
            assert_eq!(list.handshakes(), trees.handshakes());
            assert_eq!(list.sessions(), trees.sessions());
            assert_eq!(list.unproved(), trees.unproved());
            assert_eq!(list.first_unproved(), trees.first_unproved());
            assert_eq!(list.first_session(), trees.first_session());
            if let Some(peer) = peer {
                assert!(list.of_peer(peer).eq(trees.of_peer(peer)));
            }
        }
    }
}
