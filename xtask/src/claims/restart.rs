//! Claims on associations that go on after their processes have ended, at any point in virtual time and
//! behind a server proxy that is killed.

use super::prelude::*;

pub(super) fn claims() -> Vec<Claim> {
    [crashes(), proxies()].into_iter().flatten().collect()
}

fn crashes() -> Vec<Claim> {
    let kinds = "both versions, PSKs, raw keys and certificates, shared tags of all schemes in half \
                 of them, delivery before they verify, requests for other schemes, a client that \
                 moves, loss and slow stores. Bar: there may be none";
    let random = |what: &str, name: &'static str, figure: &'static str| {
        format!(
            "{what} in 10 000 runs whose processes end up to seven times at random points: {kinds}"
        )
        .claim(name, AtMost(0.0), Seconds(120))
        .by(ended("restarts --count 10000")
            .needs("runs == 10000")
            .needs("10 * shared >= 4 * runs")
            .needs("kills_in_changes >= 2000")
            .figure(figure))
    };
    vec![
        random(
            "Number of runs in which an end seals two records under one key and number,",
            "crash-numbers",
            "numbers",
        ),
        random(
            "Number of runs in which a payload is delivered twice,",
            "crash-payloads",
            "payloads",
        ),
        random(
            "Number of runs in which shared tags seem to prove that a genuine record was forged,",
            "crash-forgeries",
            "forgeries",
        ),
        random(
            "Number of runs in which saved associations need another handshake,",
            "crash-handshakes",
            "handshakes",
        ),
        random(
            "Number of runs that do not end in an echo both ways,",
            "crash-silences",
            "silences",
        ),
        format!(
            "Number of runs in which anything goes wrong, when a run of each kind is repeated with \
             an end at each of its points, and when an end is restarted 20 times while its peer \
             sleeps: {kinds}"
        )
        .claim("crash-points", AtMost(0.0), Seconds(120))
        .by(ended("restarts --every-point")
            .needs("runs >= 1000")
            .figure("numbers + payloads + forgeries + handshakes + silences")),
    ]
}

fn ended(campaign: &str) -> Reading {
    read(CAMPAIGN.run(campaign))
        .line(
            "{runs} runs, {kills} processes ended, {restored} associations restored, {records} \
             records read by the observer, {delivered} payloads delivered",
        )
        .line(
            "{shared} runs with shared tags: {changes} changes of a scheme, {kills_in_changes} \
             processes ended during one",
        )
        .each("failures[]", "{}")
        // Processes that end before they have stored anything begin anew.
        .needs("10 * restored >= 9 * runs")
        .needs("records >= 10 * runs")
}

fn proxies() -> Vec<Claim> {
    vec![
        "Bytes that an association takes in the store of a server proxy, sealed, with its keys in \
            the tables, a connection ID of 8 bytes and an identity of 16: 10 000 associations of \
            DTLS 1.3. Bar: what Californium saves"
            .claim("proxy-restart-bytes", AtMost(284.0), Seconds(180))
            .by(killed().figure("bytes")),
        "Number of handshakes that 10 000 associations need after kill -9 of their server proxy, \
            and of associations that do not go on. Bar: there may be none"
            .claim("proxy-restart-handshakes", AtMost(0.0), Seconds(180))
            .by(killed().figure("handshakes + associations - restored")),
    ]
}

const KILLED: LongTest = LongTest {
    package: "lightseal",
    file: "proxy_state",
    name: "many_associations_go_on_after_a_kill",
    // Number of associations.
    length: ("LIGHTSEAL_RESTART", 10_000),
    report: "LIGHTSEAL_RESTART_REPORT",
};

fn killed() -> Reading {
    read(KILLED)
        .line(
            "{restored} of {associations} associations taken over in {restore_ms_per_thousand:.1} ms \
             a thousand, {start_ms_per_thousand:.1} ms with the start of the program and its \
             sockets",
        )
        .line(
            "{bytes:.1} B each in the store, {index_bytes:.1} B of the index besides; \
             {resident_bytes:.0} B each in memory, sockets towards the service included",
        )
        .needs("associations >= 10000")
}
