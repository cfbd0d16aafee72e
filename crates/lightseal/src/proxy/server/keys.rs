//! Which associations end because a key or certificate counts no more, and what the threads that look
//! keys up tell the proxy.

use super::host::ServerHost;
use super::{Outers, ServerProxy};
use crate::credential::lookup::{KeyUse, KeyUser, Revoked};
use crate::proxy::shares::network;
use crate::proxy::state::State;
use crate::proxy::workers::Workers;
use lightseal_core::Instant;
use lightseal_dtls::{Endpoint, Handle, Negotiated};
use std::sync::Arc;

impl ServerProxy {
    /// Lets the source of keys tell this proxy of answers and revocations.
    pub(crate) fn attach_keys(&self) {
        if let Some(keys) = &self.options.keys {
            keys.attach(&(Arc::new(User(Arc::downgrade(&self.outers))) as _));
        }
    }

    /// Closes the associations whose peer `accepts` does not accept, and all handshakes, since they
    /// may have begun with a credential that is not accepted any more. Returns the number of those
    /// associations.
    pub(crate) fn end_unless(&self, accepts: impl Fn(&Negotiated) -> bool) -> usize {
        let mut count = 0;
        for outer in &*self.outers {
            count += outer.call(|endpoint, host, now| {
                let ended = endpoint.connections().filter(|(_, connection)| {
                    connection.negotiated().is_none_or(|agreed| !accepts(agreed))
                });
                let ended: Vec<_> =
                    ended.map(|(handle, connection)| (handle, connection.is_connected())).collect();
                for (handle, _) in &ended {
                    host.revoke(endpoint, now, *handle);
                }
                ended.iter().filter(|(_, connected)| *connected).count()
            });
        }
        count
    }
}

impl ServerHost {
    /// Says in words for the log which peer was refused, if an access list or a source of keys has
    /// caused the failure of a handshake.
    pub(super) fn unlisted(&self, why: &dyn std::fmt::Display) -> Option<String> {
        let of_list = self.options.list.as_ref().and_then(|list| list.take_refused());
        let of_source = self.options.keys.as_ref().and_then(|keys| keys.take_refused(why));
        of_list.or(of_source)
    }

    /// Closes an association, with which nobody may go on.
    fn revoke(&mut self, endpoint: &mut Endpoint, now: Instant, handle: Handle) {
        if let Some(state) = self.common.state().as_mut() {
            state.remove_first(handle);
        }
        if let Some(mut connection) = endpoint.connection_mut(handle) {
            connection.close(now);
        }
    }

    /// Why the proxy cannot go on, if it cannot.
    pub(super) fn why_ended(&self) -> Option<String> {
        let of_state = self.common.state().as_ref().and_then(State::why_ended);
        of_state.or_else(|| self.options.keys.as_ref()?.why_ended())
    }

    /// Notes that an association uses the key that its handshake has used, if keys are looked up.
    pub(super) fn key_use(
        &self,
        agreed: &Negotiated,
        handle: Handle,
    ) -> Result<Option<Box<KeyUse>>, Revoked> {
        let Some(keys) = &self.options.keys else { return Ok(None) };
        Ok(keys.begin(agreed, handle)?.map(Box::new))
    }
}

struct User(Outers);

impl KeyUser for User {
    fn answered(&self, asks_for: &dyn Fn(u128)) {
        let Some(outers) = self.0.upgrade() else { return };
        let asks_for = |client| asks_for(network(client));
        for outer in &*outers {
            outer.call(|endpoint, _, now| endpoint.lookups_answered_for(now, asks_for));
        }
    }

    fn revoked(&self, handles: &[Handle]) {
        let Some(outers) = self.0.upgrade() else { return };
        for (worker, outer) in outers.iter().enumerate() {
            let own = handles.iter().filter(|handle| Workers::of_handle(**handle) == worker);
            let mut own = own.peekable();
            if own.peek().is_some() {
                outer.call(|endpoint, host, now| {
                    own.for_each(|handle| host.revoke(endpoint, now, *handle));
                });
            }
        }
    }
}
