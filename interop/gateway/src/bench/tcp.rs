//! TCP throughput measured by iperf3, one connection from host A to host B.

use crate::Failure;
use crate::daemon::{Daemon, Scratch, on_path, output};
use crate::ends::{self, Ends};
use crate::frames::Side;
use crate::rows::Ground;
use crate::site::{Site, lan_address};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

const PORT: &str = "5201";
const PATIENCE: Duration = Duration::from_secs(5);

/// TCP payload that arrives without MACsec over `seconds`, in Mbit/s. The first second does not
/// count.
///
/// # Errors
/// The connection fails.
pub fn plain(ground: &Ground, seconds: u32) -> Result<f64, Failure> {
    mbit(&ground.site, lan_address(Side::B), seconds)
}

/// The throughput as in [`plain`], but between MACsec endpoints of the program `lightseal`. They
/// run only during this measurement, so that they do not disturb others.
///
/// # Errors
/// An endpoint cannot be started or ends, or the connection fails.
pub fn protected(ground: &mut Ground, lightseal: &Path, seconds: u32) -> Result<f64, Failure> {
    let ends = match ground.ends.take() {
        Some(ends) => ends,
        None => Ends::new()?,
    };
    let ends = ground.ends.insert(ends);
    let mut running = ends.start(lightseal, &ground.site)?;
    let rate = mbit(&ground.site, ends::address(Side::B), seconds);
    running.programs.iter_mut().try_for_each(Daemon::runs)?;
    rate
}

fn mbit(site: &Site, to: &str, seconds: u32) -> Result<f64, Failure> {
    if !on_path("iperf3") {
        return Err(Failure::NotHere("iperf3 is missing".into()));
    }
    let scratch = Scratch::new("iperf")?;
    let mut serve = site.host_b.command("iperf3");
    serve.args(["-s", "-1", "-p", PORT, "--forceflush"]);
    let log = scratch.file("server");
    let mut server = Daemon::start(&mut serve, &log)?;
    let said = || std::fs::read_to_string(&log).is_ok_and(|said| said.contains("listening"));
    server.wait_until("iperf3 listens", PATIENCE, said)?;
    let mut ask = site.host_a.command("iperf3");
    let seconds = seconds.to_string();
    ask.args(["-c", to, "-p", PORT, "-t", &seconds, "-O", "1", "-J"]);
    ask.args(["--connect-timeout", "3000"]);
    let text = output(&mut ask)?;
    rate(&text).ok_or_else(|| Failure::Broken("iperf3 reported no rate".into()))
}

fn rate(text: &str) -> Option<f64> {
    let value: Value = serde_json::from_str(text).ok()?;
    value.pointer("/end/sum_received/bits_per_second")?.as_f64().map(|rate| rate / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_what_arrived() {
        let text = r#"{"end":{"sum_sent":{"bits_per_second":3e9},"sum_received":{"bits_per_second":2.5e9}}}"#;
        assert_eq!(rate(text), Some(2500.0));
        assert_eq!(rate("{}"), None);
    }
}
