//! Identifies each run of a member's program, so that the controller can tell a device from a copy
//! of it.
//!
//! Each join of a device creates an *instance*, which is identified by the epoch in which it
//! joined: a later join of the same device has a later epoch. Each time a member's program starts,
//! it increments the instance's counter in its own storage, draws a nonce that it keeps in memory
//! only, and tells both to the controller before it seals any record. The controller accepts each
//! counter value once, so if two devices run with copies of one state, at most one of them can
//! continue.

use core::fmt;
use lightseal_core::wire::BufferFull;
use lightseal_core::{Decode, DecodeError, Encode, Reader, Writer};

/// One start of a member's program.
///
/// ```text
/// instance (8) ‖ counter (4) ‖ nonce (8)
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// The epoch in which the device joined, which identifies the instance.
    pub instance: u64,
    /// The number of times the program has started since the join: 0 in the run that joined.
    pub counter: u32,
    /// Random bytes, drawn for this start and never stored by the member.
    pub nonce: [u8; 8],
}

/// How the start named in a request compares with the last start that the controller knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartComparison {
    /// Both are the same start.
    Current,
    /// A later start of the same instance, which the controller has not been told of yet.
    Later,
    /// An earlier start or an earlier instance: a later one has replaced it.
    Superseded,
    /// Another run has already used this counter value: the two runs have copies of one state.
    Copied,
    /// A later instance than the controller knows. This happens after the controller was restored
    /// from a backup.
    Unknown,
}

impl Start {
    /// Length of an encoded start in bytes.
    pub const BYTES: usize = 20;

    /// Compares this start with `known`, the last start that the controller knows.
    pub fn compare(&self, known: &Self) -> StartComparison {
        use core::cmp::Ordering::{Equal, Greater, Less};
        match (self.instance.cmp(&known.instance), self.counter.cmp(&known.counter)) {
            (Greater, _) => StartComparison::Unknown,
            (Less, _) | (Equal, Less) => StartComparison::Superseded,
            (Equal, Greater) => StartComparison::Later,
            (Equal, Equal) if self.nonce == known.nonce => StartComparison::Current,
            (Equal, Equal) => StartComparison::Copied,
        }
    }
}

impl fmt::Debug for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Start");
        debug.field("instance", &self.instance).field("counter", &self.counter);
        debug.finish_non_exhaustive()
    }
}

impl Decode<'_> for Start {
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { instance: r.u64()?, counter: r.u32()?, nonce: r.array()? })
    }
}

impl Encode for Start {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        w.u64(self.instance)?;
        w.u32(self.counter)?;
        w.bytes(&self.nonce)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_counter_belongs_to_one_run() {
        let known = Start { instance: 5, counter: 2, nonce: [1; 8] };
        let compare = |instance, counter, nonce| {
            Start { instance, counter, nonce: [nonce; 8] }.compare(&known)
        };
        assert_eq!(compare(5, 2, 1), StartComparison::Current);
        assert_eq!(compare(5, 2, 9), StartComparison::Copied);
        assert_eq!(compare(5, 1, 1), StartComparison::Superseded);
        assert_eq!(compare(5, 3, 9), StartComparison::Later);
        assert_eq!(compare(4, 9, 1), StartComparison::Superseded);
        assert_eq!(compare(6, 0, 1), StartComparison::Unknown);
    }
}
