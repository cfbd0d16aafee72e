//! New handshakes for flows whose server does not answer. The handshake runs beside the old
//! association, which remains in use until the handshake is complete.
//!
//! The engine asks the server ([`lightseal_dtls::Connection::watch`]) and reports that it is silent. The
//! server may be down, or have forgotten the association, or the path may be interrupted. Only a
//! new handshake can tell, and it authenticates the server. Messages therefore go to the old
//! association until the new one is complete, and a server that was never away costs nothing but
//! that handshake.

use super::client::Flow;
use lightseal_core::{AddressPair, Instant};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The shortest time between the beginnings of two such handshakes for one flow.
const RETRY: Duration = Duration::from_secs(10);

/// Once a handshake is this old, its ClientHello has been retransmitted once by timer. From then on
/// the next ClientHello leaves as soon as the server seems to be back.
const HURRY: Duration = Duration::from_secs(1);

/// How long a first handshake may have no answer before the server counts as silent. Its
/// ClientHello was sent three times by then.
pub(super) const UNANSWERED: Duration = Duration::from_secs(4);

/// Whether the server answers, as far as the log has reported it.
#[derive(Debug, Default)]
pub(super) struct Server {
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

/// The flows that are to replace others, by the application's addresses.
#[derive(Debug, Default)]
pub(super) struct Successors {
    of: HashMap<AddressPair, Successor>,
}

#[derive(Debug)]
struct Successor {
    /// The flow; `None` once it has ended.
    flow: Option<Arc<Flow>>,
    began_at: Instant,
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
            // The server was never away, or the path works again.
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
                // The server is tried again only if the application has sent something since.
                let wanted = sent_at > successor.began_at;
                if wanted && now >= successor.began_at + RETRY {
                    successor.began_at = now;
                    return Action::Begin;
                }
                Action::Nothing
            }
        }
    }

    /// Stores the flow whose handshake has begun beside the flow of `application`.
    pub(super) fn began(&mut self, application: AddressPair, flow: Arc<Flow>) {
        if let Some(successor) = self.of.get_mut(&application) {
            successor.flow = Some(flow);
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

    /// The handshakes that are running.
    pub(super) fn flows(&self) -> impl Iterator<Item = &Arc<Flow>> {
        self.of.values().filter_map(|successor| successor.flow.as_ref())
    }
}
