//! Reassembles handshake messages of an observed association, in any order.

use crate::codepoints::HandshakeType;
use crate::handshake::ranges::Missing;
use crate::messages::Fragment;
use crate::tuning::longest_message;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// The number of incomplete messages kept.
const MAX_PARTIAL: usize = 8;
/// The number of complete messages remembered, to recognise retransmissions.
const MAX_DONE: usize = 32;

/// Identifies a message of one sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MessageKey {
    epoch: u64,
    kind: HandshakeType,
    sequence: u16,
}

/// An incomplete message. It takes no more memory than the fragments that arrived.
struct PartialMessage {
    which: MessageKey,
    length: u32,
    missing: Missing,
    pieces: Vec<(u32, Vec<u8>)>,
}

impl PartialMessage {
    fn body(&self) -> Vec<u8> {
        let mut body = alloc::vec![0; self.length as usize];
        for (offset, piece) in &self.pieces {
            let place = body.iter_mut().skip(*offset as usize);
            place.zip(piece).for_each(|(place, byte)| *place = *byte);
        }
        body
    }
}

/// Messages of one sender.
#[derive(Default)]
pub(super) struct PartialMessages {
    partial: VecDeque<PartialMessage>,
    done: VecDeque<MessageKey>,
}

impl PartialMessages {
    /// Takes a fragment. Returns the message's body when it is complete for the first time.
    pub(super) fn take(&mut self, epoch: u64, fragment: &Fragment<'_>) -> Option<Vec<u8>> {
        let Fragment { kind, sequence, length, offset, body } = *fragment;
        let which = MessageKey { epoch, kind, sequence };
        if self.done.contains(&which) || length as usize > longest_message(kind) {
            return None;
        }
        if fragment.is_whole() {
            return Some(self.finish(which, body.to_vec()));
        }
        let same = |partial: &PartialMessage| partial.which == which && partial.length == length;
        let at = self.partial.iter().position(same).unwrap_or_else(|| {
            if self.partial.len() == MAX_PARTIAL {
                self.partial.pop_front();
            }
            let (missing, pieces) = (Missing::all(length), Vec::new());
            self.partial.push_back(PartialMessage { which, length, missing, pieces });
            self.partial.len() - 1
        });
        let partial = self.partial.get_mut(at)?;
        if partial.missing.fill(offset..offset + body.len() as u32) {
            partial.pieces.push((offset, body.to_vec()));
        }
        if !partial.missing.is_empty() {
            return None;
        }
        let body = self.partial.remove(at)?.body();
        Some(self.finish(which, body))
    }

    fn finish(&mut self, which: MessageKey, body: Vec<u8>) -> Vec<u8> {
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
        let mut pieces = PartialMessages::default();
        assert_eq!(pieces.take(2, &fragment(1, 3, b"def")), None);
        assert_eq!(pieces.take(2, &fragment(0, 0, b"uvwxyz")).unwrap(), b"uvwxyz");
        assert_eq!(pieces.take(2, &fragment(1, 0, b"abcd")).unwrap(), b"abcdef");
        assert_eq!(pieces.take(2, &fragment(1, 0, b"abcdef")), None);
        assert!(pieces.take(3, &fragment(1, 0, b"abcdef")).is_some());
    }

    #[test]
    fn junk_is_bounded() {
        let mut pieces = PartialMessages::default();
        for sequence in 0..1000 {
            assert_eq!(pieces.take(0, &fragment(sequence, 0, b"x")), None);
        }
        assert_eq!(pieces.partial.len(), MAX_PARTIAL);
        let long = Fragment { length: 1 << 23, ..fragment(0, 0, b"x") };
        assert_eq!(pieces.take(0, &long), None);
        assert_eq!(pieces.partial.len(), MAX_PARTIAL);
    }
}
