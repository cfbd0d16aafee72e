//! A node of a fleet as its proxy and the status see it.

use super::Flushed;
use super::row::Row;
use crate::proxy::fleet::slots::SlotMap;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::time::Instant;

/// What a node of a fleet tells its proxy, and asks of it. Its methods may wait for the proxy's lock.
pub(crate) trait Host: Send {
    /// Goes by this map from now on.
    fn set_map(&self, map: SlotMap);
    /// Goes on with the associations in these rows, unless it has them. Returns how many are new.
    fn adopt(&self, rows: Vec<Row>) -> u64;
    /// Forgets the associations in these slots, with which others go on.
    fn leave(&self, slots: &BTreeSet<u8>);
    /// Writes the associations in these slots as they are now, and forgets them. Returns whether they
    /// are written.
    fn hand_over(&self, slots: &BTreeSet<u8>) -> bool;
    /// The slots of rows that were lost to another process: the rows are to be read again if the slots
    /// are this node's.
    fn lost_slots(&self) -> BTreeSet<u8>;
    /// What can be waited for: that all is written that was asked for until now.
    fn flushed(&self) -> Option<Flushed>;
}

/// What a node has done, and sees.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct FleetFacts {
    pub(crate) node: u8,
    /// The number of slots that this node owns.
    pub(crate) slots: u64,
    /// The nodes that live, and those that are dead.
    pub(crate) living: Vec<u8>,
    pub(crate) dead: Vec<u8>,
    /// Slots that were taken, and slots that were given away.
    pub(crate) taken: u64,
    pub(crate) given: u64,
    /// Associations that this node went on with while it ran.
    pub(crate) adopted: u64,
    /// Whether the database cannot be reached.
    pub(crate) is_alone: bool,
    /// Since when, by this process's clock.
    #[serde(skip)]
    pub(crate) alone_since: Option<Instant>,
    /// Why the process cannot go on.
    #[serde(skip)]
    pub(crate) ended: Option<&'static str>,
}

impl FleetFacts {
    /// What is added to the line of the store.
    pub(crate) fn text(&self) -> String {
        let Self { node, slots, living, dead, adopted, .. } = self;
        let list = |nodes: &[u8]| {
            let nodes: Vec<_> = nodes.iter().map(ToString::to_string).collect();
            nodes.join(", ")
        };
        let mut text = format!("; node {node} with {slots} slots, living nodes: {}", list(living));
        if !dead.is_empty() {
            text += &format!(", dead: {}", list(dead));
        }
        if *adopted > 0 {
            text += &format!("; {adopted} taken over from others");
        }
        if self.is_alone {
            text += "; the database does not answer, and no slots move";
        }
        text
    }
}
