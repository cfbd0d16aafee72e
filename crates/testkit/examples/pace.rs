//! The delay that shared tags cause, in virtual time: the figures that `tests/it/dialogue.rs` of `lightseal-dtls` bounds,
//! as JSON.

use std::time::Duration;
use testkit::pace::{LONG_SETS, SCHEMES, STEADY, bytes, configs, exchanges, pair};

fn main() {
    let path = Duration::from_millis(20);
    let took = |scheme: &str| {
        let mut pair = pair(configs(scheme), path, 1);
        exchanges(&mut pair, 2000, 1).as_secs_f64()
    };
    let plain = took("off");
    let dialogue = SCHEMES.iter().map(|scheme| took(scheme) / plain).fold(0.0, f64::max);
    let never = Duration::from_secs(3600);
    let fast = STEADY.iter().map(|scheme| {
        let gap = Duration::from_millis(1);
        bytes(configs(scheme).waiting(never), gap, 3000) / bytes(configs(scheme), gap, 3000)
    });
    let slow = LONG_SETS.iter().map(|scheme| {
        let gap = Duration::from_secs(1);
        let waiting = configs(scheme).waiting(Duration::from_secs(20));
        bytes(configs(scheme).waiting(never), gap, 320) / bytes(waiting, gap, 320)
    });
    let (fast, slow) = (fast.fold(f64::MAX, f64::min), slow.fold(f64::MAX, f64::min));
    println!(
        r#"{{"dialogue": {dialogue:.4}, "fast_stream": {fast:.4}, "slow_stream": {slow:.4}}}"#
    );
}
