//! A model of what each member of a family would verify if some records are lost.
//!
//! The model computes no tags. Under Agg(n) a record is verified if its whole set arrived. Under
//! R2D2 it is verified if 128 of the tag bits that cover it arrived together with all their other
//! members. A test compares the model with the real [`Sealer`](crate::Sealer) and
//! [`Opener`](crate::Opener).

use super::{Family, MEMBERS};
use crate::r2d2::rulers::RULERS;
use crate::scheme::Overprovision;
use crate::table::{REACH, SPAN};
use crate::tag_words::MAX_TAG_BITS;

/// How many later records must have been seen before a record is decided.
pub const DELAY: usize = REACH;

/// The security level, in bits, at which a record is verified.
const FULL: u32 = 128;

/// For each ruler, in the order of the list, the records it covers: bit d is the record d behind.
const MARKS: [u64; MAX_TAG_BITS] = {
    let mut marks = [0; MAX_TAG_BITS];
    let mut j = 0;
    while j < MAX_TAG_BITS {
        let mut k = 0;
        while k < RULERS[j].len() {
            marks[j] |= 1 << RULERS[j][k];
            k += 1;
        }
        j += 1;
    }
    marks
};

/// For each distance d, the rulers that have a mark at d: bit j is ruler j.
const COVERS: [u64; SPAN] = {
    let mut covers = [0; SPAN];
    let mut j = 0;
    while j < MAX_TAG_BITS {
        let mut k = 0;
        while k < RULERS[j].len() {
            covers[RULERS[j][k] as usize] |= 1 << j;
            k += 1;
        }
        j += 1;
    }
    covers
};

const ALL: u64 = (1 << MAX_TAG_BITS) - 1;

/// Whether each member verified a record, in the order of [`Family::members`].
pub type Verified = [bool; MEMBERS];

/// The records of one epoch under every member of a family at once, from record 0 on.
#[derive(Clone, Debug)]
pub struct Replay {
    family: Family,
    /// Number of the next record.
    next: u64,
    /// The records that arrived, the newest in bit 0. The records before record 0 count as arrived.
    arrived: u64,
    /// The bits of each tag of which all members arrived, indexed by record number modulo [`SPAN`].
    whole: [u64; SPAN],
    /// How many of the last tags in a row have all their bits whole, up to [`SPAN`].
    unbroken: usize,
}

impl Replay {
    /// A replay that expects record 0.
    pub const fn new(family: Family) -> Self {
        Self { family, next: 0, arrived: u64::MAX, whole: [0; SPAN], unbroken: 0 }
    }

    /// Takes the next record: whether it arrived. Returns whether each member verified the record
    /// [`DELAY`] before it, once there is one.
    ///
    /// To decide the last records, call this [`DELAY`] more times with lost records.
    pub fn note(&mut self, arrived: bool) -> Option<Verified> {
        let number = self.next;
        self.next += 1;
        self.arrived = self.arrived << 1 | u64::from(arrived);
        if self.family == Family::R2d2 {
            let whole = self.whole_bits();
            self.unbroken = if whole == ALL { (self.unbroken + 1).min(SPAN) } else { 0 };
            self.whole[(number % SPAN as u64) as usize] = whole;
        }
        let decided = number.checked_sub(DELAY as u64)?;
        Some(match self.family {
            _ if self.arrived >> DELAY & 1 == 0 => [false; MEMBERS],
            Family::Agg => self.agg(decided),
            Family::R2d2 => self.r2d2(decided),
        })
    }

    /// The bits of the newest tag of which all members arrived.
    fn whole_bits(&self) -> u64 {
        const REACHED: u64 = (1 << SPAN) - 1;
        if self.arrived & REACHED == REACHED {
            return ALL;
        }
        if self.arrived & 1 == 0 {
            return 0;
        }
        let whole = |j: usize| u64::from(MARKS[j] & !self.arrived == 0) << j;
        (0..MAX_TAG_BITS).fold(0, |bits, j| bits | whole(j))
    }

    fn agg(&self, number: u64) -> Verified {
        [16, 8, 4, 2, 1].map(|n| {
            let behind = number % n;
            // Bit 0 is the set's last record.
            let set = self.arrived >> (DELAY as u64 + behind + 1 - n);
            let whole = (1 << n) - 1;
            set & whole == whole
        })
    }

    fn r2d2(&self, number: u64) -> Verified {
        if self.unbroken == SPAN {
            return [true; MEMBERS];
        }
        let mut levels = [0; Overprovision::ALL.len()];
        for (ahead, covers) in COVERS.iter().enumerate() {
            let tag = ((number + ahead as u64) % SPAN as u64) as usize;
            let bits = self.whole[tag] & covers;
            if bits != 0 {
                for (level, o) in levels.iter_mut().zip(Overprovision::ALL) {
                    *level += (bits & ((1 << (8 * o.tag_bytes())) - 1)).count_ones();
                }
            }
        }
        let [a, b, c, d] = levels.map(|level| level >= FULL);
        [a, b, c, d, true]
    }
}
