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

use crate::bridge::{Learned, PeerIndex, Port, Station};
use crate::codepoints::Whole;
use crate::control::Output;
use crate::counters::Reason;
use crate::gateway::{Gateway, Notice};
use crate::lock;
use crate::set::PeerSet;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use lightseal_core::Instant;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;

/// Most claims that this gateway asks about at a time.
const MOST: usize = 1024;
/// Most stations that one peer may have asked about at a time. A peer that asks about too many
/// takes no room from other peers.
const MOST_A_PEER: usize = 256;
/// How many times one claim is asked about, since any query or answer may be lost.
const TRIES: u8 = 3;
/// Interval between two queries about one claim.
const SPACING: Duration = Duration::from_secs(1);

/// Stations that peers have asked about and that were not heard on this LAN yet.
///
/// A frame of the LAN is looked up here only if it is the first frame of its station for one
/// second. This is enough: a query about a station that was heard within the last second is
/// answered at once and does not wait here.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    /// Number of entries, so that frames need no lock while there is none.
    count: AtomicUsize,
    watched: Mutex<Watched>,
}

#[derive(Debug, Default)]
struct Watched {
    /// For each station and peer that asked: when the query expires.
    until: BTreeMap<(Station, PeerIndex), Instant>,
    /// How many stations each peer has asked about.
    of_peer: BTreeMap<PeerIndex, usize>,
}

impl Watched {
    fn count_down(of_peer: &mut BTreeMap<PeerIndex, usize>, peer: PeerIndex) {
        if let Some(count) = of_peer.get_mut(&peer) {
            *count = count.saturating_sub(1);
        }
    }
}

impl Watches {
    /// Notes that `peer` asks to be told when `station` is heard, until the time `until`.
    fn add(&self, station: Station, peer: PeerIndex, until: Instant) {
        let mut watched = lock(&self.watched);
        let Watched { until: stations, of_peer } = &mut *watched;
        let count = of_peer.entry(peer).or_default();
        if let Some(known) = stations.get_mut(&(station, peer)) {
            *known = until;
        } else if *count < MOST_A_PEER {
            *count += 1;
            stations.insert((station, peer), until);
        }
        self.count.store(stations.len(), Ordering::Relaxed);
    }

    /// Removes and returns the peers that asked about `station`, which was heard now.
    fn take(&self, station: Station) -> Option<PeerSet> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut watched = lock(&self.watched);
        let Watched { until: stations, of_peer } = &mut *watched;
        let of_station = (station, PeerIndex(0))..=(station, PeerIndex(u8::MAX));
        let peers: PeerSet = stations.range(of_station).map(|(&(_, peer), _)| peer).collect();
        for peer in peers {
            stations.remove(&(station, peer));
            Watched::count_down(of_peer, peer);
        }
        self.count.store(stations.len(), Ordering::Relaxed);
        (!peers.is_empty()).then_some(peers)
    }

    /// Removes queries that have expired.
    pub(crate) fn expire(&self, now: Instant) {
        let mut watched = lock(&self.watched);
        let Watched { until: stations, of_peer } = &mut *watched;
        stations.retain(|&(_, peer), until| {
            let kept = now < *until;
            if !kept {
                Watched::count_down(of_peer, peer);
            }
            kept
        });
        self.count.store(stations.len(), Ordering::Relaxed);
    }
}

impl Gateway {
    /// Updates the station table with a frame of `station` that came in at `port`; causes a query
    /// if the station was claimed elsewhere, and answers to peers that asked about it.
    pub(crate) fn learn(&self, now: Instant, station: Station, port: Port) -> Learned {
        let (learned, was_settled) = self.bridge.hear(now, station, port);
        match learned {
            Learned::Moved => {
                if let Some(peer) = self.bridge.claimed_from(station) {
                    self.notify(Notice::Claimed(station, peer));
                }
            }
            Learned::Elsewhere | Learned::Refused => return learned,
            Learned::Known | Learned::New => {}
        }
        if port == Port::Lan
            && !was_settled
            && let Some(peers) = self.watches.take(station)
        {
            self.notify(Notice::Heard(station, peers));
        }
        learned
    }

    /// Handles a query of `peer`: is this station on this LAN?
    pub(crate) fn take_station_query(
        &self,
        now: Instant,
        peer: PeerIndex,
        content: &[u8],
    ) -> Result<(), Reason> {
        let station = decode(content)?;
        if self.bridge.is_settled(now, station, Port::Lan) {
            self.notify(Notice::Heard(station, PeerSet::of(peer)));
        } else {
            let until = now + self.settings().stations.timeout;
            self.watches.add(station, peer, until);
        }
        Ok(())
    }

    /// Handles the answer of `peer`: this station was heard on its LAN.
    pub(crate) fn take_station_heard(
        &self,
        now: Instant,
        peer: PeerIndex,
        content: &[u8],
    ) -> Result<(), Reason> {
        let station = decode(content)?;
        if self.bridge.claimed_from(station) == Some(peer) {
            self.bridge.learn(now, station, Port::Peer(peer));
        }
        Ok(())
    }
}

fn decode(content: &[u8]) -> Result<Station, Reason> {
    let &bytes = content.first_chunk().ok_or(Reason::Malformed)?;
    Ok(Station::from_bytes(bytes))
}

/// The datagram that tells `peer` that `station` was heard on this LAN.
pub(crate) fn heard(station: Station, peer: PeerIndex) -> Output {
    Output::Datagram(peer, Whole::StationHeard, station.to_bytes().to_vec())
}

/// Claims about which this gateway sends queries.
#[derive(Debug, Default)]
pub(crate) struct Questions(VecDeque<Question>);

#[derive(Debug)]
struct Question {
    station: Station,
    peer: PeerIndex,
    next: Instant,
    left: u8,
}

impl Questions {
    /// Starts to ask `peer` whether `station` is still behind it.
    pub(crate) fn add(&mut self, station: Station, peer: PeerIndex) {
        let known = |question: &Question| (question.station, question.peer) == (station, peer);
        self.0.retain(|question| !known(question));
        if self.0.len() < MOST {
            self.0.push_back(Question { station, peer, next: Instant::ZERO, left: TRIES });
        }
    }

    /// Calls `ask` with each query that is due. A query ends after [`TRIES`] attempts, or as soon
    /// as the station's place is known to `gateway`.
    pub(crate) fn handle_timeout(
        &mut self,
        now: Instant,
        gateway: &Gateway,
        mut ask: impl FnMut(Output),
    ) {
        self.0.retain_mut(|question| {
            let &mut Question { station, peer, .. } = question;
            if now < question.next {
                return true;
            }
            if gateway.bridge.claimed_from(station) != Some(peer) {
                return false;
            }
            ask(Output::Datagram(peer, Whole::StationQuery, station.to_bytes().to_vec()));
            question.left -= 1;
            question.next = now + SPACING;
            question.left > 0
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
        let watches = Watches::default();
        let (at, until) = (Instant::from_micros(1), Instant::from_micros(2));
        for number in 0..2000 {
            watches.add(station(number), PeerIndex(1), until);
        }
        assert_eq!(watches.count.load(Ordering::Relaxed), MOST_A_PEER);
        watches.add(station(5000), PeerIndex(2), until);
        watches.add(station(3), PeerIndex(2), until);
        assert_eq!(watches.take(station(5000)).map(Iterator::collect), Some(vec![PeerIndex(2)]));
        let both = vec![PeerIndex(1), PeerIndex(2)];
        assert_eq!(watches.take(station(3)).map(Iterator::collect), Some(both));
        assert!(watches.take(station(3)).is_none(), "each query is answered once");
        assert!(
            watches.take(station(MOST_A_PEER)).is_none(),
            "queries beyond the limit were dropped"
        );
        watches.expire(at);
        assert_eq!(watches.count.load(Ordering::Relaxed), MOST_A_PEER - 1);
        watches.expire(until);
        assert_eq!(watches.count.load(Ordering::Relaxed), 0);
        for number in 0..2000 {
            watches.add(station(number), PeerIndex(1), until);
        }
        assert_eq!(
            watches.count.load(Ordering::Relaxed),
            MOST_A_PEER,
            "expired queries leave room"
        );
    }
}
