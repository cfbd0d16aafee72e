//! ACK messages (RFC 9147, section 7).

use lightseal_core::wire::BufferFull;
use lightseal_core::{Decode, DecodeError, Encode, Reader, Writer};

/// A record's epoch and number, as in an ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordNumber {
    /// The epoch, in full.
    pub epoch: u64,
    /// The number within the epoch.
    pub number: u64,
}

impl RecordNumber {
    /// The length of one record number in bytes.
    pub const LEN: usize = 16;
}

impl<'a> Decode<'a> for RecordNumber {
    fn read(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { epoch: r.u64()?, number: r.u64()? })
    }
}

impl Encode for RecordNumber {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        w.u64(self.epoch)?;
        w.u64(self.number)
    }
}

/// Writes an ACK of `records`.
pub fn write(records: &[RecordNumber], w: &mut Writer<'_>) -> Result<(), BufferFull> {
    w.vec16(|w| records.iter().try_for_each(|record| w.put(record)))
}

/// Parses an ACK into the record numbers that it contains.
pub fn read(bytes: &[u8]) -> Result<impl Iterator<Item = RecordNumber> + '_, DecodeError> {
    let mut r = Reader::new(bytes);
    let list = r.vec16()?;
    r.finish()?;
    if list.len() % RecordNumber::LEN != 0 {
        return Err(DecodeError::invalid("ACK length"));
    }
    Ok(list.chunks_exact(RecordNumber::LEN).filter_map(|chunk| RecordNumber::decode(chunk).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn round_trip_and_every_cut() {
        let records =
            [RecordNumber { epoch: 0, number: 1 }, RecordNumber { epoch: 2, number: 1 << 47 }];
        let mut buf = [0; 64];
        let mut w = Writer::new(&mut buf);
        write(&records, &mut w).unwrap();
        let bytes = w.finish();
        assert_eq!(read(bytes).unwrap().collect::<Vec<_>>(), records);
        for cut in 0..bytes.len() {
            assert!(read(&bytes[..cut]).is_err());
        }
        assert!(read(&[0, 1, 9]).is_err(), "no whole record number");
    }
}
