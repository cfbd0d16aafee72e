//! Which clients get an association, and when the proxy takes no more of them.

use super::ServerProxy;
use super::flows::Full;
use super::host::ServerHost;
use crate::proxy::limits::{Limits, Refusal};
use crate::proxy::workers::Workers;
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
            let allowed = match self.common.drains() {
                true => Err(Refusal::Draining),
                false => self.common.ledger().begin(now, peer),
            };
            match allowed {
                Ok(()) => {
                    if let Some(handle) = endpoint.accept(now, incoming) {
                        self.common.ledger().began(handle, peer);
                    }
                }
                Err(refusal) => {
                    self.common.totals.count_refused_client(refusal, peer);
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
        let (handle, _) = client;
        let associations = &self.associations;
        // When a flow of another worker was active is not known here: it ends first.
        let quiet = |handle: &Handle| associations.get(*handle).map(|of| of.active_at);
        let place = self.common.ledger().complete(now, client, identity, quiet);
        let gives_way = match place {
            Ok(gives_way) => gives_way,
            Err(refusal) => {
                self.common.totals.count_refused(refusal, &format_args!("{identity}: {refusal}"));
                return false;
            }
        };
        let max = self.common.max_flows();
        let place = {
            let mut flows = self.common.flows();
            // It gives its place to this one.
            if let Some(handle) = gives_way {
                flows.remove(handle, identity);
            }
            flows.take_place((handle, identity), max, quiet)
        };
        let gives_way = gives_way.into_iter().chain(place.unwrap_or_default());
        for handle in gives_way {
            self.end(handle);
            self.common.totals.gave_way.one();
        }
        if place == Err(Full) {
            let why = format_args!("{max} flows are open (--max-flows)");
            self.common.totals.count_refused(Refusal::Flows, &why);
        }
        place.is_ok()
    }

    /// Ends flows beyond the limit of their network that have replaced no other flow.
    pub(super) fn end_flows_beyond_limit(&mut self, now: Instant) {
        loop {
            let next = self.common.ledger().next_beyond(now);
            let Some((handle, peer)) = next else { break };
            self.end(handle);
            self.common.totals.count_refused_client(Refusal::FlowsOfNetwork, peer);
        }
    }

    /// Ends an association, of whichever worker it is.
    pub(super) fn end(&mut self, handle: Handle) {
        if Workers::of_handle(handle) != self.number {
            self.workers.end(handle);
            return;
        }
        let ended = self.associations.remove(handle);
        self.count_early(ended);
        self.refused.push(handle);
    }
}

impl ServerProxy {
    /// Takes other limits. The associations that exist go on.
    pub(crate) fn set_limits(&self, limits: Limits, max_flows: usize) {
        self.common.set_max_flows(max_flows);
        self.common.ledger().set_limits(limits);
        for outer in &*self.outers {
            outer.call(|endpoint, host, _| {
                if limits.limit_networks() {
                    endpoint.hold_incoming();
                }
                let mut ledger = host.common.ledger();
                for (handle, of) in host.associations.iter() {
                    ledger.restored(handle, of.peer, &of.identity);
                }
            });
        }
    }

    /// Takes no new clients any more; the associations that exist go on.
    pub(crate) fn drain(&self) {
        self.common.drain();
        for outer in &*self.outers {
            outer.call(|endpoint, _, _| endpoint.hold_incoming());
        }
    }
}
