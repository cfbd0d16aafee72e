//! Which socket a new flow gets.

use super::flow::FlowHost;
use super::lane::{Flow, Lane, LaneHost, Shared};
use super::own_sockets::OwnSockets;
use crate::proxy::counters::add_socket;
use crate::proxy::unread;
use lightseal_core::{AddressPair, Random};
use lightseal_dtls::{ClientConfig, Endpoint, Stats, Watch};
use lightseal_net::socket_set::SocketSet;
use lightseal_net::tokio::{Driver, SocketCounters};
use lightseal_net::{Clock, path_mtu, socket};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket as StdSocket};
use std::num::NonZeroU32;
use std::sync::Arc;
use tokio::net::UdpSocket;

/// How many sockets flows with one server share before handshakes wait for each other: those at one
/// socket follow each other.
const MOST_FREE: usize = 16;

/// How many flows a socket has before another one is opened. A server proxy with several threads, and a
/// fleet, tell apart where flows begin by the socket.
const CROWD: usize = 256;

/// How many flows with sockets of their own are at one lane: their connection IDs, of two bytes by default, are
/// different ones.
const CROWD_APART: usize = 1 << 14;

/// How many handshakes wait at each socket before more sockets are opened, and how many these are at
/// most: when a server was restarted, all flows begin anew at a time.
const MOST_WAITING: usize = 4;
const MOST_SHARED: usize = 256;

/// How a flow begins.
#[derive(Debug)]
pub(super) struct FlowBeginning<'a> {
    pub(super) application: AddressPair,
    pub(super) config: Arc<ClientConfig>,
    pub(super) server: SocketAddr,
    pub(super) watch: Option<Watch>,
    /// The path MTU that another flow has found.
    pub(super) path_mtu: Option<usize>,
    /// Whether the flow is to replace another one once its handshake is complete.
    pub(super) succeeds: bool,
    pub(super) hops: u32,
    /// The lane of a flow from which this one takes over.
    pub(super) avoids: Option<&'a Flow>,
}

/// All lanes of a proxy.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    all: Vec<Arc<Lane>>,
    next: u64,
    /// An endpoint without associations, whose settings all others share.
    model: Option<Endpoint>,
    /// Counters of the lanes that have ended.
    ended: Stats,
    ended_socket: SocketCounters,
}

impl Lanes {
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Lane>> {
        self.all.iter()
    }

    /// Begins a flow. If its lane is new, the second value is the lane, which is to be run.
    ///
    /// # Errors
    ///
    /// If no socket or no randomness is available.
    pub(super) fn begin(
        &mut self,
        clock: Clock,
        shared: &Arc<Shared>,
        shares: bool,
        flow: &FlowBeginning<'_>,
    ) -> io::Result<(Flow, Option<Arc<Lane>>)> {
        // Without a watch nobody would notice a flow that the server has ended for another one.
        if !shares || flow.watch.is_none() || !shared.sharing.with(flow.server) {
            return self.begin_apart(clock, shared, flow);
        }
        let Some(lane) = self.shared_lane(flow) else {
            let lane = self.open(clock, shared, flow, None)?;
            let begun = begin_at(&lane, flow, None)?;
            self.all.push(Arc::clone(&lane));
            return Ok((begun, Some(lane)));
        };
        match begin_at(&lane, flow, None) {
            Ok(begun) => Ok((begun, None)),
            // It has turned out that its last association has no connection ID.
            Err(_) => self.begin_apart(clock, shared, flow),
        }
    }

    /// Begins a flow with a socket of its own.
    fn begin_apart(
        &mut self,
        clock: Clock,
        shared: &Arc<Shared>,
        flow: &FlowBeginning<'_>,
    ) -> io::Result<(Flow, Option<Arc<Lane>>)> {
        let avoided = flow.avoids.map(|former| former.lane.number);
        let fits = |lane: &&Arc<Lane>| {
            lane.own.is_some()
                && lane.server == flow.server
                && Some(lane.number) != avoided
                && lane.driver.call(|_, host, _| host.flows.len()) < CROWD_APART
        };
        let known = self.all.iter().find(fits).cloned();
        let is_new = known.is_none();
        let lane = match known {
            Some(lane) => lane,
            None => self.open(clock, shared, flow, Some(Arc::new(SocketSet::new()?)))?,
        };
        let begun = begin_at(&lane, flow, Some(socket_for(flow)?))?;
        if is_new {
            self.all.push(Arc::clone(&lane));
        }
        Ok((begun, is_new.then_some(lane)))
    }

    /// The lane that a flow shares with others; `None` if it is to have a new one. Flows of a lane
    /// whose server is silent are replaced at other lanes: the network may have forgotten the port.
    fn shared_lane(&self, flow: &FlowBeginning<'_>) -> Option<Arc<Lane>> {
        let avoided = flow.avoids.map(|former| former.lane.number);
        let sharing = |lane: &&Arc<Lane>| lane.own.is_none() && lane.server == flow.server;
        let lanes = self.all.iter().filter(sharing);
        let loads = lanes.filter(|lane| Some(lane.number) != avoided).filter_map(|lane| {
            let load = |endpoint: &mut Endpoint, host: &mut LaneHost, _| {
                let busy = !endpoint.may_begin_with(flow.server);
                (host.silent == 0, (busy, host.handshakes(), host.flows.len()))
            };
            let (answers, load) = lane.driver.call(load);
            answers.then_some((load, lane))
        });
        let loads: Vec<_> = loads.collect();
        let ((busy, waiting, flows), lane) = loads.iter().min_by_key(|(load, _)| *load)?;
        let is_full = *busy || *flows >= CROWD;
        let most = if *waiting < MOST_WAITING { MOST_FREE } else { MOST_SHARED };
        (!is_full || loads.len() >= most).then(|| Arc::clone(lane))
    }

    fn open(
        &mut self,
        clock: Clock,
        shared: &Arc<Shared>,
        flow: &FlowBeginning<'_>,
        own: Option<Arc<SocketSet>>,
    ) -> io::Result<Arc<Lane>> {
        let settings = flow.config.settings();
        let socket = UdpSocket::from_std(socket_for(flow)?)?;
        let rng = Random::from_os().map_err(io::Error::other)?;
        let endpoint = match &self.model {
            Some(model) => model.another_client(rng),
            None => {
                let model = Endpoint::client(settings.clone(), rng).map_err(io::Error::other)?;
                let rng = Random::from_os().map_err(io::Error::other)?;
                self.model.insert(model).another_client(rng)
            }
        };
        let number = self.next;
        self.next += 1;
        let sockets = own.as_ref().map(|set| OwnSockets::new(Arc::clone(set)));
        let host = LaneHost::new(Arc::clone(shared), flow.server, number, sockets);
        let driver = Driver::new(socket, clock, endpoint, host);
        Ok(Arc::new(Lane { driver, server: flow.server, own, number }))
    }

    /// Removes a lane without flows. Returns `false` if it has some again.
    pub(super) fn remove(&mut self, lane: &Lane, shared: &Shared) -> bool {
        let driver = &lane.driver;
        let stats =
            driver.call(|endpoint, host, _| host.flows.is_empty().then(|| endpoint.totals()));
        let Some(stats) = stats else { return false };
        self.all.retain(|other| other.number != lane.number);
        self.add(&stats, &driver.counters());
        shared.totals.overruns_outer.add(lane.overruns());
        shared.totals.unread.add(unread(driver.socket()));
        true
    }

    /// Adds the counters of associations and of a socket that are none of a lane any more.
    pub(super) fn add(&mut self, stats: &Stats, socket: &SocketCounters) {
        self.ended += stats;
        add_socket(&mut self.ended_socket, socket);
    }

    /// The sums of the counters of all associations and their sockets, open and ended.
    pub(super) fn counters(&self) -> (Stats, SocketCounters) {
        let (mut stats, mut socket) = (self.ended, self.ended_socket);
        for lane in &self.all {
            stats += &lane.driver.call(|endpoint, _, _| endpoint.totals());
            add_socket(&mut socket, &lane.driver.counters());
        }
        (stats, socket)
    }
}

/// Begins a flow at a lane, with a socket of its own or the lane's.
fn begin_at(
    lane: &Arc<Lane>,
    flow: &FlowBeginning<'_>,
    own: Option<StdSocket>,
) -> io::Result<Flow> {
    let handle = lane.driver.call(|endpoint, host, now| {
        let mut connect =
            |number| endpoint.connect_through(now, number, Arc::clone(&flow.config), flow.server);
        let (number, handle) = match (&mut host.own, own) {
            (Some(sockets), Some(socket)) => sockets.begin(socket, connect)?,
            _ => (0, connect(0).map_err(io::Error::other)?),
        };
        if let Some(mut connection) = endpoint.connection_mut(handle) {
            if let Some(watch) = flow.watch {
                connection.watch(now, watch);
            }
            if let Some(bytes) = flow.path_mtu {
                connection.presume_path_mtu(bytes);
            }
        }
        let mut known = FlowHost::new(flow.application, Arc::clone(&flow.config), now);
        (known.hops, known.succeeds) = (Some(flow.hops), flow.succeeds);
        known.socket = NonZeroU32::new(number);
        host.insert(handle, known);
        Ok::<_, io::Error>(handle)
    })?;
    Ok(Flow { lane: Arc::clone(lane), handle })
}

/// A socket for flows, with reports about datagrams that do not arrive.
fn socket_for(flow: &FlowBeginning<'_>) -> io::Result<StdSocket> {
    let socket = outer_socket(flow.server, flow.config.settings().path_mtu.is_some())?;
    // On systems without such reports, only the early notice of an unreachable server is lost.
    let _ = socket::report_unreachable(&socket);
    Ok(socket)
}

/// A socket towards a server, in no runtime.
pub(super) fn outer_socket(server: SocketAddr, finds_path_mtu: bool) -> io::Result<StdSocket> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = socket::bind_outside((any, 0).into())?;
    if finds_path_mtu {
        path_mtu::forbid_fragments(&socket)?;
    }
    Ok(socket)
}
