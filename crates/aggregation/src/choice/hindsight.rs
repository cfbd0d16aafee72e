//! This project's rule: it compares what each member would have verified.

use super::payload::MeanPayload;
use super::replay::Replay;
use super::{Family, MEMBERS, RecordFate, tag_sixteenths};
use crate::scheme::Scheme;
use crate::tuning::BETWEEN_CHANGES;

/// The logarithm to base 2 of the number of records over which sums decay: a record that long ago
/// weighs 1/e of the newest. With 256 records the rule changes back and forth on stable channels,
/// with 1024 it lags behind moving ones.
const HORIZON_BITS: u32 = 9;

/// The lead, in records' worth of goodput, by which another member must be better. With 4 there are
/// 50 % more changes and no gain; with 16, moving channels cost more.
const LEAD: u64 = 8;

/// Length in bytes of a record with a closing tag: header, type, the range it covers, the closing
/// tag and the record's own tag.
const CLOSING_BYTES: u32 = 40;

/// The logarithm to base 2 of the number of messages over which the known need of closing tags
/// decays for members whose sets are larger than those in use.
const FORGET_BITS: u32 = 12;

/// Number of records from one comparison to the next, because a comparison takes a few divisions.
const COMPARE_EVERY: u16 = 8;

/// One verified record, in the unit of the sums.
const ONE_RECORD: u32 = 1 << 16;

/// A rule that changes to the member that would have had the most goodput recently, once it leads
/// by as much as [`LEAD`] records under plain tags.
///
/// The receiver knows whether each record arrived, so it knows what every member would have
/// verified, with bursts and for any length of payload. The rule needs no fitted constants. The
/// table compares it with [`LossRate`](super::LossRate). The values are goodput relative to that of
/// the best fixed member in hindsight, as means of 1000 sessions of 6000 records (`lightseal lab
/// rules`, seed 6):
///
/// ```text
///                    loss rate                hindsight
/// Agg  ordinary  0.9853, 14.0 changes    0.9947, 2.5 changes
/// Agg  bursty    0.9703, 14.2 changes    0.9950, 2.5 changes
/// Agg  moving    1.0003, 15.3 changes    1.0052, 4.6 changes
/// R2D2 ordinary  0.9739, 12.2 changes    0.9898, 3.1 changes
/// R2D2 bursty    0.9679, 13.6 changes    0.9882, 4.9 changes
/// R2D2 moving    0.9992, 13.7 changes    1.0049, 4.9 changes
/// ```
#[derive(Clone, Debug)]
pub struct Hindsight {
    family: Family,
    current: Scheme,
    /// Length in bytes of a record without payload and tags.
    overhead_bytes: u16,
    payload: MeanPayload,
    history: ArrivalHistory,
    /// Closing tags per message under each member, in 1/[`ONE_RECORD`].
    closings: [u32; MEMBERS],
    /// How many records each member would have verified, in 1/[`ONE_RECORD`] records. Older records
    /// count less and less.
    verified: [u32; MEMBERS],
    /// Number of records until the next comparison.
    wait: u16,
}

/// The history of the records seen, from which verification is computed.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "no heap")]
enum ArrivalHistory {
    /// Agg: which of the last records arrived, the newest in bit 0.
    LastArrivals(u16),
    Replay(Replay),
}

impl ArrivalHistory {
    /// Takes the next record. Returns whether each member would verify it, or a record a little
    /// before it.
    fn note(&mut self, arrived: bool) -> Option<[bool; MEMBERS]> {
        match self {
            // A whole set arrives as often as n records in a row arrive. The latter averages over
            // all positions at which a set might begin, so it fluctuates less.
            Self::LastArrivals(last) => {
                *last = *last << 1 | u16::from(arrived);
                Some([16, 8, 4, 2, 1].map(|n| last.trailing_ones() >= n))
            }
            Self::Replay(replay) => replay.note(arrived),
        }
    }
}

/// Number of messages after which a set needs no closing tag.
fn set_size(scheme: Scheme) -> u32 {
    match scheme {
        Scheme::Plain => 1,
        Scheme::Agg(n) => n.get().into(),
        // About the number of later messages whose tags complete a message's verification.
        _ => 32,
    }
}

impl Hindsight {
    /// A rule for one direction in which `current` is in use at first. `overhead_bytes` is the
    /// length of a record without payload and tags.
    pub fn new(family: Family, current: Scheme, overhead_bytes: u16) -> Self {
        let history = match family {
            Family::Agg => ArrivalHistory::LastArrivals(u16::MAX),
            Family::R2d2 => ArrivalHistory::Replay(Replay::new(family)),
        };
        Self {
            family,
            current,
            overhead_bytes,
            payload: MeanPayload::default(),
            history,
            closings: [0; MEMBERS],
            verified: [0; MEMBERS],
            wait: COMPARE_EVERY,
        }
    }

    /// Takes the next record, in the order of numbers. Returns the member to change to, if a change
    /// is due.
    pub fn note(&mut self, fate: RecordFate) -> Option<Scheme> {
        if let RecordFate::Arrived(bytes) = fate {
            self.payload.note(bytes);
        }
        let verified = self.history.note(fate != RecordFate::Lost)?;
        for (sum, verified) in self.verified.iter_mut().zip(verified) {
            *sum = *sum - (*sum >> HORIZON_BITS) + if verified { ONE_RECORD } else { 0 };
        }
        self.wait -= 1;
        if self.wait > 0 {
            return None;
        }
        self.wait = COMPARE_EVERY;
        let best = self.leader()?;
        self.changed(best);
        Some(best)
    }

    /// Takes the number of closing tags per message, as it is or would be if tags were shared, in
    /// 1/65536. If messages often wait in vain for later ones, each of them needs a closing tag,
    /// and plain tags are shorter.
    ///
    /// Sets that fill before a closing tag is due need none. While a member with small sets is in
    /// use, nothing is learnt about members with larger sets, so what is known of them decays.
    pub fn closings(&mut self, share: u32) {
        let in_use = match self.current {
            Scheme::Plain => u32::MAX,
            scheme => set_size(scheme),
        };
        for (member, known) in self.family.members().iter().zip(&mut self.closings) {
            let size = set_size(*member);
            let expected =
                if share.saturating_mul(size) <= ONE_RECORD { 0 } else { share.min(ONE_RECORD) };
            if size <= in_use || expected > *known {
                *known = expected;
            } else {
                *known -= *known >> FORGET_BITS;
            }
        }
    }

    /// The member that leads by at least [`LEAD`], if there is one.
    fn leader(&self) -> Option<Scheme> {
        let members = self.family.members();
        let goodputs = members.iter().zip(self.verified);
        let goodputs = goodputs.map(|(member, verified)| self.goodput(*member, verified));
        // Among equal members this takes the last one, which shares least.
        let (best, most) = members.into_iter().zip(goodputs).max_by_key(|(_, most)| *most)?;
        let current = self.family.index_of(self.current).map_or(0, |place| self.verified[place]);
        let lead = most.saturating_sub(self.goodput(self.current, current));
        (best != self.current && lead >= LEAD * self.goodput(Scheme::Plain, ONE_RECORD))
            .then_some(best)
    }

    /// The share of records' bytes that is verified payload, times the number of records, in
    /// 1/65536.
    fn goodput(&self, member: Scheme, verified: u32) -> u64 {
        let payload = self.payload.sixteenths();
        let closings = self.family.index_of(member).map_or(0, |place| self.closings[place]);
        let closings = if member.aggregates() { closings } else { 0 };
        let tags = tag_sixteenths(member) + ((16 * CLOSING_BYTES * closings) >> 16);
        let record = payload + 16 * u32::from(self.overhead_bytes) + tags;
        u64::from(verified) * u64::from(payload) / u64::from(record)
    }

    /// Tells the rule that `current` is in use now, which may not be what it last asked for.
    pub fn changed(&mut self, current: Scheme) {
        self.current = current;
        self.wait = BETWEEN_CHANGES;
    }

    /// The member in use.
    pub const fn current(&self) -> Scheme {
        self.current
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// The changes that the rule asks for over `records` records of which every `lost`-th one is
    /// lost.
    fn changes(rule: &mut Hindsight, records: u32, payload: u16, lost: u32) -> Vec<Scheme> {
        let seen = |i: u32| {
            if (i + 1).is_multiple_of(lost) {
                RecordFate::Lost
            } else {
                RecordFate::Arrived(payload)
            }
        };
        (0..records).filter_map(|i| rule.note(seen(i))).collect()
    }

    #[test]
    fn without_loss_the_first_member_is_taken_and_kept() {
        for family in Family::ALL {
            let mut rule = Hindsight::new(family, Scheme::Plain, 3);
            assert_eq!(changes(&mut rule, 20_000, 30, u32::MAX), [family.members()[0]]);
        }
    }

    #[test]
    fn sets_that_do_not_fill_lead_to_plain_tags_and_back() {
        for family in Family::ALL {
            let mut rule = Hindsight::new(family, family.members()[1], 3);
            rule.closings(ONE_RECORD);
            assert_eq!(changes(&mut rule, 400, 30, u32::MAX), [Scheme::Plain]);
            rule.closings(ONE_RECORD / 16);
            assert_eq!(changes(&mut rule, 400, 30, u32::MAX), [family.members()[0]]);
        }
    }

    #[test]
    fn heavy_loss_leads_back_to_plain_tags() {
        for family in Family::ALL {
            let mut rule = Hindsight::new(family, family.members()[0], 3);
            let changes = changes(&mut rule, 4000, 100, 4);
            assert_eq!(changes.last(), Some(&Scheme::Plain), "{changes:?}");
        }
    }

    #[test]
    fn a_burst_costs_less_than_as_many_losses_apart() {
        let run = |lost: fn(u32) -> bool| {
            let mut rule = Hindsight::new(Family::Agg, Scheme::Plain, 3);
            for i in 0..4000 {
                rule.note(if lost(i) { RecordFate::Lost } else { RecordFate::Arrived(30) });
            }
            rule.current()
        };
        let apart = Family::Agg.index_of(run(|i| i % 20 == 0));
        let together = Family::Agg.index_of(run(|i| i % 200 < 10));
        assert!(together < apart, "{together:?} {apart:?}");
    }

    #[test]
    fn another_family_s_member_and_the_longest_payloads_do_no_harm() {
        let mut rule =
            Hindsight::new(Family::Agg, Scheme::r2d2(50).expect("a known scheme"), u16::MAX);
        rule.changed(Scheme::r2d2(200).expect("a known scheme"));
        let changes = changes(&mut rule, 2000, u16::MAX, u32::MAX);
        assert_eq!(changes.len(), 1);
    }
}
