//! Where stations are: learned from the frames they send, as a bridge does (IEEE 802.1Q,
//! clause 8.7), under limits.
//!
//! A frame of an invented source must cost no more than its own way. So the table has a cap;
//! the LAN and each peer have a quota of it and a rate at which they may add to it; and a
//! station that nobody answers is soon forgotten. What is not learned is still carried, as
//! to anyone unknown.

use crate::bucket::Bucket;
use crate::hashing::{Keyed, Table};
use crate::lock;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::Mutex;
use vocabulary::{Instant, Random};

/// Shards of the table, so that threads seldom meet.
const SHARDS: usize = 16;

/// Which peer, by its place in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerIndex(pub u8);

/// Where a station was seen.
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

/// A station: its address, in a VLAN or outside of any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Station(u64);

impl Station {
    /// The station with `address` in `vlan`.
    pub fn new(vlan: Option<u16>, address: [u8; 6]) -> Self {
        let [a, b, c, d, e, f] = address;
        let vlan = vlan.map_or(0, |vlan| 0x1000 | u64::from(vlan & 0xfff));
        Self(vlan << 48 | u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
    }

    /// As gateways write it: the VLAN in two bytes, with bit 12 set, or 0 outside of any; the address.
    pub const fn to_bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }

    /// From [`to_bytes`](Self::to_bytes).
    pub fn from_bytes([high, low, address @ ..]: [u8; 8]) -> Self {
        let vlan = u16::from_be_bytes([high, low]);
        Self::new((vlan & 0x1000 != 0).then_some(vlan), address)
    }

    /// Whether the address names a group, the broadcast address included.
    pub const fn is_group(self) -> bool {
        self.0 >> 40 & 1 == 1
    }

    /// The address.
    pub const fn address(self) -> [u8; 6] {
        let [_, _, a, b, c, d, e, f] = self.0.to_be_bytes();
        [a, b, c, d, e, f]
    }

    /// The VLAN, if any.
    pub const fn vlan(self) -> Option<u16> {
        if self.0 >> 60 & 1 == 1 { Some((self.0 >> 48 & 0xfff) as u16) } else { None }
    }
}

/// How much is learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Stations in all.
    pub stations: usize,
    /// Stations of the LAN, and of each peer.
    pub stations_a_port: usize,
    /// New stations a second of the LAN, and of each peer.
    pub new_a_second: u32,
    /// New stations at once.
    pub burst: u32,
    /// A station that was silent for so long is forgotten.
    pub timeout: Duration,
    /// The same for one that nobody wrote to yet.
    pub probation: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            stations: 16_384,
            stations_a_port: 8_192,
            new_a_second: 200,
            burst: 1_000,
            timeout: Duration::from_secs(300),
            probation: Duration::from_secs(15),
        }
    }
}

/// A station that was heard within this time is not moved to where another claims its address:
/// an answer that comes back through a loop, or a neighbour that pretends. But it is moved back
/// at once to where it was before: else whoever claims it once a second kept it.
const SETTLED: Duration = Duration::from_secs(1);

/// A station that was heard elsewhere for so long may be at either place: it has moved for good and
/// somebody pretends where it was, or it was silent while somebody pretended. No frame tells which,
/// so it is taken to both at once, as by any bridge: nobody can keep it from where it is.
const AT_HOME: Duration = Duration::from_secs(10);

/// What came of a source address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learned {
    /// It was known there.
    Known,
    /// It is known from now on.
    New,
    /// It was elsewhere before and is here now.
    Moved,
    /// It is elsewhere and was heard there just now.
    Elsewhere,
    /// It is not learned, since a limit is reached.
    Refused,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    port: Port,
    since: Instant,
    heard: Instant,
    /// Somebody wrote to it.
    answered: bool,
    /// Where it was before it was moved, if it was.
    home: Option<Home>,
}

impl Entry {
    /// Where the station is at home once it has left, to `return` there or on another's word.
    fn home_after(&self, home: Option<Home>, returns: bool, timeout: Duration) -> Option<Home> {
        let until = self.heard + timeout;
        let Some(home) = home else {
            return Some(Home { port: self.port, second: None, until });
        };
        let was_at_home = self.port != home.port && self.heard - self.since >= AT_HOME;
        match home.second.or(was_at_home.then_some(self.port)) {
            Some(second) => Some(Home { second: Some(second), until, ..home }),
            None if returns => None,
            // Whoever moved it on from elsewhere, it stays at home where it was at first.
            None => Some(home),
        }
    }
}

/// Where a station is taken back to at once.
#[derive(Clone, Copy, Debug)]
struct Home {
    port: Port,
    /// Where it may be at home as well.
    second: Option<Port>,
    /// For as long as it would be known there, had it not moved.
    until: Instant,
}

/// The table of stations.
pub struct Bridge {
    limits: Limits,
    shards: [Mutex<Table<Station, Entry>>; SHARDS],
    /// Of the LAN, then of each peer.
    ports: Vec<PortState>,
    stations: AtomicUsize,
}

struct PortState {
    stations: AtomicUsize,
    fresh: Mutex<Bucket>,
}

impl Bridge {
    /// An empty table for a LAN and `peers` peers.
    pub fn new(limits: Limits, peers: usize, random: &mut Random, now: Instant) -> Self {
        let keyed = Keyed::new(random.array());
        let port = || PortState {
            stations: AtomicUsize::new(0),
            fresh: Mutex::new(Bucket::new(limits.new_a_second, limits.burst, now)),
        };
        Self {
            limits,
            shards: core::array::from_fn(|_| Mutex::new(Table::with_hasher(keyed))),
            ports: core::iter::repeat_with(port).take(peers + 1).collect(),
            stations: AtomicUsize::new(0),
        }
    }

    /// Notes that a frame of `station` came in at `port`.
    pub fn learn(&self, now: Instant, station: Station, port: Port) -> Learned {
        self.hear(now, station, port).0
    }

    /// [`learn`](Self::learn), and whether the station [was settled](Self::is_settled) there before.
    pub(crate) fn hear(&self, now: Instant, station: Station, port: Port) -> (Learned, bool) {
        if station.is_group() {
            return (Learned::Refused, false);
        }
        let mut shard = lock(self.shard(station));
        if let Some(entry) = shard.get_mut(&station) {
            if entry.port == port {
                let settled = now - entry.heard < SETTLED;
                entry.heard = entry.heard.max(now);
                return (Learned::Known, settled);
            }
            let home = entry.home.filter(|home| now < home.until);
            let returns = home.is_some_and(|home| home.port == port || home.second == Some(port));
            if !returns && now - entry.heard < SETTLED {
                return (Learned::Elsewhere, false);
            }
            // A return is paid for: the claim before it was charged.
            if returns {
                self.enter(port);
            } else if !self.admit(now, port) {
                return (Learned::Refused, false);
            }
            self.leave(entry.port);
            let home = entry.home_after(home, returns, self.limits.timeout);
            *entry = Entry { port, since: now, heard: now, answered: false, home };
            return (Learned::Moved, false);
        }
        if !self.admit(now, port) {
            return (Learned::Refused, false);
        }
        let entry = Entry { port, since: now, heard: now, answered: false, home: None };
        shard.insert(station, entry);
        (Learned::New, false)
    }

    /// Where a frame for `station` goes; `None` if that is not known.
    pub fn find(&self, now: Instant, station: Station) -> Option<Port> {
        let mut shard = lock(self.shard(station));
        let entry = shard.get_mut(&station).filter(|entry| !self.is_over(entry, now))?;
        entry.answered = true;
        Some(entry.port)
    }

    /// The peer behind which a station was heard before it was claimed elsewhere, and where it has
    /// not been heard since.
    pub fn claimed_from(&self, station: Station) -> Option<PeerIndex> {
        let shard = lock(self.shard(station));
        let entry = shard.get(&station)?;
        match entry.home? {
            Home { port: Port::Peer(peer), second: None, .. } if entry.port != Port::Peer(peer) => {
                Some(peer)
            }
            _ => None,
        }
    }

    /// Whether a station was heard at `port` just now: then it is not moved.
    pub fn is_settled(&self, now: Instant, station: Station, port: Port) -> bool {
        let shard = lock(self.shard(station));
        shard.get(&station).is_some_and(|entry| entry.port == port && now - entry.heard < SETTLED)
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

    /// Forgets who was silent for too long. To be called about once a second.
    pub fn expire(&self, now: Instant) {
        self.forget_if(|entry| self.is_over(entry, now));
    }

    /// Forgets all that was behind `port`.
    pub fn forget(&self, port: Port) {
        self.forget_if(|entry| entry.port == port);
    }

    fn forget_if(&self, gone: impl Fn(&Entry) -> bool) {
        for shard in &self.shards {
            lock(shard).retain(|_, entry| {
                let gone = gone(entry);
                if gone {
                    self.leave(entry.port);
                }
                !gone
            });
        }
    }

    fn is_over(&self, entry: &Entry, now: Instant) -> bool {
        let kept = if entry.answered { self.limits.timeout } else { self.limits.probation };
        now - entry.heard > kept
    }

    /// Counts one more station of `port`, if it may have one.
    fn admit(&self, now: Instant, port: Port) -> bool {
        let Some(state) = self.ports.get(port.index()) else { return false };
        // Two threads may both find the last place free: the caps are exceeded by as many
        // stations as there are threads at most.
        let full = self.stations.load(Ordering::Relaxed) >= self.limits.stations
            || state.stations.load(Ordering::Relaxed) >= self.limits.stations_a_port;
        if full || !lock(&state.fresh).take(now) {
            return false;
        }
        self.enter(port);
        true
    }

    /// Counts one more station of `port`, whether it may have one or not.
    fn enter(&self, port: Port) {
        if let Some(state) = self.ports.get(port.index()) {
            state.stations.fetch_add(1, Ordering::Relaxed);
        }
        self.stations.fetch_add(1, Ordering::Relaxed);
    }

    fn leave(&self, port: Port) {
        if let Some(state) = self.ports.get(port.index()) {
            state.stations.fetch_sub(1, Ordering::Relaxed);
        }
        self.stations.fetch_sub(1, Ordering::Relaxed);
    }

    fn shard(&self, station: Station) -> &Mutex<Table<Station, Entry>> {
        // The tables inside are keyed; a shard that many addresses fall into is only a busy lock.
        let folded = station.0 ^ station.0 >> 24;
        &self.shards[(folded ^ folded >> 8) as usize % SHARDS]
    }
}

impl core::fmt::Debug for Bridge {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Bridge").field("stations", &self.len()).finish_non_exhaustive()
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

    fn bridge(limits: Limits) -> Bridge {
        Bridge::new(limits, 2, &mut Random::insecure(1), at(0))
    }

    #[test]
    fn a_station_is_found_where_it_was_heard_until_it_is_silent() {
        let bridge = bridge(Limits::default());
        let a = station(1);
        assert_eq!(bridge.find(at(0), a), None);
        assert_eq!(bridge.learn(at(0), a, FAR), Learned::New);
        assert_eq!(bridge.learn(at(1), a, FAR), Learned::Known);
        assert_eq!(bridge.find(at(15_001), a), Some(FAR), "probation lasts");
        assert_eq!(bridge.find(at(300_001), a), Some(FAR), "and ended with a frame to it");
        bridge.expire(at(300_001));
        assert_eq!(bridge.len(), 1);
        bridge.expire(at(300_002));
        assert_eq!((bridge.len(), bridge.len_at(FAR)), (0, 0));
        assert_eq!(bridge.learn(at(300_003), a, FAR), Learned::New);
        assert_eq!(bridge.find(at(315_004), a), None, "nobody wrote to it");
    }

    #[test]
    fn a_frame_says_whether_its_station_was_settled_there_before() {
        let bridge = bridge(Limits::default());
        let a = station(1);
        let at_lan = |millis| bridge.hear(at(millis), a, Port::Lan);
        assert_eq!(at_lan(0), (Learned::New, false));
        assert_eq!(at_lan(999), (Learned::Known, true));
        assert!(!bridge.is_settled(at(1999), a, Port::Lan), "who asks now waits for the next");
        assert_eq!(at_lan(1999), (Learned::Known, false));
        assert_eq!(bridge.hear(at(3000), a, FAR), (Learned::Moved, false));
        assert_eq!(at_lan(3001), (Learned::Moved, false), "and one that returns is news");
    }

    #[test]
    fn vlans_are_apart_and_groups_are_not_learned() {
        let bridge = bridge(Limits::default());
        let tagged = Station::new(Some(5), station(1).address());
        assert_eq!((tagged.vlan(), station(1).vlan()), (Some(5), None));
        assert_eq!(Station::new(Some(0), [0; 6]).vlan(), Some(0));
        bridge.learn(at(0), tagged, FAR);
        assert_eq!(bridge.find(at(0), station(1)), None);
        let group = Station::new(None, [1, 0, 0x5e, 0, 0, 1]);
        assert!(group.is_group() && Station::new(Some(9), [0xff; 6]).is_group());
        assert!(!station(1).is_group());
        assert_eq!(bridge.learn(at(0), group, FAR), Learned::Refused);
    }

    #[test]
    fn a_station_moves_only_after_it_was_silent_for_a_moment() {
        let bridge = bridge(Limits::default());
        bridge.learn(at(0), station(1), FAR);
        assert_eq!(bridge.learn(at(999), station(1), Port::Lan), Learned::Elsewhere);
        assert_eq!(bridge.find(at(999), station(1)), Some(FAR));
        assert_eq!(bridge.learn(at(1000), station(1), Port::Lan), Learned::Moved);
        assert_eq!(bridge.find(at(1000), station(1)), Some(Port::Lan));
        assert_eq!((bridge.len_at(FAR), bridge.len_at(Port::Lan), bridge.len()), (0, 1, 1));
    }

    #[test]
    fn a_claim_is_known_until_the_station_is_heard_where_it_was() {
        let bridge = bridge(Limits::default());
        bridge.learn(at(0), station(1), FAR);
        assert!(bridge.is_settled(at(999), station(1), FAR));
        assert!(!bridge.is_settled(at(1000), station(1), FAR));
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
        let bridge = bridge(Limits::default());
        let third = Port::Peer(PeerIndex(1));
        for home in [Port::Lan, third] {
            let station = station(home.index() as u32);
            bridge.learn(at(0), station, home);
            for second in 1..200 {
                let claimed = bridge.learn(at(second * 2000), station, FAR);
                assert_eq!(claimed, Learned::Moved, "after silence");
                let next = bridge.learn(at(second * 2000 + 1), station, home);
                assert_eq!(next, Learned::Moved, "at once");
                assert_eq!(bridge.learn(at(second * 2000 + 2), station, FAR), Learned::Elsewhere);
                assert_eq!(bridge.find(at(second * 2000 + 2), station), Some(home));
            }
        }
        let (claimed, station) = (at(1000), station(9));
        bridge.learn(at(0), station, Port::Lan);
        bridge.learn(claimed, station, FAR);
        bridge.learn(at(2000), station, third);
        assert_eq!(bridge.learn(at(2001), station, FAR), Learned::Elsewhere, "a claim is no home");
        assert_eq!(bridge.learn(at(2002), station, Port::Lan), Learned::Moved);
    }

    #[test]
    fn a_station_that_has_moved_is_at_home_where_it_went_in_the_end() {
        let bridge = bridge(Limits::default());
        bridge.learn(at(0), station(1), Port::Lan);
        for second in 1..300 {
            bridge.learn(at(second * 1000), station(1), FAR);
        }
        assert_eq!(bridge.learn(at(300_000), station(1), Port::Lan), Learned::Moved, "settled");
        bridge.learn(at(301_000), station(1), FAR);
        for second in 302..=601 {
            bridge.learn(at(second * 1000), station(1), FAR);
        }
        assert_eq!(bridge.learn(at(601_001), station(1), Port::Lan), Learned::Elsewhere);
    }

    #[test]
    fn a_station_that_has_moved_is_kept_from_nowhere_by_who_claims_it_where_it_was() {
        let third = Port::Peer(PeerIndex(1));
        for (last, both) in [(10_999, false), (11_000, true)] {
            let bridge = bridge(Limits::default());
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
                        assert_eq!(learn(second * 1000, third), Learned::Elsewhere);
                    }
                }
                assert_eq!(learn(600_000, third), Learned::Moved, "after silence");
                assert_eq!(learn(600_001, FAR), Learned::Moved);
                assert_eq!(learn(600_002, third), Learned::Elsewhere, "a claim is no home");
                assert_eq!(learn(600_003, Port::Lan), Learned::Moved);
            }
        }
        let bridge = bridge(Limits::default());
        let learn = |millis, port| bridge.learn(at(millis), station(1), port);
        learn(0, Port::Lan);
        learn(1000, FAR);
        learn(11_000, FAR);
        assert_eq!(learn(12_000, third), Learned::Moved, "after silence");
        assert_eq!(learn(12_001, FAR), Learned::Moved, "where it has moved to");
        let sum = [Port::Lan, FAR, third].map(|port| bridge.len_at(port));
        assert_eq!((sum, bridge.len()), ([0, 1, 0], 1));
    }

    #[test]
    fn a_station_is_back_though_its_lan_is_flooded() {
        let limits = Limits { stations: 100, stations_a_port: 60, burst: 70, ..Limits::default() };
        for stations in [60, 100] {
            let bridge = bridge(Limits { stations, ..limits });
            bridge.learn(at(0), station(1), Port::Lan);
            assert_eq!(bridge.learn(at(1000), station(1), FAR), Learned::Moved);
            for number in 1000..2000 {
                bridge.learn(at(1000), station(number), Port::Lan);
            }
            assert_eq!(bridge.learn(at(1000), station(2), Port::Lan), Learned::Refused);
            assert_eq!(bridge.learn(at(1000), station(1), Port::Lan), Learned::Moved);
            assert_eq!((bridge.len_at(FAR), bridge.len() - bridge.len_at(Port::Lan)), (0, 0));
        }
    }

    #[test]
    fn a_flood_of_sources_fills_its_quota_and_no_more_and_who_was_there_stays() {
        let limits = Limits { stations: 100, stations_a_port: 60, burst: 50, ..Limits::default() };
        let bridge = bridge(limits);
        bridge.learn(at(0), station(1), FAR);
        bridge.find(at(0), station(1));
        let learned = |from: u32, time| {
            let new = |n: &u32| bridge.learn(time, station(*n), Port::Lan) == Learned::New;
            (from..from + 10_000).filter(new).count()
        };
        assert_eq!(learned(1000, at(0)), 50, "the burst");
        assert_eq!(learned(20_000, at(100)), 10, "the quota");
        assert_eq!(learned(40_000, at(10_000)), 0);
        assert_eq!(bridge.len_at(Port::Lan), 60);
        assert_eq!(bridge.find(at(10_000), station(1)), Some(FAR));
        bridge.expire(at(16_000));
        assert_eq!(bridge.len(), 1, "nobody answered them");
        bridge.forget(FAR);
        assert!(bridge.is_empty());
    }
}
