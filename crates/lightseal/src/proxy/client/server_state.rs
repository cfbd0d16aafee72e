//! What a client proxy knows of its server from all flows together, and how flows call its attention.

use lightseal_core::Instant;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// The shortest time between the beginnings of two handshakes beside one flow, if they do not go
/// to addresses of the server that are tried for the first time.
pub(super) const RETRY: Duration = Duration::from_secs(10);

/// The longest pause before a flow is replaced whose predecessors heard nothing after their
/// handshakes: as rare as such handshakes may be where they lead to nothing.
const MOST_PAUSE: Duration = Duration::from_secs(320);

/// The shortest time between two [calls](Attention) that are answered. Each looks at all flows, and
/// anybody can forge hints.
const CALL_GAP: Duration = Duration::from_millis(50);

/// How long a first handshake may have no answer before the server counts as silent. Its
/// ClientHello was sent three times by then.
pub(super) const UNANSWERED: Duration = Duration::from_secs(4);

/// Whether the server answers, as far as the log has reported it.
#[derive(Debug, Default)]
pub(in crate::proxy) struct Server {
    silent_since: Mutex<Option<Instant>>,
}

impl Server {
    /// Reports that the server does not answer. This is logged once.
    pub(super) fn silent(&self, server: &str, now: Instant) {
        let mut since = self.silent_since.lock().unwrap_or_else(PoisonError::into_inner);
        if since.is_none() {
            *since = Some(now);
            tracing::warn!("the server {server} does not answer; starting a new handshake with it");
        }
    }

    /// Reports that the server answers.
    pub(super) fn answers(&self, server: &str, now: Instant) {
        let mut since = self.silent_since.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(since) = since.take() {
            let seconds = (now - since).as_secs_f64();
            tracing::warn!(
                "the server {server} answers again, {seconds:.1} s after it was found silent"
            );
        }
    }
}

/// The server that has answered a keepalive. Servers other than our proxy need not answer, and the
/// silence of such a server does not show that it is gone.
#[derive(Debug, Default)]
pub(in crate::proxy) struct Answering(Mutex<Option<SocketAddr>>);

impl Answering {
    /// Notes that the server at this address answered a keepalive.
    pub(super) fn note(&self, server: SocketAddr) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(server);
    }

    /// Whether this is the address that answered last.
    pub(super) fn by(&self, server: SocketAddr) -> bool {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) == Some(server)
    }
}

/// Calls the proxy to look at its flows at once.
#[derive(Debug, Default)]
pub(in crate::proxy) struct Attention {
    called: Notify,
    ended: Notify,
}

impl Attention {
    pub(super) fn call(&self) {
        self.called.notify_one();
    }

    /// A flow has ended.
    pub(super) fn ended(&self) {
        self.ended.notify_one();
    }

    /// Waits until flows have ended.
    pub(super) async fn some_ended(&self) {
        self.ended.notified().await;
    }
}

/// The proxy's side of an [`Attention`].
#[derive(Debug, Default)]
pub(in crate::proxy) struct AttentionCalls {
    waiting: bool,
    answered_at: Option<tokio::time::Instant>,
}

impl AttentionCalls {
    /// Waits for the next call that is to be answered. Calls that follow each other closely are
    /// answered as one. If the future is dropped, no call is lost.
    pub(super) async fn next(&mut self, attention: &Attention) {
        if !self.waiting {
            attention.called.notified().await;
            self.waiting = true;
        }
        tokio::time::sleep_until(self.due(tokio::time::Instant::now())).await;
        self.waiting = false;
        self.answered_at = Some(tokio::time::Instant::now());
    }

    /// When a call that comes now is answered.
    fn due(&self, now: tokio::time::Instant) -> tokio::time::Instant {
        self.answered_at.map_or(now, |last| now.max(last + CALL_GAP))
    }
}

/// The pause before a flow may be replaced. It grows while flow after flow of an application is
/// silent after its handshake: then handshakes lead to nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::proxy) struct HandshakePause {
    length: Duration,
    until: Option<Instant>,
}

impl HandshakePause {
    /// The pause of the flow that replaces one with this pause. `heard` tells whether the server
    /// sent data to that one.
    pub(super) fn next(self, heard: bool, now: Instant) -> Self {
        if heard {
            return Self::default();
        }
        let length = (self.length * 2).clamp(RETRY, MOST_PAUSE);
        Self { length, until: Some(now + length) }
    }

    pub(super) fn is_over(self, now: Instant) -> bool {
        self.until.is_none_or(|until| now >= until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_micros(1);
    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn handshakes_that_lead_to_nothing_become_rare() {
        let mut pause = HandshakePause::default();
        assert!(pause.is_over(NOW), "the first silence of a server is answered at once");
        let lengths = [10, 20, 40, 80, 160, 320, 320];
        for length in lengths {
            pause = pause.next(false, NOW);
            assert!(!pause.is_over(NOW + (length * SECOND - Duration::from_millis(1))));
            assert!(pause.is_over(NOW + length * SECOND));
        }
        assert!(pause.next(true, NOW).is_over(NOW), "its successor was heard");
    }

    #[test]
    fn the_answers_of_one_address_say_nothing_about_another() {
        let [first, second] = [1, 2].map(|port| SocketAddr::from(([192, 0, 2, 1], port)));
        let answering = Answering::default();
        assert!(!answering.by(first));
        answering.note(first);
        assert!(answering.by(first) && !answering.by(second));
    }

    #[tokio::test]
    async fn calls_are_answered_at_once_but_twenty_times_a_second_at_most() {
        let mut calls = AttentionCalls::default();
        let start = tokio::time::Instant::now();
        assert_eq!(calls.due(start), start);
        let times = (0..1000).map(|millis| start + Duration::from_millis(millis));
        let answered = times.filter(|now| {
            let due = calls.due(*now) <= *now;
            if due {
                calls.answered_at = Some(*now);
            }
            due
        });
        assert_eq!(answered.count(), 20);
        // A call is not lost if something else comes first.
        let attention = Attention::default();
        calls.answered_at = Some(tokio::time::Instant::now());
        attention.call();
        let _ = tokio::time::timeout(Duration::ZERO, calls.next(&attention)).await;
        if calls.waiting {
            calls.next(&attention).await;
        }
        assert!(!calls.waiting && calls.answered_at > Some(start));
    }
}
