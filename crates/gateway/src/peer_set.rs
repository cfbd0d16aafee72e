//! Peers, and sets of them as a bit map of four words, which is cheap to copy.

/// A peer, by its position in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerIndex(pub u8);

/// A set of peers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerSet([u64; 4]);

impl PeerSet {
    /// How many peers a set can hold: every value of [`PeerIndex`].
    pub const CAPACITY: usize = 256;

    /// The set of one peer.
    pub fn of(peer: PeerIndex) -> Self {
        let mut set = Self::default();
        set.insert(peer);
        set
    }

    /// Adds a peer.
    pub fn insert(&mut self, peer: PeerIndex) {
        self.0[usize::from(peer.0 / 64)] |= 1 << (peer.0 % 64);
    }

    /// Whether the set contains `peer`.
    pub fn contains(&self, peer: PeerIndex) -> bool {
        self.0[usize::from(peer.0 / 64)] >> (peer.0 % 64) & 1 == 1
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }

    /// How many peers are in the set.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }
}

impl FromIterator<PeerIndex> for PeerSet {
    fn from_iter<I: IntoIterator<Item = PeerIndex>>(peers: I) -> Self {
        let mut set = Self::default();
        peers.into_iter().for_each(|peer| set.insert(peer));
        set
    }
}

impl Iterator for PeerSet {
    type Item = PeerIndex;

    /// Removes and returns the peer with the lowest index.
    fn next(&mut self) -> Option<PeerIndex> {
        let at = self.0.iter().position(|&word| word != 0)?;
        let bit = self.0[at].trailing_zeros();
        self.0[at] &= self.0[at] - 1;
        Some(PeerIndex((at * 64) as u8 + bit as u8))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len(), Some(self.len()))
    }
}

impl ExactSizeIterator for PeerSet {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_peer_is_in_the_set_once_and_in_order() {
        let peers = [0, 1, 63, 64, 127, 128, 200, 255].map(PeerIndex);
        let set: PeerSet = peers.iter().rev().chain(&peers).copied().collect();
        assert_eq!(set.len(), peers.len());
        assert!(peers.iter().all(|&peer| set.contains(peer)) && !set.contains(PeerIndex(2)));
        assert!(set.eq(peers));
        assert!(PeerSet::default().is_empty() && !PeerSet::of(PeerIndex(255)).is_empty());
    }
}
