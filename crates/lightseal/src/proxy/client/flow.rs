//! The host of a flow's engine: it connects the association with the
//! application.

use super::reconnect::{Answering, Attention, HandshakePause, Server};
use crate::credential;
use crate::credential::allow::AccessList;
use crate::proxy::counters::Totals;
use crate::proxy::deliveries::Deliveries;
use crate::proxy::destination::Destination;
use crate::proxy::loops::{self, LoopGuard};
use crate::proxy::{described, explained, unshared};
use lightseal_core::{AddressPair, Instant};
use lightseal_dtls::{ClientConfig, CloseReason, Connection, Event, Resolution};
use lightseal_net::address::Named;
use lightseal_net::socket::AddressedSocket;
use lightseal_net::tokio::EngineHost;
use std::net::SocketAddr;
use std::sync::Arc;

/// The host of an association.
#[derive(Debug)]
pub(in crate::proxy) struct FlowHost {
    pub(in crate::proxy) local: Arc<AddressedSocket>,
    pub(in crate::proxy) application: AddressPair,
    /// Messages for the application.
    pub(in crate::proxy) deliveries: Deliveries,
    pub(in crate::proxy) server: SocketAddr,
    pub(in crate::proxy) destination: Arc<Destination>,
    /// The access list, which knows whom it has refused.
    pub(in crate::proxy) list: Option<Arc<AccessList>>,
    /// Number of server addresses that were tried before this one.
    pub(in crate::proxy) tries: u32,
    pub(in crate::proxy) config: Arc<ClientConfig>,
    pub(in crate::proxy) totals: Arc<Totals>,
    pub(in crate::proxy) loops: Arc<LoopGuard>,
    /// Number of this proxy's flows in a row that led to this one. It becomes `None` when the flow
    /// is remembered.
    pub(in crate::proxy) hops: Option<u32>,
    /// The identity that both ends agreed on, for the log; `None` before the handshake is complete.
    pub(in crate::proxy) identity: Option<String>,
    /// Whether this flow is to replace another one.
    pub(in crate::proxy) succeeds: bool,
    /// How many messages dropped for waiting too long have been logged so far.
    pub(in crate::proxy) stale: u64,
    /// How many messages dropped as too long for the path have been logged so far.
    pub(in crate::proxy) too_long: u64,
    /// When the application last sent or received a message.
    pub(in crate::proxy) active_at: Instant,
    /// When the application last sent a message.
    pub(in crate::proxy) sent_at: Instant,
    /// When the handshake began: the first one at any address of the server, and the one at this
    /// address.
    pub(in crate::proxy) began_at: Instant,
    pub(in crate::proxy) opened_at: Instant,
    /// The progress of the handshake with this address, and when it was made. Datagrams that
    /// anybody can send are no progress.
    pub(in crate::proxy) progress: (u32, u64),
    pub(in crate::proxy) progressed_at: Option<Instant>,
    /// Whether the server has sent data since the handshake, such as the answer to a probe.
    pub(in crate::proxy) heard: bool,
    /// How the flow is replaced if its server is silent.
    pub(in crate::proxy) pause: HandshakePause,
    /// Whether the server is silent, and the number of hints, as of the last look at the
    /// connection.
    pub(in crate::proxy) silent: bool,
    pub(in crate::proxy) hints: u64,
    /// Whether a hint came that has not been handled yet.
    pub(in crate::proxy) hinted: bool,
    pub(in crate::proxy) answers: Arc<Answering>,
    /// Whether it was noted that this flow's server answers keepalives.
    pub(in crate::proxy) answers_noted: bool,
    pub(in crate::proxy) state: Arc<Server>,
    pub(in crate::proxy) attention: Arc<Attention>,
    pub(in crate::proxy) ended: Option<CloseReason>,
}

impl EngineHost<Connection> for FlowHost {
    fn event(&mut self, now: Instant, event: Event<'_>) {
        match event {
            Event::MaySend(_) => {}
            Event::Connected(negotiated) => {
                self.state.answers(&self.destination.named(self.server), now);
                self.destination.answered(self.server);
                self.totals.resumed.add(negotiated.resumed.into());
                self.totals.handshakes.one();
                if self.succeeds {
                    self.attention.call();
                }
                self.identity = Some(credential::shown(&negotiated));
                tracing::debug!(
                    peer.address = %Named(self.server),
                    peer.identity = self.identity,
                    "flow {}: {}",
                    Named::from(self.application),
                    described(&negotiated)
                );
                if let Some(why) = unshared(&self.config.settings().aggregation, &negotiated) {
                    self.totals.complain_of_unshared(&self.server, &why);
                }
            }
            Event::Data(payload) | Event::Provisional { data: payload, .. } => {
                self.heard = true;
                if payload.is_empty() {
                    self.totals.keepalives.one();
                    return;
                }
                self.active_at = now;
                let parts = [&[][..], payload];
                self.deliveries.add(&self.local, self.application, parts, &self.totals);
            }
            Event::Resolved(_, resolution) => {
                if let Resolution::Refuted { bytes } = resolution {
                    tracing::warn!(
                        peer.address = %Named(self.server),
                        peer.identity = self.identity,
                        "flow {}: a forged message was delivered, {bytes} bytes ago",
                        Named::from(self.application)
                    );
                }
            }
            Event::PeerMoved { from, to } => {
                tracing::debug!(
                    peer.address = %Named(to),
                    peer.identity = self.identity,
                    "flow {}: the server moved from {} to {}",
                    Named::from(self.application),
                    Named(from),
                    Named(to)
                );
            }
            Event::AggregationChanged { send, receive } => {
                tracing::debug!(
                    peer.address = %Named(self.server),
                    peer.identity = self.identity,
                    "flow {}: tags {send} out, {receive} in",
                    Named::from(self.application)
                );
            }
            Event::Closed(reason) => {
                let ordinary = matches!(reason, CloseReason::Local | CloseReason::Peer);
                match self.identity.is_some() {
                    true => self.totals.ended.count(reason.class()),
                    false if ordinary => {}
                    false => self.totals.failed_handshakes.count(reason.class()),
                }
                if ordinary {
                    tracing::debug!(
                        peer.address = %Named(self.server),
                        peer.identity = self.identity,
                        "flow {}: {reason}",
                        Named::from(self.application)
                    );
                } else if reason == CloseReason::HandshakeTimeout {
                    // `silent` names the server in the log, so a debug line is enough here.
                    self.totals.failed.one();
                    self.state.silent(&self.destination.named(self.server), now);
                    self.destination.silent(self.server);
                    tracing::debug!(
                        peer.address = %Named(self.server),
                        peer.identity = self.identity,
                        "flow {}: {reason}",
                        Named::from(self.application)
                    );
                } else {
                    self.totals.failed.one();
                    tracing::warn!(
                        peer.address = %Named(self.server),
                        peer.identity = self.identity,
                        "flow {}: {}",
                        Named::from(self.application),
                        explained(
                            self.server,
                            &reason,
                            self.list.as_deref(),
                            self.config.server_name()
                        )
                    );
                }
                self.ended = Some(reason);
            }
            other => tracing::debug!("flow {}: {other}", Named::from(self.application)),
        }
    }

    fn drained(&mut self, now: Instant, connection: &mut Connection) -> bool {
        self.watched(now, connection);
        if let Some(hops) = self.hops
            && let Some(residues) = loops::residues(connection)
        {
            self.loops.remember(now, residues, hops);
            self.hops = None;
        }
        let sent = connection.stats().sent;
        if sent.too_long > self.too_long {
            let longest = connection.max_payload();
            let count = sent.too_long - self.too_long;
            self.totals.complain_of_narrow_path(&Named(self.server), longest, count);
            self.too_long = sent.too_long;
        }
        let stale = sent.stale;
        if stale > self.stale {
            self.totals.complain_of_stale(&self.application, stale - self.stale);
            self.stale = stale;
        }
        false
    }

    fn flush(&mut self, _: Instant) {
        self.deliveries.flush(&self.totals);
    }

    fn unreachable(&mut self, now: Instant, connection: &mut Connection) {
        connection.suspect(now);
    }

    fn is_finished(&self, _: &Connection) -> bool {
        self.ended.is_some()
    }
}

impl FlowHost {
    /// Whether the handshake is in progress.
    pub(super) fn is_waiting(&self, connection: &Connection) -> bool {
        self.ended.is_none() && !connection.is_connected()
    }

    /// Notifies the proxy of changes in whether the server answers.
    fn watched(&mut self, now: Instant, connection: &Connection) {
        if connection.peer_answers_probes() && self.heard && !self.answers_noted {
            self.answers_noted = true;
            self.answers.note(self.server);
        }
        let progress = (connection.handshake_steps(), connection.stats().received.records);
        if progress != self.progress && !connection.is_connected() {
            (self.progress, self.progressed_at) = (progress, Some(now));
        }
        let hints = connection.stats().received.hints;
        if hints > self.hints {
            (self.hints, self.hinted) = (hints, true);
        }
        let silent = connection.peer_is_silent();
        if silent != self.silent {
            match silent {
                true => self.state.silent(&self.destination.named(self.server), now),
                false => self.state.answers(&self.destination.named(self.server), now),
            }
        }
        if silent != self.silent || silent && self.hinted {
            self.silent = silent;
            self.attention.call();
        }
    }
}
