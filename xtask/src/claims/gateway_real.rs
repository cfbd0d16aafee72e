//! Claims on MACsec gateways as processes, with real sockets, between real MACsec endpoints.

use crate::claim::{Bar, Claim, Measured, Unmeasured};
use crate::claims::number;
use crate::process::cargo;
use crate::{process, system};
use serde_json::Value;

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        name: "gateway-soak",
        about: "Number of frames delivered twice, altered or not accounted for in 24 flows over \
            three gateways, one of which is killed; 10 minutes under the scheme sealed, new \
            keys every minute. Bar: there may be none",
        bar: Bar::AtMost(0.0),
        seconds: 630,
        measure: || soak(&["--scheme", "sealed"]),
    },
    Claim {
        name: "gateway-soak-identifier",
        about: "Number of frames delivered twice, altered or not accounted for in 24 flows over \
            three gateways, one of which is killed; 10 minutes under the scheme identifier, \
            new keys every minute. Bar: there may be none",
        bar: Bar::AtMost(0.0),
        seconds: 630,
        measure: || soak(&["--scheme", "identifier"]),
    },
    Claim {
        name: "gateway-soak-xdp",
        about: "Number of frames delivered twice, altered or not accounted for in 24 flows over \
            three gateways, one of which is killed; 2 minutes under the scheme sealed with \
            AF_XDP on both sides, new keys every 12 s. Bar: there may be none",
        bar: Bar::AtMost(0.0),
        seconds: 150,
        measure: || {
            soak(&["--scheme", "sealed", "--io", "xdp", "--duration", "120", "--rekey", "12"])
        },
    },
    Claim {
        name: "gateway-guest-not-valid",
        about: "Sum of the counters InPktsNotValid and InPktsLate of Debian's kernel MACsec \
            after all trials between guests joined by two and three gateways. Bar: there may \
            be none",
        bar: Bar::AtMost(0.0),
        seconds: 500,
        measure: || guest("not_valid"),
    },
    Claim {
        name: "gateway-guest-trials",
        about: "Number of failed trials of real MACsec and MKA endpoints joined by two and three \
            gateways: TCP, VLANs, broadcast, key changes. Bar: there may be none",
        bar: Bar::AtMost(0.0),
        seconds: 500,
        measure: || guest("failed"),
    },
];

/// The sum of this figure over all ways of joining the guests; the detail has a line for each.
fn guest(figure: &str) -> Result<Measured, Unmeasured> {
    const JOINS: [(&str, &str); 4] =
        [("sealed", "2"), ("sealed-compressed", "2"), ("identifier", "2"), ("sealed", "3")];
    system::require_guest().map_err(Unmeasured::NotHere)?;
    let cache = process::target_dir().join("macsec-guest").display().to_string();
    let (mut sum, mut detail) = (0.0, Vec::new());
    for (join, ends) in JOINS {
        let result =
            beside_lightseal("macsec-ends", &["--cache", &cache, "--join", join, "--ends", ends])?;
        let count = |name: &str| number(&result, &format!("/{name}"));
        let trials = result["series"][0]["trials"].as_array().map_or(0, Vec::len);
        detail.push(format!(
            "{join}, {ends} ends: {trials} trials, {} failed, {} frames not valid or late",
            count("failed")?,
            count("not_valid")?
        ));
        sum += count(figure)?;
    }
    Ok(Measured { figure: sum, detail: detail.join("\n") })
}

/// Builds a program of `interop-gateway` and the `lightseal` that it starts, runs the program, and
/// reads the JSON that it prints, also if its exit code says that a trial failed.
fn beside_lightseal(name: &str, arguments: &[&str]) -> Result<Value, Unmeasured> {
    let packages = ["--package", "lightseal", "--package", "interop-gateway"];
    let programs = ["--bin", "lightseal", "--bin", name];
    let build = [&["build", "--quiet", "--release"], &packages[..], &programs].concat();
    process::run(cargo(&build)).map_err(Unmeasured::Broken)?;
    let program = process::target_dir().join("release").join(name);
    let mut command = process::command(&program.to_string_lossy(), arguments);
    let done = command.arg("--json").stderr(std::process::Stdio::inherit()).output();
    let done = done.map_err(|error| Unmeasured::Broken(error.to_string()))?;
    if done.status.code() == Some(2) {
        return Err(Unmeasured::NotHere(format!("{name} has printed above what is missing")));
    }
    serde_json::from_slice(&done.stdout)
        .map_err(|error| Unmeasured::Broken(format!("{name} printed no JSON: {error}")))
}

fn soak(arguments: &[&str]) -> Result<Measured, Unmeasured> {
    system::require_tunnels().map_err(Unmeasured::NotHere)?;
    let result = beside_lightseal("soak-gateway", arguments)?;
    let count = |name| number(&result, &format!("/{name}"));
    let detail = format!(
        "seed {}: {} frames sent, {} of {} copies delivered, {} while a gateway was down ({:.1} s), {} others \
         missing; {} new keys; {} twice, {} altered, {} not accounted for; dropped: {}",
        // The seed does not fit into a number of type f64.
        result["seed"],
        count("sent")?,
        count("delivered")?,
        count("expected")?,
        count("outage")?,
        count("outage_seconds")?,
        count("missing")?,
        count("keys")?,
        count("twice")?,
        count("altered")?,
        count("unaccounted")?,
        result["drops"],
    );
    Ok(Measured { figure: count("wrong")?, detail })
}
