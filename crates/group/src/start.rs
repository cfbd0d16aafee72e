//! Which run of a member's program speaks, so that a copy of a device is told from the device.
//!
//! An *instance* is what one join made. It is named by the epoch that it began in: a later join of
//! the same device has a later one. Each time a member's program starts it raises the instance's
//! counter on its own storage, draws a nonce that it keeps in memory alone, and tells both to the
//! controller before it seals anything. The controller takes each counter once, so of two copies
//! of one state at most one goes on.

use core::fmt;
use vocabulary::wire::BufferFull;
use vocabulary::{Decode, DecodeError, Encode, Reader, Writer};

/// One start of a member's program.
///
/// ```text
/// instance (8) ‖ counter (4) ‖ nonce (8)
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// The epoch in which the instance joined.
    pub instance: u64,
    /// How often its program has started since: 0 in the run that joined.
    pub counter: u32,
    /// Drawn for this start and never stored by the member.
    pub nonce: [u8; 8],
}

/// How a start that a request names stands to the one that the controller knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is the start that the controller knows.
    Current,
    /// A later start of the same instance, of which the controller has not heard.
    Later,
    /// An earlier start, or an earlier instance: another one has taken its place.
    Superseded,
    /// Another run has used this counter: their states are copies of each other.
    Copied,
    /// A later instance than the controller knows, which has been restored from a backup.
    Unknown,
}

impl Start {
    /// Bytes of an encoded start.
    pub const BYTES: usize = 20;

    /// How this start stands to the one that the controller knows.
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
