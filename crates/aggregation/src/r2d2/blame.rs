//! Which record is to go when checks fail.
//!
//! A forged record makes each bit that covers it wrong with a chance of a half, and no other. So
//! the likeliest culprit is, of those that explain all wrong bits, the one that the fewest right
//! bits, or bits at all, would have to be chance for.
//!
//! A heuristic, and only for liveness: what a record is worth in spite of it is settled by the
//! account in [`board`](super::board), which charges every choice made here.

use crate::bits::each;
use crate::candidates::Handle;
use crate::opener::DropReason;
use crate::prf::Prf;
use crate::r2d2::board::{Board, EVERYBODY, Evaluation};
use crate::r2d2::delays::Long;
use crate::r2d2::opener::BitOpener;
use crate::r2d2::table::{REACH, SPAN, Words};

/// How often one arrival may place a record again.
const TRIES: usize = 8;

/// Bits by which the likeliest culprit must be likelier than the next one for what was delivered
/// of it to be refuted at once, and bits that must speak for a record for others to go before it
/// that explain not all.
const CLEAR: u32 = 8;

/// What made checks fail.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Culprit {
    /// A record that is not verified, with its tag.
    Record(u64),
    /// The tag that a verified record carried.
    Tag(u64),
}

/// Who may have made checks fail.
#[derive(Clone, Copy)]
struct Suspect {
    culprit: Culprit,
    /// Tags with wrong bits that it does not explain.
    unexplained: u32,
    /// Bits that would be chance.
    chance: u32,
}

impl Suspect {
    const fn rank(&self) -> (u32, u32) {
        (self.unexplained, self.chance)
    }
}

/// The likeliest culprit and the one after it.
#[derive(Default)]
struct Likeliest {
    first: Option<Suspect>,
    second: Option<Suspect>,
}

impl Likeliest {
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

/// A tag that was evaluated.
#[derive(Clone, Copy, Default)]
struct Checked {
    number: u64,
    fresh: u64,
    wrong: u64,
}

impl<const CANDIDATES: usize> BitOpener<CANDIDATES> {
    /// Places a candidate of a number where nothing stands, unless checks speak against it more
    /// than against others.
    pub(super) fn arrive<P: Prf + ?Sized>(&mut self, prf: &P, number: u64, handle: Handle) {
        let mut gone = [None; TRIES];
        let count = self.stand(prf, number, handle, &mut gone).1;
        if count == 0 {
            return;
        }
        // What failed because of what was set aside may be right; that itself is not.
        let gone = &gone[..count];
        let mut tries = TRIES;
        let reach = REACH as u64;
        for other in number.saturating_sub(reach)..=number + reach {
            if self.board.is_placed(other) || self.number(other).verified {
                continue;
            }
            let own = *self.number(other);
            for &candidate in own.handles().iter().filter(|held| !gone.contains(&Some(**held))) {
                if tries == 0 {
                    return;
                }
                tries -= 1;
                if self.stand(prf, other, candidate, &mut []).0 {
                    break;
                }
            }
        }
    }

    /// Places a candidate and leaves it there if what it lets one check is right. Others may be
    /// set aside before it, as many as `gone` has room for, and any number before a verified one.
    /// Returns whether it stands, and how many of `gone` are in use.
    fn stand<P: Prf + ?Sized>(
        &mut self,
        prf: &P,
        number: u64,
        handle: Handle,
        gone: &mut [Option<Handle>],
    ) -> (bool, usize) {
        let (words, tag) = self.words(prf, handle);
        self.board.flip(&self.table, number, &words, tag);
        self.board.place(number, true);
        let verified = self.number(number).verified;
        let (mut distrusted, mut count) = (false, 0);
        loop {
            let mut evaluation = self.board.evaluate(&self.table, number);
            self.count_evaluations(1 + evaluation.later.count_ones());
            if evaluation.is_right() {
                self.board.credit(&self.table, number, &evaluation);
                break;
            }
            // If its own tag speaks against it and nobody else, no other need be asked.
            if evaluation.own_wrong != 0 && !verified && count == 0 {
                let own = evaluation.own_alone();
                if self.blame(number, &own).is_none() {
                    evaluation = own;
                }
            }
            let may = verified || count < gone.len();
            let blame = self.blame(number, &evaluation).filter(|_| may);
            // The only tag with wrong bits, if others did not go before.
            let only = evaluation.only_wrong(number).filter(|_| !verified && count == 0);
            match blame {
                Some((Culprit::Record(other), clear)) => {
                    if let Some(place) = gone.get_mut(count) {
                        *place = Some(self.number(other).held[0]);
                        count += 1;
                    }
                    let whose = if only == Some(other) {
                        let whose = self.concerned(other, number, &evaluation);
                        self.board.charge_later(&self.table, other, whose);
                        whose
                    } else {
                        self.board.charge(&self.table, number, &evaluation, EVERYBODY);
                        EVERYBODY
                    };
                    self.set_aside(prf, other, whose, clear);
                }
                Some((Culprit::Tag(other), _)) => {
                    self.board.charge(&self.table, number, &evaluation, EVERYBODY);
                    distrusted |= other == number;
                    self.board.distrust_tag(&self.table, other, EVERYBODY);
                    self.board.set_aside(other, true);
                }
                None => {
                    let alone = only == Some(number) && evaluation.later == 0;
                    let whose = match alone {
                        true => self.concerned(number, number, &evaluation),
                        false => EVERYBODY,
                    };
                    self.board.charge(&self.table, number, &evaluation, whose);
                    self.board.flip(&self.table, number, &words, tag);
                    self.board.remove(number);
                    if alone {
                        self.board.reject_alone(number);
                    } else {
                        self.board.set_aside(number, true);
                    }
                    return (false, count);
                }
            }
        }
        let own = self.number_mut(number);
        if let Some(at) = own.handles().iter().position(|&held| held == handle) {
            own.held.swap(0, at);
        }
        // What came in another's place is no reason to forget that, unless it proved itself.
        if distrusted || verified {
            self.board.set_aside(number, distrusted);
        }
        if verified {
            self.note_newest(number);
        } else {
            self.await_bits(number);
        }
        (true, count)
    }

    /// What explains that checks fail with the record `number` in its place, and whether that is
    /// clear. `None`: the record itself.
    fn blame(&self, number: u64, evaluation: &Evaluation) -> Option<(Culprit, bool)> {
        let (checked, count) = self.checked(number, evaluation);
        let checked = &checked[..count];
        let verified = self.number(number).verified;
        let accused = self.suspect(Culprit::Record(number), checked);
        let mut likeliest = Likeliest::default();
        let reach = REACH as u64;
        let last = checked.iter().map(|checked| checked.number).max().unwrap_or(number);
        for other in number.saturating_sub(reach)..=last {
            if other != number && self.pending.get(other) {
                likeliest.consider(self.suspect(Culprit::Record(other), checked));
            }
        }
        for tag in checked.iter().filter(|tag| self.number(tag.number).verified) {
            likeliest.consider(self.suspect(Culprit::Tag(tag.number), checked));
        }
        let wrong = checked.iter().filter(|tag| tag.wrong != 0).count() as u32;
        let suspect = likeliest.first.filter(|suspect| suspect.unexplained < wrong)?;
        if !verified {
            let strong = accused.chance > suspect.chance + CLEAR;
            let likelier = match suspect.unexplained {
                0 => suspect.chance < accused.chance,
                _ => strong,
            };
            if !likelier {
                return None;
            }
            likeliest.consider(accused);
        }
        let clear = likeliest.second.is_none_or(|second| {
            second.unexplained > suspect.unexplained || second.chance >= suspect.chance + CLEAR
        });
        Some((suspect.culprit, clear))
    }

    /// Whose bits have a say in that the record `carrier` goes because of wrong bits of its own
    /// tag alone, by how far behind it they are, with the record `number` in its place now.
    fn concerned(&self, carrier: u64, number: u64, evaluation: &Evaluation) -> u64 {
        let (checked, count) = self.checked(number, evaluation);
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
        Board::concerned(&self.table, wrong, pending, suspects, (carrier - number) as usize)
    }

    /// The tags that were evaluated for a record.
    fn checked(&self, number: u64, evaluation: &Evaluation) -> ([Checked; SPAN], usize) {
        let mut checked = [Checked::default(); SPAN];
        let (fresh, wrong) = (evaluation.own, evaluation.own_wrong);
        checked[0] = Checked { number, fresh, wrong };
        let mut count = 1;
        each(evaluation.later, |ahead| {
            let (fresh, wrong) = self.board.fresh_and_wrong(&self.table, number, ahead + 1);
            checked[count] = Checked { number: number + 1 + ahead as u64, fresh, wrong };
            count += 1;
        });
        (checked, count)
    }

    /// How well a culprit explains what was found.
    fn suspect(&self, culprit: Culprit, checked: &[Checked]) -> Suspect {
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

    fn words<P: Prf + ?Sized>(&self, prf: &P, handle: Handle) -> (Words, u64) {
        let candidate = self.pool.get(handle);
        let long = Long::of(prf, &candidate.state, self.table.bytes());
        (self.table.words(&long), *candidate.share as u64)
    }

    /// Takes what stands under a number off the board.
    pub(super) fn take_away<P: Prf + ?Sized>(&mut self, prf: &P, number: u64) {
        self.lift(prf, number, EVERYBODY);
        self.board.set_aside(number, true);
    }

    /// The same, but for K. It is charged to the records `whose`, by how far behind they are.
    fn lift<P: Prf + ?Sized>(&mut self, prf: &P, number: u64, whose: u64) {
        let handle = self.number(number).held[0];
        let (words, tag) = self.words(prf, handle);
        self.board.take_away(&self.table, number, &words, tag, whose);
        self.pending.clear(number);
    }

    /// Takes a record off the board that checks speak against, which concerns the records `whose`.
    /// It stays a candidate, unless it was delivered and this is `clear`: then it is refuted for
    /// good.
    fn set_aside<P: Prf + ?Sized>(&mut self, prf: &P, number: u64, whose: u64, clear: bool) {
        self.lift(prf, number, whose);
        if whose == EVERYBODY {
            self.board.set_aside(number, true);
        } else {
            self.board.reject_alone(number);
        }
        let handle = self.number(number).held[0];
        let own = self.number_mut(number);
        own.remove(handle);
        if clear && self.is_provisional(number) {
            self.refute(number);
            self.drop_candidate(handle, DropReason::Failed);
        } else {
            let own = self.number_mut(number);
            own.held[usize::from(own.count)] = handle;
            own.count += 1;
        }
    }
}
