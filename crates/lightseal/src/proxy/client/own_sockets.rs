//! Sockets of flows that have one each, because the server could not tell their associations apart at
//! one. They are in one set, for which the task of their lane waits.

use super::flow::FlowHost;
use super::hints::{HINT_GAP, Sign, Signs};
use super::lane::{Lane, LaneHost};
use crate::proxy::counters::Totals;
use crate::proxy::{overruns, unread};
use lightseal_core::Instant;
use lightseal_dtls::codepoints::ContentType;
use lightseal_dtls::{ConnectError, Endpoint, Handle};
use lightseal_net::address::Named;
use lightseal_net::batch::ReceiveBatch;
use lightseal_net::blocking::is_loss;
use lightseal_net::socket::AddressedSocket;
use lightseal_net::socket_set::SocketSet;
use lightseal_net::tokio::Batch;
use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::UdpSocket;
use std::sync::Arc;

/// The sockets of a lane's flows, by their numbers.
#[derive(Debug)]
pub(super) struct OwnSockets {
    set: Arc<SocketSet>,
    all: HashMap<u32, Box<OwnSocket>>,
    /// The number that was given last.
    last: u32,
    /// Sockets whose flows have ended: their last datagrams leave before they are closed.
    leaving: Vec<u32>,
    /// Sockets with signs that came too soon, and when they are looked at again.
    signed: Vec<u32>,
    look_at: Instant,
}

#[derive(Debug)]
struct OwnSocket {
    socket: AddressedSocket<UdpSocket>,
    flow: Handle,
    signs: Signs,
}

impl OwnSockets {
    pub(super) fn new(set: Arc<SocketSet>) -> Self {
        let (all, leaving, signed) = Default::default();
        Self { set, all, last: 0, leaving, signed, look_at: Instant::ZERO }
    }

    /// Adds the socket of a flow, which `connect` begins when it has the number of the socket.
    ///
    /// # Errors
    ///
    /// If the system has no room for the socket, or the flow cannot begin.
    pub(super) fn begin(
        &mut self,
        socket: UdpSocket,
        connect: impl FnOnce(u32) -> Result<Handle, ConnectError>,
    ) -> io::Result<(u32, Handle)> {
        let number = self.free_number();
        self.set.add(&socket, number.into())?;
        let flow = match connect(number) {
            Ok(flow) => flow,
            Err(error) => {
                self.set.remove(&socket, number.into());
                return Err(io::Error::other(error));
            }
        };
        let (socket, signs) = (AddressedSocket::new(socket), Signs::default());
        self.all.insert(number, Box::new(OwnSocket { socket, flow, signs }));
        Ok((number, flow))
    }

    /// A number that no socket has. 0 is the lane's.
    fn free_number(&mut self) -> u32 {
        loop {
            self.last = self.last.wrapping_add(1);
            if self.last != 0 && !self.all.contains_key(&self.last) {
                return self.last;
            }
        }
    }

    pub(super) fn get(&self, number: u32) -> Option<&AddressedSocket<UdpSocket>> {
        self.all.get(&number).map(|own| &own.socket)
    }

    /// The flow of a socket has ended. What waits there is counted now: what comes later answers the
    /// end.
    pub(super) fn leave(&mut self, number: u32, totals: &Totals) {
        let Some(own) = self.all.get(&number) else { return };
        totals.unread.add(unread(own.socket.get_ref()));
        self.leaving.push(number);
    }

    /// All flows have ended.
    pub(super) fn leave_all(&mut self, totals: &Totals) {
        let numbers: Vec<_> = self.all.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.leave(number, totals));
    }

    /// Closes the sockets whose flows have ended. What these have sent has left.
    pub(super) fn close_left(&mut self, totals: &Totals) {
        for number in self.leaving.drain(..) {
            let Some(own) = self.all.remove(&number) else { continue };
            let socket = own.socket.get_ref();
            self.set.remove(socket, number.into());
            totals.overruns_outer.add(overruns(socket));
        }
    }

    /// How many datagrams the kernel has dropped for want of room.
    pub(super) fn overruns(&self) -> u64 {
        self.all.values().map(|own| overruns(own.socket.get_ref())).sum()
    }
}

impl LaneHost {
    /// A sign came to the socket of a flow.
    fn own_sign(&mut self, number: u32, is_hint: bool, now: Instant, endpoint: &mut Endpoint) {
        let Some(own) = &mut self.own else { return };
        let Some(socket) = own.all.get_mut(&number) else { return };
        let is_first = socket.signs.note(is_hint);
        let (flow, sign) = (socket.flow, socket.signs.take(now));
        if let Some(sign) = sign {
            self.heed(flow, sign, now, endpoint);
        } else if is_first {
            if own.signed.is_empty() {
                own.look_at = now + HINT_GAP;
            }
            own.signed.push(number);
        }
    }

    /// Heeds the signs that came too soon. Returns whether the engine was called.
    pub(super) fn heed_own_signs(&mut self, now: Instant, endpoint: &mut Endpoint) -> bool {
        let Some(own) = &mut self.own else { return false };
        if own.signed.is_empty() || now < own.look_at {
            return false;
        }
        own.look_at = now + HINT_GAP;
        let mut heeded = Vec::new();
        own.signed.retain(|number| {
            let Some(socket) = own.all.get_mut(number) else { return false };
            let Some(sign) = socket.signs.take(now) else { return true };
            heeded.push((socket.flow, sign));
            false
        });
        for (flow, sign) in &heeded {
            self.heed(*flow, *sign, now, endpoint);
        }
        !heeded.is_empty()
    }

    /// The flow asks the server.
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
}

impl Lane {
    /// Carries datagrams until there are no flows.
    ///
    /// # Errors
    ///
    /// Errors of the sockets.
    pub(super) async fn run(&self) -> io::Result<()> {
        let Some(set) = &self.own else { return self.driver.run().await };
        tokio::select! {
            ran = self.driver.run() => ran,
            failed = self.receive(set) => match failed? {},
        }
    }

    /// How many datagrams the kernel has dropped for want of room in the lane's sockets.
    pub(super) fn overruns(&self) -> u64 {
        let own = self.driver.call(|_, host, _| host.own.as_ref().map_or(0, OwnSockets::overruns));
        overruns(self.driver.socket()) + own
    }

    /// Receives what arrives at the sockets of flows until the future is dropped.
    async fn receive(&self, set: &SocketSet) -> io::Result<Infallible> {
        let mut numbers = Vec::new();
        loop {
            set.ready(&mut numbers).await?;
            ReceiveBatch::with(|batch| {
                self.driver.batch(|sending| {
                    // Only numbers of 32 bits were added.
                    for number in numbers.drain(..).filter_map(|number| number.try_into().ok()) {
                        if receive_at(sending, number, batch) {
                            set.again(number.into());
                        }
                    }
                });
            });
            // Messages of applications have their turn, too.
            tokio::task::yield_now().await;
        }
    }
}

/// Receives what waits at the socket of a flow. Returns whether more may wait.
fn receive_at(
    sending: &mut Batch<'_, Endpoint, LaneHost>,
    number: u32,
    batch: &mut ReceiveBatch,
) -> bool {
    let own = sending.host().own.as_ref().and_then(|own| own.all.get(&number));
    let Some(OwnSocket { socket, flow, .. }) = own.map(|own| &**own) else { return false };
    let (flow, received) = (*flow, socket.try_receive(batch));
    if received.is_err() || batch.is_empty() {
        let reports = socket.take_reports();
        sending.call(|endpoint, host, now| match &received {
            // What an earlier datagram has caused counts as a loss.
            Err(error) if !is_loss(error) && reports == 0 => {
                tracing::warn!("a socket towards {}: {error}", Named(host.server));
                if let Some(mut connection) = endpoint.connection_mut(flow) {
                    connection.close(now);
                }
            }
            _ if reports > 0 => host.own_sign(number, false, now, endpoint),
            _ => {}
        });
        return received.is_err();
    }
    for at in 0..batch.len() {
        let Some(addresses) = batch.addresses(at) else { break };
        let datagram = batch.payload(at);
        if datagram.first() == Some(&ContentType::UNKNOWN_ASSOCIATION.0) {
            sending.call(|endpoint, host, now| host.own_sign(number, true, now, endpoint));
        }
        sending.receive_at(number, addresses, datagram);
    }
    batch.more_may_wait()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::client::lane::Shared;
    use crate::proxy::destination::Destination;
    use lightseal_core::{AddressPair, Random};
    use lightseal_dtls::{ClientConfig, Psk};
    use lightseal_net::socket;
    use std::net::Ipv4Addr;
    use std::time::Duration;

    const START: Instant = Instant::from_micros(1);

    /// A lane with two flows, and the numbers of their sockets.
    async fn two_flows() -> (LaneHost, Endpoint, [(u32, Handle); 2]) {
        let local = tokio::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let server = local.local_addr().unwrap();
        let local = Arc::new(AddressedSocket::new(local));
        let shared = Arc::new(Shared::new(local, Arc::new(Destination::at(server)), None));
        let own = OwnSockets::new(Arc::new(SocketSet::new().unwrap()));
        let mut host = LaneHost::new(shared, server, 1, Some(own));
        let config = Arc::new(ClientConfig::new(Psk::external(b"sensor", &[7; 32]).unwrap()));
        let mut endpoint =
            Endpoint::client(config.settings().clone(), Random::insecure(1)).unwrap();
        let flows = [0, 1].map(|_| {
            let socket = socket::bind_outside((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
            let begun = host.own.as_mut().unwrap().begin(socket, |number| {
                endpoint.connect_through(START, number, Arc::clone(&config), server)
            });
            let (number, handle) = begun.unwrap();
            let mut flow = FlowHost::new(AddressPair::to(server), Arc::clone(&config), START);
            (flow.socket, flow.silent) = (std::num::NonZeroU32::new(number), true);
            host.insert(handle, flow);
            (number, handle)
        });
        (host, endpoint, flows)
    }

    #[tokio::test]
    async fn a_sign_concerns_the_flow_of_its_socket_and_one_that_comes_too_soon_counts_later() {
        let (mut host, mut endpoint, [(number, flow), (_, other)]) = two_flows().await;
        let hinted = |host: &LaneHost| [flow, other].map(|flow| host.flows[&flow].hinted);
        host.own_sign(number, false, START, &mut endpoint);
        assert_eq!(hinted(&host), [false, false], "an ICMP error does not say that it is back");
        let soon = START + Duration::from_millis(1);
        host.own_sign(number, true, soon, &mut endpoint);
        host.own_sign(number, true, soon, &mut endpoint);
        assert!(!host.heed_own_signs(soon, &mut endpoint));
        assert_eq!(hinted(&host), [false, false]);
        assert!(host.heed_own_signs(soon + HINT_GAP, &mut endpoint));
        assert_eq!(hinted(&host), [true, false]);
        assert!(!host.heed_own_signs(soon + 2 * HINT_GAP, &mut endpoint));
        host.own_sign(99, true, soon, &mut endpoint);
    }

    #[tokio::test]
    async fn a_socket_closes_when_the_last_datagrams_of_its_flow_have_left() {
        let (mut host, _, [(number, _), (other, _)]) = two_flows().await;
        assert!(number != 0 && other != 0 && number != other);
        let totals = Totals::default();
        let own = host.own.as_mut().unwrap();
        let address = own.get(number).unwrap().get_ref().local_addr().unwrap();
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        peer.send_to(b"late", address).unwrap();
        own.leave(number, &totals);
        assert!(own.get(number).is_some(), "its flow's close_notify waits");
        own.close_left(&totals);
        assert!(own.get(number).is_none() && own.get(other).is_some());
        assert_eq!(totals.unread.get(), 1);
        own.leave_all(&totals);
        own.close_left(&totals);
        assert!(own.all.is_empty());
    }
}
