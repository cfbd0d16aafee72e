//! How a server proxy stores its associations, and takes them over.

use super::associations::Association;
use super::common::Common;
use super::host::ServerHost;
use super::service::Service;
use super::{Outers, ServerProxy};
use crate::credential;
use crate::credential::lookup::KeyLookup;
use crate::failure::Failure;
use crate::proxy::fleet::slots::SlotMap;
use crate::proxy::routing::router::{Passed, Router};
use crate::proxy::state::{
    Adopted, Attempt, Flushed, Host, OpenState, Refused, Restored, Row, State, Written,
};
use crate::proxy::workers::Workers;
use lightseal_core::Instant;
use lightseal_dtls::{Endpoint, Handle, OpenSets, RestoreError, SavedAssociation};
use lightseal_net::address::Named;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long the associations of slots that move may take to be written.
const HAND_OVER: Duration = Duration::from_secs(5);
/// How often, and for how long each time, associations that are about to be stored wait for what they
/// have asked to be written: the tag of an open set, and messages of clients, may depend on that.
const SETTLING_ROUNDS: u32 = 2;
const SETTLING: Duration = Duration::from_secs(1);

/// How long the look-up of the keys of a thousand stored associations may take at the start, each of the
/// two times that it is waited for. Associations whose keys are not known then stay in the store.
const KEYS_AT_START: Duration = Duration::from_secs(5);

/// As [`KEYS_AT_START`], for associations of other nodes: their peers wait.
const KEYS_OF_OTHERS: Duration = Duration::from_secs(1);

impl ServerProxy {
    /// Takes over the associations of a store, and stores those of this proxy from now on. The
    /// settings ask for it ([`write_ahead`](lightseal_dtls::Settings::write_ahead)). To be called by a
    /// thread that may wait.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub(crate) fn take_over(&self, open: OpenState) -> Result<(), Failure> {
        let (outers, workers) = (Arc::downgrade(&self.outers), Arc::clone(&self.workers));
        let place = Place { outers, workers, slots: self.slots };
        let node = self.options.router.as_ref().map(|router| {
            let (common, keys) = (Arc::downgrade(&self.common), self.options.keys.clone());
            let (place, router) = (place.clone(), Arc::clone(router));
            Box::new(Node { place, common, router, keys }) as Box<dyn Host>
        });
        let outers = Arc::downgrade(&self.outers);
        let confirm = move |written: &[Written]| {
            let Some(outers) = outers.upgrade() else { return };
            for (worker, outer) in outers.iter().enumerate() {
                let own = written.iter().filter(|of| Workers::of_handle(of.handle()) == worker);
                let mut own = own.peekable();
                if own.peek().is_some() {
                    outer.call(|endpoint, host, now| {
                        own.for_each(|written| match *written {
                            Written::Saved(handle, version) => {
                                endpoint.saved(now, handle, version);
                            }
                            Written::Lost(handle) => host.leave(endpoint, handle),
                        });
                    });
                }
            }
        };
        let keys = self.options.keys.as_ref();
        let wait_for_keys = || {
            if let Some(keys) = keys {
                keys.wait_for_stored(KEYS_AT_START);
            }
        };
        // Sockets are opened when all associations are there: the ports from which the service has
        // seen some of them are not given to others.
        self.each(|_, host, _| host.is_restoring = true);
        let mut loads = place.loads();
        let restore = |saved: &SavedAssociation, port| place.restore(saved, port, &mut loads);
        let (state, member) = open.take_over(Box::new(confirm), restore, wait_for_keys)?;
        *self.common.state() = Some(state);
        self.each(|endpoint, host, now| {
            host.share_secrets(endpoint, now);
            host.is_restoring = false;
        });
        // It may be given associations at once.
        match (self.common.state().as_mut(), member, node) {
            (Some(state), Some(member), Some(node)) => state.join(member, node),
            _ => Ok(()),
        }
    }

    /// Takes what other nodes pass on.
    pub(super) async fn take_from_nodes(&self) -> Infallible {
        let Some(router) = &self.options.router else { return std::future::pending().await };
        let take = |passed: Passed<'_>| {
            let Some(first) = self.outers.first() else { return };
            first.batch(|batch| {
                passed.for_each(|addresses, datagram| {
                    if !batch.host().is_passed_on(addresses, datagram) {
                        batch.handle_datagram(addresses, datagram);
                    }
                });
            });
        };
        router.run(take).await
    }

    /// Why this node of a fleet can take no clients because of the database, if that is so.
    pub(crate) fn cut_off(&self) -> Option<String> {
        self.common.state().as_ref()?.cut_off()
    }

    /// Gives all slots of a node of a fleet to the others, with their associations. It waits for that.
    pub(crate) fn leave_fleet(&self) {
        let member = self.common.state().as_mut().and_then(State::take_member);
        // Not under the state's lock, which the thread takes.
        if let Some(member) = member {
            member.leave();
        }
    }

    /// Whether associations are stored.
    pub(crate) fn has_store(&self) -> bool {
        self.common.state().is_some()
    }

    /// Stores all associations for the next run, and closes those that are not stored. The proxy must not
    /// run any more.
    pub(crate) fn save_all(&self) {
        let all = |endpoint: &Endpoint| -> Vec<_> {
            endpoint.connections().map(|(handle, _)| handle).collect()
        };
        for _ in 0..SETTLING_ROUNDS {
            self.each(|endpoint, host, now| host.close_sets(endpoint, now, &all(endpoint)));
            let flushed = self.common.state().as_ref().map(State::flushed);
            flushed.map(|flushed| flushed.wait(SETTLING));
        }
        self.each(|endpoint, host, now| host.save_some(endpoint, now, &all(endpoint)));
        let state = self.common.state().take();
        // Not under a lock that confirmations of writes take.
        if let Some(state) = &state {
            state.flush();
        }
    }
}

/// Where stored associations are restored: at the workers that their peers' records come to, unless
/// these have no session slots left.
#[derive(Clone)]
struct Place {
    outers: Outers,
    workers: Arc<Workers>,
    /// The session slots of each worker.
    slots: Option<NonZeroUsize>,
}

impl Place {
    /// The number of associations of each worker.
    fn loads(&self) -> Vec<usize> {
        let outers = self.outers.upgrade();
        let outers = outers.iter().flat_map(|outers| outers.iter());
        outers.map(|outer| outer.call(|endpoint, _, _| endpoint.open_connections())).collect()
    }

    /// The worker at which an association is restored, which is added to its load.
    fn worker_of(
        &self,
        saved: &SavedAssociation,
        loads: &mut [usize],
    ) -> Result<usize, RestoreError> {
        let (peer, ids) = saved.route()?;
        let own = self.workers.of_route(peer, &ids);
        let is_full = |load: &usize| self.slots.is_some_and(|slots| *load >= slots.get());
        let worker = match loads.get(own).is_some_and(is_full) {
            true => (0..loads.len()).min_by_key(|at| loads[*at]).unwrap_or(own),
            false => own,
        };
        if let Some(load) = loads.get_mut(worker) {
            *load += 1;
        }
        self.workers.note(peer, &ids, worker);
        Ok(worker)
    }

    fn restore(
        &self,
        saved: &SavedAssociation,
        service_port: u16,
        loads: &mut [usize],
    ) -> Result<Restored, Refused> {
        let worker = self.worker_of(saved, loads)?;
        let outers = self.outers.upgrade();
        let outer = outers.as_ref().and_then(|outers| outers.get(worker));
        let outer = outer.ok_or_else(|| Refused::for_now("the proxy ends"))?;
        outer.call(|endpoint, host, now| host.restore(endpoint, now, saved, service_port))
    }
}

/// This proxy as a node of a fleet.
struct Node {
    place: Place,
    common: Weak<Common>,
    router: Arc<Router>,
    keys: Option<Arc<KeyLookup>>,
}

impl Node {
    /// Calls `act` with the stored associations; `None` if the proxy has ended.
    fn call<T>(&self, act: impl FnOnce(&mut State) -> T) -> Option<T> {
        self.common.upgrade()?.state().as_mut().map(act)
    }

    /// Calls `act` for each worker under its engine's lock, with the stored associations.
    fn each(&self, mut act: impl FnMut(&mut State, &mut ServerHost, &mut Endpoint)) {
        let (Some(outers), Some(common)) = (self.place.outers.upgrade(), self.common.upgrade())
        else {
            return;
        };
        for outer in &*outers {
            outer.call(|endpoint, host, _| {
                if let Some(state) = common.state().as_mut() {
                    act(state, host, endpoint);
                }
            });
        }
    }

    /// Goes on with the associations in these rows. Returns how many there are, and the rows that wait
    /// for keys.
    fn adopt_some(&self, rows: Vec<Row>, attempt: Attempt) -> (u64, Vec<Row>) {
        let (mut adopted, mut waiting) = (0, Vec::new());
        let mut by_worker = BTreeMap::<usize, Vec<Row>>::new();
        let mut loads = self.place.loads();
        for row in rows {
            // Whoever gets a damaged row finds that it is.
            let worker = row.saved().and_then(|saved| self.place.worker_of(saved, &mut loads).ok());
            by_worker.entry(worker.unwrap_or(0)).or_default().push(row);
        }
        let (Some(outers), Some(common)) = (self.place.outers.upgrade(), self.common.upgrade())
        else {
            return (adopted, waiting);
        };
        for (worker, rows) in by_worker {
            let Some(outer) = outers.get(worker) else { continue };
            outer.call(|endpoint, host, now| {
                let mut state = common.state();
                let Some(state) = state.as_mut() else { return };
                for row in rows {
                    let restore = |saved: &SavedAssociation, service_port| {
                        host.restore(endpoint, now, saved, service_port)
                    };
                    match state.adopt(row, attempt, restore) {
                        Adopted::Now => adopted += 1,
                        Adopted::Waits(row) => waiting.push(*row),
                        Adopted::Later | Adopted::Never => {}
                    }
                }
            });
        }
        (adopted, waiting)
    }
}

/// The associations in these slots.
fn in_slots(state: &State, endpoint: &Endpoint, slots: &BTreeSet<u8>) -> Vec<Handle> {
    let all = endpoint.connections();
    let some =
        all.filter(|(_, of)| state.slot_of(of.own_ids()).is_some_and(|slot| slots.contains(&slot)));
    some.map(|(handle, _)| handle).collect()
}

impl Host for Node {
    fn set_map(&self, map: SlotMap) {
        self.router.set_map(map);
    }

    fn adopt(&self, rows: Vec<Row>) -> u64 {
        let (mut adopted, waiting) = self.adopt_some(rows, Attempt::First);
        // Not under the engine's lock, which answers take.
        let wait = || {
            if let Some(keys) = &self.keys {
                keys.wait_for_stored(KEYS_OF_OTHERS);
            }
        };
        Attempt::again(waiting, wait, |rows, attempt| {
            let (more, waiting) = self.adopt_some(rows, attempt);
            adopted += more;
            waiting
        });
        adopted
    }

    fn leave(&self, slots: &BTreeSet<u8>) {
        self.each(|state, host, endpoint| {
            for handle in in_slots(state, endpoint, slots) {
                endpoint.forget(handle);
                state.lost(handle, None);
                host.ended_elsewhere(handle);
            }
        });
    }

    fn hand_over(&self, slots: &BTreeSet<u8>) -> bool {
        let Some(outers) = self.place.outers.upgrade() else { return false };
        for outer in &*outers {
            let handles = |host: &ServerHost, endpoint: &Endpoint| {
                let state = host.common.state();
                state.as_ref().map(|of| in_slots(of, endpoint, slots)).unwrap_or_default()
            };
            for _ in 0..SETTLING_ROUNDS {
                outer.call(|endpoint, host, now| {
                    host.close_sets(endpoint, now, &handles(host, endpoint));
                });
                let flushed = self.call(|state| state.flushed());
                flushed.map(|flushed| flushed.wait(SETTLING));
            }
            outer.call(|endpoint, host, now| {
                host.save_some(endpoint, now, &handles(host, endpoint));
            });
        }
        let flushed = self.call(|state| state.flushed());
        flushed.is_some_and(|flushed| flushed.wait(HAND_OVER))
    }

    fn lost_slots(&self) -> BTreeSet<u8> {
        self.call(State::take_lost_slots).unwrap_or_default()
    }

    fn flushed(&self) -> Option<Flushed> {
        self.call(|state| state.flushed())
    }
}

impl ServerHost {
    /// Goes on with a stored association, which the service saw at a port; 0 if it saw none.
    fn restore(
        &mut self,
        endpoint: &mut Endpoint,
        now: Instant,
        saved: &SavedAssociation,
        service_port: u16,
    ) -> Result<Restored, Refused> {
        let max = self.common.max_flows();
        if self.common.flows().count() >= max {
            let why = format_args!("{max} flows are open (--max-flows)");
            return Err(Refused::for_now(why));
        }
        let restored = match &self.options.keys {
            Some(keys) => keys.restoring(|| endpoint.restore(now, saved)),
            None => endpoint.restore(now, saved),
        };
        let handle = restored?;
        let mut cut = OpenSets::default();
        if let Some(connection) = endpoint.connection(handle) {
            cut = connection.cut_sets();
            let Some(agreed) = connection.negotiated() else { return Ok((handle, cut)) };
            let (peer, owner) = (connection.peer(), Arc::from(credential::shown(agreed)));
            let Ok(key) = self.key_use(agreed, handle) else {
                endpoint.forget(handle);
                return Err(Refused::for_now(RestoreError::UnknownKey));
            };
            self.common.ledger().restored(handle, peer, &owner);
            let association = Association::new(peer, owner, agreed.version, now, key);
            self.associations.insert(handle, association);
            self.opening.push((handle, Some(service_port)));
        }
        Ok((handle, cut))
    }

    /// Sends the tags of messages that wait for one, of associations that are about to be stored.
    fn close_sets(&self, endpoint: &mut Endpoint, now: Instant, handles: &[Handle]) {
        if self.common.state().is_none() {
            return;
        }
        for handle in handles {
            let open = endpoint.connection(*handle).map(|of| of.open_sets()).unwrap_or_default();
            if open.sent > 0
                && let Some(mut connection) = endpoint.connection_mut(*handle)
            {
                connection.close_sets(now);
            }
        }
    }

    /// Stores these associations, without a word to their peers, and closes those that are not stored.
    /// Without a store nothing happens.
    fn save_some(&mut self, endpoint: &mut Endpoint, now: Instant, handles: &[Handle]) {
        let left = match self.common.state().as_mut() {
            Some(state) => {
                state.save_all(now, endpoint, handles, |handle| self.service_port(handle))
            }
            None => return,
        };
        for handle in handles {
            if !left.contains(handle) {
                self.ended_elsewhere(*handle);
            } else if let Some(mut connection) = endpoint.connection_mut(*handle) {
                connection.close(now);
            }
        }
    }

    /// Forgets an association with which another process goes on, without a word to anybody.
    fn leave(&mut self, endpoint: &mut Endpoint, handle: Handle) {
        if let Some(state) = self.common.state().as_mut() {
            let slot = endpoint.connection(handle).and_then(|of| state.slot_of(of.own_ids()));
            state.lost(handle, slot);
        }
        endpoint.forget(handle);
        self.ended_elsewhere(handle);
    }

    /// The endpoint no longer has an association, with which another process goes on.
    fn ended_elsewhere(&mut self, handle: Handle) {
        self.common.ledger().ended(handle);
        if let Some(ended) = self.associations.remove(handle) {
            tracing::debug!(
                peer.address = %Named(ended.peer),
                peer.identity = &*ended.identity,
                "{}: another process goes on with it",
                Named(ended.peer)
            );
            self.count_early(Some(ended));
        }
    }

    /// Stores what the engine wants to be stored. Returns whether the endpoint was called.
    pub(super) fn save(&mut self, endpoint: &mut Endpoint, now: Instant) -> bool {
        // While associations are being restored there is no store yet to which they belong.
        if self.is_restoring || self.saves.is_empty() {
            return false;
        }
        let mut called = false;
        let saves = std::mem::take(&mut self.saves);
        let mut state = self.common.state();
        let Some(state) = state.as_mut() else { return false };
        for (handle, saved) in saves {
            let (port, version) = (self.service_port(handle), saved.marks.version);
            if !state.save(endpoint, handle, saved, port) {
                // It ends with this process, and waits for nothing.
                endpoint.saved(now, handle, version);
                called = true;
            }
        }
        called
    }

    /// The port from which the service sees an association; 0 if it sees none.
    fn service_port(&self, handle: Handle) -> u16 {
        let service = self.associations.get(handle).and_then(|of| of.service.as_ref());
        service.and_then(Service::local_addr).map_or(0, |local| local.port())
    }
}
