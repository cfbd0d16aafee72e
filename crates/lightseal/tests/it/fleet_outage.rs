//! What a fleet does while its database is away, full, slow or rolled back ([`crate::fleet`]).

use crate::fleet::crowd::{Crowd, at_share};
use crate::fleet::field::{Field, NODES, say};
use crate::fleet::slow_database::SlowDatabase;
use lightseal_dtls::ProtocolVersion::{Dtls12, Dtls13};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use testkit::postgres::{Durability, Postgres};

const REPORT: &str = "LIGHTSEAL_FLEET_OUTAGE_REPORT";

/// How long messages may take to arrive once the database is there again.
const PATIENCE: Duration = Duration::from_secs(30);

/// The size of a disk that is easily filled, in MiB.
const SMALL_DISK: u32 = 192;

/// Clients whose associations sleep.
fn asleep(clients: u64, database: Postgres, store: &str) -> (Field, Crowd) {
    let field = Field::new(database, store, clients);
    let mut crowd = Crowd::new(Arc::clone(&field.routes));
    crowd.connect(0..clients / 2, Dtls13);
    crowd.connect(clients / 2..clients, Dtls12);
    crowd.talk(crowd.seats.len(), Duration::from_secs(1));
    crowd.rounds(Duration::from_secs(2));
    crowd.hush();
    // They give back the numbers that they have reserved.
    crowd.rounds(Duration::from_secs(4));
    (field, crowd)
}

/// The slots that were taken and the associations that were taken over, at all nodes.
fn moves(field: &Field) -> u64 {
    let of = |report: &Value| {
        let fleet = &report["state"]["fleet"];
        fleet["taken"].as_u64().unwrap() + fleet["adopted"].as_u64().unwrap()
    };
    field.nodes.iter().map(|node| of(&node.report())).sum()
}

/// Each client sends a message within this time, while something is wrong with the database.
fn messages(crowd: &mut Crowd, time: Duration) {
    crowd.delays.clear();
    crowd.talk(crowd.seats.len(), time);
    crowd.rounds(time);
    crowd.hush();
}

/// What came of the messages when all was well again.
fn outcome(what: &str, field: &mut Field, crowd: &mut Crowd, before: u64) -> Value {
    crowd.until(PATIENCE, |crowd| crowd.lost().1 == 0);
    // Nodes that are late to come back would be taken for dead within this time.
    crowd.rounds(Duration::from_secs(5));
    field.listen();
    let (sent, lost) = crowd.lost();
    let moved = moves(field) - before;
    let repeated: u64 = crowd.seats.iter().map(|seat| seat.repeated).sum();
    let repeated = repeated + field.service.repeated().len() as u64;
    let ended = crowd.seats.iter().filter(|seat| seat.closed > 0).count();
    let late = at_share(&mut crowd.delays, 0.99);
    say(&format!(
        "{what}: {} messages, {lost} not delivered, {repeated} twice; 99 % within {late:.0} ms; {moved} \
         slots and associations moved; {ended} associations ended",
        crowd.delays.len(),
    ));
    json!({
        "sent": sent, "lost": lost, "repeated": repeated, "moved": moved, "ended": ended,
        "delay_99_ms": late, "stalls": field.stalls(),
    })
}

fn away(clients: u64, seconds: u64, database: Postgres) -> Value {
    let store = database.url();
    let (mut field, mut crowd) = asleep(clients, database, &store);
    field.database.stop();
    field.database.back_up("copy");
    field.database.resume();
    crowd.rounds(Duration::from_secs(5));
    let before = moves(&field);
    field.database.kill();
    messages(&mut crowd, Duration::from_secs(seconds));
    field.database.resume();
    let mut figures = outcome("database away", &mut field, &mut crowd, before);
    // A copy that is older than what the nodes have written.
    field.database.stop();
    field.database.restore("copy");
    field.database.resume();
    crowd.rounds(Duration::from_secs(5));
    field.listen();
    let saw = |log: &[String]| log.iter().any(|line| line.contains("the database was rolled back"));
    let blind = field.nodes.iter().filter(|node| !saw(&node.log)).count();
    let refused = field.is_refused(NODES[0], "rolled back");
    say(&format!("rolled-back copy: not seen by {blind} nodes; refused at a start: {refused}"));
    figures["copies_accepted"] = (blind + usize::from(!refused)).into();
    figures
}

fn slow(clients: u64, seconds: u64, database: Postgres) -> Value {
    let way = SlowDatabase::start(database.port());
    let store = format!("postgresql://postgres@{}/postgres", way.address);
    let (mut field, mut crowd) = asleep(clients, database, &store);
    let before = moves(&field);
    way.delay(Duration::from_secs(2));
    messages(&mut crowd, Duration::from_secs(seconds));
    way.delay(Duration::ZERO);
    outcome("answers delayed by 2 s", &mut field, &mut crowd, before)
}

fn full(clients: u64, seconds: u64, database: Postgres) -> Value {
    let store = database.url();
    let (mut field, mut crowd) = asleep(clients, database, &store);
    let before = moves(&field);
    field.database.fill_disk();
    messages(&mut crowd, Duration::from_secs(seconds));
    field.database.stop();
    field.database.free_disk();
    field.database.resume();
    outcome("disk full", &mut field, &mut crowd, before)
}

#[test]
fn messages_wait_while_the_database_is_away_full_or_slow() {
    let Ok(seconds) = std::env::var("LIGHTSEAL_FLEET_OUTAGE") else {
        return skip::test(
            "a campaign of minutes, which runs if LIGHTSEAL_FLEET_OUTAGE names the seconds of an outage",
        );
    };
    let seconds: u64 = seconds.parse().unwrap();
    let clients = std::env::var("LIGHTSEAL_FLEET_CLIENTS").map_or(300, |n| n.parse().unwrap());
    let mut report = json!({
        "why_not": null, "full_not": null, "seconds": seconds, "clients": clients,
    });
    let start = || Postgres::start(Durability::Machine);
    match start() {
        Err(reason) => report["why_not"] = reason.into(),
        Ok(database) => {
            report["away"] = away(clients, seconds, database);
            report["slow"] = slow(clients, seconds.min(20), start().unwrap());
            match Postgres::start_on_small_disk(SMALL_DISK) {
                Ok(database) => report["full"] = full(clients, seconds.min(20), database),
                Err(reason) => {
                    say(&format!("disk full: not measured here: {reason}"));
                    report["full_not"] = reason.into();
                }
            }
        }
    }
    say(&report.to_string());
    if let Ok(path) = std::env::var(REPORT) {
        std::fs::write(path, report.to_string()).unwrap();
    }
    for part in ["away", "slow", "full"] {
        let figures = &report[part];
        if !figures.is_null() {
            let bad =
                [&figures["lost"], &figures["repeated"], &figures["moved"], &figures["ended"]];
            assert_eq!(bad, [&json!(0); 4], "{part}: {figures}");
        }
    }
    assert!(report["away"].is_null() || report["away"]["copies_accepted"] == 0, "{report}");
}
