//! Runs a lane, and receives at the sockets of flows that have one each.

use super::lane::{Lane, LaneHost};
use super::own_sockets::OwnSockets;
use crate::proxy::overruns;
use lightseal_dtls::Endpoint;
use lightseal_dtls::codepoints::ContentType;
use lightseal_net::address::Named;
use lightseal_net::batch::ReceiveBatch;
use lightseal_net::blocking::is_loss;
use lightseal_net::socket::is_report;
use lightseal_net::socket_set::SocketSet;
use lightseal_net::tokio::Batch;
use std::convert::Infallible;
use std::io;

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
                // Only numbers of 32 bits were added.
                for number in numbers.drain(..).filter_map(|number| number.try_into().ok()) {
                    // Other tasks can lock the engine between two sockets.
                    if self.driver.batch(|sending| receive_at(sending, number, batch)) {
                        set.again(number.into());
                    }
                }
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
    let own = sending.host().own.as_ref().and_then(|own| own.get(number));
    let Some((socket, flow)) = own else { return false };
    let received = socket.try_receive(batch);
    if received.is_err() || batch.is_empty() {
        let reports = socket.take_reports();
        sending.call(|endpoint, host, now| match &received {
            // What an earlier datagram has caused counts as a loss.
            Err(error) if !is_loss(error) && !is_report(error) && reports == 0 => {
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
