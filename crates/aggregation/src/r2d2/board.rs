//! What the tags that came say of the records that came: the account.
//!
//! A record's security level is
//!
//! ```text
//! S(m) = Σ_i max(0, R_i − c_i) − 8·|K|      over the tags i that cover m
//! ```
//!
//! R_i counts the checked bits of tag i that cover m. c_i is what trying cost: log2 of the
//! assignments under which the tag's own arrival was evaluated, and 1 for each later evaluation
//! that was given up. K are the numbers within reach of which a record, or its tag, was set aside
//! since they came into the window. An attacker who sees every verdict then raises a record that was never sent to L bits
//! with a chance of 2^(3-L) a record at most: each term pays for the choices it could have made.
//! That what came in place of another stands does not take its number out of K: whoever is
//! charged only for success goes on from failure for nothing.
//!
//! A record that goes because of its own tag alone is no choice as to those records whose bits had
//! no say in it: they are not charged. That is nearly all of them where it was junk.

use crate::bits::{Bits, NUMBERS, each};
use crate::r2d2::table::{REACH, SPAN, Table, Words};
use zeroize::{Zeroize, ZeroizeOnDrop};

/// A level that is final.
pub(crate) const FULL: i16 = 128;
/// What a verified record needs no more.
const SETTLED: i16 = i16::MIN / 2;
/// Bits that each number of K takes from a level.
const ASIDE: i16 = 8;
/// A tag's charge to all that it covers.
pub(crate) const EVERYBODY: u64 = u64::MAX;
/// All of a span's bits.
const SPAN_BITS: u64 = (1 << SPAN) - 1;

/// Sums and levels of the numbers in the window, by number modulo [`NUMBERS`].
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
struct Sums([u64; NUMBERS]);

#[derive(Clone)]
pub(crate) struct Board {
    /// Of each tag: itself and what the records placed so far add to it. Zero where it is complete
    /// and right.
    sums: Sums,
    /// Bits of each tag that were complete and right.
    checked: [u64; NUMBERS],
    /// Bits of each record's level, K not yet taken off.
    levels: [i16; NUMBERS],
    /// Assignments of a tag's own arrival that were rejected.
    rejected: [u8; NUMBERS],
    /// Which records that is charged to: bit d is the one d behind the tag.
    charged: [u64; NUMBERS],
    /// Later evaluations of a tag that were given up.
    retried: [u8; NUMBERS],
    /// Records that are placed.
    placed: Bits,
    /// Those of them whose tag is believed to be theirs.
    tagged: Bits,
    /// K.
    aside: Bits,
    /// As much of K as concerns only the records charged.
    rejected_alone: Bits,
}

/// What a record's arrival lets one check.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Evaluation {
    /// Bits of its own tag, and those of them that are wrong.
    pub(crate) own: u64,
    pub(crate) own_wrong: u64,
    /// Tags after it with bits that it completes, and those of them with wrong ones; bit d − 1 is
    /// the tag d ahead.
    pub(crate) later: u64,
    pub(crate) later_wrong: u64,
}

impl Evaluation {
    pub(crate) const fn is_right(&self) -> bool {
        self.own_wrong == 0 && self.later_wrong == 0
    }

    /// What its own tag says.
    pub(crate) const fn own_alone(&self) -> Self {
        Self { later: 0, later_wrong: 0, ..*self }
    }

    /// The one tag that has wrong bits, if there is but one.
    pub(crate) const fn only_wrong(&self, number: u64) -> Option<u64> {
        match (self.own_wrong, self.later_wrong.count_ones()) {
            (0, 1) => Some(number + 1 + self.later_wrong.trailing_zeros() as u64),
            (own, 0) if own != 0 => Some(number),
            _ => None,
        }
    }
}

impl Board {
    pub(crate) fn new() -> Self {
        Self {
            sums: Sums([0; NUMBERS]),
            checked: [0; NUMBERS],
            levels: [0; NUMBERS],
            rejected: [0; NUMBERS],
            charged: [0; NUMBERS],
            retried: [0; NUMBERS],
            placed: Bits::default(),
            tagged: Bits::default(),
            aside: Bits::default(),
            rejected_alone: Bits::default(),
        }
    }

    /// Forgets a number that leaves the window and makes its place ready for another. `entering`
    /// is the one that comes in at the other end.
    pub(crate) fn slide(&mut self, leaving: u64, entering: u64) {
        let at = place(leaving);
        (self.sums.0[at], self.checked[at], self.rejected[at], self.retried[at]) = (0, 0, 0, 0);
        self.charged[at] = 0;
        let kinds = [&mut self.placed, &mut self.tagged, &mut self.aside, &mut self.rejected_alone];
        for bits in kinds {
            bits.clear(leaving);
        }
        // Tags that have not left yet still credit what has.
        self.levels[place(entering)] = 0;
    }

    /// Places a record, or takes it away again, with the tag it carried.
    pub(crate) fn flip(&mut self, table: &Table, number: u64, words: &Words, tag: u64) {
        let at = place(number);
        if let Some(tags) = self.sums.0[at..].first_chunk_mut() {
            table.deal(words, tags);
        } else {
            let mut tags = [0; SPAN];
            table.deal(words, &mut tags);
            for (behind, sum) in tags.into_iter().enumerate() {
                self.sums.0[(at + behind) % NUMBERS] ^= sum;
            }
            tags.zeroize();
        }
        self.sums.0[at] ^= tag;
    }

    /// Notes that a record stands, with its tag or without.
    pub(crate) fn place(&mut self, number: u64, tagged: bool) {
        self.placed.set(number);
        if tagged {
            self.tagged.set(number);
        }
    }

    /// Notes that a record stands no longer.
    pub(crate) fn remove(&mut self, number: u64) {
        self.placed.clear(number);
        self.tagged.clear(number);
    }

    /// Places a record whose own tag is right in all bits.
    pub(crate) fn restore(&mut self, table: &Table, number: u64, level: Option<i16>) {
        let at = place(number);
        self.place(number, true);
        (self.checked[at], self.levels[at]) = (table.all(), level.unwrap_or(SETTLED));
        // What it and those before it give the tags up to its own is in there.
        self.sums.0[at] = 0;
    }

    /// Whether all bits of a record's tag were right at once.
    pub(crate) fn is_right(&self, table: &Table, number: u64) -> bool {
        let at = place(number);
        let tried = self.rejected[at] > 0 || self.retried[at] > 0;
        self.checked[at] == table.all() && !tried && self.tagged.get(number)
    }

    /// Whether nothing is set aside.
    pub(crate) fn is_undisputed(&self) -> bool {
        self.aside.is_empty() && self.rejected_alone.is_empty()
    }

    /// Whether a record stands.
    pub(crate) fn is_placed(&self, number: u64) -> bool {
        self.placed.get(number)
    }

    /// Bits of tag `number` whose other participants have all come. Participants before record 0
    /// do not exist.
    fn complete(&self, table: &Table, number: u64) -> u64 {
        let reach = REACH as u64;
        let mut missing = !self.placed.from(number.wrapping_sub(reach)) & SPAN_BITS;
        if number < reach {
            missing &= SPAN_BITS << (reach - number);
        }
        let mut lacking = 0;
        each(missing, |at| lacking |= table.covers(REACH - at));
        table.all() & !lacking
    }

    /// What the record `number`, as it is placed, lets one check.
    pub(crate) fn evaluate(&self, table: &Table, number: u64) -> Evaluation {
        let mut evaluation = Evaluation::default();
        if self.tagged.get(number) {
            let at = place(number);
            evaluation.own = self.complete(table, number) & !self.checked[at];
            evaluation.own_wrong = evaluation.own & self.sums.0[at];
        }
        each(self.tagged.from(number + 1) & (SPAN_BITS >> 1), |ahead| {
            let fresh = self.fresh(table, number, ahead + 1);
            if fresh != 0 {
                evaluation.later |= 1 << ahead;
                let wrong = fresh & self.sums.0[place(number + 1 + ahead as u64)] != 0;
                evaluation.later_wrong |= u64::from(wrong) << ahead;
            }
        });
        evaluation
    }

    /// Bits of the tag `ahead` of a number that its record has completed.
    fn fresh(&self, table: &Table, number: u64, ahead: usize) -> u64 {
        let tag = number + ahead as u64;
        self.complete(table, tag) & table.covers(ahead) & !self.checked[place(tag)]
    }

    /// Bits of the tag `ahead` of a number that its record has completed, and the wrong ones.
    pub(crate) fn fresh_and_wrong(&self, table: &Table, number: u64, ahead: usize) -> (u64, u64) {
        let fresh = self.fresh(table, number, ahead);
        (fresh, fresh & self.sums.0[place(number + ahead as u64)])
    }

    /// Takes into the accounts what a placed record has completed.
    pub(crate) fn credit(&mut self, table: &Table, number: u64, evaluation: &Evaluation) {
        let own = self.checked[place(number)] | evaluation.own;
        self.recheck(table, number, |board, at| board.checked[at] = own);
        each(evaluation.later, |ahead| {
            let fresh = self.fresh(table, number, ahead + 1);
            self.recheck(table, number + 1 + ahead as u64, |board, at| board.checked[at] |= fresh);
        });
    }

    /// Charges the tags that were evaluated for a record in vain: its own to the records `whose`,
    /// by how far behind it they are, others to all.
    pub(crate) fn charge(
        &mut self,
        table: &Table,
        number: u64,
        evaluation: &Evaluation,
        whose: u64,
    ) {
        if evaluation.own != 0 {
            self.recheck(table, number, |board, at| {
                board.rejected[at] = board.rejected[at].saturating_add(1);
                board.charged[at] |= whose;
            });
        }
        each(evaluation.later, |ahead| {
            self.charge_later(table, number + 1 + ahead as u64, EVERYBODY);
        });
    }

    /// Charges a later evaluation of a tag that is given up to the records `whose`.
    pub(crate) fn charge_later(&mut self, table: &Table, tag: u64, whose: u64) {
        self.recheck(table, tag, |board, at| {
            board.retried[at] = board.retried[at].saturating_add(1);
            board.charged[at] |= whose;
        });
    }

    /// Takes a record away: all checks it took part in, passed ones too, which is charged to the
    /// records `whose`, by how far behind it they are.
    pub(crate) fn take_away(
        &mut self,
        table: &Table,
        number: u64,
        words: &Words,
        tag: u64,
        whose: u64,
    ) {
        self.distrust_tag(table, number, whose);
        self.flip(table, number, words, tag);
        self.placed.clear(number);
        for ahead in 1..=REACH {
            let later = number + ahead as u64;
            if self.checked[place(later)] & table.covers(ahead) != 0 && self.tagged.get(later) {
                self.recheck(table, later, |board, at| board.checked[at] &= !table.covers(ahead));
                let whose = if whose == EVERYBODY { EVERYBODY } else { whose << ahead };
                self.charge_later(table, later, whose);
            }
        }
    }

    /// Believes a record's tag no longer.
    pub(crate) fn distrust_tag(&mut self, table: &Table, number: u64, whose: u64) {
        if self.checked[place(number)] != 0 {
            self.recheck(table, number, |board, at| board.checked[at] = 0);
            self.charge_later(table, number, whose);
        }
        self.tagged.clear(number);
    }

    /// Whether the number belongs to K.
    pub(crate) fn set_aside(&mut self, number: u64, aside: bool) {
        self.rejected_alone.clear(number);
        if aside {
            self.aside.set(number);
        } else {
            self.aside.clear(number);
        }
    }

    /// The number belongs to K as to the records that its tag is charged to.
    pub(crate) fn reject_alone(&mut self, number: u64) {
        if !self.aside.get(number) {
            self.rejected_alone.set(number);
        }
    }

    /// Of the records that a tag covers, those whose bits had a say in that its record was set
    /// aside for these wrong bits; bit d is the one d behind. Of them `pending` came before,
    /// `suspects` would have been set aside instead if they explained all wrong bits, and
    /// `accused` explains them all, whatever they are.
    ///
    /// The others' bits had none if among the rest a wrong one remains that no other suspect
    /// explains: more wrong bits would not have changed that.
    pub(crate) fn concerned(
        table: &Table,
        wrong: u64,
        pending: u64,
        suspects: u64,
        accused: usize,
    ) -> u64 {
        let mut concerned = 1 | 1 << accused;
        each(pending & !concerned, |behind| {
            let rest = wrong & !table.covers(behind);
            let mut explained = rest == 0;
            each(suspects & !(1 << accused | 1 << behind), |other| {
                explained |= rest & !table.covers(other) == 0;
            });
            concerned |= u64::from(explained) << behind;
        });
        concerned
    }

    /// Bits of a record's own tag that were right: what binds its body to those before it.
    pub(crate) fn support(&self, number: u64) -> u32 {
        self.checked[place(number)].count_ones()
    }

    /// Bits that were right with this record, charges taken off.
    pub(crate) fn passed(&self, number: u64) -> u32 {
        self.levels[place(number)].max(0) as u32
    }

    /// A record's level; a final one is at least 128.
    pub(crate) fn level(&self, number: u64) -> i16 {
        let level = self.levels[place(number)];
        if level < 0 {
            return level;
        }
        let reach = REACH as u64;
        let mut aside = 0;
        if !self.aside.is_empty() {
            let before = self.aside.from(number.wrapping_sub(reach)) & SPAN_BITS;
            let after = self.aside.from(number + 1) & (SPAN_BITS >> 1);
            aside = before.count_ones() + after.count_ones();
        }
        each(self.rejected_alone.from(number + 1) & (SPAN_BITS >> 1), |ahead| {
            let charged = self.charged[place(number + 1 + ahead as u64)];
            aside += (charged >> (ahead + 1) & 1) as u32;
        });
        level - ASIDE * aside as i16
    }

    /// Needs no more bits.
    pub(crate) fn settle(&mut self, number: u64) {
        self.levels[place(number)] = SETTLED;
    }

    /// Whether some record that `tag` covers may have come to a final level and is not settled.
    pub(crate) fn any_full(&self, tag: u64) -> bool {
        match tag
            .checked_sub(REACH as u64)
            .and_then(|first| self.levels[place(first)..].first_chunk())
        {
            Some(levels) => {
                let levels: &[i16; SPAN] = levels;
                levels.iter().fold(false, |any, level| any | is_full(*level))
            }
            None => true,
        }
    }

    /// Changes what is known of a tag, and with it the levels of all that it covers.
    fn recheck(&mut self, table: &Table, tag: u64, change: impl FnOnce(&mut Self, usize)) {
        let at = place(tag);
        let before = self.worth(at);
        change(self, at);
        let after = self.worth(at);
        if before == after {
            return;
        }
        if before.checked == 0
            && after.checked == table.all()
            && after.cost == 0
            && let Some(first) = tag.checked_sub(REACH as u64)
            && let Some(levels) = self.levels[place(first)..].first_chunk_mut()
        {
            let levels: &mut [i16; SPAN] = levels;
            for (level, count) in levels.iter_mut().zip(table.counts()) {
                *level += count;
            }
            return;
        }
        for behind in 0..=REACH.min(tag.min(REACH as u64) as usize) {
            let more = after.to(table, behind) - before.to(table, behind);
            self.levels[place(tag - behind as u64)] += more;
        }
    }

    fn worth(&self, at: usize) -> Worth {
        let tried = i16::from(self.rejected[at]) + 1;
        let bits =
            15 - (tried.leading_zeros() as i16) + i16::from(!(tried as u16).is_power_of_two());
        let cost = bits + i16::from(self.retried[at]);
        Worth { checked: self.checked[at], cost, charged: self.charged[at] }
    }
}

/// What a tag is worth to the records that it covers.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Worth {
    checked: u64,
    /// c_i, and to whom it is charged.
    cost: i16,
    charged: u64,
}

impl Worth {
    /// R_i − c_i, or 0, of the record `behind`.
    fn to(&self, table: &Table, behind: usize) -> i16 {
        let cost = if self.charged >> behind & 1 == 1 { self.cost } else { 0 };
        ((self.checked & table.covers(behind)).count_ones() as i16 - cost).max(0)
    }
}

/// Whether a level is final.
pub(crate) const fn is_full(level: i16) -> bool {
    level >= FULL
}

const fn place(number: u64) -> usize {
    (number % NUMBERS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trying_costs_the_logarithm_rounded_up() {
        let mut board = Board::new();
        let costs = [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (7, 3), (8, 4), (255, 8)];
        for (rejected, cost) in costs {
            board.rejected[0] = rejected;
            assert_eq!(board.worth(0).cost, cost, "{rejected} rejected");
        }
    }

    /// Two bits a record: whoever could be blamed, or could be what was guessed at, is concerned.
    #[test]
    fn a_rejection_concerns_whose_bits_it_hung_on() {
        let table = Table::new(3, |bit| core::array::from_fn(|k| (bit / 3 + 9 * k.min(3)) as u8));
        let covers = |behind| table.covers(behind);
        let pending = 0xff << 9;
        let concerned = |wrong| Board::concerned(&table, wrong, pending, pending, 0);
        // Nobody explains the bits of three; to their own number they all belong.
        assert_eq!(concerned(covers(9) | covers(10) | covers(11)), 1);
        // Of two, each was right but for the other.
        let two = covers(9) | covers(10);
        assert_eq!(concerned(two), 0b11 << 9 | 1);
        // If one explains all, it may have been guessed at, and it might be to blame for others.
        assert_eq!(concerned(covers(9)), pending | 1);
        assert_eq!(Board::concerned(&table, covers(9), pending, 0, 0), 1 << 9 | 1);
        assert_eq!(Board::concerned(&table, two, pending, 0, 0), 1);
        // Who explains anything is no explanation for others.
        assert_eq!(Board::concerned(&table, two, pending, pending, 9), 1 << 9 | 1);
    }
}
