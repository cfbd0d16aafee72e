//! Claims on the speed of the MACsec gateway, measured in turns with the kernel's VXLAN and with
//! VXLAN in WireGuard.

use super::prelude::*;
use crate::gateway;

/// The row of the kernel's VXLAN inside boringtun, a user-space WireGuard.
const BORINGTUN: &str = "boringtun";
/// The row of the kernel's VXLAN.
const VXLAN: &str = "vxlan";

pub(super) fn claims() -> Vec<Claim> {
    let topics = [rates(), round_trips(), streams()];
    topics.into_iter().flatten().collect()
}

/// The end of a claim's name and of our row's, what is compared, the rival's row, the bar and its
/// origin.
const RATES: [(&str, &str, &str, &str, f64, &str); 3] = [
    (
        "boringtun",
        "",
        "AF_XDP over those of VXLAN in boringtun (user-space WireGuard)",
        BORINGTUN,
        3.0,
        "our own target",
    ),
    ("vxlan", "", "AF_XDP over those of the kernel's VXLAN", VXLAN, 1.0, "we are no slower"),
    (
        "packet",
        "-packet",
        "packet sockets over those of VXLAN in boringtun (user-space WireGuard)",
        BORINGTUN,
        1.5,
        "our own target",
    ),
];

fn rates() -> Vec<Claim> {
    let mut claims = Vec::new();
    for (end, io, what, over, bar, why) in RATES {
        for (scheme, bytes) in ["sealed", "identifier"]
            .map(|scheme| ["96", "1400"].map(|bytes| (scheme, bytes)))
            .concat()
        {
            let (row, measure) = (format!("{scheme}{io}"), format!("frames_s_{bytes}"));
            claims.push(
                format!(
                    "MACsec frames a second with {what}, at the frame size and scheme in the \
                     claim's name. Bar: {why}"
                )
                .claim(format!("gateway-rate-{bytes}-{scheme}-{end}"), AtLeast(bar), Seconds(40))
                .by(ratio(&row, over, "rate", 10, &measure, "frames/s")),
            );
        }
    }
    claims
}

fn round_trips() -> Vec<Claim> {
    let row = |scheme| {
        "Median round trip of a 64 B MACsec frame with AF_XDP over that with VXLAN in boringtun \
            (user-space WireGuard), under the scheme in the claim's name. Bar: our own target"
            .claim(format!("gateway-rtt-{scheme}"), AtMost(0.6), Seconds(30))
            .by(ratio(scheme, BORINGTUN, "rtt", 10, "rtt_us", "µs"))
    };
    ["sealed", "identifier"].map(row).into()
}

fn streams() -> Vec<Claim> {
    let row = |row| {
        "TCP payload a second over that of VXLAN in boringtun (user-space WireGuard), between our \
            own MACsec endpoints in both, under the scheme in the claim's name. Bar: our own \
            target"
            .claim(format!("gateway-tcp-{row}"), AtLeast(1.5), Seconds(60))
            .by(ratio(row, BORINGTUN, "tcp", 4, "tcp_mbit_s", "Mbit/s"))
    };
    [
        "sealed",
        "sealed-compressed",
        "identifier",
        "identifier-paper",
        "encryption-paper",
        "plain",
        "sealed-packet",
        "sealed-compressed-packet",
        "identifier-packet",
        "plain-packet",
    ]
    .map(row)
    .into()
}

/// Measures two rows in turns: the median of the ratios of each turn. With an even number of turns
/// each of the two rows goes first equally often.
fn ratio(
    row: &str,
    over: &str,
    measures: &'static str,
    turns: u32,
    measure: &str,
    unit: &str,
) -> Reading {
    let rows = [row, over].join(",");
    let (ours, theirs) = (format!("rows[name={row}]"), format!("rows[name={over}]"));
    let (median, ratio) =
        (format!("measures/{measure}/median"), format!("ratios/{measure}_over_{over}"));
    let run = move || {
        let turns = turns.to_string();
        gateway::measured(&["--rows", &rows, "--measures", measures, "--turns", &turns])
    };
    read(run)
        .each(format!("{ours}/failures[]"), format!("{row}: {{}}"))
        .each(format!("{theirs}/failures[]"), format!("{over}: {{}}"))
        .needs(format!("#{ours}/failures[] + #{theirs}/failures[] == 0"))
        .line(format!(
            "{row} {{{ours}/{median}:.1}} {unit}, {over} {{{theirs}/{median}:.1}} {unit} \
             (medians); ratio {{{ours}/{ratio}/median:.3}}, half of {{turns}} turns within \
             {{{ours}/{ratio}/low:.3}}..{{{ours}/{ratio}/high:.3}}; {{versions/kernel}}, \
             {{versions/boringtun}}\n\
             average number of running and waiting threads before it: {{load_before}}"
        ))
        .reduced(only, ours, format!("{ratio}/median"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result() -> Value {
        let spread = |median: f64| json!({ "median": median, "low": 0.5, "high": 0.9 });
        let versions = json!({ "kernel": "Linux", "boringtun": "0.7.1" });
        json!({ "turns": 3, "versions": versions, "load_before": 0.1, "rows": [
            { "name": "boringtun", "failures": [], "measures": { "rtt_us": spread(100.0) } },
            { "name": "sealed", "failures": [], "measures": { "rtt_us": spread(55.0) },
              "ratios": { "rtt_us_over_boringtun": spread(0.55) } },
        ] })
    }

    fn round_trip(over: &str) -> Reading {
        ratio("sealed", over, "rtt", 3, "rtt_us", "µs")
    }

    #[test]
    fn the_median_of_ratios_is_read() {
        let measured = round_trip(BORINGTUN).judge(&result()).unwrap();
        assert_eq!(measured.figure, 0.55);
        assert!(measured.detail.contains("ratio 0.550, half of 3 turns within 0.500..0.900"));
        assert!(round_trip(VXLAN).judge(&result()).is_err());
    }

    #[test]
    fn a_row_that_failed_has_no_figure() {
        let mut result = result();
        result["rows"][0]["failures"] = json!(["iperf3 reported no rate"]);
        let error = round_trip(BORINGTUN).judge(&result).unwrap_err();
        assert!(matches!(error, Failure::Failed(reason) if reason.contains("reported no rate")));
    }
}
