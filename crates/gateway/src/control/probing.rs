//! How long a datagram may be on its way to a peer (RFC 8899, in little).
//!
//! Routers need not tell, so probes of the sizes that networks have are sent, encrypted like
//! anything else, and the longest that is answered counts. All sizes are UDP payloads.

use core::time::Duration;
use vocabulary::Instant;

/// MTUs that networks have, less 48 bytes of IPv6 and UDP; the first needs no probe (RFC 8200,
/// section 5).
const SIZES: [usize; 12] = [
    1280 - 48,
    1320 - 48,
    1350 - 48,
    1380 - 48,
    1400 - 48,
    1420 - 48,
    1450 - 48,
    1472 - 48,
    1492 - 48,
    1500 - 48,
    1600 - 48,
    9000 - 48,
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
    payload: usize,
    /// Rounds of probes that are left.
    tries: u8,
    next: Option<Instant>,
    search_at: Option<Instant>,
    /// Confirmations that were not answered.
    missed: u8,
}

impl Default for Probing {
    fn default() -> Self {
        Self { payload: SIZES[0], tries: TRIES, next: None, search_at: None, missed: 0 }
    }
}

impl Probing {
    /// Calls `send` for each probe that is due, and says how long datagrams may be now.
    pub(super) fn handle_timeout(&mut self, now: Instant, mut send: impl FnMut(usize)) -> usize {
        if self.next.is_some_and(|at| now < at) {
            return self.payload;
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
            SIZES.iter().filter(|&&size| size > self.payload).for_each(|&size| send(size));
            return self.payload;
        }
        if self.payload > SIZES[0] {
            if self.missed >= TRIES {
                *self = Self::default();
                return self.handle_timeout(now, send);
            }
            self.missed += 1;
            send(self.payload);
        }
        self.next = Some(now + if self.missed > 1 { SPACING } else { CONFIRM });
        self.payload
    }

    /// A probe of `size` arrived at the peer.
    pub(super) fn handle_answer(&mut self, _now: Instant, size: usize) -> usize {
        if SIZES.contains(&size) && size >= self.payload {
            self.payload = size;
            self.missed = 0;
        }
        self.payload
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a path for `seconds` that carries `mtu` bytes; returns the size in the end.
    fn run(probing: &mut Probing, from: u64, seconds: u64, payload: usize) -> usize {
        for tick in 0..seconds * 10 {
            let now = Instant::from_micros(from * 1_000_000 + tick * 100_000);
            let mut sent = Vec::new();
            probing.handle_timeout(now, |size| sent.push(size));
            for size in sent.into_iter().filter(|&size| size <= payload) {
                probing.handle_answer(now, size);
            }
        }
        probing.payload
    }

    #[test]
    fn the_longest_that_arrives_is_found_and_a_narrower_path_noticed() {
        for &size in &SIZES {
            let mut probing = Probing::default();
            assert_eq!(run(&mut probing, 0, 5, size), size);
            assert_eq!(run(&mut probing, 5, 5, size + 1), size);
        }
        let mut probing = Probing::default();
        assert_eq!(run(&mut probing, 0, 20, 1452), 1452);
        assert_eq!(run(&mut probing, 20, 60, 1352), 1352);
        assert_eq!(run(&mut probing, 80, 700, 8952), 8952, "and a wider one in time");
    }

    #[test]
    fn answers_to_what_was_not_asked_change_nothing() {
        let mut probing = Probing::default();
        assert_eq!(probing.handle_answer(Instant::ZERO, 60_000), SIZES[0]);
        assert_eq!(probing.handle_answer(Instant::ZERO, 3), SIZES[0]);
    }
}
