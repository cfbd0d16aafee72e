//! Chooses the record that is set aside when checked tag bits are wrong.
//!
//! A forged record makes each tag bit that covers it wrong with a probability of one half, and no
//! other bit. A suspect that explains all wrong bits must have let the right bits that cover it be
//! right by chance. The likeliest culprit is therefore the suspect with the fewest such bits.
//!
//! This choice is a heuristic, and only liveness depends on it. Security does not: the security
//! levels in [`board`] charge every choice made here.

use crate::bits::each;
use crate::candidates::{Handle, place};
use crate::prf::Prf;
use crate::r2d2::board::{self, ALL_RECORDS, Evaluation};
use crate::r2d2::opener::BitOpener;
use crate::table::LongTag;
use crate::table::{LongTagWords, REACH, SPAN};
use crate::verdict::DropReason;

/// How many placements of records that had been set aside one arrival may try.
const MAX_RETRIES: usize = 8;

/// A margin in bits, for two decisions. A culprit must be likelier than the next suspect by this
/// margin for its provisionally delivered data to be refuted at once. A new record must be less
/// likely to be forged than a suspect by this margin for a suspect that leaves wrong bits
/// unexplained to be set aside in its favour.
const CLEAR_MARGIN_BITS: u32 = 8;

/// What made checked bits wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Culprit {
    /// A record that is not verified, with its tag.
    Record(u64),
    /// The tag that a verified record carried.
    Tag(u64),
}

/// A possible culprit, and how well it explains the wrong bits.
#[derive(Clone, Copy)]
struct Suspect {
    culprit: Culprit,
    /// Number of tags with wrong bits that this culprit does not cover.
    unexplained: u32,
    /// Number of right bits that would be right only by chance if this were the culprit.
    chance: u32,
}

impl Suspect {
    const fn rank(&self) -> (u32, u32) {
        (self.unexplained, self.chance)
    }
}

/// The likeliest culprit and the next likeliest one.
#[derive(Default)]
struct SuspectRanking {
    first: Option<Suspect>,
    second: Option<Suspect>,
}

impl SuspectRanking {
    fn consider(&mut self, suspect: Suspect) {
        let ahead_of = |other: &Option<Suspect>| {
            other.as_ref().is_none_or(|other| suspect.rank() < other.rank())
        };
        if ahead_of(&self.first) {
            self.second = self.first.replace(suspect);
        } else if ahead_of(&self.second) {
            self.second = Some(suspect);
        }
    }
}

/// A tag of which bits were checked: the number of its record, the bits checked now and those of
/// them that are wrong.
#[derive(Clone, Copy, Default)]
struct CheckedTag {
    number: u64,
    fresh: u64,
    wrong: u64,
}

impl<const CANDIDATES: usize, const BOARD: usize> BitOpener<CANDIDATES, BOARD> {
    /// Places a candidate of a number that has no placed record, and leaves it placed unless the
    /// checks speak against it more than against other records. Records that were set aside near it
    /// are then tried again.
    pub(super) fn place_candidate<P: Prf + ?Sized>(
        &mut self,
        prf: &P,
        number: u64,
        handle: Handle,
    ) {
        let mut displaced = [None; MAX_RETRIES];
        let count = self.try_candidate(prf, number, handle, &mut displaced).1;
        if count == 0 {
            return;
        }
        // Records whose checks failed because of a record that has now been set aside may be
        // genuine. The records set aside just now are not tried again.
        let displaced = &displaced[..count];
        let mut retries = MAX_RETRIES;
        let reach = REACH as u64;
        for other in number.saturating_sub(reach)..=number + reach {
            if self.board.is_placed(other) || self.number(other).is_verified() {
                continue;
            }
            let own = *self.number(other);
            for &candidate in own.handles().iter().filter(|held| !displaced.contains(&Some(**held)))
            {
                if retries == 0 {
                    return;
                }
                retries -= 1;
                if self.try_candidate(prf, other, candidate, &mut []).0 {
                    break;
                }
            }
        }
    }

    /// Places a candidate and leaves it placed if the bits that can now be checked are right. Other
    /// records may be set aside in its favour: as many as `displaced` has room for, or any number
    /// if this record is verified. Returns whether the candidate is placed, and the number of
    /// entries of `displaced` in use.
    fn try_candidate<P: Prf + ?Sized>(
        &mut self,
        prf: &P,
        number: u64,
        handle: Handle,
        displaced: &mut [Option<Handle>],
    ) -> (bool, usize) {
        let (words, tag) = self.words(prf, handle);
        self.board.xor_record(&self.table, number, &words, tag);
        self.board.place(number, true);
        let verified = self.number(number).is_verified();
        let (mut distrusted, mut count) = (false, 0);
        loop {
            let mut evaluation = self.board.evaluate(&self.table, number);
            self.count_evaluations(1 + evaluation.later.count_ones());
            if evaluation.is_right() {
                self.board.credit(&self.table, number, &evaluation);
                break;
            }
            // If its own tag alone shows that this candidate is the culprit, the later tags need no
            // evaluation.
            if evaluation.own_wrong != 0 && !verified && count == 0 {
                let own = evaluation.own_alone();
                if self.blame(number, &own).is_none() {
                    evaluation = own;
                }
            }
            let may = verified || count < displaced.len();
            let blame = self.blame(number, &evaluation).filter(|_| may);
            // The only tag with wrong bits, unless other records were set aside in this call.
            let only = evaluation.only_wrong(number).filter(|_| !verified && count == 0);
            match blame {
                Some((Culprit::Record(other), clear)) => {
                    if let Some(place) = displaced.get_mut(count) {
                        *place = Some(self.number(other).first());
                        count += 1;
                    }
                    let charged = if only == Some(other) {
                        let charged = self.influencing_records(other, number, &evaluation);
                        self.board.charge_later(&self.table, other, charged);
                        charged
                    } else {
                        self.board.charge(&self.table, number, &evaluation, ALL_RECORDS);
                        ALL_RECORDS
                    };
                    self.set_aside(prf, other, charged, clear);
                }
                Some((Culprit::Tag(other), _)) => {
                    self.board.charge(&self.table, number, &evaluation, ALL_RECORDS);
                    distrusted |= other == number;
                    self.board.distrust_tag(&self.table, other, ALL_RECORDS);
                    self.board.set_aside(other, true);
                }
                None => {
                    let alone = only == Some(number) && evaluation.later == 0;
                    let charged = match alone {
                        true => self.influencing_records(number, number, &evaluation),
                        false => ALL_RECORDS,
                    };
                    self.board.charge(&self.table, number, &evaluation, charged);
                    self.board.xor_record(&self.table, number, &words, tag);
                    self.board.remove(number);
                    if alone {
                        self.board.reject_by_own_tag(number);
                    } else {
                        self.board.set_aside(number, true);
                    }
                    return (false, count);
                }
            }
        }
        self.number_mut(number).move_to_front(handle);
        // The number stays in K although another record takes the place of the one set aside,
        // unless this record is verified by a tag of its own or a closing tag.
        if distrusted || verified {
            self.board.set_aside(number, distrusted);
        }
        if verified {
            self.update_newest(number);
        } else {
            self.mark_pending(number);
        }
        (true, count)
    }

    /// The culprit that explains the wrong bits found with the record `number` placed, and whether
    /// it is clearly likelier than the next suspect. `None` if the record `number` itself is the
    /// likeliest culprit.
    fn blame(&self, number: u64, evaluation: &Evaluation) -> Option<(Culprit, bool)> {
        let (checked, count) = self.checked_tags(number, evaluation);
        let checked = &checked[..count];
        let verified = self.number(number).is_verified();
        let accused = self.suspect(Culprit::Record(number), checked);
        let mut ranking = SuspectRanking::default();
        let reach = REACH as u64;
        let last = checked.iter().map(|checked| checked.number).max().unwrap_or(number);
        for other in number.saturating_sub(reach)..=last {
            if other != number && self.pending.get(other) {
                ranking.consider(self.suspect(Culprit::Record(other), checked));
            }
        }
        for tag in checked.iter().filter(|tag| self.number(tag.number).is_verified()) {
            ranking.consider(self.suspect(Culprit::Tag(tag.number), checked));
        }
        let wrong = checked.iter().filter(|tag| tag.wrong != 0).count() as u32;
        let suspect = ranking.first.filter(|suspect| suspect.unexplained < wrong)?;
        if !verified {
            let strong = accused.chance > suspect.chance + CLEAR_MARGIN_BITS;
            let likelier = match suspect.unexplained {
                0 => suspect.chance < accused.chance,
                _ => strong,
            };
            if !likelier {
                return None;
            }
            ranking.consider(accused);
        }
        let clear = ranking.second.is_none_or(|second| {
            second.unexplained > suspect.unexplained
                || second.chance >= suspect.chance + CLEAR_MARGIN_BITS
        });
        Some((suspect.culprit, clear))
    }

    /// The records whose bits influenced the decision to set aside the record `carrier` because of
    /// wrong bits of its own tag alone, while the record `number` is placed. Bit d of the result
    /// stands for the record d before `carrier`.
    fn influencing_records(&self, carrier: u64, number: u64, evaluation: &Evaluation) -> u64 {
        let (checked, count) = self.checked_tags(number, evaluation);
        let checked = &checked[..count];
        let wrong = checked.iter().fold(0, |wrong, tag| wrong | tag.wrong);
        let chance = |other| self.suspect(Culprit::Record(other), checked).chance;
        let most = chance(carrier);
        let (mut pending, mut suspects) = (0, 0);
        for behind in 1..=carrier.min(REACH as u64) {
            let other = carrier - behind;
            if self.pending.get(other) {
                pending |= 1 << behind;
                suspects |= u64::from(chance(other) <= most) << behind;
            }
        }
        board::influencing_records(
            &self.table,
            wrong,
            pending,
            suspects,
            (carrier - number) as usize,
        )
    }

    /// The tags of which bits could be checked once the record was placed, and how many there are.
    fn checked_tags(&self, number: u64, evaluation: &Evaluation) -> ([CheckedTag; SPAN], usize) {
        let mut checked = [CheckedTag::default(); SPAN];
        let (fresh, wrong) = (evaluation.own, evaluation.own_wrong);
        checked[0] = CheckedTag { number, fresh, wrong };
        let mut count = 1;
        each(evaluation.later, |ahead| {
            let (fresh, wrong) = self.board.fresh_and_wrong(&self.table, number, ahead + 1);
            checked[count] = CheckedTag { number: number + 1 + ahead as u64, fresh, wrong };
            count += 1;
        });
        (checked, count)
    }

    /// How well a culprit explains the bits that were checked.
    fn suspect(&self, culprit: Culprit, checked: &[CheckedTag]) -> Suspect {
        let (mut unexplained, mut chance) = (0, 0);
        for tag in checked {
            let covers = match culprit {
                Culprit::Tag(other) if other == tag.number => self.table.all(),
                Culprit::Tag(_) => 0,
                Culprit::Record(other) => match tag.number.checked_sub(other) {
                    Some(behind) if behind <= REACH as u64 => self.table.covers(behind as usize),
                    _ => 0,
                },
            };
            unexplained += u32::from(tag.wrong & !covers != 0);
            chance += (tag.fresh & covers).count_ones();
        }
        chance += match culprit {
            Culprit::Tag(other) => self.board.support(other),
            Culprit::Record(other) => self.board.passed(other),
        };
        Suspect { culprit, unexplained, chance }
    }

    fn words<P: Prf + ?Sized>(&self, prf: &P, handle: Handle) -> (LongTagWords, u64) {
        let candidate = self.pool.get(handle);
        let long_tag = LongTag::compute(prf, &candidate.state, self.table.bytes());
        (self.table.words(&long_tag), self.tags.get(place(handle)))
    }

    /// Takes the placed record of a number off the board and adds the number to K.
    pub(super) fn withdraw_and_reject<P: Prf + ?Sized>(&mut self, prf: &P, number: u64) {
        self.withdraw(prf, number, ALL_RECORDS);
        self.board.set_aside(number, true);
    }

    /// Takes the placed record of a number off the board without changing K. The cost is charged to
    /// the records `charged`, of which bit d is the record d before this one.
    fn withdraw<P: Prf + ?Sized>(&mut self, prf: &P, number: u64, charged: u64) {
        let handle = self.number(number).first();
        let (words, tag) = self.words(prf, handle);
        self.board.withdraw(&self.table, number, &words, tag, charged);
        self.pending.clear(number);
    }

    /// Takes a record that checks speak against off the board, which is charged to the records
    /// `charged`. It remains a candidate, unless it was delivered provisionally and the verdict is
    /// `clear`: then it is refuted for good.
    fn set_aside<P: Prf + ?Sized>(&mut self, prf: &P, number: u64, charged: u64, clear: bool) {
        self.withdraw(prf, number, charged);
        if charged == ALL_RECORDS {
            self.board.set_aside(number, true);
        } else {
            self.board.reject_by_own_tag(number);
        }
        let handle = self.number(number).first();
        let own = self.number_mut(number);
        own.remove(handle);
        if clear && self.is_provisional(number) {
            self.refute(number);
            self.drop_candidate(handle, number, DropReason::Failed);
        } else {
            self.number_mut(number).push(handle);
        }
    }
}
