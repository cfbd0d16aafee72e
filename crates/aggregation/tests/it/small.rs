//! Openers with the memory of a small device.

use crate::world::{Receiver, Sender, verified};
use lightseal_aggregation::tuning::{LEAST_BOARD, LEAST_WINDOW};
use lightseal_aggregation::{Overprovision, Scheme};

/// Room for two sets of 16.
type AggReceiver = Receiver<32, LEAST_WINDOW>;
/// Room for the records of which the board keeps track after the highest verified one.
type R2d2Receiver = Receiver<64, LEAST_WINDOW, LEAST_BOARD>;

/// Room for one set of 16.
type LeastAggReceiver = Receiver<16, LEAST_WINDOW>;

#[test]
fn every_set_size_is_verified_in_order_and_in_reverse() {
    verifies_every_set_size(AggReceiver::agg);
    verifies_every_set_size(LeastAggReceiver::agg);
}

fn verifies_every_set_size<const CANDIDATES: usize>(
    new: impl Fn(u8) -> Receiver<CANDIDATES, LEAST_WINDOW>,
) {
    for n in 2..=16 {
        let (mut sender, mut receiver) = (Sender::agg(n), new(n));
        let mut count = 0;
        for set in 0..40 {
            let mut records: Vec<_> = (0..n).map(|_| sender.data()).collect();
            if set % 2 == 1 {
                records.reverse();
            }
            count += records.iter().map(|r| verified(&receiver.take(r)).count()).sum::<usize>();
        }
        assert_eq!((count, receiver.held()), (40 * usize::from(n), 0), "n = {n}");
    }
}

#[test]
fn a_set_that_lacks_a_record_costs_no_other_set() {
    for n in 2..=16 {
        let (mut sender, mut receiver) = (Sender::agg(n), AggReceiver::agg(n));
        let mut whole = 0;
        for set in 0..40_u8 {
            for place in 0..n {
                let record = sender.data();
                if set % 4 != 1 || place != set % n {
                    whole += verified(&receiver.take(&record)).count();
                }
            }
        }
        assert_eq!(whole, 30 * usize::from(n), "n = {n}");
    }
}

#[test]
fn a_silence_ends_with_a_closing_tag_and_the_set_goes_on() {
    let (mut sender, mut receiver) = (Sender::agg(16), AggReceiver::agg(16));
    for _ in 0..20 {
        let mut count = 0;
        for at in 0..16 {
            // The closing tag travels in a record of its own.
            let record = if at == 7 { sender.close().expect("open data") } else { sender.data() };
            count += verified(&receiver.take(&record)).count();
        }
        assert_eq!((count, receiver.held()), (15, 0));
    }
}

/// Records of R2D2 are verified exactly when the largest opener verifies them, with single losses and
/// with neighbours that change places.
#[test]
fn a_small_board_verifies_what_a_large_one_does() {
    for o in Overprovision::ALL {
        let scheme = Scheme::R2d2(o);
        let mut sender = Sender::new(scheme);
        let (mut small, mut large) = (R2d2Receiver::new(scheme), <Receiver>::new(scheme));
        let mut records: Vec<_> = (0..600).map(|_| sender.data()).collect();
        for at in (5..590).step_by(17) {
            records.swap(at, at + 1);
        }
        let (mut by_small, mut by_large) = (Vec::new(), Vec::new());
        for record in records.iter().filter(|record| record.number % 45 != 20) {
            by_small.extend(verified(&small.take(record)));
            by_large.extend(verified(&large.take(record)));
        }
        by_small.sort_unstable();
        by_large.sort_unstable();
        assert_eq!(by_small, by_large, "o = {}", o.percent());
        assert!(o.percent() < 100 || by_small.len() > 500, "o = {}", o.percent());
    }
}

/// Where a number has one candidate, junk that comes first costs its own set, and no other one.
#[test]
#[cfg_attr(feature = "rivals", ignore = "needs a build without the feature `rivals`")]
fn without_rivals_junk_costs_its_own_set() {
    let (mut sender, mut receiver) = (Sender::agg(16), AggReceiver::agg(16));
    let mut whole = 0;
    for set in 0..40_usize {
        for place in 0..16 {
            let record = sender.data();
            if set % 4 == 1 && place == set % 16 {
                let mut junk = record.clone();
                junk.body[0] ^= 1;
                assert_eq!(receiver.take(&junk), []);
            }
            whole += verified(&receiver.take(&record)).count();
        }
    }
    assert_eq!(whole, 30 * 16);
}

/// Under R2D2 a genuine record takes the place of junk once checks speak against that.
#[test]
#[cfg_attr(feature = "rivals", ignore = "needs a build without the feature `rivals`")]
fn without_rivals_a_rejected_candidate_gives_way() {
    for o in Overprovision::ALL {
        let scheme = Scheme::R2d2(o);
        let (mut sender, mut receiver) = (Sender::new(scheme), R2d2Receiver::new(scheme));
        let mut seen = Vec::new();
        for number in 0..200 {
            let record = sender.data();
            if number == 100 {
                let mut junk = record.clone();
                junk.body[0] ^= 1;
                seen.extend(verified(&receiver.take(&junk)));
            }
            seen.extend(verified(&receiver.take(&record)));
        }
        assert!(seen.contains(&100) && seen.len() > 150, "o = {}", o.percent());
    }
}
