//! The node that sends requests.

use super::account::{
    INDIVIDUAL_KEY_HASH_BLOCKS, NodeAccount, TransactionPhase, WRITER_KEYS_HASH_BLOCKS,
};
use super::coap::{self, Token};
use crate::lowpan::address;
use crate::world::{NextAction, NodeId};
use lightseal_core::{Engine, Instant, Output, Random};
use lightseal_dtls::{ClientConfig, Connection, Event};
use lightseal_group::Member;
use lightseal_group::member::{DatagramOrigin, Delivery};
use lightseal_group::policy::Profile;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A program that sends a request to all listeners, after a handshake with each of them or without
/// any.
pub(super) struct Sender {
    listeners: Vec<NodeId>,
    multicast: bool,
    /// The configuration of handshakes; `None` if there are none.
    client: Option<Arc<ClientConfig>>,
    sessions: Vec<Connection>,
    member: Option<Box<Member>>,
    random: Random,
    token: Token,
    /// Whether the next handshake or request is to be begun.
    is_due: bool,
    /// When each handshake began and, if it is complete, when it ended.
    pub(super) handshakes: Vec<(Instant, Option<Instant>)>,
    /// When the first request was begun.
    pub(super) began: Option<Instant>,
    asked: usize,
    /// The listeners that have responded, and when.
    pub(super) answered: BTreeMap<NodeId, Instant>,
    outbox: VecDeque<(NodeId, Vec<u8>)>,
    pub(super) account: NodeAccount,
}

impl Sender {
    pub(super) fn new(
        listeners: Vec<NodeId>,
        multicast: bool,
        client: Option<ClientConfig>,
        member: Option<Member>,
        mut random: Random,
    ) -> Self {
        Self {
            listeners,
            multicast,
            client: client.map(Arc::new),
            sessions: Vec::new(),
            member: member.map(Box::new),
            token: random.array(),
            random,
            is_due: true,
            handshakes: Vec::new(),
            began: None,
            asked: 0,
            answered: BTreeMap::new(),
            outbox: VecDeque::new(),
            account: NodeAccount::default(),
        }
    }

    /// Whether all handshakes are complete and no request has been sent yet.
    pub(super) fn is_ready(&self) -> bool {
        let is_over = self.handshakes.iter().all(|(_, ended)| ended.is_some());
        let all = self.client.is_none() || self.handshakes.len() == self.listeners.len();
        is_over && all && self.began.is_none()
    }

    /// Whether all listeners have responded.
    pub(super) fn is_done(&self) -> bool {
        self.answered.len() == self.listeners.len()
    }

    fn phase(&self) -> TransactionPhase {
        if self.began.is_some() { TransactionPhase::Messages } else { TransactionPhase::Handshakes }
    }

    pub(super) fn receive(&mut self, now: Instant, from: NodeId, datagram: &mut [u8]) {
        let is_protected = self.client.is_some() || self.member.is_some();
        self.account.datagram(self.phase(), from, datagram, is_protected);
        let there = address(from);
        let mut response = None;
        // A datagram from a listener without a session belongs to the handshake.
        let mut is_of_session = self.client.is_some();
        if let Some(member) = self.member.as_mut().filter(|_| !is_of_session) {
            let delivered = |delivery: Delivery<'_>| {
                if let Delivery::Response { content, .. } = delivery {
                    response = Some(content.to_vec());
                }
            };
            let origin = member.receive_unicast(now, there, datagram, delivered);
            is_of_session = origin == DatagramOrigin::UnicastSession;
        }
        if is_of_session {
            let session = self.listeners.iter().position(|listener| *listener == from);
            if let Some(session) = session.and_then(|at| self.sessions.get_mut(at)) {
                session.handle_datagram(now, there, datagram);
            }
        } else if self.member.is_none() {
            response = Some(datagram.to_vec());
        } else if response.is_some() && !self.answered.contains_key(&from) {
            self.account.derive(self.derived());
        }
        if let Some(response) = response {
            self.take(now, from, &response);
        }
    }

    /// Number of blocks of a hash function to derive the keys of a listener from which the first
    /// response comes.
    fn derived(&self) -> u32 {
        match self.member.as_ref().map(|member| member.policy().profile) {
            Some(Profile::Axiom12) => INDIVIDUAL_KEY_HASH_BLOCKS,
            Some(Profile::Compact) => WRITER_KEYS_HASH_BLOCKS,
            None => 0,
        }
    }

    fn take(&mut self, now: Instant, from: NodeId, response: &[u8]) {
        if coap::token_of_response(response) == Some(self.token) {
            self.answered.entry(from).or_insert(now);
            self.is_due = !self.multicast && self.asked < self.listeners.len();
        }
    }

    pub(super) fn wake(&mut self, now: Instant) {
        self.sessions.iter_mut().for_each(|session| session.handle_timeout(now));
        if let Some(member) = &mut self.member {
            member.handle_timeout(now);
        }
        if !core::mem::take(&mut self.is_due) {
            return;
        }
        if let Some(config) = self.client.clone()
            && let Some(listener) = self.listeners.get(self.sessions.len())
        {
            let client = Connection::client(config, address(*listener), now, self.random.fork());
            self.sessions.push(client);
            self.handshakes.push((now, None));
            return;
        }
        self.began.get_or_insert(now);
        self.ask(now);
    }

    /// Sends the request to all listeners, or to the next one.
    fn ask(&mut self, now: Instant) {
        let request = coap::request(self.asked as u16, self.token);
        let listener = self.listeners.get(self.asked).copied();
        self.asked += 1;
        if !self.multicast {
            let session = self.sessions.get_mut(self.asked - 1);
            match (session, listener) {
                // A request that cannot be sent is not answered either, and the transaction fails.
                (Some(session), _) => drop(session.send(now, &request, &mut [])),
                (None, Some(listener)) => self.outbox.push_back((listener, request)),
                (None, None) => {}
            }
            return;
        }
        let Some(member) = &mut self.member else {
            return self.outbox.push_back((NodeId::EVERYBODY, request));
        };
        let mut buf = [0; 200];
        if let Ok(len) = member.request(now, &request, &mut buf) {
            self.outbox.push_back((NodeId::EVERYBODY, buf[..len].to_vec()));
        }
    }

    pub(super) fn poll(&mut self, now: Instant, buf: &mut [u8]) -> NextAction {
        let mut wake = self.is_due.then_some(now);
        for at in 0..self.sessions.len() {
            let listener = self.listeners[at];
            loop {
                match self.sessions[at].poll_output(buf) {
                    Output::Datagram { payload, .. } => {
                        let phase = if self.began.is_some() {
                            TransactionPhase::Messages
                        } else {
                            TransactionPhase::Handshakes
                        };
                        return self.account.send(phase, listener, payload, true);
                    }
                    Output::Event(Event::Connected(_)) => {
                        if let Some((_, ended @ None)) = self.handshakes.get_mut(at) {
                            *ended = Some(now);
                            self.is_due = true;
                            wake = Some(now);
                        }
                        if let Some(member) = &mut self.member {
                            member.open_session(address(listener));
                        }
                    }
                    Output::Event(Event::Data(data)) => {
                        let data = data.to_vec();
                        self.take(now, listener, &data);
                        wake = self.is_due.then_some(now).or(wake);
                    }
                    Output::Event(_) => {}
                    Output::BufferTooSmall { needed } => panic!("{needed} bytes are needed"),
                    Output::WakeAt(then) => {
                        wake = Some(wake.map_or(then, |wake| wake.min(then)));
                        break;
                    }
                    Output::Idle => break,
                }
            }
        }
        if let Some(send) = self.account.send_next(&mut self.outbox, self.member.is_some(), buf) {
            return send;
        }
        let wake = if self.is_due { Some(now) } else { wake };
        wake.map_or(NextAction::Idle, NextAction::WakeAt)
    }
}
