//! The table of stations: learned from the source addresses of frames, as in a bridge (IEEE 802.1Q,
//! clause 8.7), within limits.
//!
//! An attacker may send frames with invented source addresses, which must not crowd out other
//! stations. Therefore the table has a maximum size; the LAN and each peer have a quota of the
//! table and a rate at which they may add to it; and a station that no frame is sent to is removed
//! soon. Frames of a station that was not learned are carried, and frames to it are sent to all
//! peers.

use crate::bucket::Bucket;
pub use crate::config::StationLimits;
use crate::hashing::{Keyed, Table};
use crate::lock;
pub use crate::peer_set::PeerIndex;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use lightseal_core::{Instant, Random};
use std::sync::Mutex;

/// Number of shards of the table, so that threads seldom wait for the same lock.
const SHARDS: usize = 16;

/// The port at which a station was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Port {
    /// On this gateway's LAN.
    Lan,
    /// Behind a peer.
    Peer(PeerIndex),
}

impl Port {
    fn index(self) -> usize {
        match self {
            Self::Lan => 0,
            Self::Peer(peer) => usize::from(peer.0) + 1,
        }
    }
}

/// A station: its MAC address, and its VLAN if its frames are tagged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Station(u64);

impl Station {
    /// The station with `address` in `vlan`.
    pub fn new(vlan: Option<u16>, address: [u8; 6]) -> Self {
        let [a, b, c, d, e, f] = address;
        let vlan = vlan.map_or(0, |vlan| 0x1000 | u64::from(vlan & 0xfff));
        Self(vlan << 48 | u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
    }

    /// The station as messages between gateways have it: the VLAN in two bytes with bit 12 set, or
    /// 0 without a VLAN; then the address.
    pub const fn to_bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }

    /// Decodes the bytes of [`to_bytes`](Self::to_bytes).
    pub fn from_bytes([high, low, address @ ..]: [u8; 8]) -> Self {
        let vlan = u16::from_be_bytes([high, low]);
        Self::new((vlan & 0x1000 != 0).then_some(vlan), address)
    }

    /// Whether the address is a group address, which includes the broadcast address.
    pub const fn is_group(self) -> bool {
        self.0 >> 40 & 1 == 1
    }

    /// The address.
    pub const fn address(self) -> [u8; 6] {
        let [_, _, a, b, c, d, e, f] = self.0.to_be_bytes();
        [a, b, c, d, e, f]
    }

    /// The VLAN, if the station's frames are tagged.
    pub const fn vlan(self) -> Option<u16> {
        if self.0 >> 60 & 1 == 1 { Some((self.0 >> 48 & 0xfff) as u16) } else { None }
    }
}

/// How long after a station's last frame the station is not moved to another port. A frame with its
/// address at another port may be an echo from a loop, or be sent by an impostor. A station is
/// moved back at once to the port where it was before: otherwise an impostor would keep it by
/// sending one frame a second.
const MOVE_DELAY: Duration = Duration::from_secs(1);

/// How long a station must have been heard at another port before that port may be its home too.
/// Either the station has moved for good and an impostor uses its address at the old port, or the
/// station was silent while an impostor used its address. No frame tells which of them is true, so
/// the station is moved at once to whichever of the two ports it is heard at, as in any bridge:
/// nobody can keep it away from its true port.
const HOME_TIME: Duration = Duration::from_secs(10);

/// The effect of a frame on the entry of its source address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learned {
    /// The station was known at this port.
    Known,
    /// The station is new, and was added at this port.
    New,
    /// The station was known at another port, and was moved to this one.
    Moved,
    /// The station was heard at another port less than a second ago, and stays there.
    KeptAtOtherPort,
    /// The station was not added or moved, since a limit is reached or its address is a group
    /// address.
    NotLearned,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    port: Port,
    /// When the station was added, or moved to this port.
    since: Instant,
    /// When the station's last frame arrived.
    heard: Instant,
    /// A frame was sent to the station.
    answered: bool,
    /// The port to which the station is moved back at once, if another port has claimed it.
    home: Option<HomePort>,
}

impl Entry {
    /// The station's home after it has left `self.port`: either it `returns` to its home, or
    /// another port claims it.
    fn home_after(
        &self,
        home: Option<HomePort>,
        returns: bool,
        timeout: Duration,
    ) -> Option<HomePort> {
        let until = self.heard + timeout;
        let Some(home) = home else {
            return Some(HomePort { port: self.port, second: None, until });
        };
        let was_at_home = self.port != home.port && self.heard - self.since >= HOME_TIME;
        match home.second.or(was_at_home.then_some(self.port)) {
            Some(second) => Some(HomePort { second: Some(second), until, ..home }),
            None if returns => None,
            // A claim by a further port leaves the home unchanged.
            None => Some(home),
        }
    }
}

/// A port to which a station is moved back at once.
#[derive(Clone, Copy, Debug)]
struct HomePort {
    port: Port,
    /// A second port that may be the station's home.
    second: Option<Port>,
    /// When the home expires: when the station would have expired at the port that it left.
    until: Instant,
}

/// The table of stations.
pub struct StationTable {
    limits: StationLimits,
    shards: [Mutex<Table<Station, Entry>>; SHARDS],
    /// The state of the LAN, then of each peer.
    ports: Vec<PortState>,
    stations: AtomicUsize,
}

struct PortState {
    stations: AtomicUsize,
    new_stations: Mutex<Bucket>,
}

impl StationTable {
    /// An empty table for a LAN and `peers` peers.
    pub(crate) fn new(
        limits: StationLimits,
        peers: usize,
        random: &mut Random,
        now: Instant,
    ) -> Self {
        let keyed = Keyed::new(random.array());
        let port = || PortState {
            stations: AtomicUsize::new(0),
            new_stations: Mutex::new(Bucket::new(limits.new_a_second, limits.burst, now)),
        };
        Self {
            limits,
            shards: core::array::from_fn(|_| Mutex::new(Table::with_hasher(keyed))),
            ports: core::iter::repeat_with(port).take(peers + 1).collect(),
            stations: AtomicUsize::new(0),
        }
    }

    /// Updates the table: a frame of `station` came in at `port`.
    pub fn learn(&self, now: Instant, station: Station, port: Port) -> Learned {
        self.update(now, station, port).0
    }

    /// Does the same as [`learn`](Self::learn), and also returns whether the station [was heard
    /// recently](Self::was_heard_recently) at `port` before.
    pub(crate) fn update(&self, now: Instant, station: Station, port: Port) -> (Learned, bool) {
        if station.is_group() {
            return (Learned::NotLearned, false);
        }
        let mut shard = lock(self.shard(station));
        if let Some(entry) = shard.get_mut(&station) {
            if entry.port == port {
                let settled = now - entry.heard < MOVE_DELAY;
                entry.heard = entry.heard.max(now);
                return (Learned::Known, settled);
            }
            let home = entry.home.filter(|home| now < home.until);
            let returns = home.is_some_and(|home| home.port == port || home.second == Some(port));
            if !returns && now - entry.heard < MOVE_DELAY {
                return (Learned::KeptAtOtherPort, false);
            }
            // A return takes no token, since the claim that it undoes took one.
            if returns {
                self.count_station(port);
            } else if !self.try_count_station(now, port) {
                return (Learned::NotLearned, false);
            }
            self.uncount_station(entry.port);
            let home = entry.home_after(home, returns, self.limits.timeout);
            *entry = Entry { port, since: now, heard: now, answered: false, home };
            return (Learned::Moved, false);
        }
        if !self.try_count_station(now, port) {
            return (Learned::NotLearned, false);
        }
        let entry = Entry { port, since: now, heard: now, answered: false, home: None };
        shard.insert(station, entry);
        (Learned::New, false)
    }

    /// The port that a frame for `station` has to be sent to; `None` if it is not known.
    pub fn find(&self, now: Instant, station: Station) -> Option<Port> {
        let mut shard = lock(self.shard(station));
        let entry = shard.get_mut(&station).filter(|entry| !self.is_expired(entry, now))?;
        entry.answered = true;
        Some(entry.port)
    }

    /// The peer behind which a station was heard before it was claimed elsewhere, and where it was
    /// not heard since.
    pub fn claimed_from(&self, station: Station) -> Option<PeerIndex> {
        let shard = lock(self.shard(station));
        let entry = shard.get(&station)?;
        match entry.home? {
            HomePort { port: Port::Peer(peer), second: None, .. }
                if entry.port != Port::Peer(peer) =>
            {
                Some(peer)
            }
            _ => None,
        }
    }

    /// Whether a station was heard at `port` less than a second ago, so that it cannot be moved.
    pub fn was_heard_recently(&self, now: Instant, station: Station, port: Port) -> bool {
        let shard = lock(self.shard(station));
        shard
            .get(&station)
            .is_some_and(|entry| entry.port == port && now - entry.heard < MOVE_DELAY)
    }

    /// How many stations are known.
    pub fn len(&self) -> usize {
        self.stations.load(Ordering::Relaxed)
    }

    /// Whether no station is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many stations are known at `port`.
    pub fn len_at(&self, port: Port) -> usize {
        self.ports.get(port.index()).map_or(0, |state| state.stations.load(Ordering::Relaxed))
    }

    /// Removes stations that were silent for too long. To be called about once a second.
    pub fn expire(&self, now: Instant) {
        self.remove_if(|entry| self.is_expired(entry, now));
    }

    /// Removes all stations at `port`.
    pub fn remove_at(&self, port: Port) {
        self.remove_if(|entry| entry.port == port);
    }

    fn remove_if(&self, gone: impl Fn(&Entry) -> bool) {
        for shard in &self.shards {
            lock(shard).retain(|_, entry| {
                let gone = gone(entry);
                if gone {
                    self.uncount_station(entry.port);
                }
                !gone
            });
        }
    }

    fn is_expired(&self, entry: &Entry, now: Instant) -> bool {
        let kept = if entry.answered { self.limits.timeout } else { self.limits.probation };
        now - entry.heard > kept
    }

    /// Counts one more station at `port`, if the limits allow it.
    fn try_count_station(&self, now: Instant, port: Port) -> bool {
        let Some(state) = self.ports.get(port.index()) else { return false };
        // Two threads may both find the last place free, so a limit may be exceeded by as many
        // stations as there are threads.
        let full = self.stations.load(Ordering::Relaxed) >= self.limits.stations
            || state.stations.load(Ordering::Relaxed) >= self.limits.stations_a_port;
        if full || !lock(&state.new_stations).take(now) {
            return false;
        }
        self.count_station(port);
        true
    }

    /// Counts one more station at `port`, regardless of the limits.
    fn count_station(&self, port: Port) {
        if let Some(state) = self.ports.get(port.index()) {
            state.stations.fetch_add(1, Ordering::Relaxed);
        }
        self.stations.fetch_add(1, Ordering::Relaxed);
    }

    fn uncount_station(&self, port: Port) {
        if let Some(state) = self.ports.get(port.index()) {
            state.stations.fetch_sub(1, Ordering::Relaxed);
        }
        self.stations.fetch_sub(1, Ordering::Relaxed);
    }

    fn shard(&self, station: Station) -> &Mutex<Table<Station, Entry>> {
        // The tables inside are keyed. Many addresses in one shard only make its lock busy.
        let folded = station.0 ^ station.0 >> 24;
        &self.shards[(folded ^ folded >> 8) as usize % SHARDS]
    }
}

impl core::fmt::Debug for StationTable {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("StationTable").field("stations", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAR: Port = Port::Peer(PeerIndex(0));

    fn at(millis: u64) -> Instant {
        Instant::from_micros(millis * 1000)
    }

    fn station(number: u32) -> Station {
        let [a, b, c, d] = number.to_be_bytes();
        Station::new(None, [2, 0, a, b, c, d])
    }

    fn bridge(limits: StationLimits) -> StationTable {
        StationTable::new(limits, 2, &mut Random::insecure(1), at(0))
    }

    #[test]
    fn a_station_is_found_where_it_was_heard_until_it_is_silent() {
        let bridge = bridge(StationLimits::default());
        let a = station(1);
        assert_eq!(bridge.find(at(0), a), None);
        assert_eq!(bridge.learn(at(0), a, FAR), Learned::New);
        assert_eq!(bridge.learn(at(1), a, FAR), Learned::Known);
        assert_eq!(bridge.find(at(15_001), a), Some(FAR), "the time of probation is not over");
        assert_eq!(
            bridge.find(at(300_001), a),
            Some(FAR),
            "a frame to the station ended probation"
        );
        bridge.expire(at(300_001));
        assert_eq!(bridge.len(), 1);
        bridge.expire(at(300_002));
        assert_eq!((bridge.len(), bridge.len_at(FAR)), (0, 0));
        assert_eq!(bridge.learn(at(300_003), a, FAR), Learned::New);
        assert_eq!(bridge.find(at(315_004), a), None, "no frame was sent to it");
    }

    #[test]
    fn a_frame_says_whether_its_station_was_settled_there_before() {
        let bridge = bridge(StationLimits::default());
        let a = station(1);
        let at_lan = |millis| bridge.update(at(millis), a, Port::Lan);
        assert_eq!(at_lan(0), (Learned::New, false));
        assert_eq!(at_lan(999), (Learned::Known, true));
        assert!(
            !bridge.was_heard_recently(at(1999), a, Port::Lan),
            "a query now waits for the next frame"
        );
        assert_eq!(at_lan(1999), (Learned::Known, false));
        assert_eq!(bridge.update(at(3000), a, FAR), (Learned::Moved, false));
        assert_eq!(at_lan(3001), (Learned::Moved, false), "a return is reported too");
    }

    #[test]
    fn vlans_are_apart_and_groups_are_not_learned() {
        let bridge = bridge(StationLimits::default());
        let tagged = Station::new(Some(5), station(1).address());
        assert_eq!((tagged.vlan(), station(1).vlan()), (Some(5), None));
        assert_eq!(Station::new(Some(0), [0; 6]).vlan(), Some(0));
        bridge.learn(at(0), tagged, FAR);
        assert_eq!(bridge.find(at(0), station(1)), None);
        let group = Station::new(None, [1, 0, 0x5e, 0, 0, 1]);
        assert!(group.is_group() && Station::new(Some(9), [0xff; 6]).is_group());
        assert!(!station(1).is_group());
        assert_eq!(bridge.learn(at(0), group, FAR), Learned::NotLearned);
    }

    #[test]
    fn a_station_moves_only_after_it_was_silent_for_a_moment() {
        let bridge = bridge(StationLimits::default());
        bridge.learn(at(0), station(1), FAR);
        assert_eq!(bridge.learn(at(999), station(1), Port::Lan), Learned::KeptAtOtherPort);
        assert_eq!(bridge.find(at(999), station(1)), Some(FAR));
        assert_eq!(bridge.learn(at(1000), station(1), Port::Lan), Learned::Moved);
        assert_eq!(bridge.find(at(1000), station(1)), Some(Port::Lan));
        assert_eq!((bridge.len_at(FAR), bridge.len_at(Port::Lan), bridge.len()), (0, 1, 1));
    }

    #[test]
    fn a_claim_is_known_until_the_station_is_heard_where_it_was() {
        let bridge = bridge(StationLimits::default());
        bridge.learn(at(0), station(1), FAR);
        assert!(bridge.was_heard_recently(at(999), station(1), FAR));
        assert!(!bridge.was_heard_recently(at(1000), station(1), FAR));
        assert_eq!(bridge.claimed_from(station(1)), None);
        bridge.learn(at(2000), station(1), Port::Lan);
        assert_eq!(bridge.claimed_from(station(1)), Some(PeerIndex(0)));
        bridge.learn(at(2001), station(1), FAR);
        assert_eq!(bridge.claimed_from(station(1)), None);
        for vlan in [None, Some(0), Some(4095)] {
            let station = Station::new(vlan, [2, 3, 4, 5, 6, 7]);
            assert_eq!(Station::from_bytes(station.to_bytes()), station);
        }
        assert_eq!(Station::from_bytes([0x0f, 0xff, 2, 3, 4, 5, 6, 7]).vlan(), None);
    }

    #[test]
    fn a_station_that_was_claimed_elsewhere_is_back_with_its_next_frame() {
        let bridge = bridge(StationLimits::default());
        let third = Port::Peer(PeerIndex(1));
        for home in [Port::Lan, third] {
            let station = station(home.index() as u32);
            bridge.learn(at(0), station, home);
            for second in 1..200 {
                let claimed = bridge.learn(at(second * 2000), station, FAR);
                assert_eq!(claimed, Learned::Moved, "moved after a silence");
                let next = bridge.learn(at(second * 2000 + 1), station, home);
                assert_eq!(next, Learned::Moved, "moved back at once");
                assert_eq!(
                    bridge.learn(at(second * 2000 + 2), station, FAR),
                    Learned::KeptAtOtherPort
                );
                assert_eq!(bridge.find(at(second * 2000 + 2), station), Some(home));
            }
        }
        let (claimed, station) = (at(1000), station(9));
        bridge.learn(at(0), station, Port::Lan);
        bridge.learn(claimed, station, FAR);
        bridge.learn(at(2000), station, third);
        assert_eq!(
            bridge.learn(at(2001), station, FAR),
            Learned::KeptAtOtherPort,
            "a claim makes no home"
        );
        assert_eq!(bridge.learn(at(2002), station, Port::Lan), Learned::Moved);
    }

    #[test]
    fn a_station_that_has_moved_is_at_home_where_it_went_in_the_end() {
        let bridge = bridge(StationLimits::default());
        bridge.learn(at(0), station(1), Port::Lan);
        for second in 1..300 {
            bridge.learn(at(second * 1000), station(1), FAR);
        }
        assert_eq!(
            bridge.learn(at(300_000), station(1), Port::Lan),
            Learned::Moved,
            "back at its first home"
        );
        bridge.learn(at(301_000), station(1), FAR);
        for second in 302..=601 {
            bridge.learn(at(second * 1000), station(1), FAR);
        }
        assert_eq!(bridge.learn(at(601_001), station(1), Port::Lan), Learned::KeptAtOtherPort);
    }

    #[test]
    fn a_station_that_has_moved_is_kept_from_nowhere_by_who_claims_it_where_it_was() {
        let third = Port::Peer(PeerIndex(1));
        for (last, both) in [(10_999, false), (11_000, true)] {
            let bridge = bridge(StationLimits::default());
            let learn = |millis, port| bridge.learn(at(millis), station(1), port);
            learn(0, Port::Lan);
            learn(1000, FAR);
            learn(last, FAR);
            assert_eq!(learn(11_001, Port::Lan), Learned::Moved);
            assert_eq!(learn(11_002, FAR) == Learned::Moved, both);
            if both {
                for second in 12..600 {
                    for port in [Port::Lan, FAR] {
                        assert_eq!(learn(second * 1000, port), Learned::Moved);
                        assert_eq!(learn(second * 1000, third), Learned::KeptAtOtherPort);
                    }
                }
                assert_eq!(learn(600_000, third), Learned::Moved, "moved after a silence");
                assert_eq!(learn(600_001, FAR), Learned::Moved);
                assert_eq!(
                    learn(600_002, third),
                    Learned::KeptAtOtherPort,
                    "a claim makes no home"
                );
                assert_eq!(learn(600_003, Port::Lan), Learned::Moved);
            }
        }
        let bridge = bridge(StationLimits::default());
        let learn = |millis, port| bridge.learn(at(millis), station(1), port);
        learn(0, Port::Lan);
        learn(1000, FAR);
        learn(11_000, FAR);
        assert_eq!(learn(12_000, third), Learned::Moved, "moved after a silence");
        assert_eq!(learn(12_001, FAR), Learned::Moved, "moved back to its second home");
        let sum = [Port::Lan, FAR, third].map(|port| bridge.len_at(port));
        assert_eq!((sum, bridge.len()), ([0, 1, 0], 1));
    }

    #[test]
    fn a_station_is_back_though_its_lan_is_flooded() {
        let limits = StationLimits {
            stations: 100,
            stations_a_port: 60,
            burst: 70,
            ..StationLimits::default()
        };
        for stations in [60, 100] {
            let bridge = bridge(StationLimits { stations, ..limits });
            bridge.learn(at(0), station(1), Port::Lan);
            assert_eq!(bridge.learn(at(1000), station(1), FAR), Learned::Moved);
            for number in 1000..2000 {
                bridge.learn(at(1000), station(number), Port::Lan);
            }
            assert_eq!(bridge.learn(at(1000), station(2), Port::Lan), Learned::NotLearned);
            assert_eq!(bridge.learn(at(1000), station(1), Port::Lan), Learned::Moved);
            assert_eq!((bridge.len_at(FAR), bridge.len() - bridge.len_at(Port::Lan)), (0, 0));
        }
    }

    #[test]
    fn a_flood_of_sources_fills_its_quota_and_no_more_and_who_was_there_stays() {
        let limits = StationLimits {
            stations: 100,
            stations_a_port: 60,
            burst: 50,
            ..StationLimits::default()
        };
        let bridge = bridge(limits);
        bridge.learn(at(0), station(1), FAR);
        bridge.find(at(0), station(1));
        let learned = |from: u32, time| {
            let new = |n: &u32| bridge.learn(time, station(*n), Port::Lan) == Learned::New;
            (from..from + 10_000).filter(new).count()
        };
        assert_eq!(learned(1000, at(0)), 50, "as many as the burst");
        assert_eq!(learned(20_000, at(100)), 10, "as many as the quota has left");
        assert_eq!(learned(40_000, at(10_000)), 0);
        assert_eq!(bridge.len_at(Port::Lan), 60);
        assert_eq!(bridge.find(at(10_000), station(1)), Some(FAR));
        bridge.expire(at(16_000));
        assert_eq!(bridge.len(), 1, "no frame was sent to the others");
        bridge.remove_at(FAR);
        assert!(bridge.is_empty());
    }
}
