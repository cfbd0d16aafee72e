//! Server proxies that share their associations in PostgreSQL.
//!
//! A node that gets no processor for a second counts as dead, so these tests need a machine that does
//! nothing else: they run if `LIGHTSEAL_FLEET` is set (`LIGHTSEAL_FLEET=1 cargo test --package lightseal
//! --test it proxy_fleet -- --test-threads 1`).

use crate::dtls_clients::{Client, Service, VERSIONS, identity};
use crate::program::{KEY, Running, TempDir, eventually, lightseal, statistics};
use lightseal_dtls::ProtocolVersion;
use serde_json::Value;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testkit::postgres::{Durability, Postgres};

/// A fleet of two nodes in front of one service.
struct Fleet {
    dir: TempDir,
    database: Postgres,
    service: Service,
    keys: String,
    /// Whether the keys are in the database, too.
    looks_keys_up: bool,
    /// The scheme under which tags are shared, if they are.
    tags: Option<&'static str>,
}

impl Fleet {
    /// A fleet for some clients; `None` if there is no PostgreSQL here.
    fn new(clients: u64) -> Option<Self> {
        if std::env::var_os("LIGHTSEAL_FLEET").is_none() {
            skip::test(
                "nodes that get no processor for a second count as dead (LIGHTSEAL_FLEET=1)",
            );
            return None;
        }
        let database = match Postgres::start(Durability::Process) {
            Ok(database) => database,
            Err(reason) => {
                skip::test(reason);
                return None;
            }
        };
        let dir = TempDir::new();
        let lines: String = (0..clients).map(|n| format!("{}:{KEY}\n", identity(n))).collect();
        let keys = dir.file("keys.psk", &lines);
        let made = lightseal(&["proxy", "state-key", &dir.path("state.key")]).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        Some(Self {
            dir,
            database,
            service: Service::start(),
            keys,
            looks_keys_up: false,
            tags: None,
        })
    }

    fn start(&self, number: u64) -> Node {
        let path = |name: &str| self.dir.path(&format!("{name}-{number}"));
        let (state, stats, number) = (path("state"), path("stats"), number.to_string());
        let (service, store, key) =
            (self.service.address(), self.database.url(), self.dir.path("state.key"));
        let mut args = vec!["proxy", "server", "-v", "--listen", "127.0.0.1:0"];
        args.extend(["--connect", &service, "--stats-file", &stats]);
        match self.looks_keys_up {
            true => args.extend(["--psk-table", &store]),
            false => args.extend(["--psk-file", &self.keys]),
        }
        args.extend(["--state", &state, "--state-key", &key, "--store", &store]);
        args.extend(["--node", &number]);
        args.extend(self.tags.iter().flat_map(|tags| ["--aggregate", tags]));
        let mut proxy = Running::start(&args);
        let line = proxy.wait_for("carrying");
        let listen = line.split_whitespace().skip_while(|word| *word != "carrying").nth(1);
        let address = listen.unwrap().parse().unwrap();
        Node { proxy, address, stats }
    }

    /// Two nodes that have shared the slots.
    fn pair(&self) -> [Node; 2] {
        let nodes = [self.start(1), self.start(2)];
        // Slots move a few at a time; they are shared when none has moved for a while.
        let mut former = [0; 2];
        eventually(|| {
            std::thread::sleep(Duration::from_secs(1));
            let slots = nodes.each_ref().map(|node| node.fleet()["slots"].as_u64().unwrap());
            let is_over = slots == former && slots.iter().sum::<u64>() == 256;
            former = slots;
            (is_over && slots.iter().all(|slots| *slots > 80)).then_some(())
        });
        nodes
    }

    /// Clients that are connected, each with one of the nodes.
    fn clients(&self, nodes: &[Node; 2], version: ProtocolVersion, count: u64) -> Vec<Routed> {
        let tags = self.tags.map(|tags| tags.parse().expect("the name of a scheme"));
        let client = |n, at| match tags {
            Some(tags) => Client::sharing(n, at, tags),
            None => Client::new(n, at, version),
        };
        let mut clients: Vec<_> = (0..count)
            .map(|n| Routed::new(nodes[n as usize % 2].address, |at| client(n, at)))
            .collect();
        for routed in &mut clients {
            routed.client.connect();
            routed.client.echo_at_once();
        }
        clients
    }

    /// The clients' associations go on, and nothing came twice.
    fn judge(&self, what: &str, clients: &mut [Routed]) {
        for Routed { client, .. } in clients.iter_mut() {
            client.echo();
            let seen = (client.handshakes, client.closed);
            assert_eq!(seen, (1, 0), "{what}: {}", client.number);
            assert!(client.received.values().all(|times| *times == 1), "{what}");
        }
        assert_eq!(self.service.repeated(), [0; 0], "{what}");
    }
}

struct Node {
    proxy: Running,
    address: SocketAddr,
    stats: String,
}

impl Node {
    fn report(&self) -> Value {
        let _ = std::fs::remove_file(&self.stats);
        self.proxy.signal("USR1");
        eventually(|| std::path::Path::new(&self.stats).exists().then_some(()));
        statistics(&self.stats)
    }

    fn fleet(&self) -> Value {
        self.report()["state"]["fleet"].take()
    }
}

/// A client whose datagrams go to one node or another, as a router decides.
struct Routed {
    client: Client,
    to: Arc<Mutex<SocketAddr>>,
}

impl Routed {
    fn new(node: SocketAddr, client: impl FnOnce(SocketAddr) -> Client) -> Self {
        let [inner, outer] = [(); 2].map(|()| Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap()));
        let (to, from) = (Arc::new(Mutex::new(node)), Arc::new(Mutex::new(None)));
        let client = client(inner.local_addr().unwrap());
        // The threads end with the process.
        std::thread::spawn({
            let (inner, outer, to, from) =
                (Arc::clone(&inner), Arc::clone(&outer), Arc::clone(&to), Arc::clone(&from));
            move || {
                let mut buf = [0; 2048];
                loop {
                    let Ok((len, client)) = inner.recv_from(&mut buf) else { continue };
                    *from.lock().unwrap() = Some(client);
                    let _ = outer.send_to(&buf[..len], *to.lock().unwrap());
                }
            }
        });
        std::thread::spawn(move || {
            let mut buf = [0; 2048];
            loop {
                let Ok((len, _)) = outer.recv_from(&mut buf) else { continue };
                if let Some(client) = *from.lock().unwrap() {
                    let _ = inner.send_to(&buf[..len], client);
                }
            }
        });
        Self { client, to }
    }

    fn route(&self, node: &Node) {
        *self.to.lock().unwrap() = node.address;
    }
}

fn talk(clients: &mut [Routed], turns: u32) {
    for _ in 0..turns {
        for Routed { client, .. } in clients.iter_mut() {
            client.send();
            client.turn();
        }
    }
}

#[test]
fn a_node_goes_on_with_the_associations_of_one_that_was_killed() {
    let plain = VERSIONS.map(|(name, version)| (name, version, None));
    let shared = ["agg:4", "r2d2:100"].map(|tags| (tags, ProtocolVersion::Dtls13, Some(tags)));
    for (name, version, tags) in plain.into_iter().chain(shared) {
        let Some(mut fleet) = Fleet::new(6) else { return };
        fleet.tags = tags;
        let mut nodes = fleet.pair();
        let mut clients = fleet.clients(&nodes, version, 6);
        talk(&mut clients, 20);
        nodes[0].proxy.signal("KILL");
        nodes[0].proxy.wait();
        nodes[1].proxy.wait_for("associations taken over");
        let [_, two] = &nodes;
        // The service has something for a client that has not sent anything since.
        clients.iter().for_each(|routed| routed.route(two));
        let former = fleet.service.seen.lock().unwrap().clients[&0];
        let Routed { client, .. } = &mut clients[0];
        let is_of_the_service = |number: &u64| *number >= 1 << 31;
        // On a busy machine slots may have moved to and fro: a message may come too early.
        for number in 1_u64 << 31.. {
            fleet.service.socket.send_to(&number.to_be_bytes(), former).unwrap();
            (0..50).for_each(|_| client.turn());
            if client.received.keys().any(is_of_the_service) {
                break;
            }
            assert!(number < (1 << 31) + 200, "{name}: nothing comes from the service");
        }
        fleet.judge(name, &mut clients);
        let report = two.report();
        let adopted = report["state"]["fleet"]["adopted"].as_u64().unwrap();
        assert!(adopted >= 3, "{name}: {report:#}");
        assert_eq!(report["endpoint"]["accepted"], 3, "{name}: {report:#}");
        // The node that comes back gets its slots, with their associations, and nothing is lost.
        nodes[0] = fleet.start(1);
        nodes[0].proxy.wait_for("associations taken over");
        fleet.judge(name, &mut clients);
        let report = nodes[0].report();
        assert_eq!(report["endpoint"]["accepted"], 0, "{name}: {report:#}");
        // What still arrives at the other node is passed on.
        assert!(report["routing"]["taken"].as_u64().unwrap() > 0, "{name}: {report:#}");
    }
}

#[test]
fn a_node_that_was_paused_beyond_its_death_does_no_harm() {
    let Some(fleet) = Fleet::new(4) else { return };
    let mut nodes = fleet.pair();
    let mut clients = fleet.clients(&nodes, ProtocolVersion::Dtls13, 4);
    talk(&mut clients, 10);
    nodes[0].proxy.signal("STOP");
    nodes[1].proxy.wait_for("associations taken over");
    // These wait at the node that is paused.
    clients[0].client.send();
    clients[0].client.turn();
    clients.iter().for_each(|routed| routed.route(&nodes[1]));
    fleet.judge("while one is paused", &mut clients);
    nodes[0].proxy.signal("CONT");
    nodes[0].proxy.wait_for("slots are another node's now");
    talk(&mut clients, 10);
    fleet.judge("after it wakes", &mut clients);
    // It lives again, and gets its slots back.
    nodes[0].proxy.wait_for("associations taken over");
    clients[0].route(&nodes[0]);
    talk(&mut clients, 10);
    fleet.judge("when it has its slots again", &mut clients);
    let rows = fleet.database.query("SELECT count(*) FROM lightseal.mark").unwrap();
    assert_eq!(rows, "4", "it has deleted nothing");
}

#[test]
fn a_database_that_is_away_for_a_while_starts_no_takeovers() {
    let Some(mut fleet) = Fleet::new(4) else { return };
    let mut nodes = fleet.pair();
    let mut clients = fleet.clients(&nodes, ProtocolVersion::Dtls13, 4);
    talk(&mut clients, 10);
    let before = nodes.each_ref().map(|node| node.fleet()["taken"].clone());
    fleet.database.kill();
    nodes[0].proxy.wait_for("no slots move");
    // Numbers that are reserved are used.
    clients.iter_mut().for_each(|routed| routed.client.echo_at_once());
    std::thread::sleep(Duration::from_secs(3));
    fleet.database.resume();
    nodes[0].proxy.wait_for("the other nodes are seen again");
    talk(&mut clients, 10);
    std::thread::sleep(Duration::from_secs(2));
    fleet.judge("after the outage", &mut clients);
    for (node, before) in nodes.iter().zip(before) {
        let now = node.fleet();
        assert_eq!((&now["taken"], &now["adopted"]), (&before, &0.into()), "{now:#}");
        assert_eq!(now["dead"], serde_json::json!([]), "{now:#}");
    }
}

#[test]
fn a_node_that_is_stopped_gives_its_associations_away_before_it_ends() {
    stops(ProtocolVersion::Dtls12, None);
    stops(ProtocolVersion::Dtls13, Some("agg:8"));
}

fn stops(version: ProtocolVersion, tags: Option<&'static str>) {
    let Some(mut fleet) = Fleet::new(4) else { return };
    fleet.tags = tags;
    let mut nodes = fleet.pair();
    let mut clients = fleet.clients(&nodes, version, 4);
    talk(&mut clients, 10);
    nodes[0].proxy.signal("TERM");
    assert_eq!(nodes[0].proxy.wait(), Some(0));
    let lines = nodes[0].proxy.rest();
    assert!(!lines.iter().any(|line| line.contains("ERROR")), "{lines:?}");
    let slots = fleet.database.query("SELECT DISTINCT owner FROM lightseal.slot").unwrap();
    assert_eq!(slots, "2", "given away, and not taken later");
    // Slots are read a few at a time, and what arrives before is not held.
    eventually(|| (nodes[1].fleet()["adopted"] == 2).then_some(()));
    clients.iter().for_each(|routed| routed.route(&nodes[1]));
    if tags.is_none() {
        // Nothing was lost. Messages whose shared tag had not come were.
        clients.iter_mut().for_each(|routed| routed.client.echo_at_once());
    }
    fleet.judge("after one has ended", &mut clients);
}

#[test]
fn a_node_looks_up_the_keys_of_the_associations_that_it_takes_over() {
    let Some(mut fleet) = Fleet::new(0) else { return };
    fleet.looks_keys_up = true;
    let schema = lightseal(&["proxy", "key-table"]).output().unwrap();
    fleet.database.query(&String::from_utf8(schema.stdout).unwrap()).unwrap();
    let insert = |n| {
        let identity = identity(n);
        format!("INSERT INTO lightseal_keys.psk VALUES ('{identity}', '\\x{KEY}')")
    };
    (0..8).for_each(|n| drop(fleet.database.query(&insert(n)).unwrap()));
    let revoke = |n| {
        let identity = identity(n);
        let table = "lightseal_keys.psk";
        let revoke = format!("UPDATE {table} SET revoked = true WHERE identity = '{identity}'");
        fleet.database.query(&revoke).unwrap();
    };
    let mut nodes = fleet.pair();
    let mut clients = fleet.clients(&nodes, ProtocolVersion::Dtls13, 8);
    nodes[0].proxy.signal("KILL");
    nodes[0].proxy.wait();
    // The key of one is gone before its association is taken over: both belonged to the first node.
    revoke(0);
    clients.iter().for_each(|routed| *routed.to.lock().unwrap() = nodes[1].address);
    let mut gone = clients.remove(0);
    eventually(|| {
        let adopted = nodes[1].fleet()["adopted"].as_u64().unwrap();
        (adopted == 3).then_some(())
    });
    fleet.judge("after a death", &mut clients);
    let before = gone.client.received.len();
    for _ in 0..40 {
        gone.client.send();
        gone.client.turn();
    }
    assert_eq!(gone.client.received.len(), before);
    // One that was taken over is revoked at its new node.
    revoke(2);
    clients[1].client.until(|client| client.closed == 1);
}
