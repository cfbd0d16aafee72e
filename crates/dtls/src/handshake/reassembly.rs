//! Reassembles and orders incoming handshake messages (RFC 9147, section 5.5).

use super::ranges::Missing;
use crate::codepoints::HandshakeType;
use crate::messages::Fragment;
use crate::parts::Dtls12;
use crate::seldom::SeldomList;
use crate::tuning::{MAX_MESSAGES_AHEAD, longest_message};
use alloc::vec::Vec;
use lightseal_core::wire::BufferFull;
use lightseal_core::{DecodeError, Reader, Writer};

#[derive(Debug)]
struct PartialMessage {
    kind: HandshakeType,
    sequence: u16,
    epoch: u64,
    body: Vec<u8>,
    missing: Missing,
}

impl PartialMessage {
    fn sequence_is(&self, sequence: u32) -> bool {
        u32::from(self.sequence) == sequence
    }
}

/// A complete message.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) kind: HandshakeType,
    /// The message number.
    pub(crate) sequence: u16,
    /// The epoch in which the message came, which must be that of its type.
    pub(crate) epoch: u64,
    pub(crate) body: Vec<u8>,
}

/// The outcome for a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offered {
    /// The fragment belongs to a message that was already processed.
    Old,
    /// The fragment was stored, or was stored already.
    Stored,
    /// The fragment is too far ahead, of a message that is too long, leaves too many holes, or is
    /// less protected than an earlier fragment.
    Refused,
    /// The fragment contradicts an earlier one under the same keys (RFC 9147, section 5.5).
    Changed,
    /// The message number has wrapped.
    Wrapped,
}

/// The messages that are being reassembled.
#[derive(Debug, Default)]
pub(crate) struct Reassembly {
    /// The number of the next message; beyond 65,535 no message is valid.
    next: u32,
    partial: SeldomList<PartialMessage>,
    /// Whether plaintext messages are accepted in [any order](ClearMessages::AnyOrder).
    any_order: Option<Dtls12>,
}

/// The plaintext messages that are accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ClearMessages {
    /// The next one only. In DTLS 1.3 only a server's first message is plaintext.
    #[default]
    InOrder,
    /// Messages that overtook others too. In DTLS 1.2 a server's whole flight is plaintext.
    AnyOrder,
}

impl Reassembly {
    /// Expects the message with sequence number `next` first.
    pub(crate) fn starting_at(next: u16) -> Self {
        Self { next: next.into(), partial: SeldomList::EMPTY, any_order: None }
    }

    /// Expects what the reassembly expected that [`write`](Self::write) has written.
    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let next = u32::try_from(r.varint()?).map_err(|_| DecodeError::invalid("number"))?;
        let is_any = r.u8()? != 0;
        let any_order = Dtls12::INCLUDED.filter(|_| is_any);
        Ok(Self { next, partial: SeldomList::EMPTY, any_order })
    }

    /// Writes what is expected, without the parts of messages.
    pub(crate) fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        w.varint(self.next.into())?;
        w.u8(self.any_order.is_some().into())
    }

    /// Sets which plaintext messages are accepted. Stored messages that are not accepted any more
    /// are dropped.
    pub(crate) fn accept_clear(&mut self, clear: ClearMessages) {
        self.any_order = Dtls12::INCLUDED.filter(|_| clear == ClearMessages::AnyOrder);
        if clear == ClearMessages::InOrder {
            self.partial.retain(|partial| partial.epoch > 0);
        }
    }

    /// The number of the next message: the number of messages taken so far, if the first one had
    /// number 0.
    pub(crate) const fn taken(&self) -> u32 {
        self.next
    }

    /// Whether no message is partly received or waits for an earlier one.
    pub(crate) fn is_empty(&self) -> bool {
        self.partial.is_empty()
    }

    /// Whether the message with this sequence number was processed before.
    pub(crate) fn is_old(&self, sequence: u16) -> bool {
        u32::from(sequence) < self.next
    }

    /// Continues with another message number.
    #[cfg(test)]
    pub(crate) const fn skip_to(&mut self, next: u32) {
        self.next = next;
    }

    /// Stores a fragment that came in `epoch`.
    ///
    /// If it contradicts an earlier fragment, the better protected one counts. In plaintext the
    /// newer one counts: a forged fragment must not keep out the authentic ones. Under the keys of
    /// one epoch a peer must not change a message that it retransmits.
    pub(crate) fn offer(&mut self, epoch: u64, fragment: &Fragment<'_>) -> Offered {
        let sequence = u32::from(fragment.sequence);
        let Some(ahead) = sequence.checked_sub(self.next) else {
            // At this distance the number has wrapped: no message is retransmitted after 32,768
            // later ones.
            let wrapped = self.next - sequence > 1 << 15;
            return if wrapped { Offered::Wrapped } else { Offered::Old };
        };
        // In DTLS 1.3 no plaintext follows a message that the receiver has not answered.
        if epoch == 0 && ahead > 0 && self.any_order.is_none()
            || ahead > MAX_MESSAGES_AHEAD.into()
            || fragment.length as usize > longest_message(fragment.kind)
        {
            return Offered::Refused;
        }
        let fresh = || PartialMessage {
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
            if epoch > 0 && epoch == partial.epoch {
                return Offered::Changed;
            }
            *partial = fresh();
        }
        let end = fragment.offset + fragment.body.len() as u32;
        let Some(slot) = partial.body.get_mut(fragment.offset as usize..end as usize) else {
            return Offered::Refused;
        };
        let mut bytes = (fragment.offset..).zip(slot.iter().zip(fragment.body));
        if epoch > 0 && bytes.any(|(at, (old, new))| old != new && !partial.missing.lacks_byte(at))
        {
            return Offered::Changed;
        }
        slot.copy_from_slice(fragment.body);
        let piece = fragment.offset..end;
        if !partial.missing.fill(piece.clone()) && partial.missing.lacks(&piece) {
            return Offered::Refused;
        }
        Offered::Stored
    }

    /// Whether the next message in sequence is complete.
    pub(crate) fn has_message(&self) -> bool {
        self.partial.iter().any(|p| p.sequence_is(self.next) && p.missing.is_empty())
    }

    /// The next message in sequence, once it is complete.
    pub(crate) fn next_message(&mut self) -> Option<Message> {
        let at =
            self.partial.iter().position(|p| p.sequence_is(self.next) && p.missing.is_empty())?;
        let partial = self.partial.remove(at)?;
        self.next += 1;
        let PartialMessage { kind, sequence, epoch, body, .. } = partial;
        Some(Message { kind, sequence, epoch, body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuning::{MAX_CERTIFICATE_MESSAGE, MAX_HANDSHAKE_MESSAGE};

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
        let chain = |length| Fragment { kind: HandshakeType::CERTIFICATE, ..long(length) };
        let most = MAX_CERTIFICATE_MESSAGE as u32;
        assert_eq!(Reassembly::default().offer(2, &chain(most + 1)), Offered::Refused);
        assert_eq!(Reassembly::default().offer(2, &chain(most)), Offered::Stored);
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
        assert_eq!(
            reassembly.offer(0, &fragment(2, 0, b"a")),
            Offered::Refused,
            "ahead, in plaintext"
        );
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
        let whole = Fragment { length: 100, ..fragment(0, 0, &[b'x'; 100]) };
        assert_eq!(reassembly.offer(2, &whole), Offered::Stored);
        assert_eq!(reassembly.next_message().unwrap().body, [b'x'; 100]);
    }

    #[test]
    fn a_byte_that_changes_under_keys_is_told_and_in_clear_the_newer_one_counts() {
        let longer = Fragment { length: 7, ..fragment(0, 0, b"fir") };
        let other = Fragment { kind: HandshakeType::KEY_UPDATE, ..fragment(0, 0, b"fir") };
        let mut reassembly = Reassembly::default();
        assert_eq!(reassembly.offer(2, &fragment(0, 0, b"fir")), Offered::Stored);
        assert_eq!(reassembly.offer(2, &fragment(0, 1, b"irs")), Offered::Stored);
        for changed in [fragment(0, 2, b"Rst"), longer, other] {
            assert_eq!(reassembly.offer(2, &changed), Offered::Changed);
        }
        assert_eq!(reassembly.offer(2, &fragment(0, 3, b"st!")), Offered::Stored);
        assert_eq!(reassembly.next_message().unwrap().body, b"first!");
        for body in [b"forged", b"second"] {
            assert_eq!(reassembly.offer(0, &fragment(1, 0, &body[..5])), Offered::Stored);
            assert_eq!(reassembly.offer(0, &fragment(1, 5, &body[5..])), Offered::Stored);
        }
        assert_eq!(reassembly.next_message().unwrap().body, b"second");
    }

    #[test]
    fn sequence_numbers_do_not_wrap() {
        let mut reassembly = Reassembly::starting_at(u16::MAX - 1);
        assert_eq!(reassembly.offer(3, &fragment(u16::MAX, 0, b"second")), Offered::Stored);
        assert_eq!(reassembly.offer(3, &fragment(0, 0, b"third!")), Offered::Wrapped);
        assert_eq!(reassembly.offer(3, &fragment(u16::MAX - 1, 0, b"first!")), Offered::Stored);
        assert_eq!(reassembly.next_message().unwrap().body, b"first!");
        assert_eq!(reassembly.next_message().unwrap().body, b"second");
        assert_eq!(reassembly.offer(3, &fragment(u16::MAX, 0, b"second")), Offered::Old);
        assert_eq!(reassembly.offer(3, &fragment(0, 0, b"third!")), Offered::Wrapped);
        assert!(reassembly.next_message().is_none());
    }
}
