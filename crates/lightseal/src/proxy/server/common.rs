//! What all workers of a server proxy share. A worker takes these locks under its engine's lock, and
//! never an engine's lock under one of these, but for a short look at [`Common::state`] at the start.

use crate::proxy::counters::Totals;
use crate::proxy::limits::{Ledger, Limits};
use crate::proxy::source_address::SourceAddresses;
use crate::proxy::state::State;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A number that goes up and down.
#[derive(Debug, Default)]
pub(super) struct Level(AtomicUsize);

impl Level {
    pub(super) fn add(&self, count: usize) {
        self.0.fetch_add(count, Relaxed);
    }

    pub(super) fn take(&self, count: usize) {
        self.0.fetch_sub(count, Relaxed);
    }

    pub(super) fn get(&self) -> usize {
        self.0.load(Relaxed)
    }

    fn set(&self, count: usize) {
        self.0.store(count, Relaxed);
    }
}

#[derive(Debug)]
pub(super) struct Common {
    pub(super) totals: Totals,
    /// The number of complete associations.
    pub(super) flows: Level,
    /// The most of them.
    max_flows: Level,
    /// Whether no new clients are taken any more.
    draining: AtomicBool,
    ledger: Mutex<Ledger>,
    sources: Mutex<Option<SourceAddresses>>,
    state: Mutex<Option<State>>,
}

impl Common {
    pub(super) fn new(limits: Limits, max_flows: usize, sources: Option<SourceAddresses>) -> Self {
        let common = Self {
            totals: Totals::default(),
            flows: Level::default(),
            max_flows: Level::default(),
            draining: AtomicBool::new(false),
            ledger: Mutex::new(Ledger::new(limits)),
            sources: Mutex::new(sources),
            state: Mutex::default(),
        };
        common.max_flows.set(max_flows);
        common
    }

    /// The most complete associations.
    pub(super) fn max_flows(&self) -> usize {
        self.max_flows.get()
    }

    pub(super) fn set_max_flows(&self, max_flows: usize) {
        self.max_flows.set(max_flows);
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

    /// The stored associations, if they are stored.
    pub(super) fn state(&self) -> MutexGuard<'_, Option<State>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
