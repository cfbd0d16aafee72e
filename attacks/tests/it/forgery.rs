//! A short run of the attacks on aggregated tags.

use attacks::dangerous;
use attacks::forgery::{self, ATTACKS, SCHEMES};
use attacks::setup::Setup;
use lightseal_dtls::Scheme;
use lightseal_dtls::crypto::CipherSuiteId;

fn forged(suite: CipherSuiteId, seed: u64) {
    let setup = Setup::new(suite, Scheme::Plain);
    let report = forgery::run(&setup, &SCHEMES, &ATTACKS, seed, 700);
    assert_eq!(report.forged, 0, "{report:#?}");
    assert!(report.delivered * 2 > report.sent, "genuine records still arrive: {report:?}");
}

#[test]
fn no_attack_forges_lightmac() {
    forged(CipherSuiteId::AES_128_CTR_LIGHTMAC_SHA256, 1);
}

#[test]
fn no_attack_forges_ccm() {
    forged(CipherSuiteId::AES_128_CCM_SHA256, 2);
}

#[test]
fn no_attack_forges_hmac() {
    forged(CipherSuiteId::SHA256_SHA256, 4);
}

/// The harness, and the attacks that forge nothing under other suites, forge records under a suite
/// that must not be aggregated.
#[test]
fn gcm_is_forged_every_time() {
    let setup = dangerous::setup();
    let report = forgery::run(&setup, &dangerous::SCHEMES, &dangerous::ATTACKS, 3, 75);
    assert_eq!((report.attempts, report.forged), (300, 300));
}
