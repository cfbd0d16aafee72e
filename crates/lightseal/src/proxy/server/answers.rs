//! Carries the service's answers into the associations of a worker.

use super::Outer;
use super::common::Common;
use super::host::ServerHost;
use super::service::named;
use crate::proxy::destination::Destination;
use lightseal_core::AddressPair;
use lightseal_dtls::{Endpoint, Handle, SendError};
use lightseal_net::batch::ReceiveBatch;
use lightseal_net::socket_set::SocketSet;
use lightseal_net::tokio::Batch;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// What one task needs to carry the answers of all associations of a worker.
pub(super) struct Answers {
    services: Arc<SocketSet>,
    destination: Arc<Destination>,
    longest: usize,
    common: Arc<Common>,
}

impl Answers {
    /// The answers to a worker.
    pub(super) fn of(host: &ServerHost) -> Self {
        Self {
            services: Arc::clone(&host.services),
            destination: Arc::clone(&host.options.service),
            longest: host.longest,
            common: Arc::clone(&host.common),
        }
    }

    /// Carries answers until the future is dropped.
    ///
    /// # Errors
    ///
    /// Errors of the system.
    pub(super) async fn carry(self, outer: &Outer) -> io::Result<Infallible> {
        let mut numbers = Vec::new();
        loop {
            self.services.ready(&mut numbers).await?;
            ReceiveBatch::with(|batch| {
                outer.batch(|sending| {
                    for number in numbers.drain(..) {
                        self.carry_some(sending, Handle::from_number(number), batch);
                    }
                });
            });
            // Datagrams of clients have their turn, too.
            tokio::task::yield_now().await;
        }
    }

    /// Carries the answers that wait for one association.
    fn carry_some(
        &self,
        sending: &mut Batch<'_, Endpoint, ServerHost>,
        handle: Handle,
        batch: &mut ReceiveBatch,
    ) {
        let association = sending.host().associations.get(handle);
        let Some(service) = association.and_then(|of| of.service.as_ref()) else { return };
        let (socket, from) = (Arc::clone(&service.socket), service.address);
        if let Err(error) = socket.try_receive(batch) {
            self.bounced(from, &error);
            // Answers may wait behind the error.
            self.services.again(handle.number());
            return;
        }
        if batch.more_may_wait() {
            self.services.again(handle.number());
        }
        for at in 0..batch.len() {
            if self.send(sending, handle, batch.payload(at)) == Err(SendError::Closed) {
                self.common.totals.refused_messages.add((batch.len() - at) as u64);
                return;
            }
        }
    }

    /// The service does not listen yet, or no longer. It may come back.
    fn bounced(&self, from: SocketAddr, error: &io::Error) {
        self.common.totals.count_bounced(&named(AddressPair::to(from)), error);
        self.destination.silent(from);
    }

    fn send(
        &self,
        sending: &mut Batch<'_, Endpoint, ServerHost>,
        handle: Handle,
        payload: &[u8],
    ) -> Result<(), SendError> {
        if payload.is_empty() {
            self.common.totals.empty.one();
            return Ok(());
        }
        let sent = sending.send(|endpoint, host, now, datagram| {
            let Some(mut connection) = endpoint.connection_mut(handle) else {
                return Err((SendError::Closed, 0));
            };
            let sent = match payload.len() > self.longest {
                true => Err(SendError::TooLong),
                false => connection.send(now, payload, datagram),
            };
            if let (Ok(_), Some(association)) = (&sent, host.associations.get_mut(handle)) {
                association.active_at = now;
            }
            sent.map_err(|error| (error, connection.max_payload().min(self.longest)))
        });
        self.common.totals.count_outward(payload, sent)
    }
}
