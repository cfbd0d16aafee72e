//! One session of the demo: application, two proxies, relay and service, all on loopback.

use super::readings::{MESSAGE_BYTES, Message, number};
use crate::failure::{Context, Failure};
use crate::proxy::client::{self, ClientProxy};
use crate::proxy::destination::Destination;
use crate::proxy::limits::Limits;
use crate::proxy::server::{self, ServerProxy};
use lightseal_dtls::{
    AggregationPolicy, ClientConfig, Psk, RecordNumbers, Scheme, ServerConfig, Settings,
};
use lightseal_net::relay::{self, Relay};
use lightseal_net::{Impairments, socket};
use serde::Serialize;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tokio::net::UdpSocket;
use tokio::task::JoinSet;
use zeroize::Zeroizing;

/// The idle timeout of flows, which is longer than any demo: flows must not end by themselves.
const NEVER: Duration = Duration::from_secs(86_400);

/// How long a message may wait for its set, at any pace.
const MOST_WAIT: Duration = Duration::from_millis(200);

/// Maximum number of datagrams on their way through one socket. The smallest receive buffers in use
/// hold about 250 small datagrams.
const WINDOW: u64 = 100;

/// All messages in order, as the application sent them.
#[derive(Debug, Default)]
pub(crate) struct SentLog(RwLock<Vec<(Message, Instant)>>);

impl SentLog {
    /// Adds a message that is about to be sent.
    pub(crate) fn push(&self, message: Message) {
        let mut log = self.0.write().unwrap_or_else(PoisonError::into_inner);
        log.push((message, Instant::now()));
    }

    /// A message with the time when it was sent, and the number of messages that were sent so far.
    fn get(&self, number: usize) -> (Option<(Message, Instant)>, usize) {
        let log = self.0.read().unwrap_or_else(PoisonError::into_inner);
        (log.get(number).copied(), log.len())
    }
}

/// The messages that the service received.
#[derive(Debug, Default)]
struct Arrivals {
    /// Whether each message was received, by its number.
    seen: Vec<bool>,
    received: u64,
    identical: u64,
    delays_us: Vec<u32>,
    messages_behind: u64,
}

/// A running session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) scheme: Scheme,
    application: UdpSocket,
    client: Arc<ClientProxy>,
    relay: Arc<Relay>,
    server: Arc<ServerProxy>,
    arrivals: Arc<Mutex<Arrivals>>,
    sent: u64,
    _tasks: JoinSet<()>,
}

/// The results of a session so far.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct SessionResults {
    /// The scheme of its tags; `off` is a full tag for each record.
    pub(crate) scheme: String,
    /// Number of messages that the application sent.
    pub(crate) sent: u64,
    /// Number of different messages that the service received.
    pub(crate) delivered: u64,
    /// Number of delivered messages that were byte for byte as they were sent.
    pub(crate) identical: u64,
    /// Number of arrivals of a message that had arrived before.
    pub(crate) repeated: u64,
    /// Number of records that the relay lost on the way to the server.
    pub(crate) lost_by_relay: u64,
    /// Number of datagrams that got lost in sockets, where none should get lost.
    pub(crate) lost_in_sockets: u64,
    /// UDP payload bytes sent in both directions after the handshake.
    pub(crate) record_bytes: u64,
    /// UDP payload bytes of the handshake in both directions.
    pub(crate) handshake_bytes: u64,
    /// Delivered payload bytes divided by record bytes.
    pub(crate) goodput: f64,
    /// Record bytes per message that was sent.
    pub(crate) bytes_per_message: f64,
    /// Mean time from sending a message to its full authentication.
    pub(crate) delay_mean_ms: f64,
    /// 95th percentile of the time from sending a message to its full authentication.
    pub(crate) delay_p95_ms: f64,
    /// Mean number of messages sent between a message and its full authentication.
    pub(crate) messages_behind: f64,
}

impl SessionResults {
    /// Number of messages that were sent and have not arrived.
    pub(crate) fn missing(&self) -> u64 {
        self.sent.saturating_sub(self.delivered)
    }
}

fn loopback() -> Result<UdpSocket, Failure> {
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    socket::bind(any_port).context("cannot get a socket on loopback")
}

impl Session {
    /// Starts application, proxies, relay and service.
    ///
    /// # Errors
    ///
    /// If sockets or randomness are not available.
    pub(crate) fn start(
        scheme: Scheme,
        line: &Impairments,
        seed: u64,
        log: &Arc<SentLog>,
    ) -> Result<Self, Failure> {
        let at = |address| Arc::new(Destination::at(address));
        let mut tasks = JoinSet::new();
        let psk = psk()?;
        let service = loopback()?;
        let settings = settings(scheme)?;
        let config = ServerConfig::with(Arc::new(psk.clone()), settings.clone());
        let config = config.context("settings")?;
        let options = server::ServerProxyOptions {
            limits: Limits::default(),
            proxy_protocol: false,
            source_prefix: None,
            keys: None,
            list: None,
            router: None,
            service: at(service.local_addr().context("service")?),
            max_flows: 1,
            idle_timeout: NEVER,
        };
        let server = ServerProxy::new(loopback()?, Arc::new(config), options);
        let server = Arc::new(server.context("server proxy")?);
        let upstream = server.local_addr().context("server proxy")?;
        let relay_settings = relay::RelaySettings {
            up: *line,
            down: *line,
            seed,
            idle_timeout: NEVER,
            ..relay::RelaySettings::new(upstream)
        };
        let relay = Arc::new(Relay::new(loopback()?, relay_settings));
        let config = ClientConfig::with(psk, settings).context("settings")?;
        let options = client::ClientProxyOptions {
            merges_ports: false,
            list: None,
            server: at(relay.local_addr().context("relay")?),
            max_flows: 1,
            idle_timeout: NEVER,
            keepalive: None,
            shares_sockets: true,
        };
        let client = Arc::new(ClientProxy::new(loopback()?, Arc::new(config), options));
        let local = client.local_addr().context("client proxy")?;
        let application = socket::connect(local).context("application")?;
        let arrivals = Arc::<Mutex<Arrivals>>::default();

        let (running, shared) = (Arc::clone(&server), Arc::clone(&relay));
        tasks.spawn(async move { drop(running.run().await) });
        tasks.spawn(async move { drop(shared.run().await) });
        let running = Arc::clone(&client);
        tasks.spawn(async move { drop(running.run().await) });
        tasks.spawn(serve(service, Arc::clone(log), Arc::clone(&arrivals)));
        Ok(Self { scheme, application, client, relay, server, arrivals, sent: 0, _tasks: tasks })
    }

    /// Whether the association is established.
    pub(crate) fn is_connected(&self) -> bool {
        self.server.open_flows() == 1
    }

    /// Whether no socket on the way is close to overflowing.
    pub(crate) fn has_room(&self) -> bool {
        let accepted = self.client.totals().outward.messages();
        let (_, client) = self.client.counters();
        let (_, server) = self.server.counters();
        let relay = self.relay.counters();
        let handed_over = self.server.totals().inward.messages();
        let received = self.arrivals().received;
        let waiting = [
            self.sent.saturating_sub(accepted),
            client.sent.saturating_sub(relay.up.offered),
            relay.up.delivered.saturating_sub(server.received),
            handed_over.saturating_sub(received),
        ];
        waiting.iter().all(|waiting| *waiting < WINDOW)
    }

    /// Sends a message as the application does: a datagram to the proxy's port.
    ///
    /// # Errors
    ///
    /// If the socket fails.
    pub(crate) async fn send(&mut self, message: &Message) -> Result<(), Failure> {
        self.application.send(message).await.context("application")?;
        self.sent += 1;
        Ok(())
    }

    /// The results so far.
    pub(crate) fn results(&self) -> SessionResults {
        let (client, client_socket) = self.client.counters();
        let (server, server_socket) = self.server.counters();
        let relay = self.relay.counters();
        let accepted = self.client.totals().outward.messages();
        let handed_over = self.server.totals().inward.messages();
        let arrivals = self.arrivals();
        let delivered = arrivals.seen.iter().filter(|seen| **seen).count() as u64;
        let handshake_bytes = client.sent.handshake_bytes + server.sent.handshake_bytes;
        let all_bytes = relay.up.offered_bytes + relay.down.offered_bytes;
        let record_bytes = all_bytes.saturating_sub(handshake_bytes);
        let mut delays = arrivals.delays_us.clone();
        let p95 = (delays.len() * 95 / 100).min(delays.len().saturating_sub(1));
        let p95_us = if delays.is_empty() { 0 } else { *delays.select_nth_unstable(p95).1 };
        let total_us: u64 = delays.iter().map(|us| u64::from(*us)).sum();
        let mean = |sum: f64, count: u64| if count == 0 { 0.0 } else { sum / count as f64 };
        SessionResults {
            scheme: self.scheme.to_string(),
            sent: self.sent,
            delivered,
            identical: arrivals.identical,
            repeated: arrivals.received - delivered,
            lost_by_relay: relay.up.dropped(),
            lost_in_sockets: self.sent.saturating_sub(accepted)
                + client_socket.sent.saturating_sub(relay.up.offered)
                + relay.up.delivered.saturating_sub(server_socket.received)
                + relay.refused
                + handed_over.saturating_sub(arrivals.received),
            record_bytes,
            handshake_bytes,
            goodput: mean((delivered * MESSAGE_BYTES as u64) as f64, record_bytes),
            bytes_per_message: mean(record_bytes as f64, self.sent),
            delay_mean_ms: mean(total_us as f64 / 1000.0, delays.len() as u64),
            delay_p95_ms: f64::from(p95_us) / 1000.0,
            messages_behind: mean(arrivals.messages_behind as f64, arrivals.received),
        }
    }

    /// Number of messages that the service received so far.
    pub(crate) fn received(&self) -> u64 {
        self.arrivals().received
    }

    fn arrivals(&self) -> MutexGuard<'_, Arrivals> {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs the service, which records what arrives.
async fn serve(socket: UdpSocket, log: Arc<SentLog>, arrivals: Arc<Mutex<Arrivals>>) {
    let mut buf = [0; 2048];
    // On loopback a socket fails only when the program ends.
    while let Ok(len) = socket.recv(&mut buf).await {
        let message = &buf[..len];
        let now = Instant::now();
        let mut arrivals = arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        arrivals.received += 1;
        let Some(number) = number(message) else { continue };
        let (Some((sent, sent_at)), count) = log.get(number) else { continue };
        if arrivals.seen.len() < count {
            arrivals.seen.resize(count, false);
        }
        let again = arrivals.seen.get_mut(number).is_none_or(|seen| std::mem::replace(seen, true));
        if again {
            continue;
        }
        arrivals.identical += u64::from(sent == *message);
        let delay = now.saturating_duration_since(sent_at).as_micros();
        arrivals.delays_us.push(u32::try_from(delay).unwrap_or(u32::MAX));
        arrivals.messages_behind += (count - 1).saturating_sub(number) as u64;
    }
}

fn psk() -> Result<Psk, Failure> {
    let mut key = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *key).context("no randomness")?;
    Psk::external(b"demo", &*key).context("key")
}

fn settings(scheme: Scheme) -> Result<Settings, Failure> {
    let mut settings = crate::provider::settings().context("settings")?;
    settings.max_wait = Some(MOST_WAIT);
    if scheme.aggregates() {
        settings.aggregation = AggregationPolicy::both(scheme);
    } else {
        // The shortest header of plain DTLS 1.3, so that only the tags differ.
        settings.record_numbers = RecordNumbers::Short;
    }
    Ok(settings)
}
