//! The page with the results of the matrix.

use super::matrix::{OURSELVES, Outcome, PlannedMeeting, Result};
use super::plan::{Column, Table};
use super::{Cell, Credential, Peer, Role, Suite, Version};
use std::fmt::Write as _;

/// All results as tables of a page in Markdown. Each peer and version has a table of the meetings with PSKs that
/// took place and one of those with certificates and raw public keys, with a row for each suite, credential, group
/// and role. Below its tables a peer has a list of what cannot take place, with each reason once.
pub fn page(peers: &[Box<dyn Peer>], results: &[Result<'_>]) -> String {
    let mut text = String::new();
    for peer in peers.iter().filter(|peer| peer.name() != OURSELVES) {
        let of_peer = |result: &&Result<'_>| {
            let PlannedMeeting { client, server, .. } = result.appointment;
            let is = |one: &dyn Peer, name| one.name() == name;
            is(client, peer.name()) && is(server, OURSELVES)
                || is(server, peer.name()) && is(client, OURSELVES)
        };
        let of_peer: Vec<_> = results.iter().filter(of_peer).collect();
        if of_peer.is_empty() {
            continue;
        }
        let _ = writeln!(text, "\n## {}\n\nVersion: {}\n", peer.name(), peer.version());
        if peer.reads_first_message_only() {
            text.push_str(
                "This peer treats a record with several handshake messages as an error, so Lightseal puts one\n\
                 message into each record (`Packing::RecordPerMessage`).\n\n",
            );
        }
        for version in [Version::Dtls12, Version::Dtls13] {
            let of_version: Vec<_> = of_peer
                .iter()
                .copied()
                .filter(|result| result.appointment.cell.suite.version() == version)
                .collect();
            for kind in Table::of(version) {
                table(&mut text, version, &kind, peer.as_ref(), &of_version);
            }
        }
        impossible(&mut text, &of_peer);
    }
    text
}

/// The meetings of one table that took place. Rows and columns without any are left out.
fn table(
    text: &mut String,
    version: Version,
    table: &Table,
    peer: &dyn Peer,
    results: &[&Result<'_>],
) {
    let outcome = |row: Cell, role: Role, (variant, _): Column| {
        let cell = Cell { single: peer.reads_first_message_only(), ..variant(row) };
        let result = results.iter().find(|result| {
            let PlannedMeeting { client, server, cell: its } = result.appointment;
            let is = if role == Role::Client { client } else { server };
            its == cell && is.name() == peer.name()
        });
        result.map(|result| &result.outcome)
    };
    let took_place = |row: Cell, role: Role, column: Column| {
        matches!(outcome(row, role, column), Some(Outcome::Met(_) | Outcome::Failed(_)))
    };
    let rows: Vec<(Cell, Role)> = table
        .rows
        .iter()
        .flat_map(|row| Role::BOTH.map(|role| (*row, role)))
        .filter(|(row, role)| table.columns.iter().any(|column| took_place(*row, *role, *column)))
        .collect();
    if rows.is_empty() {
        return;
    }
    let columns: Vec<Column> = table
        .columns
        .iter()
        .copied()
        .filter(|column| rows.iter().any(|(row, role)| took_place(*row, *role, *column)))
        .collect();
    let _ = write!(text, "| DTLS {version} | {} is |", peer.name());
    for (_, title) in &columns {
        let _ = write!(text, " {title} |");
    }
    let _ = write!(text, "\n|---|---|{}\n", "---|".repeat(columns.len()));
    let mut failures: Vec<&str> = Vec::new();
    for (row, role) in rows {
        let _ = match row.credential {
            Credential::Psk => write!(text, "| {} | {role} |", row.suite.name()),
            credential => {
                let (suite, group) = (row.suite.name(), row.group.name());
                write!(text, "| {credential}, {group}, {suite} | {role} |")
            }
        };
        for column in &columns {
            let entry = match outcome(row, role, *column) {
                None => String::new(),
                Some(Outcome::Met(_)) => "ok".into(),
                Some(Outcome::CannotBe(_)) => "–".into(),
                Some(Outcome::Failed(failure)) => {
                    let known = failures.iter().position(|known| *known == failure.reason);
                    let index = known.unwrap_or_else(|| {
                        failures.push(&failure.reason);
                        failures.len() - 1
                    });
                    format!("FAILED ({})", index + 1)
                }
            };
            let _ = write!(text, " {entry} |");
        }
        text.push('\n');
    }
    text.push('\n');
    for (index, reason) in failures.iter().enumerate() {
        let _ = writeln!(text, "({}) {reason}  ", index + 1);
    }
    if !failures.is_empty() {
        text.push('\n');
    }
}

/// Why a meeting cannot take place.
fn reason_of<'a>(result: &'a Result<'_>) -> Option<&'a str> {
    match &result.outcome {
        Outcome::CannotBe(reason) => Some(reason),
        Outcome::Met(_) | Outcome::Failed(_) => None,
    }
}

/// The reasons why meetings of one peer cannot take place, each once, behind the versions and suites that it
/// excludes as a whole.
fn impossible(text: &mut String, results: &[&Result<'_>]) {
    let mut reasons: Vec<&str> = Vec::new();
    for reason in results.iter().filter_map(|result| reason_of(result)) {
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    if !reasons.is_empty() {
        text.push_str("What cannot take place with this peer:\n\n");
    }
    for reason in reasons {
        let excludes = |is: &dyn Fn(Suite) -> bool| {
            let mut of_these =
                results.iter().filter(|result| is(result.appointment.cell.suite)).peekable();
            of_these.peek().is_some() && of_these.all(|result| reason_of(result) == Some(reason))
        };
        let mut excluded = Vec::new();
        for version in [Version::Dtls12, Version::Dtls13] {
            if excludes(&|suite: Suite| suite.version() == version) {
                excluded.push(format!("DTLS {version}"));
                continue;
            }
            let suites = Suite::all().filter(|suite| suite.version() == version);
            let suites = suites.filter(|suite| excludes(&|other: Suite| other == *suite));
            excluded.extend(suites.map(|suite| suite.name().to_owned()));
        }
        if excluded.is_empty() {
            let _ = writeln!(text, "- {reason}");
        } else {
            let _ = writeln!(text, "- {}: {reason}", excluded.join(", "));
        }
    }
}
