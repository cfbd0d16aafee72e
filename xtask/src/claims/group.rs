//! Claims on groups: what members must never do, and the bytes that messages take.

use crate::claim::{Bar, Claim, Measured, Unmeasured};
use crate::claims::{number, run_json};
use crate::process::{capture, cargo, run};
use serde_json::Value;
use std::path::PathBuf;

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        name: "group-overhead-axiom",
        about: "Bytes beside the payload of a request, in a real record of profile axiom-1.2 \
            with CCM_8. Bar: the value in section 6.4 of the Axiom paper",
        bar: Bar::Exactly(29.0),
        seconds: 2,
        measure: || overhead("axiom-1.2", "request_bytes"),
    },
    Claim {
        name: "group-overhead-request",
        about: "Bytes beside the payload of a request, in a real record of profile compact with \
            a tag of 8 B. Bar: our own target",
        bar: Bar::AtMost(14.0),
        seconds: 2,
        measure: || overhead("compact", "request_bytes"),
    },
    Claim {
        name: "group-overhead-response",
        about: "Bytes beside the payload of a response, in a real record of profile compact with \
            a tag of 8 B. Bar: our own target",
        bar: Bar::AtMost(16.0),
        seconds: 2,
        measure: || overhead("compact", "response_bytes"),
    },
    Claim {
        name: "group-rekey-100",
        about: "Bytes of the signed datagram that evicts one of 100 members: the costliest leaf \
            and profile. Bar: our own target",
        bar: Bar::AtMost(480.0),
        seconds: 5,
        measure: || rekey(100.0),
    },
    Claim {
        name: "group-rekey-100000",
        about: "Bytes of the signed datagram that evicts one of 100 000 members: the costliest \
            leaf and profile. Bar: our own target",
        bar: Bar::AtMost(1100.0),
        seconds: 5,
        measure: || rekey(100_000.0),
    },
    Claim {
        name: "group-rekey-openmls",
        about: "Bytes of our datagram that evicts one of 100 members, over OpenMLS's smallest \
            commit for the same change in a group just made. Bar: our own target",
        bar: Bar::AtMost(0.1),
        seconds: 60,
        measure: beside_openmls,
    },
    Claim {
        name: "group-histories",
        about: "Number of violations in 1000 random histories of joins, leaves, evictions, \
            rekeys, restarts and loss: records opened by a device outside the group, records \
            delivered twice, record numbers used twice. Bar: there may be none",
        bar: Bar::AtMost(0.0),
        seconds: 60,
        measure: histories,
    },
    Claim {
        name: "group-clones-token",
        about: "Number of nonces used twice under one key in 10 000 requests of two and of three \
            machines that join with one token, crash, stop and restart. Bar: there may be \
            none",
        bar: Bar::AtMost(0.0),
        seconds: 60,
        measure: || clones("token"),
    },
    Claim {
        name: "group-clones-state",
        about: "Number of nonces used twice under one key in 10 000 requests of machines whose \
            state directories are copied among them, with a controller that restarts and is \
            restored from a backup. Bar: there may be none",
        bar: Bar::AtMost(0.0),
        seconds: 60,
        measure: || clones("state"),
    },
    Claim {
        name: "group-noise",
        about: "Number of panics, deliveries, changes of state and groups that no longer receive \
            after 1 000 000 random, altered, cut, foreign and repeated datagrams to members \
            and controllers, over every suite and policy. Bar: there may be none",
        bar: Bar::AtMost(0.0),
        seconds: 120,
        measure: noise,
    },
];

fn figure(name: &str) -> Result<Value, Unmeasured> {
    run_json("lightseal-lab", "lightseal-lab", &["figure", name, "--print"])
}

fn rows(figure: &Value) -> impl Iterator<Item = &Value> {
    figure["rows"].as_array().into_iter().flatten()
}

/// The largest overhead of a profile's suites with 8-byte tags and without signatures, in bytes.
fn overhead(profile: &str, column: &str) -> Result<Measured, Unmeasured> {
    let figure = figure("group-overhead")?;
    let (mut worst, mut detail) = (f64::NAN, String::new());
    for row in rows(&figure).filter(|row| row["source"] == "measured") {
        let (protocol, protection) = (row["protocol"].as_str(), row["protection"].as_str());
        let (Some(protocol), Some(protection)) = (protocol, protection) else { continue };
        let bytes = number(row, &format!("/{column}"))?;
        detail += &format!("{protocol}, {protection}: {bytes} B\n");
        let short = protection.ends_with("CCM_8") || protection.ends_with(" 8 B");
        if protocol == profile && short {
            worst = worst.max(bytes);
        }
    }
    Ok(Measured { figure: worst, detail })
}

fn rekey(members: f64) -> Result<Measured, Unmeasured> {
    let figure = figure("group-rekey")?;
    let (mut worst, mut detail) = (f64::NAN, String::new());
    for row in rows(&figure) {
        let of = number(row, "/members")?;
        let (axiom, compact) = (number(row, "/axiom_bytes")?, number(row, "/compact_bytes")?);
        detail += &format!(
            "{of} members, {} leaves tried: {axiom} B in axiom-1.2, {compact} B in compact\n",
            number(row, "/leaves")?,
        );
        if of == members {
            worst = axiom.max(compact);
        }
    }
    Ok(Measured { figure: worst, detail })
}

/// The program with OpenMLS is a workspace of its own, since OpenMLS needs a newer Rust than ours.
const OPENMLS: &str = "interop/peers/openmls/Cargo.toml";

fn beside_openmls() -> Result<Measured, Unmeasured> {
    let fetch = cargo(&["fetch", "--quiet", "--locked", "--manifest-path", OPENMLS]);
    run(fetch).map_err(|error| Unmeasured::NotHere(format!("needs OpenMLS's crates ({error})")))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from);
    let target = target.join("openmls").display().to_string();
    let fixed = ["run", "--quiet", "--release", "--locked", "--manifest-path", OPENMLS];
    let text = capture(cargo(&[&fixed[..], &["--target-dir", &target, "100"]].concat()));
    let theirs: Value =
        serde_json::from_str(&text.map_err(Unmeasured::Broken)?).map_err(|error| {
            Unmeasured::Broken(format!("OpenMLS's program printed no JSON: {error}"))
        })?;
    let bytes = |what: &str| number(&theirs, what);
    let [least, most] = [bytes("/cold_bytes/0")?, bytes("/cold_bytes/1")?];
    let ours = rekey(100.0)?;
    let detail = format!(
        "OpenMLS, {}, any of 100 members evicted by the founder: {least} to {most} B in a group that was just \
         made, {} to {} B once every member has committed\nours: {} B for the costliest leaf, signed, with its \
         record: {:.2} of the latter's longest\n{}",
        theirs["suite"].as_str().unwrap_or("?"),
        bytes("/warm_bytes/0")?,
        bytes("/warm_bytes/1")?,
        ours.figure,
        ours.figure / bytes("/warm_bytes/1")?,
        ours.detail,
    );
    Ok(Measured { figure: ours.figure / least, detail })
}

fn clones(copied: &str) -> Result<Measured, Unmeasured> {
    let result = run_json("fuzz", "campaign", &["clones", copied])?;
    let (mut repeated, mut requests, mut detail) = (0.0, 0.0, String::new());
    for report in result["reports"].as_array().into_iter().flatten() {
        let count = |name| number(report, &format!("/{name}"));
        repeated += count("repeated")?;
        requests += count("requests")?;
        detail += &format!(
            "{} machines a device: {} requests, {} keys and nonces, {} records delivered, {} joins, {} starts \
             taken, {} states copied, {} machines refused, {} restarts of the controller\n",
            count("machines")?,
            count("requests")?,
            count("sealed")?,
            count("delivered")?,
            count("joins")?,
            count("starts")?,
            count("copies")?,
            count("refused")?,
            count("restarts")?,
        );
    }
    if requests < 10_000.0 {
        return Err(Unmeasured::Broken(detail));
    }
    Ok(Measured { figure: repeated, detail })
}

fn histories() -> Result<Measured, Unmeasured> {
    let result = run_json("fuzz", "campaign", &["histories"])?;
    let count = |name| number(&result, &format!("/{name}"));
    let mut detail = format!(
        "{} histories of seven kinds of groups: {} epochs, {} records sealed, {} delivered, {} restarts, \
         {} shutdowns, {} members removed\n",
        count("histories")?,
        count("epochs")?,
        count("sealed")?,
        count("delivered")?,
        count("restarts")?,
        count("naps")?,
        count("gone")?,
    );
    if count("histories")? < 1000.0 || count("delivered")? < 1000.0 {
        return Err(Unmeasured::Broken("too little happened".into()));
    }
    let violations = result["violations"].as_array().map(Vec::as_slice).unwrap_or_default();
    for violation in violations.iter().take(20) {
        detail += &format!("seed {}: {}\n", violation["seed"], violation["what"]);
    }
    Ok(Measured { figure: violations.len() as f64, detail })
}

fn noise() -> Result<Measured, Unmeasured> {
    let result = run_json("fuzz", "campaign", &["noise", "--count", "1000000"])?;
    let count = |name| number(&result, &format!("/{name}"));
    let mut detail = format!(
        "{} datagrams, {} to members' own addresses, {} to controllers, {} shorter than a tag: {} panics, \
         {} deliveries, {} changes of state; {} groups that no longer receive\n",
        count("datagrams")?,
        count("unicast")?,
        count("to_controller")?,
        count("short")?,
        count("panics")?,
        count("deliveries")?,
        count("touched")?,
        count("deaf")?,
    );
    if count("datagrams")? < 1e6 {
        return Err(Unmeasured::Broken("too little was sent".into()));
    }
    for failure in result["failures"].as_array().into_iter().flatten() {
        detail += &format!("{}\n", failure.as_str().unwrap_or("?"));
    }
    let figure = count("panics")? + count("deliveries")? + count("touched")? + count("deaf")?;
    Ok(Measured { figure, detail })
}
