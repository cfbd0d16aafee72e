//! Senders and receivers that go on in the place of others.

use crate::world::{Receiver, Sender, verified};
use lightseal_aggregation::tuning::{LATENESS, RESUMED_GAP};
use lightseal_aggregation::{Offer, Outcome, Scheme};

fn schemes() -> Vec<Scheme> {
    let sets = (2..=16).map(|n| format!("agg:{n}"));
    let bits = [50, 100, 150, 200].map(|o| [format!("r2d2:{o}"), format!("sliding:{o}")]);
    let names = sets.chain(bits.into_iter().flatten());
    names.map(|name| name.parse().expect("the name of a scheme")).collect()
}

/// A sender that knows of its predecessor only how far it may have come.
fn successor(of: &Sender) -> Sender {
    let mut sender = Sender::new(of.scheme);
    sender.next = (of.next + RESUMED_GAP).next_multiple_of(RESUMED_GAP);
    sender.sealer.resume_at(sender.next);
    sender
}

#[test]
fn no_tag_of_a_successor_speaks_against_a_record() {
    for scheme in schemes() {
        for sent in [0, 1, 7, 37, 255, 256, 300] {
            let (mut sender, mut receiver) = (Sender::new(scheme), <Receiver>::new(scheme));
            let mut decided = Vec::new();
            for _ in 0..sent {
                decided.extend(receiver.take(&sender.data()));
            }
            // Twice in a row, as after two crashes.
            for _ in 0..2 {
                sender = successor(&sender);
                for number in 0..90 {
                    let record = sender.control();
                    // The second one is lost.
                    if number != 1 {
                        decided.extend(receiver.take(&record));
                        assert_eq!(receiver.controls.last(), Some(&record.number), "{scheme}");
                    }
                }
            }
            let bad = |outcome| {
                !matches!(
                    outcome,
                    Outcome::Verified
                        | Outcome::Dropped(lightseal_aggregation::DropReason::Expired)
                )
            };
            assert!(decided.iter().all(|(_, _, outcome)| !bad(*outcome)), "{scheme}, {sent}");
            assert_eq!((decided.len(), receiver.held()), (sent, 0), "{scheme}, {sent}");
            // Data verifies again when the peer has no gap to bridge.
            let fresh = (0..200).map(|_| receiver.take(&sender.data()));
            let whole = fresh.map(|decided| verified(&decided).count()).sum::<usize>();
            assert!(whole >= 100, "{scheme}, {sent}: {whole}");
        }
    }
}

#[test]
fn a_receiver_that_goes_on_takes_what_it_does_not_know_for_lost() {
    for scheme in schemes() {
        for (before, missed) in [(1, 0), (5, 0), (50, 0), (50, 3), (100, 1000), (100, 30_000)] {
            let mut sender = Sender::new(scheme);
            let mut receiver = <Receiver>::new(scheme);
            for _ in 0..before {
                receiver.take(&sender.data());
            }
            let known = receiver.opener.authentic_end();
            for _ in 0..missed {
                sender.data();
            }
            let mut receiver = <Receiver>::new(scheme);
            receiver.opener.resume_at(known);
            assert_eq!(
                (receiver.opener.expected(), receiver.opener.authentic_end()),
                (known, known)
            );
            let mut decided = Vec::new();
            for _ in 0..200 {
                decided.extend(receiver.take(&sender.data()));
            }
            let (whole, first) = (verified(&decided).count(), sender.next - 200);
            assert!(whole >= 200 - 2 - 2 * 16 - 2 * LATENESS as usize, "{scheme}: {whole}");
            assert!(verified(&decided).all(|number| number >= first), "{scheme}");
            assert_eq!(receiver.opener.counters().records_refuted, 0, "{scheme}");
        }
    }
}

#[test]
fn what_is_too_late_was_used_by_the_predecessor() {
    for scheme in schemes() {
        let mut sender = Sender::new(scheme);
        let records: Vec<_> = (0..200).map(|_| sender.data()).collect();
        let mut receiver = <Receiver>::new(scheme);
        receiver.opener.resume_at(190);
        for record in &records[..90] {
            assert_ne!(receiver.offer(record), Ok(Offer::Held), "{scheme}, {}", record.number);
        }
        assert_eq!(receiver.opener.authentic_end(), 190, "{scheme}");
    }
}
