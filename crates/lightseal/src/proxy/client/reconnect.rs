//! New handshakes for flows whose server does not answer. The handshake runs beside the old
//! association, which remains in use until the handshake is complete.
//!
//! The engine asks the server ([`lightseal_dtls::Connection::watch`]) and reports that it is silent. The
//! server may be down, or have forgotten the association, or the path may be interrupted. Only a
//! new handshake can tell, and it authenticates the server. Messages therefore go to the old
//! association until the new one is complete, and a server that was never away costs nothing but
//! that handshake.

use super::lane::{Flow, FlowId};
use super::server_state::RETRY;
use lightseal_core::{AddressPair, Instant};
use std::collections::HashMap;
use std::time::Duration;

/// The shortest time between two ClientHellos of one handshake that hints cause
/// (docs/spec/hints.md, section 3).
const HURRY_GAP: Duration = Duration::from_secs(1);

/// Once a handshake is this old, its ClientHello has been retransmitted once by timer. From then on
/// the next ClientHello leaves as soon as the server seems to be back.
const HURRY: Duration = Duration::from_secs(1);

/// The flows that are to replace others, by the application's addresses.
#[derive(Debug, Default)]
pub(in crate::proxy) struct Successors {
    of: HashMap<AddressPair, Successor>,
}

#[derive(Debug)]
struct Successor {
    /// The flow; `None` once it has ended.
    flow: Option<Flow>,
    began_at: Instant,
    /// A hint came upon which no ClientHello was sent yet.
    hinted: bool,
    /// When a ClientHello upon a hint last left.
    hurried_at: Option<Instant>,
}

impl Successor {
    const fn new(now: Instant) -> Self {
        Self { flow: None, began_at: now, hinted: false, hurried_at: None }
    }

    /// Calls `hurry`, which sends the ClientHello again and returns when it leaves, if a hint waits
    /// for that. The hint continues to wait if it is too soon or no ClientHello leaves.
    fn heed_hint(&mut self, now: Instant, hurry: impl FnOnce() -> Option<Instant>) {
        let ready = now >= self.began_at + HURRY
            && self.hurried_at.is_none_or(|last| now >= last + HURRY_GAP);
        if self.hinted
            && ready
            && let Some(leaves_at) = hurry()
        {
            (self.hinted, self.hurried_at) = (false, Some(leaves_at));
        }
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
    Replace(Flow),
}

impl Successors {
    /// Decides what is to be done about the flow of `application`.
    pub(super) fn look_after(&mut self, application: AddressPair, flow: &Flow) -> Action {
        let known = flow.note(|host, now| {
            let hinted = std::mem::take(&mut host.hinted);
            (host.silent, hinted, host.sent_at, host.pause, now)
        });
        let Some((silent, hinted, sent_at, pause, now)) = known else { return Action::Nothing };
        let Some(successor) = self.of.get_mut(&application) else {
            if !silent || !pause.is_over(now) {
                return Action::Nothing;
            }
            self.expect(application, now);
            return Action::Begin;
        };
        let begun = successor.flow.as_ref();
        let connected = begun.and_then(|flow| flow.note(|host, _| host.is_connected()));
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
                successor.hinted |= hinted;
                let flow = successor.flow.clone();
                successor.heed_hint(now, || {
                    flow?.call(|connection, _, now| connection.hurry(now)).flatten()
                });
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
    pub(super) fn began(&mut self, application: AddressPair, flow: Flow) {
        match self.of.get_mut(&application) {
            Some(successor) => successor.flow = Some(flow),
            None => flow.close(),
        }
    }

    /// Forgets a flow that was to replace the flow of `application` and has ended.
    pub(super) fn ended(&mut self, application: AddressPair, ended: FlowId) {
        if let Some(successor) = self.of.get_mut(&application) {
            successor.flow.take_if(|known| known.id() == ended);
        }
    }

    /// The flow whose handshake runs beside the flow of `application`.
    pub(super) fn flow(&self, application: AddressPair) -> Option<Flow> {
        self.of.get(&application)?.flow.clone()
    }

    /// Closes the handshake that runs beside the flow of `application`, if there is one.
    pub(super) fn forget(&mut self, application: AddressPair) {
        let successor = self.of.remove(&application).and_then(|successor| successor.flow);
        if let Some(flow) = successor {
            flow.close();
        }
    }

    /// Closes the handshakes beside flows of applications that have none any more.
    pub(super) fn forget_unless(&mut self, has_flow: impl Fn(&AddressPair) -> bool) {
        let gone: Vec<_> =
            self.of.keys().filter(|application| !has_flow(application)).copied().collect();
        gone.into_iter().for_each(|application| self.forget(application));
    }

    /// The handshakes that are running.
    pub(super) fn flows(&self) -> impl Iterator<Item = &Flow> {
        self.of.values().filter_map(|successor| successor.flow.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_micros(1);
    const SECOND: Duration = Duration::from_secs(1);

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn hints_have_a_client_hello_sent_again_once_a_second() {
        let mut successor = Successor::new(NOW);
        let mut left = Vec::new();
        for now in (0..10_000).map(|at| NOW + millis(at)) {
            successor.hinted = true;
            successor.heed_hint(now, || {
                left.push(now);
                Some(now)
            });
        }
        let expected: Vec<_> = (1..10).map(|seconds| NOW + seconds * SECOND).collect();
        assert_eq!(left, expected);
    }

    #[test]
    fn a_hint_waits_until_a_client_hello_can_leave() {
        let mut successor = Successor::new(NOW);
        successor.hinted = true;
        successor.heed_hint(NOW + millis(999), || unreachable!("the timer was not first"));
        successor.heed_hint(NOW + SECOND, || None);
        assert!(successor.hinted && successor.hurried_at.is_none(), "nothing has left");
        // The engine sends it somewhat later.
        successor.heed_hint(NOW + SECOND, || Some(NOW + millis(1_300)));
        assert!(!successor.hinted, "one hint, one ClientHello");
        successor.heed_hint(NOW + 5 * SECOND, || unreachable!("no hint came"));
        successor.hinted = true;
        successor.heed_hint(NOW + millis(2_299), || unreachable!("a second has not passed"));
        successor.heed_hint(NOW + millis(2_300), || Some(NOW + millis(2_300)));
        assert_eq!(successor.hurried_at, Some(NOW + millis(2_300)));
    }
}
