//! How a server proxy stores its associations, and takes them over.

use super::{Association, ServerHost, ServerProxy};
use crate::credential;
use crate::failure::Failure;
use crate::proxy::state::{OpenState, Refused, Written};
use lightseal_dtls::{Endpoint, Handle};
use lightseal_net::address::Named;
use std::sync::Arc;

impl ServerProxy {
    /// Takes over the associations of a store, and stores those of this proxy from now on. The
    /// settings ask for it ([`write_ahead`](lightseal_dtls::Settings::write_ahead)).
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub(crate) fn take_over(&self, open: OpenState) -> Result<(), Failure> {
        let (outer, runtime) = (Arc::downgrade(&self.outer), tokio::runtime::Handle::current());
        let confirm = move |written: &[Written]| {
            let Some(outer) = outer.upgrade() else { return };
            // What waited for the confirmation may need tasks.
            let _entered = runtime.enter();
            outer.call(|endpoint, host, now| {
                for written in written {
                    match *written {
                        Written::Saved(handle, version) => endpoint.saved(now, handle, version),
                        Written::Lost(handle) => host.leave(endpoint, handle),
                    }
                }
            });
        };
        let max = self.options.max_flows;
        self.outer.call(|endpoint, host, now| {
            let state = open.take_over(Box::new(confirm), |saved, service_port| {
                if host.associations.len() >= max {
                    let why = format_args!("{max} flows are open (--max-flows)");
                    return Err(Refused::for_now(why));
                }
                let handle = endpoint.restore(now, saved)?;
                if let Some(connection) = endpoint.connection(handle) {
                    let Some(agreed) = connection.negotiated() else { return Ok(handle) };
                    let (peer, owner) = (connection.peer(), Arc::from(credential::shown(agreed)));
                    host.ledger.restored(handle, peer, &owner);
                    let association = Association::new(peer, owner, agreed.version, now);
                    host.associations.insert(handle, association);
                    host.opening.push((handle, Some(service_port)));
                }
                Ok(handle)
            })?;
            host.state = Some(state);
            Ok(())
        })
    }

    /// Stores all associations for the next run, and closes those that are not stored. Without a store
    /// nothing happens, and `false` is returned.
    pub(crate) fn save_all(&self) -> bool {
        let state = self.outer.call(|endpoint, host, now| {
            let mut state = host.state.take()?;
            for handle in state.save_all(now, endpoint, |handle| host.service_port(handle)) {
                if let Some(mut connection) = endpoint.connection_mut(handle) {
                    connection.close(now);
                }
            }
            Some(state)
        });
        // Not under the engine's lock, which confirmations of writes take.
        if let Some(state) = &state {
            state.flush();
        }
        state.is_some()
    }
}

impl ServerHost {
    /// Forgets an association with which another process goes on, without a word to anybody.
    fn leave(&mut self, endpoint: &mut Endpoint, handle: Handle) {
        endpoint.forget(handle);
        if let Some(state) = &mut self.state {
            state.lost(handle);
        }
        self.ledger.ended(handle);
        if let Some(ended) = self.associations.remove(&handle) {
            tracing::debug!(
                peer.address = %Named(ended.peer),
                peer.identity = &*ended.identity,
                "{}: another process goes on with it",
                Named(ended.peer)
            );
            self.count_early(Some(ended));
        }
    }

    /// Stores what the engine wants to be stored.
    pub(super) fn save(&mut self, endpoint: &Endpoint) {
        for (handle, saved) in std::mem::take(&mut self.saves) {
            let port = self.service_port(handle);
            if let Some(state) = &mut self.state {
                state.save(endpoint, handle, saved, port);
            }
        }
    }

    /// The port from which the service sees an association; 0 if it sees none.
    fn service_port(&self, handle: Handle) -> u16 {
        let service = self.associations.get(&handle).and_then(|of| of.service.as_ref());
        service.and_then(|of| of.socket.get_ref().local_addr().ok()).map_or(0, |local| local.port())
    }
}
