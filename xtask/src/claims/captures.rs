//! Claims on the lab's captures, as read by our own command and by Wireshark's tshark.

use crate::claim::{Bar, Claim, Measured, Unmeasured};
use crate::claims::{number, run_json, run_peer};
use serde_json::Value;

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        name: "capture-tshark",
        about: "Number of packets in the lab's captures that tshark calls malformed, finds a \
            wrong checksum in, or does not find (datagrams with shared tags are looked for \
            up to UDP). Bar: there may be none",
        bar: Bar::AtMost(0.0),
        seconds: 10,
        measure: opened,
    },
    Claim {
        name: "decrypt-12-tshark",
        about: "Protected DTLS 1.2 records (PSK with CCM_8, CCM and GCM) that tshark decrypts \
            with our key log, in %. Bar: all of them",
        bar: Bar::AtLeast(100.0),
        seconds: 10,
        measure: decrypted_12,
    },
    Claim {
        name: "decrypt-13",
        about: "Protected DTLS 1.3 records, those with shared tags included, that `lightseal lab \
            decrypt` decrypts and verifies, in %. Bar: all of them",
        bar: Bar::AtLeast(100.0),
        seconds: 10,
        measure: decrypted_13,
    },
];

/// The program's JSON for each capture, and the version of tshark.
fn captures(arguments: &[&str]) -> Result<(Vec<Value>, String), Unmeasured> {
    let result = run_peer("captures", &[arguments, &["--json"]].concat())?;
    let version = result["tshark"].as_str().unwrap_or("?").to_owned();
    match result["cases"].as_array() {
        Some(cases) if !cases.is_empty() => Ok((cases.clone(), version)),
        _ => Err(Unmeasured::Broken("there are no captures".into())),
    }
}

fn name(case: &Value) -> &str {
    case["name"].as_str().unwrap_or("?")
}

fn opened() -> Result<Measured, Unmeasured> {
    let (cases, version) = captures(&[])?;
    let mut detail = format!("tshark {version}\n");
    let mut figure = 0.0;
    for case in &cases {
        let of = |pointer| number(case, pointer);
        let datagrams = of("/datagrams")?;
        // tshark does not know the record layouts with shared tags, so UDP is counted.
        let found = if case["scheme"].is_null() { "/tshark/dtls" } else { "/tshark/udp" };
        // tshark counts repeated frames, `datagrams` does not.
        let (found, repeated) = (of(found)?, of("/frames_repeated")?);
        let missing = (datagrams - found).max(found - datagrams - repeated).max(0.0);
        let (malformed, wrong) = (of("/tshark/malformed")?, of("/tshark/bad_checksums")?);
        figure += missing + malformed + wrong;
        detail += &format!(
            "{}: {} frames, {datagrams} datagrams; {malformed} malformed, {wrong} wrong checksums, \
             {missing} not found\n",
            name(case),
            of("/tshark/frames")?,
        );
    }
    Ok(Measured { figure, detail })
}

fn decrypted_12() -> Result<Measured, Unmeasured> {
    let (cases, version) = captures(&[])?;
    let mut detail = format!("tshark {version}\n");
    let (mut all, mut decrypted) = (0.0, 0.0);
    for case in &cases {
        let of = |pointer| number(case, pointer);
        // tshark counts the records of repeated frames again.
        let protected = of("/protected")?.max(of("/tshark/protected")?);
        let theirs = of("/tshark/decrypted")?;
        if case["is_13"] == true {
            detail += &format!("{}: {theirs} of {}, DTLS 1.3\n", name(case), of("/protected")?);
            continue;
        }
        let counts = case["readable"] == true;
        let left_out = if counts { "" } else { " (unknown to tshark 4.0.17: left out)" };
        detail += &format!("{}: {theirs} of {protected}{left_out}\n", name(case));
        if counts {
            all += protected;
            decrypted += theirs;
        }
    }
    Ok(Measured { figure: 100.0 * decrypted / all, detail })
}

fn decrypted_13() -> Result<Measured, Unmeasured> {
    let folder = std::env::temp_dir().join(format!("lightseal-decrypt-{}", std::process::id()));
    let measured = decrypted_in(&folder);
    // The folder is named after this process, so only files of this run are in it.
    let _ = std::fs::remove_dir_all(&folder);
    measured
}

fn decrypted_in(folder: &std::path::Path) -> Result<Measured, Unmeasured> {
    let out = folder.display().to_string();
    let (cases, _) = captures(&["--without-tshark", "--out", &out])?;
    let mut detail = String::new();
    let (mut all, mut verified) = (0.0, 0.0);
    for case in cases.iter().filter(|case| case["is_13"] == true) {
        let file = |field: &str| case[field].as_str().unwrap_or_default().to_owned();
        let (capture, keys) = (file("capture"), file("keys"));
        let arguments = ["decrypt", &capture, "--keys", &keys, "--json"];
        let result = run_json("lightseal-lab", "lightseal-lab", &arguments)?;
        let of = |pointer| number(&result, pointer);
        let (protected, proved) = (of("/summary/protected")?, of("/summary/verified")?);
        detail += &format!("{}: {proved} of {protected}\n", name(case));
        all += protected;
        verified += proved;
    }
    Ok(Measured { figure: 100.0 * verified / all, detail })
}
