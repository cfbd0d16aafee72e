//! Which clients get an association, and when the proxy takes no more of them.

use super::{ServerHost, ServerProxy};
use crate::proxy::limits::{Limits, Refusal};
use lightseal_core::Instant;
use lightseal_dtls::codepoints::AlertDescription;
use lightseal_dtls::{Endpoint, Handle};
use std::net::SocketAddr;
use std::sync::Arc;

impl ServerHost {
    /// Decides about the clients that have sent a hello. Returns whether there was one.
    pub(super) fn admit(&mut self, now: Instant, endpoint: &mut Endpoint) -> bool {
        let mut called = false;
        while let Some(incoming) = endpoint.next_incoming() {
            called = true;
            let peer = incoming.peer();
            let allowed = match self.draining {
                true => Err(Refusal::Draining),
                false => self.ledger.begin(now, peer),
            };
            match allowed {
                Ok(()) => {
                    if let Some(handle) = endpoint.accept(now, incoming) {
                        self.ledger.began(handle, peer);
                    }
                }
                Err(refusal) => {
                    self.totals.count_refused_client(refusal, peer);
                    match refusal {
                        // The client repeats its hello, and later it may begin a handshake.
                        Refusal::HandshakesOfNetwork => endpoint.ignore(incoming),
                        // With this alert other servers refuse clients that they have no room for.
                        _ => endpoint.refuse(now, incoming, AlertDescription::INTERNAL_ERROR),
                    }
                }
            }
        }
        called
    }

    /// Whether a client whose handshake is complete gets a flow. Another flow may end for it.
    pub(super) fn has_place_for(
        &mut self,
        now: Instant,
        client: (Handle, SocketAddr),
        identity: &Arc<str>,
    ) -> bool {
        let associations = &self.associations;
        let quiet = |handle: &Handle| associations.get(handle).map(|of| of.active_at);
        match self.ledger.complete(now, client, identity, quiet) {
            Ok(None) => {}
            Ok(Some(gives_way)) => self.end_for_another(gives_way),
            Err(refusal) => {
                self.totals.count_refused(refusal, &format_args!("{identity}: {refusal}"));
                return false;
            }
        }
        let max = self.options.max_flows;
        if self.associations.len() >= max && !self.make_room(now, identity) {
            let why = format_args!("{max} flows are open (--max-flows)");
            self.totals.count_refused(Refusal::Flows, &why);
            return false;
        }
        true
    }

    /// Ends flows beyond the limit of their network that have replaced no other flow.
    pub(super) fn end_flows_beyond_limit(&mut self, now: Instant) {
        while let Some((handle, peer)) = self.ledger.next_beyond(now) {
            let ended = self.associations.remove(&handle);
            self.count_early(ended);
            self.refused.push(handle);
            self.totals.count_refused_client(Refusal::FlowsOfNetwork, peer);
        }
    }

    /// Ends an association of the identity that has most of them, to make room for one of
    /// `newcomer`. Returns `false` if no identity has enough more than `newcomer`.
    fn make_room(&mut self, now: Instant, newcomer: &Arc<str>) -> bool {
        let all = self.associations.iter();
        let owners = all.map(|(handle, association)| (*handle, Arc::clone(&association.identity)));
        let active = |handle: &Handle| self.associations.get(handle).map(|of| of.active_at);
        let gives_way = self.shares.who_gives_way(now, newcomer, owners, active);
        gives_way.is_some_and(|handle| {
            self.end_for_another(handle);
            true
        })
    }

    /// Ends an association so that another one gets its place.
    fn end_for_another(&mut self, handle: Handle) {
        let ended = self.associations.remove(&handle);
        self.count_early(ended);
        self.refused.push(handle);
        self.totals.gave_way.one();
    }
}

impl ServerProxy {
    /// Takes other limits. The associations that exist go on.
    pub(crate) fn set_limits(&self, limits: Limits, max_flows: usize) {
        self.outer.call(|endpoint, host, _| {
            if limits.limit_networks() {
                endpoint.hold_incoming();
            }
            (host.options.limits, host.options.max_flows) = (limits, max_flows);
            let flows = host.associations.iter();
            let flows = flows.map(|(handle, of)| (*handle, of.peer, &of.identity));
            host.ledger.set_limits(limits, flows);
        });
    }

    /// Takes no new clients any more; the associations that exist go on.
    pub(crate) fn drain(&self) {
        self.outer.call(|endpoint, host, _| {
            endpoint.hold_incoming();
            host.draining = true;
        });
    }
}
