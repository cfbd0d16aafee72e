//! Claims on keys that a server proxy looks up one by one.

use super::prelude::*;

pub(super) fn claims() -> Vec<Claim> {
    vec![
        "Seconds from a revocation to the end of the device's association, the longest of 20 with \
            each of a file, a directory, a program and a PostgreSQL table of pre-shared keys and \
            with a table of public keys, and of 20 with each of the last four that come when an \
            outage of the source ends. Bar: one second"
            .claim("keys-revocation", AtMost(1.0), Seconds(300))
            .by(revoked()),
        "Keys that a server proxy looks up in its database in a second, under a million hellos \
            without cookies and as many records with invented connection IDs, 20 000 a second \
            together, and clients with invented identities that answer their cookies, while 1000 \
            flows talk. Bar: the limit that the proxy is given"
            .claim("keys-lookups", AtMost(100.0), Seconds(180))
            .by(looked_up()),
        "Messages of 1000 flows that are lost under this load, in percent, beyond those that are \
            lost under the same load without DTLS. Bar: our own target"
            .claim("keys-flood-loss", AtMost(1.0), Seconds(180))
            .by(lost()),
    ]
}

fn long(
    name: &'static str,
    length: (&'static str, u32),
    report: &'static str,
) -> Result<Value, Failure> {
    if !cfg!(target_os = "linux") {
        return Err(Failure::NotPossibleHere("addresses of 127.0.0.0/8".into()));
    }
    let test = LongTest { package: "lightseal", file: "proxy_keys_load", name, length, report };
    let figures = test.run()?;
    match figures["missing"].as_str() {
        Some(missing) => Err(Failure::NotPossibleHere(missing.to_owned())),
        None => Ok(figures),
    }
}

fn revocations() -> Result<Value, Failure> {
    let length = ("LIGHTSEAL_REVOCATIONS", 20);
    long("revocations_are_measured", length, "LIGHTSEAL_REVOCATIONS_REPORT")
}

fn revoked() -> Reading {
    read(revocations)
        .needs("#sources[] == 5")
        .needs_each("sources[]", "rounds >= 20")
        .each("sources[]", "{source}: {seconds:.2} s")
        .each("sources[after_outage!=null]", "{source}: {after_outage} after an outage")
        .figure("slowest")
}

fn flooded() -> Result<Value, Failure> {
    let length = ("LIGHTSEAL_KEY_FLOOD", 1_000_000);
    long("floods_are_measured", length, "LIGHTSEAL_KEY_FLOOD_REPORT")
}

fn flood() -> Reading {
    read(flooded)
        .needs("hellos >= 1000000")
        .needs("flows >= 1000")
        // The server has heard most of the flood.
        .needs("cookies_asked >= hellos / 2")
        .line(
            "{hellos} hellos in {seconds:.0} s, {cookies_asked} answered with a cookie; {looked_up} \
             keys looked up in {calls} questions to the database, {overflows} refused a place",
        )
        .line(
            "{dtls/lost} of {dtls/sent} messages lost; without DTLS {plain/lost} of {plain/sent}",
        )
}

fn looked_up() -> Reading {
    // If nobody asks, the limit is not tried.
    flood().needs("looked_up >= 1000").figure("a_second")
}

fn lost() -> Reading {
    flood().figure("100 * dtls/lost / dtls/sent - 100 * plain/lost / plain/sent")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(looked_up: u64, lost: u64) -> Value {
        json!({
            "hellos": 1_000_000, "seconds": 100.0, "flows": 1000, "cookies_asked": 990_000,
            "looked_up": looked_up, "a_second": looked_up as f64 / 100.0, "overflows": 3, "waiting": 1, "calls": 900,
            "dtls": { "sent": 200_000, "lost": lost },
            "plain": { "sent": 40_000, "lost": 40 },
        })
    }

    #[test]
    fn look_ups_count_by_the_second_and_losses_beside_those_without_dtls() {
        let figure = |reading: Reading, report: &Value| reading.judge(report).map(|of| of.figure);
        assert_eq!(figure(looked_up(), &report(9000, 0)).unwrap(), 90.0);
        assert!(matches!(figure(looked_up(), &report(999, 0)), Err(Failure::Failed(_))));
        let lost_more = figure(lost(), &report(9000, 2200)).unwrap();
        assert!((lost_more - 1.0).abs() < 1e-9, "{lost_more}");
        let mut small = report(9000, 0);
        small["cookies_asked"] = json!(400_000);
        assert!(matches!(figure(lost(), &small), Err(Failure::Failed(_))));
    }

    #[test]
    fn the_slowest_revocation_counts_and_all_sources_are_there() {
        let source = |name, after_outage: Option<&str>| json!({ "source": name, "rounds": 20, "seconds": 0.3, "after_outage": after_outage });
        let mut rows = ["--psk-dir", "--psk-command", "--psk-table", "--allow-table"]
            .map(|name| source(name, Some("0.90 s")))
            .to_vec();
        rows.push(source("--psk-file", None));
        let figure = |rows: &[Value]| {
            let report = json!({ "sources": rows, "slowest": 0.9 });
            revoked().judge(&report).map(|measured| measured.figure)
        };
        assert_eq!(figure(&rows).unwrap(), 0.9);
        rows.pop();
        assert!(matches!(figure(&rows), Err(Failure::Failed(_))));
    }
}
