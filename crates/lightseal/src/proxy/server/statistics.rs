//! What a server proxy says of itself: statistics, metrics and states.

use super::ServerProxy;
use super::service::Service;
use crate::proxy::counters::by_class;
use crate::proxy::metrics::{self, ASLEEP, CONNECTED, HANDSHAKING, ProcessFacts};
use crate::proxy::overruns;
use crate::proxy::report::{self, Peer, ReportFacts};
use crate::proxy::state::State;
use crate::proxy::status::FlowStates;
use lightseal_dtls::{EndpointStats, Stats};
use lightseal_net::address::Named;
use lightseal_net::tokio::SocketCounters;
use lightseal_service::metrics::Snapshot;
use serde_json::Value;

impl ServerProxy {
    /// The counters of all open associations, and of the sockets.
    pub(crate) fn counters(&self) -> (Stats, SocketCounters) {
        let (mut stats, mut socket) = (Stats::default(), SocketCounters::default());
        self.each(|endpoint, _, _| stats += &endpoint.totals());
        self.outers.iter().for_each(|outer| socket += outer.counters());
        (stats, socket)
    }

    /// The statistics of this proxy, as they go into files and status reports.
    pub(crate) fn statistics(&self) -> Value {
        let mut value = self.counted();
        value["status"] = self.standing().json();
        let facts = ReportFacts {
            uptime: self.first().clock().now().saturating_since(self.began),
            listen: self.local_addr().ok(),
            connect: self.options.service.to_string(),
            peers: self.peers(),
        };
        report::complete(&mut value, facts);
        value
    }

    /// The state as metrics, with what else the process knows.
    pub(crate) fn metrics(&self, known: &ProcessFacts<'_>) -> Snapshot {
        let (mut all, mut asleep, connected) = (0, 0, self.open_flows());
        self.each(|endpoint, _, _| {
            all += endpoint.open_connections();
            asleep += endpoint.sleeping_connections();
        });
        let states = [
            (HANDSHAKING, all.saturating_sub(connected)),
            (CONNECTED, connected.saturating_sub(asleep)),
            (ASLEEP, asleep),
        ];
        let states = states.map(|(state, count)| (state, count as u64));
        metrics::snapshot(&self.counted(), &states, known)
    }

    /// All counters, without what is known of each association.
    fn counted(&self) -> Value {
        let (stats, socket) = self.counters();
        let mut local = 0;
        let mut endpoint = EndpointStats::default();
        let mut workers = Vec::new();
        self.each(|of, host, _| {
            let flows = host.associations.len();
            workers.push(serde_json::json!({ "flows": flows, "passed_on": host.passed_on }));
            let services = host.associations.values().filter_map(|of| of.service.as_ref());
            local += services.map(|service| overruns(service.socket.get_ref())).sum::<u64>();
            endpoint += of.stats();
        });
        let overruns = (local, self.overruns());
        let open = self.open_flows();
        let mut value = self.common.totals.json("server", open, socket, overruns, &stats);
        value["endpoint"] = serde_json::json!({
            "retries": endpoint.retries,
            "accepted": endpoint.accepted,
            "refused": endpoint.refused,
            "refused_by": by_class(&endpoint.refused_by),
            "ignored": endpoint.ignored,
            "full": endpoint.full,
            "evicted": endpoint.evicted,
            "hints": endpoint.hints,
            "last_refusal": endpoint.last_refusal.map(|(peer, why)| format!("{}: {why}", Named(peer))),
        });
        for (worker, outer) in workers.iter_mut().zip(&*self.outers) {
            worker["received"] = outer.counters().received.into();
        }
        value["workers"] = workers.into();
        let state = self.common.state().as_ref().map(State::report);
        if let Some(state) = state {
            value["state"] = serde_json::json!(state);
        }
        self.count_lookups(&mut value);
        if let Some(router) = &self.options.router {
            value["routing"] = serde_json::json!(router.report());
        }
        value
    }

    /// The peers of the associations.
    fn peers(&self) -> Vec<Peer> {
        let mut all = Vec::new();
        self.each(|endpoint, host, now| {
            all.extend(endpoint.connections().map(|(handle, connection)| {
                let association = host.associations.get(handle);
                let idle = association.map(|of| now.saturating_since(of.active_at));
                let mut peer = Peer::of(&connection, idle.unwrap_or_default());
                let service = association.and_then(|of| of.service.as_ref());
                let local = service.and_then(Service::local_addr);
                peer.service_port = local.map(|local| local.port());
                let source = local.filter(|_| self.options.source_prefix.is_some());
                peer.source_address = source.map(|local| local.ip().to_string());
                peer
            }));
        });
        all
    }

    /// A summary of the state of all open associations.
    pub(crate) fn standing(&self) -> FlowStates {
        let mut standing = FlowStates::new(self.counters().0);
        self.each(|endpoint, _, _| {
            endpoint.connections().for_each(|(_, connection)| standing.add(&connection));
        });
        standing
    }
}
