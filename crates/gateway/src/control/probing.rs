//! Path MTU discovery for datagrams to a peer, and detection of paths that are down: a small form
//! of RFC 8899.
//!
//! Routers need not report that a packet was too long. Therefore probes of common sizes are sent,
//! encrypted like other datagrams, and the longest size that is answered is used. The size in use
//! is confirmed periodically. A probe that is not answered is repeated together with probes of all
//! shorter sizes, so that the new size of a path that became narrower is known when the old size is
//! given up. If no probe is answered, the path is *lost*: only the smallest size is probed until an
//! answer arrives, and then the search begins again.

use crate::tuning::LEAST_MTU;
use core::time::Duration;
use lightseal_core::Instant;

/// Common MTUs in bytes. The first needs no probe (RFC 8200, section 5). The sizes from 1572 to
/// 1596 fit the frames of a LAN with an MTU of 1500 under `sealed`, with and without a VLAN tag,
/// over IPv4 and IPv6.
const MTUS: [usize; 17] = [
    LEAST_MTU, 1320, 1350, 1380, 1400, 1420, 1450, 1472, 1492, 1500, 1572, 1576, 1592, 1596, 1600,
    9000, 9216,
];
/// Number of probes of one size before the size counts as too long (RFC 8899, MAX_PROBES).
const MAX_PROBES: u8 = 3;
/// Interval between two tries, which is longer than any expected round trip.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// Interval between two searches of a path (RFC 8899, PMTU_RAISE_TIMER).
const SEARCH_INTERVAL: Duration = Duration::from_secs(600);
/// Time from the moment when a path became narrower to the next search: perhaps probes were only
/// lost by chance.
const SEARCH_INTERVAL_AFTER_NARROWING: Duration = Duration::from_secs(60);
/// Interval at which the size in use is confirmed, to notice a path that became narrower.
const CONFIRM_INTERVAL: Duration = Duration::from_secs(10);
/// The interval at which the size in use is confirmed while frames are sent that need more than the
/// smallest size: a narrower path would lose all of them.
const CONFIRM_INTERVAL_IN_USE: Duration = Duration::from_secs(2);

/// What happened on the path since the last probe was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PathActivity {
    /// Whether an authentic datagram arrived from the peer.
    pub(super) heard: bool,
    /// Whether frames were sent to the peer.
    pub(super) sent: bool,
    /// Whether frames were sent to the peer that need more than the smallest size.
    pub(super) sent_long: bool,
}

/// The state of the search on one path.
#[derive(Debug)]
pub(super) struct PathMtuSearch {
    /// The size in use.
    mtu: usize,
    /// Whether the MTU is configured. It is then not searched for, and a path is probed only while
    /// frames are sent, to find out whether the peer answers.
    is_configured: bool,
    /// Number of rounds of the search that remain.
    rounds: u8,
    /// When the last probe was sent.
    sent_at: Option<Instant>,
    /// When the next search begins.
    search_at: Option<Instant>,
    /// Whether the size in use was probed and no answer has arrived.
    awaits_answer: bool,
    /// Number of successive probes of the size in use that were not answered.
    missed: u8,
    /// The longest of the shorter sizes that was answered meanwhile.
    shorter: Option<usize>,
    /// Whether the path is lost or was not confirmed yet, so that only the smallest size is probed.
    smallest_only: bool,
    /// Whether the path was lost and no probe was answered since.
    unanswered: bool,
}

impl Default for PathMtuSearch {
    fn default() -> Self {
        Self {
            mtu: MTUS[0],
            is_configured: false,
            rounds: MAX_PROBES,
            sent_at: None,
            search_at: None,
            awaits_answer: false,
            missed: 0,
            shorter: None,
            smallest_only: false,
            unanswered: false,
        }
    }
}

impl PathMtuSearch {
    /// A path whose MTU is configured.
    pub(super) fn configured(mtu: usize) -> Self {
        Self { mtu, is_configured: true, rounds: 0, ..Self::default() }
    }

    /// The size in use: IP packets of this many bytes arrive.
    pub(super) const fn mtu(&self) -> usize {
        self.mtu
    }

    /// Whether the peer answers nothing that is sent to it.
    pub(super) const fn is_unanswered(&self) -> bool {
        self.unanswered
    }

    /// When the last probe was sent.
    pub(super) const fn sent_at(&self) -> Option<Instant> {
        self.sent_at
    }

    /// Starts a search at once, since the path may be another one.
    pub(super) fn restart(&mut self) {
        self.rounds = if self.is_configured { 0 } else { MAX_PROBES };
        (self.sent_at, self.awaits_answer, self.missed, self.shorter) = (None, false, 0, None);
        self.smallest_only = false;
    }

    /// Probes the smallest size first, and searches after its answer: the peer seems to have
    /// another address, and an attacker must not be able to direct a whole search to an address of
    /// his choice.
    pub(super) fn revalidate(&mut self) {
        self.restart();
        self.smallest_only = true;
        if !self.is_configured {
            self.mtu = MTUS[0];
        }
    }

    /// Calls `send` with the size of each probe that is due; 0 stands for the shortest possible
    /// probe.
    pub(super) fn handle_timeout(
        &mut self,
        now: Instant,
        activity: PathActivity,
        send: impl FnMut(usize),
    ) {
        if self.sent_at.is_some_and(|sent_at| now - sent_at < self.pause(activity)) {
            return;
        }
        if self.awaits_answer {
            self.miss(now);
        }
        if self.search_at.is_some_and(|at| now >= at) && !self.smallest_only {
            self.search_at = None;
            self.rounds = MAX_PROBES;
        }
        if self.is_configured && !self.awaits_answer && !activity.sent {
            return;
        }
        self.send(now, send);
    }

    /// The time between the last probe and the next one.
    fn pause(&self, activity: PathActivity) -> Duration {
        match self.smallest_only {
            true if activity.heard || !self.unanswered => PROBE_INTERVAL,
            true => CONFIRM_INTERVAL,
            false if self.awaits_answer || self.rounds > 0 => PROBE_INTERVAL,
            false if activity.sent_long && !self.is_configured && self.mtu > MTUS[0] => {
                CONFIRM_INTERVAL_IN_USE
            }
            false => CONFIRM_INTERVAL,
        }
    }

    /// Counts a probe of the size in use that was not answered in time.
    fn miss(&mut self, now: Instant) {
        self.missed += 1;
        if self.missed < MAX_PROBES {
            return;
        }
        (self.awaits_answer, self.missed, self.rounds) = (false, 0, 0);
        match self.shorter.take() {
            Some(shorter) if !self.smallest_only => {
                self.mtu = shorter;
                self.search_at = Some(now + SEARCH_INTERVAL_AFTER_NARROWING);
            }
            _ => {
                (self.smallest_only, self.unanswered) = (true, true);
                self.search_at = None;
                if !self.is_configured {
                    self.mtu = MTUS[0];
                }
            }
        }
    }

    fn send(&mut self, now: Instant, mut send: impl FnMut(usize)) {
        self.sent_at = Some(now);
        self.awaits_answer = true;
        if self.is_configured {
            return send(0);
        }
        if self.missed > 0 {
            MTUS.iter().filter(|&&mtu| mtu < self.mtu).for_each(|&mtu| send(mtu));
        }
        send(self.mtu);
        if self.rounds > 0 && !self.smallest_only {
            self.rounds -= 1;
            if self.rounds == 0 {
                self.search_at = Some(now + SEARCH_INTERVAL);
            }
            MTUS.iter().filter(|&&mtu| mtu > self.mtu).for_each(|&mtu| send(mtu));
        }
    }

    /// A probe of `mtu` bytes was answered.
    pub(super) fn handle_answer(&mut self, mtu: usize) {
        if !self.is_configured && !MTUS.contains(&mtu) {
            return;
        }
        self.unanswered = false;
        if self.smallest_only {
            self.restart();
        }
        if !self.is_configured && mtu < self.mtu {
            self.shorter = self.shorter.max(Some(mtu));
            return;
        }
        if !self.is_configured {
            self.mtu = mtu;
        }
        (self.awaits_answer, self.missed, self.shorter) = (false, 0, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUSY: PathActivity = PathActivity { heard: true, sent: true, sent_long: true };
    const IDLE: PathActivity = PathActivity { heard: false, sent: false, sent_long: false };

    /// A path in virtual time, in ticks of a tenth of a second.
    struct Path {
        probing: PathMtuSearch,
        ticks: u64,
        /// The probes that were sent: tick and size in bytes.
        sent: Vec<(u64, usize)>,
    }

    impl Path {
        fn new(probing: PathMtuSearch) -> Self {
            Self { probing, ticks: 10, sent: Vec::new() }
        }

        /// Runs for this many ticks on a path that carries packets of up to `mtu` bytes. Returns
        /// the size in use at the end.
        fn run(&mut self, ticks: u64, mtu: usize, activity: PathActivity) -> usize {
            for _ in 0..ticks {
                let mut sent = Vec::new();
                let now = Instant::from_micros(self.ticks * 100_000);
                self.probing.handle_timeout(now, activity, |size| sent.push(size));
                for &size in sent.iter().filter(|&&size| size <= mtu && mtu > 0) {
                    self.probing.handle_answer(size);
                }
                self.sent.extend(sent.into_iter().map(|size| (self.ticks, size)));
                self.ticks += 1;
            }
            self.probing.mtu()
        }

        /// The number of ticks until the size in use is `mtu`, on a path that carries packets of up
        /// to `carries` bytes.
        fn until(&mut self, mtu: usize, carries: usize, activity: PathActivity) -> u64 {
            (1..10_000).find(|_| self.run(1, carries, activity) == mtu).unwrap()
        }
    }

    #[test]
    fn the_longest_that_arrives_is_found_and_a_narrower_path_noticed() {
        for &size in &MTUS {
            let mut path = Path::new(PathMtuSearch::default());
            assert_eq!(path.run(50, size, IDLE), size);
            assert_eq!(path.run(50, size + 1, IDLE), size);
        }
        let mut path = Path::new(PathMtuSearch::default());
        assert_eq!(path.run(200, 1500, IDLE), 1500);
        assert_eq!(path.run(600, 1400, IDLE), 1400);
        assert_eq!(path.run(700, 1500, IDLE), 1500, "a wider path is found after a minute");
        assert_eq!(path.run(7000, 9100, IDLE), 9000, "and after ten minutes in any case");
    }

    #[test]
    fn a_narrower_path_costs_frames_five_seconds_and_an_idle_one_thirteen() {
        for (activity, worst) in [(BUSY, 51), (IDLE, 131)] {
            for offset in 0..150 {
                let mut path = Path::new(PathMtuSearch::default());
                assert_eq!(path.run(100 + offset, 1500, activity), 1500);
                let took = path.until(1280, 1300, activity);
                assert!(took <= worst, "{took} ticks, {offset} after");
            }
        }
    }

    #[test]
    fn two_lost_probes_narrow_nothing() {
        let mut path = Path::new(PathMtuSearch::default());
        path.run(100, 1500, BUSY);
        for _ in 0..3000 {
            let before = path.sent.len();
            let tries = path.sent.iter().filter(|&&(_, size)| size == 1500).count();
            // Only the last of three successive probes of the size in use arrives.
            path.run(1, if tries % 3 == 2 { 1500 } else { 1400 }, BUSY);
            assert_eq!(path.probing.mtu(), 1500, "{:?}", &path.sent[before..]);
        }
    }

    #[test]
    fn after_an_outage_a_path_is_searched_as_soon_as_anything_is_heard() {
        for outage in [40, 300, 6000] {
            let mut path = Path::new(PathMtuSearch::default());
            assert_eq!(path.run(100, 1500, BUSY), 1500);
            path.run(outage, 0, IDLE);
            assert!(path.probing.is_unanswered() || outage == 40);
            let took = path.until(1500, 1500, BUSY);
            assert!(took <= 12, "{took} ticks after {outage}");
            assert!(!path.probing.is_unanswered());
        }
        // If no frames are sent, the first probe that is answered starts a search.
        let mut path = Path::new(PathMtuSearch::default());
        path.run(100, 1500, IDLE);
        path.run(300, 0, IDLE);
        assert!(path.until(1500, 1500, IDLE) <= 102);
    }

    #[test]
    fn a_lost_path_is_asked_with_one_short_probe_at_a_time() {
        let mut path = Path::new(PathMtuSearch::default());
        path.run(100, 0, BUSY);
        assert!(path.probing.is_unanswered());
        for (activity, most) in [(BUSY, 61), (IDLE, 7)] {
            path.sent.clear();
            path.run(600, 0, activity);
            assert!(path.sent.len() <= most, "{}", path.sent.len());
            assert!(path.sent.iter().all(|&(_, size)| size == MTUS[0]));
        }
        // A management channel that comes up starts a search at once.
        path.probing.restart();
        assert_eq!(path.run(1, 1500, IDLE), 1500);
    }

    #[test]
    fn a_path_whose_mtu_was_told_is_asked_only_whether_it_answers_what_is_sent() {
        let mut path = Path::new(PathMtuSearch::configured(1400));
        path.run(6000, 1400, IDLE);
        assert!(path.sent.is_empty());
        path.run(600, 1400, BUSY);
        assert!(path.sent.iter().all(|&(_, size)| size == 0) && path.sent.len() <= 7);
        path.run(150, 0, BUSY);
        assert!(path.probing.is_unanswered() && path.probing.mtu() == 1400);
        path.run(12, 1400, BUSY);
        assert!(!path.probing.is_unanswered() && path.probing.mtu() == 1400);
    }

    #[test]
    fn a_peer_that_is_said_to_be_elsewhere_is_asked_once_a_second_before_its_path_is_searched() {
        let mut path = Path::new(PathMtuSearch::default());
        path.run(100, 1500, BUSY);
        path.sent.clear();
        path.probing.revalidate();
        path.run(25, 0, BUSY);
        assert!(path.sent.len() <= 3 && path.sent.iter().all(|&(_, size)| size == MTUS[0]));
        assert!(!path.probing.is_unanswered());
        path.run(10, 0, BUSY);
        assert!(path.probing.is_unanswered());
        assert!(path.until(1400, 1400, BUSY) <= 12);
    }

    #[test]
    fn answers_to_what_was_not_asked_change_nothing() {
        let mut probing = PathMtuSearch::default();
        for size in [60_000, 3] {
            probing.handle_answer(size);
            assert_eq!(probing.mtu(), MTUS[0]);
        }
    }
}
