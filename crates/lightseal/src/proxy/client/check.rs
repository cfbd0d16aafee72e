//! The first handshake, which tests the credential and what the server can do.

use super::lane::Sharing;
use lightseal_core::Instant;
use lightseal_dtls::{CloseReason, Connection, Event};
use lightseal_net::tokio::EngineHost;

/// Sends a keepalive when the handshake is complete, and closes the association when it is
/// answered.
#[derive(Debug, Default)]
pub(super) struct Check {
    pub(super) connected: bool,
    asked: bool,
    pub(super) answered: bool,
    /// Whether the server can keep several associations at one socket.
    pub(super) can_keep: bool,
    pub(super) ended: Option<CloseReason>,
}

impl EngineHost<Connection> for Check {
    fn event(&mut self, _: Instant, event: Event<'_>) {
        match event {
            Event::Connected(_) => self.connected = true,
            Event::Data(payload) => self.answered |= payload.is_empty(),
            Event::Closed(reason) => self.ended = Some(reason),
            _ => {}
        }
    }

    fn drained(&mut self, now: Instant, connection: &mut Connection) -> bool {
        if self.connected && !self.asked {
            self.asked = true;
            return connection.send(now, &[], &mut []).is_ok();
        }
        let goodbye = self.answered && connection.is_connected();
        if goodbye {
            self.can_keep = Sharing::can_keep(connection);
            connection.close(now);
        }
        goodbye
    }

    fn is_finished(&self, _: &Connection) -> bool {
        self.ended.is_some()
    }
}
