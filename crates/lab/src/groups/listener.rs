//! A node that responds to requests.

use super::account::{
    INDIVIDUAL_KEY_HASH_BLOCKS, NodeAccount, TransactionPhase, WRITER_KEYS_HASH_BLOCKS,
};
use super::coap;
use crate::lowpan::{address, node};
use crate::world::{NextAction, NodeId};
use core::time::Duration;
use lightseal_core::{Engine, Instant, Output, Random};
use lightseal_dtls::{Endpoint, Event, Handle};
use lightseal_group::member::{Delivery, RequestKind, SendError};
use lightseal_group::policy::Profile;
use lightseal_group::{Member, SenderId};
use std::collections::VecDeque;

/// A program that responds to requests.
pub(super) struct Listener {
    endpoint: Option<Box<Endpoint>>,
    session: Option<Handle>,
    member: Option<Box<Member>>,
    /// The longest random wait before a response to a multicast request.
    leisure: Duration,
    random: Random,
    pending: Option<Pending>,
    has_keys: bool,
    was_asked: bool,
    outbox: VecDeque<(NodeId, Vec<u8>)>,
    pub(super) account: NodeAccount,
}

/// A request that waits for its response.
struct Pending {
    at: Instant,
    request: Vec<u8>,
    from: NodeId,
    /// The request's sender, if the request was secured by the group's keys.
    sender: Option<SenderId>,
}

impl Listener {
    pub(super) fn new(
        endpoint: Option<Endpoint>,
        member: Option<Member>,
        leisure: Duration,
        random: Random,
    ) -> Self {
        Self {
            endpoint: endpoint.map(Box::new),
            session: None,
            member: member.map(Box::new),
            leisure,
            random,
            pending: None,
            has_keys: false,
            was_asked: false,
            outbox: VecDeque::new(),
            account: NodeAccount::default(),
        }
    }

    /// The phase that the node's next datagrams belong to.
    fn phase(&self) -> TransactionPhase {
        let shakes_hands = self.endpoint.is_some() && !self.was_asked;
        if shakes_hands { TransactionPhase::Handshakes } else { TransactionPhase::Messages }
    }

    pub(super) fn receive(&mut self, now: Instant, from: NodeId, datagram: &mut [u8]) {
        let is_message = self.endpoint.is_none() || self.session.is_some();
        let phase =
            if is_message { TransactionPhase::Messages } else { TransactionPhase::Handshakes };
        self.account.datagram(phase, from, datagram, self.endpoint.is_some());
        match &mut self.endpoint {
            Some(endpoint) => endpoint.handle_datagram(now, address(from), datagram),
            None => self.schedule(now, now, from, None, datagram),
        }
    }

    pub(super) fn receive_multicast(&mut self, now: Instant, from: NodeId, datagram: &mut [u8]) {
        self.account.datagram(TransactionPhase::Messages, from, datagram, self.member.is_some());
        let leisure = lightseal_core::time::micros(self.leisure).max(1);
        let at = now + Duration::from_micros(self.random.below(leisure));
        let Some(member) = &mut self.member else {
            return self.schedule(now, at, from, None, datagram);
        };
        let mut request = None;
        member.receive_multicast(now, address(from), datagram, |delivery| {
            if let Delivery::Request { sender, content, .. } = delivery {
                request = Some((sender, content.to_vec()));
            }
        });
        if let Some((sender, content)) = request {
            if member.policy().profile == Profile::Compact && !self.has_keys {
                // The keys of the sender, which are the same for all listeners.
                self.account.derive(WRITER_KEYS_HASH_BLOCKS);
            }
            self.schedule(now, at, from, Some(sender), &content);
        }
    }

    fn schedule(
        &mut self,
        now: Instant,
        at: Instant,
        from: NodeId,
        sender: Option<SenderId>,
        request: &[u8],
    ) {
        self.was_asked = true;
        self.pending = Some(Pending { at, request: request.to_vec(), from, sender });
        if at <= now {
            self.answer(now);
        }
    }

    fn answer(&mut self, now: Instant) {
        let Some(Pending { request, from, sender, .. }) = self.pending.take() else { return };
        let Some(response) = coap::response(&request, 1) else { return };
        let mut buf = [0; 200];
        let sealed = match (&mut self.member, sender) {
            (Some(member), Some(sender)) => {
                let kind = RequestKind::Group;
                Some(member.respond(now, sender, kind, &response, &mut buf).map(|(_, len)| len))
            }
            _ => None,
        };
        match (sealed, &mut self.endpoint, self.session) {
            (Some(Ok(len)), ..) => {
                if !core::mem::replace(&mut self.has_keys, true) {
                    let profile = self.member.as_ref().map(|member| member.policy().profile);
                    self.account.derive(match profile {
                        Some(Profile::Compact) => WRITER_KEYS_HASH_BLOCKS,
                        _ => INDIVIDUAL_KEY_HASH_BLOCKS,
                    });
                }
                self.outbox.push_back((from, buf[..len].to_vec()));
            }
            // A failure to send is not handled here. The sender misses the response and the
            // transaction fails.
            (None | Some(Err(SendError::Session(_))), Some(endpoint), Some(session)) => {
                let connection = endpoint.connection_mut(session);
                let _ = connection.map(|mut connection| connection.send(now, &response, &mut []));
            }
            (None, None, _) => self.outbox.push_back((from, response)),
            _ => {}
        }
    }

    pub(super) fn wake(&mut self, now: Instant) {
        if let Some(endpoint) = &mut self.endpoint {
            endpoint.handle_timeout(now);
        }
        if let Some(member) = &mut self.member {
            member.handle_timeout(now);
        }
        if self.pending.as_ref().is_some_and(|pending| pending.at <= now) {
            self.answer(now);
        }
    }

    pub(super) fn poll(&mut self, now: Instant, buf: &mut [u8]) -> NextAction {
        let phase = self.phase();
        let mut wake = None;
        let mut request = None;
        if let Some(endpoint) = &mut self.endpoint {
            loop {
                match endpoint.poll_output(buf) {
                    Output::Datagram { to, payload } => {
                        let Some(to) = node(to) else { continue };
                        return self.account.send(phase, to, payload, true);
                    }
                    Output::Event(told) => match told.event {
                        Event::Connected(_) => {
                            self.session = Some(told.handle);
                            if let Some(member) = &mut self.member {
                                member.open_session(told.peer);
                            }
                        }
                        Event::Data(data) => request = node(told.peer).zip(Some(data.to_vec())),
                        _ => {}
                    },
                    Output::BufferTooSmall { needed } => panic!("{needed} bytes are needed"),
                    Output::WakeAt(at) => {
                        wake = Some(at);
                        break;
                    }
                    Output::Idle => break,
                }
            }
        }
        if let Some((from, request)) = request {
            self.schedule(now, now, from, None, &request);
            return self.poll(now, buf);
        }
        if let Some(send) = self.account.send_next(&mut self.outbox, self.member.is_some(), buf) {
            return send;
        }
        let due = self.pending.as_ref().map(|pending| pending.at);
        [wake, due].into_iter().flatten().min().map_or(NextAction::Idle, NextAction::WakeAt)
    }
}
