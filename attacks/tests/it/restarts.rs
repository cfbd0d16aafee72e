//! Processes that end at any point, and the associations that go on.

use attacks::restarts::{Totals, every_point, random};

fn assert_nothing_wrong(totals: &Totals) {
    assert!(totals.failures.is_empty(), "{:#?}", totals.failures);
    let Totals { numbers, payloads, forgeries, handshakes, silences, .. } = totals;
    assert_eq!([numbers, payloads, forgeries, handshakes, silences], [&0; 5]);
}

#[test]
fn ends_at_random_points_with_certificates_and_moves() {
    let totals = random(4000, 480);
    assert_nothing_wrong(&totals);
    assert!(totals.runs == 480 && totals.restored > 480 && totals.records > 20_000, "{totals:?}");
}

#[test]
fn an_end_at_some_points_of_every_kind() {
    let totals = every_point(1, 60);
    assert_nothing_wrong(&totals);
    assert!(totals.runs > 60 && totals.restored > 500, "{totals:?}");
}
