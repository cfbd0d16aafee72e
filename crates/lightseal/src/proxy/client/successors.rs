//! Flows that replace others: at the next address of the server, or when there are too many flows.

use super::{ClientProxy, Flow, FlowHost, Flows};
use crate::proxy::shares;
use lightseal_core::{AddressPair, Instant};
use lightseal_dtls::Connection;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::task::JoinSet;

/// How long a handshake waits for its first answer before another address of the server is tried.
/// By then the ClientHello was sent three times. The time doubles each time all addresses were
/// tried.
const FIRST_ANSWER: Duration = Duration::from_millis(if cfg!(test) { 300 } else { 3_500 });

/// How many other flows a new flow asks what they know of the path to the server.
const PATHS_LOOKED_AT: usize = 4;

/// How a flow begins.
#[derive(Clone, Copy, Debug)]
pub(super) enum Beginning<'a> {
    /// For an application that has no flow. `hops` flows of this proxy in a row led to it.
    New { hops: u32 },
    /// Beside the application's flow, which it replaces once its handshake is complete.
    Beside,
    /// In place of this flow, whose handshake was not answered.
    InPlaceOf(&'a Flow),
}

impl Beginning<'_> {
    pub(super) const fn hops(self) -> u32 {
        match self {
            Self::New { hops } => hops,
            Self::Beside | Self::InPlaceOf(_) => 0,
        }
    }
}

impl FlowHost {
    /// Continues where `former` stopped, whose handshake was not answered.
    pub(super) fn succeed(&mut self, former: &Self) {
        self.hops = former.hops;
        self.tries = former.tries.saturating_add(1);
        (self.began_at, self.active_at) = (former.began_at, former.active_at);
    }
}

impl ClientProxy {
    /// Whether a flow's handshake has waited too long for its first answer.
    pub(super) fn is_unheard(
        &self,
        connection: &Connection,
        host: &FlowHost,
        now: Instant,
    ) -> bool {
        let addresses = u32::try_from(self.options.server.len().max(1)).unwrap_or(u32::MAX);
        let patience = FIRST_ANSWER.saturating_mul(1 << (host.tries / addresses).min(4));
        let deadline = host.config.settings.handshake_deadline;
        connection.stats().received.datagrams == 0
            && connection.stats().sent.datagrams > 0
            && now - host.opened_at >= patience
            && now - host.began_at < deadline
    }

    /// Whether a flow's handshake has waited too long, and the server has another address.
    pub(super) fn is_to_go_elsewhere(&self, flow: &Flow) -> bool {
        let (unheard, server) = flow
            .call(|connection, host, now| (self.is_unheard(connection, host, now), host.server));
        if unheard {
            self.options.server.silent(server);
        }
        unheard && self.options.server.current().is_some_and(|now| now != server)
    }

    /// If the handshake beside an application's flow is not answered, begins another one at another
    /// address.
    pub(super) fn move_successor(&self, application: AddressPair, tasks: &mut JoinSet<()>) {
        let Some(successor) = self.flows().successors.flow(application) else { return };
        if !self.is_to_go_elsewhere(&successor) {
            return;
        }
        if let Err(error) = self.open(application, Beginning::Beside, tasks) {
            self.totals.count_refused(&error);
        }
        successor.call(|connection, _, now| connection.close(now));
    }

    /// Ends a flow of the network that has most of them, to make room for one of `newcomer`.
    /// Returns `false` if no network has enough more than that of `newcomer`.
    pub(super) fn make_room(&self, newcomer: AddressPair) -> bool {
        let mut flows = self.flows();
        let Flows { open, shares, .. } = &mut *flows;
        let networks = open.keys().map(|flow| (*flow, shares::network(flow.peer)));
        let active =
            |flow: &AddressPair| open.get(flow).map(|flow| flow.call(|_, host, _| host.active_at));
        let newcomer = shares::network(newcomer.peer);
        let gives_way = shares.who_gives_way(self.clock.now(), &newcomer, networks, active);
        let Some(flow) = gives_way.and_then(|flow| open.remove(&flow)) else { return false };
        drop(flows);
        self.totals.gave_way.one();
        flow.call(|connection, _, now| connection.close(now));
        true
    }

    /// Gives a new flow the path MTU that another flow has found on the path to `server`.
    pub(super) fn presume_path_mtu(&self, server: SocketAddr, flow: &Flow) {
        let flows: Vec<_> = self.flows().open.values().take(PATHS_LOOKED_AT).cloned().collect();
        let known = flows.iter().filter_map(|other| {
            other.call(|connection, host, _| {
                (host.server == server && connection.is_connected()).then(|| connection.path_mtu())
            })
        });
        if let Some(known) = known.max() {
            flow.call(|connection, _, _| connection.presume_path_mtu(known));
        }
    }
}
