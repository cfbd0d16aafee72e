//! How a node of a fleet recognises what is another node's, and passes it on.
//!
//! A balancer may not know yet that a slot has moved, or cannot read connection IDs at all. What is
//! passed on is taken where it arrives, whoever owns the slot by then, so that no datagram travels in
//! circles.

use super::envelope::Envelope;
use super::ids::{IdForm, Ids};
use crate::proxy::fleet::slots::{NodeNumber, SlotMap};
use crate::units::counted;
use lightseal_core::AddressPair;
use lightseal_dtls::codepoints::ContentType;
use lightseal_net::RateLimitedLog;
use lightseal_net::address::Named;
use lightseal_net::batch::ReceiveBatch;
use lightseal_net::socket::AddressedSocket;
use serde::{Deserialize, Serialize};
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, UdpSocket as StdSocket};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;
use tokio::net::UdpSocket;
use zeroize::Zeroizing;

/// How long the node waits after the socket could not be read.
const RETRY: Duration = Duration::from_millis(100);

/// The datagrams between this node and others.
#[derive(Debug, Default)]
struct Counters {
    passed_on: AtomicU64,
    not_passed_on: AtomicU64,
    taken: AtomicU64,
    refused: AtomicU64,
}

/// The counters, as reports show them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RouterReport {
    /// Datagrams that were another node's and were passed on to it.
    pub(crate) passed_on: u64,
    /// Datagrams that could not be passed on: the system had no room for them or no route.
    pub(crate) not_passed_on: u64,
    /// Datagrams that another node has passed on to this one.
    pub(crate) taken: u64,
    /// Datagrams from elsewhere that arrived where only nodes send to.
    pub(crate) refused: u64,
}

/// Passes datagrams on to the nodes that they are for.
#[derive(Debug)]
pub(crate) struct Router {
    node: NodeNumber,
    form: Arc<IdForm>,
    ids: Ids,
    map: RwLock<SlotMap>,
    /// The first wraps datagrams, and each of them unwraps them.
    envelopes: RwLock<Vec<Envelope>>,
    socket: AddressedSocket,
    /// A copy of the socket that sends at once. The runtime's socket refuses to send until the runtime
    /// has been told that the system has room.
    sending: StdSocket,
    /// The wrapped datagram.
    wrapped: Mutex<Vec<u8>>,
    counters: Counters,
    log: RateLimitedLog,
    refusals: RateLimitedLog,
    failures: RateLimitedLog,
}

impl Router {
    /// A router of the node `node`, whose `socket` other nodes send to. The first secret wraps what is
    /// passed on, and what comes may be wrapped with any of them.
    ///
    /// # Errors
    ///
    /// If the socket cannot be used by the runtime.
    pub(crate) fn new(
        node: NodeNumber,
        form: Arc<IdForm>,
        secrets: &[Zeroizing<[u8; 32]>],
        socket: StdSocket,
    ) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let sending = socket.try_clone()?;
        Ok(Self {
            node,
            ids: Ids::new(Arc::clone(&form)),
            form,
            map: RwLock::default(),
            envelopes: RwLock::new(secrets.iter().map(|secret| Envelope::new(secret)).collect()),
            socket: AddressedSocket::new(UdpSocket::from_std(socket)?),
            sending,
            wrapped: Mutex::default(),
            counters: Counters::default(),
            log: RateLimitedLog::default(),
            refusals: RateLimitedLog::default(),
            failures: RateLimitedLog::default(),
        })
    }

    /// Draws the connection IDs of one of the workers of this node.
    pub(crate) fn ids(&self, worker: usize, workers: usize) -> Arc<Ids> {
        Arc::new(self.ids.of_worker(worker, workers))
    }

    /// What connection IDs look like.
    pub(crate) const fn form(&self) -> &Arc<IdForm> {
        &self.form
    }

    /// Wraps with the first of these secrets, and takes what is wrapped with any of them.
    pub(crate) fn set_secrets(&self, secrets: &[Zeroizing<[u8; 32]>]) {
        let envelopes = secrets.iter().map(|secret| Envelope::new(secret)).collect();
        *self.envelopes.write().unwrap_or_else(PoisonError::into_inner) = envelopes;
    }

    /// Goes by this map from now on.
    pub(crate) fn set_map(&self, map: SlotMap) {
        self.ids.set_slots(map.slots_of(self.node).collect());
        *self.map.write().unwrap_or_else(PoisonError::into_inner) = map;
    }

    /// The node that a datagram is for, if it is another one.
    fn other_owner(&self, datagram: &[u8]) -> Option<SocketAddr> {
        let place = self.form.place_of_datagram(datagram)?;
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        let (owner, entry) = map.owner(place.slot)?;
        (owner != self.node).then_some(entry.address)
    }

    /// Passes a datagram on if another node owns its slot. Returns whether that is so. A node without
    /// slots takes no hellos: it could only give IDs that lead to others.
    pub(crate) fn passes_on(&self, addresses: AddressPair, datagram: &[u8]) -> bool {
        if datagram.first() == Some(&ContentType::HANDSHAKE.0) && !self.ids.has_slots() {
            return true;
        }
        let Some(owner) = self.other_owner(datagram) else { return false };
        let mut wrapped = self.wrapped.lock().unwrap_or_else(PoisonError::into_inner);
        let envelopes = self.envelopes.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(envelope) = envelopes.first() {
            envelope.seal(addresses, datagram, &mut wrapped);
        }
        drop(envelopes);
        match self.sending.send_to(&wrapped, owner) {
            Ok(_) => self.counters.passed_on.fetch_add(1, Relaxed),
            Err(error) => {
                if let Some(count) = self.log.due() {
                    let (count, owner) = (counted(count, "datagram"), Named(owner));
                    tracing::warn!("{count} not passed on to the node at {owner}: {error}");
                }
                self.counters.not_passed_on.fetch_add(1, Relaxed)
            }
        };
        true
    }

    /// Gives what other nodes pass on to `take`, all that waits at once, until the future is dropped. When
    /// the socket cannot be read, associations go on, and the log says so.
    pub(crate) async fn run(&self, mut take: impl FnMut(Passed<'_>)) -> Infallible {
        loop {
            // What was passed on earlier to a node that has ended is an error here; it is not waited for.
            let received = self.socket.readable().await.and_then(|failed| {
                if failed {
                    drop(self.socket.take_error());
                }
                ReceiveBatch::with(|batch| {
                    self.socket.try_receive(batch)?;
                    if !batch.is_empty() {
                        take(Passed { router: self, batch });
                    }
                    Ok(batch.more_may_wait())
                })
            });
            match received {
                Ok(true) => tokio::task::yield_now().await,
                Ok(false) => {}
                Err(error) => {
                    if let Some(count) = self.failures.due() {
                        let count = counted(count, "time");
                        tracing::warn!("what other nodes pass on was not read {count}: {error}");
                    }
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    /// The counters so far.
    pub(crate) fn report(&self) -> RouterReport {
        let Counters { passed_on, not_passed_on, taken, refused } = &self.counters;
        RouterReport {
            passed_on: passed_on.load(Relaxed),
            not_passed_on: not_passed_on.load(Relaxed),
            taken: taken.load(Relaxed),
            refused: refused.load(Relaxed),
        }
    }
}

/// Datagrams that other nodes have passed on.
pub(crate) struct Passed<'a> {
    router: &'a Router,
    batch: &'a mut ReceiveBatch,
}

impl Passed<'_> {
    /// Gives each of them to `deliver` that another node of the fleet has passed on.
    pub(crate) fn for_each(self, mut deliver: impl FnMut(AddressPair, &mut [u8])) {
        let Self { router, batch } = self;
        for at in 0..batch.len() {
            let from = batch.addresses(at).map(|addresses| addresses.peer);
            let envelopes = router.envelopes.read().unwrap_or_else(PoisonError::into_inner);
            let wraps = envelopes.iter().find(|envelope| envelope.has_wrapped(batch.payload(at)));
            let opened = wraps.and_then(|envelope| envelope.open(batch.payload(at)));
            if let Some((addresses, datagram)) = opened {
                drop(envelopes);
                router.counters.taken.fetch_add(1, Relaxed);
                deliver(addresses, datagram);
                continue;
            }
            router.counters.refused.fetch_add(1, Relaxed);
            if let (Some(count), Some(from)) = (router.refusals.due(), from) {
                let (count, from) = (counted(count, "datagram"), Named(from));
                tracing::warn!("{count} dropped: {from} is no node of this fleet");
            }
        }
    }
}

impl RouterReport {
    /// One line for people.
    pub(crate) fn line(&self) -> String {
        let Self { passed_on, not_passed_on, taken, refused } = self;
        let mut line = format!("datagrams passed on to other nodes: {passed_on}; taken: {taken}");
        if *not_passed_on > 0 {
            line += &format!("; not passed on: {not_passed_on}");
        }
        if *refused > 0 {
            line += &format!("; of no node: {refused}");
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::fleet::slots::{NodeEntry, SLOTS};
    use crate::proxy::routing::ids::Place;
    use lightseal_core::Random;
    use lightseal_dtls::ConnectionIdGenerator;
    use std::net::Ipv4Addr;

    const PATIENCE: Duration = Duration::from_secs(5);

    fn node(number: u8, secret: u8, form: &Arc<IdForm>) -> (Arc<Router>, SocketAddr) {
        let socket = StdSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = socket.local_addr().unwrap();
        let router = Router::new(
            NodeNumber(number),
            Arc::clone(form),
            &[Zeroizing::new([secret; 32])],
            socket,
        );
        (Arc::new(router.unwrap()), address)
    }

    #[tokio::test]
    async fn a_node_passes_on_what_is_anothers_and_takes_whatever_is_passed_on() {
        for form in [IdForm::Clear, IdForm::scrambled(&[5; 16])] {
            let form = Arc::new(form);
            let (one, at_one) = node(1, 7, &form);
            let (two, at_two) = node(2, 7, &form);
            let (stranger, _) = node(2, 8, &form);
            let mut map = SlotMap::default();
            for (slot, owner) in map.owner.iter_mut().enumerate() {
                *owner = Some(NodeNumber(if slot < SLOTS / 2 { 1 } else { 2 }));
            }
            map.nodes.insert(NodeNumber(1), NodeEntry { address: at_one });
            map.nodes.insert(NodeNumber(2), NodeEntry { address: at_two });
            for router in [&one, &two, &stranger] {
                router.set_map(map.clone());
            }
            // An ID that node 1 has drawn, in a record of DTLS 1.3.
            let mut id = [0; 8];
            one.ids(0, 1).generate(&mut Random::insecure(1), None, &mut id);
            let Some(Place { slot, .. }) = form.place(&id) else { panic!("an ID with a place") };
            assert!(usize::from(slot) < SLOTS / 2);
            let record = [&[0x3e][..], &id, &[9; 40]].concat();
            let addresses = AddressPair {
                peer: "192.0.2.7:40000".parse().unwrap(),
                local: Some("198.51.100.1".parse().unwrap()),
            };
            assert!(!one.passes_on(addresses, &record), "its own");
            assert!(!two.passes_on(addresses, &[22; 60]), "a hello is anybody's");
            assert!(stranger.passes_on(addresses, &record));
            assert!(two.passes_on(addresses, &record));
            // The slot moves away meanwhile: the datagram stays where it has come.
            map.owner[usize::from(slot)] = Some(NodeNumber(2));
            one.set_map(map);
            let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
            let taking = Arc::clone(&one);
            let task = tokio::spawn(async move {
                let take = |passed: Passed<'_>| {
                    passed.for_each(|addresses, datagram| {
                        tell.send((addresses, datagram.to_vec())).unwrap();
                    });
                };
                taking.run(take).await
            });
            let taken = tokio::time::timeout(PATIENCE, told.recv()).await.unwrap().unwrap();
            assert_eq!(taken, (addresses, record));
            let counted = |router: &Router| {
                let RouterReport { passed_on, not_passed_on, taken, refused } = router.report();
                [passed_on, not_passed_on, taken, refused]
            };
            assert_eq!(counted(&two), [1, 0, 0, 0]);
            assert_eq!(counted(&one), [0, 0, 1, 1]);
            assert!(told.try_recv().is_err(), "nothing of the stranger");
            task.abort();
        }
    }
}
