//! What a fleet of three nodes does when nodes are killed or stopped, or the database is away
//! ([`crate::fleet`]).

use crate::fleet::crowd::{Crowd, at_share};
use crate::fleet::field::{Field, NODES, say};
use lightseal_dtls::ProtocolVersion::{Dtls12, Dtls13};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use testkit::postgres::{Durability, Postgres};

/// How long a client may be silent after a death until it counts as one that does not go on.
const PATIENCE: Duration = Duration::from_secs(20);

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap())
}

/// The length of a campaign, from the variable that asks for it.
fn asked(name: &str) -> Option<u64> {
    let length = variable(name);
    if length.is_none() {
        skip::test(format!("a campaign of minutes, which runs if {name} is set"));
    }
    length
}

fn database() -> Result<Postgres, String> {
    // Each client has a socket here, and each association one of its node.
    let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current = limit.maximum;
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
    Postgres::start(Durability::Machine)
}

/// Writes the report where the claim reads it.
fn report(variable: &str, report: &Value) {
    say(&report.to_string());
    if let Ok(path) = std::env::var(variable) {
        std::fs::write(path, report.to_string()).unwrap();
    }
}

fn impossible(variable: &str, reason: String) {
    report(variable, &json!({ "why_not": reason }));
    skip::test(reason);
}

/// A field and clients of both versions that are connected, `each` at each node.
fn connected(each: u64, database: Postgres, spare: u64) -> (Field, Crowd) {
    let all = each * NODES.len() as u64;
    let store = database.url();
    let field = Field::new(database, &store, all + spare);
    let mut crowd = Crowd::new(Arc::clone(&field.routes));
    let began = Instant::now();
    crowd.connect(0..all / 2, Dtls13);
    crowd.connect(all / 2..all, Dtls12);
    say(&format!("{all} clients connected in {:.1} s", began.elapsed().as_secs_f64()));
    crowd.audit();
    (field, crowd)
}

/// What a death costs.
#[derive(Default)]
struct Deaths {
    detection_ms: Vec<f64>,
    first_ms: Vec<f64>,
    affected: u64,
    silent: u64,
    begun: u64,
    begun_lost: u64,
}

/// Kills a node, and waits until all of its clients have an answer again.
fn kill(field: &mut Field, crowd: &mut Crowd, victim: u8, retry: Duration, all: usize) -> Deaths {
    let mut deaths = Deaths::default();
    let begun: Vec<_> =
        (0..4).map(|n| crowd.begin(all as u64 + n, if n < 2 { Dtls13 } else { Dtls12 })).collect();
    field.routes.watch(victim);
    field.node(victim).kill();
    let killed = Instant::now();
    let mut affected = Vec::new();
    for (at, seat) in crowd.seats.iter_mut().enumerate().take(all) {
        if seat.slot.and_then(|slot| field.routes.owner(slot)) == Some(victim) {
            seat.hurry(retry);
            affected.push(at);
        }
    }
    let has_answer = |crowd: &Crowd, at: &usize| {
        crowd.seats[*at].answered_at.is_some_and(|answered| answered > killed)
    };
    let routes = Arc::clone(&field.routes);
    let done = |crowd: &Crowd| {
        routes.gone_at().is_some() && affected.iter().all(|at| has_answer(crowd, at))
    };
    // Answers that were under way when the node died say nothing.
    crowd.rounds(Duration::from_millis(100));
    for at in &affected {
        crowd.seats[*at].answered_at = None;
    }
    crowd.until(PATIENCE, done);
    let Some(gone) = routes.gone_at() else {
        deaths.silent = affected.len() as u64;
        return deaths;
    };
    deaths.detection_ms.push((gone - killed).as_secs_f64() * 1e3);
    for at in &affected {
        match crowd.seats[*at].answered_at.filter(|answered| *answered > killed) {
            Some(when) => {
                let ms = when.saturating_duration_since(gone).as_secs_f64() * 1e3;
                deaths.first_ms.push(ms);
                if std::env::var_os("LIGHTSEAL_FLEET_LOG").is_some() {
                    say(&format!("client {at}: {ms:.0} ms"));
                }
            }
            None => deaths.silent += 1,
        }
    }
    deaths.affected = affected.len() as u64;
    let pace = Duration::from_secs(1);
    affected.iter().for_each(|at| crowd.seats[*at].pace = pace);
    deaths.begun = begun.len() as u64;
    deaths.begun_lost = begun.iter().filter(|at| crowd.seats[**at].handshakes == 0).count() as u64;
    // They belong to nobody who talks.
    crowd.dismiss(begun.len());
    deaths
}

/// What came of a campaign, beside times.
fn outcome(field: &mut Field, crowd: &mut Crowd, all: usize) -> Value {
    crowd.hush();
    crowd.rounds(Duration::from_secs(3));
    field.listen();
    let (sent, lost) = crowd.lost();
    let seats = &crowd.seats[..all];
    let again = seats.iter().filter(|seat| seat.handshakes != 1 || seat.closed > 0).count();
    let repeated: u64 = seats.iter().map(|seat| seat.repeated).sum();
    let repeated = repeated + field.service.repeated().len() as u64;
    say("reading what was captured");
    let findings = crowd.take_audit().unwrap().end();
    json!({
        "why_not": null, "clients": all, "sent": sent, "lost": lost, "handshakes": again, "repeated": repeated,
        "records": findings.records, "unread": findings.unread, "alerts": findings.alerts,
        "reused": findings.reused, "stalls": field.stalls(),
    })
}

#[test]
fn clients_go_on_when_nodes_are_killed() {
    const REPORT: &str = "LIGHTSEAL_FLEET_KILLS_REPORT";
    let Some(kills) = asked("LIGHTSEAL_FLEET_KILLS") else { return };
    let each = variable("LIGHTSEAL_FLEET_CLIENTS").unwrap_or(1000);
    let database = match database() {
        Ok(database) => database,
        Err(reason) => return impossible(REPORT, reason),
    };
    let (mut field, mut crowd) = connected(each, database, 4);
    let all = crowd.seats.len();
    crowd.talk(all, Duration::from_secs(1));
    crowd.rounds(Duration::from_secs(2));
    let mut sum = Deaths::default();
    for round in 0..kills {
        let victim = NODES[round as usize % NODES.len()];
        let deaths = kill(&mut field, &mut crowd, victim, Duration::from_millis(250), all);
        let mut first = deaths.first_ms.clone();
        let detection = deaths.detection_ms.first().copied().unwrap_or(f64::NAN);
        say(&format!(
            "kill {} of {kills}: node {victim} with {} associations; slots taken after {detection:.0} ms, \
             then first answers after {:.0} ms (median), {:.0} ms (99 %); {} silent; {} of {} handshakes \
             under way lost",
            round + 1,
            deaths.affected,
            at_share(&mut first, 0.5),
            at_share(&mut first, 0.99),
            deaths.silent,
            deaths.begun_lost,
            deaths.begun,
        ));
        sum.detection_ms.extend(deaths.detection_ms);
        sum.first_ms.extend(deaths.first_ms);
        sum.affected += deaths.affected;
        sum.silent += deaths.silent;
        sum.begun += deaths.begun;
        sum.begun_lost += deaths.begun_lost;
        field.listen();
        field.restart(victim);
        field.share_while(|| crowd.round());
        field.listen();
    }
    let mut figures = outcome(&mut field, &mut crowd, all);
    figures["kills"] = kills.into();
    figures["detection_ms"] = at_share(&mut sum.detection_ms, 1.0).into();
    figures["first_median_ms"] = at_share(&mut sum.first_ms, 0.5).into();
    figures["first_99_ms"] = at_share(&mut sum.first_ms, 0.99).into();
    figures["affected"] = sum.affected.into();
    figures["silent"] = sum.silent.into();
    figures["begun"] = sum.begun.into();
    figures["begun_lost"] = sum.begun_lost.into();
    report(REPORT, &figures);
    assert_eq!((&figures["reused"], &figures["repeated"]), (&json!([]), &json!(0)), "{figures}");
}

#[test]
fn many_clients_of_one_node_go_on_when_it_is_killed() {
    const REPORT: &str = "LIGHTSEAL_FLEET_TAKEOVER_REPORT";
    let Some(count) = asked("LIGHTSEAL_FLEET_TAKEOVER") else { return };
    let database = match database() {
        Ok(database) => database,
        Err(reason) => return impossible(REPORT, reason),
    };
    let store = database.url();
    let mut field = Field::new(database, &store, count + 4);
    let mut crowd = Crowd::new(Arc::clone(&field.routes));
    field.routes.prefer(Some(NODES[0]));
    crowd.connect(0..count / 2, Dtls13);
    crowd.connect(count / 2..count, Dtls12);
    field.routes.prefer(None);
    crowd.audit();
    let all = crowd.seats.len();
    crowd.talk(all, Duration::from_secs(20));
    say(&format!("{all} clients at node {}", NODES[0]));
    crowd.rounds(Duration::from_secs(25));
    let deaths = kill(&mut field, &mut crowd, NODES[0], Duration::from_secs(1), all);
    let mut first = deaths.first_ms.clone();
    let mut figures = outcome(&mut field, &mut crowd, all);
    figures["affected"] = deaths.affected.into();
    figures["silent"] = deaths.silent.into();
    figures["detection_ms"] = deaths.detection_ms.first().copied().into();
    figures["first_median_ms"] = at_share(&mut first, 0.5).into();
    figures["first_99_ms"] = at_share(&mut first, 0.99).into();
    report(REPORT, &figures);
    assert_eq!((&figures["reused"], &figures["repeated"]), (&json!([]), &json!(0)), "{figures}");
}

#[test]
fn a_node_that_was_stopped_does_no_harm_when_it_wakes() {
    const REPORT: &str = "LIGHTSEAL_FLEET_STOPS_REPORT";
    let Some(stops) = asked("LIGHTSEAL_FLEET_STOPS") else { return };
    let each = variable("LIGHTSEAL_FLEET_CLIENTS").unwrap_or(100);
    let database = match database() {
        Ok(database) => database,
        Err(reason) => return impossible(REPORT, reason),
    };
    let (mut field, mut crowd) = connected(each, database, 0);
    let all = crowd.seats.len();
    crowd.talk(all, Duration::from_millis(500));
    crowd.rounds(Duration::from_secs(2));
    let mut undetected = 0;
    for round in 0..stops {
        let victim = NODES[round as usize % NODES.len()];
        field.listen();
        field.routes.watch(victim);
        field.node(victim).is_down = true;
        field.node(victim).signal("STOP");
        let routes = Arc::clone(&field.routes);
        let taken = crowd.until(PATIENCE, |_| routes.gone_at().is_some());
        undetected += u64::from(!taken);
        // The others go on, with numbers that the node has not reserved.
        crowd.rounds(Duration::from_secs(2));
        field.node(victim).signal("CONT");
        // It gets its slots back.
        crowd.rounds(Duration::from_secs(3));
        field.share_while(|| crowd.round());
        field.listen();
        field.node(victim).is_down = false;
        say(&format!("stop {} of {stops}: node {victim}, taken over: {taken}", round + 1));
    }
    let rows = || field.database.query("SELECT count(*) FROM lightseal.mark").unwrap();
    let rows: u64 = rows().parse().unwrap();
    let mut figures = outcome(&mut field, &mut crowd, all);
    figures["stops"] = stops.into();
    figures["undetected"] = undetected.into();
    figures["deleted"] = (all as u64 - rows.min(all as u64)).into();
    report(REPORT, &figures);
    assert_eq!((&figures["reused"], &figures["repeated"]), (&json!([]), &json!(0)), "{figures}");
}
