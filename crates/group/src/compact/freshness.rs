//! Sync records, challenges and answers: how a listener learns the next record number of a sender.
//!
//! Sync records and answers carry their number in full ([`HeaderForm::Full`]), so that a listener
//! that has missed thousands of records can open them. Both use up the number that they carry, and
//! state that the sender's next number is one higher.
//!
//! - A *sync record* has type [`GROUP_SYNC`] and no payload. It moves the replay window of a
//!   listener that has fallen behind. It does not prove *when* it was made, so a listener that
//!   knows nothing of the stream cannot rely on it.
//! - A *challenge* has type [`GROUP_CHALLENGE`] and 8 random bytes. A listener sends it when it
//!   does not know whether the records that it receives are fresh. The sender's *answer* has the
//!   same type and the same bytes. Because any member could answer under a key of the group, an
//!   answer is signed, or sealed under
//!   [`PairSecret::answer_secret`](super::PairSecret::answer_secret).
//!
//! A listener that opens the answer to its outstanding challenge continues with
//! `ReplayWindow::starting_at(next)`.

use super::header::HeaderForm;
use super::record::{OpenedRecord, PlainRecord, ProvenOrigin};
use super::source::SigningKey;
use super::{Direction, Stream};
use crate::codepoints::{GROUP_CHALLENGE, GROUP_SYNC};
use lightseal_core::Random;

/// A sync record with the number `number`, which is thereby used.
pub const fn sync(number: u64, signer: Option<&SigningKey>) -> PlainRecord<'_> {
    PlainRecord {
        number,
        kind: GROUP_SYNC,
        payload: &[],
        form: HeaderForm::Full,
        padding: 0,
        signer,
    }
}

/// The sender's next number, as stated by a sync record; `None` if the record is not a sync record.
pub fn synced(stream: &Stream, opened: &OpenedRecord<'_>) -> Option<u64> {
    let from_sender = stream.direction == Direction::Requests;
    let sync = from_sender && opened.kind == GROUP_SYNC && opened.in_full;
    (sync && opened.payload.is_empty()).then_some(opened.number + 1)
}

/// The 8 random bytes of a challenge, which the sender's answer repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Challenge(pub [u8; 8]);

impl Challenge {
    /// A new challenge.
    pub fn random(rng: &mut Random) -> Self {
        Self(rng.array())
    }

    /// The listener's record with this challenge and the number `number`, which is thereby used.
    pub const fn ask<'a>(
        &'a self,
        number: u64,
        form: HeaderForm,
        signer: Option<&'a SigningKey>,
    ) -> PlainRecord<'a> {
        PlainRecord { number, kind: GROUP_CHALLENGE, payload: &self.0, form, padding: 0, signer }
    }

    /// The challenge in a listener's record; `None` if the record is not a challenge.
    pub fn asked(stream: &Stream, opened: &OpenedRecord<'_>) -> Option<Self> {
        let from_listener =
            matches!(stream.direction, Direction::Responses(_) | Direction::PairwiseResponses(_));
        let payload = <[u8; 8]>::try_from(&*opened.payload).ok()?;
        (from_listener && opened.kind == GROUP_CHALLENGE).then_some(Self(payload))
    }

    /// The sender's answer with the number `number` of its requests, which is thereby used. It is
    /// signed in the stream of requests, and not signed in the stream of pairwise answers to this
    /// listener.
    pub const fn answer<'a>(
        &'a self,
        number: u64,
        signer: Option<&'a SigningKey>,
    ) -> PlainRecord<'a> {
        self.ask(number, HeaderForm::Full, signer)
    }

    /// The sender's next number, as stated by the answer to this challenge; `None` if the record is
    /// not the answer, or any member could have written it.
    pub fn answered(&self, stream: &Stream, opened: &OpenedRecord<'_>) -> Option<u64> {
        let from_sender = matches!(stream.direction, Direction::Requests | Direction::Answers(_));
        let answer = from_sender && opened.kind == GROUP_CHALLENGE && opened.in_full;
        let proven = opened.origin != ProvenOrigin::Member;
        (answer && proven && *opened.payload == self.0).then_some(opened.number + 1)
    }
}
