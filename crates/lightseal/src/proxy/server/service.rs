//! A socket towards the service, one for each association.

use super::common::Common;
use crate::proxy::{overruns, unread};
use lightseal_core::AddressPair;
use lightseal_net::socket::AddressedSocket;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::task::AbortHandle;

/// A socket towards the service.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) address: SocketAddr,
    pub(super) socket: Arc<AddressedSocket>,
    /// What each datagram begins with.
    pub(super) header: Vec<u8>,
    /// What carries its answers.
    pub(super) task: AbortHandle,
    pub(super) common: Arc<Common>,
}

/// What the log calls the service.
pub(super) fn named(AddressPair { peer, .. }: AddressPair) -> String {
    format!("the service at {peer} (--connect)")
}

impl Drop for Service {
    fn drop(&mut self) {
        self.task.abort();
        self.common.totals.overruns_local.add(overruns(self.socket.get_ref()));
        self.common.totals.unread.add(unread(self.socket.get_ref()));
    }
}
