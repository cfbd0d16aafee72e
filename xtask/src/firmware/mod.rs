//! `cargo xtask firmware`: boards that QEMU emulates meet the host, and each other, over DTLS.
//!
//! - [`images`]: the compiler for the boards, and the images that it makes;
//! - [`meeting`]: two programs that exchange payloads, at least one of them on a board;
//! - [`campaign`]: many handshakes on a lossy network, and boards under attack.

pub(crate) mod campaign;
mod images;
mod meeting;

use crate::Failure;
use crate::toolchain::Toolchain;
use images::Images;
use meeting::{Ends, Meeting};
use serde_json::{Value, json};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The profile that the images are built with: small or fast
    #[arg(long, value_name = "NAME", default_value = "fast")]
    profile: String,
    /// Only meetings whose line contains this text
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Instead of the meetings: this many handshakes of each version while a tenth of the datagrams
    /// is lost
    #[arg(long, value_name = "N", conflicts_with = "mutations")]
    handshakes: Option<u32>,
    /// Instead of the meetings: at least this many altered, replayed and random datagrams to boards
    #[arg(long, value_name = "N")]
    mutations: Option<u64>,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
}

/// The versions of DTLS, as the programs call them.
const VERSIONS: [&str; 2] = ["1.3", "1.2"];

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let images = Images::build(&Toolchain::get()?, &arguments.profile)?;
    if let Some(count) = arguments.handshakes {
        let results = VERSIONS.map(|version| campaign::handshakes(&images, version, count));
        let results = results.into_iter().collect::<Result<Vec<_>, _>>()?;
        let failed = results.iter().map(|result| result["incomplete"].as_u64().unwrap_or(1)).sum();
        return conclude(&json!(results), failed, "handshakes are incomplete");
    }
    if let Some(count) = arguments.mutations {
        let result = campaign::mutations(&images, count)?;
        let faults = result["faults"].as_u64().unwrap_or(1);
        return conclude(&result, faults, "faults or false deliveries");
    }
    let text = arguments.only.as_deref().unwrap_or_default();
    let chosen = meetings().into_iter().filter(|meeting| meeting.name.contains(text));
    let mut rows = Vec::new();
    for meeting in chosen {
        let row = meeting.hold(&images)?;
        if !arguments.json {
            println!("{}", line(&row));
        }
        rows.push(row);
    }
    let failed = rows.iter().filter(|row| row["met"] != true).count();
    if arguments.json {
        println!("{}", json!(rows));
    }
    match failed {
        0 => Ok(()),
        _ => Err(Failure::Failed(format!("{failed} of {} meetings failed", rows.len()))),
    }
}

/// Prints the result of a campaign.
fn conclude(result: &Value, failed: u64, what: &str) -> Result<(), Failure> {
    println!("{result}");
    if failed == 0 { Ok(()) } else { Err(Failure::Failed(format!("{failed} {what}"))) }
}

/// The meetings of both versions, between all kinds of ends, under each condition.
fn meetings() -> Vec<Meeting> {
    let mut meetings = Vec::new();
    for version in VERSIONS {
        for ends in [Ends::BoardToHost, Ends::HostToBoard, Ends::BoardToBoard] {
            let meeting = |condition: &str, words: &str| {
                Meeting::new(ends, version, condition, &format!("version={version} {words}"))
            };
            meetings.push(meeting("", "handshakes=10 payloads=8"));
            meetings.push(
                meeting(", 10 % loss", "handshakes=20 payloads=8 timeout=200").with_loss(100),
            );
            // The host's client keeps its socket.
            if ends != Ends::HostToBoard {
                meetings.push(
                    meeting(", new port", "handshakes=3 payloads=20 ids=4 timeout=300")
                        .for_client("move=true"),
                );
            }
            if version == "1.3" {
                for scheme in ["agg:8", "r2d2:50"] {
                    let words = format!("handshakes=4 payloads=40 scheme={scheme}");
                    meetings.push(meeting(&format!(", {scheme}"), &words));
                }
            }
        }
    }
    meetings
}

/// A meeting as a row of the table.
fn line(row: &Value) -> String {
    let verdict = if row["met"] == true { "ok" } else { "FAILED" };
    let (client, server) = (&row["client"], &row["server"]);
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    format!(
        "{:44} {verdict:6} {:3} handshakes of {:6.1} ms, {:4} payloads echoed, {:3} datagrams lost",
        row["name"].as_str().unwrap_or_default(),
        number(&client["completed"]),
        number(&client["handshake_us"]) as f64 / 1000.0,
        number(&client["echoed"]),
        number(&client["lost"]) + number(&server["lost"]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The meetings on a network without loss, which take a few seconds.
    fn sample() -> Result<Vec<Value>, Failure> {
        let images = Images::build(&Toolchain::unpacked()?, "fast")?;
        let plain = |meeting: &Meeting| VERSIONS.iter().any(|v| meeting.name.ends_with(v));
        meetings().into_iter().filter(plain).map(|meeting| meeting.hold(&images)).collect()
    }

    #[test]
    fn boards_meet_the_host_and_each_other() {
        match sample() {
            Ok(rows) => {
                let failed: Vec<_> = rows.iter().filter(|row| row["met"] != true).collect();
                assert!(failed.is_empty(), "{failed:?}");
                assert_eq!(rows.len(), 6);
            }
            Err(Failure::NotPossibleHere(reason)) => skip::test(&reason),
            Err(Failure::Failed(reason)) => panic!("{reason}"),
        }
    }

    #[test]
    fn names_of_meetings_are_unique() {
        let mut names: Vec<_> = meetings().into_iter().map(|meeting| meeting.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
