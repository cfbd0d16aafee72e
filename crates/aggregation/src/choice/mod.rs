//! Which member of a family of schemes a receiver should ask its peer for.
//!
//! A [`Family`] has five members, from the one that shares tags among the most records to plain
//! tags. The more records are lost, the less should be shared, and the longer payloads are, the
//! less sharing saves. Two rules watch the records of one direction and decide when to change to
//! another member:
//!
//! - [`LossRate`] compares the running loss rate with fitted [`boundary`] curves, as in Wagner et
//!   al., *MAC Aggregation over Lossy Channels in DTLS 1.3*, section III-D3;
//! - [`Hindsight`] computes what each member would have verified of the records just seen.
//!
//! [`replay`] holds the model by which both rules are judged. All arithmetic is on integers,
//! without heap. A rule asks for a change at most once in
//! [`tuning::BETWEEN_CHANGES`](crate::tuning::BETWEEN_CHANGES) records.

pub mod boundary;
mod hindsight;
mod loss_rate;
mod payload;
pub mod replay;

pub use hindsight::Hindsight;
pub use loss_rate::LossRate;

use crate::scheme::{Overprovision, Scheme, TAG_BYTES};

/// Number of members of a family.
pub const MEMBERS: usize = 5;

/// Schemes that differ only in how many records share a tag, plain tags among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// Agg(16), Agg(8), Agg(4), Agg(2), plain tags.
    Agg,
    /// R2D2(8, 50), R2D2(8, 100), R2D2(8, 150), R2D2(8, 200), plain tags.
    R2d2,
}

impl Family {
    /// The two families: Agg and R2D2.
    pub const ALL: [Self; 2] = [Self::Agg, Self::R2d2];

    /// The members, from the one that shares most to plain tags.
    pub const fn members(self) -> [Scheme; MEMBERS] {
        const fn agg(n: u8) -> Scheme {
            Scheme::agg(n).expect("n is from 2 to 16")
        }
        match self {
            Self::Agg => [agg(16), agg(8), agg(4), agg(2), Scheme::Plain],
            Self::R2d2 => {
                let [a, b, c, d] = Overprovision::ALL;
                [Scheme::R2d2(a), Scheme::R2d2(b), Scheme::R2d2(c), Scheme::R2d2(d), Scheme::Plain]
            }
        }
    }

    /// The index of a scheme among the [`members`](Self::members); `None` if it is not one of them.
    pub fn index_of(self, scheme: Scheme) -> Option<usize> {
        self.members().iter().position(|member| *member == scheme)
    }

    /// `scheme` if it is `offered`, otherwise the next member that is offered and shares less.
    /// Plain tags are always offered.
    pub fn nearest(self, scheme: Scheme, offered: impl Fn(Scheme) -> bool) -> Scheme {
        let place = self.index_of(scheme).unwrap_or(MEMBERS - 1);
        let members = self.members();
        members[place..].iter().copied().find(|s| offered(*s)).unwrap_or(Scheme::Plain)
    }

    /// The best member for payloads of `payload_bytes` if `loss` of 65 536 records are lost,
    /// according to the shipped boundaries.
    pub fn best(self, payload_bytes: u16, loss: u16) -> Scheme {
        self.members()[boundary::best(self, payload_bytes, loss)]
    }

    /// The family's name: `agg` or `r2d2`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Agg => "agg",
            Self::R2d2 => "r2d2",
        }
    }
}

/// The average length of the tags that authenticate data, per record, in sixteenths of a byte.
pub fn tag_sixteenths(scheme: Scheme) -> u32 {
    let full = 16 * TAG_BYTES as u32;
    let check = 16 * scheme.check_len() as u32;
    check
        + match scheme.unchecked() {
            Scheme::Plain => full,
            Scheme::Agg(n) => full.div_ceil(n.get().into()),
            scheme => 16 * scheme.largest_aggregate_len() as u32,
        }
}

/// How the receiver saw one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordFate {
    /// It arrived, with a payload of this length in bytes.
    Arrived(u16),
    /// It arrived and carries no application payload: a control record.
    Control,
    /// It is lost: later records arrived.
    Lost,
}
