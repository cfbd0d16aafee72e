//! The connection with a peer that is in use.

use super::frame::{self, Frame};
use super::handshake::AuthenticatedConnection;
use super::{Cause, ChannelShared, ConnectionSender, Event, PeerIndex, QueuedEvent};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{MissedTickBehavior, interval, timeout};
use zeroize::Zeroizing;

/// How long two connections may overlap when one replaces the other.
pub(super) const HANDOVER: Duration = Duration::from_secs(2);
/// Number of keepalives that are sent within the silence that the peer tolerates.
const KEEPALIVES: u32 = 4;
/// Shortest interval between two keepalives.
const SHORTEST_KEEPALIVE: Duration = Duration::from_millis(100);

/// The context of a connection, besides its stream.
pub(super) struct ConnectionContext {
    pub(super) peer: PeerIndex,
    /// Dropped when another connection replaces this one, or when the channel ends. From then on no
    /// further message is accepted for sending.
    pub(super) stop_sending: oneshot::Receiver<()>,
    /// Ready when the connection before this one reports no more events.
    pub(super) previous_done: Option<oneshot::Receiver<()>>,
    /// Dropped when this connection was read to its end.
    pub(super) read_done: oneshot::Sender<()>,
}

/// Carries messages until the connection ends, and returns the reason.
pub(super) async fn run(
    shared: Arc<ChannelShared>,
    candidate: AuthenticatedConnection,
    context: ConnectionContext,
) -> Cause {
    let AuthenticatedConnection { stream, remote, initiator, exporter, hello, .. } = candidate;
    let ConnectionContext { peer, stop_sending, previous_done, read_done } = context;
    let (queued, queue) = mpsc::channel(shared.settings.messages.max(1));
    let (close, closed) = oneshot::channel();
    let outgoing = ConnectionSender { queue: queued, close: Some(close) };
    let closing = async {
        match closed.await {
            Ok(why) => why,
            Err(_) => pending().await,
        }
    };
    let (mut from, to) = tokio::io::split(stream);
    let patience = shared.settings.dead_after;
    let reading = async {
        if let Some(previous_done) = previous_done {
            // The sender is dropped in any case, so an error is expected.
            let _ = previous_done.await;
        }
        let up = Event::Up { peer, exporter, initiator, remote };
        queue_event(&shared, QueuedEvent::Up(up, outgoing)).await;
        loop {
            match frame::read(&mut from, patience).await {
                Ok(Frame::Keepalive) => {}
                Ok(Frame::Message(bytes)) => {
                    queue_event(&shared, QueuedEvent::Other(Event::Message { peer, bytes })).await;
                }
                Ok(Frame::End { moved }) => break if moved { End::Moved } else { End::Stopped },
                Ok(_) => {
                    break End::Broken(Cause::Protocol("a handshake message after the handshake"));
                }
                Err(why) => break End::Broken(why),
            }
        }
    };
    let pause = hello.patience / KEEPALIVES;
    let writing = send_all(&shared, to, queue, stop_sending, pause.max(SHORTEST_KEEPALIVE));
    tokio::pin!(reading, writing, closing);
    let mut is_written = false;
    loop {
        tokio::select! {
            end = &mut reading => {
                drop(read_done);
                return match end {
                    End::Moved => {
                        // The handshake of the connection that follows is complete, or will be
                        // soon.
                        if !is_written {
                            let _ = timeout(HANDOVER, &mut writing).await;
                        }
                        Cause::Ended
                    }
                    End::Stopped => Cause::Ended,
                    End::Broken(why) => why,
                };
            }
            why = &mut closing => return Cause::Closed(why),
            // Messages that the peer sent before it closed the connection are still read.
            _ = &mut writing, if !is_written => is_written = true,
        }
    }
}

/// How the peer finished the connection.
enum End {
    /// The peer continues on another connection.
    Moved,
    /// The peer ends the channel.
    Stopped,
    /// The connection ended without the peer's last frame.
    Broken(Cause),
}

async fn queue_event(shared: &ChannelShared, event: QueuedEvent) {
    // The receiver may be gone when the gateway ends.
    let _ = shared.events.send(event).await;
}

async fn send_all(
    shared: &ChannelShared,
    mut to: impl AsyncWrite + Unpin,
    mut queue: mpsc::Receiver<Zeroizing<Vec<u8>>>,
    mut stop_sending: oneshot::Receiver<()>,
    pause: Duration,
) -> Result<(), Cause> {
    let mut keepalive = interval(pause);
    keepalive.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let frame = tokio::select! {
            biased;
            _ = &mut stop_sending, if !queue.is_closed() => {
                queue.close();
                continue;
            }
            message = queue.recv() => match message {
                Some(message) => Frame::Message(message),
                None => break,
            },
            _ = keepalive.tick() => Frame::Keepalive,
        };
        frame::write(&mut to, &frame).await?;
    }
    let moved = !*shared.stopping.borrow();
    frame::write(&mut to, &Frame::End { moved }).await?;
    to.shutdown().await.map_err(|error| Cause::Lost(error.to_string()))
}
