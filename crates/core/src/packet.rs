//! A packet inside a larger buffer, so that headers and tags can be added around it in place.

use core::fmt;
use core::ops::Range;

/// A packet with room before and after it.
///
/// ```text
/// buffer  | headroom |  packet  | tailroom |
///         0          start      end        len
/// ```
///
/// Headers and tags are written into the room on a payload's way down, and removed on its way up;
/// the payload itself never moves.
pub struct PacketBuf<'a> {
    buffer: &'a mut [u8],
    start: usize,
    end: usize,
}

impl<'a> PacketBuf<'a> {
    /// The packet in `buffer[packet]`; `None` if that range is not inside the buffer.
    pub fn new(buffer: &'a mut [u8], packet: Range<usize>) -> Option<Self> {
        let valid = packet.start <= packet.end && packet.end <= buffer.len();
        valid.then_some(Self { buffer, start: packet.start, end: packet.end })
    }

    /// The range of the packet in its buffer.
    pub const fn range(&self) -> Range<usize> {
        self.start..self.end
    }

    /// The packet's length in bytes.
    pub const fn len(&self) -> usize {
        self.end - self.start
    }

    /// Whether the packet has no bytes.
    pub const fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// The number of bytes that fit before the packet.
    pub const fn headroom(&self) -> usize {
        self.start
    }

    /// The number of bytes that fit after the packet.
    pub const fn tailroom(&self) -> usize {
        self.buffer.len() - self.end
    }

    /// The bytes of the packet.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// The bytes of the packet, to be changed in place.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[self.start..self.end]
    }

    /// Adds `N` bytes before the packet. If they do not fit, returns `None` and leaves the packet
    /// unchanged.
    pub fn prepend<const N: usize>(&mut self, bytes: &[u8; N]) -> Option<()> {
        self.prepend_slice(bytes)
    }

    /// As [`prepend`](Self::prepend), for any number of bytes.
    pub fn prepend_slice(&mut self, bytes: &[u8]) -> Option<()> {
        let start = self.start.checked_sub(bytes.len())?;
        self.buffer[start..self.start].copy_from_slice(bytes);
        self.start = start;
        Some(())
    }

    /// Adds bytes after the packet. If they do not fit, returns `None` and leaves the packet
    /// unchanged.
    pub fn append(&mut self, bytes: &[u8]) -> Option<()> {
        let end = self.end.checked_add(bytes.len())?;
        self.buffer.get_mut(self.end..end)?.copy_from_slice(bytes);
        self.end = end;
        Some(())
    }

    /// Removes `n` bytes from the front and returns them; `None` if the packet is shorter.
    pub fn take_front(&mut self, n: usize) -> Option<&[u8]> {
        let start = self.start.checked_add(n).filter(|&start| start <= self.end)?;
        let taken = &self.buffer[self.start..start];
        self.start = start;
        Some(taken)
    }

    /// Removes `n` bytes from the end and returns them; `None` if the packet is shorter.
    pub fn take_back(&mut self, n: usize) -> Option<&[u8]> {
        let end = self.end.checked_sub(n).filter(|&end| end >= self.start)?;
        let taken = &self.buffer[end..self.end];
        self.end = end;
        Some(taken)
    }

    /// Lends the packet on.
    pub fn reborrow(&mut self) -> PacketBuf<'_> {
        PacketBuf { buffer: self.buffer, start: self.start, end: self.end }
    }
}

impl fmt::Debug for PacketBuf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacketBuf")
            .field("headroom", &self.headroom())
            .field("len", &self.len())
            .field("tailroom", &self.tailroom())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_around_a_payload_comes_off_again() {
        let mut buffer = [0; 16];
        buffer[4..10].copy_from_slice(b"packet");
        let mut packet = PacketBuf::new(&mut buffer, 4..10).unwrap();
        packet.prepend(b"head").unwrap();
        packet.append(b"tag").unwrap();
        assert_eq!(packet.bytes(), b"headpackettag");
        assert_eq!((packet.headroom(), packet.tailroom()), (0, 3));
        assert_eq!(packet.take_front(4), Some(&b"head"[..]));
        assert_eq!(packet.take_back(3), Some(&b"tag"[..]));
        assert_eq!((packet.bytes(), packet.range()), (&b"packet"[..], 4..10));
    }

    #[test]
    fn edges_come_in_pairs() {
        let mut buffer = [0; 8];
        assert!(PacketBuf::new(&mut buffer, 0..9).is_none());
        #[expect(clippy::reversed_empty_ranges, reason = "a caller's mistake")]
        let reversed = 5..4;
        assert!(PacketBuf::new(&mut buffer, reversed).is_none());
        let mut packet = PacketBuf::new(&mut buffer, 2..6).unwrap();
        assert!(packet.prepend(&[0; 3]).is_none() && packet.append(&[0; 3]).is_none());
        assert!(packet.take_front(5).is_none() && packet.take_back(5).is_none());
        assert!(packet.append(&[0; usize::BITS as usize]).is_none());
        assert_eq!(packet.range(), 2..6, "failed calls leave the packet unchanged");
        assert!(packet.prepend(&[1; 2]).is_some() && packet.append(&[2; 2]).is_some());
        assert_eq!(packet.take_front(8).map(<[u8]>::len), Some(8));
        assert!(packet.is_empty());
    }
}
