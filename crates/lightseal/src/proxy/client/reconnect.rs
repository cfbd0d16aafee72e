//! New handshakes for flows whose server does not answer. The handshake runs beside the old
//! association, which remains in use until the handshake is complete.
//!
//! The engine asks the server ([`lightseal_dtls::Connection::watch`]) and reports that it is silent. The
//! server may be down, or have forgotten the association, or the path may be interrupted. Only a
//! new handshake can tell, and it authenticates the server. Messages therefore go to the old
//! association until the new one is complete, and a server that was never away costs nothing but
//! that handshake.

use super::Flow;
use lightseal_core::{AddressPair, Instant};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// The shortest time between the beginnings of two such handshakes for one flow, if they do not go
/// to addresses of the server that are tried for the first time.
pub(super) const RETRY: Duration = Duration::from_secs(10);

/// The longest pause before a flow is replaced whose predecessors heard nothing after their
/// handshakes: as rare as such handshakes may be where they lead to nothing.
const MOST_PAUSE: Duration = Duration::from_secs(320);

/// The shortest time between two ClientHellos of one handshake that hints cause
/// (docs/spec/hints.md, section 3).
const HURRY_GAP: Duration = Duration::from_secs(1);

/// The shortest time between two [calls](Attention) that are answered. Each looks at all flows, and
/// anybody can forge hints.
const CALL_GAP: Duration = Duration::from_millis(50);

/// Once a handshake is this old, its ClientHello has been retransmitted once by timer. From then on
/// the next ClientHello leaves as soon as the server seems to be back.
const HURRY: Duration = Duration::from_secs(1);

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
pub(in crate::proxy) struct Attention(Notify);

impl Attention {
    pub(super) fn call(&self) {
        self.0.notify_one();
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
            attention.0.notified().await;
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

    fn is_over(self, now: Instant) -> bool {
        self.until.is_none_or(|until| now >= until)
    }
}

/// The flows that are to replace others, by the application's addresses.
#[derive(Debug, Default)]
pub(in crate::proxy) struct Successors {
    of: HashMap<AddressPair, Successor>,
}

#[derive(Debug)]
struct Successor {
    /// The flow; `None` once it has ended.
    flow: Option<Arc<Flow>>,
    began_at: Instant,
    /// When a hint last had the ClientHello sent again.
    hurried_at: Option<Instant>,
}

impl Successor {
    const fn new(now: Instant) -> Self {
        Self { flow: None, began_at: now, hurried_at: None }
    }

    /// Whether the ClientHello is to be sent again upon a hint.
    fn hurries(&mut self, now: Instant) -> bool {
        let hurries = now >= self.began_at + HURRY
            && self.hurried_at.is_none_or(|last| now >= last + HURRY_GAP);
        if hurries {
            self.hurried_at = Some(now);
        }
        hurries
    }
}

/// What is to be done about a flow.
#[derive(Debug)]
pub(super) enum Action {
    /// Nothing is to be done.
    Nothing,
    /// A handshake beside this flow is to begin.
    Begin,
    /// This new flow takes the place of the old one.
    Replace(Arc<Flow>),
}

impl Successors {
    /// Decides what is to be done about the flow of `application`.
    pub(super) fn look_after(&mut self, application: AddressPair, flow: &Flow) -> Action {
        let (silent, hinted, sent_at, pause, now) = flow.call(|connection, host, now| {
            let hinted = std::mem::take(&mut host.hinted);
            (connection.peer_is_silent(), hinted, host.sent_at, host.pause, now)
        });
        let Some(successor) = self.of.get_mut(&application) else {
            if !silent || !pause.is_over(now) {
                return Action::Nothing;
            }
            self.expect(application, now);
            return Action::Begin;
        };
        let connected = successor
            .flow
            .as_ref()
            .map(|flow| flow.call(|connection, _, _| connection.is_connected()));
        match (connected, silent) {
            (Some(true), _) => {
                let successor = self.of.remove(&application).and_then(|successor| successor.flow);
                successor.map_or(Action::Nothing, Action::Replace)
            }
            // The server was never away, or the path works again.
            (_, false) => {
                self.forget(application);
                Action::Nothing
            }
            (Some(false), true) => {
                if hinted
                    && successor.hurries(now)
                    && let Some(flow) = &successor.flow
                {
                    flow.call(|connection, _, now| connection.hurry(now));
                }
                Action::Nothing
            }
            (None, true) => {
                // The server is tried again only if the application has sent something since.
                let wanted = sent_at > successor.began_at;
                if wanted && now >= successor.began_at + RETRY {
                    *successor = Successor::new(now);
                    return Action::Begin;
                }
                Action::Nothing
            }
        }
    }

    /// A handshake beside the flow of `application` is about to begin.
    pub(super) fn expect(&mut self, application: AddressPair, now: Instant) {
        self.of.insert(application, Successor::new(now));
    }

    /// Stores the flow whose handshake has begun beside the flow of `application`. If that flow has
    /// ended meanwhile, the handshake ends too.
    pub(super) fn began(&mut self, application: AddressPair, flow: Arc<Flow>) {
        match self.of.get_mut(&application) {
            Some(successor) => successor.flow = Some(flow),
            None => flow.call(|connection, _, now| connection.close(now)),
        }
    }

    /// Forgets `flow`, which was to replace the flow of `application` and has ended.
    pub(super) fn ended(&mut self, application: AddressPair, flow: &Arc<Flow>) {
        if let Some(successor) = self.of.get_mut(&application) {
            successor.flow.take_if(|known| Arc::ptr_eq(known, flow));
        }
    }

    /// The flow whose handshake runs beside the flow of `application`.
    pub(super) fn flow(&self, application: AddressPair) -> Option<Arc<Flow>> {
        self.of.get(&application)?.flow.clone()
    }

    /// Closes the handshake that runs beside the flow of `application`, if there is one.
    pub(super) fn forget(&mut self, application: AddressPair) {
        let successor = self.of.remove(&application).and_then(|successor| successor.flow);
        if let Some(flow) = successor {
            flow.call(|connection, _, now| connection.close(now));
        }
    }

    /// Closes the handshakes beside flows of applications that have none any more.
    pub(super) fn forget_unless(&mut self, has_flow: impl Fn(&AddressPair) -> bool) {
        let gone: Vec<_> =
            self.of.keys().filter(|application| !has_flow(application)).copied().collect();
        gone.into_iter().for_each(|application| self.forget(application));
    }

    /// The handshakes that are running.
    pub(super) fn flows(&self) -> impl Iterator<Item = &Arc<Flow>> {
        self.of.values().filter_map(|successor| successor.flow.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_micros(1);
    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn hints_have_a_client_hello_sent_again_once_a_second() {
        let mut successor = Successor::new(NOW);
        let times = (0..10_000).map(|millis| NOW + Duration::from_millis(millis));
        let hurried: Vec<_> = times.filter(|now| successor.hurries(*now)).collect();
        let expected: Vec<_> = (1..10).map(|seconds| NOW + seconds * SECOND).collect();
        assert_eq!(hurried, expected);
    }

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
