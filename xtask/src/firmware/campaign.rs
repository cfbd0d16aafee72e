//! Many handshakes on a lossy network, boards under attack, and all groups of boards.

use super::VERSIONS;
use super::images::Images;
use super::meeting::{Ends, Meeting};
use crate::Failure;
use crate::toolchain::Toolchain;
use serde_json::{Value, json};
use std::time::Duration;

/// How many of 1000 datagrams are lost in each direction.
const LOSS: u32 = 100;

/// The datagrams that an attacker sends ahead of each genuine one, to a server and to a client. An
/// altered ServerHello, which is in plaintext, ends a client's handshake; with few copies some
/// handshakes are completed, and their records are attacked too.
const COPIES: (u32, u32) = (8, 2);

/// The handshakes of one round under attack.
const ROUND: u32 = 220;

/// A network of a few milliseconds has short timeouts.
const TIMEOUT: &str = "timeout=100";

/// Builds the images, and counts incomplete handshakes as [`handshakes`] does.
pub(crate) fn measure_handshakes(version: &str, count: u32) -> Result<Value, Failure> {
    handshakes(&Images::build(&Toolchain::unpacked()?, "fast")?, version, count)
}

/// Builds the images, and attacks boards as [`mutations`] does.
pub(crate) fn measure_mutations(count: u64) -> Result<Value, Failure> {
    mutations(&Images::build(&Toolchain::unpacked()?, "fast")?, count)
}

/// Builds the images, and holds the gatherings as [`groups`] does.
pub(crate) fn measure_groups() -> Result<Value, Failure> {
    groups(&Images::build(&Toolchain::unpacked()?, "fast")?)
}

/// Holds every gathering of boards once, and adds up what was delivered. A fault is a payload that
/// was forged or delivered twice, or a gathering in which payloads were missed that nobody lost.
fn groups(images: &Images) -> Result<Value, Failure> {
    let gatherings = super::gatherings();
    let rows = gatherings.iter().map(|gathering| gathering.hold(images));
    let rows = rows.collect::<Result<Vec<_>, _>>()?;
    let sum = |key: &str| rows.iter().map(|row| number(&row[key])).sum::<u64>();
    let failures: Vec<_> = rows.iter().filter(|row| row["met"] != true).collect();
    Ok(json!({
        "groups": rows.len(),
        "boards": sum("boards"),
        "requests": sum("requests"),
        "delivered": sum("delivered"),
        "missed": sum("missed"),
        "responses": sum("responses"),
        "lost": sum("lost"),
        "altered": sum("altered"),
        "forged": sum("forged"),
        "faults": sum("forged") + failures.len() as u64,
        "failures": failures,
    }))
}

/// Makes `count` handshakes, half of them with the client on the board and half with the server
/// there, and counts those that were not completed and confirmed by an echoed payload.
pub(super) fn handshakes(images: &Images, version: &str, count: u32) -> Result<Value, Failure> {
    let halves = [(Ends::BoardToHost, count / 2), (Ends::HostToBoard, count - count / 2)];
    let (mut confirmed, mut lost, mut rows) = (0, 0, Vec::new());
    for (ends, count) in halves {
        let words = format!("version={version} handshakes={count} payloads=1 {TIMEOUT}");
        let patience = Duration::from_secs(60 + u64::from(count) * 2);
        let meeting = Meeting::new(ends, version, ", handshakes", &words).with_loss(LOSS);
        let row = meeting.with_patience(patience).hold(images)?;
        confirmed += number(&row["client"]["echoed"]).min(number(&row["client"]["completed"]));
        lost += number(&row["client"]["lost"]) + number(&row["server"]["lost"]);
        rows.push(row);
    }
    Ok(json!({
        "version": version,
        "handshakes": count,
        "incomplete": u64::from(count).saturating_sub(confirmed),
        "lost": lost,
        "meetings": rows,
    }))
}

/// Sends at least `count` altered, replayed and random datagrams to boards, and counts faults of a
/// board, payloads that nobody sent and payloads that were delivered twice.
pub(super) fn mutations(images: &Images, count: u64) -> Result<Value, Failure> {
    let (mut arrived, mut faults, mut completed, mut delivered) = (0, 0, 0, 0);
    let mut failures = Vec::new();
    let mut round = 0;
    while arrived < count {
        for (version, ends) in VERSIONS
            .into_iter()
            .flat_map(|version| [(version, Ends::BoardToHost), (version, Ends::HostToBoard)])
        {
            let row = attacked(version, ends, round).hold(images)?;
            let (board, host) = match ends {
                Ends::BoardToHost => (&row["client"], &row["server"]),
                _ => (&row["server"], &row["client"]),
            };
            let genuine = number(&host["sent"]);
            arrived += number(&board["received"]).saturating_sub(genuine);
            completed += number(&row["client"]["completed"]);
            delivered += number(&row["client"]["echoed"]);
            let false_deliveries: u64 = [board, host]
                .iter()
                .flat_map(|end| [&end["alien"], &end["replayed"]])
                .map(number)
                .sum();
            // A board that ended without a report has a fault.
            faults += false_deliveries + u64::from(row["met"] != true);
            if row["met"] != true {
                failures.push(row);
            }
        }
        round += 1;
        if !failures.is_empty() {
            break;
        }
    }
    Ok(json!({
        "arrived": arrived,
        "faults": faults,
        "completed": completed,
        "echoed": delivered,
        "failures": failures,
    }))
}

/// A meeting under attack, whose handshakes may fail: an attacker on the path can end a handshake.
fn attacked(version: &str, ends: Ends, round: u64) -> Meeting {
    let words = format!(
        "version={version} payloads=8 attacked=true deadline=1000 quiet=4000 ids=4 {TIMEOUT}"
    );
    let (to_server, to_client) = COPIES;
    let copies = if ends == Ends::BoardToHost { to_client } else { to_server };
    Meeting::new(ends, version, ", under attack", &words)
        .for_client(&format!("handshakes={ROUND} seed={}", 2 * round + 1000))
        .for_server(&format!("handshakes=1 seed={}", 2 * round + 1001))
        .with_attacker(copies)
        .with_patience(Duration::from_secs(600))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}
