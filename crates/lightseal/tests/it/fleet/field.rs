//! Three nodes, their database and their service.

use super::routes::Routes;
use crate::dtls_clients::{Service, identity};
use crate::program::{KEY, Running, TempDir, lightseal, own_port, statistics};
use serde_json::Value;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};
use testkit::postgres::Postgres;

/// The numbers of the nodes.
pub(crate) const NODES: [u8; 3] = [1, 2, 3];

/// Says how far a campaign has come, also where the output of tests is kept back.
pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

pub(crate) struct Field {
    pub(crate) database: Postgres,
    pub(crate) service: Service,
    pub(crate) routes: Arc<Routes>,
    pub(crate) nodes: Vec<Node>,
    dir: TempDir,
    keys: String,
    store: String,
    most: String,
}

pub(crate) struct Node {
    pub(crate) number: u8,
    proxy: Running,
    listen: String,
    stats: String,
    /// Whether it is stopped or has been killed on purpose.
    pub(crate) is_down: bool,
    /// How often others have taken its slots though it ran.
    pub(crate) stalls: u64,
    pub(crate) log: Vec<String>,
}

impl Field {
    /// Three nodes that know this many clients, and have shared the slots. They reach the database at
    /// `store`.
    pub(crate) fn new(database: Postgres, store: &str, clients: u64) -> Self {
        let dir = TempDir::new();
        let lines: String = (0..clients).map(|n| format!("{}:{KEY}\n", identity(n))).collect();
        let keys = dir.file("keys.psk", &lines);
        let made = lightseal(&["proxy", "state-key", &dir.path("state.key")]).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        let service = Service::start();
        let large = 4 << 20;
        let _ = socket2::SockRef::from(&*service.socket).set_recv_buffer_size(large);
        // Routes are read beside the nodes, whatever befalls their way to the database.
        let routes = Routes::follow(&database.url());
        let most = (clients + 100).to_string();
        let nodes = Vec::new();
        let store = store.to_owned();
        let mut field = Self { database, service, routes, nodes, dir, keys, store, most };
        for number in NODES {
            let listen = format!("127.0.0.1:{}", own_port());
            let node = field.start(number, &listen);
            field.nodes.push(node);
        }
        field.share();
        field
    }

    fn start(&self, number: u8, listen: &str) -> Node {
        let path = |name: &str| self.dir.path(&format!("{name}-{number}"));
        let (state, stats, name) = (path("state"), path("stats"), number.to_string());
        let (service, key) = (self.service.address(), self.dir.path("state.key"));
        let mut args = vec!["proxy", "server", "-v", "--listen", listen, "--connect", &service];
        args.extend(["--psk-file", &self.keys, "--stats-file", &stats, "--state", &state]);
        args.extend(["--state-key", &key, "--store", &self.store, "--node", &name]);
        args.extend(["--max-flows", &self.most, "--idle-timeout", "1h"]);
        let mut proxy = Running::start(&args);
        proxy.wait_for("carrying");
        self.routes.add(number, listen.parse().unwrap());
        let (listen, log) = (listen.to_owned(), Vec::new());
        Node { number, proxy, listen, stats, is_down: false, stalls: 0, log }
    }

    /// Stops a node, and starts its process again. Returns whether that refuses with this reason.
    pub(crate) fn is_refused(&mut self, number: u8, reason: &str) -> bool {
        self.node(number).kill();
        let path = |name: &str| self.dir.path(&format!("{name}-{number}"));
        let (state, name) = (path("state"), number.to_string());
        let (service, key) = (self.service.address(), self.dir.path("state.key"));
        let mut args = vec!["proxy", "server", "--listen", "127.0.0.1:0", "--connect", &service];
        args.extend(["--psk-file", &self.keys, "--state", &state, "--state-key", &key]);
        args.extend(["--store", &self.store, "--node", &name]);
        let ended = lightseal(&args).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        ended.status.code() == Some(2) && said.contains(reason)
    }

    /// Waits until all nodes that run have their slots.
    pub(crate) fn share(&mut self) {
        self.share_while(|| std::thread::sleep(Duration::from_millis(50)));
    }

    /// Does so while something else goes on.
    pub(crate) fn share_while(&mut self, mut go_on: impl FnMut()) {
        let until = Instant::now() + Duration::from_secs(60);
        let (mut former, mut since) = (self.routes.counts(), Instant::now());
        loop {
            go_on();
            let now = self.routes.counts();
            let is_shared = now.len() == NODES.len() && now.values().all(|slots| *slots > 50);
            if now != former || !is_shared {
                (former, since) = (now, Instant::now());
            }
            if since.elapsed() > Duration::from_secs(1) {
                return;
            }
            assert!(Instant::now() < until, "the slots are not shared: {former:?}");
        }
    }

    pub(crate) fn node(&mut self, number: u8) -> &mut Node {
        self.nodes.iter_mut().find(|node| node.number == number).unwrap()
    }

    /// Starts a node again that was killed.
    pub(crate) fn restart(&mut self, number: u8) {
        let (listen, stalls) = (self.node(number).listen.clone(), self.node(number).stalls);
        let mut node = self.start(number, &listen);
        node.stalls = stalls;
        *self.node(number) = node;
    }

    /// Notes what nodes have said. A node whose slots others have taken though it ran got no processor
    /// for a second: that is the machine's doing.
    pub(crate) fn listen(&mut self) {
        for node in &mut self.nodes {
            let lines = node.proxy.drain();
            if !node.is_down {
                let lost = lines.iter().filter(|line| line.contains("are another node's now"));
                let lost = lost.count() as u64;
                if lost > 0 {
                    let number = node.number;
                    say(&format!(
                        "node {number} was taken for dead though it ran: the machine gave it no processor \
                         for a second"
                    ));
                }
                node.stalls += lost;
            }
            node.log.extend(lines);
        }
    }

    pub(crate) fn stalls(&self) -> u64 {
        self.nodes.iter().map(|node| node.stalls).sum()
    }
}

impl Node {
    pub(crate) fn kill(&mut self) {
        self.is_down = true;
        self.proxy.signal("KILL");
        self.proxy.wait();
    }

    pub(crate) fn signal(&self, name: &str) {
        self.proxy.signal(name);
    }

    pub(crate) fn report(&self) -> Value {
        let _ = std::fs::remove_file(&self.stats);
        self.proxy.signal("USR1");
        crate::program::eventually(|| std::path::Path::new(&self.stats).exists().then_some(()));
        statistics(&self.stats)
    }
}

impl Drop for Field {
    fn drop(&mut self) {
        if std::env::var_os("LIGHTSEAL_FLEET_LOG").is_some() {
            self.listen();
            for node in &self.nodes {
                node.log.iter().for_each(|line| say(&format!("{}: {line}", node.number)));
            }
        }
        self.routes.end();
    }
}
