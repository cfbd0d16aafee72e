//! The sending side: a [`Sealer`] computes the aggregates and closing tags of records.

#[cfg(not(feature = "agg-sender"))]
use crate::absent::Absent as AggSender;
#[cfg(not(feature = "r2d2-sender"))]
use crate::absent::Absent as BitSender;
#[cfg(feature = "agg-sender")]
use crate::agg::sealer::AggSealer as AggSender;
use crate::definition::Sharing;
use crate::on_stack::OnStack;
use crate::prf::{ClosingTag, Prf, PrfState};
#[cfg(feature = "r2d2-sender")]
use crate::r2d2::sealer::BitSealer as BitSender;
use crate::scheme::{RulerOrder, Scheme};
pub use crate::sealing::{RecordKind, SealError};
#[cfg(doc)]
use crate::tuning;
use core::ops::DerefMut;

impl Scheme {
    /// Whether this build can send under the scheme. Plain tags need nothing of this crate.
    pub const fn can_send(self) -> bool {
        self.is_available(AggSender::AVAILABLE, BitSender::AVAILABLE)
    }
}

/// Computes the tags of one direction of an epoch, beginning at record 0.
///
/// Memory: under 400 bytes for Agg, 4 KiB for R2D2; without the feature `fast` 64 bytes and 1.1 KB. A
/// state is erased as soon as no later tag needs it.
#[derive(Clone, Debug)]
pub struct Sealer {
    inner: Inner,
}

#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "no heap: the caller chooses where it lives")]
enum Inner {
    Bits(BitSender),
    Agg(AggSender),
}

impl Sealer {
    /// A sealer that expects record 0; `None` for [`Scheme::Plain`], which shares no tags, and for a
    /// scheme under which this build [cannot send](Scheme::can_send).
    pub fn new(scheme: Scheme, order: &RulerOrder) -> Option<Self> {
        Self::new_in(scheme, order, OnStack).map(|OnStack(sealer)| sealer)
    }

    /// As [`new`](Self::new), in memory that `place` provides, without a copy on the stack:
    /// [`Opener::new_in`](crate::Opener::new_in).
    #[inline(always)]
    #[cfg_attr(
        not(any(feature = "agg-sender", feature = "r2d2-sender")),
        allow(unused_variables, unused_mut)
    )]
    pub fn new_in<B: DerefMut<Target = Self>>(
        scheme: Scheme,
        order: &RulerOrder,
        place: impl Fn(Self) -> B,
    ) -> Option<B> {
        if !scheme.can_send() {
            return None;
        }
        let sharing = scheme.sharing()?;
        #[cfg(not(any(feature = "agg-sender", feature = "r2d2-sender")))]
        return None;
        #[cfg(any(feature = "agg-sender", feature = "r2d2-sender"))]
        {
            let mut sealer = place(Self::EMPTY);
            sealer.choose(sharing);
            sealer.set_up(scheme, order);
            Some(sealer)
        }
    }

    /// An empty sealer. All of its bytes are zero, so that the value takes no flash.
    #[cfg(feature = "r2d2-sender")]
    const EMPTY: Self = Self { inner: Inner::Bits(BitSender::EMPTY) };
    #[cfg(all(feature = "agg-sender", not(feature = "r2d2-sender")))]
    const EMPTY: Self = Self { inner: Inner::Agg(AggSender::EMPTY) };

    /// Makes an empty sealer one for a way of sharing tags.
    #[inline]
    #[cfg_attr(
        not(all(feature = "agg-sender", feature = "r2d2-sender")),
        allow(unused_variables, clippy::unused_self)
    )]
    fn choose(&mut self, sharing: Sharing) {
        #[cfg(all(feature = "agg-sender", feature = "r2d2-sender"))]
        if let Sharing::Sets = sharing {
            let empty = core::mem::replace(&mut self.inner, Inner::Agg(AggSender::EMPTY));
            // There is nothing to erase.
            core::mem::forget(empty);
        }
    }

    /// Makes an empty sealer ready for a scheme.
    #[inline(never)]
    fn set_up(&mut self, scheme: Scheme, order: &RulerOrder) {
        match &mut self.inner {
            Inner::Agg(agg) => {
                if let Some(n) = scheme.set_size() {
                    agg.set_up(n);
                }
            }
            Inner::Bits(bits) => {
                if let Some(sets) = scheme.dependency_sets(order) {
                    bits.set_up(&sets);
                }
            }
        }
    }

    /// Continues a new sealer at record `next`, after a predecessor that may have sealed any record
    /// before `next`.
    ///
    /// Aggregates do not contain the predecessor's records, so records of a predecessor must be at least
    /// [`tuning::RESUMED_GAP`] numbers back: a receiver then never checks an aggregate that would have to
    /// contain one of them. It accepts only [control records](RecordKind::Control) across such a gap.
    pub fn resume_at(&mut self, next: u64) {
        match &mut self.inner {
            Inner::Agg(agg) => agg.resume_at(next),
            Inner::Bits(sealer) => sealer.resume_at(next),
        }
    }

    /// Adds the record `number` to the tags and writes the aggregate it carries into `tag`, which
    /// must be exactly [`Scheme::aggregate_len`] bytes long.
    ///
    /// It must be called for every record of the epoch in order, control records included.
    ///
    /// # Errors
    /// If `number` is not the one after the last, or `tag` has another length. Both are caller
    /// misuse, and leave the sealer unchanged.
    #[inline]
    pub fn seal<P: Prf + ?Sized>(
        &mut self,
        prf: &P,
        number: u64,
        kind: RecordKind,
        state: PrfState,
        tag: &mut [u8],
    ) -> Result<(), SealError> {
        match &mut self.inner {
            Inner::Agg(agg) => agg.seal(prf, number, kind, state, tag),
            Inner::Bits(sealer) => sealer.seal(prf, number, kind, state, tag),
        }
    }

    /// Length in bytes of the aggregate that the next record carries.
    #[inline]
    pub fn next_len(&self) -> usize {
        match &self.inner {
            Inner::Agg(agg) => agg.next_len(),
            Inner::Bits(sealer) => sealer.next_len(),
        }
    }

    /// Length in bytes of the aggregate in the record that follows `records` more ones.
    #[inline]
    pub fn len_after(&self, records: usize) -> usize {
        match &self.inner {
            Inner::Agg(agg) => agg.len_after(records),
            Inner::Bits(sealer) => sealer.len_after(records),
        }
    }

    /// The largest length in bytes of the aggregate in any record.
    pub fn largest_len(&self) -> usize {
        match &self.inner {
            Inner::Agg(agg) => agg.largest_len(),
            Inner::Bits(sealer) => sealer.largest_len(),
        }
    }

    /// The number of the oldest data record that no tag covers yet.
    pub fn open_since(&self) -> Option<u64> {
        match &self.inner {
            Inner::Agg(agg) => agg.open_since(),
            Inner::Bits(sealer) => sealer.open_since(),
        }
    }

    /// Whether a data record was sealed that no tag covers yet.
    pub fn is_open(&self) -> bool {
        self.open_since().is_some()
    }

    /// Makes a closing tag over all data records that no tag covers yet, to be sent in the next
    /// record under a full tag. `None` if there are none.
    ///
    /// The current set continues, and its aggregate still covers all n records. A retransmission
    /// repeats the returned value: a second call makes no second tag over the same records.
    pub fn close<P: Prf + ?Sized>(&mut self, prf: &P) -> Option<ClosingTag> {
        match &mut self.inner {
            Inner::Agg(agg) => agg.close(prf),
            Inner::Bits(sealer) => sealer.close(prf),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opener::Opener;

    #[test]
    fn what_a_build_has_is_what_can_be_made() {
        let names = ["off", "agg:8", "r2d2:50", "sliding:50", "agg:8+check", "r2d2:50+check"];
        let sides = |scheme: Scheme| (scheme.can_send(), scheme.can_receive());
        for scheme in names.map(|name| name.parse().expect("the name of a scheme")) {
            let made = (
                Sealer::new(scheme, &RulerOrder::List).is_some(),
                <Opener>::new(scheme, &RulerOrder::List).is_some(),
            );
            let expected = match scheme.unchecked() {
                unchecked if unchecked != scheme && !cfg!(feature = "check-bytes") => {
                    (false, false)
                }
                Scheme::Plain => (true, true),
                Scheme::Agg(_) => (cfg!(feature = "agg-sender"), cfg!(feature = "agg-receiver")),
                _ => (cfg!(feature = "r2d2-sender"), cfg!(feature = "r2d2-receiver")),
            };
            assert_eq!(sides(scheme), expected, "{scheme}");
            assert_eq!(
                made,
                if scheme.aggregates() { expected } else { (false, false) },
                "{scheme}"
            );
        }
    }
}
