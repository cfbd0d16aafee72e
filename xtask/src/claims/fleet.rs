//! Claims on several server proxies that share their associations.

use super::prelude::*;

pub(super) fn claims() -> Vec<Claim> {
    [routes(), kills(), others(), rows()].into_iter().flatten().collect()
}

fn routes() -> Vec<Claim> {
    vec![
        "Number of datagrams that came to another node than their connection ID or sender says, or \
            got no answer, of 100 000 through the rules of `lightseal proxy fleet nft` in a kernel: \
            both versions, both address families, slots that move meanwhile. Bar: there may be none"
            .claim("fleet-routing", AtMost(0.0), Seconds(40))
            .by(routed()),
    ]
}

fn routing() -> Result<Value, Failure> {
    if !cfg!(target_os = "linux") {
        return Err(Failure::NotPossibleHere("nftables".into()));
    }
    let test = LongTest {
        package: "lightseal",
        file: "fleet_nft",
        name: "the_kernel_shares_out_datagrams_by_connection_id",
        // Number of datagrams.
        length: ("LIGHTSEAL_ROUTED", 100_000),
        report: "LIGHTSEAL_ROUTED_REPORT",
    };
    test.run()
}

fn routed() -> Reading {
    read(routing)
        .needs("datagrams >= 100000")
        .needs("fragments == 6")
        .line(
            "{datagrams} arrived, {misrouted} at a wrong node; {unanswered} without an answer; receive \
            offload was on",
        )
        .line(
            "{rate:.0} datagrams a second answered through the rules, {plain_rate:.0} through plain \
            forwarding",
        )
        .reduced(sum, "", ["misrouted", "unanswered"].join(", "))
}

/// Nodes that are killed while 1000 clients of each of three nodes send a message a second. The variable
/// `LIGHTSEAL_FLEET_CLIENTS` sets another number of clients, for a trial.
const KILLS: LongTest = LongTest {
    package: "lightseal",
    file: "fleet_campaigns",
    name: "clients_go_on_when_nodes_are_killed",
    length: ("LIGHTSEAL_FLEET_KILLS", 50),
    report: "LIGHTSEAL_FLEET_KILLS_REPORT",
};

fn kills() -> Vec<Claim> {
    let run = "50 kills with SIGKILL of one of three server proxies, each with about 1000 associations \
               of both versions that send a message a second, and four times a second after a kill";
    let claim = |what: &str, name: &'static str, bar: f64, figure: &'static str| {
        format!("{what}: {run}").claim(name, AtMost(bar), Seconds(420)).by(killed().figure(figure))
    };
    vec![
        claim(
            "Longest time in milliseconds from a kill until the slots of the node are all taken. Bar: \
             our own target",
            "fleet-kill-detection",
            2000.0,
            "detection_ms",
        ),
        claim(
            "Time in milliseconds from then until the first answer, median of all associations of the \
             nodes that were killed. Bar: our own target",
            "fleet-kill-median",
            1000.0,
            "first_median_ms",
        ),
        claim(
            "Time in milliseconds from then until the first answer, which 99 % do not exceed. Bar: our own \
             target",
            "fleet-kill-99",
            3000.0,
            "first_99_ms",
        ),
        claim(
            "Number of associations that ended, needed another handshake or got no answer. Bar: there may \
             be none",
            "fleet-kill-handshakes",
            0.0,
            "handshakes + silent",
        ),
        claim(
            "Number of record numbers that were used twice under one key, in either direction, as an \
             observer with the clients' secrets reads them at the clients' sockets. Bar: there may be \
             none",
            "fleet-kill-numbers",
            0.0,
            "#reused[]",
        ),
        claim(
            "Number of payloads that were delivered twice, to the service or to a client. Bar: there may \
             be none",
            "fleet-kill-payloads",
            0.0,
            "repeated",
        ),
    ]
}

/// What all campaigns print beside their figures.
fn campaign(test: LongTest) -> Reading {
    read(test)
        .possible_if("#why_not == 0", "{why_not}")
        .line("{clients} clients; {sent} messages sent, {lost} without an answer")
        .line("{records} different records read, {unread} not read")
        .line(
            "{stalls} times a node was taken for dead that the machine gave no processor for a second",
        )
        .each("reused[]", "number used twice: {}")
        .needs("records > sent")
}

fn killed() -> Reading {
    campaign(KILLS)
        .line(
            "{kills} kills, {affected} associations at the nodes that were killed, {silent} silent",
        )
        .line(
            "slots taken after {detection_ms:.0} ms at most; then the first answer after \
             {first_median_ms:.0} ms (median), {first_99_ms:.0} ms (99 %)",
        )
        .line("{begun} handshakes were under way at the kills, and {begun_lost} of them were lost")
        .needs("kills >= 50")
        .needs("affected >= 300 * kills")
}

fn others() -> Vec<Claim> {
    let (taken, stopped) = (
        LongTest {
            name: "many_clients_of_one_node_go_on_when_it_is_killed",
            // Number of clients.
            length: ("LIGHTSEAL_FLEET_TAKEOVER", 10_000),
            report: "LIGHTSEAL_FLEET_TAKEOVER_REPORT",
            ..KILLS
        },
        LongTest {
            name: "a_node_that_was_stopped_does_no_harm_when_it_wakes",
            // Number of stops.
            length: ("LIGHTSEAL_FLEET_STOPS", 12),
            report: "LIGHTSEAL_FLEET_STOPS_REPORT",
            ..KILLS
        },
    );
    vec![
        "Time in milliseconds until the first answer, median, once the slots of a server proxy with \
            10 000 associations are taken that was killed. Bar: our own target"
            .claim("fleet-takeover-10000", AtMost(3000.0), Seconds(240))
            .by(campaign(taken)
                .line("{affected} associations taken over, {silent} silent; {first_99_ms:.0} ms (99 %)")
                .needs("affected >= 10000")
                .needs("silent + handshakes + repeated + #reused[] == 0")
                .figure("first_median_ms")),
        "Number of record numbers used twice, payloads delivered twice, alerts, associations ended and \
            rows deleted when one of three server proxies is stopped (SIGSTOP), others take over, and \
            it wakes, 12 times. Bar: there may be none"
            .claim("fleet-stopped-node", AtMost(0.0), Seconds(180))
            .by(campaign(stopped)
                .line("{stops} stops, {undetected} not noticed; {alerts} alerts, {deleted} rows deleted")
                .needs("stops >= 12")
                .needs("undetected == 0")
                .figure("#reused[] + repeated + alerts + handshakes + deleted")),
        "Number of messages of sleeping devices that did not arrive or arrived twice, of slots and \
            associations that moved, of associations that ended, and of rolled-back copies accepted, when \
            the database of three server proxies is away for 60 s, its answers come 2 s late, its disk is \
            full, or an older copy takes its place. Bar: there may be none"
            .claim("fleet-outage", AtMost(0.0), Seconds(300))
            .by(outage()),
    ]
}

/// A fleet whose database has a million associations.
const ROWS: LongTest = LongTest {
    file: "proxy_million",
    name: "a_proxy_with_many_rows_in_its_database_starts_and_others_come",
    length: ("LIGHTSEAL_ROWS", 1_000_000),
    report: "LIGHTSEAL_ROWS_REPORT",
    ..KILLS
};

fn rows() -> Vec<Claim> {
    let million = || {
        read(ROWS)
            .needs("rows >= 1000000")
            .line("{rows} rows; a proxy that reads all of them answers after {alone:.1} s")
            .line("another node answers {beside:.1} s after its start; all sealed anew in {reseal:.0} s")
    };
    vec![
        "Seconds from the start of a server proxy until it answers a new client, if a million rows \
            are its own in its PostgreSQL database, which it opens before it begins. The keys of \
            their peers are lacking, so that it keeps none in memory. Bar: our own target"
            .claim("fleet-rows-start", AtMost(30.0), Seconds(60))
            .by(million().figure("alone")),
        "Seconds from the start of a node of a fleet until it answers a new client, beside a million \
            rows that are another node's at first. Bar: our own target"
            .claim("fleet-rows-beside", AtMost(5.0), Seconds(60))
            .by(million().figure("beside")),
        "Seconds in which `lightseal proxy fleet reseal` seals a million rows under another key. \
            Bar: our own target"
            .claim("fleet-rows-reseal", AtMost(60.0), Seconds(60))
            .by(million().figure("reseal")),
    ]
}

const OUTAGE: LongTest = LongTest {
    file: "fleet_outage",
    name: "messages_wait_while_the_database_is_away_full_or_slow",
    // Seconds.
    length: ("LIGHTSEAL_FLEET_OUTAGE", 60),
    report: "LIGHTSEAL_FLEET_OUTAGE_REPORT",
    ..KILLS
};

fn outage() -> Reading {
    let parts = "lost + repeated + moved + ended";
    let line = |of: &str, name: &str| {
        format!(
            "{name}: {{{of}/sent}} messages, {{{of}/lost}} not delivered, {{{of}/repeated}} twice; 99 % \
             within {{{of}/delay_99_ms:.0}} ms; {{{of}/moved}} slots and associations moved; \
             {{{of}/stalls}} times a node got no processor"
        )
    };
    let sum = ["away", "slow", "full"].map(|part| {
        parts.split(" + ").map(|what| format!("{part}/{what}")).collect::<Vec<_>>().join(" + ")
    });
    read(OUTAGE)
        .possible_if("#why_not == 0", "{why_not}")
        .possible_if("#full_not == 0", "a disk that is easily filled: {full_not}")
        .line(line("away", "away"))
        .line(line("slow", "answers 2 s late"))
        .line(line("full", "disk full"))
        .line("{away/copies_accepted} nodes went on with a rolled-back copy")
        .needs("seconds >= 60")
        .needs("clients >= 300")
        .figure(format!("{} + away/copies_accepted", sum.join(" + ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_of_a_campaign_is_read_from_its_report() {
        let mut report = json!({
            "why_not": null, "clients": 3000, "sent": 10, "lost": 1, "records": 40, "unread": 0,
            "stalls": 0, "reused": [], "kills": 50, "affected": 50_000, "silent": 0, "handshakes": 0,
            "repeated": 0, "detection_ms": 1200.5, "first_median_ms": 300.0, "first_99_ms": 900.0,
            "begun": 200, "begun_lost": 7, "passed": 1,
        });
        let figure = |report: &Value, of: &str| killed().figure(of.to_owned()).judge(report);
        assert!(figure(&report, "detection_ms").is_ok_and(|measured| measured.figure == 1200.5));
        report["reused"] = json!(["one", "two"]);
        assert!(figure(&report, "#reused[]").is_ok_and(|measured| measured.figure == 2.0));
        report["kills"] = json!(3);
        assert!(matches!(figure(&report, "repeated"), Err(Failure::Failed(_))));
        report["why_not"] = json!("no initdb");
        assert!(matches!(figure(&report, "repeated"), Err(Failure::NotPossibleHere(_))));
        let part = json!({ "sent": 300, "lost": 1, "repeated": 2, "moved": 4, "ended": 8,
                           "delay_99_ms": 5.0, "stalls": 0, "copies_accepted": 16 });
        let report = json!({ "why_not": null, "full_not": null, "seconds": 60, "clients": 300,
                             "away": part, "slow": part, "full": part });
        assert!(outage().judge(&report).is_ok_and(|measured| measured.figure == 61.0));
    }
}
