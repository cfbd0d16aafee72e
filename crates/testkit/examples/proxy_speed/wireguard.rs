//! wireguard-go, another tunnel in user space, for the same datagrams between two hosts.

use super::{Carrier, PATIENCE, Processes, Service};
use std::io::{Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use testkit::namespace::Host;

/// An end of the tunnel.
struct End {
    interface: &'static str,
    /// Its address in the network that carries the tunnel, and in the tunnel.
    outer: &'static str,
    inner: &'static str,
    /// Its private and its public key (X25519), in hexadecimal.
    private: &'static str,
    public: &'static str,
}

const ENDS: [End; 2] = [
    End {
        interface: "lswg0",
        outer: "10.76.0.1",
        inner: "10.77.0.1",
        private: "0101010101010101010101010101010101010101010101010101010101010101",
        public: "a4e09292b651c278b9772c569f5fa9bb13d906b46ab68c9df9dc2b4409f8a209",
    },
    End {
        interface: "lswg1",
        outer: "10.76.0.2",
        inner: "10.77.0.2",
        private: "0202020202020202020202020202020202020202020202020202020202020202",
        public: "ce8d3ad1ccb633ec7b70c17814a5c76ecd029685050d344745ba05870e587d59",
    },
];

const PORT: u16 = 51_820;

/// What carries datagrams from these applications to this service.
pub(super) struct Field {
    pub(super) carrier: Carrier,
    pub(super) applications: Vec<UdpSocket>,
    pub(super) service: Service,
    _hosts: [Host; 2],
}

/// Starts both ends; `None` if the program is not installed or this process may make no hosts.
pub(super) fn start(flows: usize) -> Option<Field> {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin";
    path.split(':').find(|folder| Path::new(folder).join("wireguard-go").is_file())?;
    let hosts = [Host::open().ok()?, Host::open().ok()?];
    hosts[0].wire_to(&hosts[1], "wire", 1500, 1);
    let mut children = Vec::new();
    for (at, host) in hosts.iter().enumerate() {
        let (own, other) = (&ENDS[at], &ENDS[1 - at]);
        host.address("wire", &format!("{}/24", own.outer));
        children.push(host.call(|| tunnel(own)));
        configure(own, other);
        host.address(own.interface, &format!("{}/24", own.inner));
        host.ip(&format!("link set {} up", own.interface));
    }
    let receiver = SocketAddr::new(ENDS[1].inner.parse().ok()?, 0);
    let socket = hosts[1].call(move || UdpSocket::bind(receiver).unwrap());
    let applications = hosts[0].call(move || {
        (0..flows).map(|_| UdpSocket::bind("0.0.0.0:0").unwrap()).collect::<Vec<_>>()
    });
    let service = Service::at(socket);
    let (processes, entry) = (Processes(children), service.address);
    let carrier = Carrier { name: "wireguard-go", processes, entry };
    Some(Field { carrier, applications, service, _hosts: hosts })
}

/// Starts the program, which makes the interface.
fn tunnel(end: &End) -> Child {
    let mut command = Command::new("wireguard-go");
    command.args(["-f", end.interface]).env("LOG_LEVEL", "error");
    // It advises against itself there.
    command.stderr(Stdio::null());
    command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
}

/// Tells the program its key and its peer.
fn configure(own: &End, other: &End) {
    let path = format!("/var/run/wireguard/{}.sock", own.interface);
    let begun = Instant::now();
    let mut stream = loop {
        if let Ok(stream) = UnixStream::connect(&path) {
            break stream;
        }
        assert!(begun.elapsed() < PATIENCE, "wireguard-go does not start");
        std::thread::sleep(Duration::from_millis(10));
    };
    let told = format!(
        "set=1\nprivate_key={}\nlisten_port={PORT}\npublic_key={}\nendpoint={}:{PORT}\n\
         allowed_ip={}/32\n\n",
        own.private, other.public, other.outer, other.inner
    );
    stream.write_all(told.as_bytes()).unwrap();
    let mut answer = [0; 64];
    let len = stream.read(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer[..len]);
    assert!(answer.starts_with("errno=0"), "wireguard-go refuses: {answer}");
}
