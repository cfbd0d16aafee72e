//! Claims on the lab's captures, as read by our own command and by Wireshark's tshark.

use super::prelude::*;
use std::path::Path;

pub(super) fn claims() -> Vec<Claim> {
    vec![
        "Number of packets in the lab's captures that tshark calls malformed, finds a wrong \
            checksum in, or does not find (datagrams with shared tags are looked for up to UDP). \
            Bar: there may be none"
            .claim("capture-tshark", AtMost(0.0), Seconds(10))
            .by(opened()),
        "Protected DTLS 1.2 records (PSK with CCM_8, CCM and GCM) that tshark decrypts with our \
            key log, in %. Bar: all of them"
            .claim("decrypt-12-tshark", AtLeast(100.0), Seconds(10))
            .by(decrypted_12()),
        "Protected DTLS 1.3 records, those with shared tags included, that `lightseal lab decrypt` \
            decrypts and verifies, in %. Bar: all of them"
            .claim("decrypt-13", AtLeast(100.0), Seconds(10))
            .by(|| in_folder("decrypt", decrypted_13)),
    ]
}

/// The program that makes captures.
const CAPTURES: Program = Program::peer("captures");

/// What tshark says of each capture, with fields that follow from it.
fn captures() -> Result<Value, Failure> {
    let mut result = CAPTURES.run("--json").json()?;
    for case in result["cases"].as_array_mut().into_iter().flatten() {
        let count =
            |pointer: &str| case.pointer(pointer).and_then(Value::as_f64).unwrap_or(f64::NAN);
        let datagrams = count("/datagrams");
        // tshark does not know the record layouts with shared tags, so UDP is counted.
        let found = count(if case["scheme"].is_null() { "/tshark/dtls" } else { "/tshark/udp" });
        // tshark counts repeated frames, `datagrams` does not.
        let repeated = found - datagrams - count("/frames_repeated");
        let missing = (datagrams - found).max(repeated).max(0.0);
        // tshark counts the records of repeated frames again.
        let protected = count("/protected").max(count("/tshark/protected"));
        case["missing"] = json!(missing);
        case["all_protected"] = json!(protected);
    }
    Ok(result)
}

fn opened() -> Reading {
    read(captures)
        .line("tshark {tshark}")
        .each(
            "cases[]",
            "{name}: {tshark/frames} frames, {datagrams} datagrams; {tshark/malformed} malformed, \
             {tshark/bad_checksums} wrong checksums, {missing} not found",
        )
        .reduced(sum, "cases[]", "missing + tshark/malformed + tshark/bad_checksums")
}

fn decrypted_12() -> Reading {
    const READ: &str = "cases[is_13=false][readable=true]";
    read(captures)
        .line("tshark {tshark}")
        .each("cases[is_13=true]", "{name}: {tshark/decrypted} of {protected}, DTLS 1.3")
        .each(READ, "{name}: {tshark/decrypted} of {all_protected}")
        .each(
            "cases[is_13=false][readable!=true]",
            "{name}: {tshark/decrypted} of {all_protected} (unknown to tshark 4.0.17: left out)",
        )
        .reduced(percentage, READ, "tshark/decrypted, all_protected")
}

fn decrypted_13(folder: &Path) -> Result<Measured, Failure> {
    let out = folder.display().to_string();
    let made = CAPTURES.run("--without-tshark --json --out").argument(out).json()?;
    let cases = made["cases"].as_array().into_iter().flatten();
    let decryptions = cases.filter(|case| case["is_13"] == true).map(|case| {
        let file = |field: &str| case[field].as_str().unwrap_or_default().to_owned();
        let run = LAB.run("decrypt").argument(file("capture")).argument("--keys");
        (json!({ "name": case["name"] }), run.argument(file("keys")).argument("--json"))
    });
    read(series(decryptions))
        .each("runs[]", "{name}: {found/summary/verified} of {found/summary/protected}")
        .reduced(percentage, "runs[]", "found/summary/verified, found/summary/protected")
        .measure()
}
