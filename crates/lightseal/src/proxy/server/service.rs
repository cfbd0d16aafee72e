//! A socket towards the service, one for each association.

use super::common::Common;
use crate::proxy::{overruns, unread};
use lightseal_core::AddressPair;
use lightseal_dtls::Handle;
use lightseal_net::socket::AddressedSocket;
use lightseal_net::socket_set::SocketSet;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

/// A socket towards the service, which is one of its worker's.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) address: SocketAddr,
    pub(super) socket: Arc<AddressedSocket<UdpSocket>>,
    /// What each datagram begins with.
    pub(super) header: Vec<u8>,
    handle: Handle,
    /// The sockets of the worker.
    all: Arc<SocketSet>,
    common: Arc<Common>,
}

impl Service {
    /// Adds the socket of an association to those of its worker.
    ///
    /// # Errors
    ///
    /// If the system has no room for it.
    pub(super) fn new(
        (address, socket): (SocketAddr, UdpSocket),
        header: Vec<u8>,
        handle: Handle,
        all: &Arc<SocketSet>,
        common: &Arc<Common>,
    ) -> io::Result<Self> {
        all.add(&socket, handle.number())?;
        let socket = Arc::new(AddressedSocket::new(socket));
        let (all, common) = (Arc::clone(all), Arc::clone(common));
        Ok(Self { address, socket, header, handle, all, common })
    }

    /// The address from which the service sees the messages.
    pub(super) fn local_addr(&self) -> Option<SocketAddr> {
        self.socket.get_ref().local_addr().ok()
    }
}

/// What the log calls the service.
pub(super) fn named(AddressPair { peer, .. }: AddressPair) -> String {
    format!("the service at {peer} (--connect)")
}

impl Drop for Service {
    fn drop(&mut self) {
        let socket = self.socket.get_ref();
        self.all.remove(socket, self.handle.number());
        if let Some(address) = self.local_addr() {
            self.common.ports().left(self.common.clock.now(), address.port());
        }
        self.common.totals.overruns_local.add(overruns(socket));
        self.common.totals.unread.add(unread(socket));
    }
}
