//! A short run of the campaign over a lossy relay.

use fuzz::fleet::{self, CLIENTS};

#[test]
fn handshakes_complete_over_a_lossy_relay() {
    let report = fleet::run(1, 12 * CLIENTS);
    let loss = report.lost as f64 / report.datagrams as f64;
    assert!((0.17..0.23).contains(&loss), "the relay loses {loss}");
    assert_eq!((report.hung, report.wrong), (0, 0), "{report:?}");
    assert_eq!(report.complete + report.failed, report.handshakes);
    assert!(report.complete * 1000 >= report.handshakes * 990, "{report:?}");
}

#[test]
fn one_seed_repeats_to_the_byte_and_another_does_not() {
    assert_eq!(fleet::batch(7, CLIENTS), fleet::batch(7, CLIENTS));
    assert_ne!(fleet::batch(7, CLIENTS).digests, fleet::batch(8, CLIENTS).digests);
}
