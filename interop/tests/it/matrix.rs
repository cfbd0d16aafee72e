//! One handshake in every possible cell of the matrix, peer by peer. Meetings with loss take longer
//! and are made by `cargo xtask interop`.

use interop::foreign::Foreign;
use interop::peers::matrix::{self, Outcome, PlannedMeeting};
use interop::peers::{self, Cell, Cid, Network, Peer, Program, Role, Suite};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

fn peers() -> Vec<Box<dyn Peer>> {
    let program = Path::new(env!("CARGO_BIN_EXE_peer"));
    peers::all(program.parent().expect("a file is in a folder"))
}

fn is_lossy(cell: &Cell) -> bool {
    cell.network == Network::Lossy
}

/// Runs all possible meetings. There must be at least `least`, and every one must succeed.
fn hold(meetings: Vec<PlannedMeeting<'_>>, least: usize) {
    let meetings: Vec<_> =
        meetings.into_iter().filter(|meeting| meeting.is_possible().is_ok()).collect();
    let told = |result: &matrix::Result<'_>| {
        println!("{}", matrix::line(result));
        if let Outcome::Failed(failure) = &result.outcome {
            println!("{}", failure.trace);
        }
    };
    let [met, failed, _] = matrix::count(&matrix::hold(&meetings, &told));
    assert_eq!(failed, 0);
    assert!(met >= least, "{met} of at least {least}");
}

/// Checks that a peer is on this machine or can be built. The error is the reason why not.
fn require(peer: &dyn Peer) -> Result<(), String> {
    peer.require().map_err(|reason| format!("{}: {reason}", peer.name()))
}

/// Every cell that we and the peer with this name can both do.
fn with(name: &str, least: usize) {
    let peers = peers();
    let peer = peers.iter().find(|peer| peer.name() == name).expect("it is a peer's name");
    if let Err(reason) = require(&**peer) {
        return skip::test(reason);
    }
    let mut meetings = matrix::with_us(&peers);
    meetings.retain(|meeting| !is_lossy(&meeting.cell));
    meetings.retain(|meeting| [meeting.client.name(), meeting.server.name()].contains(&name));
    hold(meetings, least);
}

#[test]
fn peers_meet_each_other() {
    let peers = peers();
    let mut meetings = matrix::among_themselves(&peers);
    let mut missing = Vec::new();
    for peer in &peers {
        if let Err(reason) = require(&**peer) {
            skip::part(peer.name(), reason);
            missing.push(peer.name());
        }
    }
    let is_there = |peer: &dyn Peer| !missing.contains(&peer.name());
    meetings.retain(|meeting| is_there(meeting.client) && is_there(meeting.server));
    hold(meetings, if missing.is_empty() { 3 } else { 0 });
}

/// In this page every possible meeting with tinydtls counts as one that took place.
#[test]
fn the_page_has_what_took_place_and_each_reason_once() {
    let peers = peers();
    let mut meetings = matrix::with_us(&peers);
    meetings.retain(|meeting| [meeting.client.name(), meeting.server.name()].contains(&"tinydtls"));
    let mut results = Vec::new();
    for appointment in meetings {
        let outcome = match appointment.is_possible() {
            Ok(()) => Outcome::Met(Duration::ZERO),
            Err(reason) => Outcome::CannotBe(reason),
        };
        results.push(matrix::Result { appointment, outcome });
    }
    let page = matrix::page(&peers, &results);
    let rows: Vec<_> = page.lines().filter(|line| line.starts_with("| TLS_")).collect();
    let expected = ["client", "server"]
        .map(|role| format!("| TLS_PSK_WITH_AES_128_CCM_8 | {role} | ok | ok |"));
    assert_eq!(rows, expected);
    for once in [
        "| DTLS 1.2 | tinydtls is | no CID | no CID, loss |\n",
        "\n- tinydtls has no connection IDs\n",
        ": not a suite of tinydtls\n",
        "\n- DTLS 1.3: tinydtls has no DTLS 1.3\n",
    ] {
        assert_eq!(page.matches(once).count(), 1, "{once:?} in {page}");
    }
    assert!(!page.contains('–'), "{page}");
}

/// The two peers with connection IDs, in every suite and use of them that both have.
#[test]
fn pion_and_scandium_meet_in_every_cell() {
    if let Err(reason) = Foreign::ALL.iter().try_for_each(|peer| require(peer)) {
        return skip::test(reason);
    }
    let (pion, scandium) = (&Foreign::Pion, &Foreign::Scandium);
    let mut meetings = Vec::new();
    for cell in matrix::cells().into_iter().filter(|cell| !is_lossy(cell)) {
        meetings.push(PlannedMeeting { client: pion, server: scandium, cell });
        meetings.push(PlannedMeeting { client: scandium, server: pion, cell });
    }
    // Three suites, four uses of connection IDs and a rebinding NAT, in two roles.
    hold(meetings, 30);
}

#[test]
fn openssl() {
    with("OpenSSL", 8);
}

#[test]
fn gnutls() {
    with("GnuTLS", 4);
}

#[test]
fn mbed_tls() {
    with("Mbed TLS", 8);
}

#[test]
fn tinydtls() {
    with("tinydtls", 2);
}

#[test]
fn pion() {
    // Four suites in two roles, four uses of connection IDs; a NAT if pion is the client.
    with("pion", 4 * 2 * 4 + 4);
}

#[test]
fn scandium() {
    with("Scandium", 5 * 2 * 4 + 5);
}

#[test]
fn wolfssl() {
    with("wolfSSL", 26);
}

/// A peer that claims to support every cell, and always does another one.
struct Pretender<'a>(&'a dyn Peer, Cell);

impl Peer for Pretender<'_> {
    fn name(&self) -> &'static str {
        "a pretender"
    }

    fn version(&self) -> String {
        self.0.version()
    }

    fn require(&self) -> Result<(), String> {
        self.0.require()
    }

    fn supports(&self, _: Role, _: &Cell) -> Result<(), &'static str> {
        Ok(())
    }

    fn serve(&self, at: SocketAddr, _: &Cell) -> Program {
        self.0.serve(at, &self.1)
    }

    fn connect(&self, to: SocketAddr, _: &Cell) -> Program {
        self.0.connect(to, &self.1)
    }
}

#[test]
fn who_only_pretends_is_found_out() {
    let peers = peers();
    let openssl = peers.iter().find(|peer| peer.name() == "OpenSSL").expect("it is listed");
    if let Err(reason) = require(&**openssl) {
        return skip::test(reason);
    }
    let done = Cell::plain(Suite::PskGcm);
    let pretender = Pretender(openssl.as_ref(), done);
    for (asked, reason) in [
        (Cell::plain(Suite::PskCcm), "they agreed on DTLS 1.2 and suite 0x00a8"),
        (Cell::plain(Suite::KeGcm), "they agreed on DTLS 1.2 and suite 0x00a8"),
        (Cell { cid: Cid::ToServer, ..done }, "no record to the server carries a connection ID"),
        // Without connection IDs the server does not recognise a client that comes from another
        // port.
        (
            Cell { network: Network::Rebinding, ..done },
            "after a change of the client's port: no payload reached the server in time",
        ),
    ] {
        let outcome = peers::meet(&pretender, &pretender, &asked, 1);
        assert_eq!(outcome.err().map(|failure| failure.reason).as_deref(), Some(reason));
    }
    assert!(peers::meet(&pretender, &pretender, &done, 1).is_ok());
}
