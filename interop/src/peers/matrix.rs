//! The meetings of the matrix, run a few at a time.

use super::plan::cells;
use super::{Cell, Cid, Credential, Files, Peer, Role, Suite, meet};
use serde_json::{Value, json};
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
    // dimpl's PSK handshakes do not complete with pion and tinydtls.
    let others = || {
        let peers = peers.iter().map(AsRef::as_ref);
        peers.filter(|peer| ![OURSELVES, "dimpl"].contains(&peer.name()))
    };
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
                if let Some(suite) = Suite::all().find(fits) {
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

    fn hold(&self, files: &Files) -> Outcome {
        for peer in [self.client, self.server] {
            if let Err(reason) = peer.require() {
                return Outcome::CannotBe(format!("not installed: {reason}"));
            }
        }
        if let Err(reason) = self.is_possible() {
            return Outcome::CannotBe(reason);
        }
        match meet(self.client, self.server, &self.cell, files, self.seed()) {
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
/// A meeting panics, or the keys and certificates cannot be written.
pub fn hold<'a>(
    appointments: &[PlannedMeeting<'a>],
    told: &(dyn Fn(&Result<'a>) + Sync),
) -> Vec<Result<'a>> {
    let files = Files::new().expect("a folder for keys and certificates");
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(appointment) = appointments.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let place = std::ptr::from_ref(appointment) as usize;
                    let result =
                        Result { appointment: *appointment, outcome: appointment.hold(&files) };
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
                "credential": cell.credential.to_string(),
                "group": (cell.credential != Credential::Psk).then(|| cell.group.name()),
                "client_authentication": cell.mutual,
                "retried": cell.retried,
                "resumed": cell.resumed,
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
