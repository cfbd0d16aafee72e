//! A short run of junk among records that share tags.

use attacks::forgery::SCHEMES;
use attacks::injection::{flood, run};
use attacks::setup::Setup;
use lightseal_dtls::crypto::CipherSuiteId;

fn setups() -> impl Iterator<Item = Setup> {
    SCHEMES.into_iter().map(|scheme| {
        let scheme = scheme.parse().expect("a scheme's name");
        Setup::new(CipherSuiteId::AES_128_CTR_LIGHTMAC_SHA256, scheme)
    })
}

#[test]
fn junk_costs_next_to_nothing() {
    for setup in setups() {
        for loss in [0, 500] {
            let clean = run(&setup, loss, 3, 1000, false);
            let junk = run(&setup, loss, 3, 1000, true);
            assert!(junk.junk > 50 && clean.junk == 0, "{setup:?}: {junk:?}");
            assert_eq!((clean.forged, junk.forged), (0, 0), "{setup:?}");
            assert!(clean.goodput() > 0.85, "{setup:?}: {clean:?}");
            let fall = 1.0 - junk.goodput() / clean.goodput();
            assert!(fall < 0.02, "{setup:?} at {loss}: {fall}");
        }
    }
}

#[test]
fn a_flooded_number_is_bounded() {
    for setup in setups() {
        for before in [true, false] {
            let flood = flood(&setup, before);
            assert!(flood.held <= 4 && flood.evaluated <= 64, "{setup:?}: {flood:?}");
            // An aggregate needs all records of its set. Under R2D2 only the flooded record itself
            // is lost.
            let shared = setup.scheme.largest_aggregate_len() == 16;
            assert!(flood.others_verified || shared, "{setup:?}: {flood:?}");
        }
    }
}
