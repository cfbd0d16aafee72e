//! The sockets towards the service, one for each association.

use super::{Association, Outer, ServerHost, ServerProxyOptions};
use crate::credential;
use crate::proxy::counters::Totals;
use crate::proxy::destination::Destination;
use crate::proxy::loops::PortResidues;
use crate::proxy::proxy_protocol::{self, ClientFacts};
use crate::proxy::{ARRIVAL_BYTES, overruns, unread};
use lightseal_dtls::{Handle, SendError};
use lightseal_net::socket;
use socket2::SockRef;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use tokio::net::UdpSocket;
use tokio::task::AbortHandle;

/// A socket towards the service.
#[derive(Debug)]
pub(super) struct Service {
    address: SocketAddr,
    pub(super) socket: Arc<UdpSocket>,
    /// What each datagram begins with.
    pub(super) header: Vec<u8>,
    task: AbortHandle,
    totals: Arc<Totals>,
}

impl Service {
    pub(super) fn send(&self, payload: &[u8]) {
        // The message is sent without the runtime, which does not know yet that a new socket is
        // writable.
        let socket = SockRef::from(&*self.socket);
        let sent = match self.header.is_empty() {
            true => socket.send(payload),
            false => socket.send_vectored(&[IoSlice::new(&self.header), IoSlice::new(payload)]),
        };
        match sent {
            Ok(_) => self.totals.inward.message(payload),
            Err(error) => self.totals.count_undelivered(&named(self.address), &error),
        }
    }
}

/// What each datagram towards the service begins with.
pub(super) fn header(
    options: &ServerProxyOptions,
    listen: SocketAddr,
    of: &Association,
) -> Vec<u8> {
    if !options.proxy_protocol {
        return Vec::new();
    }
    let identity = Some(&*of.identity).filter(|identity| *identity != credential::ANONYMOUS);
    let version = of.version.to_string();
    proxy_protocol::header(&ClientFacts {
        client: of.peer,
        proxy: listen,
        identity,
        version: &version,
    })
}

/// What the log calls the service.
fn named(service: SocketAddr) -> String {
    format!("the service at {service} (--connect)")
}

impl Drop for Service {
    fn drop(&mut self) {
        self.task.abort();
        self.totals.overruns_local.add(overruns(&self.socket));
        self.totals.unread.add(unread(&self.socket));
    }
}

impl ServerHost {
    /// Opens an association's socket towards the service, if possible from the port that it had
    /// before a restart, or else from a port that leaves one of these residues. It has the address of
    /// the client's identity if identities have addresses.
    pub(super) fn open(
        &mut self,
        handle: Handle,
        residues: Option<PortResidues>,
        former: Option<u16>,
    ) -> io::Result<()> {
        // The association may have ended meanwhile.
        let Some(association) = self.associations.get_mut(&handle) else { return Ok(()) };
        let to = self.options.service.address()?;
        let mut ports = residues.map(|residues| self.ports.leaving(residues)).unwrap_or_default();
        if let Some(port) = former.filter(|port| *port > 0) {
            ports.insert(0, port);
        }
        let socket = match &mut self.sources {
            Some(sources) => {
                let from = sources.of(&association.identity).ok_or_else(|| {
                    io::Error::other(format!("{} has no free address", sources.prefix()))
                })?;
                socket::connect_from_address(from, &ports, to)?
            }
            None => socket::connect_from(&ports, to)?,
        };
        let socket = Arc::new(socket);
        let totals = Arc::clone(&self.totals);
        let answers = Answers {
            outer: self.outer.clone(),
            handle,
            service: Arc::clone(&socket),
            from: to,
            destination: Arc::clone(&self.options.service),
            longest: self.longest,
            totals: Arc::clone(&totals),
        };
        let task = tokio::spawn(answers.carry()).abort_handle();
        let header = header(&self.options, self.listen, association);
        let service = Service { address: to, socket, header, task, totals };
        let service = association.service.insert(service);
        for payload in association.early.drain(..) {
            service.send(&payload);
        }
        Ok(())
    }
}

/// Carries the service's answers into one association.
struct Answers {
    outer: Weak<Outer>,
    handle: Handle,
    service: Arc<UdpSocket>,
    from: SocketAddr,
    destination: Arc<Destination>,
    longest: usize,
    totals: Arc<Totals>,
}

impl Answers {
    /// Carries answers until the association ends.
    async fn carry(self) {
        let Self { outer, handle, service, from, destination, longest, totals } = self;
        let mut buf = vec![0; ARRIVAL_BYTES];
        loop {
            let len = match service.recv(&mut buf).await {
                Ok(0) => {
                    totals.empty.one();
                    continue;
                }
                Ok(len) => len,
                // The service does not listen yet, or no longer. It may come back.
                Err(error) => {
                    totals.count_bounced(&named(from), &error);
                    destination.silent(from);
                    continue;
                }
            };
            let Some(outer) = outer.upgrade() else { return };
            let payload = &buf[..len];
            let sent = outer.send(|endpoint, host, now, datagram| {
                let Some(mut connection) = endpoint.connection_mut(handle) else {
                    return Err((SendError::Closed, 0));
                };
                let sent = match payload.len() > longest {
                    true => Err(SendError::TooLong),
                    false => connection.send(now, payload, datagram),
                };
                if let (Ok(_), Some(association)) = (&sent, host.associations.get_mut(&handle)) {
                    association.active_at = now;
                }
                sent.map_err(|error| (error, connection.max_payload().min(longest)))
            });
            match sent {
                Ok(()) => totals.outward.message(payload),
                Err((SendError::TooLong, limit)) => totals.count_oversize(len, limit),
                Err((SendError::Closed, _)) => {
                    totals.refused_messages.one();
                    return;
                }
                Err(_) => totals.queue_full.one(),
            }
        }
    }
}
