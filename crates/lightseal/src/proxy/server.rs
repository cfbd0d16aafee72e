//! The proxy in front of a service. Each of its workers has a socket, an endpoint and associations of
//! its own.
//!
//! - [`host`]: what a worker does with its engine's events;
//! - [`associations`]: the associations of a worker;
//! - [`common`]: what all workers share, and [`flows`]: their flows by identity;
//! - [`admission`]: which clients get an association;
//! - [`keys`]: which associations end because a key or certificate counts no more;
//! - [`addresses`]: the addresses of identities;
//! - [`service`], [`opening`]: the sockets towards the service, and what opens them;
//! - [`answers`]: what carries the service's answers;
//! - [`secrets`]: the secrets of cookies and tickets that workers and nodes share;
//! - [`stored`]: how it stores its associations and takes them over;
//! - [`statistics`]: what it says of itself.

mod addresses;
mod admission;
mod answers;
mod associations;
mod common;
mod flows;
mod host;
mod keys;
mod opening;
mod ports;
mod secrets;
mod service;
mod statistics;
mod stored;

use super::counters::{Count, Totals};
use super::deliveries::Deliveries;
use super::destination::Destination;
use super::limits::Limits;
use super::log_batches;
use super::loops::EphemeralPorts;
use super::overruns;
use super::routing::router::Router;
use super::source_address::{SourceAddresses, SourcePrefix};
use super::workers::threads::{Threads, WorkerRuntime};
use super::workers::{Mail, Workers};
use crate::credential::allow::AccessList;
use crate::credential::lookup::KeyLookup;
use answers::Answers;
use associations::Associations;
use common::Common;
use host::{Generations, ServerHost};
use lightseal_core::{Instant, Random};
use lightseal_dtls::{Endpoint, ServerConfig};
use lightseal_net::socket_set::SocketSet;
use lightseal_net::tokio::Driver;
use lightseal_net::{Clock, path_mtu};
use service::named;
use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, UdpSocket as StdSocket};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::runtime;

/// How often associations are checked for silence.
const SWEEP: Duration = Duration::from_millis(500);

/// How many datagrams that others have passed on are handled at a time.
const AT_ONCE: usize = 32;

/// How a server proxy behaves.
#[derive(Clone, Debug)]
pub(crate) struct ServerProxyOptions {
    /// The service.
    pub(crate) service: Arc<Destination>,
    /// Maximum number of associations at a time.
    pub(crate) max_flows: usize,
    /// Whether each datagram towards the service begins with a header of the PROXY protocol.
    pub(crate) proxy_protocol: bool,
    /// The prefix in which each identity has an address, from which the service sees its messages.
    pub(crate) source_prefix: Option<SourcePrefix>,
    /// Limits by network and by identity.
    pub(crate) limits: Limits,
    /// How long an association may carry nothing in both directions before it is closed.
    pub(crate) idle_timeout: Duration,
    /// Where pre-shared keys are looked up, if not in a file.
    pub(crate) keys: Option<Arc<KeyLookup>>,
    /// The access list, which knows whom it has refused.
    pub(crate) list: Option<Arc<AccessList>>,
    /// The other nodes of a fleet.
    pub(crate) router: Option<Arc<Router>>,
}

type Outer = Driver<Endpoint, ServerHost>;

/// The engines of all workers, for others than the proxy itself.
type Outers = Weak<[Arc<Outer>]>;

/// A running server proxy.
#[derive(Debug)]
pub(crate) struct ServerProxy {
    /// The engines of all workers, by the worker's number.
    outers: Arc<[Arc<Outer>]>,
    common: Arc<Common>,
    workers: Arc<Workers>,
    /// The runtimes of all workers but the first, until they run.
    runtimes: Mutex<Vec<(usize, WorkerRuntime)>>,
    options: ServerProxyOptions,
    /// The session slots of each worker.
    slots: Option<NonZeroUsize>,
    /// The length in bytes of the longest message that is carried.
    longest: usize,
    began: Instant,
    /// How many datagrams dropped by the kernel have been logged so far.
    known_overruns: Count,
}

impl ServerProxy {
    /// A proxy with one worker, which accepts associations on `listen`. Must be called within a runtime,
    /// which has the socket.
    ///
    /// # Errors
    ///
    /// If the settings of the socket cannot be changed, or there is no randomness.
    pub(crate) fn new(
        listen: UdpSocket,
        config: Arc<ServerConfig>,
        options: ServerProxyOptions,
    ) -> io::Result<Self> {
        let (workers, sockets) = Workers::one(listen.into_std()?)?;
        Self::with_workers(workers, sockets, &config, options)
    }

    /// A proxy with a worker for each of these sockets. Must be called within a runtime, which has the
    /// first one.
    ///
    /// # Errors
    ///
    /// If the settings of the sockets cannot be changed, there is no randomness, or the system has no
    /// room for the runtimes.
    pub(crate) fn with_workers(
        workers: Workers,
        sockets: Vec<StdSocket>,
        config: &Arc<ServerConfig>,
        options: ServerProxyOptions,
    ) -> io::Result<Self> {
        let workers = Arc::new(workers);
        let sources = options.source_prefix.map(|prefix| SourceAddresses::new(prefix, None));
        // Tickets name times, which all nodes of a fleet understand alike.
        let clock = if options.router.is_some() { Clock::unix() } else { Clock::start() };
        let common = Common::new(clock, options.limits, options.max_flows, sources);
        let common = Arc::new(common);
        let (mut outers, mut runtimes) = (Vec::new(), Vec::new());
        for (number, socket) in sockets.into_iter().enumerate() {
            let runtime = match number {
                0 => runtime::Handle::current(),
                _ => {
                    let runtime = WorkerRuntime::new()?;
                    let handle = runtime.handle();
                    runtimes.push((number, runtime));
                    handle
                }
            };
            let worker = Worker { number, runtime, clock, common: &common, workers: &workers };
            outers.push(worker.outer(socket, config, &options)?);
        }
        log_batches(outers.iter().all(|outer| outer.has_batches()));
        Ok(Self {
            outers: outers.into(),
            common,
            workers,
            runtimes: Mutex::new(runtimes),
            longest: config.settings().longest_first_payload(),
            slots: config.slots().most,
            options,
            began: clock.now(),
            known_overruns: Count::default(),
        })
    }

    /// The length in bytes of the longest message that is carried.
    pub(crate) const fn longest_message(&self) -> usize {
        self.longest
    }

    fn first(&self) -> &Arc<Outer> {
        self.outers.first().expect("a proxy has a worker")
    }

    /// Calls `act` for each worker under its engine's lock.
    fn each(&self, mut act: impl FnMut(&mut Endpoint, &mut ServerHost, Instant)) {
        for outer in &*self.outers {
            outer.call(&mut act);
        }
    }

    /// The address that client proxies send to.
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.first().socket().local_addr()
    }

    /// Carries datagrams until the future is dropped. The other workers run as long as it.
    ///
    /// # Errors
    ///
    /// Errors of the listening sockets, or if the system has no room for the workers' threads.
    pub(crate) async fn run(&self) -> io::Result<()> {
        let shortest = (self.options.idle_timeout / 2).clamp(Duration::from_millis(5), SWEEP);
        let mut sweep = tokio::time::interval(shortest);
        let runtimes = self.runtimes.lock().map(|mut of| std::mem::take(&mut *of));
        let runtimes = runtimes.unwrap_or_default();
        let (outers, workers) = (Arc::clone(&self.outers), Arc::clone(&self.workers));
        let work = move |number: usize| work(Arc::clone(&outers), Arc::clone(&workers), number);
        let mut threads = Threads::start(runtimes, work.clone())?;
        let mut running = std::pin::pin!(work(0));
        let mut resolving = std::pin::pin!(self.options.service.run());
        let mut taking = std::pin::pin!(self.take_from_nodes());
        loop {
            tokio::select! {
                () = &mut resolving => {}
                never = &mut taking => match never {},
                ended = &mut running => return ended,
                ended = threads.ended() => return ended,
                _ = sweep.tick() => self.sweep()?,
            }
        }
    }

    /// Closes all associations with a close_notify.
    pub(crate) fn close_all(&self) {
        self.each(|endpoint, _, now| endpoint.close_all(now));
    }

    /// The number of associations that are complete and open.
    pub(crate) fn open_flows(&self) -> usize {
        self.common.flows().count()
    }

    /// The counters of this proxy.
    pub(crate) fn totals(&self) -> &Totals {
        &self.common.totals
    }

    /// The number of datagrams that the kernel dropped at the listening sockets.
    fn overruns(&self) -> u64 {
        self.outers.iter().map(|outer| overruns(outer.socket())).sum()
    }

    fn sweep(&self) -> io::Result<()> {
        self.common.totals.complain_of_overruns(&self.known_overruns, self.overruns());
        self.keep_addresses();
        let mut why = None;
        self.each(|endpoint, host, now| {
            why = why.take().or_else(|| host.why_ended());
            host.sweep(endpoint, now);
        });
        why.map_or(Ok(()), |why| Err(io::Error::other(why)))
    }
}

/// Carries the datagrams of a worker.
async fn work(outers: Arc<[Arc<Outer>]>, workers: Arc<Workers>, number: usize) -> io::Result<()> {
    let outer = outers.get(number).ok_or(io::ErrorKind::NotFound)?;
    let answers = outer.call(|_, host, _| Answers::of(host));
    tokio::select! {
        ended = outer.run() => ended,
        failed = answers.carry(outer) => failed.map(|never| match never {}),
        never = take_mail(outer, &workers, number) => match never {},
    }
}

/// Does what other workers ask of a worker.
async fn take_mail(outer: &Outer, workers: &Workers, number: usize) -> Infallible {
    let mut mail = Mail::default();
    loop {
        workers.mail(number, &mut mail).await;
        outer.call(|_, host, _| mail.ends().for_each(|handle| host.end(handle)));
        while outer.batch(|batch| {
            mail.deliver_some(AT_ONCE, |addresses, datagram| {
                batch.handle_datagram(addresses, datagram);
            })
        }) {
            // What arrives at the worker's own socket has its turn, too.
            tokio::task::yield_now().await;
        }
    }
}

/// What one worker is made of.
struct Worker<'a> {
    number: usize,
    runtime: runtime::Handle,
    clock: Clock,
    common: &'a Arc<Common>,
    workers: &'a Arc<Workers>,
}

impl Worker<'_> {
    fn outer(
        self,
        socket: StdSocket,
        config: &Arc<ServerConfig>,
        options: &ServerProxyOptions,
    ) -> io::Result<Arc<Outer>> {
        let Worker { number, runtime, clock, common, workers } = self;
        let entered = runtime.enter();
        let socket = UdpSocket::from_std(socket)?;
        let services = Arc::new(SocketSet::new()?);
        drop(entered);
        let settings = config.settings();
        if settings.path_mtu.is_some() {
            path_mtu::forbid_fragments(&socket)?;
        }
        let rng = Random::from_os().map_err(io::Error::other)?;
        let mut endpoint = Endpoint::server(Arc::clone(config), rng);
        endpoint.count_from(Workers::first_handle(number));
        workers.share_limits(&mut endpoint);
        if options.limits.limit_networks() {
            endpoint.hold_incoming();
        }
        if let Some(router) = &options.router {
            endpoint.set_connection_id_generator(router.ids(number, workers.count()));
        } else if let Some(ids) = workers.ids_of(number) {
            endpoint.set_connection_id_generator(ids);
        }
        let listen = socket.local_addr()?;
        let mut host = ServerHost {
            options: options.clone(),
            common: Arc::clone(common),
            workers: Arc::clone(workers),
            number,
            runtime,
            services,
            listen,
            ports: EphemeralPorts::of_this_host(),
            policy: settings.aggregation.clone(),
            longest: settings.longest_first_payload(),
            associations: Associations::new(options.idle_timeout, Arc::clone(common)),
            opening: Vec::new(),
            is_restoring: false,
            waiting: Vec::new(),
            misses_service: false,
            saves: Vec::new(),
            generations: Generations::default(),
            answers: Vec::new(),
            deliveries: Deliveries::new(named),
            refused: Vec::new(),
            addressless: HashMap::new(),
            passed_on: 0,
            refusals: 0,
        };
        host.share_secrets(&mut endpoint, clock.now());
        Ok(Arc::new(Driver::new(socket, clock, endpoint, host)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightseal_core::Output;
    use lightseal_dtls::{ClientConfig, Connection, Engine, Psk};
    use std::net::{Ipv4Addr, UdpSocket as StdSocket};

    const PATIENCE: Duration = Duration::from_secs(5);

    /// An attacker with a stolen key may keep a handshake ready for the day when the key is
    /// revoked.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_handshake_that_was_begun_with_a_revoked_key_leads_nowhere() {
        for (revoked, flows) in [(false, 1), (true, 0)] {
            let psk = Psk::external(b"sensor", &[7; 32]).unwrap();
            let service = StdSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let options = ServerProxyOptions {
                service: Arc::new(Destination::at(service.local_addr().unwrap())),
                max_flows: 8,
                limits: Limits::default(),
                proxy_protocol: false,
                source_prefix: None,
                idle_timeout: Duration::from_secs(60),
                keys: None,
                list: None,
                router: None,
            };
            let listen = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let config = Arc::new(ServerConfig::new(Arc::new(psk.clone())));
            let proxy = Arc::new(ServerProxy::new(listen, config, options).unwrap());
            let running = Arc::clone(&proxy);
            let task = tokio::spawn(async move { running.run().await });

            let server = proxy.local_addr().unwrap();
            let socket = StdSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            let (now, rng) = (Instant::from_micros(1), Random::from_os().unwrap());
            let config = Arc::new(ClientConfig::new(psk));
            let mut client = Connection::client(config, server, now, rng);
            let mut buf = vec![0; 2048];
            let mut last = Vec::new();
            while last.is_empty() {
                loop {
                    let connected = client.is_connected();
                    match client.poll_output(&mut buf) {
                        Output::Datagram { payload, .. } if connected => last = payload.to_vec(),
                        Output::Datagram { payload, .. } => {
                            socket.send_to(payload, server).unwrap();
                        }
                        Output::Event(_) => {}
                        Output::BufferTooSmall { needed } => panic!("{needed} bytes are needed"),
                        Output::WakeAt(_) | Output::Idle => break,
                    }
                }
                if last.is_empty() {
                    let len = socket.recv(&mut buf).unwrap();
                    client.handle_datagram(now, server, &mut buf[..len]);
                }
            }
            // What is missing is the client's Finished.
            if revoked {
                assert_eq!(proxy.end_unless(|_| true), 0);
            }
            let heard = || proxy.counters().1.received;
            let before = heard();
            socket.send_to(&last, server).unwrap();
            let waited = tokio::time::timeout(PATIENCE, async {
                while heard() == before {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            });
            waited.await.unwrap();
            assert_eq!(proxy.open_flows(), flows);
            assert_eq!(proxy.totals().opened.get(), flows as u64);
            task.abort();
        }
    }
}
