//! A bounds-checked codec over slices.
//!
//! [`Reader`] and [`Writer`] never panic on any input and never allocate. A
//! length prefix is written by a closure ([`Writer::vec8`] and its kin), so it
//! cannot be left unwritten.

use crate::text::{Text, text};
use core::fmt;

/// Why bytes could not be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// The input ended early.
    Short,
    /// There were bytes after the end of the value.
    Trailing,
    /// A field had a value that its specification does not allow.
    Invalid(Text),
}

impl DecodeError {
    /// An invalid value of what these words name.
    #[inline]
    pub const fn invalid(what: &'static str) -> Self {
        Self::Invalid(text(what))
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short => f.write_str("message ended early"),
            Self::Trailing => f.write_str("bytes left over after the message"),
            Self::Invalid(what) => write!(f, "invalid {what}"),
        }
    }
}

impl core::error::Error for DecodeError {}

/// The output buffer was too small for the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferFull;

impl fmt::Display for BufferFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("output buffer too small")
    }
}

impl core::error::Error for BufferFull {}

/// A value that can be parsed from bytes.
pub trait Decode<'a>: Sized {
    /// Parses a value at the reader's position and moves the reader past it.
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError>;

    /// Parses a value that must fill `bytes` exactly.
    fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let value = Self::read(&mut reader)?;
        reader.finish()?;
        Ok(value)
    }
}

/// A value that can be written as bytes.
pub trait Encode {
    /// Appends the value.
    fn write(&self, writer: &mut Writer<'_>) -> Result<(), BufferFull>;
}

/// Reads from the front of a slice.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader at the start of `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The bytes that have not been read yet.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether everything was read.
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `n` bytes.
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], DecodeError> {
        let (head, rest) = self.rest.split_at_checked(n).ok_or(DecodeError::Short)?;
        self.rest = rest;
        Ok(head)
    }

    /// The next `N` bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (head, rest) = self.rest.split_first_chunk().ok_or(DecodeError::Short)?;
        self.rest = rest;
        Ok(*head)
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    /// A big-endian 16-bit number.
    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    /// A big-endian 24-bit number.
    pub fn u24(&mut self) -> Result<u32, DecodeError> {
        let [a, b, c] = self.array()?;
        Ok(u32::from_be_bytes([0, a, b, c]))
    }

    /// A big-endian 32-bit number.
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// A big-endian 48-bit number.
    pub fn u48(&mut self) -> Result<u64, DecodeError> {
        let [a, b, c, d, e, f] = self.array()?;
        Ok(u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
    }

    /// A big-endian 64-bit number.
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    /// A number of up to 64 bits in groups of seven, the lowest first (LEB128).
    pub fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let group = u64::from(byte & 0x7f);
            if group << shift >> shift != group {
                break;
            }
            value |= group << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(DecodeError::invalid("number of more than 64 bits"))
    }

    /// A byte string after an 8-bit length.
    pub fn vec8(&mut self) -> Result<&'a [u8], DecodeError> {
        let n = self.u8()?;
        self.take(n.into())
    }

    /// A byte string after a 16-bit length.
    pub fn vec16(&mut self) -> Result<&'a [u8], DecodeError> {
        let n = self.u16()?;
        self.take(n.into())
    }

    /// A byte string after a 24-bit length.
    pub fn vec24(&mut self) -> Result<&'a [u8], DecodeError> {
        let n = self.u24()?;
        self.take(usize::try_from(n).map_err(|_| DecodeError::Short)?)
    }

    /// Fails unless everything was read.
    pub const fn finish(&self) -> Result<(), DecodeError> {
        if self.rest.is_empty() { Ok(()) } else { Err(DecodeError::Trailing) }
    }
}

/// Appends to a lent slice.
#[derive(Debug)]
pub struct Writer<'a> {
    buf: &'a mut [u8],
    len: usize,
}

impl<'a> Writer<'a> {
    /// A writer at the start of `buf`.
    pub const fn new(buf: &'a mut [u8]) -> Self {
        Self { buf, len: 0 }
    }

    /// The number of bytes written.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing was written yet.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of bytes that still fit.
    pub const fn remaining(&self) -> usize {
        self.buf.len() - self.len
    }

    /// The bytes written so far.
    pub fn written(&self) -> &[u8] {
        &self.buf[..self.len]
    }

    /// Ends writing and returns the bytes written.
    pub fn finish(self) -> &'a mut [u8] {
        &mut self.buf[..self.len]
    }

    /// Discards what was written after the first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Reserves the next `n` bytes and returns them to be filled in.
    pub fn reserve(&mut self, n: usize) -> Result<&mut [u8], BufferFull> {
        let end = self.len.checked_add(n).ok_or(BufferFull)?;
        let slot = self.buf.get_mut(self.len..end).ok_or(BufferFull)?;
        self.len = end;
        Ok(slot)
    }

    /// Appends bytes.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), BufferFull> {
        self.reserve(bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    /// Appends one byte.
    pub fn u8(&mut self, value: u8) -> Result<(), BufferFull> {
        self.bytes(&value.to_be_bytes())
    }

    /// Appends a big-endian 16-bit number.
    pub fn u16(&mut self, value: u16) -> Result<(), BufferFull> {
        self.bytes(&value.to_be_bytes())
    }

    /// Appends the low 24 bits of a number, big-endian.
    pub fn u24(&mut self, value: u32) -> Result<(), BufferFull> {
        self.bytes(&value.to_be_bytes()[1..])
    }

    /// Appends a big-endian 32-bit number.
    pub fn u32(&mut self, value: u32) -> Result<(), BufferFull> {
        self.bytes(&value.to_be_bytes())
    }

    /// Appends the low 48 bits of a number, big-endian.
    pub fn u48(&mut self, value: u64) -> Result<(), BufferFull> {
        self.bytes(&value.to_be_bytes()[2..])
    }

    /// Appends a big-endian 64-bit number.
    pub fn u64(&mut self, value: u64) -> Result<(), BufferFull> {
        self.bytes(&value.to_be_bytes())
    }

    /// Appends a number in groups of seven bits, the lowest first (LEB128): 1 to 10 bytes.
    pub fn varint(&mut self, mut value: u64) -> Result<(), BufferFull> {
        while value >= 0x80 {
            self.u8(value as u8 | 0x80)?;
            value >>= 7;
        }
        self.u8(value as u8)
    }

    /// Appends a value.
    pub fn put(&mut self, value: &impl Encode) -> Result<(), BufferFull> {
        value.write(self)
    }

    /// Appends an 8-bit length and what `content` writes.
    pub fn vec8<R>(
        &mut self,
        content: impl FnOnce(&mut Self) -> Result<R, BufferFull>,
    ) -> Result<R, BufferFull> {
        self.prefixed::<1, R>(content)
    }

    /// Appends a 16-bit length and what `content` writes.
    pub fn vec16<R>(
        &mut self,
        content: impl FnOnce(&mut Self) -> Result<R, BufferFull>,
    ) -> Result<R, BufferFull> {
        self.prefixed::<2, R>(content)
    }

    /// Appends a 24-bit length and what `content` writes.
    pub fn vec24<R>(
        &mut self,
        content: impl FnOnce(&mut Self) -> Result<R, BufferFull>,
    ) -> Result<R, BufferFull> {
        self.prefixed::<3, R>(content)
    }

    fn prefixed<const N: usize, R>(
        &mut self,
        content: impl FnOnce(&mut Self) -> Result<R, BufferFull>,
    ) -> Result<R, BufferFull> {
        let at = self.len;
        self.reserve(N)?;
        let result = content(self)?;
        self.fill_in(at, N)?;
        Ok(result)
    }

    /// Fills in the length prefix of `n` bytes at `at`, at most 3. It is a function for itself, so
    /// that small devices have it once and not for each content.
    fn fill_in(&mut self, at: usize, n: usize) -> Result<(), BufferFull> {
        let length = self.len - at - n;
        if length >> (8 * n) != 0 {
            return Err(BufferFull);
        }
        self.buf[at..at + n].copy_from_slice(&(length as u32).to_be_bytes()[4 - n..]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_round_trip() {
        let mut buf = [0; 64];
        let mut w = Writer::new(&mut buf);
        w.u8(1).unwrap();
        w.u16(0x0203).unwrap();
        w.u24(0x04_0506).unwrap();
        w.u32(0x0708_090a).unwrap();
        w.u48(0x0b0c_0d0e_0f10).unwrap();
        w.u64(0x1112_1314_1516_1718).unwrap();
        let written = w.finish();
        assert!(written.iter().copied().eq(1..=0x18));
        let mut r = Reader::new(written);
        assert_eq!(r.u8(), Ok(1));
        assert_eq!(r.u16(), Ok(0x0203));
        assert_eq!(r.u24(), Ok(0x04_0506));
        assert_eq!(r.u32(), Ok(0x0708_090a));
        assert_eq!(r.u48(), Ok(0x0b0c_0d0e_0f10));
        assert_eq!(r.u64(), Ok(0x1112_1314_1516_1718));
        assert_eq!(r.finish(), Ok(()));
        assert_eq!(r.u8(), Err(DecodeError::Short));
    }

    #[test]
    fn short_numbers_take_few_bytes_and_no_number_is_too_long() {
        for (value, len) in [(0, 1), (0x7f, 1), (0x80, 2), (1 << 56, 9), (u64::MAX, 10)] {
            let mut buf = [0; 10];
            let mut w = Writer::new(&mut buf);
            w.varint(value).unwrap();
            assert_eq!(w.len(), len);
            let mut r = Reader::new(w.finish());
            assert_eq!((r.varint(), r.is_empty()), (Ok(value), true));
        }
        assert_eq!(Reader::new(&[0x80]).varint(), Err(DecodeError::Short));
        let too_long = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2];
        assert!(matches!(Reader::new(&too_long).varint(), Err(DecodeError::Invalid(_))));
        assert!(matches!(Reader::new(&[0xff; 11]).varint(), Err(DecodeError::Invalid(_))));
    }

    #[test]
    fn a_prefix_covers_what_was_written_and_refuses_more_than_it_can_say() {
        let mut buf = [0; 300];
        let mut w = Writer::new(&mut buf);
        w.vec16(|w| w.vec8(|w| w.bytes(b"abc"))).unwrap();
        assert_eq!(w.written(), [0, 4, 3, b'a', b'b', b'c']);
        let mut w = Writer::new(&mut buf);
        assert_eq!(w.vec8(|w| w.bytes(&[0; 255])), Ok(()));
        let mut w = Writer::new(&mut buf);
        assert_eq!(w.vec8(|w| w.bytes(&[0; 256])), Err(BufferFull));
    }

    #[test]
    fn a_full_buffer_refuses_and_keeps_its_content() {
        let mut buf = [0; 3];
        let mut w = Writer::new(&mut buf);
        w.u16(7).unwrap();
        assert_eq!(w.u16(8), Err(BufferFull));
        assert_eq!(w.finish(), [0, 7]);
    }

    proptest! {
        #[test]
        fn vectors_round_trip_and_every_cut_is_refused(content in prop::collection::vec(any::<u8>(), 0..255)) {
            let mut buf = [0; 300];
            let mut w = Writer::new(&mut buf);
            w.vec8(|w| w.bytes(&content)).unwrap();
            let written = &*w.finish();
            let mut r = Reader::new(written);
            prop_assert_eq!(r.vec8().unwrap(), &content[..]);
            for cut in 0..written.len() {
                prop_assert_eq!(Reader::new(&written[..cut]).vec8(), Err(DecodeError::Short));
            }
        }
    }
}
