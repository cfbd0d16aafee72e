//! AggregationUpdate and the record that answers it (MAC aggregation specification,
//! parameter updates).
//!
//! ```text
//! AggregationUpdate  scheme, as in the extension
//! epoch end          records (48) [ back (8) | count (8) | tag (16 bytes) ]
//! ```

use super::aggregation::{read_scheme, write_scheme};
use lightseal_aggregation::{ClosingTag, Scheme};
use lightseal_core::wire::BufferFull;
use lightseal_core::{Decode, DecodeError, Encode, Reader, Writer};

/// Requests that the receiver sends with another scheme under its next keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AggregationUpdate {
    /// The requested scheme.
    pub scheme: Scheme,
}

impl<'a> Decode<'a> for AggregationUpdate {
    fn read(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { scheme: read_scheme(r)? })
    }
}

impl Encode for AggregationUpdate {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        write_scheme(self.scheme, w)
    }
}

/// The end of the epoch before the epoch of the record that contains this report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochEnd {
    /// The number of records of that epoch, which is the number that its next record would have
    /// had.
    pub records: u64,
    /// A tag over the data that no other tag covers, if there is any.
    pub closing: Option<ClosingTag>,
}

impl<'a> Decode<'a> for EpochEnd {
    fn read(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let records = r.u48()?;
        if r.is_empty() {
            return Ok(Self { records, closing: None });
        }
        let (back, count) = (r.u8()?, r.u8()?);
        let first = records.checked_sub(back.into()).filter(|_| (1..=back).contains(&count));
        let first = first.ok_or(DecodeError::invalid("closing tag's range"))?;
        Ok(Self { records, closing: Some(ClosingTag { first, count, tag: r.array()? }) })
    }
}

impl Encode for EpochEnd {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        w.u48(self.records)?;
        self.closing.as_ref().map_or(Ok(()), |closing| write_closing(closing, self.records, w))
    }
}

/// Writes a closing tag: how far before the record `next` its range begins, how many records it
/// covers, and the tag.
#[inline(never)]
pub(crate) fn write_closing(
    closing: &ClosingTag,
    next: u64,
    w: &mut Writer<'_>,
) -> Result<(), BufferFull> {
    // The range reaches less than 256 records back.
    w.u8((next as u8).wrapping_sub(closing.first as u8))?;
    w.u8(closing.count)?;
    w.bytes(&closing.tag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::fmt::Debug;

    fn round_trip<T: for<'a> Decode<'a> + Encode + PartialEq + Debug>(value: &T, bytes: &[u8]) {
        let mut buf = [0; 32];
        let mut w = Writer::new(&mut buf);
        w.put(value).unwrap();
        assert_eq!(w.finish(), bytes);
        assert_eq!(T::decode(bytes).as_ref(), Ok(value));
    }

    #[test]
    fn updates_name_one_scheme() {
        round_trip(&AggregationUpdate { scheme: Scheme::Plain }, &[0]);
        round_trip(&AggregationUpdate { scheme: Scheme::agg(16).unwrap() }, &[1, 16]);
        for bad in [&[][..], &[1], &[1, 17], &[0, 0], &[1, 2, 0], &[7], &[0x80, 0], &[0xff]] {
            assert!(AggregationUpdate::decode(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn ends_come_with_a_tag_or_without() {
        round_trip(&EpochEnd { records: 0, closing: None }, &[0; 6]);
        let mut bytes = alloc::vec![0, 0, 0, 0, 1, 4, 4, 3];
        bytes.extend([9; 16]);
        let closing = Some(ClosingTag { first: 256, count: 3, tag: [9; 16] });
        round_trip(&EpochEnd { records: 260, closing }, &bytes);
        for cut in (0..bytes.len()).filter(|cut| *cut != 6) {
            assert!(EpochEnd::decode(&bytes[..cut]).is_err());
        }
        // The range begins before record 0, is empty, or reaches past the end.
        for (records, back, count) in [(2, 3, 1), (9, 3, 0), (9, 3, 4)] {
            let mut bytes = alloc::vec![0, 0, 0, 0, 0, records, back, count];
            bytes.extend([9; 16]);
            assert!(EpochEnd::decode(&bytes).is_err());
        }
    }
}
