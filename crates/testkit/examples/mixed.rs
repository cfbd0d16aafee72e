//! Proxies of two programs with each other, as JSON: messages that were lost, and answers that differ
//! from what was sent. The programs may be for different processors or systems.
//!
//! `mixed MESSAGES PROGRAM [RUNNER...] OTHER` runs a server proxy of one program with a client proxy of
//! the other, both ways round, with both versions of DTLS, and with plain and shared tags; and once more
//! after the server proxy has sent to closed ports. RUNNER is what OTHER is run by, such as an emulator
//! with its arguments.
#![forbid(unsafe_code)]

#[path = "proxies/mod.rs"]
mod proxies;

use proxies::{KEY, Proxy, Wrong, echo, echo_at, exchange};
use serde_json::{Value, json};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;
use testkit::program::TempDir;

/// What both proxies are given besides addresses and keys.
const WAYS: [(&str, &[&str]); 4] = [
    ("DTLS 1.3", &["--dtls", "1.3"]),
    ("DTLS 1.3, agg:8", &["--dtls", "1.3", "--aggregate", "agg:8"]),
    ("DTLS 1.3, r2d2:100", &["--dtls", "1.3", "--aggregate", "r2d2:100"]),
    ("DTLS 1.2", &["--dtls", "1.2"]),
];

/// How many datagrams a server proxy sends to closed ports of clients, and how many to one of a service.
const ASTRAY: u32 = 500;

/// The command lines that run a server proxy and a client proxy.
type Programs<'a> = [&'a [String]; 2];

fn main() {
    let mut arguments = std::env::args().skip(1);
    let messages = arguments.next().and_then(|number| number.parse().ok()).expect("a number");
    let own = vec![arguments.next().expect("a program")];
    let other: Vec<_> = arguments.collect();
    let mut rows = Vec::new();
    let mut add = |name: String, found: Result<Value, String>| {
        let mut row = found.unwrap_or_else(|refused| json!({ "refused": refused }));
        row["name"] = json!(name);
        rows.push(row);
    };
    for (programs, which) in [([&*own, &other], "client"), ([&other, &own], "server")] {
        for (way, flags) in WAYS {
            let pair = Pair::start(programs, flags, echo());
            let found = pair.map(|pair| pair.measure(messages));
            add(format!("{way}, the {which} is the other program"), found);
        }
        let found = after_closed_ports(programs, messages);
        add(format!("after closed ports, the {which} is the other program"), found);
    }
    println!("{}", json!({ "messages": messages, "rows": rows }));
}

/// A server proxy, a client proxy and their key.
struct Pair {
    server: Proxy,
    client: Proxy,
    keys: TempDir,
}

impl Pair {
    fn start(programs: Programs<'_>, flags: &[&str], service: SocketAddr) -> Result<Self, String> {
        let dir = TempDir::new();
        let keys = dir.file("keys.psk", &format!("device:{KEY}\n"));
        let server = start(programs[0], "server", service, &keys, flags)?;
        let client = start(programs[1], "client", server.address, &keys, flags)?;
        Ok(Self { server, client, keys: dir })
    }

    fn measure(&self, messages: u32) -> Value {
        let Wrong { lost, other } = exchange(self.client.address, messages);
        let said: Vec<_> = self.server.slower_ways().chain(self.client.slower_ways()).collect();
        json!({ "lost": lost, "other": other, "said": said })
    }
}

fn start(
    line: &[String],
    role: &str,
    to: SocketAddr,
    keys: &str,
    flags: &[&str],
) -> Result<Proxy, String> {
    let line = line.iter().map(String::as_str);
    Proxy::start(line, role, to, keys, &[flags, &["--max-age", "0"]].concat())
}

/// Has a server proxy send to closed ports, of clients that have gone and of a service that is not there
/// yet. Then measures what the proxies carry to the service.
fn after_closed_ports(programs: Programs<'_>, messages: u32) -> Result<Value, String> {
    let service = socket().local_addr().unwrap();
    let pair = Pair::start(programs, &[], service)?;
    let unheard = socket();
    let to = unheard.local_addr().unwrap();
    let greeter = start(programs[1], "client", to, &pair.keys.path("keys.psk"), &[])?;
    socket().send_to(b"message", greeter.address).unwrap();
    let mut hello = [0; 2048];
    let length = unheard.recv(&mut hello).map_err(|error| error.to_string())?;
    // The server answers this hello, whoever sends it.
    let answered = socket();
    answered.send_to(&hello[..length], pair.server.address).unwrap();
    answered.recv(&mut [0; 2048]).map_err(|error| format!("a copied hello: {error}"))?;
    let application = socket();
    for _ in 0..ASTRAY {
        // The answer to it finds no socket.
        socket().send_to(&hello[..length], pair.server.address).unwrap();
        application.send_to(b"message", pair.client.address).unwrap();
        std::thread::sleep(Duration::from_millis(2));
    }
    echo_at(service);
    Ok(pair.measure(messages))
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(proxies::PATIENCE)).unwrap();
    socket
}
