//! Flows that replace others: at the next address of the server, or when there are too many flows.

use super::flow::FlowHost;
use super::lane::Flow;
use super::server_state::RETRY;
use super::{ClientProxy, Flows};
use crate::proxy::limits::Refusal;
use crate::proxy::shares;
use lightseal_core::{AddressPair, Instant};
use lightseal_dtls::Connection;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::task::JoinSet;

/// How long a handshake waits for an answer before another address of the server is tried.
/// By then the ClientHello was sent three times. The time doubles each time all addresses were
/// tried.
const FIRST_ANSWER: Duration = Duration::from_millis(if cfg!(test) { 300 } else { 3_500 });

/// How many other flows a new flow asks what they know of the path to the server.
const PATHS_LOOKED_AT: usize = 4;

/// How a flow begins.
#[derive(Clone, Copy, Debug)]
pub(super) enum FlowStart<'a> {
    /// For an application that has no flow. `hops` flows of this proxy in a row led to it.
    New { hops: u32 },
    /// Beside the application's flow, which it replaces once its handshake is complete.
    Beside,
    /// In place of this flow, whose handshake was not answered.
    InPlaceOf(&'a Flow),
    /// Beside the application's flow, in place of this handshake, which was not answered.
    BesideInPlaceOf(&'a Flow),
}

impl<'a> FlowStart<'a> {
    pub(super) const fn hops(self) -> u32 {
        match self {
            Self::New { hops } => hops,
            Self::Beside | Self::InPlaceOf(_) | Self::BesideInPlaceOf(_) => 0,
        }
    }

    /// Whether the flow is to replace another one once its handshake is complete.
    pub(super) const fn is_beside(self) -> bool {
        matches!(self, Self::Beside | Self::BesideInPlaceOf(_))
    }

    /// The flow that was not answered.
    pub(super) const fn former(self) -> Option<&'a Flow> {
        match self {
            Self::New { .. } | Self::Beside => None,
            Self::InPlaceOf(former) | Self::BesideInPlaceOf(former) => Some(former),
        }
    }
}

/// How long a handshake waits for progress before another address of the server is tried, after
/// `tries` others; the server has `addresses` of them. A handshake beside a flow `succeeds` it.
fn patience(tries: u32, addresses: usize, succeeds: bool) -> Duration {
    let addresses = u32::try_from(addresses.max(1)).unwrap_or(u32::MAX);
    let rounds = tries / addresses;
    let patience = FIRST_ANSWER.saturating_mul(1 << rounds.min(4));
    if succeeds && rounds > 0 { patience.max(RETRY) } else { patience }
}

impl FlowHost {
    /// Continues where `former` stopped, whose handshake was not answered.
    pub(super) fn succeed(&mut self, former: &Self) {
        self.hops = former.hops;
        self.port = former.port;
        self.active_at = former.active_at;
        if let (Some(own), Some(former)) = (&mut self.handshake, &former.handshake) {
            own.tries = former.tries.saturating_add(1);
            own.began_at = former.began_at;
        }
    }
}

impl ClientProxy {
    /// Whether a flow's handshake has waited too long for its first answer, or for the next one.
    fn is_unheard(&self, connection: &Connection, host: &FlowHost, now: Instant) -> bool {
        let Some(handshake) = &host.handshake else { return false };
        let patience = patience(handshake.tries, self.options.server.len(), host.succeeds);
        let deadline = host.config.settings().handshake_deadline;
        connection.stats().sent.datagrams > 0
            && now - handshake.progressed_at.unwrap_or(handshake.opened_at) >= patience
            && now - handshake.began_at < deadline
    }

    /// Whether a flow's handshake has waited too long, and the server has another address.
    pub(super) fn is_to_go_elsewhere(&self, flow: &Flow) -> bool {
        if flow.note(|host, _| host.is_connected()) != Some(false) {
            return false;
        }
        let state = flow.look(|connection, host, now| {
            (self.is_unheard(connection, host, now), connection.stats().sent.datagrams == 0)
        });
        let ((unheard, waits), server) = (state.unwrap_or_default(), flow.lane.server);
        if unheard {
            self.options.server.silent(server);
        }
        // A handshake that waits for others with a server that does not answer need not try it itself.
        (unheard || waits) && self.options.server.current().is_some_and(|now| now != server)
    }

    /// If the handshake beside an application's flow is not answered, begins another one at another
    /// address.
    pub(super) fn move_successor(&self, application: AddressPair, tasks: &mut JoinSet<()>) {
        let Some(successor) = self.flows().successors.flow(application) else { return };
        if !self.is_to_go_elsewhere(&successor) {
            return;
        }
        let beginning = FlowStart::BesideInPlaceOf(&successor);
        if let Err(error) = self.open(application, beginning, tasks) {
            self.totals().count_refused(Refusal::NoSocket, &error);
        }
        successor.close();
    }

    /// Ends a flow of the network that has most of them, to make room for one of `newcomer`.
    /// Returns `false` if no network has enough more than that of `newcomer`.
    pub(super) fn make_room(&self, newcomer: AddressPair) -> bool {
        let mut flows = self.flows();
        let Flows { open, successors, shares, .. } = &mut *flows;
        let networks = open.iter().map(|(flow, _)| (flow, shares::network(flow.peer)));
        let active = |flow: &AddressPair| open.get(flow)?.note(|host, _| host.active_at);
        let newcomer = shares::network(newcomer.peer);
        let gives_way = shares.who_gives_way(self.clock.now(), &newcomer, networks, active);
        let Some(application) = gives_way else { return false };
        successors.forget(application);
        let Some(flow) = open.remove(&application) else { return false };
        drop(flows);
        self.totals().gave_way.one();
        flow.close();
        true
    }
}

/// The path MTU that another flow has found on the path to `server`.
pub(super) fn known_path_mtu(flows: &Flows, server: SocketAddr) -> Option<usize> {
    let others = flows.open.flows().take(PATHS_LOOKED_AT).filter(|f| f.lane.server == server);
    let known = others.filter_map(|other| {
        other.look(|connection, _, _| connection.is_connected().then(|| connection.path_mtu()))
    });
    known.flatten().max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::client::ClientProxyOptions;
    use crate::proxy::destination::Destination;
    use lightseal_dtls::{ClientConfig, Psk, SendError};
    use std::net::Ipv4Addr;
    use std::sync::Arc;
    use tokio::net::UdpSocket;

    /// A client proxy whose server never answers.
    struct Alone {
        proxy: ClientProxy,
        tasks: JoinSet<()>,
        _silent: UdpSocket,
    }

    /// How many addresses were tried before, and when the first handshake began.
    fn began(host: &FlowHost) -> (u32, Instant) {
        let handshake = host.handshake.as_ref().unwrap();
        (handshake.tries, handshake.began_at)
    }

    impl Alone {
        async fn new() -> Self {
            let loopback = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
            let (silent, local) = (loopback().await.unwrap(), loopback().await.unwrap());
            let hour = Duration::from_secs(3600);
            let options = ClientProxyOptions {
                merges_ports: false,
                list: None,
                server: Arc::new(Destination::at(silent.local_addr().unwrap())),
                max_flows: 2,
                idle_timeout: hour,
                keepalive: Some(hour),
                shares_sockets: true,
            };
            let psk = Psk::external(b"sensor", &[7; 32]).unwrap();
            let config = Arc::new(ClientConfig::new(psk));
            let proxy = ClientProxy::new(local, config, options);
            Self { proxy, tasks: JoinSet::new(), _silent: silent }
        }

        /// Begins the flow of an application and a handshake beside it.
        fn flow_with_successor(&mut self, application: AddressPair) -> Flow {
            let Self { proxy, tasks, .. } = self;
            proxy.open(application, FlowStart::New { hops: 0 }, tasks).unwrap();
            proxy.flows().successors.expect(application, proxy.clock.now());
            proxy.open(application, FlowStart::Beside, tasks).unwrap()
        }

        fn successors(&self) -> usize {
            self.proxy.flows().successors.flows().count()
        }
    }

    fn application(host: u8, port: u16) -> AddressPair {
        AddressPair::to(([127, 0, 0, host], port).into())
    }

    fn is_closed(flow: &Flow) -> bool {
        let sent = flow.call(|connection, _, now| connection.send(now, b"?", &mut []));
        sent.is_none_or(|sent| sent == Err(SendError::Closed))
    }

    #[tokio::test]
    async fn a_flow_that_makes_room_takes_its_successor_along() {
        let mut alone = Alone::new().await;
        let successors = [1, 2].map(|port| alone.flow_with_successor(application(1, port)));
        assert!(alone.proxy.make_room(application(2, 1)));
        assert_eq!((alone.proxy.open_flows(), alone.successors()), (1, 1));
        assert_eq!(successors.iter().filter(|flow| is_closed(flow)).count(), 1);
    }

    #[tokio::test]
    async fn a_successor_without_a_flow_ends() {
        let mut alone = Alone::new().await;
        let successor = alone.flow_with_successor(application(1, 1));
        alone.proxy.flows().open = Default::default();
        alone.proxy.sweep(&mut alone.tasks);
        assert!(is_closed(&successor) && alone.successors() == 0);
        // Neither does one remain whose flow ended while it began.
        let Alone { proxy, tasks, .. } = &mut alone;
        let late = proxy.open(application(1, 1), FlowStart::Beside, tasks).unwrap();
        assert!(is_closed(&late));
    }

    #[tokio::test]
    async fn a_handshake_at_the_next_address_counts_those_before() {
        let mut alone = Alone::new().await;
        let first = alone.flow_with_successor(application(1, 1));
        let began_at = first.note(|host, _| began(host).1).unwrap();
        let Alone { proxy, tasks, .. } = &mut alone;
        let beginning = FlowStart::BesideInPlaceOf(&first);
        let next = proxy.open(application(1, 1), beginning, tasks).unwrap();
        assert_eq!(next.note(|host, _| began(host)), Some((1, began_at)));
        assert_eq!((proxy.open_flows(), alone.successors()), (1, 1));
    }

    #[test]
    fn once_all_addresses_were_tried_a_silent_flow_tries_them_more_rarely() {
        let patience = |tries| patience(tries, 2, true);
        assert_eq!([patience(0), patience(1)], [FIRST_ANSWER; 2]);
        assert!((2..100).all(|tries| patience(tries) >= RETRY));
        assert!(super::patience(2, 2, false) == 2 * FIRST_ANSWER, "for a first handshake");
    }
}
