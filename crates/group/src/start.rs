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
pub enum Standing {
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
    pub fn standing(&self, known: &Self) -> Standing {
        use core::cmp::Ordering::{Equal, Greater, Less};
        match (self.instance.cmp(&known.instance), self.counter.cmp(&known.counter)) {
            (Greater, _) => Standing::Unknown,
            (Less, _) | (Equal, Less) => Standing::Superseded,
            (Equal, Greater) => Standing::Later,
            (Equal, Equal) if self.nonce == known.nonce => Standing::Current,
            (Equal, Equal) => Standing::Copied,
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
        let standing = |instance, counter, nonce| {
            Start { instance, counter, nonce: [nonce; 8] }.standing(&known)
        };
        assert_eq!(standing(5, 2, 1), Standing::Current);
        assert_eq!(standing(5, 2, 9), Standing::Copied);
        assert_eq!(standing(5, 1, 1), Standing::Superseded);
        assert_eq!(standing(5, 3, 9), Standing::Later);
        assert_eq!(standing(4, 9, 1), Standing::Superseded);
        assert_eq!(standing(6, 0, 1), Standing::Unknown);
    }
}
