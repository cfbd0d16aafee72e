//! What a client proxy knows of a flow besides its association.

use super::server_state::HandshakePause;
use crate::proxy::counters::Totals;
use lightseal_core::{AddressPair, Instant};
use lightseal_dtls::{ClientConfig, Connection};
use lightseal_net::address::Named;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;

/// How a flow's handshake goes on.
#[derive(Debug)]
pub(in crate::proxy) struct HandshakeCourse {
    /// Number of server addresses that were tried before this one.
    pub(super) tries: u32,
    /// When the handshake began: the first one at any address of the server, and the one at this
    /// address.
    pub(super) began_at: Instant,
    pub(super) opened_at: Instant,
    /// The progress of the handshake with this address, and when it was noticed. Datagrams that
    /// anybody can send are no progress.
    progress: (u32, u64),
    pub(super) progressed_at: Option<Instant>,
}

/// A flow.
#[derive(Debug)]
pub(in crate::proxy) struct FlowHost {
    /// The application. Its port is 0 if the flow is that of all its ports.
    pub(super) application: AddressPair,
    /// The port of the application that sent last, to which answers go.
    pub(super) port: u16,
    /// The number of the flow's own socket; `None` if it shares its lane's.
    pub(super) socket: Option<NonZeroU32>,
    pub(super) config: Arc<ClientConfig>,
    /// The identity that both ends agreed on, for the log; `None` before the handshake is complete.
    pub(super) identity: Option<Arc<str>>,
    /// How the handshake goes on; `None` once it is complete.
    pub(super) handshake: Option<Box<HandshakeCourse>>,
    /// Number of this proxy's flows in a row that led to this one. It becomes `None` when the flow
    /// is remembered.
    pub(super) hops: Option<u32>,
    /// Whether this flow is to replace another one.
    pub(super) succeeds: bool,
    /// Whether messages may have waited since drops were last counted: no others are dropped.
    pub(super) waits: bool,
    /// How many messages dropped for waiting too long have been logged so far.
    stale: u64,
    /// How many messages dropped as too long for the path have been logged so far.
    too_long: u64,
    /// When the application last sent or received a message.
    pub(super) active_at: Instant,
    /// When the application last sent a message.
    pub(super) sent_at: Instant,
    /// Whether the server has sent data since the handshake, such as the answer to a probe.
    pub(super) heard: bool,
    /// How the flow is replaced if its server is silent.
    pub(super) pause: HandshakePause,
    /// Whether the server is silent.
    pub(super) silent: bool,
    /// Whether a sign came meanwhile that it may be back, which has not been handled yet.
    pub(super) hinted: bool,
    /// Whether the association is still to be told that it needs no tickets.
    pub(super) declines_tickets: bool,
}

impl FlowHost {
    /// A flow whose handshake begins.
    pub(super) fn new(application: AddressPair, config: Arc<ClientConfig>, now: Instant) -> Self {
        let handshake = HandshakeCourse {
            tries: 0,
            began_at: now,
            opened_at: now,
            progress: (0, 0),
            progressed_at: None,
        };
        Self {
            application,
            port: application.peer.port(),
            socket: None,
            config,
            identity: None,
            handshake: Some(Box::new(handshake)),
            hops: None,
            succeeds: false,
            waits: false,
            stale: 0,
            too_long: 0,
            active_at: now,
            sent_at: now,
            heard: false,
            pause: HandshakePause::default(),
            silent: false,
            hinted: false,
            declines_tickets: false,
        }
    }

    /// Where answers go.
    pub(super) fn receiver(&self) -> AddressPair {
        let mut receiver = self.application;
        receiver.peer.set_port(self.port);
        receiver
    }

    /// Whether the handshake is complete.
    pub(super) const fn is_connected(&self) -> bool {
        self.identity.is_some()
    }

    /// Notes how far the handshake is.
    pub(super) fn note_progress(&mut self, connection: &Connection, now: Instant) {
        let Some(handshake) = &mut self.handshake else { return };
        if connection.stats().sent.datagrams == 0 {
            // It waits for another handshake with the server.
            handshake.opened_at = now;
            if handshake.tries == 0 {
                handshake.began_at = now;
            }
        }
        let progress = (connection.handshake_steps(), connection.stats().received.records);
        if progress != handshake.progress {
            (handshake.progress, handshake.progressed_at) = (progress, Some(now));
        }
    }

    /// Logs messages that were dropped before they were sent.
    pub(super) fn count_drops(
        &mut self,
        connection: &Connection,
        server: SocketAddr,
        totals: &Totals,
    ) {
        let sent = connection.stats().sent;
        if sent.too_long > self.too_long {
            let longest = connection.max_payload();
            let count = sent.too_long - self.too_long;
            totals.complain_of_narrow_path(&Named(server), longest, count);
            self.too_long = sent.too_long;
        }
        if sent.stale > self.stale {
            totals.complain_of_stale(&self.application, sent.stale - self.stale);
            self.stale = sent.stale;
        }
    }
}
