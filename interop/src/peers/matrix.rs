//! The meetings of the matrix, run a few at a time, and the page with their results.

use super::{Cell, Cid, Network, Peer, Role, Suite, Version, meet};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// The name of this project among the peers.
pub const OURSELVES: &str = "Lightseal";

/// Number of concurrent meetings. They wait far more than they compute.
const AT_ONCE: usize = 4;

/// A meeting that is planned.
#[derive(Clone, Copy)]
pub struct PlannedMeeting<'a> {
    /// The peer that connects.
    pub client: &'a dyn Peer,
    /// The peer that serves.
    pub server: &'a dyn Peer,
    /// The parameters of the meeting.
    pub cell: Cell,
}

/// The outcome of a meeting.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Both payloads arrived, and the datagrams show the parameters that were asked for. The value
    /// is how long it took.
    Met(Duration),
    /// One of the two peers cannot do this: which one, and why.
    CannotBe(String),
    /// The meeting failed.
    Failed(super::Failure),
}

/// A meeting and its outcome.
pub struct Result<'a> {
    /// The meeting.
    pub appointment: PlannedMeeting<'a>,
    /// The meeting's outcome.
    pub outcome: Outcome,
}

/// Every cell of the matrix.
pub fn cells() -> Vec<Cell> {
    let all =
        |(cid, network, _)| Suite::ALL.map(|suite| Cell { cid, network, ..Cell::plain(suite) });
    COLUMNS.into_iter().flat_map(all).collect()
}

/// Every peer with us, in both roles and in every cell.
pub fn with_us(peers: &[Box<dyn Peer>]) -> Vec<PlannedMeeting<'_>> {
    let Some(ourselves) = peers.iter().find(|peer| peer.name() == OURSELVES) else {
        return Vec::new();
    };
    let (us, mut all) = (ourselves.as_ref(), Vec::new());
    for peer in peers.iter().map(AsRef::as_ref).filter(|peer| peer.name() != OURSELVES) {
        for mut cell in cells() {
            cell.single = peer.reads_first_message_only();
            all.push(PlannedMeeting { client: peer, server: us, cell });
            all.push(PlannedMeeting { client: us, server: peer, cell });
        }
    }
    all
}

/// Other peers with each other, every pair that has a suite in common, in one such suite, with and
/// without connection IDs. They show that the tests judge correctly before they judge us.
pub fn among_themselves(peers: &[Box<dyn Peer>]) -> Vec<PlannedMeeting<'_>> {
    let others = || peers.iter().map(AsRef::as_ref).filter(|peer| peer.name() != OURSELVES);
    let mut all = Vec::new();
    for client in others() {
        for server in others() {
            for cid in [Cid::None, Cid::BothEnds] {
                let fits = |suite: &Suite| {
                    let appointment = PlannedMeeting {
                        client,
                        server,
                        cell: Cell { cid, ..Cell::plain(*suite) },
                    };
                    appointment.is_possible().is_ok()
                };
                if let Some(suite) = Suite::ALL.into_iter().find(fits) {
                    all.push(PlannedMeeting {
                        client,
                        server,
                        cell: Cell { cid, ..Cell::plain(suite) },
                    });
                }
            }
        }
    }
    all
}

impl PlannedMeeting<'_> {
    /// Whether both peers can do their part.
    ///
    /// # Errors
    /// The reason why one of them cannot.
    pub fn is_possible(&self) -> std::result::Result<(), String> {
        for (role, peer) in [(Role::Client, self.client), (Role::Server, self.server)] {
            peer.supports(role, &self.cell)?;
        }
        Ok(())
    }

    fn hold(&self) -> Outcome {
        for peer in [self.client, self.server] {
            if let Err(reason) = peer.require() {
                return Outcome::CannotBe(format!("not installed: {reason}"));
            }
        }
        if let Err(reason) = self.is_possible() {
            return Outcome::CannotBe(reason);
        }
        match meet(self.client, self.server, &self.cell, self.seed()) {
            Ok(meeting) => Outcome::Met(meeting.took),
            Err(failure) => Outcome::Failed(failure),
        }
    }

    /// A seed that is the same in every run and different for every meeting.
    fn seed(&self) -> u64 {
        let text = format!("{} {} {}", self.client.name(), self.server.name(), self.cell);
        // FNV-1a.
        text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }
}

/// Runs all meetings, a few at a time, and calls `told` with each result. The returned results are
/// in the order of the appointments.
///
/// # Panics
/// A meeting panics.
pub fn hold<'a>(
    appointments: &[PlannedMeeting<'a>],
    told: &(dyn Fn(&Result<'a>) + Sync),
) -> Vec<Result<'a>> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(appointment) = appointments.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let place = std::ptr::from_ref(appointment) as usize;
                    let result = Result { appointment: *appointment, outcome: appointment.hold() };
                    told(&result);
                    results.lock().expect("no holder panics").push((place, result));
                }
            });
        }
    });
    let mut results = results.into_inner().expect("no holder panicked");
    results.sort_by_key(|(place, _)| *place);
    results.into_iter().map(|(_, result)| result).collect()
}

/// The numbers of successful, failed and impossible meetings.
pub fn count(results: &[Result<'_>]) -> [usize; 3] {
    results.iter().fold([0; 3], |mut count, result| {
        count[match result.outcome {
            Outcome::Met(_) => 0,
            Outcome::Failed(_) => 1,
            Outcome::CannotBe(_) => 2,
        }] += 1;
        count
    })
}

/// The line of one meeting.
pub fn line(result: &Result<'_>) -> String {
    let PlannedMeeting { client, server, cell } = result.appointment;
    let outcome = match &result.outcome {
        Outcome::Met(took) => format!("ok ({:.2} s)", took.as_secs_f64()),
        Outcome::Failed(failure) => format!("FAILED: {}", failure.reason),
        Outcome::CannotBe(reason) => format!("–: {reason}"),
    };
    format!("{} to {}, {cell}: {outcome}", client.name(), server.name())
}

/// All results as JSON.
pub fn json(results: &[Result<'_>]) -> Value {
    let rows: Vec<_> = results
        .iter()
        .map(|result| {
            let PlannedMeeting { client, server, cell } = result.appointment;
            let (outcome, reason) = match &result.outcome {
                Outcome::Met(_) => ("ok", None),
                Outcome::Failed(failure) => ("failed", Some(&failure.reason)),
                Outcome::CannotBe(reason) => ("impossible", Some(reason)),
            };
            json!({
                "client": client.name(),
                "server": server.name(),
                "version": cell.suite.version().to_string(),
                "suite": cell.suite.name(),
                "cid": cell.cid.to_string(),
                "network": cell.network.word(),
                "outcome": outcome,
                "reason": reason,
            })
        })
        .collect();
    let [met, failed, impossible] = count(results);
    json!({ "met": met, "failed": failed, "impossible": impossible, "meetings": rows })
}

/// All results as tables of a page in Markdown. Each peer and version has a table of the meetings that took
/// place, with a row for each suite and role and a column for each network and use of connection IDs. Below its
/// tables a peer has a list of what cannot take place, with each reason once.
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
            table(&mut text, version, peer.as_ref(), &of_version);
        }
        impossible(&mut text, &of_peer);
    }
    text
}

/// How a suite is tried, and the title of that column of the page.
type Column = (Cid, Network, &'static str);

const COLUMNS: [Column; 7] = [
    (Cid::None, Network::Good, "no CID"),
    (Cid::ToServer, Network::Good, "CID to server"),
    (Cid::ToClient, Network::Good, "CID to client"),
    (Cid::BothEnds, Network::Good, "CIDs both ways"),
    (Cid::BothEnds, Network::Rebinding, "CIDs both ways, rebinding"),
    (Cid::None, Network::Lossy, "no CID, loss"),
    (Cid::BothEnds, Network::Lossy, "CIDs both ways, loss"),
];

/// The meetings of one version that took place. Rows and columns without any are left out.
fn table(text: &mut String, version: Version, peer: &dyn Peer, results: &[&Result<'_>]) {
    let outcome = |suite: Suite, role: Role, (cid, network, _): Column| {
        let cell = Cell { suite, cid, network, single: peer.reads_first_message_only() };
        let result = results.iter().find(|result| {
            let PlannedMeeting { client, server, cell: its } = result.appointment;
            let is = if role == Role::Client { client } else { server };
            its == cell && is.name() == peer.name()
        });
        result.map(|result| &result.outcome)
    };
    let took_place = |suite: Suite, role: Role, column: Column| {
        matches!(outcome(suite, role, column), Some(Outcome::Met(_) | Outcome::Failed(_)))
    };
    let suites = Suite::ALL.into_iter().filter(|suite| suite.version() == version);
    let rows: Vec<(Suite, Role)> = suites
        .flat_map(|suite| Role::BOTH.map(|role| (suite, role)))
        .filter(|(suite, role)| COLUMNS.iter().any(|column| took_place(*suite, *role, *column)))
        .collect();
    if rows.is_empty() {
        return;
    }
    let columns: Vec<Column> = COLUMNS
        .into_iter()
        .filter(|column| rows.iter().any(|(suite, role)| took_place(*suite, *role, *column)))
        .collect();
    let _ = write!(text, "| DTLS {version} | {} is |", peer.name());
    for (_, _, title) in &columns {
        let _ = write!(text, " {title} |");
    }
    let _ = write!(text, "\n|---|---|{}\n", "---|".repeat(columns.len()));
    let mut failures: Vec<&str> = Vec::new();
    for (suite, role) in rows {
        let _ = write!(text, "| {} | {role} |", suite.name());
        for column in &columns {
            let entry = match outcome(suite, role, *column) {
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
            let suites = Suite::ALL.into_iter().filter(|suite| suite.version() == version);
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
