//! One peer: dials it, and decides which connection is used.

use super::connection::{self, ConnectionContext, HANDOVER};
use super::frame::{self, Frame};
use super::handshake::{self, AuthenticatedConnection};
use super::transport::Transport;
use super::{Cause, ChannelShared, Event, PeerIndex, QueuedEvent, tls};
use lightseal_core::Random;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};

/// How long a connection must last so that the next pause is the first one again.
const STABLE_AFTER: Duration = Duration::from_secs(10);

type Dialling = Pin<Box<dyn Future<Output = Result<AuthenticatedConnection, Cause>> + Send>>;

/// A task that is aborted when its owner is dropped.
struct AbortOnDrop(JoinHandle<Cause>);

impl AbortOnDrop {
    async fn ended(&mut self) -> Cause {
        (&mut self.0).await.unwrap_or(Cause::Protocol("a message that made this end panic"))
    }

    async fn abort(mut self) {
        self.0.abort();
        let _ = (&mut self.0).await;
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The connection in use.
struct ActiveConnection {
    task: AbortOnDrop,
    instance: [u8; 16],
    /// The number of the peer's decision; `None` if this gateway decides.
    number: Option<u64>,
    since: Instant,
    /// Dropped when no further message is to be sent.
    stop_sending: oneshot::Sender<()>,
    /// Ready when the connection was read to its end.
    read_done: oneshot::Receiver<()>,
}

struct Peer {
    shared: Arc<ChannelShared>,
    transport: Arc<dyn Transport>,
    index: PeerIndex,
    random: Random,
    active: Option<ActiveConnection>,
    dialling: Option<Dialling>,
    /// When to dial next; `None` if it is not planned.
    next_dial: Option<Instant>,
    pause: Duration,
    /// Connections that were replaced and have not ended yet.
    replaced: JoinSet<()>,
}

/// Keeps one connection with a peer until the channel ends.
pub(super) async fn run(
    shared: Arc<ChannelShared>,
    transport: Arc<dyn Transport>,
    index: PeerIndex,
    mut candidates: mpsc::Receiver<AuthenticatedConnection>,
    random: Random,
) {
    let mut stopping = shared.stopping.clone();
    let pause = shared.settings.pauses.0;
    let mut peer = Peer {
        next_dial: shared.settings.peers[index.0].1.is_some().then(Instant::now),
        shared,
        transport,
        index,
        random,
        active: None,
        dialling: None,
        pause,
        replaced: JoinSet::new(),
    };
    loop {
        tokio::select! {
            Some(candidate) = candidates.recv() => peer.decide(candidate).await,
            outcome = ready(&mut peer.dialling) => {
                peer.dialling = None;
                match outcome {
                    Ok(candidate) => peer.decide(candidate).await,
                    Err(why) => peer.not_reached(why),
                }
            }
            () = due(peer.next_dial), if peer.dialling.is_none() => peer.dial(),
            why = ended(&mut peer.active) => peer.down(why).await,
            () = stopped(&mut stopping) => break,
        }
        while peer.replaced.try_join_next().is_some() {}
    }
    peer.stop().await;
}

async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // If the sender is gone, the channel ends too.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

async fn ready(dialling: &mut Option<Dialling>) -> Result<AuthenticatedConnection, Cause> {
    match dialling {
        Some(dialling) => dialling.await,
        None => std::future::pending().await,
    }
}

async fn due(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

async fn ended(active: &mut Option<ActiveConnection>) -> Cause {
    match active {
        Some(active) => active.task.ended().await,
        None => std::future::pending().await,
    }
}

impl Peer {
    /// Starts to dial: for a first connection, or for a renewal.
    fn dial(&mut self) {
        self.next_dial = None;
        let (shared, transport) = (Arc::clone(&self.shared), Arc::clone(&self.transport));
        let (index, renewal) = (self.index, self.active.is_some());
        self.dialling = Some(Box::pin(async move {
            let endpoint = shared.settings.peers[index.0].1.as_deref().unwrap_or_default();
            let connected = transport.dial(endpoint).await;
            let lost = |error| Cause::Lost(tls::describe_error(&error));
            let (stream, remote) = connected.map_err(lost)?;
            let greeting = handshake::connect(&shared, index, stream, remote, renewal);
            let greeted = timeout(shared.settings.handshake_timeout, greeting).await;
            greeted.unwrap_or(Err(Cause::Silent))
        }));
    }

    fn not_reached(&mut self, why: Cause) {
        // A refused connection is no failure: the peer uses another connection, which is about to
        // complete.
        if why != Cause::Refused {
            tracing::debug!("peer {}: {why}", self.index.0);
            // If a renewal fails, the present connection stays in use.
            if self.active.is_none() {
                let event = Event::NotReached { peer: self.index, why };
                // If the queue of events is full, this event is dropped.
                let _ = self.shared.events.try_send(QueuedEvent::Other(event));
            }
        }
        self.dial_later();
    }

    fn dial_later(&mut self) {
        if self.shared.settings.peers[self.index.0].1.is_some() {
            let pause = self.between(self.pause / 2, self.pause);
            self.next_dial = Some(Instant::now() + pause);
            self.pause = (self.pause * 2).min(self.shared.settings.pauses.1);
        }
    }

    fn between(&mut self, low: Duration, high: Duration) -> Duration {
        let span = u64::try_from((high - low).as_micros()).unwrap_or(u64::MAX);
        low + Duration::from_micros(self.random.below(span.saturating_add(1)))
    }

    /// Decides about a connection, or follows the peer's decision, and uses the connection if it
    /// was accepted.
    async fn decide(&mut self, mut candidate: AuthenticatedConnection) {
        let is_same = |active: &ActiveConnection| active.instance == candidate.hello.instance;
        let same = self.active.as_ref().filter(|active| is_same(active));
        let limit = self.shared.settings.handshake_timeout;
        let (is_taken, renewal) = match (candidate.number, same) {
            // The peer has decided. Its decisions may arrive out of order.
            (Some(number), Some(active)) if active.number > Some(number) => (false, false),
            (Some(_), same) => (true, candidate.renewal && same.is_some()),
            (None, None) => (true, false),
            (None, Some(_)) if candidate.renewal => (true, true),
            // Both gateways have dialled at the same time.
            (None, Some(_)) if candidate.initiator => (false, false),
            (None, Some(active)) => (active.since.elapsed() >= limit, false),
        };
        if candidate.number.is_none() {
            let number = self.shared.number.fetch_add(1, Ordering::Relaxed);
            let decision = match is_taken {
                true => Frame::Use { number, renewal },
                false => Frame::Refuse,
            };
            let told = timeout(limit, frame::write(&mut candidate.stream, &decision)).await;
            if !is_taken || !matches!(told, Ok(Ok(()))) {
                if self.active.is_none() && self.dialling.is_none() && self.next_dial.is_none() {
                    self.dial_later();
                }
                return;
            }
        } else if !is_taken {
            return;
        }
        self.take(candidate, renewal).await;
    }

    async fn take(&mut self, candidate: AuthenticatedConnection, renewal: bool) {
        let replaced = self.active.take();
        let before = match replaced {
            Some(replaced) if renewal => {
                let (gone, before) = oneshot::channel();
                self.replaced.spawn(async move {
                    let ActiveConnection { mut task, stop_sending, read_done: done, .. } = replaced;
                    // The old connection sends the messages that it accepted and then its last
                    // frame, and is read to its end.
                    drop(stop_sending);
                    if timeout(HANDOVER, done).await.is_err() {
                        // No event of the old connection may follow an event of the new one.
                        return task.abort().await;
                    }
                    drop(gone);
                    let _ = timeout(HANDOVER, task.ended()).await;
                });
                Some(before)
            }
            Some(replaced) => {
                replaced.task.abort().await;
                // Events of connections that were replaced earlier are out of date too.
                self.replaced.shutdown().await;
                let down = Event::Down { peer: self.index, why: Cause::Replaced };
                let _ = self.shared.events.send(QueuedEvent::Other(down)).await;
                None
            }
            None => None,
        };
        let (done, all_read) = oneshot::channel();
        let (stop_sending, staying) = oneshot::channel();
        let context = ConnectionContext {
            peer: self.index,
            stop_sending: staying,
            previous_done: before,
            read_done: done,
        };
        let (instance, number) = (candidate.hello.instance, candidate.number);
        let initiator = candidate.initiator;
        let task = tokio::spawn(connection::run(Arc::clone(&self.shared), candidate, context));
        let since = Instant::now();
        let task = AbortOnDrop(task);
        self.active = Some(ActiveConnection {
            task,
            instance,
            number,
            since,
            stop_sending,
            read_done: all_read,
        });
        self.dialling = None;
        // The gateway that dialled a connection also renews it.
        self.next_dial = initiator.then(|| {
            let every = self.shared.settings.renew_every;
            since + self.between(every - every / 10, every)
        });
    }

    /// The connection has ended.
    async fn down(&mut self, why: Cause) {
        if let Some(active) = self.active.take()
            && active.since.elapsed() >= STABLE_AFTER
        {
            self.pause = self.shared.settings.pauses.0;
        }
        let down = Event::Down { peer: self.index, why };
        let _ = self.shared.events.send(QueuedEvent::Other(down)).await;
        if self.dialling.is_none() {
            self.dial_later();
        }
    }

    /// Tells the peer that no other connection follows.
    async fn stop(mut self) {
        self.dialling = None;
        if let Some(ActiveConnection { mut task, stop_sending, .. }) = self.active {
            drop(stop_sending);
            let _ = timeout(HANDOVER, task.ended()).await;
        }
    }
}
