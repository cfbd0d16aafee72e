//! What all workers of a server proxy share. A worker takes these locks under its engine's lock, and
//! never an engine's lock under one of these.

use super::flows::Flows;
use super::ports::Ports;
use crate::proxy::counters::Totals;
use crate::proxy::limits::{Ledger, Limits};
use crate::proxy::loops::EphemeralPorts;
use crate::proxy::source_address::SourceAddresses;
use crate::proxy::state::State;
use lightseal_net::clock::Clock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
pub(super) struct Common {
    pub(super) totals: Totals,
    /// The clock of all workers.
    pub(super) clock: Clock,
    flows: Mutex<Flows>,
    /// The most flows.
    max_flows: AtomicUsize,
    /// Whether no new clients are taken any more.
    draining: AtomicBool,
    ledger: Mutex<Ledger>,
    sources: Mutex<Option<SourceAddresses>>,
    ports: Mutex<Ports>,
    state: Mutex<Option<State>>,
}

impl Common {
    pub(super) fn new(
        clock: Clock,
        limits: Limits,
        max_flows: usize,
        sources: Option<SourceAddresses>,
    ) -> Self {
        Self {
            totals: Totals::default(),
            clock,
            flows: Mutex::default(),
            max_flows: AtomicUsize::new(max_flows),
            draining: AtomicBool::new(false),
            ledger: Mutex::new(Ledger::new(limits)),
            sources: Mutex::new(sources),
            ports: Mutex::new(Ports::new(EphemeralPorts::of_this_host().len() / 2)),
            state: Mutex::default(),
        }
    }

    /// The flows of all workers.
    pub(super) fn flows(&self) -> MutexGuard<'_, Flows> {
        self.flows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The most flows.
    pub(super) fn max_flows(&self) -> usize {
        self.max_flows.load(Relaxed)
    }

    pub(super) fn set_max_flows(&self, max_flows: usize) {
        self.max_flows.store(max_flows, Relaxed);
    }

    pub(super) fn drains(&self) -> bool {
        self.draining.load(Relaxed)
    }

    pub(super) fn drain(&self) {
        self.draining.store(true, Relaxed);
    }

    /// What clients have taken of their limits.
    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The addresses of identities, if they have some.
    pub(super) fn sources(&self) -> MutexGuard<'_, Option<SourceAddresses>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ports towards the service, where identities have no addresses.
    pub(super) fn ports(&self) -> MutexGuard<'_, Ports> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The stored associations, if they are stored.
    pub(super) fn state(&self) -> MutexGuard<'_, Option<State>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
