//! Scenarios of Agg(n): a sealer and an opener over a network that loses, repeats and forges
//! records.

use crate::world;

use lightseal_aggregation::{
    ClosingTag, DropReason, Offer, Opener, Outcome, RecordKind, Refusal, RulerOrder, Scheme,
    SealError, Sealer, tuning,
};
use world::{Receiver, Record, Sender, verified};

fn forged(record: &Record, change: u8) -> Record {
    let mut forged = record.clone();
    forged.body[0] ^= change;
    forged
}

#[test]
fn nothing_lost_everything_verified() {
    for n in 2..=16 {
        let (mut sender, mut receiver) = (Sender::agg(n), <Receiver>::agg(n));
        let mut delivered = Vec::new();
        for _ in 0..5 * u64::from(n) {
            let record = sender.data();
            assert_eq!(receiver.offer(&record), Ok(Offer::Held));
            let decided = receiver.decided();
            let set = if record.tag.is_empty() { 0 } else { usize::from(n) };
            assert_eq!(decided.len(), set, "verified with its set and not before");
            delivered.extend(verified(&decided));
        }
        assert!(delivered.into_iter().eq(0..5 * u64::from(n)));
        let counters = receiver.opener.counters();
        assert_eq!((counters.sets_verified, counters.sets_failed), (5, 0));
        assert_eq!(counters.evaluations, 5 * u64::from(n));
        assert_eq!(receiver.opener.expected(), 5 * u64::from(n));
    }
}

#[test]
fn one_loss_costs_its_set_alone() {
    for n in [2, 3, 8, 16] {
        for lost in u64::from(n)..2 * u64::from(n) {
            let (mut sender, mut receiver) = (Sender::agg(n), <Receiver>::agg(n));
            let (mut delivered, mut expired) = (Vec::new(), 0);
            for _ in 0..12 * u64::from(n) {
                let record = sender.data();
                if record.number != lost {
                    for (number, _, outcome) in receiver.take(&record) {
                        match outcome {
                            Outcome::Verified => delivered.push(number),
                            outcome => {
                                assert_eq!(outcome, Outcome::Dropped(DropReason::Expired));
                                expired += 1;
                            }
                        }
                    }
                }
            }
            receiver.opener.expire_below(u64::MAX);
            expired += receiver.decided().len();
            let set = u64::from(n)..2 * u64::from(n);
            assert!(delivered.into_iter().eq((0..12 * u64::from(n)).filter(|m| !set.contains(m))));
            assert_eq!(expired, usize::from(n) - 1);
            assert_eq!(receiver.opener.counters().sets_failed, 1);
            assert_eq!(receiver.held(), 0);
        }
    }
}

#[test]
fn lateness_is_bounded_on_both_sides() {
    for n in [2u8, 5, 16] {
        for extra in [0, 1] {
            let (mut sender, mut receiver) = (Sender::agg(n), <Receiver>::agg(n));
            let late = sender.data();
            let set_end = u64::from(n) - 1;
            for _ in 0..set_end {
                assert!(receiver.take(&sender.data()).is_empty());
            }
            // Control records authenticate numbers up to the last one at which set 0 is not yet
            // late.
            while sender.next <= set_end + tuning::LATENESS + extra {
                let _set = receiver.take(&sender.control());
            }
            let decided = receiver.take(&late);
            if extra == 0 {
                assert!(verified(&decided).eq(0..=set_end), "in time");
            } else {
                assert!(decided.is_empty(), "too late");
                assert_eq!(receiver.offer(&late), Err(Refusal::Used));
                assert_eq!(receiver.opener.counters().sets_failed, 1);
            }
        }
    }
}

#[test]
fn any_order_within_a_set() {
    let mut sender = Sender::agg(4);
    let records: Vec<Record> = (0..8).map(|_| sender.data()).collect();
    for order in [[7, 6, 5, 4, 3, 2, 1, 0], [3, 0, 7, 1, 4, 2, 6, 5], [4, 5, 6, 7, 0, 1, 2, 3]] {
        let mut receiver = <Receiver>::agg(4);
        let mut delivered: Vec<u64> =
            order.iter().flat_map(|&i| receiver.take(&records[i])).map(|d| d.0).collect();
        delivered.sort_unstable();
        assert!(delivered.into_iter().eq(0..8), "{order:?}");
    }
}

#[test]
fn duplicates_and_replays_count_once() {
    let (mut sender, mut receiver) = (Sender::agg(4), <Receiver>::agg(4));
    let records: Vec<Record> = (0..4).map(|_| sender.data()).collect();
    for record in &records[..3] {
        assert_eq!(receiver.offer(record), Ok(Offer::Held));
        assert_eq!(receiver.offer(record), Ok(Offer::Duplicate));
    }
    assert_eq!(receiver.take(&records[3]).len(), 4);
    for record in &records {
        assert_eq!(receiver.offer(record), Err(Refusal::Used));
    }
    assert!(receiver.decided().is_empty());
    let control = sender.control();
    assert_eq!(receiver.offer(&control), Ok(Offer::Held));
    assert_eq!(receiver.offer(&control), Err(Refusal::Used));
    assert_eq!(receiver.controls, [4]);
}

#[test]
fn control_records_take_part() {
    let (mut sender, mut receiver) = (Sender::agg(4), <Receiver>::agg(4));
    let set = [sender.data(), sender.control(), sender.data(), sender.control()];
    for record in &set[..3] {
        assert!(receiver.take(record).is_empty());
    }
    assert!(verified(&receiver.take(&set[3])).eq([0, 2]));
    assert_eq!(receiver.controls, [1, 3]);
    // A set of control records alone needs no aggregate.
    for _ in 0..4 {
        assert!(receiver.take(&sender.control()).is_empty());
    }
    assert_eq!(receiver.opener.counters().sets_verified, 2);
}

#[test]
#[cfg_attr(not(feature = "rivals"), ignore = "needs the feature `rivals`")]
fn junk_first_displaces_nothing() {
    let mut sender = Sender::agg(8);
    let records: Vec<Record> = (0..8).map(|_| sender.data()).collect();
    // There are three forged rivals for each of five numbers, before the genuine ones: one with the
    // tag of the genuine record and another body, one with another tag and the genuine body.
    let mut receiver = <Receiver>::agg(8);
    for target in [0, 2, 3, 6, 7] {
        for change in 1..=3 {
            let mut junk = forged(&records[target], change);
            if target == 7 && change == 3 {
                junk = records[7].clone();
                junk.tag[5] ^= 1;
            }
            assert_eq!(receiver.offer(&junk), Ok(Offer::Held));
        }
    }
    assert!(receiver.decided().is_empty());
    for record in &records[..7] {
        assert!(receiver.take(record).is_empty());
    }
    let decided = receiver.take(&records[7]);
    assert!(verified(&decided).eq(0..8));
    for (number, body, outcome) in &decided {
        let genuine = *body == records[*number as usize].body;
        match outcome {
            Outcome::Verified => assert!(genuine),
            // The rival that differs in the tag alone has the genuine body.
            outcome => {
                assert!(!genuine || *number == 7);
                assert_eq!(*outcome, Outcome::Dropped(DropReason::Rival));
            }
        }
    }
    assert_eq!(decided.len(), 8 + 15);
    assert_eq!(receiver.held(), 0);
}

const CROWDED: Result<Offer, Refusal> = Ok(Offer::Refused(Refusal::TooManyCandidates));

/// A receiver that holds four rivals of a record, the last two of which have lesser ranks than the
/// record.
fn crowded_out(n: u8, record: &Record) -> Receiver {
    let outranked = (0..50).map(|first| {
        let mut receiver = <Receiver>::agg(n);
        for change in 1..=4 {
            assert_eq!(receiver.offer(&forged(record, 4 * first + change)), Ok(Offer::Held));
        }
        (receiver.offer(record) == CROWDED).then_some(receiver)
    });
    outranked
        .flatten()
        .next()
        .expect("in one of 50 attempts the record has the greatest of three ranks")
}

#[test]
#[cfg_attr(not(feature = "rivals"), ignore = "needs the feature `rivals`")]
fn the_fourth_rival_keeps_the_true_record_out_until_it_can_be_tried() {
    let mut sender = Sender::agg(4);
    let records: Vec<Record> = (0..4).map(|_| sender.data()).collect();
    // Before the set is complete, four rivals are held and a fifth is refused.
    let mut receiver = crowded_out(4, &records[0]);
    assert_eq!(receiver.offer(&records[0]), CROWDED, "a record always has the same rank");
    for record in &records[1..] {
        assert_eq!(receiver.offer(record), Ok(Offer::Held));
    }
    // Now the set is complete. Each further candidate is tried at once, and the genuine one passes.
    assert!(receiver.take(&forged(&records[0], 255)).iter().all(|d| d.2 != Outcome::Verified));
    assert_eq!(receiver.offer(&records[0]), Ok(Offer::Held));
    let decided = receiver.decided();
    assert!(verified(&decided).eq(0..4));
    assert_eq!(receiver.held(), 0);
}

#[test]
#[cfg_attr(not(feature = "rivals"), ignore = "needs the feature `rivals`")]
fn evaluations_of_one_number_end() {
    let mut sender = Sender::agg(2);
    let records = [sender.data(), sender.data()];
    for tried in [tuning::EVALUATED_PER_NUMBER - 1, tuning::EVALUATED_PER_NUMBER] {
        let mut receiver = <Receiver>::agg(2);
        assert_eq!(receiver.offer(&records[1]), Ok(Offer::Held));
        for change in 1..=tried {
            assert!(verified(&receiver.take(&forged(&records[0], change))).eq([0; 0]));
        }
        if tried < tuning::EVALUATED_PER_NUMBER {
            assert!(verified(&receiver.take(&records[0])).eq([0, 1]));
        } else {
            let refused = Ok(Offer::Refused(Refusal::TooManyEvaluations));
            assert_eq!(receiver.offer(&records[0]), refused);
        }
        // One check of the set for each rival, over two open records each.
        let counters = receiver.opener.counters();
        let checks = u64::from(tuning::EVALUATED_PER_NUMBER);
        assert_eq!(counters.evaluations, 2 * checks);
    }
}

#[test]
fn a_closing_tag_ends_a_silence_and_the_set_goes_on() {
    let (mut sender, mut receiver) = (Sender::agg(8), <Receiver>::agg(8));
    assert!(sender.close().is_none(), "nothing is open");
    for _ in 0..3 {
        assert!(receiver.take(&sender.data()).is_empty());
    }
    assert_eq!(sender.sealer.open_since(), Some(0));
    let closing = sender.close().expect("three are open");
    assert_eq!(closing.closing.map(|c| (c.first, c.count)), Some((0, 3)));
    assert!(!sender.sealer.is_open());
    assert!(verified(&receiver.take(&closing)).eq(0..3));
    assert!(sender.close().is_none(), "the records are covered already");
    // Records 4 and 5 follow. A second closing tag covers them; it arrives before they do.
    let (four, five) = (sender.data(), sender.data());
    let second = sender.close().expect("two are open");
    assert_eq!(second.closing.map(|c| (c.first, c.count)), Some((4, 2)));
    assert!(receiver.take(&second).is_empty(), "the closing tag waits for the records it covers");
    assert!(receiver.take(&five).is_empty());
    assert!(verified(&receiver.take(&four)).eq([4, 5]));
    // Record 7 ends the set. The shares of the verified records are still known.
    let seven = sender.data();
    assert_eq!(seven.tag.len(), 16);
    assert!(verified(&receiver.take(&seven)).eq([7]));
    let counters = receiver.opener.counters();
    assert_eq!((counters.sets_verified, counters.records_verified), (1, 6));
    assert_eq!(
        receiver.opener.closing(&receiver.mac, closing.closing.unwrap()),
        Err(Refusal::Used)
    );
}

#[test]
#[cfg_attr(not(feature = "rivals"), ignore = "needs the feature `rivals`")]
fn a_batch_ascends_whatever_completed_it() {
    let (mut sender, mut receiver) = (Sender::agg(8), <Receiver>::agg(8));
    let zero = sender.data();
    let mut one = sender.close().expect("0 is open");
    one.closing = None;
    let (two, three) = (sender.data(), sender.data());
    let four = sender.close().expect("2 and 3 are open");
    let rest = [sender.data(), sender.data(), sender.data()];
    for record in [&zero, &one, &forged(&two, 1), &two, &four].into_iter().chain(&rest) {
        assert!(receiver.take(record).is_empty());
    }
    // The closing tag verifies 2 and 3 first, the aggregate then 0 and the rest.
    let decided = receiver.take(&three);
    assert!(verified(&decided).eq([0, 2, 3, 5, 6, 7]));
    assert_eq!(decided.last().map(|d| d.0), Some(2), "forged ones come last");
}

#[test]
fn a_closing_range_steps_over_control_records() {
    let (mut sender, mut receiver) = (Sender::agg(8), <Receiver>::agg(8));
    let records =
        [sender.control(), sender.data(), sender.control(), sender.data(), sender.control()];
    let closing = sender.close().expect("data is open");
    assert_eq!(closing.closing.map(|c| (c.first, c.count)), Some((1, 3)));
    for record in &records {
        assert!(receiver.take(record).is_empty());
    }
    assert!(verified(&receiver.take(&closing)).eq([1, 3]));
}

#[test]
#[cfg_attr(not(feature = "rivals"), ignore = "needs the feature `rivals`")]
fn a_closing_tag_sees_through_junk() {
    let (mut sender, mut receiver) = (Sender::agg(8), <Receiver>::agg(8));
    let records = [sender.data(), sender.data(), sender.data()];
    let closing = sender.close().expect("three are open");
    for record in &records {
        for change in 1..=2 {
            assert_eq!(receiver.offer(&forged(record, change)), Ok(Offer::Held));
        }
        assert_eq!(receiver.offer(record), Ok(Offer::Held));
    }
    let decided = receiver.take(&closing);
    assert!(verified(&decided).eq(0..3));
    assert!(decided.iter().all(|(number, body, outcome)| {
        (*outcome == Outcome::Verified) == (*body == records[*number as usize].body)
    }));
    assert_eq!(decided.len(), 9);
}

#[test]
#[cfg_attr(not(feature = "rivals"), ignore = "needs the feature `rivals`")]
fn a_closing_tag_lets_a_fifth_candidate_be_tried() {
    let mut sender = Sender::agg(8);
    let records = [sender.data(), sender.data()];
    let closing = sender.close().expect("two are open");
    let mut receiver = crowded_out(8, &records[0]);
    assert!(receiver.take(&closing).is_empty());
    assert_eq!(receiver.offer(&records[0]), CROWDED, "record 1 is missing");
    assert_eq!(receiver.offer(&records[1]), Ok(Offer::Held));
    assert!(verified(&receiver.take(&records[0])).eq([0, 1]));
    assert_eq!(receiver.held(), 0);
}

#[test]
fn a_lost_record_leaves_its_closing_tag_open_and_the_rest_of_the_set_lost() {
    let (mut sender, mut receiver) = (Sender::agg(4), <Receiver>::agg(4));
    let (zero, _lost) = (sender.data(), sender.data());
    assert!(receiver.take(&zero).is_empty());
    assert!(receiver.take(&sender.close().expect("a data record is open")).is_empty());
    assert!(receiver.take(&sender.data()).is_empty());
    receiver.opener.expire_below(4);
    let expired: Vec<_> = receiver.decided().into_iter().map(|d| (d.0, d.2)).collect();
    let outcome = Outcome::Dropped(DropReason::Expired);
    assert_eq!(expired, [(0, outcome), (3, outcome)]);
    assert_eq!(receiver.offer(&zero), Err(Refusal::Used));
}

#[test]
fn closing_ranges_no_sender_makes() {
    let mut receiver = <Receiver>::agg(4);
    let mut close = |first, count| {
        receiver.opener.closing(&receiver.mac, ClosingTag { first, count, tag: [0; 16] })
    };
    assert_eq!(close(0, 3), Ok(()));
    assert_eq!(close(0, 4), Err(Refusal::Range), "the last record of a set carries the aggregate");
    assert_eq!(close(1, 2), Ok(()));
    assert_eq!(close(1, 3), Err(Refusal::Range));
    assert_eq!(close(0, 0), Err(Refusal::Range));
    assert_eq!(close(0, 255), Err(Refusal::Range));
    assert_eq!(close(u64::MAX, 1), Err(Refusal::Range));
    assert_eq!(close(124, 3), Ok(()));
    assert_eq!(close(128, 3), Err(Refusal::Ahead));
}

#[test]
fn tags_have_their_length() {
    let (mut sender, mut receiver) = (Sender::agg(2), <Receiver>::agg(2));
    let (mut first, mut second) = (sender.data(), sender.data());
    first.tag.push(0);
    second.tag.pop();
    let refused = Ok(Offer::Refused(Refusal::TagLength));
    assert_eq!(receiver.offer(&first), refused);
    assert_eq!(receiver.offer(&second), refused);
    second.tag.clear();
    assert_eq!(receiver.offer(&second), refused);
    second.kind = RecordKind::Control;
    assert_eq!(receiver.offer(&second), Err(Refusal::TagLength));
    assert_eq!(receiver.opener.counters().records_refused, 3);
}

#[test]
fn a_sealer_keeps_order_and_length() {
    let mut sender = Sender::agg(2);
    let state = sender.mac.state(1, b"");
    let mut seal = |number, tag: &mut [u8]| {
        sender.sealer.seal(&sender.mac, number, RecordKind::Data, state.clone(), tag)
    };
    assert_eq!(seal(1, &mut []), Err(SealError::OutOfOrder { expected: 0 }));
    assert_eq!(seal(0, &mut [0; 16]), Err(SealError::TagLength));
    assert_eq!(seal(0, &mut []), Ok(()));
    assert_eq!(seal(1, &mut []), Err(SealError::TagLength));
    assert_eq!(seal(1, &mut [0; 16]), Ok(()));
}

#[test]
fn plain_shares_nothing() {
    assert!(Sealer::new(Scheme::Plain, &RulerOrder::List).is_none());
    assert!(<Opener>::new(Scheme::Plain, &RulerOrder::List).is_none());
}

#[test]
fn a_forger_far_ahead_pushes_nothing_out() {
    let (mut sender, mut receiver) = (Sender::agg(4), <Receiver>::agg(4));
    let records: Vec<Record> = (0..4).map(|_| sender.data()).collect();
    assert!(receiver.take(&records[0]).is_empty());
    let mut junk = records[1].clone();
    for number in 1000..1000 + u64::from(tuning::QUIET_ARRIVALS) - 5 {
        junk.number = number;
        assert_eq!(receiver.offer(&junk), Err(Refusal::Ahead));
    }
    for record in &records[1..3] {
        assert!(receiver.take(record).is_empty());
    }
    assert!(verified(&receiver.take(&records[3])).eq(0..4));
}

#[test]
fn a_quiet_receiver_follows_arrivals_there_and_back() {
    let (mut sender, mut receiver) = (Sender::agg(4), <Receiver>::agg(4));
    for _ in 0..6 {
        let _set = receiver.take(&sender.data());
    }
    // A forger moves the window far ahead during a silence …
    let mut junk = Sender::agg(4).data();
    for number in 5000..5000 + u64::from(tuning::QUIET_ARRIVALS) {
        (junk.number, junk.tag) = (number, vec![0; sender.scheme.aggregate_len(number)]);
        let _junk = receiver.take(&junk);
    }
    assert!(receiver.opener.expected() > 5000);
    // … but verified numbers stay used, and unverified ones may still be used.
    let mut replay = junk.clone();
    replay.number = 3;
    assert_eq!(receiver.offer(&replay), Err(Refusal::Used));
    // Genuine arrivals move the window back, and undecided records are given up.
    let mut delivered = Vec::new();
    for _ in 0..26 {
        delivered.extend(verified(&receiver.take(&sender.data())));
    }
    assert!(delivered.into_iter().eq(8..32), "set 1 was given up, all that follow are verified");
    assert_eq!(receiver.opener.expected(), 32);
}

#[test]
fn an_outage_longer_than_the_window_is_survived() {
    for n in [2u8, 7, 16] {
        let (mut sender, mut receiver) = (Sender::agg(n), <Receiver>::agg(n));
        for _ in 0..u64::from(n) {
            let _set = receiver.take(&sender.data());
        }
        for _ in 0..10_000 {
            let _lost = sender.data();
        }
        let mut delivered = Vec::new();
        for _ in 0..100 + 2 * u64::from(n) {
            delivered.extend(verified(&receiver.take(&sender.data())));
        }
        assert!(delivered.len() >= 36 && delivered.is_sorted());
    }
}

#[test]
fn an_authenticated_record_moves_the_window_at_once() {
    let (mut sender, mut receiver) = (Sender::agg(4), <Receiver>::agg(4));
    assert!(receiver.take(&sender.data()).is_empty());
    for _ in 0..10_003 {
        let _lost = sender.data();
    }
    let decided = receiver.take(&sender.control());
    assert_eq!(decided.len(), 1, "record 0 expired");
    let rest: Vec<Record> = (0..3).map(|_| sender.data()).collect();
    let delivered: Vec<u64> = rest.iter().flat_map(|r| receiver.take(r)).map(|d| d.0).collect();
    assert_eq!(delivered, [10_005, 10_006, 10_007]);
}

#[test]
#[cfg_attr(not(feature = "rivals"), ignore = "needs the feature `rivals`")]
fn memory_runs_out_from_the_top() {
    let (mut sender, mut receiver) = (Sender::agg(4), Receiver::<6>::agg(4));
    let records: Vec<Record> = (0..8).map(|_| sender.data()).collect();
    // Sets 0 and 1 without their last record: six candidates.
    for record in records.iter().filter(|r| r.number % 4 != 3) {
        assert_eq!(receiver.offer(record), Ok(Offer::Held));
    }
    let mut higher = records[0].clone();
    higher.number = 9;
    for refused in [higher, forged(&records[6], 1)] {
        assert_eq!(receiver.offer(&refused), Ok(Offer::Refused(Refusal::Memory)));
    }
    let decided = receiver.take(&records[3]);
    assert!(verified(&decided).eq(0..4));
    let evicted = (6, Outcome::Dropped(DropReason::Evicted));
    assert_eq!(decided.last().map(|d| (d.0, d.2)), Some(evicted));
    // There is room again, and the evicted number may be used.
    let _set = receiver.take(&records[6]);
    assert!(verified(&receiver.take(&records[7])).eq(4..8));
}

#[test]
#[cfg_attr(not(feature = "rivals"), ignore = "needs the feature `rivals`")]
fn an_evicted_rival_leaves_the_other_in_place() {
    let (mut sender, mut receiver) = (Sender::agg(4), Receiver::<3>::agg(4));
    let control = sender.control();
    let records: Vec<Record> = (1..8).map(|_| sender.data()).collect();
    let mut zero = records[0].clone();
    zero.number = 0;
    let (six, rival) = (&records[5], forged(&records[5], 1));
    // The control record drops the forged record 0, and the second candidate of number 6 takes its
    // place.
    assert_eq!(receiver.offer(&zero), Ok(Offer::Held));
    assert_eq!(receiver.offer(&rival), Ok(Offer::Held));
    assert_eq!(receiver.take(&control).len(), 1);
    assert_eq!(receiver.offer(six), Ok(Offer::Held));
    let evicted = receiver.take(&records[0]);
    assert_eq!(evicted.len(), 1);
    assert_eq!(evicted[0].1, rival.body);
    assert_eq!(receiver.offer(six), Ok(Offer::Duplicate), "still held");
    receiver.opener.expire_below(u64::MAX);
    assert_eq!(receiver.decided().len(), 2);
    assert_eq!(receiver.held(), 0);
}

#[test]
fn the_epoch_ends_at_the_last_number() {
    let mut receiver = <Receiver>::agg(16);
    let state = receiver.mac.state(tuning::MAX_NUMBER, b"");
    let mac = &receiver.mac;
    let mut offer = |number| receiver.opener.offer_verified(mac, number, state.clone(), &[0; 16]);
    assert_eq!(offer(tuning::MAX_NUMBER + 16), Err(Refusal::Ahead));
    assert_eq!(offer(tuning::MAX_NUMBER), Ok(()));
    assert_eq!(offer(u64::MAX), Err(Refusal::Ahead));
    receiver.opener.expire_below(u64::MAX);
    assert_eq!(receiver.opener.admit(tuning::MAX_NUMBER - 1), Err(Refusal::Used));
}
