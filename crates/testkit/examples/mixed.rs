//! Proxies of two programs with each other, as JSON: messages that were lost, and answers that differ
//! from what was sent. The programs may be for different processors.
//!
//! `mixed MESSAGES PROGRAM [RUNNER...] OTHER` runs a server proxy of one program with a client proxy of
//! the other, both ways round, with both versions of DTLS, and with plain and shared tags. RUNNER is
//! what OTHER is run by, such as an emulator with its arguments.
#![forbid(unsafe_code)]

#[path = "proxies/mod.rs"]
mod proxies;

use proxies::{KEY, Proxy, Wrong, echo, exchange};
use serde_json::{Value, json};
use testkit::program::TempDir;

/// What both proxies are given besides addresses and keys.
const WAYS: [(&str, &[&str]); 4] = [
    ("DTLS 1.3", &["--dtls", "1.3"]),
    ("DTLS 1.3, agg:8", &["--dtls", "1.3", "--aggregate", "agg:8"]),
    ("DTLS 1.3, r2d2:100", &["--dtls", "1.3", "--aggregate", "r2d2:100"]),
    ("DTLS 1.2", &["--dtls", "1.2"]),
];

fn main() {
    let mut arguments = std::env::args().skip(1);
    let messages = arguments.next().and_then(|number| number.parse().ok()).expect("a number");
    let own = vec![arguments.next().expect("a program")];
    let other: Vec<_> = arguments.collect();
    let mut rows = Vec::new();
    for (server, client, which) in [(&own, &other, "client"), (&other, &own, "server")] {
        for (way, flags) in WAYS {
            let name = format!("{way}, the {which} is the other program");
            rows.push(measure(&name, [server, client], flags, messages));
        }
    }
    println!("{}", json!({ "messages": messages, "rows": rows }));
}

fn measure(
    name: &str,
    [server, client]: [&Vec<String>; 2],
    flags: &[&str],
    messages: u32,
) -> Value {
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("device:{KEY}\n"));
    let start = |line: &Vec<String>, role, to| {
        let line = line.iter().map(String::as_str);
        Proxy::start(line, role, to, &keys, &[flags, &["--max-age", "0"]].concat())
    };
    let started = start(server, "server", echo()).and_then(|server| {
        let between = server.address;
        Ok((server, start(client, "client", between)?))
    });
    match started {
        Ok((server, client)) => {
            let Wrong { lost, other } = exchange(client.address, messages);
            let said: Vec<_> = server.slower_ways().chain(client.slower_ways()).collect();
            json!({ "name": name, "lost": lost, "other": other, "said": said })
        }
        Err(refused) => json!({ "name": name, "refused": refused }),
    }
}
