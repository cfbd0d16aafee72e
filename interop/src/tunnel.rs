//! Two `lightseal proxy` processes with a `lightseal impair` between them.

use crate::process::{Daemon, free_address, lightseal};
use serde_json::Value;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A tunnel that carries a service's datagrams in DTLS 1.3 over a lossy line.
pub struct Tunnel {
    entrance: SocketAddr,
    folder: PathBuf,
    client: Daemon,
    relay: Daemon,
    server: Daemon,
}

/// The statistics of the three programs, as they write them.
#[derive(Debug)]
pub struct Report {
    /// Statistics of the proxy in front of the client.
    pub client: Value,
    /// Statistics of the relay.
    pub relay: Value,
    /// Statistics of the proxy in front of the service.
    pub server: Value,
}

/// The names of the files with the key and the statistics in a tunnel's folder.
const KEYS: &str = "keys.psk";
const CLIENT: &str = "client.json";
const RELAY: &str = "relay.json";
const SERVER: &str = "server.json";

impl Tunnel {
    /// Starts the three programs in front of `service` and waits until they listen. `scheme` is the
    /// scheme by which both proxies aggregate, if any; keys and statistics are written to `folder`.
    ///
    /// # Panics
    /// A program does not start.
    pub fn start(
        service: SocketAddr,
        loss_percent: u8,
        scheme: Option<&str>,
        seed: u64,
        folder: &Path,
    ) -> Self {
        fs::create_dir_all(folder).expect("a place for statistics");
        for stale in [CLIENT, RELAY, SERVER] {
            // Usually the file does not exist.
            let _ = fs::remove_file(folder.join(stale));
        }
        let key = "5a".repeat(32);
        fs::write(folder.join(KEYS), format!("sensor-7:{key}\n")).expect("a place for keys");
        let owner_alone = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(folder.join(KEYS), owner_alone).expect("a file of our own");
        let program = lightseal();
        let [entrance, line, exit] = [(); 3].map(|()| free_address());
        let start = |words: &[&str], listen: SocketAddr, connect: SocketAddr, file: &str| {
            let mut command = Command::new(&program);
            command.args(words).arg("--stats-file").arg(folder.join(file));
            command.args(["--listen", &listen.to_string(), "--connect", &connect.to_string()]);
            if words[0] == "proxy" {
                command.arg("--psk-file").arg(folder.join(KEYS));
                command.args(scheme.map(|scheme| format!("--aggregate={scheme}")));
            }
            let mut daemon = Daemon::start(&mut command).expect("it was built just now");
            daemon.listens_at(listen);
            daemon
        };
        let server = start(&["proxy", "server"], exit, service, SERVER);
        let (loss, seed) = (format!("--loss={loss_percent}%"), format!("--seed={seed}"));
        let relay = start(&["impair", &loss, &seed], line, exit, RELAY);
        let client = start(&["proxy", "client"], entrance, line, CLIENT);
        Self { entrance, folder: folder.to_path_buf(), client, relay, server }
    }

    /// The address at which applications reach the service.
    pub fn entrance(&self) -> SocketAddr {
        self.entrance
    }

    /// Ends all three programs and reads their statistics.
    ///
    /// # Panics
    /// A program ends with an error, or writes no statistics.
    pub fn end(self) -> Report {
        let read = |daemon: Daemon, file: &str| {
            daemon.end();
            let text = fs::read_to_string(self.folder.join(file)).expect("statistics at the end");
            serde_json::from_str(&text).expect("statistics are JSON")
        };
        let client = read(self.client, CLIENT);
        let server = read(self.server, SERVER);
        Report { client, server, relay: read(self.relay, RELAY) }
    }
}
