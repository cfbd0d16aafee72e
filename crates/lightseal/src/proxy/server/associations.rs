//! The complete associations of a worker.

use super::ServerProxyOptions;
use super::common::Common;
use super::service::Service;
use crate::credential;
use crate::credential::lookup::KeyUse;
use crate::proxy::proxy_protocol::{self, ClientFacts};
use lightseal_core::Instant;
use lightseal_dtls::{Handle, ProtocolVersion};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of messages that are kept until an association has its socket. The socket is
/// opened as soon as the engine has no more events.
pub(super) const MOST_EARLY: usize = 16;

/// How many entries about associations that have ended are kept at least.
const SPARE_LOOKS: usize = 1024;

#[derive(Debug)]
pub(super) struct Association {
    pub(super) peer: SocketAddr,
    /// The identity of the client, as logs show it.
    pub(super) identity: Arc<str>,
    /// The DTLS version.
    pub(super) version: ProtocolVersion,
    /// The socket towards the service; `None` while there is none yet.
    pub(super) service: Option<Service>,
    /// Messages that arrived with the end of the handshake, before there was a socket.
    pub(super) early: Vec<Vec<u8>>,
    pub(super) active_at: Instant,
    /// The association's key, if it was looked up.
    _key: Option<Box<KeyUse>>,
}

impl Association {
    pub(super) fn new(
        peer: SocketAddr,
        identity: Arc<str>,
        version: ProtocolVersion,
        active_at: Instant,
        key: Option<Box<KeyUse>>,
    ) -> Self {
        let (service, early) = (None, Vec::new());
        Self { peer, identity, version, service, early, active_at, _key: key }
    }

    /// The identity of the client, if it has proved one.
    pub(super) fn proved_identity(&self) -> Option<&str> {
        Some(&*self.identity).filter(|identity| *identity != credential::ANONYMOUS)
    }

    /// What each datagram towards the service begins with.
    pub(super) fn header(&self, options: &ServerProxyOptions, listen: SocketAddr) -> Vec<u8> {
        if !options.proxy_protocol {
            return Vec::new();
        }
        let version = self.version.to_string();
        proxy_protocol::header(&ClientFacts {
            client: self.peer,
            proxy: listen,
            identity: self.proved_identity(),
            version: &version,
        })
    }
}

/// The associations of a worker. They count among those of all workers.
#[derive(Debug)]
pub(super) struct Associations {
    /// In boxes, because half of a table that has just grown is empty.
    all: HashMap<Handle, Box<Association>>,
    /// When to look at each association next, whether it was idle. The time may be too early, but never
    /// too late, so that messages cost nothing here.
    looks: BinaryHeap<Reverse<(Instant, Handle)>>,
    idle_timeout: Duration,
    common: Arc<Common>,
}

impl Associations {
    pub(super) fn new(idle_timeout: Duration, common: Arc<Common>) -> Self {
        Self { all: HashMap::new(), looks: BinaryHeap::new(), idle_timeout, common }
    }

    pub(super) fn insert(&mut self, handle: Handle, association: Association) {
        self.common.flows().add(handle, &association.identity);
        self.looks.push(Reverse((association.active_at + self.idle_timeout, handle)));
        self.all.insert(handle, Box::new(association));
        // Entries of associations that have ended wait for their time.
        if self.looks.len() > 2 * self.all.len() + SPARE_LOOKS {
            let all = &self.all;
            self.looks.retain(|Reverse((_, handle))| all.contains_key(handle));
        }
    }

    pub(super) fn remove(&mut self, handle: Handle) -> Option<Box<Association>> {
        let removed = self.all.remove(&handle)?;
        self.common.flows().remove(handle, &removed.identity);
        Some(removed)
    }

    pub(super) fn get(&self, handle: Handle) -> Option<&Association> {
        self.all.get(&handle).map(Box::as_ref)
    }

    pub(super) fn get_mut(&mut self, handle: Handle) -> Option<&mut Association> {
        self.all.get_mut(&handle).map(Box::as_mut)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Handle, &Association)> {
        self.all.iter().map(|(handle, association)| (*handle, &**association))
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Association> {
        self.all.values().map(Box::as_ref)
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// The next association that has carried nothing for too long.
    pub(super) fn next_idle(&mut self, now: Instant) -> Option<(Handle, &Association)> {
        while let Some(Reverse((at, handle))) = self.looks.peek().copied()
            && at <= now
        {
            self.looks.pop();
            let Some(association) = self.all.get(&handle) else { continue };
            let idle_at = association.active_at + self.idle_timeout;
            if idle_at <= now {
                // It is asked about again if it cannot be closed.
                self.looks.push(Reverse((now + self.idle_timeout, handle)));
                return self.get(handle).map(|association| (handle, association));
            }
            self.looks.push(Reverse((idle_at, handle)));
        }
        None
    }
}
