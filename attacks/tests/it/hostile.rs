//! Short runs of the campaigns with malicious input, and checks that they would notice failures.

use attacks::setup::Setup;
use attacks::{cuts, junk, strangers};
use lightseal_dtls::tuning::{RECEIVE_BUFFER_BYTES, SEND_BUFFER_BYTES};

#[test]
fn altered_messages_neither_panic_nor_deliver() {
    let report = cuts::run(2, 11);
    assert!(report.cases > 10_000 && report.messages > 500, "{report:?}");
    assert_eq!((report.panics, report.deliveries), (0, 0), "{report:#?}");
    assert!(report.most_held <= RECEIVE_BUFFER_BYTES + SEND_BUFFER_BYTES, "{report:?}");
    assert_eq!(report.most_open, 1);
}

#[test]
fn the_impostor_holds_the_right_keys_and_every_message_type_is_met() {
    for setup in Setup::all() {
        cuts::check_impostor(&setup, 3);
    }
}

#[test]
fn junk_neither_panics_nor_delivers_nor_kills() {
    // Without a PSK no binder shows that a hello with a good cookie was altered. It takes the place
    // of the unfinished handshake that it copies, and until the end of that one is reported, the
    // server has both.
    for (setups, datagrams, open) in [(Setup::all(), 100_000, 1), (Setup::certified(), 50_000, 2)] {
        let report = junk::run(setups, 4, datagrams);
        assert_eq!((report.panics, report.deliveries, report.killed), (0, 0, 0), "{report:#?}");
        assert!(report.most_held <= RECEIVE_BUFFER_BYTES + SEND_BUFFER_BYTES, "{report:?}");
        assert!(report.most_open <= open, "{report:?}");
    }
}

#[test]
fn attackers_without_a_key_end_no_association_and_stop_no_handshake() {
    let replays = strangers::replays(7, 12);
    assert_eq!((replays.associations, replays.ended), (12, 0), "{replays:?}");
    // Recorded hellos begin handshakes, one at a time.
    assert!(replays.played > 400 && replays.most_begun == 1, "{replays:?}");
    let acks = strangers::acks(7, 24);
    assert_eq!((acks.handshakes, acks.failed), (24, 0), "{acks:?}");
    for row in strangers::amplification(7) {
        assert!(row.sent > 0 && row.factor() <= 3.0, "{row:?}");
    }
}
