//! Our rule.

use super::payload::MeanPayload;
use super::replay::Replay;
use super::{Family, MEMBERS, Seen, tag_sixteenths};
use crate::scheme::Scheme;
use crate::tuning::BETWEEN_CHANGES;

/// 2^this records are remembered: a record that long ago weighs 1/e of the newest. With 256 the
/// rule changes to and fro on still channels, with 1024 it lags behind moving ones.
const HORIZON_BITS: u32 = 9;

/// How many records' worth of goodput another member must lead by. With 4, half as many changes
/// again and no gain; with 16, moving channels cost more.
const LEAD: u64 = 8;

/// Bytes of a record with a closing tag: header, type, what it covers, that tag and the record's own.
const CLOSING_BYTES: u32 = 40;

/// What is known of larger sets than those in use is forgotten over 2^this messages.
const FORGET_BITS: u32 = 12;

/// Records from one comparison to the next: it takes a few divisions.
const COMPARE_EVERY: u16 = 8;

/// One record, verified.
const ONE: u32 = 1 << 16;

/// Changes to the member that would have had the most goodput of late, once it leads by as much as
/// [`LEAD`] records under plain tags.
///
/// The receiver knows of each record whether it came, so it knows what every member would have
/// verified, bursts and all, for any length of payload. There are no fitted constants. Against
/// [`LossRate`](super::LossRate), goodput over that of the best fixed member in hindsight, means of
/// 1000 sessions of 6000 records (`lightseal lab rules`, seed 6):
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
    /// Bytes of a record that are neither payload nor tag.
    overhead_bytes: u16,
    payload: MeanPayload,
    seen: Kept,
    /// Closing tags for each message under each member, in 1/[`ONE`].
    closings: [u32; MEMBERS],
    /// What each member would have verified, in 1/[`ONE`] records, older ones less and less.
    verified: [u32; MEMBERS],
    /// Records until the next comparison.
    wait: u16,
}

/// What is kept of the records seen.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "no heap")]
enum Kept {
    /// Which of the last came, the newest in bit 0.
    Came(u16),
    Replay(Replay),
}

impl Kept {
    /// Takes the next record; whether each member would verify it, or one a little before it.
    fn note(&mut self, came: bool) -> Option<[bool; MEMBERS]> {
        match self {
            // A record's set comes whole as often as n records in a row came. The latter says so
            // of sets wherever they might begin, so it fluctuates less.
            Self::Came(last) => {
                *last = *last << 1 | u16::from(came);
                Some([16, 8, 4, 2, 1].map(|n| last.trailing_ones() >= n))
            }
            Self::Replay(replay) => replay.note(came),
        }
    }
}

/// Messages after which a set needs no closing tag.
fn set_size(scheme: Scheme) -> u32 {
    match scheme {
        Scheme::Plain => 1,
        Scheme::Agg(n) => n.get().into(),
        // About as many as make a message's tags whole.
        _ => 32,
    }
}

impl Hindsight {
    /// A rule of one direction that begins with `current`, of records with so many bytes besides
    /// payload and tags.
    pub fn new(family: Family, current: Scheme, overhead_bytes: u16) -> Self {
        let seen = match family {
            Family::Agg => Kept::Came(u16::MAX),
            Family::R2d2 => Kept::Replay(Replay::new(family)),
        };
        Self {
            family,
            current,
            overhead_bytes,
            payload: MeanPayload::default(),
            seen,
            closings: [0; MEMBERS],
            verified: [0; MEMBERS],
            wait: COMPARE_EVERY,
        }
    }

    /// Takes the next record in the order of numbers; the member to change to, if it is time.
    pub fn note(&mut self, seen: Seen) -> Option<Scheme> {
        if let Seen::Arrived(bytes) = seen {
            self.payload.note(bytes);
        }
        let verified = self.seen.note(seen != Seen::Lost)?;
        for (sum, verified) in self.verified.iter_mut().zip(verified) {
            *sum = *sum - (*sum >> HORIZON_BITS) + if verified { ONE } else { 0 };
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

    /// Takes how many closing tags a message has, or would have if tags were shared, in 1/65536: where
    /// messages have to wait for others in vain, each needs one, and plain tags are shorter.
    ///
    /// Sets that fill before that many messages need none; under a member in use with smaller sets than
    /// another's nothing is learnt of that one, except that time passes.
    pub fn closings(&mut self, share: u32) {
        let in_use = match self.current {
            Scheme::Plain => u32::MAX,
            scheme => set_size(scheme),
        };
        for (member, known) in self.family.members().iter().zip(&mut self.closings) {
            let size = set_size(*member);
            let expected = if share.saturating_mul(size) <= ONE { 0 } else { share.min(ONE) };
            if size <= in_use || expected > *known {
                *known = expected;
            } else {
                *known -= *known >> FORGET_BITS;
            }
        }
    }

    /// The member that leads, if by enough.
    fn leader(&self) -> Option<Scheme> {
        let members = self.family.members();
        let goodputs = members.iter().zip(self.verified);
        let goodputs = goodputs.map(|(member, verified)| self.goodput(*member, verified));
        // Of equals the last, which shares least.
        let (best, most) = members.into_iter().zip(goodputs).max_by_key(|(_, most)| *most)?;
        let current = self.family.place(self.current).map_or(0, |place| self.verified[place]);
        let lead = most.saturating_sub(self.goodput(self.current, current));
        (best != self.current && lead >= LEAD * self.goodput(Scheme::Plain, ONE)).then_some(best)
    }

    /// The share of records' bytes that is verified payload, times records, in 1/65536.
    fn goodput(&self, member: Scheme, verified: u32) -> u64 {
        let payload = self.payload.sixteenths();
        let closings = self.family.place(member).map_or(0, |place| self.closings[place]);
        let closings = if member.aggregates() { closings } else { 0 };
        let tags = tag_sixteenths(member) + ((16 * CLOSING_BYTES * closings) >> 16);
        let record = payload + 16 * u32::from(self.overhead_bytes) + tags;
        u64::from(verified) * u64::from(payload) / u64::from(record)
    }

    /// The member in use is another than the rule last said.
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

    /// What the rule says over so many records of which every `lost`-th one is lost.
    fn says(rule: &mut Hindsight, records: u32, payload: u16, lost: u32) -> Vec<Scheme> {
        let seen =
            |i: u32| if (i + 1).is_multiple_of(lost) { Seen::Lost } else { Seen::Arrived(payload) };
        (0..records).filter_map(|i| rule.note(seen(i))).collect()
    }

    #[test]
    fn without_loss_the_first_member_is_taken_and_kept() {
        for family in Family::ALL {
            let mut rule = Hindsight::new(family, Scheme::Plain, 3);
            assert_eq!(says(&mut rule, 20_000, 30, u32::MAX), [family.members()[0]]);
        }
    }

    #[test]
    fn sets_that_do_not_fill_lead_to_plain_tags_and_back() {
        for family in Family::ALL {
            let mut rule = Hindsight::new(family, family.members()[1], 3);
            rule.closings(ONE);
            assert_eq!(says(&mut rule, 400, 30, u32::MAX), [Scheme::Plain]);
            rule.closings(ONE / 16);
            assert_eq!(says(&mut rule, 400, 30, u32::MAX), [family.members()[0]]);
        }
    }

    #[test]
    fn heavy_loss_leads_back_to_plain_tags() {
        for family in Family::ALL {
            let mut rule = Hindsight::new(family, family.members()[0], 3);
            let said = says(&mut rule, 4000, 100, 4);
            assert_eq!(said.last(), Some(&Scheme::Plain), "{said:?}");
        }
    }

    #[test]
    fn a_burst_costs_less_than_as_many_losses_apart() {
        let run = |lost: fn(u32) -> bool| {
            let mut rule = Hindsight::new(Family::Agg, Scheme::Plain, 3);
            for i in 0..4000 {
                rule.note(if lost(i) { Seen::Lost } else { Seen::Arrived(30) });
            }
            rule.current()
        };
        let apart = Family::Agg.place(run(|i| i % 20 == 0));
        let together = Family::Agg.place(run(|i| i % 200 < 10));
        assert!(together < apart, "{together:?} {apart:?}");
    }

    #[test]
    fn another_family_s_member_and_the_longest_payloads_do_no_harm() {
        let mut rule = Hindsight::new(Family::Agg, Scheme::r2d2(50).expect("known"), u16::MAX);
        rule.changed(Scheme::r2d2(200).expect("known"));
        let said = says(&mut rule, 2000, u16::MAX, u32::MAX);
        assert_eq!(said.len(), 1);
    }
}
