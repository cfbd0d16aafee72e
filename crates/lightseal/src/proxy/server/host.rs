//! The host of a worker's engine: it connects the associations of the worker with the service.

use super::ServerProxyOptions;
use super::associations::{Association, Associations, MOST_EARLY};
use super::common::Common;
use crate::credential;
use crate::proxy::deliveries::Deliveries;
use crate::proxy::limits::Refusal;
use crate::proxy::loops::{self, EphemeralPorts};
use crate::proxy::state::InUse;
use crate::proxy::workers::{Overflow, Workers};
use crate::proxy::{described, unshared};
use lightseal_core::{AddressPair, Instant};
use lightseal_dtls::{
    AggregationPolicy, CloseReason, Endpoint, EndpointEvent, Event, Handle, Resolution,
    SavedAssociation,
};
use lightseal_net::address::Named;
use lightseal_net::socket_set::SocketSet;
use lightseal_net::tokio::EngineHost;
use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use tokio::runtime;

#[derive(Debug)]
pub(super) struct ServerHost {
    pub(super) options: ServerProxyOptions,
    pub(super) common: Arc<Common>,
    pub(super) workers: Arc<Workers>,
    /// The number of this worker.
    pub(super) number: usize,
    /// The runtime of this worker.
    pub(super) runtime: runtime::Handle,
    /// The sockets towards the service.
    pub(super) services: Arc<SocketSet>,
    /// The address that client proxies send to.
    pub(super) listen: SocketAddr,
    /// The ephemeral ports, from which the sockets towards the service get their ports.
    pub(super) ports: EphemeralPorts,
    /// The schemes of shared tags that this end wants.
    pub(super) policy: AggregationPolicy,
    pub(super) longest: usize,
    pub(super) associations: Associations,
    /// Associations without a socket towards the service yet, and the port from which the service saw
    /// those that were restored; 0 if it has seen none.
    pub(super) opening: Vec<(Handle, Option<u16>)>,
    /// Whether no sockets are opened, because more associations are being restored.
    pub(super) is_restoring: bool,
    /// Restored associations for which no socket could be opened yet.
    pub(super) waiting: Vec<(Handle, Option<u16>)>,
    /// Whether the log says that they wait.
    pub(super) misses_service: bool,
    /// What the engine wants to be stored.
    pub(super) saves: Vec<(Handle, Box<SavedAssociation>)>,
    /// The generations of the secrets that this worker shares with others.
    pub(super) generations: Generations,
    /// Associations whose keepalive is to be answered.
    pub(super) answers: Vec<Handle>,
    /// Messages for the service.
    pub(super) deliveries: Deliveries<UdpSocket>,
    /// Associations that are to be closed because there is no room for them.
    pub(super) refused: Vec<Handle>,
    /// Associations whose identities have no address yet, by identity.
    pub(super) addressless: HashMap<Arc<str>, Vec<(Handle, Option<u16>)>>,
    /// How many datagrams were received here and passed on to other workers.
    pub(super) passed_on: u64,
    /// How many refused handshakes have been logged so far.
    pub(super) refusals: u64,
}

/// The generations of the secrets that an endpoint shares with others; `None` if it shares none.
#[derive(Debug, Default)]
pub(super) struct Generations {
    pub(super) cookies: Option<u64>,
    pub(super) tickets: Option<u64>,
    /// Which secrets of the fleet are in use.
    pub(super) secrets: Option<InUse>,
}

impl EngineHost<Endpoint> for ServerHost {
    fn diverts(&mut self, _: Instant, addresses: AddressPair, datagram: &mut [u8]) -> bool {
        let router = self.options.router.as_ref();
        if router.is_some_and(|router| router.passes_on(addresses, datagram)) {
            return true;
        }
        self.is_passed_on(addresses, datagram)
    }

    fn event(&mut self, now: Instant, event: EndpointEvent<'_>) {
        let EndpointEvent { handle, peer, event, .. } = event;
        let shown = Named(peer);
        match event {
            // The service sends nothing before it has received a message.
            Event::MaySend(_) => {}
            Event::Connected(negotiated) => {
                tracing::debug!(
                    peer.address = %shown,
                    peer.identity = credential::shown(&negotiated),
                    "{shown}: {}",
                    described(&negotiated)
                );
                self.common.totals.resumed.add(negotiated.resumed.into());
                self.common.totals.handshakes.one();
                if let Some(why) = unshared(&self.policy, &negotiated) {
                    self.common.totals.complain_of_unshared(&shown, &why);
                }
                let owner: Arc<str> = credential::shown(&negotiated).into();
                let Ok(key) = self.key_use(&negotiated, handle) else {
                    self.refused.push(handle);
                    return;
                };
                if !self.has_place_for(now, (handle, peer), &owner) {
                    self.refused.push(handle);
                    return;
                }
                let association = Association::new(peer, owner, negotiated.version, now, key);
                self.associations.insert(handle, association);
                self.opening.push((handle, None));
            }
            Event::Save(saved) => self.saves.push((handle, saved)),
            Event::Data(payload) | Event::Provisional { data: payload, .. } => {
                let Some(association) = self.associations.get_mut(handle) else {
                    self.common.totals.refused_messages.add(u64::from(!payload.is_empty()));
                    return;
                };
                association.active_at = now;
                if payload.is_empty() {
                    self.answers.push(handle);
                    return;
                }
                match &association.service {
                    Some(service) => {
                        let to = AddressPair::to(service.address);
                        let parts = [&service.header[..], payload];
                        self.deliveries.add(&service.socket, to, parts, &self.common.totals);
                    }
                    None if association.early.len() < MOST_EARLY => {
                        association.early.push(payload.to_vec());
                    }
                    None => self.common.totals.queue_full.one(),
                }
            }
            Event::Resolved(_, resolution) => {
                if let Resolution::Refuted { bytes } = resolution {
                    let identity = self.identity(handle);
                    tracing::warn!(
                        peer.address = %shown,
                        peer.identity = identity,
                        "{shown}: a forged message was delivered, {bytes} bytes ago"
                    );
                }
            }
            Event::PeerMoved { from, to } => {
                tracing::debug!(
                    peer.address = %Named(to),
                    peer.identity = self.identity(handle),
                    "{}: its address is {} now",
                    Named(from),
                    Named(to)
                );
                self.common.ledger().moved(handle, to);
                let header = self.associations.get_mut(handle).map(|association| {
                    association.peer = to;
                    association.header(&self.options, self.listen)
                });
                let service = self.associations.get_mut(handle).and_then(|of| of.service.as_mut());
                if let (Some(service), Some(header)) = (service, header) {
                    service.header = header;
                }
            }
            Event::AggregationChanged { send, receive } => {
                tracing::debug!(
                    peer.address = %shown,
                    peer.identity = self.identity(handle),
                    "{shown}: tags {send} out, {receive} in"
                );
            }
            Event::Closed(reason) => {
                self.common.ledger().ended(handle);
                let ended = self.associations.remove(handle);
                if let Some(state) = self.common.state().as_mut() {
                    match reason {
                        CloseReason::Replaced | CloseReason::Evicted => state.remove_first(handle),
                        _ => state.remove(handle),
                    }
                }
                let identity = ended.as_ref().map(|association| Arc::clone(&association.identity));
                let identity = identity.as_deref();
                let complete = ended.is_some();
                if complete {
                    self.common.totals.ended.count(reason.class());
                }
                self.count_early(ended);
                match reason {
                    CloseReason::Local
                    | CloseReason::Peer
                    | CloseReason::Replaced
                    | CloseReason::Evicted => {
                        tracing::debug!(
                            peer.address = %shown, peer.identity = identity, "{shown}: {reason}"
                        );
                    }
                    _ if complete => {
                        self.common.totals.failed.one();
                        tracing::warn!(
                            peer.address = %shown, peer.identity = identity, "{shown}: {reason}"
                        );
                    }
                    // Anybody can begin a handshake, so failed ones are logged at a limited rate.
                    _ => {
                        self.common.totals.failed.one();
                        self.common.totals.failed_handshakes.count(reason.class());
                        self.complain_of_handshake(peer, &reason);
                    }
                }
            }
            other => tracing::debug!(
                peer.address = %shown, peer.identity = self.identity(handle), "{shown}: {other}"
            ),
        }
    }

    fn flush(&mut self, _: Instant) {
        self.deliveries.flush(&self.common.totals);
    }

    fn drained(&mut self, now: Instant, endpoint: &mut Endpoint) -> bool {
        let admitted = self.admit(now, endpoint);
        let mut opening = match self.is_restoring {
            true => Vec::new(),
            false => std::mem::take(&mut self.opening),
        };
        // Ports from which the service has seen some associations are not given to others.
        opening.sort_by_key(|(_, former)| former.unwrap_or(0) == 0);
        for (handle, former) in opening {
            let residues = endpoint.connection(handle).and_then(|of| loops::residues(&of));
            match self.open(handle, residues, former) {
                Ok(()) => self.common.totals.opened.add(former.is_none().into()),
                // Its identity waits for an address.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The peer of one that was restored may sleep until the service can be reached.
                Err(error) if former.is_some() => {
                    if !std::mem::replace(&mut self.misses_service, true) {
                        tracing::warn!("restored associations wait for the service: {error}");
                    }
                    self.waiting.push((handle, former));
                }
                Err(error) => {
                    self.common.totals.count_refused(Refusal::NoSocket, &error);
                    let refused = self.associations.remove(handle);
                    self.count_early(refused);
                    self.refused.push(handle);
                }
            }
        }
        self.misses_service &= !self.waiting.is_empty();
        let called = self.save(endpoint, now)
            || admitted
            || !self.answers.is_empty()
            || !self.refused.is_empty();
        for handle in self.answers.drain(..) {
            if let Some(mut connection) = endpoint.connection_mut(handle)
                && connection.send(now, &[], &mut []).is_ok()
            {
                self.common.totals.keepalives.one();
            }
        }
        for handle in self.refused.drain(..) {
            if let Some(mut connection) = endpoint.connection_mut(handle) {
                connection.close(now);
            }
        }
        let stats = endpoint.stats();
        if stats.refused != self.refusals {
            self.refusals = stats.refused;
            if let Some((peer, why)) = stats.last_refusal {
                self.complain_of_handshake(peer, &why);
            }
        }
        if let Some(refused) = self.options.list.as_ref().and_then(|list| list.take_refused()) {
            // The client's PSK was refused, and it may still have a certificate.
            tracing::debug!("a handshake goes on without a PSK: {refused}");
        }
        called
    }
}

impl ServerHost {
    /// Does what is to be done now and then. It closes associations that have carried nothing for too long.
    pub(super) fn sweep(&mut self, endpoint: &mut Endpoint, now: Instant) {
        self.share_secrets(endpoint, now);
        self.opening.append(&mut self.waiting);
        self.end_flows_beyond_limit(now);
        while let Some((handle, association)) = self.associations.next_idle(now) {
            tracing::debug!(
                peer.address = %Named(association.peer),
                peer.identity = &*association.identity,
                "{}: idle",
                Named(association.peer)
            );
            if let Some(mut connection) = endpoint.connection_mut(handle) {
                connection.close(now);
            }
        }
    }

    /// Passes a datagram on if it is for another worker. Returns whether that is so.
    pub(super) fn is_passed_on(&mut self, addresses: AddressPair, datagram: &[u8]) -> bool {
        match self.workers.passes_on(self.number, addresses, datagram) {
            Ok(false) => return false,
            Ok(true) => self.passed_on += 1,
            Err(Overflow) => self.common.totals.worker_overflows.one(),
        }
        true
    }

    /// The identity of an association's client, for the log.
    pub(super) fn identity(&self, handle: Handle) -> Option<&str> {
        self.associations.get(handle).map(|association| &*association.identity)
    }

    /// Warns about a failed handshake.
    pub(super) fn complain_of_handshake(&self, peer: SocketAddr, why: &dyn std::fmt::Display) {
        match self.unlisted(why) {
            Some(refused) => self.common.totals.complain_of_unlisted(peer, &refused),
            None => self.common.totals.complain_of_handshake(peer, why),
        }
    }

    /// Counts the messages of an association that ended before it had a socket towards the service.
    pub(super) fn count_early(&self, ended: Option<Box<Association>>) {
        let early = ended.map_or(0, |association| association.early.len());
        self.common.totals.refused_messages.add(early as u64);
    }
}
