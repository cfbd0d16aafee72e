//! Where datagrams go: the slots as the database has them, read twenty times a second, as a router does
//! that follows them.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio_postgres::NoTls;

/// How often the slots are read.
const LOOK: Duration = Duration::from_millis(50);

#[derive(Default)]
pub(crate) struct Routes {
    state: Mutex<State>,
    ends: AtomicBool,
}

#[derive(Default)]
struct State {
    owners: Vec<Option<u8>>,
    nodes: HashMap<u8, SocketAddr>,
    /// The node whose hellos all clients send to, if there is one.
    preferred: Option<u8>,
    /// A node of which is noted when it has lost its last slot, and when that was.
    watched: Option<(u8, Option<Instant>)>,
}

impl Routes {
    /// Follows a database until the routes are dropped or told to end.
    pub(crate) fn follow(url: &str) -> Arc<Self> {
        let routes = Arc::<Self>::default();
        let (following, url) = (Arc::clone(&routes), url.to_owned());
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.unwrap();
            while !following.ends.load(Relaxed) {
                let _ = runtime.block_on(following.read_on(&url));
                std::thread::sleep(LOOK);
            }
        });
        routes
    }

    async fn read_on(&self, url: &str) -> Result<(), tokio_postgres::Error> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(async { drop(connection.await) });
        while !self.ends.load(Relaxed) {
            let rows = "SELECT owner FROM lightseal.slot ORDER BY slot";
            let rows = client.query(rows, &[]).await?;
            let owners = rows.iter().map(|row| row.get::<_, Option<i16>>(0).map(|of| of as u8));
            let owners: Vec<_> = owners.collect();
            self.found(owners);
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    fn found(&self, owners: Vec<Option<u8>>) {
        let mut state = self.state.lock().unwrap();
        if let Some((node, gone @ None)) = state.watched {
            let still = owners.contains(&Some(node));
            state.watched = Some((node, if still { gone } else { Some(Instant::now()) }));
        }
        state.owners = owners;
    }

    pub(crate) fn end(&self) {
        self.ends.store(true, Relaxed);
    }

    pub(crate) fn add(&self, node: u8, address: SocketAddr) {
        self.state.lock().unwrap().nodes.insert(node, address);
    }

    /// The node to which a datagram goes: by its slot, or else by its sender.
    pub(crate) fn node(&self, slot: Option<u8>, sender: u64) -> Option<SocketAddr> {
        let state = self.state.lock().unwrap();
        if let (None, Some(node)) = (slot, state.preferred) {
            return state.nodes.get(&node).copied();
        }
        let slot = slot.unwrap_or((sender * 7 % 256) as u8);
        let owner = state.owners.get(usize::from(slot)).copied().flatten()?;
        state.nodes.get(&owner).copied()
    }

    /// All datagrams without a connection ID go to this node.
    pub(crate) fn prefer(&self, node: Option<u8>) {
        self.state.lock().unwrap().preferred = node;
    }

    pub(crate) fn owner(&self, slot: u8) -> Option<u8> {
        self.state.lock().unwrap().owners.get(usize::from(slot)).copied().flatten()
    }

    /// The number of slots of each node.
    pub(crate) fn counts(&self) -> HashMap<u8, usize> {
        let mut counts = HashMap::new();
        for owner in self.state.lock().unwrap().owners.iter().flatten() {
            *counts.entry(*owner).or_default() += 1;
        }
        counts
    }

    /// Notes when this node has lost its last slot.
    pub(crate) fn watch(&self, node: u8) {
        self.state.lock().unwrap().watched = Some((node, None));
    }

    pub(crate) fn gone_at(&self) -> Option<Instant> {
        self.state.lock().unwrap().watched.and_then(|(_, gone)| gone)
    }
}
