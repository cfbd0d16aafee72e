//! How long a datagram may be on its way to a peer, and whether any arrives (RFC 8899, in little).
//!
//! Routers need not tell, so probes of the sizes that networks have are sent, encrypted like
//! anything else, and the longest that is answered counts. The size in use is confirmed again and
//! again: a probe that is not answered is repeated, with all shorter ones beside it, so that a path
//! which got narrower has its new size when the old one is given up. Where none is answered the path
//! is *lost*: the least size alone is tried until an answer comes, and then the search begins anew.

use crate::tuning::LEAST_MTU;
use core::time::Duration;
use vocabulary::Instant;

/// MTUs that networks have; the first needs no probe (RFC 8200, section 5). Those from 1572 to 1596
/// are what a LAN of 1500 takes under `sealed`, with and without a VLAN tag, over IPv4 and IPv6.
const MTUS: [usize; 17] = [
    LEAST_MTU, 1320, 1350, 1380, 1400, 1420, 1450, 1472, 1492, 1500, 1572, 1576, 1592, 1596, 1600,
    9000, 9216,
];
/// Probes of one size before it counts as too long (RFC 8899, MAX_PROBES).
const TRIES: u8 = 3;
/// Between two tries: longer than any round trip that we should wait for.
const SPACING: Duration = Duration::from_secs(1);
/// A path is searched anew so often (RFC 8899, PMTU_RAISE_TIMER).
const AGAIN: Duration = Duration::from_secs(600);
/// A path that got narrower is searched anew after this time: perhaps probes were lost by chance.
const AGAIN_SOON: Duration = Duration::from_secs(60);
/// The size in use is confirmed so often, so that a path that got narrower is noticed.
const CONFIRM: Duration = Duration::from_secs(10);
/// The same while frames go there that need more than the least MTU: a narrower path loses them all.
const CONFIRM_IN_USE: Duration = Duration::from_secs(2);

/// What has happened on the path since the last probe was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    /// Something authentic came from the peer.
    pub(super) heard: bool,
    /// Frames went to the peer.
    pub(super) sent: bool,
    /// Some of them need more than the least MTU.
    pub(super) sent_long: bool,
}

/// The search along one path.
#[derive(Debug)]
pub(super) struct Probing {
    mtu: usize,
    /// Whether the MTU was told: then it is not searched for, and only whether anything arrives is
    /// asked, while frames go there.
    is_told: bool,
    /// Rounds of the search that are left.
    rounds: u8,
    sent_at: Option<Instant>,
    search_at: Option<Instant>,
    /// The size in use was probed, and no answer has come.
    awaits: bool,
    /// Probes of the size in use, in a row, that were not answered.
    missed: u8,
    /// The longest of the shorter ones that was answered meanwhile.
    shorter: Option<usize>,
    /// Only the least size is tried.
    lost: bool,
    /// The path was lost, and nothing was answered since.
    unanswered: bool,
}

impl Default for Probing {
    fn default() -> Self {
        Self {
            mtu: MTUS[0],
            is_told: false,
            rounds: TRIES,
            sent_at: None,
            search_at: None,
            awaits: false,
            missed: 0,
            shorter: None,
            lost: false,
            unanswered: false,
        }
    }
}

impl Probing {
    /// A path whose MTU is known.
    pub(super) fn told(mtu: usize) -> Self {
        Self { mtu, is_told: true, rounds: 0, ..Self::default() }
    }

    /// IP packets of this many bytes arrive.
    pub(super) const fn mtu(&self) -> usize {
        self.mtu
    }

    /// Whether nothing that is sent is answered.
    pub(super) const fn is_unanswered(&self) -> bool {
        self.unanswered
    }

    /// When the last probe was sent.
    pub(super) const fn sent_at(&self) -> Option<Instant> {
        self.sent_at
    }

    /// Searches at once: the path may be another one.
    pub(super) fn restart(&mut self) {
        self.rounds = if self.is_told { 0 } else { TRIES };
        (self.sent_at, self.awaits, self.missed, self.shorter) = (None, false, 0, None);
        self.lost = false;
    }

    /// Asks at the least size first, and searches once that is answered: the peer is said to be
    /// elsewhere, and nobody shall have a search sent to an address of his choice.
    pub(super) fn revalidate(&mut self) {
        self.restart();
        self.lost = true;
        if !self.is_told {
            self.mtu = MTUS[0];
        }
    }

    /// Calls `send` with the MTU of each probe that is due; 0 is the shortest probe there is.
    pub(super) fn handle_timeout(&mut self, now: Instant, seen: Seen, send: impl FnMut(usize)) {
        if self.sent_at.is_some_and(|sent_at| now - sent_at < self.pause(seen)) {
            return;
        }
        if self.awaits {
            self.miss(now);
        }
        if self.search_at.is_some_and(|at| now >= at) && !self.lost {
            self.search_at = None;
            self.rounds = TRIES;
        }
        if self.is_told && !self.awaits && !seen.sent {
            return;
        }
        self.send(now, send);
    }

    /// How long after a probe the next one is due.
    fn pause(&self, seen: Seen) -> Duration {
        match self.lost {
            true if seen.heard || !self.unanswered => SPACING,
            true => CONFIRM,
            false if self.awaits || self.rounds > 0 => SPACING,
            false if seen.sent_long && !self.is_told && self.mtu > MTUS[0] => CONFIRM_IN_USE,
            false => CONFIRM,
        }
    }

    /// The size in use was not answered in time.
    fn miss(&mut self, now: Instant) {
        self.missed += 1;
        if self.missed < TRIES {
            return;
        }
        (self.awaits, self.missed, self.rounds) = (false, 0, 0);
        match self.shorter.take() {
            Some(shorter) if !self.lost => {
                self.mtu = shorter;
                self.search_at = Some(now + AGAIN_SOON);
            }
            _ => {
                (self.lost, self.unanswered) = (true, true);
                self.search_at = None;
                if !self.is_told {
                    self.mtu = MTUS[0];
                }
            }
        }
    }

    fn send(&mut self, now: Instant, mut send: impl FnMut(usize)) {
        self.sent_at = Some(now);
        self.awaits = true;
        if self.is_told {
            return send(0);
        }
        if self.missed > 0 {
            MTUS.iter().filter(|&&mtu| mtu < self.mtu).for_each(|&mtu| send(mtu));
        }
        send(self.mtu);
        if self.rounds > 0 && !self.lost {
            self.rounds -= 1;
            if self.rounds == 0 {
                self.search_at = Some(now + AGAIN);
            }
            MTUS.iter().filter(|&&mtu| mtu > self.mtu).for_each(|&mtu| send(mtu));
        }
    }

    /// A probe of `mtu` arrived at the peer.
    pub(super) fn handle_answer(&mut self, mtu: usize) {
        if !self.is_told && !MTUS.contains(&mtu) {
            return;
        }
        self.unanswered = false;
        if self.lost {
            self.restart();
        }
        if !self.is_told && mtu < self.mtu {
            self.shorter = self.shorter.max(Some(mtu));
            return;
        }
        if !self.is_told {
            self.mtu = mtu;
        }
        (self.awaits, self.missed, self.shorter) = (false, 0, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUSY: Seen = Seen { heard: true, sent: true, sent_long: true };
    const IDLE: Seen = Seen { heard: false, sent: false, sent_long: false };

    /// A path, in ticks of a tenth of a second.
    struct Path {
        probing: Probing,
        ticks: u64,
        /// Sizes of the probes that were sent, with their tick.
        sent: Vec<(u64, usize)>,
    }

    impl Path {
        fn new(probing: Probing) -> Self {
            Self { probing, ticks: 10, sent: Vec::new() }
        }

        /// Goes on for this many ticks; the path carries `mtu` bytes. Returns what was found in the
        /// end.
        fn run(&mut self, ticks: u64, mtu: usize, seen: Seen) -> usize {
            for _ in 0..ticks {
                let mut sent = Vec::new();
                let now = Instant::from_micros(self.ticks * 100_000);
                self.probing.handle_timeout(now, seen, |size| sent.push(size));
                for &size in sent.iter().filter(|&&size| size <= mtu && mtu > 0) {
                    self.probing.handle_answer(size);
                }
                self.sent.extend(sent.into_iter().map(|size| (self.ticks, size)));
                self.ticks += 1;
            }
            self.probing.mtu()
        }

        /// The ticks until `mtu` is known, on a path that carries `carries`.
        fn until(&mut self, mtu: usize, carries: usize, seen: Seen) -> u64 {
            (1..10_000).find(|_| self.run(1, carries, seen) == mtu).unwrap()
        }
    }

    #[test]
    fn the_longest_that_arrives_is_found_and_a_narrower_path_noticed() {
        for &size in &MTUS {
            let mut path = Path::new(Probing::default());
            assert_eq!(path.run(50, size, IDLE), size);
            assert_eq!(path.run(50, size + 1, IDLE), size);
        }
        let mut path = Path::new(Probing::default());
        assert_eq!(path.run(200, 1500, IDLE), 1500);
        assert_eq!(path.run(600, 1400, IDLE), 1400);
        assert_eq!(path.run(700, 1500, IDLE), 1500, "a wider one after a minute");
        assert_eq!(path.run(7000, 9100, IDLE), 9000, "and in any case in time");
    }

    #[test]
    fn a_narrower_path_costs_frames_five_seconds_and_an_idle_one_thirteen() {
        for (seen, worst) in [(BUSY, 51), (IDLE, 131)] {
            for offset in 0..150 {
                let mut path = Path::new(Probing::default());
                assert_eq!(path.run(100 + offset, 1500, seen), 1500);
                let took = path.until(1280, 1300, seen);
                assert!(took <= worst, "{took} ticks, {offset} after");
            }
        }
    }

    #[test]
    fn two_lost_probes_narrow_nothing() {
        let mut path = Path::new(Probing::default());
        path.run(100, 1500, BUSY);
        for _ in 0..3000 {
            let before = path.sent.len();
            let tries = path.sent.iter().filter(|&&(_, size)| size == 1500).count();
            // Of each three probes of the size in use the last arrives.
            path.run(1, if tries % 3 == 2 { 1500 } else { 1400 }, BUSY);
            assert_eq!(path.probing.mtu(), 1500, "{:?}", &path.sent[before..]);
        }
    }

    #[test]
    fn after_an_outage_a_path_is_searched_as_soon_as_anything_is_heard() {
        for outage in [40, 300, 6000] {
            let mut path = Path::new(Probing::default());
            assert_eq!(path.run(100, 1500, BUSY), 1500);
            path.run(outage, 0, IDLE);
            assert!(path.probing.is_unanswered() || outage == 40);
            let took = path.until(1500, 1500, BUSY);
            assert!(took <= 12, "{took} ticks after {outage}");
            assert!(!path.probing.is_unanswered());
        }
        // Without frames the first question that is answered has it searched.
        let mut path = Path::new(Probing::default());
        path.run(100, 1500, IDLE);
        path.run(300, 0, IDLE);
        assert!(path.until(1500, 1500, IDLE) <= 102);
    }

    #[test]
    fn a_lost_path_is_asked_with_one_short_probe_at_a_time() {
        let mut path = Path::new(Probing::default());
        path.run(100, 0, BUSY);
        assert!(path.probing.is_unanswered());
        for (seen, most) in [(BUSY, 61), (IDLE, 7)] {
            path.sent.clear();
            path.run(600, 0, seen);
            assert!(path.sent.len() <= most, "{}", path.sent.len());
            assert!(path.sent.iter().all(|&(_, size)| size == MTUS[0]));
        }
        // A channel that comes up has everything tried at once.
        path.probing.restart();
        assert_eq!(path.run(1, 1500, IDLE), 1500);
    }

    #[test]
    fn a_path_whose_mtu_was_told_is_asked_only_whether_it_answers_what_is_sent() {
        let mut path = Path::new(Probing::told(1400));
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
        let mut path = Path::new(Probing::default());
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
        let mut probing = Probing::default();
        for size in [60_000, 3] {
            probing.handle_answer(size);
            assert_eq!(probing.mtu(), MTUS[0]);
        }
    }
}
