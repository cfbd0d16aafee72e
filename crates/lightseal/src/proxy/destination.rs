//! The destination of a proxy: a name that may have several addresses, and whose addresses may
//! change.

use crate::loud::Loud;
use lightseal_net::address::Named;
use lightseal_net::names::{HostAddresses, Resolver, resolve_repeatedly};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// The destination that `--connect` names.
#[derive(Debug)]
pub(crate) struct Destination {
    /// The name or address as it was written.
    name: String,
    lookup: Resolver,
    candidates: Mutex<HostAddresses>,
    /// The address on which this proxy itself listens.
    own: OnceLock<SocketAddr>,
    /// Notified when the name should be looked up again before the regular time.
    again: Notify,
    /// Notified when an address was found.
    known: Notify,
    /// Whether failing lookups have been logged.
    failing: AtomicBool,
    loud_silence: Loud,
}

impl Destination {
    /// The destination `name`, which [`Self::run`] looks up by `lookup`. A numeric address needs no
    /// lookup.
    pub(crate) fn new(name: &str, lookup: Resolver) -> Self {
        let mut candidates = HostAddresses::default();
        candidates.update(name.parse().into_iter().collect());
        Self {
            name: name.to_owned(),
            lookup,
            candidates: Mutex::new(candidates),
            own: OnceLock::new(),
            again: Notify::new(),
            known: Notify::new(),
            failing: AtomicBool::new(false),
            loud_silence: Loud::default(),
        }
    }

    /// Never uses an address that leads to `listen`, where this proxy itself listens: the name may
    /// come to have such an address later.
    pub(crate) fn avoid(&self, listen: SocketAddr) {
        let listen = *self.own.get_or_init(|| listen);
        if self.name.parse::<SocketAddr>().is_err() {
            self.candidates().retain(|address| !leads_to(address, listen));
        }
    }

    /// The address in use; `None` while the name has not been resolved.
    pub(crate) fn current(&self) -> Option<SocketAddr> {
        self.candidates().current()
    }

    /// The address in use, or the reason why there is none.
    ///
    /// # Errors
    ///
    /// If the name has not been resolved yet.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.current().ok_or_else(|| {
            let name = &self.name;
            io::Error::other(format!("no address of {name} (--connect) is known yet"))
        })
    }

    /// The number of known addresses.
    pub(crate) fn len(&self) -> usize {
        self.candidates().len()
    }

    /// Reports that `address` does not answer. If there is another address, it is used from now on.
    /// The name is looked up again in any case.
    pub(crate) fn silent(&self, address: SocketAddr) {
        let mut candidates = self.candidates();
        if candidates.mark_silent(address)
            && let Some(next) = candidates.current()
            && self.loud_silence.due().is_some()
        {
            let (address, next) = (Named(address), Named(next));
            tracing::warn!("{} at {address} does not answer; trying {next}", self.name);
        }
        drop(candidates);
        self.again.notify_one();
    }

    /// Has the name looked up again before the regular time.
    pub(crate) fn look_again(&self) {
        self.again.notify_one();
    }

    /// `address` for the log, together with the name if there is one.
    pub(crate) fn named(&self, address: SocketAddr) -> String {
        match self.name.parse::<SocketAddr>() {
            Ok(_) => format!("at {}", Named(address)),
            Err(_) => format!("{} at {}", self.name, Named(address)),
        }
    }

    /// A destination that is an address and needs no lookup.
    pub(crate) fn at(address: SocketAddr) -> Self {
        Self::new(&address.to_string(), Resolver::system())
    }

    /// Reports that `address` answered.
    pub(crate) fn answered(&self, address: SocketAddr) {
        self.candidates().mark_answered(address);
    }

    /// Waits until an address is known.
    pub(crate) async fn wait(&self) -> SocketAddr {
        loop {
            let known = self.known.notified();
            if let Some(address) = self.current() {
                return address;
            }
            known.await;
        }
    }

    /// Looks the name up until an address is known, for at most `patience`.
    pub(crate) async fn settle(&self, patience: Duration) {
        tokio::select! {
            () = self.run() => {}
            _ = self.wait() => {}
            () = tokio::time::sleep(patience) => {}
        }
    }

    /// Looks the name up at intervals, and logs changes of its address and failures.
    pub(crate) async fn run(&self) {
        if self.name.parse::<SocketAddr>().is_ok() {
            return std::future::pending().await;
        }
        resolve_repeatedly(&self.lookup, &self.name, &self.again, |found| {
            let name = &self.name;
            let found = match found.and_then(|found| self.others(found)) {
                Ok(found) => found,
                // A failure is logged once while it lasts.
                Err(error) => {
                    if !self.failing.swap(true, Ordering::Relaxed) {
                        let then = match self.current() {
                            None => "waiting for it".to_owned(),
                            Some(address) => format!("staying with {}", Named(address)),
                        };
                        tracing::warn!("--connect {name}: {error}; {then}");
                    }
                    return;
                }
            };
            let failing = self.failing.swap(false, Ordering::Relaxed);
            let mut candidates = self.candidates();
            let (before, moved) = (candidates.current(), candidates.update(found));
            let now = candidates.current();
            drop(candidates);
            match (before, now) {
                (Some(before), Some(now)) if moved => {
                    tracing::warn!("{name} moved from {} to {}", Named(before), Named(now));
                }
                (None, Some(now)) if failing => tracing::info!("{name} is at {}", Named(now)),
                _ => {}
            }
            self.known.notify_waiters();
        })
        .await;
    }

    /// Removes the address on which this proxy itself listens.
    ///
    /// # Errors
    ///
    /// If there is no other address.
    fn others(&self, mut found: Vec<SocketAddr>) -> io::Result<Vec<SocketAddr>> {
        if let Some(listen) = self.own.get() {
            found.retain(|address| !leads_to(*address, *listen));
            if found.is_empty() {
                return Err(io::Error::other(format!("it is this proxy's own --listen, {listen}")));
            }
        }
        Ok(found)
    }

    fn candidates(&self) -> MutexGuard<'_, HostAddresses> {
        self.candidates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether what is sent to `connect` arrives at a socket that listens on `listen`.
pub(crate) fn leads_to(connect: SocketAddr, listen: SocketAddr) -> bool {
    let everywhere = listen.ip().is_unspecified() && connect.ip().is_loopback();
    listen.port() != 0
        && listen.port() == connect.port()
        && (everywhere || listen.ip() == connect.ip())
}

impl std::fmt::Display for Destination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.name.parse::<SocketAddr>(), self.current()) {
            (Ok(address), _) => Named(address).fmt(f),
            (Err(_), Some(address)) => write!(f, "{} at {}", self.name, Named(address)),
            (Err(_), None) => f.write_str(&self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::client::{ClientProxy, ClientProxyOptions};
    use crate::proxy::limits::Limits;
    use crate::proxy::server::{self, ServerProxy};
    use lightseal_core::{Engine, Output, Random};
    use lightseal_dtls::{ClientConfig, Endpoint, Psk, ServerConfig};
    use std::net::Ipv4Addr;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;
    use tokio::net::UdpSocket;
    use tokio::task::JoinHandle;

    /// An hour, for what no test waits for.
    const LONG: Duration = Duration::from_secs(3600);
    const PATIENCE: Duration = Duration::from_secs(30);

    fn psk() -> Psk {
        Psk::external(b"sensor", &[7; 32]).unwrap()
    }

    async fn loopback() -> UdpSocket {
        UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap()
    }

    /// A server proxy whose service answers with `word`.
    async fn server(word: &'static [u8]) -> (SocketAddr, JoinHandle<()>) {
        let service = loopback().await;
        let options = server::ServerProxyOptions {
            limits: Limits::default(),
            proxy_protocol: false,
            source_prefix: None,
            keys: None,
            list: None,
            router: None,
            service: Arc::new(Destination::at(service.local_addr().unwrap())),
            max_flows: 8,
            idle_timeout: LONG,
        };
        let config = Arc::new(ServerConfig::new(Arc::new(psk())));
        let proxy = ServerProxy::new(loopback().await, config, options).unwrap();
        let address = proxy.local_addr().unwrap();
        let task = tokio::spawn(async move {
            let mut buf = [0; 100];
            let mut running = std::pin::pin!(proxy.run());
            loop {
                tokio::select! {
                    _ = &mut running => return,
                    arrived = service.recv_from(&mut buf) => {
                        let (_, from) = arrived.unwrap();
                        service.send_to(word, from).await.unwrap();
                    }
                }
            }
        });
        (address, task)
    }

    /// A client proxy whose server's name is looked up so, and where it listens.
    async fn client(lookup: Resolver) -> (Arc<ClientProxy>, SocketAddr) {
        let options = ClientProxyOptions {
            merges_ports: false,
            list: None,
            server: Arc::new(Destination::new("gateway.test:5684", lookup)),
            max_flows: 8,
            idle_timeout: LONG,
            keepalive: Some(Duration::from_millis(200)),
            shares_sockets: true,
        };
        let config = Arc::new(ClientConfig::new(psk()));
        let proxy = Arc::new(ClientProxy::new(loopback().await, config, options));
        let local = proxy.local_addr().unwrap();
        let running = Arc::clone(&proxy);
        tokio::spawn(async move { running.run().await });
        (proxy, local)
    }

    /// Asks until `word` is the answer.
    async fn answers(application: &UdpSocket, local: SocketAddr, word: &[u8]) {
        let asking = async {
            let mut buf = [0; 100];
            loop {
                application.send_to(b"?", local).await.unwrap();
                let answer = application.recv(&mut buf);
                if let Ok(Ok(len)) = tokio::time::timeout(Duration::from_millis(100), answer).await
                    && &buf[..len] == word
                {
                    return;
                }
            }
        };
        tokio::time::timeout(PATIENCE, asking).await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_name_that_is_not_known_yet_is_waited_for_and_what_comes_is_counted() {
        let (address, _server) = server(b"here").await;
        let tries = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&tries);
        let (proxy, local) = client(Resolver::new(move |_| {
            let known = counted.fetch_add(1, Ordering::Relaxed) > 0;
            let found = if known { Ok(vec![address]) } else { Err(io::Error::other("no DNS")) };
            Box::pin(async { found })
        }))
        .await;
        let application = loopback().await;
        answers(&application, local, b"here").await;
        assert!(proxy.totals().refused.get() > 0);
        assert_eq!(tries.load(Ordering::Relaxed), 2);
    }

    /// What was queued for the address that is silent arrives at the next one.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn all_addresses_are_tried_and_the_queue_goes_along() {
        let silent = loopback().await;
        let (address, _server) = server(b"second").await;
        let found = vec![silent.local_addr().unwrap(), address];
        let (proxy, local) = client(Resolver::new(move |_| {
            let found = found.clone();
            Box::pin(async { Ok(found) })
        }))
        .await;
        let application = loopback().await;
        while proxy.open_flows() == 0 {
            application.send_to(b"only once", local).await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let mut buf = [0; 100];
        let answer = tokio::time::timeout(PATIENCE, application.recv(&mut buf)).await;
        assert_eq!(&buf[..answer.unwrap().unwrap()], b"second");
        assert_eq!(proxy.totals().failed.get(), 0);
        // The next flow goes there at once.
        let other = loopback().await;
        other.send_to(b"?", local).await.unwrap();
        let answer = tokio::time::timeout(PATIENCE, other.recv(&mut buf)).await;
        assert_eq!(&buf[..answer.unwrap().unwrap()], b"second");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_moved_name_moves_new_flows_and_old_ones_when_their_server_is_silent() {
        let (old, old_server) = server(b"old").await;
        let (new, _new_server) = server(b"new").await;
        let moved = Arc::new(AtomicBool::new(false));
        let to = Arc::clone(&moved);
        let (proxy, local) = client(Resolver::new(move |_| {
            let at = if to.load(Ordering::Relaxed) { new } else { old };
            Box::pin(async move { Ok(vec![at]) })
        }))
        .await;
        let application = loopback().await;
        answers(&application, local, b"old").await;
        moved.store(true, Ordering::Relaxed);
        // It still answers: the flow stays.
        answers(&application, local, b"old").await;
        old_server.abort();
        answers(&application, local, b"new").await;
        assert_eq!(proxy.open_flows(), 1);
    }

    /// A server that answers the first hello with a HelloRetryRequest, and everything else with
    /// junk.
    async fn stuck() -> SocketAddr {
        let socket = loopback().await;
        let address = socket.local_addr().unwrap();
        tokio::spawn(async move {
            let config = Arc::new(ServerConfig::new(Arc::new(psk())));
            let mut server = Endpoint::server(config, Random::insecure(1));
            let (mut buf, mut answer) = ([0; 2048], [0; 2048]);
            let now = lightseal_core::Instant::from_micros(1);
            let mut stuck = false;
            loop {
                let (len, from) = socket.recv_from(&mut buf).await.unwrap();
                server.handle_datagram(now, from, &mut buf[..len]);
                let answer = match server.poll_output(&mut answer) {
                    Output::Datagram { payload, .. } if !stuck => payload,
                    _ => b"junk",
                };
                stuck = true;
                socket.send_to(answer, from).await.unwrap();
            }
        });
        address
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_answer_that_proves_nothing_keeps_nobody_at_an_address() {
        let stuck = stuck().await;
        let (address, _server) = server(b"second").await;
        let (_proxy, local) =
            client(Resolver::new(move |_| Box::pin(async move { Ok(vec![stuck, address]) }))).await;
        answers(&loopback().await, local, b"second").await;
    }

    #[tokio::test]
    async fn a_name_that_comes_to_lead_to_the_proxy_itself_is_not_followed() {
        let own: SocketAddr = ([0, 0, 0, 0], 5683).into();
        let [itself, other] = [1, 2].map(|host| SocketAddr::from(([127, 0, 0, host], 5683)));
        let elsewhere = ([192, 0, 2, 1], 5683).into();
        let round = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&round);
        let destination = Destination::new(
            "gateway.test:5683",
            Resolver::new(move |_| {
                let found = match counted.fetch_add(1, Ordering::Relaxed) {
                    0 => vec![itself, elsewhere],
                    _ => vec![itself, other],
                };
                Box::pin(async { Ok(found) })
            }),
        );
        destination.settle(PATIENCE).await;
        assert_eq!(destination.current(), Some(itself), "nothing is known of the proxy yet");
        destination.avoid(own);
        assert_eq!((destination.current(), destination.len()), (Some(elsewhere), 1));
        // When all addresses lead to the proxy, it stays with what it has.
        tokio::select! {
            () = destination.run() => {}
            () = async {
                while round.load(Ordering::Relaxed) < 2 {
                    tokio::task::yield_now().await;
                }
                tokio::task::yield_now().await;
            } => {}
        }
        assert_eq!((destination.current(), destination.len()), (Some(elsewhere), 1));
    }
}
