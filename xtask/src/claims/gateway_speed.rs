//! Claims on the speed of the MACsec gateway, measured in turns with the kernel's VXLAN and with
//! VXLAN in WireGuard.

use crate::Failure;
use crate::claim::{Bar, Claim, Measured, Unmeasured};
use crate::claims::number;
use crate::gateway;
use serde_json::Value;

/// The row of the kernel's VXLAN inside boringtun, a user-space WireGuard.
const BORINGTUN: &str = "boringtun";
/// The row of the kernel's VXLAN.
const VXLAN: &str = "vxlan";

const SMALL: &str = "frames_s_96";
const LARGE: &str = "frames_s_1400";

pub(super) const CLAIMS: &[Claim] = &[
    thrice("gateway-rate-96-sealed-boringtun", || rate("sealed", SMALL, BORINGTUN)),
    thrice("gateway-rate-1400-sealed-boringtun", || rate("sealed", LARGE, BORINGTUN)),
    thrice("gateway-rate-96-identifier-boringtun", || rate("identifier", SMALL, BORINGTUN)),
    thrice("gateway-rate-1400-identifier-boringtun", || rate("identifier", LARGE, BORINGTUN)),
    no_less("gateway-rate-96-sealed-vxlan", || rate("sealed", SMALL, VXLAN)),
    no_less("gateway-rate-1400-sealed-vxlan", || rate("sealed", LARGE, VXLAN)),
    no_less("gateway-rate-96-identifier-vxlan", || rate("identifier", SMALL, VXLAN)),
    no_less("gateway-rate-1400-identifier-vxlan", || rate("identifier", LARGE, VXLAN)),
    fallback("gateway-rate-96-sealed-packet", || rate("sealed-packet", SMALL, BORINGTUN)),
    fallback("gateway-rate-1400-sealed-packet", || rate("sealed-packet", LARGE, BORINGTUN)),
    fallback("gateway-rate-96-identifier-packet", || rate("identifier-packet", SMALL, BORINGTUN)),
    fallback("gateway-rate-1400-identifier-packet", || rate("identifier-packet", LARGE, BORINGTUN)),
    round_trip("gateway-rtt-sealed", || rtt("sealed")),
    round_trip("gateway-rtt-identifier", || rtt("identifier")),
    through("gateway-tcp-sealed", || tcp("sealed")),
    through("gateway-tcp-sealed-compressed", || tcp("sealed-compressed")),
    through("gateway-tcp-identifier", || tcp("identifier")),
    through("gateway-tcp-identifier-paper", || tcp("identifier-paper")),
    through("gateway-tcp-encryption-paper", || tcp("encryption-paper")),
    through("gateway-tcp-plain", || tcp("plain")),
    through("gateway-tcp-sealed-packet", || tcp("sealed-packet")),
    through("gateway-tcp-sealed-compressed-packet", || tcp("sealed-compressed-packet")),
    through("gateway-tcp-identifier-packet", || tcp("identifier-packet")),
    through("gateway-tcp-plain-packet", || tcp("plain-packet")),
];

type Measure = fn() -> Result<Measured, Unmeasured>;

const fn thrice(name: &'static str, measure: Measure) -> Claim {
    let about = "MACsec frames a second with AF_XDP over those of VXLAN in boringtun (user-space \
        WireGuard), at the frame size and scheme in the claim's name. Bar: our own \
        target";
    Claim { name, about, bar: Bar::AtLeast(3.0), seconds: 40, measure }
}

const fn no_less(name: &'static str, measure: Measure) -> Claim {
    let about = "MACsec frames a second with AF_XDP over those of the kernel's VXLAN, at the \
        frame size and scheme in the claim's name. Bar: we are no slower";
    Claim { name, about, bar: Bar::AtLeast(1.0), seconds: 40, measure }
}

const fn fallback(name: &'static str, measure: Measure) -> Claim {
    let about = "MACsec frames a second with packet sockets over those of VXLAN in boringtun \
        (user-space WireGuard), at the frame size and scheme in the claim's name. Bar: \
        our own target";
    Claim { name, about, bar: Bar::AtLeast(1.5), seconds: 40, measure }
}

const fn round_trip(name: &'static str, measure: Measure) -> Claim {
    let about = "Median round trip of a 64 B MACsec frame with AF_XDP over that with VXLAN in \
        boringtun (user-space WireGuard), under the scheme in the claim's name. Bar: our \
        own target";
    Claim { name, about, bar: Bar::AtMost(0.6), seconds: 30, measure }
}

const fn through(name: &'static str, measure: Measure) -> Claim {
    let about = "TCP payload a second over that of VXLAN in boringtun (user-space WireGuard), \
        between our own MACsec endpoints in both, under the scheme in the claim's name. \
        Bar: our own target";
    Claim { name, about, bar: Bar::AtLeast(1.5), seconds: 60, measure }
}

fn rate(row: &str, measure: &'static str, over: &str) -> Result<Measured, Unmeasured> {
    ratio(row, over, Sitting { measures: "rate", turns: "10", measure, unit: "frames/s" })
}

fn rtt(row: &str) -> Result<Measured, Unmeasured> {
    let sitting = Sitting { measures: "rtt", turns: "10", measure: "rtt_us", unit: "µs" };
    ratio(row, BORINGTUN, sitting)
}

fn tcp(row: &str) -> Result<Measured, Unmeasured> {
    let sitting = Sitting { measures: "tcp", turns: "4", measure: "tcp_mbit_s", unit: "Mbit/s" };
    ratio(row, BORINGTUN, sitting)
}

/// A run of `bench-gateway` and the measure that is read from it. With an even number of turns each
/// of the two rows goes first equally often.
struct Sitting {
    measures: &'static str,
    turns: &'static str,
    measure: &'static str,
    unit: &'static str,
}

/// Measures two rows in turns: the median of the ratios of each turn.
fn ratio(row: &str, over: &str, sitting: Sitting) -> Result<Measured, Unmeasured> {
    let rows = [row, over].join(",");
    let options = ["--rows", &rows, "--measures", sitting.measures, "--turns", sitting.turns];
    let result = gateway::measured(&options).map_err(|failure| match failure {
        Failure::Failed(reason) => Unmeasured::Broken(reason),
        Failure::NotPossibleHere(reason) => Unmeasured::NotHere(reason),
    })?;
    read(&result, row, over, &sitting)
}

fn read(result: &Value, row: &str, over: &str, sitting: &Sitting) -> Result<Measured, Unmeasured> {
    let Sitting { measure, unit, .. } = sitting;
    let rows = result["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
    let named = |name: &str| rows.iter().find(|row| row["name"] == name).unwrap_or(&Value::Null);
    for name in [row, over] {
        let failures = named(name)["failures"].as_array().map(Vec::as_slice).unwrap_or_default();
        if let Some(failure) = failures.first() {
            return Err(Unmeasured::Broken(format!("{name}: {failure}")));
        }
    }
    let ratio = |part| number(named(row), &format!("/ratios/{measure}_over_{over}/{part}"));
    let median = |name: &str| number(named(name), &format!("/measures/{measure}/median"));
    let detail = format!(
        "{row} {:.1} {unit}, {over} {:.1} {unit} (medians); ratio {:.3}, half of {} turns within {:.3}..{:.3}; {}, {}\n\
         average number of running and waiting threads before it: {}",
        median(row)?,
        median(over)?,
        ratio("median")?,
        number(result, "/turns")?,
        ratio("low")?,
        ratio("high")?,
        result["versions"]["kernel"].as_str().unwrap_or("?"),
        result["versions"]["boringtun"].as_str().unwrap_or("?"),
        result["load_before"],
    );
    Ok(Measured { figure: ratio("median")?, detail })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const SITTING: Sitting =
        Sitting { measures: "rtt", turns: "3", measure: "rtt_us", unit: "µs" };

    fn result() -> Value {
        let spread = |median: f64| json!({ "median": median, "low": 0.5, "high": 0.9 });
        json!({ "turns": 3, "versions": {}, "load_before": 0.1, "rows": [
            { "name": "boringtun", "failures": [], "measures": { "rtt_us": spread(100.0) } },
            { "name": "sealed", "failures": [], "measures": { "rtt_us": spread(55.0) },
              "ratios": { "rtt_us_over_boringtun": spread(0.55) } },
        ] })
    }

    #[test]
    fn the_median_of_ratios_is_read() {
        let measured = read(&result(), "sealed", BORINGTUN, &SITTING).unwrap();
        assert_eq!(measured.figure, 0.55);
        assert!(measured.detail.contains("ratio 0.550, half of 3 turns within 0.500..0.900"));
        assert!(read(&result(), "sealed", VXLAN, &SITTING).is_err());
    }

    #[test]
    fn a_row_that_failed_has_no_figure() {
        let mut result = result();
        result["rows"][0]["failures"] = json!(["iperf3 reported no rate"]);
        let error = read(&result, "sealed", BORINGTUN, &SITTING).unwrap_err();
        assert!(matches!(error, Unmeasured::Broken(reason) if reason.contains("reported no rate")));
    }
}
