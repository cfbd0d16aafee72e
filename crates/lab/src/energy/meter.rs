//! How long radios and processors were in use, and for what.

use crate::topology::NodeId;

/// What a radio or a processor does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// The radio sends.
    Send,
    /// The radio listens or receives.
    Listen,
    /// The processor computes.
    Compute,
}

/// What a timeslot of TSCH was used for, for devices whose charges are known by slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeslot {
    /// The node listened and nobody sent.
    IdleListen,
    /// A frame was sent and acknowledged.
    SendAcknowledged,
    /// A frame was sent and not acknowledged.
    SendUnacknowledged,
    /// A frame was received and acknowledged.
    ReceiveAcknowledge,
    /// A frame, or noise, was received and not acknowledged.
    ReceiveOnly,
}

/// The time and the timeslots that one node spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceUse {
    /// Microseconds, by [`Activity`].
    pub micros: [u64; 3],
    /// Number of timeslots, by [`Timeslot`].
    pub slots: [u64; 5],
    /// Microseconds of listening during which a frame for this node was received, if the link layer
    /// counts them.
    pub received_micros: u64,
}

impl ResourceUse {
    /// Microseconds that were spent on this use.
    pub const fn of(&self, what: Activity) -> u64 {
        self.micros[what as usize]
    }

    /// The difference to an `earlier` account.
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
pub struct Meter(Vec<ResourceUse>);

impl Meter {
    /// Empty accounts for this many nodes.
    pub fn new(nodes: usize) -> Self {
        Self(vec![ResourceUse::default(); nodes])
    }

    /// Adds time to a node's account.
    pub fn spend(&mut self, node: NodeId, what: Activity, micros: u64) {
        self.0[usize::from(node.0)].micros[what as usize] += micros;
    }

    /// Adds to the time in which frames for the node were received.
    pub fn received(&mut self, node: NodeId, micros: u64) {
        self.0[usize::from(node.0)].received_micros += micros;
    }

    /// Adds a timeslot.
    pub fn slot(&mut self, node: NodeId, what: Timeslot) {
        self.0[usize::from(node.0)].slots[what as usize] += 1;
    }

    /// A node's account.
    pub fn of(&self, node: NodeId) -> &ResourceUse {
        &self.0[usize::from(node.0)]
    }
}
