//! Claims on BoringSSL's test suite.

use super::prelude::*;
use crate::bogo;

pub(super) fn claims() -> Vec<Claim> {
    let of = |name: &'static str, version: &str, key: &str, bar: f64| {
        let about = format!(
            "Share of the cases of BoringSSL's test suite BoGo for {version} that pass, in per \
             cent, without the cases for what is refused on purpose (interop/bogo/config.json). \
             Bar: our own target"
        );
        let reading = read(bogo::results)
            .line(format!(
                "{version}: {{versions/{key}/passed}} passed, {{versions/{key}/failed}} failed, \
                 {{versions/{key}/refused}} refused"
            ))
            .each("failed[]", "failed: {case}: {why}")
            .needs("all/passed >= 1")
            .figure(format!("versions/{key}/percent"));
        about.claim(name, AtLeast(bar), Seconds(180)).by(reading)
    };
    vec![of("bogo-13", "DTLS 1.3", "dtls13", 98.0), of("bogo-12", "DTLS 1.2", "dtls12", 95.0)]
}
