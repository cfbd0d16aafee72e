//! Aggregation schemes that change again and again over a network that loses and reorders.

use attacks::updates;
use lightseal_dtls::crypto::CipherSuiteId;

#[test]
fn thousand_updates_under_loss_and_reordering() {
    let report = updates::run(CipherSuiteId::AES_128_CTR_LIGHTMAC_SHA256, 1, 1000);
    assert!(report.updates >= 1000 && report.in_step, "{report:?}");
    assert_eq!(report.wrong, 0, "{report:?}");
    let loss = report.lost as f64 / report.datagrams as f64;
    assert!((0.19..0.21).contains(&loss) && report.key_updates > 50, "{report:?}");
    assert!(report.delivered * 20 > report.sent, "{report:?}");
}

#[test]
fn many_seeds_stay_in_step() {
    for seed in 0..20 {
        let report = updates::run(CipherSuiteId::AES_128_CCM_SHA256, seed, 20);
        assert!(report.updates >= 20 && report.in_step, "seed {seed}: {report:?}");
        assert_eq!(report.wrong, 0, "seed {seed}: {report:?}");
    }
}
