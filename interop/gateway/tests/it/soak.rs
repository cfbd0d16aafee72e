//! A short soak: twenty-four flows over three gateways, a new key, and one of the gateways killed
//! and started again. If there are no namespaces or no gateway, the test is skipped and prints why.

use interop_gateway::Failure;
use interop_gateway::gateways::{self, Setup};
use interop_gateway::interrupt::Interrupt;
use interop_gateway::soak::{self, Plan};
use std::time::Duration;

/// The variable that sets the seed, to repeat a run that failed.
const SEED: &str = "LIGHTSEAL_SOAK_SEED";

#[test]
fn every_frame_is_delivered_once_or_accounted_for() {
    let seed = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(soak::any_seed);
    println!("{SEED}={seed}");
    let plan = Plan {
        program: gateways::program(),
        setup: Setup { rekey_seconds: Some(10), ..Setup::SEALED },
        flows: 24,
        duration: Duration::from_secs(12),
        down: Duration::from_secs(1),
        flood: Duration::from_secs(1),
        seed,
    };
    let report = match soak::run(&plan, &Interrupt::default()) {
        Ok(report) => report,
        Err(Failure::NotHere(why)) => {
            return skip::test(why);
        }
        Err(why) => panic!("{why}"),
    };
    println!("{report}");
    assert_eq!(report.wrong(), 0, "{report}");
    assert!(report.delivered > 0, "{report}");
    assert!(report.keys > 0, "{report}");
}
