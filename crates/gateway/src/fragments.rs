//! Frames that do not fit one datagram: they are split, each piece is sealed by itself, and the
//! frame is put together again before it is forwarded.
//!
//! ```text
//! | number (4) | offset (2) | total (2) | frame's header, in the first piece | rest in clear |
//! |<------------------ sealed ------------------------------------------->|
//! ```

use crate::counters::Reason;
use core::time::Duration;
use lightseal_core::{Decode, DecodeError, Instant, Reader};
use std::collections::VecDeque;

/// Length of a piece's header in bytes.
pub const PIECE_LEN: usize = 8;
/// The longest frame that is split, in bytes. Jumbo frames have some 9000 bytes.
pub const MAX_FRAME: usize = 16_384;
/// Most incomplete frames of one peer.
const MAX_INCOMPLETE: usize = 32;
/// How long the pieces of a frame are waited for: longer than the difference in delay between
/// paths, shorter than the retransmission timeout of a transport protocol.
const REASSEMBLY_TIMEOUT: Duration = Duration::from_millis(500);

/// The header of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieceHeader {
    /// The number of the frame, chosen by the sender, which all its pieces carry.
    pub number: u32,
    /// The position of the piece in the frame, in bytes.
    pub offset: u16,
    /// The length of the whole frame in bytes.
    pub total: u16,
}

impl PieceHeader {
    /// Encodes the header.
    pub fn encode(&self) -> [u8; PIECE_LEN] {
        let mut bytes = [0; PIECE_LEN];
        bytes[..4].copy_from_slice(&self.number.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.offset.to_be_bytes());
        bytes[6..].copy_from_slice(&self.total.to_be_bytes());
        bytes
    }
}

impl<'a> Decode<'a> for PieceHeader {
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { number: reader.u32()?, offset: reader.u16()?, total: reader.u16()? })
    }
}

/// The division of a frame into pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieceLayout {
    /// Number of pieces.
    pub count: usize,
    /// Length in bytes of each piece but the last, which may be shorter.
    pub size: usize,
}

impl PieceLayout {
    /// Splits `len` bytes into pieces of equal length, at most `most` bytes each. `None` if `len`
    /// is above [`MAX_FRAME`] or `most` is 0.
    pub fn of(len: usize, most: usize) -> Option<Self> {
        if most == 0 || len > MAX_FRAME {
            return None;
        }
        let count = len.div_ceil(most).max(1);
        Some(Self { count, size: len.div_ceil(count) })
    }
}

/// The incomplete frames of one peer, within a limit of memory.
#[derive(Debug)]
pub struct Reassembly {
    frames: VecDeque<Partial>,
    bytes: usize,
    max_bytes: usize,
}

#[derive(Debug)]
struct Partial {
    number: u32,
    since: Instant,
    frame: Vec<u8>,
    /// Begin and end of each piece that has arrived, in order.
    received: Vec<(u16, u16)>,
}

/// Most pieces of one frame: with an MTU of 576 bytes the longest frame has fewer.
const MAX_PIECES: usize = 64;

impl Reassembly {
    /// An empty table that takes at most `bound` bytes. Longer frames are refused.
    pub const fn new(bound: usize) -> Self {
        Self { frames: VecDeque::new(), bytes: 0, max_bytes: bound }
    }

    /// Number of bytes that incomplete frames take.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a piece, which is authentic. Returns the frame if this piece completes it, and the
    /// number of incomplete frames that were dropped to make room.
    ///
    /// # Errors
    /// [`Reason::BadPiece`] if the frame is too long, or if the piece does not fit the other pieces
    /// of its number, which are then dropped too.
    pub fn add_piece(
        &mut self,
        now: Instant,
        piece: &PieceHeader,
        content: &[u8],
    ) -> Result<(Option<Vec<u8>>, usize), Reason> {
        let total = usize::from(piece.total);
        let start = usize::from(piece.offset);
        let end = start + content.len();
        if content.is_empty() || end > total || total > MAX_FRAME.min(self.max_bytes) {
            return Err(Reason::BadPiece);
        }
        let found = self.frames.iter().position(|partial| partial.number == piece.number);
        let mut given_up = 0;
        let at = match found {
            Some(at) => at,
            None => {
                given_up = self.make_room(total);
                self.bytes += total;
                let frame = vec![0; total];
                let number = piece.number;
                self.frames.push_back(Partial { number, since: now, frame, received: Vec::new() });
                self.frames.len() - 1
            }
        };
        let partial = self.frames.get_mut(at).ok_or(Reason::BadPiece)?;
        if partial.frame.len() != total || !partial.add(piece.offset, end as u16) {
            self.remove(at);
            return Err(Reason::BadPiece);
        }
        partial.frame[start..end].copy_from_slice(content);
        if !partial.is_complete() {
            return Ok((None, given_up));
        }
        Ok((self.remove(at), given_up))
    }

    /// Drops incomplete frames that waited for too long, and returns their number.
    pub fn expire(&mut self, now: Instant) -> usize {
        let mut given_up = 0;
        while self.frames.front().is_some_and(|oldest| now - oldest.since > REASSEMBLY_TIMEOUT) {
            self.remove(0);
            given_up += 1;
        }
        given_up
    }

    fn make_room(&mut self, bytes: usize) -> usize {
        let mut given_up = 0;
        while !self.frames.is_empty()
            && (self.frames.len() >= MAX_INCOMPLETE || self.bytes + bytes > self.max_bytes)
        {
            self.remove(0);
            given_up += 1;
        }
        given_up
    }

    fn remove(&mut self, at: usize) -> Option<Vec<u8>> {
        let partial = self.frames.remove(at)?;
        self.bytes -= partial.frame.len();
        Some(partial.frame)
    }
}

impl Partial {
    /// Records a piece; `false` if it overlaps another one or if there are too many.
    fn add(&mut self, start: u16, end: u16) -> bool {
        let at = self.received.partition_point(|&(from, _)| from < start);
        let before = at.checked_sub(1).and_then(|before| self.received.get(before));
        let clear = before.is_none_or(|&(_, until)| until <= start)
            && self.received.get(at).is_none_or(|&(from, _)| end <= from);
        if !clear || self.received.len() >= MAX_PIECES {
            return false;
        }
        self.received.insert(at, (start, end));
        true
    }

    fn is_complete(&self) -> bool {
        let there: usize =
            self.received.iter().map(|&(from, until)| usize::from(until - from)).sum();
        there == self.frame.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn now() -> Instant {
        Instant::from_micros(7)
    }

    #[test]
    fn pieces_are_even_and_none_is_too_long() {
        assert_eq!(PieceLayout::of(1000, 1000), Some(PieceLayout { count: 1, size: 1000 }));
        assert_eq!(PieceLayout::of(1001, 1000), Some(PieceLayout { count: 2, size: 501 }));
        assert_eq!(PieceLayout::of(MAX_FRAME, 1400).map(|split| split.count), Some(12));
        assert_eq!(PieceLayout::of(MAX_FRAME + 1, 1400), None);
        assert_eq!(PieceLayout::of(5, 0), None);
    }

    #[test]
    fn what_does_not_fit_gives_the_frame_up() {
        let piece = |number, offset, total| PieceHeader { number, offset, total };
        let mut whole = Reassembly::new(10_000);
        for bad in [piece(1, 0, 4), piece(1, 98, 100)] {
            assert_eq!(whole.add_piece(now(), &bad, &[0; 5]), Err(Reason::BadPiece));
        }
        assert_eq!(whole.add_piece(now(), &piece(1, 0, 10), &[]), Err(Reason::BadPiece));
        let too_long = piece(1, 0, MAX_FRAME as u16 + 1);
        assert_eq!(whole.add_piece(now(), &too_long, &[0; 5]), Err(Reason::BadPiece));
        for other in [piece(2, 4, 10), piece(2, 5, 11)] {
            assert_eq!(whole.add_piece(now(), &piece(2, 0, 10), &[0; 5]), Ok((None, 0)));
            assert_eq!(whole.add_piece(now(), &other, &[0; 5]), Err(Reason::BadPiece));
            assert_eq!(whole.bytes(), 0);
        }
    }

    #[test]
    fn memory_stays_within_its_bound() {
        let mut whole = Reassembly::new(1000);
        let mut given_up = 0;
        for number in 0..100 {
            let piece = PieceHeader { number, offset: 0, total: 300 };
            given_up += whole.add_piece(now(), &piece, &[0; 5]).unwrap().1;
            assert!(whole.bytes() <= 1000);
        }
        assert_eq!(given_up, 97);
        assert_eq!(whole.expire(now() + REASSEMBLY_TIMEOUT), 0);
        assert_eq!(whole.expire(now() + REASSEMBLY_TIMEOUT + Duration::from_micros(1)), 3);
        assert_eq!(whole.bytes(), 0);
        let piece = |total| PieceHeader { number: 1, offset: 0, total };
        assert_eq!(whole.add_piece(now(), &piece(1001), &[0; 5]), Err(Reason::BadPiece));
        assert_eq!(whole.add_piece(now(), &piece(1000), &[0; 5]), Ok((None, 0)));
        assert_eq!(whole.bytes(), 1000);
    }

    proptest! {
        #[test]
        fn any_order_gives_the_frame_and_a_piece_less_does_not(
            len in 1usize..9100, most in 200usize..1500, order in any::<u64>()
        ) {
            let frame: Vec<u8> = (0..len).map(|at| ((at * 7) >> 3) as u8).collect();
            let split = PieceLayout::of(len, most).unwrap();
            let mut pieces: Vec<_> = frame.chunks(split.size).enumerate().collect();
            prop_assert_eq!(pieces.len(), split.count);
            prop_assert!(split.size <= most);
            let mut random = lightseal_core::Random::insecure(order);
            for at in (1..pieces.len()).rev() {
                pieces.swap(at, random.below(at as u64 + 1) as usize);
            }
            let mut whole = Reassembly::new(1 << 16);
            let (last, rest) = pieces.split_last().unwrap();
            let take = |whole: &mut Reassembly, &(at, content): &(usize, &[u8])| {
                let piece = PieceHeader { number: 3, offset: (at * split.size) as u16, total: len as u16 };
                whole.add_piece(now(), &PieceHeader::decode(&piece.encode()).unwrap(), content)
            };
            for piece in rest {
                prop_assert_eq!(take(&mut whole, piece), Ok((None, 0)));
            }
            prop_assert_eq!(take(&mut whole, last), Ok((Some(frame.clone()), 0)));
            prop_assert_eq!(whole.bytes(), 0);
        }
    }
}
