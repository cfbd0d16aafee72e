//! A short run of the campaigns over a lossy relay and with selected datagrams lost.

use attacks::drops;
use attacks::fleet::{self, CLIENTS};
use lightseal_dtls::ProtocolVersion;

#[test]
fn handshakes_complete_over_a_lossy_relay() {
    for version in [ProtocolVersion::Dtls13, ProtocolVersion::Dtls12] {
        let report = fleet::run(1, 12 * CLIENTS, version);
        let loss = report.lost as f64 / report.datagrams as f64;
        assert!((0.17..0.23).contains(&loss), "the relay loses {loss}");
        assert_eq!((report.hung, report.wrong), (0, 0), "{report:?}");
        assert_eq!(report.complete + report.failed, report.handshakes);
        assert!(report.complete * 1000 >= report.handshakes * 990, "{report:?}");
    }
}

#[test]
fn one_seed_repeats_to_the_byte_and_another_does_not() {
    for version in [ProtocolVersion::Dtls13, ProtocolVersion::Dtls12] {
        let batch = |seed| fleet::batch(seed, CLIENTS, version);
        assert_eq!(batch(7), batch(7));
        assert_ne!(batch(7).digests, batch(8).digests);
    }
}

#[test]
fn any_two_datagrams_may_be_lost_and_a_burst_of_any_gets_one_answer() {
    let report = drops::run(1, 7);
    assert_eq!(report.failures, [""; 0]);
    assert_eq!(report.connected, report.pairs);
    assert!(report.pairs > 100 && report.most_answers <= 1, "{report:?}");
}
