//! The forgery of aggregated GCM tags through the whole engine. It is a program of its own because
//! it needs a feature of its own.

use attacks::dangerous::{ATTACKS, SCHEMES, setup};
use attacks::forgery;

/// The harness and the attacks that forge nothing under other suites forge records under a suite
/// that must not be aggregated.
#[test]
fn gcm_is_forged_every_time() {
    let report = forgery::run(&setup(), &SCHEMES, &ATTACKS, 3, 75);
    assert_eq!((report.attempts, report.forged), (300, 300));
}
