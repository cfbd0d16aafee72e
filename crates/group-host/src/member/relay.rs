//! An [`ApplicationPort`] for applications that send to a UDP port of this machine or serve one. It
//! needs no privileges. Applications do not see which member of the group they communicate with.

use super::datagram::Datagram;
use super::port::{ApplicationPort, Destination, Origin};
use lightseal_core::{AddressPair, Encode, Writer};
use lightseal_group::SenderId;
use lightseal_group::member::RequestKind;
use lightseal_net::socket::{self, AddressedSocket};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};
use tokio::io::ReadBuf;
use tokio::net::UdpSocket;

/// The maximum number of applications, and of peers of the service, at a time. The one that was
/// silent for longest is removed to make room for another.
const MOST: usize = 256;
/// The length in bytes of the header in front of an application's data.
const PORTS: usize = super::datagram::HEADER;

/// The settings of a relay.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The UDP address that receives the applications' requests to the group.
    pub listen: Option<SocketAddr>,
    /// The UDP address of the service that answers requests.
    pub service: Option<SocketAddr>,
    /// The destination port of requests.
    pub port: u16,
}

/// A relay between UDP sockets of this machine and one member.
pub struct Relay {
    options: Options,
    applications: Option<AddressedSocket>,
    /// The applications by their source port, each with the turn in which it was heard last.
    known: BTreeMap<u16, (AddressPair, u64)>,
    /// A socket to the service for each requesting peer, by its SenderID, its source port and the
    /// kind of its requests, with the turn in which it was heard last.
    flows: BTreeMap<(SenderId, u16, RequestKind), (UdpSocket, u64)>,
    turn: u64,
}

impl Relay {
    /// Opens the UDP sockets.
    ///
    /// # Errors
    /// The sockets cannot be opened.
    pub fn open(options: Options) -> io::Result<Self> {
        let applications = options.listen.map(socket::bind).transpose()?;
        let applications = applications.map(AddressedSocket::new);
        let (known, flows) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { options, applications, known, flows, turn: 0 })
    }

    /// The UDP address of the service that answers requests.
    pub const fn service(&self) -> Option<SocketAddr> {
        self.options.service
    }

    /// The local address that applications send to; `None` if the relay does not receive from
    /// applications.
    ///
    /// # Errors
    /// The operating system does not tell it.
    pub fn local_addr(&self) -> io::Result<Option<SocketAddr>> {
        self.applications.as_ref().map(|socket| socket.get_ref().local_addr()).transpose()
    }

    fn poll(
        &mut self,
        context: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<(Destination, usize)>> {
        let (ports, room) = buf.split_at_mut(PORTS);
        let mut said = |source: u16, destination: u16, to, len| {
            let datagram = Datagram { source, destination, data: &[] };
            // This cannot fail: `ports` has the length of the header.
            let _ = datagram.write(&mut Writer::new(ports));
            Poll::Ready(Ok((to, PORTS + len)))
        };
        if let Some(socket) = &self.applications {
            loop {
                match socket.poll_recv_from(context, room) {
                    Poll::Ready(Ok((len, way))) => {
                        let port = way.peer.port();
                        self.turn += 1;
                        if self.known.len() >= MOST && !self.known.contains_key(&port) {
                            forget_oldest(&mut self.known, |(_, turn)| *turn);
                        }
                        self.known.insert(port, (way, self.turn));
                        return said(port, self.options.port, Destination::Group, len);
                    }
                    Poll::Ready(Err(error)) if lightseal_net::blocking::is_loss(&error) => {}
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => break,
                }
            }
        }
        for ((sender, port, kind), (socket, _)) in &self.flows {
            let mut read = ReadBuf::new(room);
            if let Poll::Ready(Ok(())) = socket.poll_recv(context, &mut read) {
                let len = read.filled().len();
                let to = match kind {
                    RequestKind::Group => Destination::Sender(*sender),
                    RequestKind::Direct => Destination::DirectSender(*sender),
                };
                return said(self.options.port, *port, to, len);
            }
        }
        Poll::Pending
    }

    fn serve(
        &mut self,
        (sender, kind): (SenderId, RequestKind),
        datagram: &Datagram<'_>,
    ) -> io::Result<()> {
        let Some(service) = self.options.service else { return Ok(()) };
        if datagram.destination != self.options.port {
            return Ok(());
        }
        self.turn += 1;
        let flow = (sender, datagram.source, kind);
        if !self.flows.contains_key(&flow) {
            if self.flows.len() >= MOST {
                forget_oldest(&mut self.flows, |(_, turn)| *turn);
            }
            self.flows.insert(flow, (socket::connect(service)?, self.turn));
        }
        if let Some((socket, turn)) = self.flows.get_mut(&flow) {
            *turn = self.turn;
            // The system call is made directly, because the runtime does not know yet that a new
            // socket is writable.
            socket2::SockRef::from(&*socket).send(datagram.data)?;
        }
        Ok(())
    }

    fn answer(&self, datagram: &Datagram<'_>) -> io::Result<()> {
        let known = self.known.get(&datagram.destination);
        let (Some((to, _)), Some(socket)) = (known, &self.applications) else { return Ok(()) };
        socket.try_send_to(datagram.data, *to)
    }
}

fn forget_oldest<K: Ord + Copy, V>(map: &mut BTreeMap<K, V>, turn: impl Fn(&V) -> u64) {
    if let Some(oldest) = map.iter().min_by_key(|(_, value)| turn(value)).map(|(key, _)| *key) {
        map.remove(&oldest);
    }
}

impl ApplicationPort for Relay {
    async fn receive(&mut self, buf: &mut [u8]) -> io::Result<(Destination, usize)> {
        poll_fn(|context| self.poll(context, buf)).await
    }

    fn deliver(&mut self, origin: Origin, datagram: Datagram<'_>) {
        let done = match origin {
            Origin::Sender(sender) => self.serve((sender, RequestKind::Group), &datagram),
            Origin::DirectSender(sender) => self.serve((sender, RequestKind::Direct), &datagram),
            Origin::Listener(_) => self.answer(&datagram),
        };
        if let Err(error) = done {
            tracing::debug!("cannot deliver to the application: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightseal_core::Decode;
    use std::net::Ipv4Addr;
    use std::time::Duration;

    fn options(listen: bool, service: Option<SocketAddr>) -> Options {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Options { listen: listen.then_some(any), service, port: 5683 }
    }

    async fn within<T>(work: impl Future<Output = T>) -> T {
        tokio::time::timeout(Duration::from_secs(20), work).await.expect("it comes")
    }

    #[tokio::test]
    async fn an_application_asks_through_a_port_and_gets_the_answers() {
        let mut relay = Relay::open(options(true, None)).unwrap();
        let application = socket::connect(relay.local_addr().unwrap().unwrap()).unwrap();
        application.send(b"get").await.unwrap();
        let mut buf = [0; 100];
        let (to, len) = within(relay.receive(&mut buf)).await.unwrap();
        assert_eq!(to, Destination::Group);
        let datagram = Datagram::decode(&buf[..len]).unwrap();
        let port = application.local_addr().unwrap().port();
        assert_eq!(datagram, Datagram { source: port, destination: 5683, data: b"get" });

        let listener = Origin::Listener(lightseal_group::member::Listener::Address(
            Ipv4Addr::LOCALHOST.into(),
        ));
        // An answer to a port from which no request came is dropped.
        relay.deliver(listener, Datagram { source: 5683, destination: port ^ 1, data: b"no" });
        relay.deliver(listener, Datagram { source: 5683, destination: port, data: b"on" });
        let mut answer = [0; 10];
        let len = within(application.recv(&mut answer)).await.unwrap();
        assert_eq!(&answer[..len], b"on");
    }

    #[tokio::test]
    async fn a_service_answers_whoever_asked() {
        let service = socket::bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let mut relay = Relay::open(options(false, Some(service.local_addr().unwrap()))).unwrap();
        let requests = [(1, 4000, false), (2, 4000, false), (1, 4001, false), (1, 4000, true)];
        for (sender, source, is_direct) in requests {
            let data = [sender, 9];
            let request = Datagram { source, destination: 5683, data: &data };
            let id = SenderId(sender);
            let (origin, destination) = if is_direct {
                (Origin::DirectSender(id), Destination::DirectSender(id))
            } else {
                (Origin::Sender(id), Destination::Sender(id))
            };
            relay.deliver(origin, request);
            let mut buf = [0; 100];
            let (len, from) = within(service.recv_from(&mut buf)).await.unwrap();
            assert_eq!(buf[..len], data);
            service.send_to(&[sender], from).await.unwrap();
            let (to, len) = within(relay.receive(&mut buf)).await.unwrap();
            assert_eq!(to, destination);
            let answer = Datagram::decode(&buf[..len]).unwrap();
            assert_eq!(answer, Datagram { source: 5683, destination: source, data: &[sender] });
        }
        let other_port = Datagram { source: 1, destination: 5684, data: b"x" };
        relay.deliver(Origin::Sender(SenderId(3)), other_port);
        assert_eq!(relay.flows.len(), 4);
        for sender in 0..=255 {
            for source in 0..4 {
                let request = Datagram { source, destination: 5683, data: b"many" };
                relay.deliver(Origin::Sender(SenderId(sender)), request);
            }
        }
        assert_eq!(relay.flows.len(), MOST);
    }
}
