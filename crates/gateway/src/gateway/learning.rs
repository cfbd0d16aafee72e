//! What a gateway learns about stations: from frames, and from the queries and answers of peers (see
//! [`claims`](crate::claims)).

use super::Gateway;
use crate::counters::Reason;
use crate::notices::Notice;
use crate::peer_set::{PeerIndex, PeerSet};
use crate::stations::{Learned, Port, Station};
use lightseal_core::Instant;

impl Gateway {
    /// Updates the station table with a frame of `station` that came in at `port`; causes a query
    /// if the station was claimed elsewhere, and answers to peers that asked about it.
    pub(super) fn learn(&self, now: Instant, station: Station, port: Port) -> Learned {
        let (learned, was_settled) = self.stations.update(now, station, port);
        match learned {
            Learned::Moved => {
                if let Some(peer) = self.stations.claimed_from(station) {
                    self.notify(Notice::Claimed(station, peer));
                }
            }
            Learned::KeptAtOtherPort | Learned::NotLearned => return learned,
            Learned::Known | Learned::New => {}
        }
        if port == Port::Lan
            && !was_settled
            && let Some(peers) = self.pending_queries.take(station)
        {
            self.notify(Notice::Heard(station, peers));
        }
        learned
    }

    /// Handles a query of `peer`: is this station on this LAN?
    pub(super) fn take_station_query(
        &self,
        now: Instant,
        peer: PeerIndex,
        content: &[u8],
    ) -> Result<(), Reason> {
        let station = decode(content)?;
        if self.stations.was_heard_recently(now, station, Port::Lan) {
            self.notify(Notice::Heard(station, PeerSet::of(peer)));
        } else {
            let until = now + self.settings.stations.timeout;
            self.pending_queries.add(station, peer, until);
        }
        Ok(())
    }

    /// Handles the answer of `peer`: this station was heard on its LAN.
    pub(super) fn take_station_heard(
        &self,
        now: Instant,
        peer: PeerIndex,
        content: &[u8],
    ) -> Result<(), Reason> {
        let station = decode(content)?;
        if self.stations.claimed_from(station) == Some(peer) {
            self.stations.learn(now, station, Port::Peer(peer));
        }
        Ok(())
    }
}

fn decode(content: &[u8]) -> Result<Station, Reason> {
    let &bytes = content.first_chunk().ok_or(Reason::Malformed)?;
    Ok(Station::from_bytes(bytes))
}
