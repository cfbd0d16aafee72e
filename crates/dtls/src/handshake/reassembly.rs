//! Incoming handshake messages: ordered and reassembled (RFC 9147, section 5.5).

use super::ranges::Missing;
use crate::codepoints::HandshakeType;
use crate::messages::Fragment;
use crate::tuning::{MAX_HANDSHAKE_MESSAGE, MAX_MESSAGES_AHEAD};
use alloc::vec::Vec;

#[derive(Debug)]
struct Partial {
    kind: HandshakeType,
    sequence: u16,
    epoch: u64,
    body: Vec<u8>,
    missing: Missing,
}

/// A complete message.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) kind: HandshakeType,
    /// Its number in the sender's sequence.
    pub(crate) sequence: u16,
    /// The epoch it came in, which its type must fit.
    pub(crate) epoch: u64,
    pub(crate) body: Vec<u8>,
}

/// What became of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offered {
    /// Of a message that was processed before.
    Old,
    /// Taken, or known already.
    Stored,
    /// Too far ahead, too long, too scattered, or at odds with what came before.
    Refused,
}

/// Messages in the making.
#[derive(Debug, Default)]
pub(crate) struct Reassembly {
    next: u16,
    partial: Vec<Partial>,
    /// Whether messages in clear may come ahead of their turn: in DTLS 1.2 a server's
    /// whole flight is in clear, in 1.3 only its first message.
    clear_ahead: bool,
}

impl Reassembly {
    /// Expects the message with sequence number `next` first.
    pub(crate) const fn starting_at(next: u16) -> Self {
        Self { next, partial: Vec::new(), clear_ahead: false }
    }

    /// Whether messages in clear may come ahead of their turn from now on. If not, those that
    /// did are dropped.
    pub(crate) fn allow_clear_ahead(&mut self, allowed: bool) {
        self.clear_ahead = allowed;
        if !allowed {
            self.partial.retain(|partial| partial.epoch > 0);
        }
    }

    /// Whether nothing of a message came that was not processed yet.
    pub(crate) const fn is_empty(&self) -> bool {
        self.partial.is_empty()
    }

    /// Whether the message with this sequence number was processed before.
    pub(crate) const fn is_old(&self, sequence: u16) -> bool {
        sequence.wrapping_sub(self.next) >= 1 << 15
    }

    /// Takes a fragment that came in `epoch`.
    ///
    /// Where it contradicts what came before, the better protected one counts,
    /// and else the newer: a forged fragment in clear must not keep the genuine ones out.
    pub(crate) fn offer(&mut self, epoch: u64, fragment: &Fragment<'_>) -> Offered {
        if self.is_old(fragment.sequence) {
            return Offered::Old;
        }
        let ahead = fragment.sequence.wrapping_sub(self.next);
        // In 1.3 nothing is sent in clear behind a message the receiver has not answered.
        if epoch == 0 && ahead > 0 && !self.clear_ahead
            || ahead > MAX_MESSAGES_AHEAD
            || fragment.length as usize > MAX_HANDSHAKE_MESSAGE
        {
            return Offered::Refused;
        }
        let fresh = || Partial {
            kind: fragment.kind,
            sequence: fragment.sequence,
            epoch,
            body: alloc::vec![0; fragment.length as usize],
            missing: Missing::all(fragment.length),
        };
        let at = match self.partial.iter().position(|p| p.sequence == fragment.sequence) {
            Some(at) => at,
            None => {
                self.partial.push(fresh());
                self.partial.len() - 1
            }
        };
        let Some(partial) = self.partial.get_mut(at) else { return Offered::Refused };
        if partial.kind != fragment.kind
            || partial.epoch != epoch
            || partial.body.len() != fragment.length as usize
        {
            if epoch < partial.epoch {
                return Offered::Refused;
            }
            *partial = fresh();
        }
        let end = fragment.offset + fragment.body.len() as u32;
        let Some(slot) = partial.body.get_mut(fragment.offset as usize..end as usize) else {
            return Offered::Refused;
        };
        slot.copy_from_slice(fragment.body);
        let piece = fragment.offset..end;
        if !partial.missing.fill(piece.clone()) && partial.missing.lacks(&piece) {
            return Offered::Refused;
        }
        Offered::Stored
    }

    /// The next message in sequence, once it is complete.
    pub(crate) fn next_message(&mut self) -> Option<Message> {
        let at =
            self.partial.iter().position(|p| p.sequence == self.next && p.missing.is_empty())?;
        let partial = self.partial.swap_remove(at);
        self.next = self.next.wrapping_add(1);
        let Partial { kind, sequence, epoch, body, .. } = partial;
        Some(Message { kind, sequence, epoch, body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fragment(sequence: u16, offset: u32, body: &[u8]) -> Fragment<'_> {
        Fragment { kind: HandshakeType::FINISHED, length: 6, sequence, offset, body }
    }

    #[test]
    fn pieces_in_any_order_make_messages_in_order() {
        let mut reassembly = Reassembly::default();
        assert_eq!(reassembly.offer(2, &fragment(1, 0, b"second")), Offered::Stored);
        assert!(reassembly.next_message().is_none());
        assert_eq!(reassembly.offer(2, &fragment(0, 3, b"st!")), Offered::Stored);
        assert_eq!(reassembly.offer(2, &fragment(0, 2, b"rst")), Offered::Stored);
        assert!(reassembly.next_message().is_none());
        assert_eq!(reassembly.offer(2, &fragment(0, 0, b"fi")), Offered::Stored);
        assert_eq!(reassembly.next_message().unwrap().body, b"first!");
        assert_eq!(reassembly.next_message().unwrap().body, b"second");
        assert_eq!(reassembly.offer(2, &fragment(0, 0, b"fi")), Offered::Old);
        assert!(reassembly.next_message().is_none());
    }

    #[test]
    fn memory_is_bounded() {
        let mut reassembly = Reassembly::default();
        assert_eq!(reassembly.offer(2, &fragment(MAX_MESSAGES_AHEAD, 0, b"a")), Offered::Stored);
        assert_eq!(
            reassembly.offer(2, &fragment(MAX_MESSAGES_AHEAD + 1, 0, b"a")),
            Offered::Refused
        );
        let long = |length| Fragment { length, ..fragment(0, 0, b"") };
        assert_eq!(reassembly.offer(2, &long(MAX_HANDSHAKE_MESSAGE as u32 + 1)), Offered::Refused);
        assert_eq!(reassembly.offer(2, &long(MAX_HANDSHAKE_MESSAGE as u32)), Offered::Stored);
    }

    #[test]
    fn the_better_protected_fragment_counts_and_else_the_newer() {
        let mut reassembly = Reassembly::default();
        let other = Fragment { length: 3, ..fragment(0, 0, b"new") };
        assert_eq!(reassembly.offer(0, &fragment(0, 0, b"fir")), Offered::Stored);
        assert_eq!(reassembly.offer(0, &other), Offered::Stored);
        assert_eq!(reassembly.offer(2, &fragment(0, 0, b"fir")), Offered::Stored);
        assert_eq!(reassembly.offer(0, &other), Offered::Refused);
        assert_eq!(reassembly.offer(2, &fragment(0, 3, b"st!")), Offered::Stored);
        assert_eq!(reassembly.next_message().unwrap().body, b"first!");
        assert_eq!(reassembly.offer(0, &fragment(2, 0, b"a")), Offered::Refused, "ahead, in clear");
    }

    #[test]
    fn what_leaves_too_many_holes_is_not_kept() {
        let mut reassembly = Reassembly::default();
        let speck = |at| Fragment { length: 100, ..fragment(0, at, b"x") };
        let kept = (0..40).filter(|i| reassembly.offer(2, &speck(2 * i + 1)) == Offered::Stored);
        let kept: Vec<_> = kept.collect();
        assert!((1..40).contains(&kept.len()), "{kept:?}");
        for at in kept {
            assert_eq!(reassembly.offer(2, &speck(2 * at + 1)), Offered::Stored, "known");
        }
        let whole = Fragment { length: 100, ..fragment(0, 0, &[7; 100]) };
        assert_eq!(reassembly.offer(2, &whole), Offered::Stored);
        assert_eq!(reassembly.next_message().unwrap().body, [7; 100]);
    }

    #[test]
    fn sequence_numbers_wrap() {
        let mut reassembly = Reassembly::starting_at(u16::MAX);
        assert_eq!(reassembly.offer(3, &fragment(0, 0, b"second")), Offered::Stored);
        assert_eq!(reassembly.offer(3, &fragment(u16::MAX, 0, b"first!")), Offered::Stored);
        assert_eq!(reassembly.next_message().unwrap().body, b"first!");
        assert_eq!(reassembly.next_message().unwrap().body, b"second");
    }
}
