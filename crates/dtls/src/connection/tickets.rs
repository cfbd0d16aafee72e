//! Sessions, and the tickets of DTLS 1.3 (RFC 8446, section 4.6.1): a server sends them after the
//! handshake, a client receives them at any time.

use super::stage::Stage;
use super::{Connection, Role};
use crate::codepoints::HandshakeType;
use crate::config::session::{Session, Session12};
use crate::error::Fault;
use crate::handshake::EstablishedKeys;
use crate::handshake::reassembly::Message;
use crate::messages::ticket::NewSessionTicket13;
use crate::parts;
use crate::record::epochs::APPLICATION_EPOCH;
use lightseal_core::Decode;

impl Connection {
    /// The session, for [`ClientConfig::with_session`](crate::ClientConfig::with_session) of a later association; `None` before the
    /// handshake is complete, and if the server offered no way to resume. In DTLS 1.3 it is the
    /// newest ticket of a client, which arrives after the handshake and should be used once:
    /// [`take_session`](Self::take_session) hands out each ticket once.
    pub fn session(&self) -> Option<Session> {
        let Stage::Established(established) = &self.stage else { return None };
        match &established.keys {
            EstablishedKeys::Dtls12(keys) => {
                let session = Session::of_12((**keys.session.get()?).clone());
                Some(session).filter(Session::is_resumable)
            }
            EstablishedKeys::Dtls13 { resumption, .. } => resumption.get()?.newest(),
        }
    }

    /// The DTLS 1.2 session of a server, once the handshake is complete. It is not kept here any
    /// more.
    pub(crate) fn take_session_12(&mut self) -> Option<Session12> {
        match &mut self.stage {
            Stage::Established(established) => {
                let session = &mut established.keys.dtls12_mut()?.session;
                core::mem::take(session).into_inner().map(|session| *session)
            }
            _ => None,
        }
    }

    /// As [`session`](Self::session). In DTLS 1.3 the ticket is forgotten, so that the next call
    /// returns an older one.
    pub fn take_session(&mut self) -> Option<Session> {
        match self.stage.resumption() {
            Some(resumption) => resumption.get_mut()?.take(),
            None => self.session(),
        }
    }

    /// Keeps no ticket of DTLS 1.3, neither those that a client has received nor those that follow, and
    /// none of the secrets that they need. Under an external PSK a ticket saves no computation. A
    /// DTLS 1.2 session stays.
    pub fn decline_tickets(&mut self) {
        if let (Role::Client(_), Some(resumption)) = (&self.role, self.stage.resumption()) {
            drop(resumption.take());
        }
    }

    /// Puts the DTLS 1.2 session of a client whose handshake has just been completed into its cache.
    /// Tickets of DTLS 1.3 come later.
    pub(super) fn cache_session_12(&self) {
        let Role::Client(config) = &self.role else { return };
        let Some(cache) = config.session_cache() else { return };
        if let Some(session) = self.session().filter(|session| session.dtls12().is_some()) {
            cache.put(&config.session_key(self.path.peer()), session, self.now);
        }
    }

    /// Sends the tickets of a server whose handshake has just been completed.
    pub(super) fn send_tickets(&mut self) {
        if parts::Resumption::INCLUDED.is_none() || !matches!(self.role, Role::Server(..)) {
            return;
        }
        let Some(resumption) = self.stage.resumption() else { return };
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
        let Some(resumption) = self.stage.resumption() else { return Ok(()) };
        let (Some(state), Role::Client(config)) = (resumption.get_mut(), &self.role) else {
            return Ok(());
        };
        let Some(session) = state.receive(self.now, &ticket) else { return Ok(()) };
        if let Some(cache) = config.session_cache() {
            // The cache hands the ticket out, and nobody else does.
            drop(state.take());
            cache.put(&config.session_key(self.path.peer()), session, self.now);
        }
        Ok(())
    }
}
