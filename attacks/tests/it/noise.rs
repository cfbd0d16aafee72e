//! Arbitrary bytes to members of groups and their controller.

use attacks::noise;

#[test]
fn noise_is_neither_delivered_nor_remembered() {
    let report = noise::run(3, 64_000);
    assert!(report.datagrams >= 64_000 && report.short > 1000, "{report:?}");
    assert!(report.unicast > 10_000 && report.to_controller > 10_000, "{report:?}");
    let wrong = (report.panics, report.deliveries, report.touched, report.deaf);
    assert_eq!(wrong, (0, 0, 0, 0), "{:#?}", report.failures);
}
