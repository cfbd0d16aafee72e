//! Stations that are claimed elsewhere: a frame with their source address came from another place
//! than the one where they were last heard.
//!
//! A bridge believes the newest frame. That frame may have been sent by another device under the
//! station's address, and if the station itself only sends to other LANs, no later frame at this
//! gateway corrects the entry. Therefore a gateway that moves a station away from a peer sends a
//! query to this peer, and the peer answers as soon as it hears the station on its LAN: at once if
//! it heard the station within the last second, otherwise with the station's next frame. The answer
//! counts as a frame of the station that came from the peer. It moves only a station that was
//! claimed elsewhere.

use crate::lock;
use crate::peer_set::{PeerIndex, PeerSet};
use crate::stations::{Station, StationTable};
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use lightseal_core::Instant;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;

/// Most claims that this gateway asks about at a time.
const MAX_CLAIM_QUERIES: usize = 1024;
/// Most stations that one peer may have asked about at a time. A peer that asks about too many
/// takes no room from other peers.
const MAX_QUERIES_PER_PEER: usize = 256;
/// How many times one claim is asked about, since any query or answer may be lost.
const QUERY_ATTEMPTS: u8 = 3;
/// Interval between two queries about one claim.
const QUERY_INTERVAL: Duration = Duration::from_secs(1);

/// Stations that peers have asked about and that were not heard on this LAN yet.
///
/// A frame of the LAN is looked up here only if it is the first frame of its station for one
/// second. This is enough: a query about a station that was heard within the last second is
/// answered at once and does not wait here.
#[derive(Debug, Default)]
pub(crate) struct PendingQueries {
    /// Number of entries, so that frames need no lock while there is none.
    count: AtomicUsize,
    table: Mutex<QueryTable>,
}

#[derive(Debug, Default)]
struct QueryTable {
    /// For each station and peer that asked: when the query expires.
    expiry: BTreeMap<(Station, PeerIndex), Instant>,
    /// How many stations each peer has asked about.
    of_peer: BTreeMap<PeerIndex, usize>,
}

impl QueryTable {
    fn count_down(of_peer: &mut BTreeMap<PeerIndex, usize>, peer: PeerIndex) {
        if let Some(count) = of_peer.get_mut(&peer) {
            *count = count.saturating_sub(1);
        }
    }
}

impl PendingQueries {
    /// Notes that `peer` asks to be told when `station` is heard, until the time `until`.
    pub(crate) fn add(&self, station: Station, peer: PeerIndex, until: Instant) {
        let mut table = lock(&self.table);
        let QueryTable { expiry: stations, of_peer } = &mut *table;
        let count = of_peer.entry(peer).or_default();
        if let Some(known) = stations.get_mut(&(station, peer)) {
            *known = until;
        } else if *count < MAX_QUERIES_PER_PEER {
            *count += 1;
            stations.insert((station, peer), until);
        }
        self.count.store(stations.len(), Ordering::Relaxed);
    }

    /// Removes and returns the peers that asked about `station`, which was heard now.
    pub(crate) fn take(&self, station: Station) -> Option<PeerSet> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut table = lock(&self.table);
        let QueryTable { expiry: stations, of_peer } = &mut *table;
        let of_station = (station, PeerIndex(0))..=(station, PeerIndex(u8::MAX));
        let peers: PeerSet = stations.range(of_station).map(|(&(_, peer), _)| peer).collect();
        for peer in peers {
            stations.remove(&(station, peer));
            QueryTable::count_down(of_peer, peer);
        }
        self.count.store(stations.len(), Ordering::Relaxed);
        (!peers.is_empty()).then_some(peers)
    }

    /// Removes queries that have expired.
    pub(crate) fn expire(&self, now: Instant) {
        let mut table = lock(&self.table);
        let QueryTable { expiry: stations, of_peer } = &mut *table;
        stations.retain(|&(_, peer), until| {
            let kept = now < *until;
            if !kept {
                QueryTable::count_down(of_peer, peer);
            }
            kept
        });
        self.count.store(stations.len(), Ordering::Relaxed);
    }
}

/// Claims about which this gateway sends queries.
#[derive(Debug, Default)]
pub(crate) struct ClaimQueries(VecDeque<ClaimQuery>);

#[derive(Debug)]
struct ClaimQuery {
    station: Station,
    peer: PeerIndex,
    next_at: Instant,
    attempts_left: u8,
}

impl ClaimQueries {
    /// Starts to ask `peer` whether `station` is still behind it.
    pub(crate) fn add(&mut self, station: Station, peer: PeerIndex) {
        let known = |query: &ClaimQuery| (query.station, query.peer) == (station, peer);
        self.0.retain(|query| !known(query));
        if self.0.len() < MAX_CLAIM_QUERIES {
            self.0.push_back(ClaimQuery {
                station,
                peer,
                next_at: Instant::ZERO,
                attempts_left: QUERY_ATTEMPTS,
            });
        }
    }

    /// Calls `ask` with each query that is due. A query ends after [`QUERY_ATTEMPTS`] attempts, or
    /// as soon as the station's place is known to `stations`.
    pub(crate) fn handle_timeout(
        &mut self,
        now: Instant,
        stations: &StationTable,
        mut ask: impl FnMut(PeerIndex, Station),
    ) {
        self.0.retain_mut(|query| {
            let &mut ClaimQuery { station, peer, .. } = query;
            if now < query.next_at {
                return true;
            }
            if stations.claimed_from(station) != Some(peer) {
                return false;
            }
            ask(peer, station);
            query.attempts_left -= 1;
            query.next_at = now + QUERY_INTERVAL;
            query.attempts_left > 0
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn station(number: usize) -> Station {
        let [.., a, b] = number.to_be_bytes();
        Station::new(None, [2, 0, 0, 0, a, b])
    }

    #[test]
    fn a_peer_that_asks_about_everything_leaves_other_peers_their_questions() {
        let pending = PendingQueries::default();
        let (at, until) = (Instant::from_micros(1), Instant::from_micros(2));
        for number in 0..2000 {
            pending.add(station(number), PeerIndex(1), until);
        }
        assert_eq!(pending.count.load(Ordering::Relaxed), MAX_QUERIES_PER_PEER);
        pending.add(station(5000), PeerIndex(2), until);
        pending.add(station(3), PeerIndex(2), until);
        assert_eq!(pending.take(station(5000)).map(Iterator::collect), Some(vec![PeerIndex(2)]));
        let both = vec![PeerIndex(1), PeerIndex(2)];
        assert_eq!(pending.take(station(3)).map(Iterator::collect), Some(both));
        assert!(pending.take(station(3)).is_none(), "each query is answered once");
        assert!(
            pending.take(station(MAX_QUERIES_PER_PEER)).is_none(),
            "queries beyond the limit were dropped"
        );
        pending.expire(at);
        assert_eq!(pending.count.load(Ordering::Relaxed), MAX_QUERIES_PER_PEER - 1);
        pending.expire(until);
        assert_eq!(pending.count.load(Ordering::Relaxed), 0);
        for number in 0..2000 {
            pending.add(station(number), PeerIndex(1), until);
        }
        assert_eq!(
            pending.count.load(Ordering::Relaxed),
            MAX_QUERIES_PER_PEER,
            "expired queries leave room"
        );
    }
}
