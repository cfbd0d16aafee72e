//! A socket towards the server, and the flows that it carries.
//!
//! Each flow is an association of one endpoint. Flows with one server share a socket if both ends
//! tell associations apart by connection IDs and the server is known to keep several of one client
//! ([`Sharing`]); else each flow has a socket of its own, at one lane for all of them.

use super::flow::FlowHost;
use super::hints::{Sign, Signs};
use super::own_sockets::OwnSockets;
use super::server_state::{Answering, Attention, Server};
use crate::credential;
use crate::credential::allow::AccessList;
use crate::proxy::counters::Totals;
use crate::proxy::deliveries::Deliveries;
use crate::proxy::destination::Destination;
use crate::proxy::loops::{self, LoopGuard};
use crate::proxy::{described, explained, unshared};
use lightseal_core::{AddressPair, Instant};
use lightseal_dtls::codepoints::ContentType;
use lightseal_dtls::{
    CloseReason, Connection, ConnectionMut, ConnectionRef, Endpoint, EndpointEvent, Event, Fault,
    Handle, Limit, Resolution, Sent,
};
use lightseal_net::address::Named;
use lightseal_net::socket::AddressedSocket;
use lightseal_net::socket_set::SocketSet;
use lightseal_net::tokio::{Driver, EngineHost};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};

/// How many flows that sent last are asked when the network reports that the server is not there.
const MOST_ASKED: usize = 16;

/// What all flows of a proxy share.
#[derive(Debug)]
pub(in crate::proxy) struct Shared {
    /// The socket towards applications.
    pub(super) local: Arc<AddressedSocket>,
    pub(super) destination: Arc<Destination>,
    /// The access list, which knows whom it has refused.
    pub(super) list: Option<Arc<AccessList>>,
    pub(super) totals: Totals,
    pub(super) loops: LoopGuard,
    /// Which server answers keepalives.
    pub(super) answers: Answering,
    /// Which server keeps several associations at one socket.
    pub(super) sharing: Sharing,
    pub(super) server: Server,
    /// Called when a flow has a change that the proxy is to handle at once.
    pub(super) attention: Attention,
    /// Flows that have ended and are still in the proxy's lists.
    ended: Mutex<Vec<(AddressPair, FlowId)>>,
}

impl Shared {
    pub(super) fn new(
        local: Arc<AddressedSocket>,
        destination: Arc<Destination>,
        list: Option<Arc<AccessList>>,
    ) -> Self {
        Self {
            local,
            destination,
            list,
            totals: Totals::default(),
            loops: LoopGuard::default(),
            answers: Answering::default(),
            sharing: Sharing::default(),
            server: Server::default(),
            attention: Attention::default(),
            ended: Mutex::default(),
        }
    }

    /// The flows that have ended since the last call.
    pub(super) fn take_ended(&self) -> Vec<(AddressPair, FlowId)> {
        std::mem::take(&mut *self.ended.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The server whose associations can share a socket. RFC 9147, section 5.11, has a server abandon an
/// association when its client begins another one from the same address. Server proxies do not if the
/// client still has both, and they answer keepalives, as no other server does.
#[derive(Debug, Default)]
pub(super) struct Sharing(Mutex<Option<SocketAddr>>);

impl Sharing {
    /// Notes what an association with `server` shows: whether the server [can](Self::can_keep) keep several
    /// associations, and whether it answers keepalives.
    pub(super) fn note(&self, server: SocketAddr, can_keep: bool, answers: bool) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if can_keep && answers {
            *known = Some(server);
        } else if !can_keep && *known == Some(server) {
            *known = None;
        }
    }

    /// Whether both ends of an association, which has not ended, can tell it from others at one socket,
    /// and the server can ask for it.
    pub(super) fn can_keep(connection: &Connection) -> bool {
        let may_be_asked = connection.negotiated().is_some_and(|agreed| agreed.return_routability);
        connection.has_own_ids() && connection.sends_with_id() && may_be_asked
    }

    pub(super) fn with(&self, server: SocketAddr) -> bool {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) == Some(server)
    }
}

/// Identifies a flow: the number of its lane, and its association there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FlowId(u64, Handle);

/// A socket towards one address of the server, or the sockets of flows that have one each.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) driver: Driver<Endpoint, LaneHost>,
    pub(super) server: SocketAddr,
    /// The sockets, if each flow has its own. The driver's is then not used.
    pub(super) own: Option<Arc<SocketSet>>,
    /// No two lanes of a proxy have the same number.
    pub(super) number: u64,
}

/// The association of one application.
#[derive(Clone, Debug)]
pub(in crate::proxy) struct Flow {
    pub(super) lane: Arc<Lane>,
    pub(super) handle: Handle,
}

impl Flow {
    pub(super) fn id(&self) -> FlowId {
        FlowId(self.lane.number, self.handle)
    }

    /// Uses the association, which wakes up if it sleeps; `None` if the flow has ended.
    pub(super) fn call<R>(
        &self,
        call: impl FnOnce(&mut ConnectionMut<'_>, &mut FlowHost, Instant) -> R,
    ) -> Option<R> {
        self.lane.driver.call(|endpoint, host, now| {
            let flow = host.flows.get_mut(&self.handle)?;
            Some(call(&mut endpoint.connection_mut(self.handle)?, flow, now))
        })
    }

    /// Reads the association; `None` if the flow has ended.
    pub(super) fn look<R>(
        &self,
        look: impl FnOnce(&ConnectionRef<'_>, &mut FlowHost, Instant) -> R,
    ) -> Option<R> {
        self.lane.driver.call(|endpoint, host, now| {
            let flow = host.flows.get_mut(&self.handle)?;
            Some(look(&endpoint.connection(self.handle)?, flow, now))
        })
    }

    /// Reads or changes what is known besides the association; `None` if the flow has ended.
    pub(super) fn note<R>(&self, note: impl FnOnce(&mut FlowHost, Instant) -> R) -> Option<R> {
        let note = |host: &mut LaneHost, now| Some(note(host.flows.get_mut(&self.handle)?, now));
        self.lane.driver.call(|_, host, now| note(host, now))
    }

    /// Closes the association with a close_notify.
    pub(super) fn close(&self) {
        self.lane.driver.call(|endpoint, _, now| {
            if let Some(mut connection) = endpoint.connection_mut(self.handle) {
                connection.close(now);
            }
        });
    }
}

/// The host of a lane's endpoint: it connects its associations with their applications.
#[derive(Debug)]
pub(super) struct LaneHost {
    shared: Arc<Shared>,
    pub(super) server: SocketAddr,
    number: u64,
    /// They are in boxes because most maps have one flow where flows share no sockets.
    pub(super) flows: HashMap<Handle, Box<FlowHost>>,
    /// Messages for applications.
    deliveries: Deliveries,
    /// Associations that are to be looked at when the engine has no more events.
    touched: Vec<Handle>,
    /// The identity that the last flow agreed on. Usually all flows have the same.
    identity: Option<Arc<str>>,
    /// What came to the lane's socket.
    signs: Signs,
    /// The sockets of flows, if each has its own.
    pub(super) own: Option<OwnSockets>,
    /// The number of flows whose handshake is not complete.
    handshakes: usize,
    /// The number of flows whose server is silent.
    pub(super) silent: usize,
}

impl LaneHost {
    pub(super) fn new(
        shared: Arc<Shared>,
        server: SocketAddr,
        number: u64,
        own: Option<OwnSockets>,
    ) -> Self {
        Self {
            shared,
            server,
            number,
            flows: HashMap::new(),
            deliveries: Deliveries::new(|application| Named::from(application).to_string()),
            touched: Vec::new(),
            identity: None,
            signs: Signs::default(),
            own,
            handshakes: 0,
            silent: 0,
        }
    }

    /// Adds a flow whose handshake begins.
    pub(super) fn insert(&mut self, handle: Handle, flow: FlowHost) {
        self.handshakes += 1;
        self.flows.insert(handle, Box::new(flow));
    }

    /// The number of flows whose handshake is in progress or waits for another one.
    pub(super) const fn handshakes(&self) -> usize {
        self.handshakes
    }

    /// Notes that a flow was to send a message that came from this port, and what became of it; `None`
    /// if it was not taken.
    pub(super) fn sent(
        &mut self,
        now: Instant,
        (handle, by): (Handle, &Connection),
        port: u16,
        taken: Option<&Sent>,
    ) {
        let Some(flow) = self.flows.get_mut(&handle) else { return };
        flow.port = port;
        if flow.waits {
            flow.count_drops(by, self.server, &self.shared.totals);
            flow.waits = by.buffered_bytes() > 0;
        }
        let Some(taken) = taken else { return };
        flow.waits |= *taken == Sent::Queued;
        (flow.active_at, flow.sent_at) = (now, now);
    }

    /// A sign came that the server may have lost associations or be back. It does not say which
    /// association it is about, and anybody can forge it: the flows that sent last since the sign before
    /// ask the server. Returns whether there was one to be heeded now.
    fn take_hint(&mut self, now: Instant, endpoint: &mut Endpoint) -> bool {
        let Some(sign) = self.signs.take(now) else { return false };
        let sent = self.flows.iter().map(|(handle, flow)| (flow.sent_at, *handle));
        let mut senders: Vec<_> = sent.filter(|(at, _)| *at >= sign.before).collect();
        senders.sort_unstable_by_key(|(at, _)| Reverse(*at));
        for (_, handle) in senders.into_iter().take(MOST_ASKED) {
            if let Some(mut connection) = endpoint.connection_mut(handle) {
                connection.suspect(now);
            }
        }
        if sign.is_back && self.silent > 0 {
            self.flows.values_mut().for_each(|flow| flow.hinted |= flow.silent);
            self.shared.attention.call();
        }
        true
    }

    /// A sign came to the socket of a flow, which asks the server.
    pub(super) fn own_sign(
        &mut self,
        number: u32,
        is_hint: bool,
        now: Instant,
        endpoint: &mut Endpoint,
    ) {
        let sign = self.own.as_mut().and_then(|own| own.sign(number, is_hint, now));
        if let Some((flow, sign)) = sign {
            self.heed(flow, sign, now, endpoint);
        }
    }

    /// Heeds the signs that came too soon to sockets of flows. Returns whether there were any.
    fn heed_late_signs(&mut self, now: Instant, endpoint: &mut Endpoint) -> bool {
        let late = self.own.as_mut().map(|own| own.late_signs(now)).unwrap_or_default();
        for (flow, sign) in &late {
            self.heed(*flow, *sign, now, endpoint);
        }
        !late.is_empty()
    }

    fn heed(&mut self, flow: Handle, sign: Sign, now: Instant, endpoint: &mut Endpoint) {
        if let Some(mut connection) = endpoint.connection_mut(flow) {
            connection.suspect(now);
        }
        let silent = |flow: &&mut Box<FlowHost>| flow.silent;
        if sign.is_back
            && let Some(flow) = self.flows.get_mut(&flow).filter(silent)
        {
            flow.hinted = true;
            self.shared.attention.call();
        }
    }

    /// The socket has failed: all flows end.
    pub(super) fn fail(&mut self) {
        let Self { flows, shared, number, own, .. } = self;
        own.iter_mut().for_each(|own| own.leave_all(&shared.totals));
        let mut ended = shared.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.extend(
            flows.drain().map(|(handle, flow)| (flow.application, FlowId(*number, handle))),
        );
        (self.handshakes, self.silent) = (0, 0);
        shared.attention.ended();
    }

    /// The server's name and address, for the log.
    fn named(&self) -> String {
        self.shared.destination.named(self.server)
    }

    fn closed(&mut self, now: Instant, flow: &FlowHost, reason: CloseReason) {
        let shared = &self.shared;
        let ordinary = matches!(reason, CloseReason::Local | CloseReason::Peer);
        match flow.is_connected() {
            true => shared.totals.ended.count(reason.class()),
            false if ordinary => {}
            false => shared.totals.failed_handshakes.count(reason.class()),
        }
        let application = Named::from(flow.application);
        // Debug lines are enough where the server is named in the log elsewhere, and where the flow
        // had waited for another one that turned out to have no connection IDs.
        let told = reason == CloseReason::HandshakeTimeout
            || reason == CloseReason::Fault(Fault::Limit(Limit::AddressInUse));
        if !ordinary {
            shared.totals.failed.one();
        }
        if reason == CloseReason::HandshakeTimeout {
            shared.server.silent(&self.named(), now);
            shared.destination.silent(self.server);
        }
        if ordinary || told {
            tracing::debug!(
                peer.address = %Named(self.server),
                peer.identity = flow.identity.as_deref(),
                "flow {application}: {reason}"
            );
        } else {
            let list = shared.list.as_deref();
            tracing::warn!(
                peer.address = %Named(self.server),
                peer.identity = flow.identity.as_deref(),
                "flow {application}: {}",
                explained(self.server, &reason, list, flow.config.server_name())
            );
        }
    }
}

impl EngineHost<Endpoint> for LaneHost {
    fn diverts(&mut self, _: Instant, _: AddressPair, datagram: &mut [u8]) -> bool {
        // Nobody sends anything to the lane's socket if flows have their own.
        if self.own.is_none() && datagram.first() == Some(&ContentType::UNKNOWN_ASSOCIATION.0) {
            let _ = self.signs.note(true);
        }
        false
    }

    fn event(&mut self, now: Instant, event: EndpointEvent<'_>) {
        let EndpointEvent { handle, event, .. } = event;
        if let Event::Closed(reason) = event {
            let Some(flow) = self.flows.remove(&handle) else { return };
            self.silent -= usize::from(flow.silent);
            self.handshakes -= usize::from(!flow.is_connected());
            if let (Some(own), Some(socket)) = (&mut self.own, flow.socket) {
                own.leave(socket.get(), &self.shared.totals);
            }
            self.closed(now, &flow, reason);
            let mut ended = self.shared.ended.lock().unwrap_or_else(PoisonError::into_inner);
            ended.push((flow.application, FlowId(self.number, handle)));
            self.shared.attention.ended();
            return;
        }
        let Self { shared, server, flows, .. } = self;
        let Some(flow) = flows.get_mut(&handle) else { return };
        let application = Named::from(flow.application);
        match event {
            Event::MaySend(_) => {}
            Event::Connected(negotiated) => {
                shared.server.answers(&shared.destination.named(*server), now);
                shared.destination.answered(*server);
                shared.totals.resumed.add(negotiated.resumed.into());
                shared.totals.handshakes.one();
                if flow.succeeds {
                    shared.attention.call();
                }
                let shown = credential::shown(&negotiated);
                if self.identity.as_deref() != Some(&*shown) {
                    self.identity = Some(shown.into());
                }
                flow.handshake = None;
                flow.declines_tickets = negotiated.peer_key().is_none();
                if std::mem::replace(&mut flow.identity, self.identity.clone()).is_none() {
                    self.handshakes -= 1;
                }
                tracing::debug!(
                    peer.address = %Named(*server),
                    peer.identity = flow.identity.as_deref(),
                    "flow {application}: {}",
                    described(&negotiated)
                );
                if let Some(why) = unshared(&flow.config.settings().aggregation, &negotiated) {
                    shared.totals.complain_of_unshared(server, &why);
                }
                self.touched.push(handle);
            }
            Event::Data(payload) | Event::Provisional { data: payload, .. } => {
                if !std::mem::replace(&mut flow.heard, true) || payload.is_empty() {
                    self.touched.push(handle);
                }
                if payload.is_empty() {
                    shared.totals.keepalives.one();
                    return;
                }
                flow.active_at = now;
                let parts = [&[][..], payload];
                self.deliveries.add(&shared.local, flow.receiver(), parts, &shared.totals);
            }
            Event::PeerSilent => {
                if !std::mem::replace(&mut flow.silent, true) {
                    self.silent += 1;
                    shared.server.silent(&shared.destination.named(*server), now);
                }
                shared.attention.call();
            }
            Event::PeerHeard => {
                if std::mem::take(&mut flow.silent) {
                    self.silent -= 1;
                    shared.server.answers(&shared.destination.named(*server), now);
                }
                shared.attention.call();
            }
            Event::Resolved(_, resolution) => {
                if let Resolution::Refuted { bytes } = resolution {
                    tracing::warn!(
                        peer.address = %Named(*server),
                        peer.identity = flow.identity.as_deref(),
                        "flow {application}: a forged message was delivered, {bytes} bytes ago"
                    );
                }
            }
            Event::PeerMoved { from, to } => {
                tracing::debug!(
                    peer.address = %Named(to),
                    peer.identity = flow.identity.as_deref(),
                    "flow {application}: the server moved from {} to {}",
                    Named(from),
                    Named(to)
                );
            }
            Event::AggregationChanged { send, receive } => {
                tracing::debug!(
                    peer.address = %Named(*server),
                    peer.identity = flow.identity.as_deref(),
                    "flow {application}: tags {send} out, {receive} in"
                );
            }
            other => tracing::debug!("flow {application}: {other}"),
        }
    }

    fn drained(&mut self, now: Instant, endpoint: &mut Endpoint) -> bool {
        let mut called = self.take_hint(now, endpoint) | self.heed_late_signs(now, endpoint);
        for handle in self.touched.drain(..) {
            let Some(flow) = self.flows.get_mut(&handle) else { continue };
            let Some(connection) = endpoint.connection(handle) else { continue };
            flow.count_drops(&connection, self.server, &self.shared.totals);
            let answers = flow.heard && connection.peer_answers_probes();
            if answers {
                self.shared.answers.note(self.server);
            }
            if flow.is_connected() {
                self.shared.sharing.note(self.server, Sharing::can_keep(&connection), answers);
            }
            if let Some(hops) = flow.hops
                && let Some(residues) = loops::residues(&connection)
            {
                self.shared.loops.remember(now, residues, hops);
                flow.hops = None;
            }
            if std::mem::take(&mut flow.declines_tickets)
                && let Some(mut connection) = endpoint.connection_mut(handle)
            {
                connection.decline_tickets();
                called = true;
            }
        }
        called
    }

    fn flush(&mut self, _: Instant) {
        self.deliveries.flush(&self.shared.totals);
        if let Some(own) = &mut self.own {
            own.close_left(&self.shared.totals);
        }
    }

    fn unreachable(&mut self, _: Instant, _: &mut Endpoint) {
        let _ = self.signs.note(false);
    }

    fn socket(&self, number: u32) -> Option<&AddressedSocket<UdpSocket>> {
        self.own.as_ref()?.get(number).map(|(socket, _)| socket)
    }

    fn is_finished(&self, _: &Endpoint) -> bool {
        self.flows.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::client::hints::HINT_GAP;
    use lightseal_core::Random;
    use lightseal_dtls::{ClientConfig, Psk};
    use std::net::Ipv4Addr;
    use tokio::net::UdpSocket;

    const HINT: [u8; 13] = [0xe3, 0xfe, 0xfd, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0];

    #[tokio::test]
    async fn a_hint_says_that_a_silent_server_is_back_and_an_icmp_error_does_not() {
        let local = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let server = local.local_addr().unwrap();
        let local = Arc::new(AddressedSocket::new(local));
        let shared = Arc::new(Shared::new(local, Arc::new(Destination::at(server)), None));
        let mut host = LaneHost::new(shared, server, 1, None);
        let config = Arc::new(ClientConfig::new(Psk::external(b"sensor", &[7; 32]).unwrap()));
        let rng = Random::insecure(1);
        let mut endpoint = Endpoint::client(config.settings().clone(), rng).unwrap();
        let now = Instant::from_micros(1);
        let handle = endpoint.connect(now, Arc::clone(&config), server).unwrap();
        let mut flow = FlowHost::new(AddressPair::to(server), config, now);
        flow.silent = true;
        host.insert(handle, flow);
        host.silent = 1;

        host.unreachable(now, &mut endpoint);
        assert!(host.drained(now, &mut endpoint) && !host.flows[&handle].hinted);
        // A hint that comes too soon after the ICMP error counts later.
        host.diverts(now, AddressPair::to(server), &mut HINT.clone());
        assert!(!host.drained(now, &mut endpoint) && !host.flows[&handle].hinted);
        assert!(host.drained(now + HINT_GAP, &mut endpoint) && host.flows[&handle].hinted);
    }
}
