//! Opens the sockets towards the service, and carries what they receive.

use super::Outer;
use super::common::Common;
use super::host::ServerHost;
use super::service::{Service, named};
use crate::proxy::destination::Destination;
use crate::proxy::loops::PortResidues;
use crate::proxy::source_address::SourceAddress;
use lightseal_core::AddressPair;
use lightseal_dtls::{Endpoint, Handle, SendError};
use lightseal_net::address::Named;
use lightseal_net::batch::ReceiveBatch;
use lightseal_net::socket::{self, AddressedSocket};
use lightseal_net::tokio::Batch;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

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
        let Some(association) = self.associations.get_mut(handle) else { return Ok(()) };
        // Whoever calls this, the socket belongs to the worker's thread.
        let _entered = self.runtime.enter();
        let to = self.options.service.address()?;
        let mut ports = residues.map(|residues| self.ports.leaving(residues)).unwrap_or_default();
        if let Some(port) = former.filter(|port| *port > 0) {
            ports.insert(0, port);
        }
        let socket = match self.common.sources().as_mut() {
            Some(sources) => {
                let identity = &association.identity;
                let from = match sources.of(identity) {
                    SourceAddress::Known(address) => address,
                    SourceAddress::Waits => {
                        let waiting = self.addressless.entry(Arc::clone(identity)).or_default();
                        waiting.push((handle, former));
                        return Err(io::ErrorKind::WouldBlock.into());
                    }
                    SourceAddress::None => {
                        let why = format!("{} has no free address", sources.prefix());
                        return Err(io::Error::other(why));
                    }
                };
                tracing::debug!(
                    peer.address = %Named(association.peer),
                    peer.identity = &**identity,
                    "{identity}: the service sees it at {from}"
                );
                socket::connect_from_address(from, &ports, to)?
            }
            None => socket::connect_from(&ports, to)?,
        };
        let socket = Arc::new(AddressedSocket::new(socket));
        let common = Arc::clone(&self.common);
        let answers = Answers {
            outer: self.outer.clone(),
            handle,
            service: Arc::clone(&socket),
            from: to,
            destination: Arc::clone(&self.options.service),
            longest: self.longest,
            common: Arc::clone(&common),
        };
        let task = tokio::spawn(answers.carry()).abort_handle();
        let header = association.header(&self.options, self.listen);
        let service = Service { address: to, socket, header, task, common };
        let service = association.service.insert(service);
        for payload in association.early.drain(..) {
            let parts = [&service.header[..], &payload];
            self.deliveries.add(&service.socket, AddressPair::to(to), parts, &self.common.totals);
        }
        Ok(())
    }
}

/// Carries the service's answers into one association.
struct Answers {
    outer: Weak<Outer>,
    handle: Handle,
    service: Arc<AddressedSocket>,
    from: SocketAddr,
    destination: Arc<Destination>,
    longest: usize,
    common: Arc<Common>,
}

impl Answers {
    /// Carries answers until the association ends.
    async fn carry(self) {
        while let Ok(failed) = self.service.readable().await {
            if failed && let Some(error) = self.service.take_error() {
                self.bounced(&error);
            }
            let (goes_on, more) =
                ReceiveBatch::with(|batch| (self.carry_batch(batch), batch.more_may_wait()));
            if !goes_on {
                return;
            }
            if more {
                tokio::task::yield_now().await;
            }
        }
    }

    /// The service does not listen yet, or no longer. It may come back.
    fn bounced(&self, error: &io::Error) {
        self.common.totals.count_bounced(&named(AddressPair::to(self.from)), error);
        self.destination.silent(self.from);
    }

    /// Carries the answers that wait. Returns `false` if the association has ended.
    fn carry_batch(&self, batch: &mut ReceiveBatch) -> bool {
        if let Err(error) = self.service.try_receive(batch) {
            self.bounced(&error);
            return true;
        }
        if batch.is_empty() {
            return true;
        }
        let Some(outer) = self.outer.upgrade() else { return false };
        outer.batch(|sending| {
            for at in 0..batch.len() {
                if self.send(sending, batch.payload(at)) == Err(SendError::Closed) {
                    self.common.totals.refused_messages.add((batch.len() - at) as u64);
                    return false;
                }
            }
            true
        })
    }

    fn send(
        &self,
        sending: &mut Batch<'_, Endpoint, ServerHost>,
        payload: &[u8],
    ) -> Result<(), SendError> {
        if payload.is_empty() {
            self.common.totals.empty.one();
            return Ok(());
        }
        let sent = sending.send(|endpoint, host, now, datagram| {
            let Some(mut connection) = endpoint.connection_mut(self.handle) else {
                return Err((SendError::Closed, 0));
            };
            let sent = match payload.len() > self.longest {
                true => Err(SendError::TooLong),
                false => connection.send(now, payload, datagram),
            };
            if let (Ok(_), Some(association)) = (&sent, host.associations.get_mut(self.handle)) {
                association.active_at = now;
            }
            sent.map_err(|error| (error, connection.max_payload().min(self.longest)))
        });
        self.common.totals.count_outward(payload, sent)
    }
}
