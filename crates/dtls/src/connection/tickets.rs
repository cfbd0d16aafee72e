//! Tickets of DTLS 1.3 (RFC 8446, section 4.6.1): a server sends them after the handshake, a client
//! receives them at any time.

use super::stage::Stage;
use super::{Connection, Role};
use crate::codepoints::HandshakeType;
use crate::error::Fault;
use crate::handshake::reassembly::Message;
use crate::handshake::{Established, EstablishedKeys};
use crate::messages::ticket::NewSessionTicket13;
use crate::parts;
use crate::record::epochs::APPLICATION_EPOCH;
use lightseal_core::Decode;

impl Connection {
    /// Sends the tickets of a server whose handshake has just been completed.
    pub(super) fn send_tickets(&mut self) {
        if parts::Resumption::INCLUDED.is_none() || !matches!(self.role, Role::Server(..)) {
            return;
        }
        let Stage::Established(Established {
            keys: EstablishedKeys::Dtls13 { resumption, .. },
            ..
        }) = &mut self.stage
        else {
            return;
        };
        let Some(state) = resumption.take() else { return };
        for body in state.issue(self.now, &mut self.channel.rng) {
            self.channel.flight.push(APPLICATION_EPOCH, HandshakeType::NEW_SESSION_TICKET, body);
        }
    }

    /// Keeps a ticket that a client has received.
    pub(super) fn ticket_received(&mut self, message: &Message) -> Result<(), Fault> {
        // A client without the part acknowledges tickets, and ignores them.
        if parts::Resumption::INCLUDED.is_none() {
            return Ok(());
        }
        let ticket = NewSessionTicket13::decode(&message.body)?;
        let Stage::Established(Established {
            keys: EstablishedKeys::Dtls13 { resumption, .. },
            ..
        }) = &mut self.stage
        else {
            return Ok(());
        };
        let (Some(state), Role::Client(_, config)) = (resumption.get_mut(), &self.role) else {
            return Ok(());
        };
        let own_keys =
            config.certificates.get().and_then(|certificates| certificates.keys.as_ref());
        let Some(session) = state.receive(self.now, own_keys, &ticket) else { return Ok(()) };
        if let Some(cache) = &config.cache {
            // The cache hands the ticket out, and nobody else does.
            drop(state.take());
            cache.put(&config.session_key(self.path.to.peer), session, self.now);
        }
        Ok(())
    }
}
