//! The guide's active and standby gateway: frames flow again after the active machine's cable is
//! cut, and after the machine is lost. If something is missing for it, the test is skipped and
//! prints why.

use interop_gateway::{Failure, gateways, standby};

#[test]
fn frames_flow_again_when_the_active_machine_is_gone() {
    match standby::run(&gateways::program()) {
        Ok(gaps) => {
            println!("no frames for {:?} after a cut, {:?} after a loss", gaps.cut, gaps.lost);
        }
        Err(Failure::NotHere(why)) => skip::test(why),
        Err(why) => panic!("{why}"),
    }
}
