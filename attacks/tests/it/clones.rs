//! Copies of devices never seal under one key and nonce.

use attacks::clones::{Copied, run};

#[test]
fn no_nonce_is_used_twice_under_one_key_by_copies_of_a_device() {
    for copied in [Copied::Token, Copied::State] {
        for clones in [2, 3] {
            for seed in 1..4 {
                let report = run(copied, clones, seed * 100, 600);
                assert_eq!(report.repeated, 0, "{copied:?}, {clones}, seed {seed}: {report:?}");
                assert!(report.requests >= 600 && report.refused > 3, "seed {seed}: {report:?}");
                assert!(report.delivered > report.requests / 4, "seed {seed}: {report:?}");
            }
        }
    }
}
