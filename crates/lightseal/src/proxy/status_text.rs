//! A proxy's report as text for people, in lines of at most 80 columns.

use super::report::{Flows, Messages, Peer, REASONS, Report};
use crate::units::{counted, spoken};
use std::fmt::Write as _;

/// The usual width of a terminal.
const COLUMNS: usize = 80;

/// Maximum number of peers that are shown one by one; `--json` shows all.
const SHOWN_PEERS: usize = 100;

/// Rates per second between two reports.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rates {
    pub(super) outward: f64,
    pub(super) inward: f64,
    pub(super) drops: f64,
}

impl Rates {
    /// The rates between two reports that are `seconds` apart. A proxy that was restarted counts
    /// from zero.
    pub(super) fn between(before: &Report, now: &Report, seconds: f64) -> Self {
        let rate = |before: u64, now: u64| now.saturating_sub(before) as f64 / seconds.max(1e-3);
        Self {
            outward: rate(before.outward.messages, now.outward.messages),
            inward: rate(before.inward.messages, now.inward.messages),
            drops: rate(dropped(before), dropped(now)),
        }
    }
}

fn dropped(report: &Report) -> u64 {
    report.drops.values().sum()
}

/// The names of the two ends between which a proxy carries messages: its local side, and the other
/// proxy.
struct Ends {
    local: &'static str,
    other: &'static str,
}

fn ends(report: &Report) -> Ends {
    match report.role.as_str() {
        "client" => Ends { local: "applications", other: "server proxy" },
        _ => Ends { local: "service", other: "client proxies" },
    }
}

/// The whole report, with rates if they are given.
pub(super) fn text(report: &Report, rates: Option<Rates>) -> String {
    let mut lines = Lines::default();
    let Report { role, version, listen, connect, .. } = report;
    let Ends { local, other } = ends(report);
    let up = spoken(report.uptime_seconds);
    lines.wrapped(0, &format!("{role} proxy, up {up}, lightseal {version}"));
    let (from, to) = if role == "client" { (local, other) } else { (other, local) };
    lines.wrapped(
        0,
        &format!("receives from {from} at {listen} and carries to the {to} at {connect}"),
    );
    let Flows { open, opened, refused, failed, resumed } = report.flows;
    lines.wrapped(
        0,
        &format!(
            "flows: {open} open; since the start {opened} opened, {refused} refused, {failed} failed, \
             {resumed} resumed"
        ),
    );
    if let Some(keys) = &report.keys {
        lines.wrapped(0, &keys.line());
    }
    if let Some(routing) = &report.routing {
        lines.wrapped(0, &routing.line());
    }
    if let Some(state) = &report.state {
        lines.wrapped(0, &state.line());
    }
    lines.empty();
    let ways = [
        (local, other, report.outward, rates.map(|rates| rates.outward)),
        (other, local, report.inward, rates.map(|rates| rates.inward)),
    ];
    for (from, to, carried, rate) in ways {
        let Messages { messages, bytes } = carried;
        let rate = rate.map_or_else(String::new, |rate| format!(", {rate:.0} a second"));
        lines.wrapped(
            0,
            &format!(
                "from {from} to {to}: {}{rate}, {}",
                counted(messages, "message"),
                counted(bytes, "byte")
            ),
        );
    }
    for peer in report.peers.iter().take(SHOWN_PEERS) {
        lines.empty();
        lines.peer(peer);
    }
    let hidden = report.peers.len().saturating_sub(SHOWN_PEERS) as u64 + report.peers_left_out;
    if hidden > 0 {
        lines.empty();
        lines.wrapped(0, &format!("and {}; --json shows them", counted(hidden, "peer")));
    }
    lines.drops(report, rates);
    lines.0
}

/// The report as one line of the log: what was carried, what was dropped and why.
pub(crate) fn summary(report: &Report) -> String {
    let Ends { local, other } = ends(report);
    let mut line = format!(
        "after {}: {}; {} from {local}, {} from {other}",
        spoken(report.uptime_seconds),
        counted(report.flows.opened, "flow"),
        counted(report.outward.messages, "message"),
        counted(report.inward.messages, "message")
    );
    let reasons = REASONS.iter().filter_map(|reason| {
        let count = *report.drops.get(reason.name)?;
        (count > 0).then(|| format!("{count} {} ({})", reason.name, reason.meaning))
    });
    let reasons: Vec<_> = reasons.collect();
    if reasons.is_empty() {
        line += "; nothing was dropped";
    } else {
        let _ = write!(line, "; dropped: {}", reasons.join(", "));
    }
    line
}

/// One line of `--watch` for an output that is no terminal.
pub(super) fn line(report: &Report, rates: Rates) -> String {
    let Ends { local, other } = ends(report);
    format!(
        "{} proxy at {}: {} open; {:.0} messages/s from {local}, {:.0} messages/s from {other}; {} \
         dropped so far, {:.0}/s\n",
        report.role,
        report.listen,
        counted(report.flows.open, "flow"),
        rates.outward,
        rates.inward,
        dropped(report),
        rates.drops
    )
}

#[derive(Default)]
struct Lines(String);

impl Lines {
    fn empty(&mut self) {
        self.0.push('\n');
    }

    /// Breaks `text` between words. Lines after the first are indented further. A word that is
    /// longer than a line is cut.
    fn wrapped(&mut self, indent: usize, text: &str) {
        let mut column = 0;
        for word in text.split(' ') {
            let margin = if column == 0 { indent } else { indent + 2 };
            let length = word.chars().count();
            if column > 0 && column + 1 + length <= COLUMNS {
                self.0.push(' ');
                column += 1;
            } else {
                if column > 0 {
                    self.0.push('\n');
                }
                self.0.extend(std::iter::repeat_n(' ', margin));
                column = margin;
            }
            let room = COLUMNS - column;
            if length > room {
                self.0.extend(word.chars().take(room - 1).chain(['…']));
                column = COLUMNS;
            } else {
                self.0.push_str(word);
                column += length;
            }
        }
        self.0.push('\n');
    }

    fn peer(&mut self, peer: &Peer) {
        // Any identity is shown as one word without control characters, so that a peer cannot
        // affect the terminal.
        let plain = |c: char| if c.is_control() || c.is_whitespace() { '?' } else { c };
        let identity: String = peer.identity.chars().map(plain).collect();
        let identity = if identity.is_empty() { "(no identity yet)" } else { &*identity };
        let mut head = match &peer.application {
            Some(application) => {
                format!("{identity}: application {application}, server {}", peer.address)
            }
            None => format!("{identity}: client {}", peer.address),
        };
        if let Some(port) = peer.service_port {
            let _ = match &peer.source_address {
                Some(address) => write!(head, ", {address} port {port} towards the service"),
                None => write!(head, ", port {port} towards the service"),
            };
        }
        self.wrapped(0, &head);
        let mut association = match (&peer.dtls, &peer.suite) {
            (Some(dtls), Some(suite)) => format!("{dtls}, {suite}"),
            _ => "the handshake is not complete".to_owned(),
        };
        if let Some(mode) = &peer.key_exchange {
            let _ = write!(association, ", {mode}");
        }
        if peer.resumed {
            association += ", resumed";
        }
        let ids = [("out", &peer.outward_connection_id), ("in", &peer.inward_connection_id)];
        for (way, id) in ids.into_iter().filter(|(_, id)| !id.is_empty()) {
            let _ = write!(association, ", connection ID {way} {id}");
        }
        self.wrapped(2, &association);
        if let (Some(out), Some(back)) = (&peer.outward_tags, &peer.inward_tags) {
            let tags = match (&**out, &**back) {
                ("off", "off") => "a full tag in each record".to_owned(),
                (out, back) => format!("shared tags: {out} out, {back} in"),
            };
            self.wrapped(2, &tags);
        }
        let loss = |loss: Option<f64>| match loss {
            Some(loss) => format!(" ({:.1} % lost lately)", loss * 100.0),
            None => String::new(),
        };
        self.wrapped(
            2,
            &format!(
                "sent {}{}, received {}{}; idle for {}",
                counted(peer.outward.messages, "message"),
                loss(peer.outward_loss),
                counted(peer.inward.messages, "message"),
                loss(peer.inward_loss),
                spoken(peer.idle_seconds)
            ),
        );
    }

    fn drops(&mut self, report: &Report, rates: Option<Rates>) {
        self.empty();
        if dropped(report) == 0 {
            return self.wrapped(0, "nothing was dropped");
        }
        let rate =
            rates.map_or_else(String::new, |rates| format!(", now {:.0} a second", rates.drops));
        self.wrapped(0, &format!("dropped since the start{rate}:"));
        for reason in REASONS {
            let count = report.drops.get(reason.name).copied().unwrap_or(0);
            if count > 0 {
                self.wrapped(2, &format!("{count} {}: {}", reason.name, reason.meaning));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::report::StateReport;
    use super::*;

    fn report() -> Report {
        let flow = |identity: &str, address: &str| Peer {
            identity: identity.into(),
            address: address.into(),
            application: Some("127.0.0.1:51460".into()),
            connected: true,
            dtls: Some("DTLS 1.3".into()),
            suite: Some("TLS_AES_128_GCM_SHA256".into()),
            key_exchange: Some("PSK_DHE_KE".into()),
            outward_tags: Some("agg:8".into()),
            inward_tags: Some("off".into()),
            outward_connection_id: "1a2b3c4d".into(),
            idle_seconds: 3,
            outward: Messages { messages: 1200, bytes: 36_000 },
            inward: Messages { messages: 1, bytes: 30 },
            outward_loss: Some(0.0123),
            ..Peer::default()
        };
        let long = "[fe80::1234:5678:9abc:def0%wlxaabbccddeeff]:65535";
        Report {
            role: "client".into(),
            version: "0.1.0".into(),
            uptime_seconds: 7_265,
            listen: "127.0.0.1:5683".into(),
            connect: "192.0.2.1:5684".into(),
            flows: Flows { open: 2, opened: 5, refused: 0, failed: 1, resumed: 2 },
            outward: Messages { messages: 2400, bytes: 72_000 },
            inward: Messages { messages: 2, bytes: 60 },
            drops: [("stale".into(), 12), ("too_long".into(), 0)].into(),
            routing: None,
            keys: None,
            state: None,
            peers: vec![flow("sensor-7", "192.0.2.1:5684"), flow(&"x".repeat(256), long)],
            peers_left_out: 0,
        }
    }

    #[test]
    fn a_stranger_reads_it_in_80_columns() {
        let mut report = report();
        report.peers.push(Peer { identity: "a\n\u{1b}[2J".into(), ..Peer::default() });
        let text = text(&report, None);
        for expected in [
            "client proxy, up 2 h 01 min, lightseal 0.1.0\n",
            "receives from applications at 127.0.0.1:5683 and carries to the server proxy at\n  192.0.2.1:5684\n",
            "flows: 2 open; since the start 5 opened, 0 refused, 1 failed, 2 resumed\n",
            "from applications to server proxy: 2400 messages, 72000 bytes\n",
            "from server proxy to applications: 2 messages, 60 bytes\n",
            "sensor-7: application 127.0.0.1:51460, server 192.0.2.1:5684\n",
            "  DTLS 1.3, TLS_AES_128_GCM_SHA256, PSK_DHE_KE, connection ID out 1a2b3c4d\n",
            "  shared tags: agg:8 out, off in\n",
            "  sent 1200 messages (1.2 % lost lately), received 1 message; idle for 3 s\n",
            "a??[2J: client",
            "  12 stale: waited too long for an association (--max-age)\n",
        ] {
            assert!(text.contains(expected), "{expected:?} is not in\n{text}");
        }
        assert!(!text.contains("too_long"), "what did not happen is not shown:\n{text}");
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
    }

    #[test]
    fn stored_associations_are_shown_with_what_was_not_restored() {
        let mut report = report();
        assert!(!text(&report, None).contains("stored"));
        let refused = [("the peer's certificate was revoked".into(), 2)].into();
        let state = StateReport { stored: 12, restored: 9, refused, ..StateReport::default() };
        report.state = Some(StateReport { fails: true, ..state.clone() });
        let text = text(&report, None);
        let expected = "stored associations: 12; 9 restored at the start, 2 not: the peer's certificate\n  \
                        was revoked; the store cannot be written, and associations wait\n";
        assert!(text.contains(expected), "{text}");
        assert!(state.line().ends_with("was revoked"), "{}", state.line());
    }

    #[test]
    fn rates_are_differences_and_never_negative() {
        let (before, mut now) = (report(), report());
        now.outward.messages += 1000;
        now.drops.insert("stale".into(), 22);
        let rates = Rates::between(&before, &now, 2.0);
        assert_eq!((rates.outward, rates.inward, rates.drops), (500.0, 0.0, 5.0));
        assert_eq!(Rates::between(&now, &before, 2.0).outward, 0.0);
        let text = text(&now, Some(rates));
        assert!(text.contains("2 messages, 0 a second"), "{text}");
        assert!(text.contains("dropped since the start, now 5 a second:"), "{text}");
        let line = line(&now, rates);
        assert!(line.contains("500 messages/s from applications"), "{line}");
    }

    #[test]
    fn the_summary_names_what_was_dropped() {
        let mut report = report();
        assert_eq!(
            summary(&report),
            "after 2 h 01 min: 5 flows; 2400 messages from applications, 2 messages from server \
             proxy; dropped: 12 stale (waited too long for an association (--max-age))"
        );
        report.drops.clear();
        assert!(summary(&report).ends_with("from server proxy; nothing was dropped"));
    }

    #[test]
    fn of_many_peers_some_are_shown_and_the_others_counted() {
        let mut report = report();
        report.peers = vec![Peer::default(); SHOWN_PEERS + 3];
        report.peers_left_out = 4;
        let text = text(&report, None);
        assert!(text.contains("and 7 peers; --json shows them"), "{text}");
    }
}
