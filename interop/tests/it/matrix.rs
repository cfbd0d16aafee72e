//! One handshake in each cell of a sample of the matrix, peer by peer. The others, and meetings with
//! loss, which take longer, are made by `cargo xtask interop`.

use interop::foreign::Foreign;
use interop::peers::matrix::{self, Outcome, PlannedMeeting};
use interop::peers::{
    self, Cell, Cid, Credential, Files, Group, Network, Peer, Program, Role, Suite,
};
use interop::webrtc::{Browser, namespace};
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

/// Whether the cell belongs to the sample: every credential with client authentication, every group and
/// every suite with a PSK; and PSKs, ECDSA P-256 and raw public keys in every way with one suite.
fn is_sampled(cell: &Cell) -> bool {
    let in_every_way = [Credential::EcdsaP256, Credential::RawKey];
    let is_first = cell.suite == cell.credential.first_suite(cell.suite.version());
    let is_plain = cell.cid == Cid::None && !cell.resumed && !cell.retried;
    let fits = match cell.credential {
        Credential::Psk => is_first || is_plain,
        credential if in_every_way.contains(&credential) && cell.group == Group::X25519 => is_first,
        _ => is_first && is_plain && cell.mutual,
    };
    fits && !is_lossy(cell)
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
    meetings.retain(|meeting| is_sampled(&meeting.cell));
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
    let page = peers::page(&peers, &results);
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

/// The two peers with connection IDs, in every use of them that both have.
#[test]
fn pion_and_scandium_meet_with_connection_ids() {
    if let Err(reason) = Foreign::ALL.iter().try_for_each(|peer| require(peer)) {
        return skip::test(reason);
    }
    let (pion, scandium) = (&Foreign::Pion, &Foreign::Scandium);
    let mut meetings = Vec::new();
    let is_meant = |cell: &Cell| cell.suite == Suite::PskCcm8 && !is_lossy(cell);
    for cell in peers::cells().into_iter().filter(is_meant) {
        meetings.push(PlannedMeeting { client: pion, server: scandium, cell });
        meetings.push(PlannedMeeting { client: scandium, server: pion, cell });
    }
    // Four uses of connection IDs and a rebinding NAT, in two roles.
    hold(meetings, 10);
}

/// The page counts what the stored results of the same run have.
#[test]
fn the_page_and_the_stored_results_agree() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let stored = std::fs::read_dir(root.join("results")).expect("a folder").flatten();
    let stored = stored.map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("interop-") && name.ends_with(".json")
    });
    let newest = stored.max().expect("results are stored");
    let json = std::fs::read_to_string(newest).expect("it can be read");
    let json: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
    let results = &json["result"];
    let page = std::fs::read_to_string(root.join("docs/interop.md")).expect("it can be read");
    let count = |name: &str| results[name].as_u64().expect("a number");
    let [met, failed, impossible] = ["met", "failed", "impossible"].map(count);
    assert_eq!(failed, 0);
    let counts = format!("{met} ok, {failed} failed,\n{impossible} not possible");
    assert!(page.contains(&counts), "{counts}");
    let cells = page.matches(" ok |").count() + page.matches(": ok\n").count();
    assert_eq!(cells as u64, met, "cells of the page");
    assert!(!page.contains("FAILED"));
}

/// A few calls of each browser.
#[test]
fn browsers() {
    let program = Path::new(env!("CARGO_BIN_EXE_webrtc"));
    if let Err(reason) = namespace::require() {
        return skip::test(reason);
    }
    let mut met = 0;
    for browser in Browser::ALL {
        if let Err(reason) = browser.version() {
            skip::part(browser.name(), reason);
            continue;
        }
        let mut command = namespace::command(program);
        command.args(["--sample", "--trace", "--browser", browser.name()]);
        let output = command.output().expect("the program is built");
        let text = String::from_utf8_lossy(&output.stdout);
        let trace = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}{trace}");
        let count = text.matches(": ok (").count();
        assert_eq!(count, 4, "{text}{trace}");
        met += count;
    }
    println!("{met} calls");
}

#[test]
fn openssl() {
    with("OpenSSL", 25);
}

#[test]
fn gnutls() {
    with("GnuTLS", 4 + 10);
}

#[test]
fn mbed_tls() {
    with("Mbed TLS", 8 + 20);
}

#[test]
fn dimpl() {
    with("dimpl", 20);
}

#[test]
fn nss() {
    with("NSS", 10);
}

#[test]
fn tinydtls() {
    with("tinydtls", 2);
}

#[test]
fn pion() {
    // Four suites in two roles; four uses of connection IDs with one of them; a NAT if pion is the
    // client.
    with("pion", 4 * 2 + 3 * 2 + 1);
}

#[test]
fn scandium() {
    with("Scandium", 5 * 2 + 3 * 2 + 1);
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

    fn serve(&self, at: SocketAddr, _: &Cell, files: &Files) -> Program {
        self.0.serve(at, &self.1, files)
    }

    fn connect(&self, to: SocketAddr, _: &Cell, files: &Files) -> Program {
        self.0.connect(to, &self.1, files)
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
    let files = Files::new().expect("a folder for keys and certificates");
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
        let outcome = peers::meet(&pretender, &pretender, &asked, &files, 1);
        assert_eq!(outcome.err().map(|failure| failure.reason).as_deref(), Some(reason));
    }
    assert!(peers::meet(&pretender, &pretender, &done, &files, 1).is_ok());
}
