//! How long radios and processors did what.

use crate::world::NodeId;

/// What a radio or a processor does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// The radio sends.
    Send,
    /// The radio listens or receives.
    Listen,
    /// The processor works.
    Compute,
}

/// What a timeslot of TSCH was used for, for devices whose charges are known by slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// Nobody spoke.
    IdleListen,
    /// A frame was sent and acknowledged.
    SendAcknowledged,
    /// A frame was sent and not acknowledged.
    SendUnacknowledged,
    /// A frame was received and acknowledged.
    ReceiveAcknowledge,
    /// A frame was received, or noise.
    ReceiveOnly,
}

/// What one node spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Microseconds by [`Use`].
    pub micros: [u64; 3],
    /// Timeslots by [`Slot`].
    pub slots: [u64; 5],
    /// Microseconds of listening in which a frame for the node came, where a link layer counts
    /// them.
    pub received_micros: u64,
}

impl Spent {
    /// Microseconds of a use.
    pub const fn of(&self, what: Use) -> u64 {
        self.micros[what as usize]
    }

    /// What was spent since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = *self;
        since.micros.iter_mut().zip(earlier.micros).for_each(|(now, then)| *now -= then);
        since.slots.iter_mut().zip(earlier.slots).for_each(|(now, then)| *now -= then);
        since.received_micros -= earlier.received_micros;
        since
    }
}

/// The accounts of all nodes.
#[derive(Clone, Debug)]
pub struct Meter(Vec<Spent>);

impl Meter {
    /// Empty accounts of so many nodes.
    pub fn new(nodes: usize) -> Self {
        Self(vec![Spent::default(); nodes])
    }

    /// Adds time to a node's account.
    pub fn spend(&mut self, node: NodeId, what: Use, micros: u64) {
        self.0[usize::from(node.0)].micros[what as usize] += micros;
    }

    /// Adds to the time in which frames for a node came.
    pub fn received(&mut self, node: NodeId, micros: u64) {
        self.0[usize::from(node.0)].received_micros += micros;
    }

    /// Adds a timeslot.
    pub fn slot(&mut self, node: NodeId, what: Slot) {
        self.0[usize::from(node.0)].slots[what as usize] += 1;
    }

    /// A node's account.
    pub fn of(&self, node: NodeId) -> &Spent {
        &self.0[usize::from(node.0)]
    }
}
