//! Claims on groups: what members must never do, and the bytes that messages take.

use super::prelude::*;
use crate::process::{capture, cargo, run, target_dir};

pub(super) fn claims() -> Vec<Claim> {
    [overheads(), rekeys(), campaigns()].into_iter().flatten().collect()
}

fn overheads() -> Vec<Claim> {
    vec![
        "Bytes beside the payload of a request, in a real record of profile axiom-1.2 with CCM_8. \
            Bar: the value in section 6.4 of the Axiom paper"
            .claim("group-overhead-axiom", Exactly(29.0), Seconds(2))
            .by(overhead("axiom-1.2", "request_bytes")),
        "Bytes beside the payload of a request, in a real record of profile compact with a tag of \
            8 B. Bar: our own target"
            .claim("group-overhead-request", AtMost(14.0), Seconds(2))
            .by(overhead("compact", "request_bytes")),
        "Bytes beside the payload of a response, in a real record of profile compact with a tag of \
            8 B. Bar: our own target"
            .claim("group-overhead-response", AtMost(16.0), Seconds(2))
            .by(overhead("compact", "response_bytes")),
    ]
}

/// The largest overhead of a profile's suites with 8-byte tags and without signatures, in bytes.
fn overhead(profile: &str, column: &'static str) -> Reading {
    read(with_tag_lengths)
        .each("rows[source=measured]", format!("{{protocol}}, {{protection}}: {{{column}}} B"))
        .reduced(
            greatest,
            format!("rows[source=measured][protocol={profile}][is_short=true]"),
            column,
        )
}

fn with_tag_lengths() -> Result<Value, Failure> {
    let mut figure = lab_figure("group-overhead").json()?;
    for row in figure["rows"].as_array_mut().into_iter().flatten() {
        let protection = row["protection"].as_str().unwrap_or_default();
        row["is_short"] = json!(protection.ends_with("CCM_8") || protection.ends_with(" 8 B"));
    }
    Ok(figure)
}

const REKEYS: &str = "{members} members, {leaves} leaves tried: {axiom_bytes} B in axiom-1.2, \
                      {compact_bytes} B in compact";

fn rekeys() -> Vec<Claim> {
    vec![
        "Bytes of the signed datagram that evicts one of 100 members: the costliest leaf and \
            profile. Bar: our own target"
            .claim("group-rekey-100", AtMost(480.0), Seconds(5))
            .by(rekey("100")),
        "Bytes of the signed datagram that evicts one of 100 000 members: the costliest leaf and \
            profile. Bar: our own target"
            .claim("group-rekey-100000", AtMost(1100.0), Seconds(5))
            .by(rekey("100000")),
        "Bytes of our datagram that evicts one of 100 members, over OpenMLS's smallest commit for \
            the same change in a group just made. Bar: our own target"
            .claim("group-rekey-openmls", AtMost(0.1), Seconds(60))
            .by(beside_openmls()),
    ]
}

fn rekey(members: &str) -> Reading {
    read(lab_figure("group-rekey")).each("rows[]", REKEYS).reduced(
        greatest,
        format!("rows[members={members}]"),
        "axiom_bytes, compact_bytes",
    )
}

fn beside_openmls() -> Reading {
    const AXIOM: &str = "ours/rows[members=100]/axiom_bytes";
    const COMPACT: &str = "ours/rows[members=100]/compact_bytes";
    const LEAST: &str = "theirs/cold_bytes/0";
    read(pair(("theirs", openmls), ("ours", lab_figure("group-rekey"))))
        .line(
            "OpenMLS, {theirs/suite}, any of 100 members evicted by the founder: \
             {theirs/cold_bytes/0} to {theirs/cold_bytes/1} B in a group that was just made, \
             {theirs/warm_bytes/0} to {theirs/warm_bytes/1} B once every member has committed\n\
             ours for the costliest leaf, signed, with its record:",
        )
        .each("ours/rows[]", REKEYS)
        .reduced(greatest, "", format!("{AXIOM} / {LEAST}, {COMPACT} / {LEAST}"))
}

/// Commits of OpenMLS. Its program is a workspace of its own, since OpenMLS needs a newer Rust than
/// ours.
fn openmls() -> Result<Value, Failure> {
    const MANIFEST: [&str; 3] = ["--locked", "--manifest-path", "interop/peers/openmls/Cargo.toml"];
    let fetch = cargo(&[&["fetch", "--quiet"], &MANIFEST[..]].concat());
    run(fetch)
        .map_err(|error| Failure::NotPossibleHere(format!("needs OpenMLS's crates ({error})")))?;
    let mut program = cargo(&[&["run", "--quiet", "--release"], &MANIFEST[..]].concat());
    program.arg("--target-dir").arg(target_dir().join("openmls")).arg("100");
    parsed("OpenMLS's program", capture(program).map_err(Failure::Failed)?)
}

fn campaigns() -> Vec<Claim> {
    vec![
        "Number of violations in 1000 random histories of joins, leaves, evictions, rekeys, \
            restarts and loss: records opened by a device outside the group, records delivered \
            twice, record numbers used twice. Bar: there may be none"
            .claim("group-histories", AtMost(0.0), Seconds(60))
            .by(histories()),
        "Number of nonces used twice under one key in 10 000 requests of two and of three machines \
            that join with one token, crash, stop and restart. Bar: there may be none"
            .claim("group-clones-token", AtMost(0.0), Seconds(60))
            .by(clones("token")),
        "Number of nonces used twice under one key in 10 000 requests of machines whose state \
            directories are copied among them, with a controller that restarts and is restored \
            from a backup. Bar: there may be none"
            .claim("group-clones-state", AtMost(0.0), Seconds(60))
            .by(clones("state")),
        "Number of panics, deliveries, changes of state and groups that no longer receive after 1 \
            000 000 random, altered, cut, foreign and repeated datagrams to members and \
            controllers, over every suite and policy. Bar: there may be none"
            .claim("group-noise", AtMost(0.0), Seconds(120))
            .by(noise()),
    ]
}

fn histories() -> Reading {
    read(CAMPAIGN.run("histories"))
        .line(
            "{histories} histories of seven kinds of groups: {epochs} epochs, {sealed} records \
             sealed, {delivered} delivered, {restarts} restarts, {naps} shutdowns, {gone} members \
             removed",
        )
        .needs("histories >= 1000")
        .needs("delivered >= 1000")
        .each("violations[]", "seed {seed}: {what}")
        .figure("#violations[]")
}

fn clones(copied: &str) -> Reading {
    read(CAMPAIGN.run(format!("clones {copied}")))
        .each(
            "reports[]",
            "{machines} machines a device: {requests} requests, {sealed} keys and nonces, \
             {delivered} records delivered, {joins} joins, {starts} starts taken, {copies} states \
             copied, {refused} machines refused, {restarts} restarts of the controller",
        )
        .needs("+reports[]/requests >= 10000")
        .reduced(sum, "reports[]", "repeated")
}

fn noise() -> Reading {
    read(CAMPAIGN.run("noise --count 1000000"))
        .line(
            "{datagrams} datagrams, {unicast} to members' own addresses, {to_controller} to \
             controllers, {short} shorter than a tag: {panics} panics, {deliveries} deliveries, \
             {touched} changes of state; {deaf} groups that no longer receive",
        )
        .needs("datagrams >= 1000000")
        .each("failures[]", "{}")
        .figure("panics + deliveries + touched + deaf")
}
