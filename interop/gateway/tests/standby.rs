//! The guide's active and standby gateway: frames flow again when the active machine's cable is
//! cut, and when the machine is lost. Where something for it is missing, a line says what.

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
