//! Messages on their way to applications or to the service. Messages from one socket to one address
//! leave together, when the datagrams that arrived together have been handled.

use super::counters::Totals;
use lightseal_core::AddressPair;
use lightseal_net::batch::SendBatch;
use lightseal_net::socket::{AddressedSocket, NonBlocking};
use std::io;
use std::sync::Arc;
use tokio::net::UdpSocket;

/// Messages that will be sent together.
#[derive(Debug)]
pub(crate) struct Deliveries<S = UdpSocket> {
    batch: SendBatch,
    /// The socket of the messages.
    socket: Option<Arc<AddressedSocket<S>>>,
    /// Length in bytes of what each message begins with that is no part of it.
    header_bytes: usize,
    /// What the log calls the receiver.
    named: fn(AddressPair) -> String,
}

impl<S: NonBlocking> Deliveries<S> {
    pub(crate) const fn new(named: fn(AddressPair) -> String) -> Self {
        Self { batch: SendBatch::new(), socket: None, header_bytes: 0, named }
    }

    /// Adds a message. If it does not go the way of those that wait, they are sent before.
    pub(crate) fn add(
        &mut self,
        socket: &Arc<AddressedSocket<S>>,
        to: AddressPair,
        [header, payload]: [&[u8]; 2],
        totals: &Totals,
    ) {
        let same = self.socket.as_ref().is_some_and(|of| Arc::ptr_eq(of, socket));
        if same && self.header_bytes == header.len() && self.batch.append([header, payload], to) {
            return;
        }
        self.send(totals);
        self.header_bytes = header.len();
        if !same {
            self.socket = Some(Arc::clone(socket));
        }
        if !self.batch.append([header, payload], to) {
            let error = io::Error::other("the message is too long with its header");
            totals.count_undelivered(&(self.named)(to), &error);
        }
    }

    /// Sends all messages.
    pub(crate) fn flush(&mut self, totals: &Totals) {
        self.send(totals);
        self.batch.clear();
        self.socket = None;
    }

    fn send(&mut self, totals: &Totals) {
        let (Some(socket), Some(to)) = (&self.socket, self.batch.addresses()) else { return };
        let (mut done, count) = (0, self.batch.count());
        while done < count {
            let result = socket.try_send_batch(&self.batch, done);
            let sent = self.batch.datagrams(done).take(result.sent);
            let bytes = sent.map(|datagram| datagram.len() - self.header_bytes).sum::<usize>();
            totals.inward.messages_of(result.sent, bytes);
            done += result.sent;
            let Some(error) = result.error else { break };
            totals.count_undelivered(&(self.named)(to), &error);
            done += 1;
        }
        self.batch.forget();
    }
}
