//! The interop matrix: every peer with Lightseal, and the other peers among each other.

use clap::Parser;
use interop::peers::matrix::{self, OURSELVES, Outcome, Result};
use interop::peers::{self, Peer};
use interop::webrtc::{self, Browser};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

/// Connects peers in every cell of the matrix, and prints the outcomes.
#[derive(Parser)]
struct Arguments {
    /// Only meetings with this peer.
    #[arg(long, value_name = "NAME")]
    peer: Option<String>,
    /// Only meetings whose line contains this text.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
    /// Write the tables to this file, with date and commit.
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Print every datagram of failed meetings.
    #[arg(long)]
    trace: bool,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(success) => ExitCode::from(u8::from(!success)),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> std::result::Result<bool, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let peers = peers::all(program.parent().unwrap_or(Path::new(".")));
    for peer in &peers {
        if let Err(reason) = peer.require() {
            eprintln!("{}: {reason}", peer.name());
        }
    }
    let mut meetings = matrix::with_us(&peers);
    meetings.extend(matrix::among_themselves(&peers));
    if let Some(name) = &arguments.peer {
        let is = |peer: &dyn Peer| peer.name().eq_ignore_ascii_case(name);
        if !peers.iter().any(|peer| is(peer.as_ref())) {
            let known: Vec<_> = peers.iter().map(|peer| peer.name()).collect();
            return Err(format!("no peer {name}; there are {}", known.join(", ")));
        }
        meetings.retain(|meeting| is(meeting.client) || is(meeting.server));
    }
    if let Some(text) = &arguments.only {
        meetings.retain(|meeting| {
            let (client, server) = (meeting.client.name(), meeting.server.name());
            format!("{client} to {server}, {}", meeting.cell).contains(text.as_str())
        });
    }
    let started = Instant::now();
    let told = |result: &Result<'_>| {
        if !arguments.json && !matches!(result.outcome, Outcome::CannotBe(_)) {
            println!("{}", matrix::line(result));
        }
        if let Outcome::Failed(failure) = &result.outcome
            && arguments.trace
        {
            eprintln!("=== {}\n{}", matrix::line(result), failure.trace);
        }
    };
    let results = matrix::hold(&meetings, &told);
    let browsers = if arguments.peer.is_none() && arguments.only.is_none() {
        calls(program.parent().unwrap_or(Path::new(".")))
    } else {
        Vec::new()
    };
    let seconds = started.elapsed().as_secs();
    let count = count(&results, &browsers);
    let [met, failed, impossible] = count;
    if arguments.json {
        let mut json = matrix::json(&results);
        json["met"] = met.into();
        json["failed"] = failed.into();
        json["impossible"] = impossible.into();
        json["browsers"] = browsers.clone().into();
        println!("{json}");
    } else {
        browsers.iter().for_each(|result| println!("{}", webrtc::line(result)));
        for result in &results {
            if matches!(result.outcome, Outcome::CannotBe(_)) {
                println!("{}", matrix::line(result));
            }
        }
        println!("{met} ok, {failed} failed, {impossible} not possible, in {seconds} s");
    }
    if let Some(file) = &arguments.write {
        std::fs::write(file, page(&peers, &results, &browsers, seconds))
            .map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(failed == 0)
}

/// The results of the browsers, or why there are none.
fn calls(programs: &Path) -> Vec<Value> {
    webrtc::results(programs).unwrap_or_else(|reason| {
        eprintln!("browsers: {reason}");
        Browser::ALL
            .map(|browser| json!({ "browser": browser.name(), "impossible": reason }))
            .into()
    })
}

/// The numbers of successful, failed and impossible meetings and calls.
fn count(results: &[Result<'_>], browsers: &[Value]) -> [usize; 3] {
    let [mut met, mut failed, mut impossible] = matrix::count(results);
    for result in browsers {
        match (result["failed"].is_string(), result["impossible"].is_string()) {
            (true, _) => failed += 1,
            (false, true) => impossible += 1,
            (false, false) => met += 1,
        }
    }
    [met, failed, impossible]
}

/// The page with all results.
fn page(
    peers: &[Box<dyn Peer>],
    results: &[Result<'_>],
    browsers: &[Value],
    seconds: u64,
) -> String {
    let [met, failed, impossible] = count(results, browsers);
    let mut text = format!(
        "# DTLS with others\n\n\
         Lightseal and other implementations of DTLS meet in both roles, over UDP sockets of the loopback\n\
         interface. A cell that says ok means: the handshake completed, a payload arrived at the server and\n\
         another one at the client, both unaltered, and the datagrams on the way had the suite, the version\n\
         and the connection IDs (CIDs) that were asked for. With certificates and raw keys, the group of the key\n\
         exchange is checked as well, the HelloRetryRequest, and that the second connection resumes the session\n\
         of the first; the client checks the server's chain and name, and the server the client's chain. With loss, an eighth of the datagrams in each\n\
         direction is lost, a tenth arrives twice and a tenth late. Rebinding is what a NAT does: the client\n\
         gets another port after the first payloads, and then another payload arrives in each direction.\n\n\
         Tables have the meetings that took place. What a peer cannot do is listed once below its tables; a\n\
         dash stands for such a case. Lightseal is a library in Rust and has no C interface so far: these\n\
         programs in C, Go and Java are tried over the network.\n\n\
         Written by `cargo xtask interop --store`, {} at commit {}: {met} ok, {failed} failed,\n\
         {impossible} not possible, in {seconds} s.\n",
        words("date", &["-u", "+%Y-%m-%d"]),
        words("git", &["rev-parse", "--short", "HEAD"]),
    );
    text.push_str(&peers::page(peers, results));
    text.push_str(
        "\n## Browsers\n\nA page in the browser opens a WebRTC data channel with Lightseal, which answers connectivity\n\
         checks as ICE lite (RFC 8445) and SCTP until the page says that its channel is open. Each end knows the\n\
         other by the fingerprint of its certificate. Chromium's DTLS is BoringSSL's, Firefox's that of NSS.\n\n",
    );
    text.push_str(&webrtc::page(browsers));
    text.push_str(
        "\n## Among themselves\n\nThe other implementations also meet each other. These meetings check the test itself.\n\n",
    );
    for result in results {
        let [client, server] =
            [result.appointment.client, result.appointment.server].map(Peer::name);
        if client != OURSELVES && server != OURSELVES {
            text.push_str(&format!(
                "- {}\n",
                matrix::line(result).split(" (").next().unwrap_or("")
            ));
        }
    }
    text
}

/// The trimmed output of a program, or a question mark if there is none.
fn words(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.ok().filter(|text| !text.is_empty()).unwrap_or_else(|| "?".into())
}
