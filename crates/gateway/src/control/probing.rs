//! How long a datagram may be on its way to a peer (RFC 8899, in little).
//!
//! Routers need not tell, so probes of the sizes that networks have are sent, encrypted like
//! anything else, and the longest that is answered counts.

use core::time::Duration;
use vocabulary::Instant;

/// MTUs that networks have; the first needs no probe (RFC 8200, section 5). Those from 1572 to 1596
/// are what a LAN of 1500 takes under `sealed`, with and without a VLAN tag, over IPv4 and IPv6.
const MTUS: [usize; 17] = [
    1280, 1320, 1350, 1380, 1400, 1420, 1450, 1472, 1492, 1500, 1572, 1576, 1592, 1596, 1600, 9000,
    9216,
];
/// Probes of one size before it counts as too long (RFC 8899, MAX_PROBES).
const TRIES: u8 = 3;
/// Between two tries: longer than any round trip that we should wait for.
const SPACING: Duration = Duration::from_secs(1);
/// A path is searched anew so often (RFC 8899, PMTU_RAISE_TIMER).
const AGAIN: Duration = Duration::from_secs(600);
/// The size in use is confirmed so often, so that a path that got narrower is noticed.
const CONFIRM: Duration = Duration::from_secs(10);

/// The search along one path.
#[derive(Debug)]
pub(super) struct Probing {
    mtu: usize,
    /// Rounds of probes that are left.
    tries: u8,
    next: Option<Instant>,
    search_at: Option<Instant>,
    /// Confirmations that were not answered.
    missed: u8,
}

impl Default for Probing {
    fn default() -> Self {
        Self { mtu: MTUS[0], tries: TRIES, next: None, search_at: None, missed: 0 }
    }
}

impl Probing {
    /// Calls `send` with the MTU of each probe that is due, and says which one is known to be
    /// right.
    pub(super) fn handle_timeout(&mut self, now: Instant, mut send: impl FnMut(usize)) -> usize {
        if self.next.is_some_and(|at| now < at) {
            return self.mtu;
        }
        if self.search_at.is_some_and(|at| now >= at) {
            self.search_at = None;
            self.tries = TRIES;
        }
        if self.tries > 0 {
            self.tries -= 1;
            self.next = Some(now + SPACING);
            if self.tries == 0 {
                self.search_at = Some(now + AGAIN);
            }
            MTUS.iter().filter(|&&mtu| mtu > self.mtu).for_each(|&mtu| send(mtu));
            return self.mtu;
        }
        if self.mtu > MTUS[0] {
            if self.missed >= TRIES {
                *self = Self::default();
                return self.handle_timeout(now, send);
            }
            self.missed += 1;
            send(self.mtu);
        }
        self.next = Some(now + if self.missed > 1 { SPACING } else { CONFIRM });
        self.mtu
    }

    /// A probe of `mtu` arrived at the peer.
    pub(super) fn handle_answer(&mut self, mtu: usize) -> usize {
        if MTUS.contains(&mtu) && mtu >= self.mtu {
            self.mtu = mtu;
            self.missed = 0;
        }
        self.mtu
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a path for `seconds` that carries `mtu` bytes; returns what was found in the end.
    fn run(probing: &mut Probing, from: u64, seconds: u64, mtu: usize) -> usize {
        for tick in 0..seconds * 10 {
            let now = Instant::from_micros(from * 1_000_000 + tick * 100_000);
            let mut sent = Vec::new();
            probing.handle_timeout(now, |size| sent.push(size));
            for size in sent.into_iter().filter(|&size| size <= mtu) {
                probing.handle_answer(size);
            }
        }
        probing.mtu
    }

    #[test]
    fn the_longest_that_arrives_is_found_and_a_narrower_path_noticed() {
        for &size in &MTUS {
            let mut probing = Probing::default();
            assert_eq!(run(&mut probing, 0, 5, size), size);
            assert_eq!(run(&mut probing, 5, 5, size + 1), size);
        }
        let mut probing = Probing::default();
        assert_eq!(run(&mut probing, 0, 20, 1500), 1500);
        assert_eq!(run(&mut probing, 20, 60, 1400), 1400);
        assert_eq!(run(&mut probing, 80, 700, 9100), 9000, "and a wider one in time");
    }

    #[test]
    fn answers_to_what_was_not_asked_change_nothing() {
        let mut probing = Probing::default();
        assert_eq!(probing.handle_answer(60_000), MTUS[0]);
        assert_eq!(probing.handle_answer(3), MTUS[0]);
    }
}
