//! Limits on the use of a key (RFC 9147, section 4.5.3 and appendix B), and the counters that
//! enforce them.
//!
//! DTLS 1.2 states no limits. Its ciphers are the same, so the limits of 1.3 apply, except the one
//! that would do more harm than good without a KeyUpdate.
//!
//! A sender counts the records that it seals, a receiver those that it evaluates and those that
//! fail. Neither sees the other's count, so a limit on the sum is split between them: if each end
//! stays within its part, the sum stays within the limit.

use lightseal_core::wire::BufferFull;
use lightseal_core::{DecodeError, Reader, Writer};

/// The limits of one key. `u64::MAX` stands for no limit of this kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Records sealed.
    pub sealed_records: u64,
    /// Block cipher calls for sealed records.
    pub sealed_blocks: u64,
    /// Records whose tag was evaluated, authentic or not.
    pub evaluated_records: u64,
    /// Block cipher calls for evaluated records.
    pub evaluated_blocks: u64,
    /// Records that failed authentication.
    pub failed: u64,
    /// How block cipher calls are counted.
    pub cost: Cost,
}

/// The number of block cipher calls that count against a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cost {
    /// The limits are in records; blocks are not counted.
    Uncounted,
    /// Counter mode: one call for every 16 bytes or part of them.
    Ctr,
    /// CCM (RFC 3610): calls for the first block, for the header with its 2-byte length, two for
    /// each block of content, and one for the mask of the tag.
    Ccm,
}

/// The number of GCM or ChaCha20-Poly1305 records that may fail: 2^36 (RFC 9147, section 4.5.3).
const FAILED_WIDE: u64 = 1 << 36;
/// The number of GCM records that may be sealed: floor(2^24.5) (RFC 8446, section 5.5).
const SEALED_GCM: u64 = 23_726_566;
/// The number of CCM records that may fail: floor(2^23.5) (RFC 9147, section 4.5.3).
const FAILED_CCM: u64 = 11_863_283;
/// All record numbers except one, so that the count never wraps.
const NUMBERS: u64 = (1 << 48) - 1;

impl Limits {
    /// The limits of AES-GCM.
    pub const GCM: Self = Self {
        sealed_records: SEALED_GCM,
        sealed_blocks: u64::MAX,
        evaluated_records: u64::MAX,
        evaluated_blocks: u64::MAX,
        failed: FAILED_WIDE,
        cost: Cost::Uncounted,
    };

    /// The limits of ChaCha20-Poly1305: only the record numbers limit the number of sealed records.
    pub const CHACHA20_POLY1305: Self = Self { sealed_records: NUMBERS, ..Self::GCM };

    /// The limits of AES-CCM. RFC 9147 states 2^23 records of 2^14 bytes, which take 2^34 block
    /// cipher calls. This crate counts calls, so that short records are not penalised. Both ends
    /// together may make 2^35 calls.
    pub const CCM: Self = Self {
        sealed_records: NUMBERS,
        sealed_blocks: 1 << 34,
        // This limit is reached only by repeated checks of aggregates, which do not call the block
        // cipher.
        evaluated_records: 1 << 34,
        evaluated_blocks: 1 << 34,
        failed: FAILED_CCM,
        cost: Cost::Ccm,
    };

    /// The limits of AES-CCM with an 8-byte tag: one of 2^7 forgeries succeeds with a probability
    /// of 2^-57. A KeyUpdate is due after 2^6 failures.
    pub const CCM_8: Self = Self { failed: 1 << 7, ..Self::CCM };

    /// The limits of AES-CCM with an 8-byte tag in DTLS 1.2, which has no KeyUpdate. With a limit
    /// of 2^7 failures, anybody who can send 128 datagrams could end an association. With this
    /// limit a forgery succeeds with a probability of 2^20 / 2^64 = 2^-44 (NIST SP 800-38C,
    /// appendix B.2).
    pub const CCM_8_12: Self = Self { failed: 1 << 20, ..Self::CCM };

    /// The limits of AES-CTR with LightMAC: 2^34 counter blocks, and 2^34 evaluations of the MAC
    /// for both ends together.
    pub const CTR_LIGHTMAC: Self = Self {
        sealed_records: 1 << 33,
        sealed_blocks: 1 << 34,
        evaluated_records: 1 << 33,
        evaluated_blocks: u64::MAX,
        failed: 1 << 33,
        cost: Cost::Ctr,
    };

    /// The limits of AES-CTR with LightMAC and an 8-byte tag: after n failures a forgery has
    /// succeeded with a probability of n / 2^64.
    pub const CTR_LIGHTMAC_8: Self = Self { failed: 1 << 21, ..Self::CTR_LIGHTMAC };

    /// The limits of HMAC-SHA256. Neither RFC 9150 nor RFC 9147 states one. Only the record numbers
    /// limit its use; after that many evaluations, a forgery has succeeded with a probability of
    /// 2^-80 with aggregated tags.
    pub const HMAC: Self = Self {
        sealed_records: NUMBERS,
        sealed_blocks: u64::MAX,
        evaluated_records: NUMBERS,
        evaluated_blocks: u64::MAX,
        failed: NUMBERS,
        cost: Cost::Uncounted,
    };

    /// The number of block cipher calls for a record of `content_len` bytes with a header of
    /// `header_len` bytes.
    pub const fn blocks(&self, header_len: usize, content_len: usize) -> u64 {
        let content = content_len.div_ceil(16) as u64;
        match self.cost {
            Cost::Uncounted => 0,
            Cost::Ctr => content,
            Cost::Ccm => {
                let header = if header_len == 0 { 0 } else { (header_len + 2).div_ceil(16) as u64 };
                2 + header + 2 * content
            }
        }
    }
}

/// How near a key is to its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyState {
    /// Below half of every limit.
    Fresh,
    /// At half of some limit: a KeyUpdate is due, or has to be requested of the peer.
    UpdateDue,
    /// At a limit: the key must not be used again.
    Exhausted,
}

/// The longest additional data of a record in bytes, for counts that are estimated.
const MOST_HEADER: usize = 64;

/// The word in which what uses a key is counted. The largest number also stands for larger ones: a count
/// that a word cannot hold has reached its limit.
pub(crate) trait Count: Copy + Default + Into<u64> {
    fn of(count: u64) -> Self;

    fn get(self) -> u64 {
        self.into()
    }

    /// The state of a key whose limit this is, or the largest number, if that is less.
    fn state(self, limit: u64) -> KeyState;

    /// Counts further ones.
    fn add(&mut self, more: u64) {
        *self = Self::of(self.get().saturating_add(more));
    }
}

macro_rules! count {
    ($($word:ty),+) => {$(
        impl Count for $word {
            fn of(count: u64) -> Self {
                count.try_into().unwrap_or(<$word>::MAX)
            }

            #[cfg_attr(target_pointer_width = "32", inline(never))]
            fn state(self, limit: u64) -> KeyState {
                let limit = Self::of(limit);
                if self >= limit {
                    KeyState::Exhausted
                } else if self >= limit.div_ceil(2) {
                    KeyState::UpdateDue
                } else {
                    KeyState::Fresh
                }
            }
        }
    )+};
}
count!(u32, u64);

/// The counts of an association's keys. On small devices, where they are half as long, a key is used up
/// after 2^32 - 1 records or calls of the block cipher; a KeyUpdate is due after half of them.
#[cfg(feature = "aggregation")]
pub(crate) type ShortCount = u64;
/// The counts of an association's keys on small devices, half as long as on hosts.
#[cfg(not(feature = "aggregation"))]
pub(crate) type ShortCount = u32;

/// What a sender counts of one key.
#[derive(Clone, Debug)]
pub(crate) struct SealUsage<C = ShortCount> {
    limits: &'static Limits,
    records: C,
    blocks: C,
}

impl<C: Count> SealUsage<C> {
    pub(crate) fn new(limits: &'static Limits) -> Self {
        Self { limits, records: C::default(), blocks: C::default() }
    }

    /// Writes the counts.
    pub(crate) fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        w.varint(self.records.get())?;
        w.varint(self.blocks.get())
    }

    /// Reads what [`write`](Self::write) has written.
    pub(crate) fn read(&mut self, r: &mut Reader<'_>) -> Result<(), DecodeError> {
        (self.records, self.blocks) = (C::of(r.varint()?), C::of(r.varint()?));
        Ok(())
    }

    /// The number of records that count as sealed.
    pub(crate) fn records(&self) -> u64 {
        self.records.get()
    }

    /// The counts of a key under which at most `records` records were sealed, each with a content of
    /// `content_len` bytes.
    pub(crate) fn restore(&mut self, records: u64, content_len: usize) {
        self.records = C::of(records);
        let blocks = self.limits.blocks(MOST_HEADER, content_len);
        self.blocks = C::of(blocks.saturating_mul(records));
    }

    /// Counts a sealed record.
    pub(crate) fn add(&mut self, header_len: usize, content_len: usize) {
        self.add_by(1, header_len, content_len);
    }

    fn add_by(&mut self, sealers: u64, header_len: usize, content_len: usize) {
        let blocks = self.limits.blocks(header_len, content_len).saturating_mul(sealers);
        self.records.add(sealers);
        self.blocks.add(blocks);
    }

    /// The state of the limit that is nearest to being reached.
    pub(crate) fn state(&self) -> KeyState {
        let Limits { sealed_records, sealed_blocks, .. } = *self.limits;
        nearest([(self.records, sealed_records), (self.blocks, sealed_blocks)])
    }
}

/// What a receiver counts of one key.
#[derive(Clone, Debug)]
pub(crate) struct OpenUsage<C = ShortCount> {
    limits: &'static Limits,
    records: C,
    blocks: C,
    failed: C,
}

impl<C: Count> OpenUsage<C> {
    pub(crate) fn new(limits: &'static Limits) -> Self {
        Self { limits, records: C::default(), blocks: C::default(), failed: C::default() }
    }

    /// Writes the counts.
    pub(crate) fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        w.varint(self.records.get())?;
        w.varint(self.blocks.get())?;
        w.varint(self.failed.get())
    }

    /// Reads what [`write`](Self::write) has written.
    pub(crate) fn read(&mut self, r: &mut Reader<'_>) -> Result<(), DecodeError> {
        self.records = C::of(r.varint()?);
        self.blocks = C::of(r.varint()?);
        self.failed = C::of(r.varint()?);
        Ok(())
    }

    /// The failed evaluations in sixteenths of their limit, rounded up.
    pub(crate) fn failed_sixteenths(&self) -> u64 {
        self.failed.get().div_ceil(self.sixteenth())
    }

    const fn sixteenth(&self) -> u64 {
        if self.limits.failed < 16 { 1 } else { self.limits.failed / 16 }
    }

    /// The counts of a key under which at most `records` records were evaluated, each with a content
    /// of `content_len` bytes.
    pub(crate) fn restore(&mut self, failed: u64, records: u64, content_len: usize) {
        self.failed = C::of(failed.saturating_mul(self.sixteenth()));
        self.records = C::of(records);
        let blocks = self.limits.blocks(MOST_HEADER, content_len);
        self.blocks = C::of(blocks.saturating_mul(records));
    }

    /// See [`Usage::add_evaluated`].
    pub(crate) fn add_evaluated(&mut self, header_len: usize, content_len: usize) {
        let blocks = self.limits.blocks(header_len, content_len);
        self.records.add(1);
        self.blocks.add(blocks);
    }

    /// See [`Usage::add_evaluations`].
    pub(crate) fn add_evaluations(&mut self, records: u64) {
        self.records.add(records);
    }

    /// See [`Usage::add_failed`].
    pub(crate) fn add_failed(&mut self) {
        self.failed.add(1);
    }

    /// The state of the limit that is nearest to being reached.
    pub(crate) fn state(&self) -> KeyState {
        let Limits { evaluated_records, evaluated_blocks, failed, .. } = *self.limits;
        nearest([
            (self.records, evaluated_records),
            (self.blocks, evaluated_blocks),
            (self.failed, failed),
        ])
    }
}

/// The state of the count that is nearest to its limit.
fn nearest<C: Count, const N: usize>(counts: [(C, u64); N]) -> KeyState {
    // This is called for every record, so there is no branch for each count until one is due. Small
    // processors do without, because it takes flash.
    if cfg!(target_pointer_width = "64")
        && counts
            .iter()
            .fold(true, |fresh, (used, limit)| fresh & (used.get() < C::of(*limit).get() / 2))
    {
        return KeyState::Fresh;
    }
    nearest_when_due(&counts)
}

/// As [`nearest`], for any number of counts.
#[cfg_attr(target_pointer_width = "64", cold, inline(never))]
fn nearest_when_due<C: Count>(counts: &[(C, u64)]) -> KeyState {
    counts.iter().map(|(used, limit)| used.state(*limit)).max().unwrap_or(KeyState::Fresh)
}

/// The usage counters of one key under which a member both seals and opens.
#[derive(Clone, Debug)]
pub struct Usage {
    sealed: SealUsage<u64>,
    opened: OpenUsage<u64>,
}

impl Usage {
    /// The counters of a key that was not used yet.
    pub fn new(limits: &'static Limits) -> Self {
        Self { sealed: SealUsage::new(limits), opened: OpenUsage::new(limits) }
    }

    /// Counts a sealed record.
    pub fn add_sealed(&mut self, header_len: usize, content_len: usize) {
        self.sealed.add(header_len, content_len);
    }

    /// Counts a sealed record under a key with which up to `sealers` members seal, none of which
    /// knows the counts of the others: as if each had sealed one record. Together they stay within
    /// the limits, to within one record each.
    pub fn add_sealed_by(&mut self, sealers: u64, header_len: usize, content_len: usize) {
        self.sealed.add_by(sealers, header_len, content_len);
    }

    /// Counts a record whose tag was evaluated. A check of an aggregate counts once for each
    /// unverified record that it covers.
    pub fn add_evaluated(&mut self, header_len: usize, content_len: usize) {
        self.opened.add_evaluated(header_len, content_len);
    }

    /// Counts further evaluations of records that were counted already, because a tag over several
    /// records was checked again.
    pub fn add_evaluations(&mut self, records: u64) {
        self.opened.add_evaluations(records);
    }

    /// Counts an evaluation that failed, in addition to [`add_evaluated`](Self::add_evaluated).
    pub fn add_failed(&mut self) {
        self.opened.add_failed();
    }

    /// The number of failed evaluations.
    pub const fn failed(&self) -> u64 {
        self.opened.failed
    }

    /// The state of the limit that is nearest to being reached.
    pub fn state(&self) -> KeyState {
        self.sealed.state().max(self.opened.state())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The states of a key on both sides of the edges of one limit, with all other counts at zero.
    fn states(limits: &'static Limits, set: impl Fn(&mut Usage, u64), limit: u64) -> [KeyState; 4] {
        [limit.div_ceil(2) - 1, limit.div_ceil(2), limit - 1, limit].map(|used| {
            let mut usage = Usage::new(limits);
            set(&mut usage, used);
            usage.state()
        })
    }

    const EDGES: [KeyState; 4] =
        [KeyState::Fresh, KeyState::UpdateDue, KeyState::UpdateDue, KeyState::Exhausted];

    #[test]
    fn both_sides_of_every_edge() {
        for limits in [
            &Limits::GCM,
            &Limits::CHACHA20_POLY1305,
            &Limits::CCM,
            &Limits::CCM_8,
            &Limits::CCM_8_12,
            &Limits::CTR_LIGHTMAC,
            &Limits::CTR_LIGHTMAC_8,
            &Limits::HMAC,
        ] {
            let edges = [
                states(limits, |usage, n| usage.sealed.records = n, limits.sealed_records),
                states(limits, |usage, n| usage.sealed.blocks = n, limits.sealed_blocks),
                states(limits, |usage, n| usage.opened.records = n, limits.evaluated_records),
                states(limits, |usage, n| usage.opened.blocks = n, limits.evaluated_blocks),
                states(limits, |usage, n| usage.opened.failed = n, limits.failed),
            ];
            assert_eq!(edges, [EDGES; 5], "{limits:?}");
        }
    }

    /// A count of 32 bits has the same edges, unless it ends before.
    #[test]
    fn short_counts_end_with_their_word() {
        for (records, expected) in [
            (u64::from(u32::MAX) / 2, KeyState::Fresh),
            (u64::from(u32::MAX) / 2 + 1, KeyState::UpdateDue),
            (u64::from(u32::MAX) - 1, KeyState::UpdateDue),
            (u64::from(u32::MAX), KeyState::Exhausted),
            (1 << 40, KeyState::Exhausted),
        ] {
            let mut sealed = SealUsage::<u32>::new(&Limits::CHACHA20_POLY1305);
            sealed.restore(records, 0);
            assert_eq!(sealed.state(), expected, "{records}");
            let mut opened = OpenUsage::<u32>::new(&Limits::HMAC);
            opened.add_evaluations(records);
            assert_eq!(opened.state(), expected, "{records}");
        }
        let mut sealed = SealUsage::<u32>::new(&Limits::CHACHA20_POLY1305);
        sealed.restore(u64::from(u32::MAX), 0);
        sealed.add(5, 20);
        assert_eq!(sealed.records(), u64::from(u32::MAX), "no number comes again");
        let mut opened = OpenUsage::<u32>::new(&Limits::CCM_8);
        (0..127).for_each(|_| opened.add_failed());
        assert_eq!(opened.state(), KeyState::UpdateDue);
        opened.add_failed();
        assert_eq!(opened.state(), KeyState::Exhausted);
    }

    #[test]
    fn who_shares_a_key_gets_a_share_of_its_limits() {
        let sealed = |limits: &'static Limits, sealers: u64| {
            let mut usage = Usage::new(limits);
            let mut records = 0u64;
            while usage.state() != KeyState::Exhausted {
                usage.add_sealed_by(sealers, 13, 16);
                records += 1;
            }
            records
        };
        assert_eq!(sealed(&Limits::GCM, 256), Limits::GCM.sealed_records.div_ceil(256));
        let blocks = Limits::CCM.blocks(13, 16) << 16;
        assert_eq!(sealed(&Limits::CCM, 1 << 16), Limits::CCM.sealed_blocks.div_ceil(blocks));
    }

    #[test]
    fn failures_of_ccm_8_counted_one_by_one() {
        let mut usage = Usage::new(&Limits::CCM_8);
        for failed in 1..=128 {
            usage.add_evaluated(5, 20);
            usage.add_failed();
            let expected = match failed {
                ..64 => KeyState::Fresh,
                64..128 => KeyState::UpdateDue,
                _ => KeyState::Exhausted,
            };
            assert_eq!(usage.state(), expected, "{failed}");
        }
    }

    /// The numbers of RFC 9147, section 4.5.3, and RFC 8446, section 5.5.
    #[test]
    fn numbers_of_the_rfcs() {
        assert_eq!(Limits::GCM.sealed_records.pow(2).next_power_of_two(), 1 << 49);
        assert!((Limits::GCM.sealed_records + 1).pow(2) > 1 << 49);
        assert!(Limits::CCM.failed.pow(2) <= 1 << 47);
        assert!((Limits::CCM.failed + 1).pow(2) > 1 << 47);
        // The calls for 2^23 records of 2^14 bytes, without those that do not depend on the
        // content.
        let whole = Limits::CCM.blocks(0, 1 << 14) - Limits::CCM.blocks(0, 0);
        assert_eq!(whole << 23, Limits::CCM.sealed_blocks);
    }

    #[test]
    fn records_cost_the_calls_they_make() {
        let ccm = |header, content| Limits::CCM.blocks(header, content);
        // Calls under the key, without those for record number masks.
        assert_eq!([ccm(5, 11), ccm(5, 31), ccm(5, 71), ccm(5, 1201)], [5, 7, 13, 155]);
        assert_eq!([ccm(0, 0), ccm(1, 0), ccm(14, 0), ccm(15, 0)], [2, 3, 3, 4]);
        let ctr = |content| Limits::CTR_LIGHTMAC.blocks(9, content);
        assert_eq!([ctr(0), ctr(1), ctr(16), ctr(17)], [0, 1, 1, 2]);
        let mut usage = Usage::new(&Limits::CCM);
        usage.add_sealed(5, 11);
        usage.add_evaluated(5, 31);
        assert_eq!((usage.sealed.records, usage.sealed.blocks), (1, 5));
        assert_eq!((usage.opened.records, usage.opened.blocks), (1, 7));
    }
}
