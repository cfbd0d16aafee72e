//! `cargo xtask firmware`: boards that QEMU emulates meet the host, and each other, over UDP.
//!
//! - [`images`]: the compiler for the boards, and the images that it makes;
//! - [`programs`]: the boards, and the host's end;
//! - [`meeting`]: two programs that exchange payloads, at least one of them on a board;
//! - [`gathering`]: boards that are members of a multicast group;
//! - [`campaign`]: many handshakes on a lossy network, and boards under attack.

pub(crate) mod campaign;
mod gathering;
mod images;
mod meeting;
mod programs;

use crate::Failure;
use crate::toolchain::Toolchain;
use gathering::{Gathering, Memory};
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
    /// Instead of the meetings: lint the sources of all programs for boards, which a run of all
    /// meetings does too
    #[arg(long, conflicts_with_all = ["handshakes", "mutations"])]
    lint: bool,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
}

/// The versions of DTLS, as the programs call them.
const VERSIONS: [&str; 2] = ["1.3", "1.2"];

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let toolchain = Toolchain::get()?;
    if arguments.lint {
        return images::lint(&toolchain);
    }
    let images = Images::build(&toolchain, &arguments.profile)?;
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
    if arguments.only.is_none() {
        lint(&toolchain)?;
    }
    let text = arguments.only.as_deref().unwrap_or_default();
    let chosen = encounters().into_iter().filter(|encounter| encounter.name().contains(text));
    let mut rows = Vec::new();
    for encounter in chosen {
        let row = encounter.hold(&images)?;
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

/// Lints the sources, unless the linter cannot be had here.
fn lint(toolchain: &Toolchain) -> Result<(), Failure> {
    match images::lint(toolchain) {
        Err(Failure::NotPossibleHere(reason)) => {
            eprintln!("the sources are not linted: {reason}");
            Ok(())
        }
        result => result,
    }
}

/// Prints the result of a campaign.
fn conclude(result: &Value, failed: u64, what: &str) -> Result<(), Failure> {
    println!("{result}");
    if failed == 0 { Ok(()) } else { Err(Failure::Failed(format!("{failed} {what}"))) }
}

/// What is held: a meeting of two, or a gathering of a group.
enum Encounter {
    Meeting(Meeting),
    Gathering(Gathering),
}

impl Encounter {
    fn name(&self) -> &str {
        match self {
            Self::Meeting(meeting) => &meeting.name,
            Self::Gathering(gathering) => &gathering.name,
        }
    }

    fn hold(&self, images: &Images) -> Result<Value, Failure> {
        match self {
            Self::Meeting(meeting) => meeting.hold(images),
            Self::Gathering(gathering) => gathering.hold(images),
        }
    }
}

fn encounters() -> Vec<Encounter> {
    let meetings = meetings().into_iter().chain(embassy()).chain(signers());
    let meetings = meetings.map(Encounter::Meeting);
    meetings.chain(gatherings().into_iter().map(Encounter::Gathering)).collect()
}

/// Clients in embassy.
fn embassy() -> Vec<Meeting> {
    let mut meetings = Vec::new();
    for version in VERSIONS {
        let meeting = |condition: &str, words: &str| {
            let words = format!("version={version} {words}");
            Meeting::new(Ends::EmbassyToHost, version, condition, &words)
        };
        meetings.extend([
            meeting("", "handshakes=10 payloads=8"),
            meeting(", 10 % loss", "handshakes=20 payloads=8 timeout=200").with_loss(100),
        ]);
    }
    meetings
}

/// Signers with LightMAC.
fn signers() -> Vec<Meeting> {
    let signer = |condition: &str, words: &str| {
        Meeting::new(Ends::SignerToHost, "LightMAC", condition, words)
    };
    vec![
        signer("", "payloads=200 bytes=300"),
        signer(", 10 % loss", "payloads=200 bytes=300 timeout=100").with_loss(100),
    ]
}

/// Groups in both profiles, in all forms of authenticity and responses.
fn gatherings() -> Vec<Gathering> {
    let mut gatherings = Vec::new();
    for profile in ["compact", "axiom-1.2"] {
        let group = |count, condition: &str, words: &str| {
            let words = format!("payloads=100 timeout=20 {words}");
            Gathering::new(profile, count, condition, &words)
        };
        gatherings.extend([
            group((4, 1), "", ""),
            group((3, 3), ", all send", ""),
            group((4, 1), ", 10 % loss", "").with_loss(100),
            group((4, 1), ", new keys, 10 % loss", "rekey=50").with_loss(100),
            group((3, 1), ", under attack", "attacked=true timeout=50").with_attacker(4),
        ]);
        let fixed = |count, condition: &str, words: &str| {
            let condition = format!(", fixed memory{condition}");
            group(count, &condition, words).with_memory(Memory::Fixed)
        };
        gatherings.extend([
            fixed((4, 1), "", ""),
            fixed((3, 3), ", all send", ""),
            fixed((4, 1), ", new keys, 10 % loss", "rekey=50").with_loss(100),
            fixed((3, 1), ", under attack", "attacked=true timeout=50").with_attacker(4),
            group((3, 3), ", fixed memory and heap", "").with_memory(Memory::Mixed),
        ]);
        if profile == "compact" {
            let slow = "timeout=100 payloads=40";
            gatherings.extend([
                group((4, 1), ", pairwise", "responses=pairwise"),
                group((4, 1), ", signed", &format!("authenticity=source {slow}")),
                group(
                    (3, 3),
                    ", signed and pairwise",
                    &format!("authenticity=source responses=pairwise {slow}"),
                ),
            ]);
        }
    }
    gatherings
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

/// A row of the table.
fn line(row: &Value) -> String {
    let verdict = if row["met"] == true { "ok" } else { "FAILED" };
    let counts = match row["members"].is_array() {
        true => gathering::line(row),
        false => meeting::line(row),
    };
    format!("{:44} {verdict:6} {counts}", row["name"].as_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of each kind on a network without loss, which take a few seconds.
    fn sample() -> Result<Vec<Value>, Failure> {
        let images = Images::build(&Toolchain::unpacked()?, "fast")?;
        let plain = |encounter: &Encounter| {
            let ends = ["1.3", "1.2", "LightMAC", "compact", "axiom-1.2", "fixed memory"];
            ends.iter().any(|end| encounter.name().ends_with(end))
        };
        encounters().iter().filter(|one| plain(one)).map(|one| one.hold(&images)).collect()
    }

    #[test]
    fn boards_meet_the_host_and_each_other() {
        match sample() {
            Ok(rows) => {
                let failed: Vec<_> = rows.iter().filter(|row| row["met"] != true).collect();
                assert!(failed.is_empty(), "{failed:?}");
                assert_eq!(rows.len(), 13);
            }
            Err(Failure::NotPossibleHere(reason)) => skip::test(&reason),
            Err(Failure::Failed(reason)) => panic!("{reason}"),
        }
    }

    #[test]
    fn names_of_meetings_are_unique() {
        let mut names: Vec<_> =
            encounters().iter().map(|encounter| encounter.name().to_owned()).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
