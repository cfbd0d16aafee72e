//! What the log and the status say of stored associations.

use super::node::FleetFacts;
use super::row::Sizes;
use super::{MemberHandle, State};
use crate::units::counted;
use lightseal_dtls::OpenSets;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Messages under shared tags that are lost because their tag had not come when a process ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Untagged {
    /// Messages that the process had sent, and their peers do not deliver.
    pub(crate) sent: u64,
    /// Messages that the process had received, and did not deliver.
    pub(crate) received: u64,
}

impl Untagged {
    pub(super) fn add(&mut self, OpenSets { sent, received, .. }: OpenSets) {
        self.sent += sent;
        self.received += received;
    }

    pub(super) fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Logs it, if there are any.
    pub(super) fn log(self, name: &str) {
        if !self.is_none() {
            let Self { sent, received } = self;
            tracing::warn!(
                "{name}: lost messages whose shared tag had not come: {sent} sent, {received} received"
            );
        }
    }
}

/// What came of the associations that were in the store.
#[derive(Clone, Debug, Default)]
pub(super) struct TakenOver {
    pub(super) restored: u64,
    /// How many were not restored, by the reason.
    pub(super) refused: BTreeMap<String, u64>,
    /// How many of those stay in the store, because a later start may take them over.
    pub(super) kept: u64,
    pub(super) sizes: Sizes,
    pub(super) elapsed: Duration,
    /// What was lost at most when the process before this one ended.
    pub(super) untagged: Untagged,
}

impl TakenOver {
    /// Logs it in one line; nothing of a store that was empty.
    pub(super) fn log(&self, name: &str) {
        let Sizes { rows, stored, index } = self.sizes;
        if rows == 0 {
            tracing::info!("{name}: no associations are stored yet");
            return;
        }
        let (restored, ms) = (counted(self.restored, "association"), self.elapsed.as_millis());
        let refused = self.refused.iter().map(|(why, count)| format!("{count}: {why}"));
        let refused: Vec<_> = refused.collect();
        if refused.is_empty() {
            tracing::info!("{name}: restored {restored} in {ms} ms");
        } else {
            let refused = refused.join("; ");
            let kept = match self.kept {
                0 => String::new(),
                kept => format!(" ({} for a later start)", counted(kept, "kept")),
            };
            tracing::warn!("{name}: restored {restored} in {ms} ms, and not {refused}{kept}");
        }
        if !self.untagged.is_none() {
            let Untagged { sent, received } = self.untagged;
            tracing::warn!(
                "{name}: messages whose shared tag had not come were lost with the process: at most \
                 {sent} sent, {received} received"
            );
        }
        tracing::debug!(
            "{name}: {:.1} bytes an association, and {:.1} of the index",
            stored as f64 / rows as f64,
            index as f64 / rows as f64
        );
    }
}

/// Stored associations, as the status reports them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct StateReport {
    /// Associations in the store, once all changes are written.
    pub(crate) stored: u64,
    /// Associations that this process has taken over at its start.
    pub(crate) restored: u64,
    /// How many it has not taken over, by the reason.
    pub(crate) refused: BTreeMap<String, u64>,
    /// Messages under shared tags that were lost, at most, because the process before did not end in an
    /// orderly way.
    #[serde(skip_serializing_if = "Untagged::is_none")]
    pub(crate) untagged: Untagged,
    /// Milliseconds that it took.
    pub(crate) restore_ms: f64,
    /// Bytes of all associations as they were found in the store, and of the index besides.
    pub(crate) found_bytes: u64,
    pub(crate) found_index_bytes: u64,
    /// Changes that were written, and the transactions in which they were.
    pub(crate) changes: u64,
    pub(crate) transactions: u64,
    /// Changes that were not written because another process went on with the association.
    pub(crate) lost: u64,
    /// Whether the store cannot be written at present.
    pub(crate) fails: bool,
    /// This node and its fleet, if the store is a database.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fleet: Option<FleetFacts>,
}

impl State {
    /// What the status reports.
    pub(crate) fn report(&self) -> StateReport {
        let TakenOver { restored, refused, sizes, elapsed, untagged, .. } = &self.books.taken;
        let counters = &self.writer.counters;
        StateReport {
            stored: self.books.rows.len() as u64,
            restored: *restored,
            refused: refused.clone(),
            untagged: *untagged,
            restore_ms: elapsed.as_secs_f64() * 1e3,
            found_bytes: sizes.stored,
            found_index_bytes: sizes.index,
            changes: counters.changes.load(Relaxed),
            transactions: counters.transactions.load(Relaxed),
            lost: counters.lost.load(Relaxed),
            fails: counters.fails.load(Relaxed),
            fleet: self.member.as_ref().map(MemberHandle::facts),
        }
    }
}

impl StateReport {
    /// One line for people.
    pub(crate) fn line(&self) -> String {
        let mut line = format!(
            "stored associations: {}; {} restored at the start",
            self.stored, self.restored
        );
        for (why, count) in &self.refused {
            line += &format!(", {count} not: {why}");
        }
        if !self.untagged.is_none() {
            let Untagged { sent, received } = self.untagged;
            line += &format!(
                "; messages whose shared tag had not come: at most {sent} sent, {received} received"
            );
        }
        if self.fails {
            line += "; the store cannot be written, and associations wait";
        }
        if let Some(fleet) = &self.fleet {
            line += &fleet.text();
        }
        line
    }
}
