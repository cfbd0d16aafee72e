//! What the received tags prove about the received records: which bits were checked, and each
//! record's security level.
//!
//! A record's security level is
//!
//! ```text
//! S(m) = Σ_i max(0, R_i − c_i) − 8·|K|      over the tags i that cover m
//! ```
//!
//! R_i is the number of checked bits of tag i that cover m. c_i is the cost of the alternatives
//! that were tried: ⌈log2(1 + a)⌉, where a counts the candidates for record i that were rejected
//! with bits of its own tag checked, plus 1 for each later evaluation of the tag that was given up.
//! K is the set of numbers within reach of m of which a record, or its tag, was set aside since the
//! number entered the window. An attacker who sees every verdict therefore raises a record that was
//! never sent to L bits with a probability of at most 2^(3−L) per record: each term pays for the
//! choices that the attacker could have made. A number remains in K even when another record takes
//! the place of the one set aside. If only the final success were charged, an attacker could go on
//! from each failure at no cost.
//!
//! When a record is set aside because of its own tag alone, the records whose bits did not
//! influence this decision are not charged. If the record was junk, those are nearly all of the
//! records that its tag covers.

use crate::bits::{Bits, each};
use crate::number::remainder;
use crate::table::{DependencyTable, LongTagWords, REACH, SPAN};
use crate::tag_words::{FewerWords, LongerWords, TagWords};
use zeroize::{Zeroize, ZeroizeOnDrop};

/// The security level, in bits, at which a record is verified.
pub(crate) const VERIFIED_LEVEL_BITS: i16 = 128;
/// Stored instead of the level of a verified record, which needs no further bits. It is so low that
/// added bits never bring it to [`VERIFIED_LEVEL_BITS`].
const SETTLED_LEVEL: i16 = i16::MIN / 2;
/// Bits that each number in K takes from a level.
const REJECTION_COST_BITS: i16 = 8;
/// Charges a tag's cost to all records that the tag covers.
pub(crate) const ALL_RECORDS: u64 = u64::MAX;
/// A mask of [`SPAN`] bits.
const SPAN_BITS: u64 = (1 << SPAN) - 1;

/// The sum of each tag in the window, by number modulo N.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
struct Sums<const N: usize>(TagWords<N>);

/// Words for the tags of records that may be held. The last [`REACH`] of the N numbers that the board has
/// sums for are those of tags still to come, of which nothing is checked or charged.
type TagsHeld<const N: usize> = FewerWords<N, REACH>;

/// A board for N consecutive numbers.
#[derive(Clone)]
pub(crate) struct Board<const N: usize> {
    /// For each number, the XOR of the received tag with the contributions of all records placed. A
    /// bit is 0 if all records that it covers are placed and it is right.
    sums: Sums<N>,
    /// The bits of each tag that were checked and right.
    checked: TagsHeld<N>,
    /// The level of each record in bits, before the deduction for K.
    levels: [i16; N],
    /// The [`Charge`] of each tag.
    charges: LongerWords<N, REACH>,
    /// Numbers that have a placed record.
    placed: Bits,
    /// Placed records whose tag is believed to be the genuine one.
    tagged: Bits,
    /// The set K of the module's documentation.
    rejected_numbers: Bits,
    /// Numbers that belong to K only for the records their tag's cost is charged to.
    rejected_by_own_tag: Bits,
}

/// What a tag takes from the levels of the records that it covers, and from which of them: bit d is the
/// record d before the tag's. Two counts of a byte each are above.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Charge(u64);

impl Charge {
    /// The bytes in use.
    const BYTES: usize = 7;
    /// The lowest bit of the number of candidates that were evaluated as the tag's record and rejected.
    const REJECTED: u32 = 40;
    /// The lowest bit of the number of later evaluations of the tag that were given up.
    const RETRIED: u32 = 48;

    const fn rejected(self) -> u8 {
        (self.0 >> Self::REJECTED) as u8
    }

    const fn retried(self) -> u8 {
        (self.0 >> Self::RETRIED) as u8
    }

    const fn is_charged(self, behind: usize) -> bool {
        self.0 >> behind & 1 == 1
    }

    /// The cost c_i in bits.
    fn cost(self) -> i16 {
        let tried = i16::from(self.rejected()) + 1;
        let bits =
            15 - (tried.leading_zeros() as i16) + i16::from(!(tried as u16).is_power_of_two());
        bits + i16::from(self.retried())
    }

    /// Adds 1 to a count, which stays at 255, and charges all to these records too.
    const fn add(self, count: u32, records: u64) -> Self {
        let is_most = (self.0 >> count) as u8 == u8::MAX;
        let more = if is_most { 0 } else { 1 << count };
        Self((self.0 + more) | (records & SPAN_BITS))
    }
}

/// The tag bits that can be checked once a record is placed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Evaluation {
    /// Bits of the record's own tag that can be checked now; those of them that are wrong are in
    /// `own_wrong`.
    pub(crate) own: u64,
    pub(crate) own_wrong: u64,
    /// Later tags with bits that this record completes: bit d − 1 is the tag d numbers ahead. The
    /// tags among them with wrong bits are in `later_wrong`.
    pub(crate) later: u64,
    pub(crate) later_wrong: u64,
}

impl Evaluation {
    pub(crate) const fn is_right(&self) -> bool {
        self.own_wrong == 0 && self.later_wrong == 0
    }

    /// The part of the evaluation that concerns the record's own tag.
    pub(crate) const fn own_alone(&self) -> Self {
        Self { later: 0, later_wrong: 0, ..*self }
    }

    /// The number of the tag with wrong bits, if exactly one tag has any.
    pub(crate) const fn only_wrong(&self, number: u64) -> Option<u64> {
        match (self.own_wrong, self.later_wrong.count_ones()) {
            (0, 1) => Some(number + 1 + self.later_wrong.trailing_zeros() as u64),
            (own, 0) if own != 0 => Some(number),
            _ => None,
        }
    }
}

impl<const N: usize> Board<N> {
    /// A board without records. All of its bytes are zero.
    pub(crate) const EMPTY: Self = Self {
        sums: Sums(TagWords::ZERO),
        checked: FewerWords::<N, REACH>::ZERO,
        levels: [0; N],
        charges: LongerWords::<N, REACH>::ZERO,
        placed: Bits::EMPTY,
        tagged: Bits::EMPTY,
        rejected_numbers: Bits::EMPTY,
        rejected_by_own_tag: Bits::EMPTY,
    };

    /// Makes an empty board ready for tags of this number of bytes.
    pub(crate) fn set_up(&mut self, bytes: usize) {
        self.sums.0.set_up(bytes);
        self.checked.set_up(bytes);
        self.charges.set_up(Charge::BYTES);
    }

    /// Forgets the number that leaves the window and clears its place for another one. `entering`
    /// is the number that enters the window at the other end.
    pub(crate) fn slide(&mut self, leaving: u64, entering: u64) {
        self.sums.0.set(place::<N>(leaving), 0);
        let at = place_held::<N>(leaving);
        self.checked.set(at, 0);
        self.charges.set(at, 0);
        let kinds = [
            &mut self.placed,
            &mut self.tagged,
            &mut self.rejected_numbers,
            &mut self.rejected_by_own_tag,
        ];
        for bits in kinds {
            bits.clear(leaving);
        }
        // Tags still in the window go on adding to the levels of records that have left it, so a
        // level is cleared only when its place is used again.
        self.levels[place::<N>(entering)] = 0;
    }

    /// Adds a record's contributions and its tag to the sums, or takes them out again: XOR does
    /// both.
    pub(crate) fn xor_record(
        &mut self,
        table: &DependencyTable,
        number: u64,
        words: &LongTagWords,
        tag: u64,
    ) {
        let at = place::<N>(number);
        self.distribute(table, at, words);
        self.sums.0.set(at, self.sums.0.get(at) ^ tag);
    }

    /// Adds the words of a long tag to the tag at this place and to the later tags.
    #[cfg(feature = "fast")]
    fn distribute(&mut self, table: &DependencyTable, at: usize, words: &LongTagWords) {
        if let Some(tags) = self.sums.0.run(at) {
            table.distribute(words, tags);
        } else {
            let mut tags = [0; SPAN];
            table.distribute(words, &mut tags);
            for (behind, sum) in tags.into_iter().enumerate() {
                let at = (at + behind) % N;
                self.sums.0.set(at, self.sums.0.get(at) ^ sum);
            }
            tags.zeroize();
        }
    }

    /// As with the feature `fast`, tag by tag.
    #[cfg(not(feature = "fast"))]
    fn distribute(&mut self, table: &DependencyTable, at: usize, words: &LongTagWords) {
        let sums = &mut self.sums.0;
        table.distribute_by(words, |behind, part| {
            let later = at + behind;
            sums.xor(if later < N { later } else { later - N }, part);
        });
    }

    /// Marks a record as placed, with its tag or without.
    pub(crate) fn place(&mut self, number: u64, tagged: bool) {
        self.placed.set(number);
        if tagged {
            self.tagged.set(number);
        }
    }

    /// Marks a number as having no placed record.
    pub(crate) fn remove(&mut self, number: u64) {
        self.placed.clear(number);
        self.tagged.clear(number);
    }

    /// Marks a record as placed whose own tag is right in all bits. `level` is its level; `None` if
    /// it is verified.
    pub(crate) fn restore(&mut self, table: &DependencyTable, number: u64, level: Option<i16>) {
        let at = place::<N>(number);
        self.place(number, true);
        self.checked.set(place_held::<N>(number), table.all());
        self.levels[at] = level.unwrap_or(SETTLED_LEVEL);
        // The sum already contains the contributions of this record and the earlier ones. As all
        // bits of the tag are right, it is 0.
        self.sums.0.set(at, 0);
    }

    /// Whether all bits of a record's tag were right at the first evaluation.
    pub(crate) fn tag_was_right(&self, table: &DependencyTable, number: u64) -> bool {
        let Contribution { checked, charge } = self.contribution(number);
        checked == table.all() && charge == Charge(0) && self.tagged.get(number)
    }

    /// Whether no number is in K.
    pub(crate) fn is_undisputed(&self) -> bool {
        self.rejected_numbers.is_empty() && self.rejected_by_own_tag.is_empty()
    }

    /// Whether the number has a placed record.
    pub(crate) fn is_placed(&self, number: u64) -> bool {
        self.placed.get(number)
    }

    /// The bits of the tag of `number` whose other records are all placed. Records before record 0
    /// do not exist and are not missing.
    fn complete(&self, table: &DependencyTable, number: u64) -> u64 {
        let reach = REACH as u64;
        let mut missing = !self.placed.from(number.wrapping_sub(reach)) & SPAN_BITS;
        if number < reach {
            missing &= SPAN_BITS << (reach - number);
        }
        let mut lacking = 0;
        each(missing, |at| lacking |= table.covers(REACH - at));
        table.all() & !lacking
    }

    /// Evaluates the bits that can be checked with the record `number` as it is placed.
    pub(crate) fn evaluate(&self, table: &DependencyTable, number: u64) -> Evaluation {
        let mut evaluation = Evaluation::default();
        if self.tagged.get(number) {
            evaluation.own = self.complete(table, number) & !self.checked(number);
            evaluation.own_wrong = evaluation.own & self.sums.0.get(place::<N>(number));
        }
        each(self.tagged.from(number + 1) & (SPAN_BITS >> 1), |ahead| {
            let fresh = self.fresh(table, number, ahead + 1);
            if fresh != 0 {
                evaluation.later |= 1 << ahead;
                let sum = self.sums.0.get(place::<N>(number + 1 + ahead as u64));
                let wrong = fresh & sum != 0;
                evaluation.later_wrong |= u64::from(wrong) << ahead;
            }
        });
        evaluation
    }

    /// The bits that the record `number` completed in the tag that is `ahead` numbers after it.
    fn fresh(&self, table: &DependencyTable, number: u64, ahead: usize) -> u64 {
        let tag = number + ahead as u64;
        self.complete(table, tag) & table.covers(ahead) & !self.checked(tag)
    }

    /// The bits that the record `number` completed in the tag that is `ahead` numbers after it, and
    /// those of them that are wrong.
    pub(crate) fn fresh_and_wrong(
        &self,
        table: &DependencyTable,
        number: u64,
        ahead: usize,
    ) -> (u64, u64) {
        let fresh = self.fresh(table, number, ahead);
        (fresh, fresh & self.sums.0.get(place::<N>(number + ahead as u64)))
    }

    /// Credits the right bits that a placed record has completed to the levels of the records they
    /// cover.
    pub(crate) fn credit(&mut self, table: &DependencyTable, number: u64, evaluation: &Evaluation) {
        let own = self.checked(number) | evaluation.own;
        self.update_tag(table, number, |board, at| board.checked.set(at, own));
        each(evaluation.later, |ahead| {
            let fresh = self.fresh(table, number, ahead + 1);
            self.update_tag(table, number + 1 + ahead as u64, |board, at| {
                board.checked.set(at, board.checked.get(at) | fresh);
            });
        });
    }

    /// Charges a failed evaluation of the record `number`: that of its own tag to the records
    /// `charged`, of which bit d is the record d before it, and those of later tags to all records
    /// they cover.
    pub(crate) fn charge(
        &mut self,
        table: &DependencyTable,
        number: u64,
        evaluation: &Evaluation,
        charged: u64,
    ) {
        if evaluation.own != 0 {
            self.update_tag(table, number, |board, at| {
                board.charge_tag(at, Charge::REJECTED, charged);
            });
        }
        each(evaluation.later, |ahead| {
            self.charge_later(table, number + 1 + ahead as u64, ALL_RECORDS);
        });
    }

    /// Charges a later evaluation of a tag that was given up to the records `charged`.
    pub(crate) fn charge_later(&mut self, table: &DependencyTable, tag: u64, charged: u64) {
        self.update_tag(table, tag, |board, at| {
            board.charge_tag(at, Charge::RETRIED, charged);
        });
    }

    fn charge_tag(&mut self, at: usize, count: u32, charged: u64) {
        self.charges.set(at, Charge(self.charges.get(at)).add(count, charged).0);
    }

    /// Takes a record off the board and revokes all checks it took part in, passed ones too. The
    /// cost is charged to the records `charged`, of which bit d is the record d before it.
    pub(crate) fn withdraw(
        &mut self,
        table: &DependencyTable,
        number: u64,
        words: &LongTagWords,
        tag: u64,
        charged: u64,
    ) {
        self.distrust_tag(table, number, charged);
        self.xor_record(table, number, words, tag);
        self.placed.clear(number);
        for ahead in 1..=REACH {
            let later = number + ahead as u64;
            if self.tagged.get(later) && self.checked(later) & table.covers(ahead) != 0 {
                self.update_tag(table, later, |board, at| {
                    board.checked.set(at, board.checked.get(at) & !table.covers(ahead));
                });
                let charged = if charged == ALL_RECORDS { ALL_RECORDS } else { charged << ahead };
                self.charge_later(table, later, charged);
            }
        }
    }

    /// Stops using a record's tag and revokes its checked bits.
    pub(crate) fn distrust_tag(&mut self, table: &DependencyTable, number: u64, charged: u64) {
        if self.checked(number) != 0 {
            self.update_tag(table, number, |board, at| board.checked.set(at, 0));
            self.charge_later(table, number, charged);
        }
        self.tagged.clear(number);
    }

    /// Sets whether the number belongs to K.
    pub(crate) fn set_aside(&mut self, number: u64, aside: bool) {
        self.rejected_by_own_tag.clear(number);
        if aside {
            self.rejected_numbers.set(number);
        } else {
            self.rejected_numbers.clear(number);
        }
    }

    /// Adds the number to K for those records only that its tag's cost is charged to.
    pub(crate) fn reject_by_own_tag(&mut self, number: u64) {
        if !self.rejected_numbers.get(number) {
            self.rejected_by_own_tag.set(number);
        }
    }

    /// Number of right bits of a record's own tag, which bind its content to the records before it.
    pub(crate) fn support(&self, number: u64) -> u32 {
        self.checked(number).count_ones()
    }

    /// Number of right bits that cover this record, less the charges.
    pub(crate) fn passed(&self, number: u64) -> u32 {
        self.levels[place::<N>(number)].max(0) as u32
    }

    /// A record's security level in bits: verified from 128 on, negative once it is settled.
    pub(crate) fn level(&self, number: u64) -> i16 {
        let level = self.levels[place::<N>(number)];
        if level < 0 {
            return level;
        }
        let reach = REACH as u64;
        let mut rejections = 0;
        if !self.rejected_numbers.is_empty() {
            let before = self.rejected_numbers.from(number.wrapping_sub(reach)) & SPAN_BITS;
            let after = self.rejected_numbers.from(number + 1) & (SPAN_BITS >> 1);
            rejections = before.count_ones() + after.count_ones();
        }
        each(self.rejected_by_own_tag.from(number + 1) & (SPAN_BITS >> 1), |ahead| {
            let charge = self.charge_of(number + 1 + ahead as u64);
            rejections += u32::from(charge.is_charged(ahead + 1));
        });
        level - REJECTION_COST_BITS * rejections as i16
    }

    /// Marks a record as verified: its level is no longer computed.
    pub(crate) fn settle(&mut self, number: u64) {
        self.levels[place::<N>(number)] = SETTLED_LEVEL;
    }

    /// Whether a record that `tag` covers may have reached 128 bits and is not settled yet.
    pub(crate) fn any_at_verified_level(&self, tag: u64) -> bool {
        match tag
            .checked_sub(REACH as u64)
            .and_then(|first| self.levels[place::<N>(first)..].first_chunk())
        {
            Some(levels) => {
                let levels: &[i16; SPAN] = levels;
                levels.iter().fold(false, |any, level| any | is_verified_level(*level))
            }
            None => true,
        }
    }

    /// Changes the stored results of a tag, and with them the levels of all records that it covers.
    fn update_tag(
        &mut self,
        table: &DependencyTable,
        tag: u64,
        change: impl FnOnce(&mut Self, usize),
    ) {
        let before = self.contribution(tag);
        change(self, place_held::<N>(tag));
        self.update_levels(table, tag, before);
    }

    /// Changes the levels of all records that a tag covers, after what it contributes has changed.
    fn update_levels(&mut self, table: &DependencyTable, tag: u64, before: Contribution) {
        let after = self.contribution(tag);
        if before == after {
            return;
        }
        if before.checked == 0
            && after.checked == table.all()
            && after.charge.cost() == 0
            && let Some(first) = tag.checked_sub(REACH as u64)
            && let Some(levels) = self.levels[place::<N>(first)..].first_chunk_mut()
        {
            let levels: &mut [i16; SPAN] = levels;
            for (level, count) in levels.iter_mut().zip(table.counts()) {
                *level += i16::from(*count);
            }
            return;
        }
        for behind in 0..=REACH.min(tag.min(REACH as u64) as usize) {
            let more = after.for_record(table, behind) - before.for_record(table, behind);
            self.levels[place::<N>(tag - behind as u64)] += more;
        }
    }

    /// The bits of a tag of the window that were checked and right.
    fn checked(&self, tag: u64) -> u64 {
        self.checked.get(place_held::<N>(tag))
    }

    fn charge_of(&self, tag: u64) -> Charge {
        Charge(self.charges.get(place_held::<N>(tag)))
    }

    fn contribution(&self, tag: u64) -> Contribution {
        Contribution { checked: self.checked(tag), charge: self.charge_of(tag) }
    }
}

/// What a tag contributes to the levels of the records that it covers.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Contribution {
    checked: u64,
    charge: Charge,
}

impl Contribution {
    /// max(0, R_i − c_i) for the record `behind` numbers before the tag's; c_i is 0 if it is not
    /// charged to that record.
    fn for_record(&self, table: &DependencyTable, behind: usize) -> i16 {
        let cost = if self.charge.is_charged(behind) { self.charge.cost() } else { 0 };
        ((self.checked & table.covers(behind)).count_ones() as i16 - cost).max(0)
    }
}

/// The records covered by a tag whose bits influenced the decision to set its record aside
/// because of these wrong bits. Bit d of all masks is the record d before the tag's. The
/// records `pending` had arrived by then. The records `suspects` would have been set aside
/// instead if they explained all wrong bits. The record `accused` was set aside: it explains
/// them all, whichever bits are wrong.
///
/// A pending record did not influence the decision if, among the wrong bits that do not cover
/// it, at least one remains that no other suspect explains: more wrong bits would not have
/// changed the decision.
pub(crate) fn influencing_records(
    table: &DependencyTable,
    wrong: u64,
    pending: u64,
    suspects: u64,
    accused: usize,
) -> u64 {
    let mut influencing = 1 | 1 << accused;
    each(pending & !influencing, |behind| {
        let rest = wrong & !table.covers(behind);
        let mut explained = rest == 0;
        each(suspects & !(1 << accused | 1 << behind), |other| {
            explained |= rest & !table.covers(other) == 0;
        });
        influencing |= u64::from(explained) << behind;
    });
    influencing
}

/// Whether a level makes a record verified.
pub(crate) const fn is_verified_level(level: i16) -> bool {
    level >= VERIFIED_LEVEL_BITS
}

/// The place of a record number on a board for `N` of them.
pub(super) const fn place<const N: usize>(number: u64) -> usize {
    remainder(number, const { N as u16 }) as usize
}

/// The place of a tag whose record may be held.
const fn place_held<const N: usize>(number: u64) -> usize {
    remainder(number, const { TagsHeld::<N>::LEN as u16 }) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::DependencySets;

    #[test]
    fn trying_costs_the_logarithm_rounded_up() {
        let costs = [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (7, 3), (8, 4), (255, 8)];
        for (rejected, cost) in costs {
            let charge = (0..rejected).fold(Charge(0), |sum, _| sum.add(Charge::REJECTED, 1));
            assert_eq!(charge.cost(), cost, "{rejected} rejected");
        }
    }

    /// Each record is covered by two bits. A record is concerned if it could be blamed, or if its
    /// bits could be the ones that were guessed.
    #[test]
    fn a_rejection_is_charged_to_the_records_whose_bits_influenced_it() {
        let set = |bit: usize| core::array::from_fn(|k| (bit / 3 + 9 * k.min(3)) as u8);
        let sets = (0..24).map(set).collect::<std::vec::Vec<_>>().leak();
        let table = DependencyTable::new(&DependencySets::new(3, sets, |bit| bit));
        let covers = |behind| table.covers(behind);
        let pending = 0xff << 9;
        let influencing = |wrong| influencing_records(&table, wrong, pending, pending, 0);
        // No single record explains the wrong bits of three records. They all belong to the tag's
        // own record.
        assert_eq!(influencing(covers(9) | covers(10) | covers(11)), 1);
        // With the wrong bits of two records, either would be the explanation but for the other's
        // bits.
        let two = covers(9) | covers(10);
        assert_eq!(influencing(two), 0b11 << 9 | 1);
        // If one record explains all wrong bits, its bits may be the guessed ones, and it may be
        // set aside in place of others.
        assert_eq!(influencing(covers(9)), pending | 1);
        assert_eq!(influencing_records(&table, covers(9), pending, 0, 0), 1 << 9 | 1);
        assert_eq!(influencing_records(&table, two, pending, 0, 0), 1);
        // A record that explains all wrong bits anyway is the accused one and does not count as
        // another suspect.
        assert_eq!(influencing_records(&table, two, pending, pending, 9), 1 << 9 | 1);
    }
}
