//! Groups whose members join, leave, crash and miss datagrams.

use attacks::histories;

#[test]
fn nobody_opens_what_is_not_for_it_and_no_number_comes_twice() {
    let report = histories::run(1, 70);
    assert!(report.violations.is_empty(), "by seed: {:#?}", report.violations);
    assert_eq!(report.histories, 70);
    assert!(
        report.delivered > 2000 && report.gone > 60 && report.restarts > 60 && report.naps > 60,
        "{report:?}"
    );
}
