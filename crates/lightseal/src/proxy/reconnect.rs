//! What becomes of flows whose server does not answer: a new handshake beside the association, which goes
//! on until that is complete.
//!
//! The engine asks the server ([`dtls::Connection::watch`]) and says that it is silent. It may be dead, or have
//! forgotten the association, or the path may be interrupted: only a new handshake tells, and a handshake
//! proves itself. So messages go to the old association until the new one is complete, and a server that was
//! never away costs nothing but that handshake.

use super::client::Flow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use vocabulary::{AddressPair, Instant};

/// The least time between the beginnings of two such handshakes of a flow.
const RETRY: Duration = Duration::from_secs(10);

/// A handshake that is this old has been sent again once by itself: the next hello leaves as soon as the
/// server seems to be back.
const HURRY: Duration = Duration::from_secs(1);

/// A first handshake that had no answer for this long: its hello was sent three times.
pub(super) const UNANSWERED: Duration = Duration::from_secs(4);

/// Whether the server answers, for the log.
#[derive(Debug, Default)]
pub(super) struct Server {
    silent_since: Mutex<Option<Instant>>,
}

impl Server {
    /// It does not answer. It is named once.
    pub(super) fn silent(&self, server: &str, now: Instant) {
        let mut since = self.silent_since.lock().unwrap_or_else(PoisonError::into_inner);
        if since.is_none() {
            *since = Some(now);
            tracing::warn!("the server {server} does not answer; starting anew with it");
        }
    }

    /// It answers.
    pub(super) fn answers(&self, server: &str, now: Instant) {
        let mut since = self.silent_since.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(since) = since.take() {
            let seconds = (now - since).as_secs_f64();
            tracing::warn!("the server {server} answers again, {seconds:.1} s after that was said");
        }
    }
}

/// The flows that are to take the place of others, by these.
#[derive(Debug, Default)]
pub(super) struct Successors {
    of: HashMap<AddressPair, Successor>,
}

#[derive(Debug)]
struct Successor {
    /// `None` once it has ended.
    flow: Option<Arc<Flow>>,
    began_at: Instant,
}

/// What is to be done about a flow.
#[derive(Debug)]
pub(super) enum Action {
    /// Nothing.
    Nothing,
    /// A handshake beside it is to begin.
    Begin,
    /// This flow takes its place.
    Replace(Arc<Flow>),
}

impl Successors {
    /// Looks after the flow of `application`.
    pub(super) fn look_after(&mut self, application: AddressPair, flow: &Flow) -> Action {
        let (silent, hinted, sent_at, now) = flow.call(|connection, host, now| {
            let hinted = std::mem::take(&mut host.hinted);
            (connection.peer_is_silent(), hinted, host.sent_at, now)
        });
        let Some(successor) = self.of.get_mut(&application) else {
            if !silent {
                return Action::Nothing;
            }
            self.of.insert(application, Successor { flow: None, began_at: now });
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
            // The server was never away, or the path is there again.
            (_, false) => {
                self.forget(application);
                Action::Nothing
            }
            (Some(false), true) => {
                if let Some(flow) = &successor.flow
                    && hinted
                    && now >= successor.began_at + HURRY
                {
                    flow.call(|connection, _, now| connection.hurry(now));
                }
                Action::Nothing
            }
            (None, true) => {
                // The server is tried again for who has something to say to it.
                let wanted = sent_at > successor.began_at;
                if wanted && now >= successor.began_at + RETRY {
                    successor.began_at = now;
                    return Action::Begin;
                }
                Action::Nothing
            }
        }
    }

    /// The handshake beside the flow of `application` has begun.
    pub(super) fn began(&mut self, application: AddressPair, flow: Arc<Flow>) {
        if let Some(successor) = self.of.get_mut(&application) {
            successor.flow = Some(flow);
        }
    }

    /// `flow`, which was to take the place of that of `application`, has ended.
    pub(super) fn ended(&mut self, application: AddressPair, flow: &Arc<Flow>) {
        if let Some(successor) = self.of.get_mut(&application) {
            successor.flow.take_if(|known| Arc::ptr_eq(known, flow));
        }
    }

    /// The flow whose handshake goes on beside that of `application`.
    pub(super) fn flow(&self, application: AddressPair) -> Option<Arc<Flow>> {
        self.of.get(&application)?.flow.clone()
    }

    /// Nothing is to take the place of that flow any more.
    pub(super) fn forget(&mut self, application: AddressPair) {
        let successor = self.of.remove(&application).and_then(|successor| successor.flow);
        if let Some(flow) = successor {
            flow.call(|connection, _, now| connection.close(now));
        }
    }

    /// The handshakes that go on.
    pub(super) fn flows(&self) -> impl Iterator<Item = &Arc<Flow>> {
        self.of.values().filter_map(|successor| successor.flow.as_ref())
    }
}
