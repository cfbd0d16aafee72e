//! Sockets of flows that have one each, because the server could not tell their associations apart at
//! one. They are in one set, for which the task of their lane waits.

use super::hints::{HINT_GAP, Sign, Signs};
use crate::proxy::counters::Totals;
use crate::proxy::{overruns, unread};
use lightseal_core::Instant;
use lightseal_dtls::{ConnectError, Handle};
use lightseal_net::socket::AddressedSocket;
use lightseal_net::socket_set::SocketSet;
use std::collections::HashMap;
use std::io;
use std::net::UdpSocket;
use std::sync::Arc;

/// The number of sockets up to which their numbers have 16 bits.
const FEW: usize = 1 << 15;

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

    /// A number that no socket has, and that none has had for long: something may still be under way
    /// for it. 0 is the lane's. The engine finds flows by numbers of 16 bits in less memory.
    fn free_number(&mut self) -> u32 {
        let most = if self.all.len() < FEW { u16::MAX.into() } else { u32::MAX };
        loop {
            self.last = if self.last < most { self.last + 1 } else { 1 };
            if !self.all.contains_key(&self.last) {
                return self.last;
            }
        }
    }

    /// A socket, and its flow.
    pub(super) fn get(&self, number: u32) -> Option<(&AddressedSocket<UdpSocket>, Handle)> {
        self.all.get(&number).map(|own| (&own.socket, own.flow))
    }

    /// A sign came to a socket. Returns it with the flow that is to heed it now; `None` if it is too
    /// soon after another one.
    pub(super) fn sign(
        &mut self,
        number: u32,
        is_hint: bool,
        now: Instant,
    ) -> Option<(Handle, Sign)> {
        let own = self.all.get_mut(&number)?;
        let is_first = own.signs.note(is_hint);
        let sign = own.signs.take(now);
        if sign.is_none() && is_first {
            if self.signed.is_empty() {
                self.look_at = now + HINT_GAP;
            }
            self.signed.push(number);
        }
        Some((own.flow, sign?))
    }

    /// The signs that came too soon and are to be heeded now.
    pub(super) fn late_signs(&mut self, now: Instant) -> Vec<(Handle, Sign)> {
        let mut due = Vec::new();
        if self.signed.is_empty() || now < self.look_at {
            return due;
        }
        self.look_at = now + HINT_GAP;
        let Self { all, signed, .. } = self;
        signed.retain(|number| {
            let Some(own) = all.get_mut(number) else { return false };
            let Some(sign) = own.signs.take(now) else { return own.signs.wait() };
            due.push((own.flow, sign));
            false
        });
        due
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

    /// Closes the sockets whose flows have ended. What these have sent has left, where there was room.
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

#[cfg(test)]
mod tests {
    use super::*;
    use lightseal_core::Random;
    use lightseal_dtls::{ClientConfig, Endpoint, Psk};
    use lightseal_net::socket;
    use std::net::{Ipv4Addr, SocketAddr};
    use std::time::Duration;

    const START: Instant = Instant::from_micros(1);

    /// The sockets of two flows.
    fn two_flows() -> (OwnSockets, [(u32, Handle); 2]) {
        let mut own = OwnSockets::new(Arc::new(SocketSet::new().unwrap()));
        let config = Arc::new(ClientConfig::new(Psk::external(b"sensor", &[7; 32]).unwrap()));
        let settings = config.settings().clone();
        let mut endpoint = Endpoint::client(settings, Random::insecure(1)).unwrap();
        let server = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
        let flows = [0, 1].map(|_| {
            let socket = socket::bind_outside((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
            let connect =
                |number| endpoint.connect_through(START, number, Arc::clone(&config), server);
            own.begin(socket, connect).unwrap()
        });
        (own, flows)
    }

    #[tokio::test]
    async fn a_sign_concerns_the_flow_of_its_socket_and_one_that_comes_too_soon_counts_later() {
        let (mut own, [(number, flow), (other, _)]) = two_flows();
        let sign = |is_back, before| (flow, Sign { is_back, before });
        assert_eq!(own.sign(number, false, START), Some(sign(false, Instant::ZERO)));
        let soon = START + Duration::from_millis(1);
        assert_eq!(own.sign(number, true, soon), None);
        assert_eq!(own.sign(number, false, soon), None);
        assert!(own.sign(other, true, soon).is_some());
        assert_eq!(own.late_signs(soon), []);
        assert_eq!(own.late_signs(soon + HINT_GAP), [sign(true, START)]);
        // One that was heeded before its turn came is not looked at again.
        let at = |millis| soon + 3 * HINT_GAP + Duration::from_millis(millis);
        assert!(own.sign(number, true, at(0)).is_some());
        assert_eq!(own.sign(number, true, at(10)), None);
        assert!(own.sign(number, true, at(55)).is_some());
        assert_eq!(own.late_signs(at(70)), []);
        assert!(own.signed.is_empty());
        assert_eq!(own.sign(99, true, soon), None);
    }

    #[tokio::test]
    async fn numbers_have_16_bits_and_come_again_late() {
        let (mut own, [(first, _), _]) = two_flows();
        let mut numbers = (0..u16::MAX).map(|_| own.free_number());
        assert!(numbers.all(|number| (1..=u16::MAX.into()).contains(&number) && number != first));
    }

    #[tokio::test]
    async fn a_socket_closes_when_the_last_datagrams_of_its_flow_have_left() {
        let (mut own, [(number, _), (other, _)]) = two_flows();
        assert!(number != 0 && other != 0 && number != other);
        let totals = Totals::default();
        let address = own.get(number).unwrap().0.get_ref().local_addr().unwrap();
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
