//! Measures how soon an observer sees that two records have the same record number mask.
//!
//! The worst case for masks is payloads of one byte under Agg(16): 15 of 16 records have two bytes
//! after their header. The observer sees each record's masked number field and the bytes after the
//! header. If two records shorter than a mask's sample have equal bytes after the header, they
//! certainly have the same mask under the forms that compute it from these bytes. Under the strong
//! form they have the same mask as often as any other two records, unless their number fields are
//! equal as well: then the whole records are equal, and so are mask and number. The observer
//! therefore sees a repetition
//!
//! - under the other forms, when two short records have equal bytes after the header,
//! - under the strong form, when two short records are equal as a whole.

use crate::parallel::shared;
use lightseal_core::{Random, Reader};
use lightseal_dtls::codepoints::ContentType;
use lightseal_dtls::crypto::{CipherSuite, CipherSuiteId, Sha256, TrafficSecret, rustcrypto};
use lightseal_dtls::record::epochs::APPLICATION_EPOCH;
use lightseal_dtls::record::seal::HeaderFormat;
use lightseal_dtls::record::{NumberLength, SendEpoch, UnifiedHeader};
use lightseal_dtls::{NumberMasks, Scheme};
use std::collections::HashMap;

/// Number of bytes of a record from which a mask is computed.
const SAMPLE: usize = 16;

/// The parameters of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct MaskCase {
    /// The form of the masks.
    pub masks: NumberMasks,
    /// Length in bytes of the record number on the wire: 1 or 2.
    pub number_bytes: u8,
    /// Number of independent epochs.
    pub epochs: usize,
    /// Number of messages in each epoch, at most 2^16: after that, numbers on the wire repeat.
    pub messages: u32,
}

/// The results of an observer.
#[derive(Clone, Debug, Default)]
pub struct MaskObservations {
    /// For each epoch in which a repetition was seen, the number of messages until then; ascending.
    pub first: Vec<u32>,
    /// Number of epochs.
    pub epochs: usize,
    /// Number of first repetitions in an epoch that were mistaken: the masks were different.
    pub mistaken: u64,
    /// Number of pairs of short records with equal bytes after the header and different number
    /// fields.
    pub alike: u64,
    /// How many of the pairs in `alike` have the same mask.
    pub alike_same: u64,
    /// Number of all pairs of short records.
    pub pairs: u64,
    /// How many of the pairs in `pairs` have the same mask.
    pub pairs_same: u64,
}

impl MaskObservations {
    /// The number of messages after which a repetition was seen in half of the epochs; `None` if it
    /// was seen in fewer.
    pub fn half(&self) -> Option<u32> {
        self.quantile(self.epochs.div_ceil(2))
    }

    /// An interval that contains the true median with a probability of 95 %, from the ranks of a
    /// binomial distribution.
    pub fn interval(&self) -> [Option<u32>; 2] {
        let spread = 0.98 * (self.epochs as f64).sqrt();
        let middle = self.epochs as f64 / 2.0;
        [middle - spread, middle + spread + 1.0].map(|rank| self.quantile(rank as usize))
    }

    fn quantile(&self, rank: usize) -> Option<u32> {
        self.first.get(rank.checked_sub(1)?).copied()
    }
}

/// Watches the epochs of a case.
pub fn watch(seed: u64, case: MaskCase) -> MaskObservations {
    let seeds: Vec<u64> = (0..case.epochs as u64).collect();
    let mut sum = MaskObservations { epochs: case.epochs, ..MaskObservations::default() };
    for seen in shared(&seeds, |epoch| watch_epoch(&mut rng(seed, *epoch), case)) {
        sum.first.extend(seen.first);
        sum.mistaken += seen.mistaken;
        sum.alike += seen.alike;
        sum.alike_same += seen.alike_same;
        sum.pairs += seen.pairs;
        sum.pairs_same += seen.pairs_same;
    }
    sum.first.sort_unstable();
    sum
}

fn rng(seed: u64, epoch: u64) -> Random {
    Random::insecure(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(epoch))
}

fn suite() -> &'static CipherSuite {
    let suite = rustcrypto::PROVIDER.suite(CipherSuiteId::AES_128_CTR_LIGHTMAC_SHA256);
    suite.expect("the provider has it")
}

/// A short record: the bytes after its header, its masked number field, and its mask.
#[derive(Clone, Copy)]
struct ShortRecord {
    behind: [u8; 2],
    field: u16,
    mask: u16,
}

fn watch_epoch(rng: &mut Random, case: MaskCase) -> MaskObservations {
    let secret = TrafficSecret::new(&Sha256, &rng.array::<32>());
    let scheme = Scheme::agg(16).expect("n is from 2 to 16");
    let mut epoch = SendEpoch::with_masks(APPLICATION_EPOCH, suite(), scheme, &secret, case.masks);
    let number = if case.number_bytes == 1 { NumberLength::One } else { NumberLength::Two };
    let shape = HeaderFormat { number, last: true };
    let mut buf = [0; 64];
    let mut shorts = Vec::new();
    for _ in 0..case.messages {
        let payload: [u8; 1] = rng.array();
        let sealed = epoch
            .seal(&mut buf, ContentType::APPLICATION_DATA, shape, |w| w.bytes(&payload))
            .expect("the buffer is large enough, and numbers are left");
        let record = &buf[..sealed.len];
        let header =
            UnifiedHeader::read(&mut Reader::new(record), 0).expect("the record was just sealed");
        let (head, behind) = record.split_at(header.header_len());
        let field = header.number_bits(head) as u16;
        let bits = u16::MAX >> (16 - 8 * u16::from(case.number_bytes));
        if behind.len() < SAMPLE {
            let behind = behind.try_into().expect("type and payload");
            let mask = (field ^ sealed.number as u16) & bits;
            shorts.push((sealed.number as u32 + 1, ShortRecord { behind, field, mask }));
        }
    }
    let mut seen = MaskObservations { epochs: 1, ..MaskObservations::default() };
    find_first(&shorts, case.masks, &mut seen);
    count_pairs(&shorts, &mut seen);
    seen
}

/// Finds the first repetition that the observer believes to see.
fn find_first(shorts: &[(u32, ShortRecord)], masks: NumberMasks, seen: &mut MaskObservations) {
    let mut known = HashMap::new();
    for (messages, short) in shorts {
        let field = (masks == NumberMasks::Strong).then_some(short.field);
        if let Some(mask) = known.insert((short.behind, field), short.mask) {
            seen.first.push(*messages);
            seen.mistaken += u64::from(mask != short.mask);
            return;
        }
    }
}

/// Counts the pairs of records that look alike, and those with the same mask.
fn count_pairs(shorts: &[(u32, ShortRecord)], seen: &mut MaskObservations) {
    let mut by_behind: HashMap<_, Vec<ShortRecord>> = HashMap::new();
    let mut by_mask: HashMap<u16, u64> = HashMap::new();
    for (_, short) in shorts {
        by_behind.entry(short.behind).or_default().push(*short);
        *by_mask.entry(short.mask).or_default() += 1;
    }
    for group in by_behind.values() {
        for (i, one) in group.iter().enumerate() {
            let alike = group[i + 1..].iter().filter(|other| other.field != one.field);
            let (count, same) = alike.fold((0, 0), |(count, same), other| {
                (count + 1, same + u64::from(other.mask == one.mask))
            });
            seen.alike += count;
            seen.alike_same += same;
        }
    }
    let of = |n: u64| n * n.saturating_sub(1) / 2;
    seen.pairs = of(shorts.len() as u64);
    seen.pairs_same = by_mask.values().map(|n| of(*n)).sum();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(masks: NumberMasks, number_bytes: u8) -> MaskObservations {
        watch(7, MaskCase { masks, number_bytes, epochs: 200, messages: 1500 })
    }

    #[test]
    fn short_records_that_look_the_same_give_masks_away_but_not_in_the_strong_form() {
        for masks in [NumberMasks::Standard, NumberMasks::Paper] {
            let seen = case(masks, 2);
            assert!((250..400).contains(&seen.half().unwrap()), "{:?}", seen.half());
            assert_eq!(
                (seen.mistaken, seen.alike_same),
                (0, seen.alike),
                "no repetition is mistaken"
            );
        }
        let seen = case(NumberMasks::Strong, 2);
        assert_eq!((seen.first.len(), seen.alike_same), (0, 0));
        assert!(seen.alike > 1000, "{}", seen.alike);
        let seen = case(NumberMasks::Strong, 1);
        assert_eq!((seen.half(), seen.mistaken), (None, 0));
        let [alike, pairs] = [(seen.alike_same, seen.alike), (seen.pairs_same, seen.pairs)]
            .map(|(same, all)| same as f64 / all as f64);
        assert!((alike - pairs).abs() < 0.01, "{alike} {pairs}");
    }
}
