//! MACsec gateways as processes, with real sockets between real ends.

use crate::claim::{Bar, Claim, Measured, Unmeasured};
use crate::claims::number;
use crate::process::cargo;
use crate::{process, system};
use serde_json::Value;

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        name: "gateway-soak",
        about: "of 24 flows over 3 gateways, 10 min, a key a minute, one killed: frames twice, altered or \
                not accounted for",
        bar: Bar::AtMost(0.0),
        seconds: 630,
        measure: || soak(&["--scheme", "sealed"]),
    },
    Claim {
        name: "gateway-soak-identifier",
        about: "as gateway-soak, under `identifier`",
        bar: Bar::AtMost(0.0),
        seconds: 630,
        measure: || soak(&["--scheme", "identifier"]),
    },
    Claim {
        name: "gateway-soak-xdp",
        about: "as gateway-soak, 2 min with AF_XDP on both sides",
        bar: Bar::AtMost(0.0),
        seconds: 150,
        measure: || {
            soak(&["--scheme", "sealed", "--io", "xdp", "--duration", "120", "--rekey", "12"])
        },
    },
];

fn soak(arguments: &[&str]) -> Result<Measured, Unmeasured> {
    system::require_tunnels().map_err(Unmeasured::NotHere)?;
    // It is started by the programs, and lies beside them.
    let build = ["build", "--quiet", "--release", "--package", "lightseal", "--bin", "lightseal"];
    process::run(cargo(&build)).map_err(Unmeasured::Broken)?;
    let program = process::target_dir().join("release/soak-gateway");
    let build =
        ["build", "--quiet", "--release", "--package", "interop-gateway", "--bin", "soak-gateway"];
    process::run(cargo(&build)).map_err(Unmeasured::Broken)?;
    let mut command = process::command(&program.to_string_lossy(), arguments);
    command.arg("--json");
    // It fails where frames are wrong, and says which all the same.
    let done = command.stderr(std::process::Stdio::inherit()).output();
    let done = done.map_err(|error| Unmeasured::Broken(error.to_string()))?;
    if done.status.code() == Some(2) {
        return Err(Unmeasured::NotHere("no namespaces, or no gateway: see above".into()));
    }
    let result: Value = serde_json::from_slice(&done.stdout)
        .map_err(|error| Unmeasured::Broken(format!("soak-gateway printed no JSON: {error}")))?;
    let count = |name| number(&result, &format!("/{name}"));
    let detail = format!(
        "seed {}: {} frames sent, {} of {} copies delivered, {} while a gateway was down ({:.1} s), {} others \
         missing; {} new keys; {} twice, {} altered, {} not accounted for; dropped: {}",
        count("seed")?,
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
