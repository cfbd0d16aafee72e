//! Handshake messages from their fragments, as they come: no order is asked for.

use crate::codepoints::HandshakeType;
use crate::handshake::ranges::Missing;
use crate::messages::Fragment;
use crate::tuning::MAX_HANDSHAKE_MESSAGE;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Messages in the making that are kept.
const MAX_PARTIAL: usize = 8;
/// Messages that came whole and are known again.
const MAX_DONE: usize = 32;

/// Which message of one sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Which {
    epoch: u64,
    kind: HandshakeType,
    sequence: u16,
}

/// Messages of one sender.
#[derive(Default)]
pub(super) struct Pieces {
    partial: VecDeque<(Which, Vec<u8>, Missing)>,
    done: VecDeque<Which>,
}

impl Pieces {
    /// Takes a fragment; the message's body, when it is whole for the first time.
    pub(super) fn take(&mut self, epoch: u64, fragment: &Fragment<'_>) -> Option<Vec<u8>> {
        let length = fragment.length as usize;
        let which = Which { epoch, kind: fragment.kind, sequence: fragment.sequence };
        if self.done.contains(&which) || length > MAX_HANDSHAKE_MESSAGE {
            return None;
        }
        if fragment.is_whole() {
            return Some(self.finish(which, fragment.body.to_vec()));
        }
        let same =
            |(other, body, _): &(Which, Vec<u8>, Missing)| *other == which && body.len() == length;
        let at = self.partial.iter().position(same).unwrap_or_else(|| {
            if self.partial.len() == MAX_PARTIAL {
                self.partial.pop_front();
            }
            let missing = Missing::all(fragment.length);
            self.partial.push_back((which, alloc::vec![0; length], missing));
            self.partial.len() - 1
        });
        let (_, body, missing) = self.partial.get_mut(at)?;
        let piece = fragment.offset..fragment.offset + fragment.body.len() as u32;
        let place = body.get_mut(piece.start as usize..piece.end as usize)?;
        if missing.fill(piece) {
            place.copy_from_slice(fragment.body);
        }
        if !missing.is_empty() {
            return None;
        }
        let (which, body, _) = self.partial.remove(at)?;
        Some(self.finish(which, body))
    }

    fn finish(&mut self, which: Which, body: Vec<u8>) -> Vec<u8> {
        if self.done.len() == MAX_DONE {
            self.done.pop_front();
        }
        self.done.push_back(which);
        body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fragment(sequence: u16, offset: u32, body: &[u8]) -> Fragment<'_> {
        Fragment { kind: HandshakeType::FINISHED, length: 6, sequence, offset, body }
    }

    #[test]
    fn messages_come_whole_once_in_any_order() {
        let mut pieces = Pieces::default();
        assert_eq!(pieces.take(2, &fragment(1, 3, b"def")), None);
        assert_eq!(pieces.take(2, &fragment(0, 0, b"uvwxyz")).unwrap(), b"uvwxyz");
        assert_eq!(pieces.take(2, &fragment(1, 0, b"abcd")).unwrap(), b"abcdef");
        assert_eq!(pieces.take(2, &fragment(1, 0, b"abcdef")), None);
        assert!(pieces.take(3, &fragment(1, 0, b"abcdef")).is_some());
    }

    #[test]
    fn junk_is_bounded() {
        let mut pieces = Pieces::default();
        for sequence in 0..1000 {
            assert_eq!(pieces.take(0, &fragment(sequence, 0, b"x")), None);
        }
        assert_eq!(pieces.partial.len(), MAX_PARTIAL);
        let long = Fragment { length: 1 << 23, ..fragment(0, 0, b"x") };
        assert_eq!(pieces.take(0, &long), None);
        assert_eq!(pieces.partial.len(), MAX_PARTIAL);
    }
}
