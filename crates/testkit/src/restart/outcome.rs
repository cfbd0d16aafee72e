//! What a world is to do, and what comes of it.

/// What a world does.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Determines everything else.
    pub seed: u64,
    /// The number of random actions.
    pub actions: u32,
    /// The points at which the process ends that has come to it, ascending.
    pub kills: Vec<u64>,
    /// Whether the network loses, repeats and delays datagrams.
    pub faults: bool,
    /// Whether the client's address changes. Then both ends need connection IDs.
    pub moves: bool,
    /// Whether processes are also stopped, so that they save their associations before they end.
    pub stops: bool,
}

/// What the judge finds wrong.
#[derive(Clone, Debug)]
pub struct Wrong {
    /// What kind of fault it is.
    pub fault: Fault,
    /// What happened, and the plan with which it happens again.
    pub what: String,
}

/// The kinds of what is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// An end has sealed two records under one number of one epoch.
    Number,
    /// A payload was delivered twice, or nobody had sent it.
    Payload,
    /// Shared tags seemed to prove that a record was forged.
    Forgery,
    /// Another handshake was needed.
    Handshake,
    /// What an end sends is not delivered in the end.
    Silence,
    /// An end has done something else that it must not do.
    Other,
}

impl Wrong {
    pub(super) fn new(fault: Fault, what: impl Into<String>) -> Self {
        Self { fault, what: what.into() }
    }
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)
    }
}

/// What came of a run in which the judge found nothing wrong.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// The points at which a process could have ended.
    pub points: u64,
    /// How many processes ended.
    pub kills: u64,
    /// Complete handshakes of the client.
    pub handshakes: u64,
    /// How often an association was restored.
    pub restored: u64,
    /// How often one was saved in an orderly way.
    pub saved: u64,
    /// Changes of an aggregation scheme that an end has noticed.
    pub changes: u64,
    /// Processes that ended while an end's request for another scheme was under way.
    pub kills_in_changes: u64,
    /// Writes that the stores accepted.
    pub writes: u64,
    /// Payloads delivered, and payloads lost by the network, by ends, or below a mark.
    pub delivered: u64,
    /// See [`Self::delivered`].
    pub lost: u64,
    /// Protected records that the observer has read.
    pub records: u64,
}
