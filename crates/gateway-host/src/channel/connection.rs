//! The connection with a peer that counts.

use super::frame::{self, Frame};
use super::greet::Candidate;
use super::{Cause, Event, PeerIndex, Shared};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{MissedTickBehavior, interval, timeout};

/// How long two connections may overlap when one follows the other.
pub(super) const HANDOVER: Duration = Duration::from_secs(2);
/// A peer is told that we are there at least so often within the silence it bears.
const KEEPALIVES: u32 = 4;
/// No peer is told so more often.
const SHORTEST_KEEPALIVE: Duration = Duration::from_millis(100);

/// What a connection needs beside its stream.
pub(super) struct Place {
    pub(super) peer: PeerIndex,
    /// What is to be sent. It ends when another connection follows, or the channel ends.
    pub(super) queue: mpsc::Receiver<Vec<u8>>,
    /// The connection before this one, if that is alive, has been read to its end.
    pub(super) before: Option<oneshot::Receiver<()>>,
    /// Dropped when this one has been.
    pub(super) done: oneshot::Sender<()>,
}

/// Carries messages until the connection ends.
pub(super) async fn run(shared: Arc<Shared>, candidate: Candidate, place: Place) -> Cause {
    let Candidate { stream, remote, initiator, exporter, hello, .. } = candidate;
    let Place { peer, queue, before, done } = place;
    let (mut from, to) = tokio::io::split(stream);
    let patience = shared.settings.dead_after;
    let reading = async {
        if let Some(before) = before {
            // The other end of `before` is dropped in any case.
            let _ = timeout(HANDOVER, before).await;
        }
        let up = Event::Up { peer, exporter, initiator, remote };
        tell(&shared, up).await;
        loop {
            match frame::read(&mut from, patience).await {
                Ok(Frame::Keepalive) => {}
                Ok(Frame::Message(bytes)) => tell(&shared, Event::Message { peer, bytes }).await,
                Ok(Frame::End { moved }) => break if moved { End::Moved } else { End::Stopped },
                Ok(_) => break End::Broken(Cause::Protocol("a greeting out of season")),
                Err(why) => break End::Broken(why),
            }
        }
    };
    let pause = hello.patience / KEEPALIVES;
    let writing = send_all(&shared, to, queue, pause.max(SHORTEST_KEEPALIVE));
    tokio::pin!(reading, writing);
    let mut is_written = false;
    loop {
        tokio::select! {
            end = &mut reading => {
                drop(done);
                return match end {
                    End::Moved => {
                        // The connection that follows is greeted, or about to be.
                        if !is_written {
                            let _ = timeout(HANDOVER, &mut writing).await;
                        }
                        Cause::Ended
                    }
                    End::Stopped => Cause::Ended,
                    End::Broken(why) => why,
                };
            }
            // What the peer said before it went is read all the same.
            _ = &mut writing, if !is_written => is_written = true,
        }
    }
}

/// How the other end finished.
enum End {
    /// It goes on elsewhere.
    Moved,
    /// It goes on nowhere.
    Stopped,
    /// It did not finish.
    Broken(Cause),
}

async fn tell(shared: &Shared, event: Event) {
    // Nobody may listen any more, when the gateway ends.
    let _ = shared.events.send(event).await;
}

async fn send_all(
    shared: &Shared,
    mut to: impl AsyncWrite + Unpin,
    mut queue: mpsc::Receiver<Vec<u8>>,
    pause: Duration,
) -> Result<(), Cause> {
    let mut keepalive = interval(pause);
    keepalive.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let frame = tokio::select! {
            biased;
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
