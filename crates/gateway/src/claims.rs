//! Stations that are claimed at another place than the one where they were heard.
//!
//! A bridge believes the newest frame. Where a station talks to other LANs alone, that may be a
//! frame which somebody else sent under its address, and nothing comes that says otherwise. So a
//! gateway that moves a station away from a peer asks this peer, and the peer says when it hears the
//! station on its LAN: just now, or next. The answer counts as a frame of the station would that
//! came from the peer, and moves nothing but a station that was claimed elsewhere.

use crate::bridge::{Learned, PeerIndex, Port, Station};
use crate::codepoints::Whole;
use crate::control::Output;
use crate::counters::Reason;
use crate::gateway::{Gateway, Notice};
use crate::lock;
use crate::set::PeerSet;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use vocabulary::Instant;

/// Stations that peers have asked about at a time, and that this gateway asks about.
const MOST: usize = 1024;
/// Questions about one claim: any may be lost.
const TRIES: u8 = 3;
/// Between two of them.
const SPACING: Duration = Duration::from_secs(1);

/// Stations that peers want to hear of when they are heard on this LAN.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    /// As many as there are: every frame of the LAN asks.
    count: AtomicUsize,
    stations: Mutex<BTreeMap<Station, (Instant, PeerSet)>>,
}

impl Watches {
    /// `peer` wants to hear of `station` until then.
    fn add(&self, station: Station, peer: PeerIndex, until: Instant) {
        let mut stations = lock(&self.stations);
        if stations.len() >= MOST && !stations.contains_key(&station) {
            return;
        }
        let watch = stations.entry(station).or_insert((until, PeerSet::default()));
        watch.0 = until;
        watch.1.insert(peer);
        self.count.store(stations.len(), Ordering::Relaxed);
    }

    /// The peers that want to hear of `station`, which was heard.
    fn take(&self, station: Station) -> Option<PeerSet> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut stations = lock(&self.stations);
        let watch = stations.remove(&station);
        self.count.store(stations.len(), Ordering::Relaxed);
        watch.map(|(_, peers)| peers)
    }

    /// Forgets stations that were not heard in time.
    pub(crate) fn expire(&self, now: Instant) {
        let mut stations = lock(&self.stations);
        stations.retain(|_, (until, _)| now < *until);
        self.count.store(stations.len(), Ordering::Relaxed);
    }
}

impl Gateway {
    /// Notes that a frame of `station` came in at `port`, and has questions asked and answered.
    pub(crate) fn learn(&self, now: Instant, station: Station, port: Port) -> Learned {
        let learned = self.bridge.learn(now, station, port);
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
            && let Some(peers) = self.watches.take(station)
        {
            self.notify(Notice::Heard(station, peers));
        }
        learned
    }

    /// `peer` asks whether a station is on this LAN.
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

    /// `peer` has heard a station on its LAN.
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

/// The datagram by which `peer` is told that `station` was heard on this LAN.
pub(crate) fn heard(station: Station, peer: PeerIndex) -> Output {
    Output::Datagram(peer, Whole::StationHeard, station.to_bytes().to_vec())
}

/// Claims that this gateway asks about.
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
    /// Asks from now on whether `station` is still behind `peer`.
    pub(crate) fn add(&mut self, station: Station, peer: PeerIndex) {
        let known = |question: &Question| (question.station, question.peer) == (station, peer);
        self.0.retain(|question| !known(question));
        if self.0.len() < MOST {
            self.0.push_back(Question { station, peer, next: Instant::ZERO, left: TRIES });
        }
    }

    /// Calls `ask` with what is due, until `gateway` knows where the station is.
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
