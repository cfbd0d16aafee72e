//! The alterations that an attacker makes to the records of one burst.

use crate::forgery::Attack;
use crate::onpath::{Captured, Masks, SAMPLE, number};
use lightseal_core::Random;
use lightseal_dtls::Scheme;

/// Length in bytes of a block of GHASH.
const BLOCK: usize = 16;

pub(super) struct Attacker<'a> {
    pub(super) masks: Masks,
    pub(super) scheme: Scheme,
    pub(super) rng: &'a mut Random,
    /// Records that the attacker holds back for a later burst.
    pub(super) withheld: Vec<Captured>,
}

/// Records that the attacker has seen before.
#[derive(Clone, Copy)]
pub(super) struct Seen<'a> {
    /// The records of the previous burst.
    pub(super) earlier: &'a [Captured],
    /// Some records of bursts before that.
    pub(super) ancient: &'a [Captured],
    /// Records of the other direction.
    pub(super) reverse: &'a [Captured],
}

impl Attacker<'_> {
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.rng.below(bound.max(1) as u64) as usize
    }

    fn two(&mut self, len: usize) -> (usize, usize) {
        let one = self.below(len);
        (one, (one + 1 + self.below(len - 1)) % len)
    }

    /// Two neighbours in one set that lies wholly in the burst, so that only this set's aggregate
    /// covers them.
    fn two_of_a_set(&mut self, records: &[Captured]) -> (usize, usize) {
        let size = usize::from(self.scheme.context()[1]);
        let first = number(&records[0]) as usize % size;
        let sets = (records.len() - (size - first) % size) / size;
        let start = (size - first) % size + size * self.below(sets);
        let one = start + self.below(size - 1);
        (one, one + 1)
    }

    /// An offset in the encrypted payload of all these records, after the type.
    fn place(&mut self, records: &[Captured], at: &[usize]) -> usize {
        let payload = |at: &usize| {
            let record = &records[*at];
            record.body.len() - self.scheme.aggregate_len(number(record))
        };
        let shortest = at.iter().map(payload).min().unwrap_or(2);
        1 + self.below(shortest.saturating_sub(1))
    }

    /// The length in bytes of a record's content, which the aggregate follows.
    fn end(&self, record: &Captured) -> usize {
        record.body.len() - self.scheme.aggregate_len(number(record)).min(record.body.len())
    }

    /// Alters the records of a burst.
    pub(super) fn strike(&mut self, attack: Attack, records: &mut Vec<Captured>, seen: Seen<'_>) {
        let Seen { earlier, ancient, reverse } = seen;
        let (a, b) = self.two(records.len());
        let bit = 1 << self.below(8);
        match attack {
            Attack::FlipTwo => {
                let (a, b) = self.two_of_a_set(records);
                let at = self.place(records, &[a, b]);
                for record in [a, b] {
                    records[record].body[at] ^= bit;
                }
            }
            Attack::FlipTwoUnequal => {
                let (a, b) = self.two_of_a_set(records);
                if let Some((x, y)) = self.same_power(self.end(&records[a]), self.end(&records[b]))
                {
                    records[a].body[x] ^= bit;
                    records[b].body[y] ^= bit;
                }
            }
            Attack::FlipThree => {
                let c = self.below(records.len());
                let at = self.place(records, &[a, b, c]);
                let other = 1 << self.below(8);
                for (record, bits) in [(a, bit), (b, other), (c, bit ^ other)] {
                    records[record].body[at] ^= bits;
                }
            }
            Attack::FlipOne => {
                let at = self.below(records[a].body.len());
                records[a].body[at] ^= bit;
            }
            Attack::FlipBodyAndTag => {
                let at = self.place(records, &[a]);
                records[a].body[at] ^= bit;
                let scheme = self.scheme;
                let tag_len = |r: &Captured| scheme.aggregate_len(number(r));
                let tagged = |r: &&mut Captured| tag_len(r) > 0 && r.body.len() > tag_len(r);
                if let Some(last) = records.iter_mut().rfind(tagged) {
                    let tag = last.body.len() - 1 - at % tag_len(last);
                    last.body[tag] ^= bit;
                }
            }
            Attack::SwapBodies => {
                let body = records[a].body.clone();
                records[a].body = core::mem::replace(&mut records[b].body, body);
            }
            Attack::SwapContents | Attack::SwapTails => {
                let from = if attack == Attack::SwapTails { SAMPLE } else { 0 };
                let end = self.end(&records[a]).min(self.end(&records[b]));
                if end > from {
                    let tail = records[a].body[from..end].to_vec();
                    let other = records[b].body[from..end].to_vec();
                    records[a].body[from..end].copy_from_slice(&other);
                    records[b].body[from..end].copy_from_slice(&tail);
                }
            }
            Attack::Cut => {
                let len = self.below(records[a].body.len());
                records[a].body.truncate(len);
            }
            Attack::CutTag => {
                // The bytes are removed from the aggregate's end, or from its beginning, so that
                // the rest moves up to the content.
                let end = self.end(&records[a]);
                let tag = records[a].body.len() - end;
                if tag > 0 {
                    let cut = 1 + self.below(tag);
                    let from = if bit < 16 { end } else { records[a].body.len() - cut };
                    records[a].body.drain(from..from + cut);
                }
            }
            Attack::CutContent => {
                let end = self.end(&records[a]);
                if end > 1 {
                    let cut = 1 + self.below(end - 1);
                    records[a].body.drain(end - cut..end);
                }
            }
            Attack::Extend => {
                let more = 1 + self.below(20);
                let mut tail = vec![0; more];
                self.rng.fill(&mut tail);
                records[a].body.extend(tail);
            }
            Attack::Replay => {
                for _ in 0..4 {
                    let at = self.below(records.len() + 1);
                    if !earlier.is_empty() {
                        let again = earlier[self.below(earlier.len())].clone();
                        records.insert(at, again);
                    }
                }
            }
            Attack::ReplayAimed => {
                if !earlier.is_empty() {
                    records[a].body = earlier[self.below(earlier.len())].body.clone();
                }
            }
            Attack::ReplayAcrossKeys | Attack::ReplayAcrossUpdate => {
                // Old records are inserted unchanged, or under numbers of the new epoch.
                for _ in 0..6 {
                    let old = if bit < 16 || ancient.is_empty() { earlier } else { ancient };
                    if old.is_empty() {
                        break;
                    }
                    let old = old[self.below(old.len())].clone();
                    let at = self.below(records.len());
                    if self.below(2) == 0 {
                        records.insert(at, old);
                    } else {
                        records[at].body = old.body;
                    }
                }
            }
            Attack::Withhold => {
                let at = self.below(records[a].body.len());
                records[a].body[at] ^= bit;
                // Records that might reveal the forgery arrive with the next burst, or never.
                let mut rest = Vec::new();
                for (i, record) in records.drain(..).enumerate() {
                    match self.rng.below(6) {
                        0 if i != a => self.withheld.push(record),
                        1 if i != a => {}
                        _ => rest.push(record),
                    }
                }
                *records = rest;
            }
            // This attack waits for verdicts: see `variant`.
            Attack::Adaptive => {}
            Attack::Reflect => {
                if !reverse.is_empty() {
                    let other = reverse[self.below(reverse.len())].clone();
                    records[a].body = other.body.clone();
                    records.push(other);
                }
            }
            Attack::MixTags => {
                let scheme = self.scheme;
                let len = |r: &Captured| scheme.aggregate_len(number(r));
                let has_tag = |r: &&mut Captured| len(r) > 0;
                let mut tagged: Vec<_> = records.iter_mut().filter(has_tag).collect();
                let (x, y) = (a % tagged.len().max(1), b % tagged.len().max(1));
                if let Ok([one, other]) = tagged.get_disjoint_mut([x, y])
                    && one.body.len().min(other.body.len()) >= len(one)
                {
                    let (x, y) = (one.body.len() - len(one), other.body.len() - len(one));
                    for i in 0..len(one) {
                        let (p, q) = (one.body[x + i], other.body[y + i]);
                        (one.body[x + i], other.body[y + i]) =
                            if bit < 16 { (q, p) } else { (p ^ q, q ^ p) };
                    }
                }
            }
            Attack::ChangeType => {
                let types = [23 ^ 22, 23 ^ 26, 23 ^ 21, 23 ^ 0xe0, 23 ^ 0xe1];
                if let Some(first) = records[a].body.first_mut() {
                    *first ^= types[b % types.len()];
                }
            }
            Attack::ChangeHeader => {
                let record = &mut records[a];
                match b % 4 {
                    // A short number instead of a long one, or the reverse.
                    0 if record.header.len() == 3 => {
                        record.header[0] ^= 8;
                        record.header.remove(1);
                    }
                    0 | 1 => record.header[0] ^= 3 & bit,
                    2 => {
                        let length = (record.body.len() as u16).to_be_bytes();
                        record.header[0] |= 4;
                        record.header.extend(length);
                    }
                    _ => record.header[1] ^= bit,
                }
            }
            Attack::Rivals => {
                let mut all = Vec::new();
                for genuine in records.drain(..) {
                    let rivals = 1 + self.below(3);
                    let place = self.below(rivals + 1);
                    for i in 0..=rivals {
                        let mut rival = genuine.clone();
                        if i != place && rival.body.len() > 1 {
                            let at = 1 + self.below(rival.body.len() - 1);
                            rival.body[at] ^= 1 << self.below(8);
                        }
                        all.push(rival);
                    }
                }
                *records = all;
            }
            Attack::Shuffle => {
                for i in (1..records.len()).rev() {
                    let j = self.below(i + 1);
                    records.swap(i, j);
                }
                let copy = records[a].clone();
                records.push(copy);
                records.remove(b);
            }
        }
    }

    /// Two offsets that are in blocks at the same distance from the ends of two contents, and at
    /// the same place within these blocks. GHASH multiplies both by the same power.
    fn same_power(&mut self, a: usize, b: usize) -> Option<(usize, usize)> {
        (0..100).find_map(|_| {
            let x = 1 + self.below(a.checked_sub(1)?);
            let back = a.div_ceil(BLOCK) - 1 - x / BLOCK;
            let y = (b.div_ceil(BLOCK) - 1).checked_sub(back)? * BLOCK + x % BLOCK;
            (x < a && y > 0 && y < b).then_some((x, y))
        })
    }

    /// A further variant of a record, `tries` being the number of earlier ones, whose verdicts the
    /// attacker has seen.
    pub(super) fn variant(&mut self, genuine: &Captured, tries: usize) -> Captured {
        let mut variant = genuine.clone();
        let body = &mut variant.body;
        let bit = 1 << self.rng.below(8);
        // The variants alter the content, the tag, or both in turn.
        let end = self.scheme.aggregate_len(number(genuine)).min(body.len());
        let end = body.len() - end;
        if tries % 3 != 1 && end > 1 {
            body[1 + self.rng.below(end as u64 - 1) as usize] ^= bit;
        }
        if (!tries.is_multiple_of(3) || end <= 1) && end < body.len() {
            let tag = body.len() - end;
            body[end + self.rng.below(tag as u64) as usize] ^= bit;
        }
        variant
    }
}
