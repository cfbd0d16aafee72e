//! Where a sender's stream stands: stated by the sender, or asked for by a listener.
//!
//! Both are records with their number in full ([`Form::Full`]), so that a listener that missed
//! thousands of records opens them. Both use up the number that they carry, and what they state
//! is that the sender's next number is one more.
//!
//! - A *sync record* has type [`GROUP_SYNC`] and no payload. It brings on who has fallen behind.
//!   It does not tell *when* it was made, so who knows nothing of the stream learns nothing safe
//!   from it.
//! - A *challenge* has type [`GROUP_CHALLENGE`] and 8 random bytes, from a listener that does not
//!   know whether what it receives is new. The sender's *answer* has the same type and the same
//!   bytes. Any member could answer under a key of the group: an answer is signed, or sealed under
//!   [`PairSecret::answer_secret`](super::PairSecret::answer_secret).
//!
//! A listener that opens the answer to its outstanding challenge continues with
//! `ReplayWindow::starting_at(next)`.

use super::header::Form;
use super::record::{Opened, Origin, Outgoing};
use super::source::SigningKey;
use super::{Direction, Stream};
use crate::codepoints::{GROUP_CHALLENGE, GROUP_SYNC};
use vocabulary::Random;

/// A sync record, which uses up `number`.
pub const fn sync(number: u64, signer: Option<&SigningKey>) -> Outgoing<'_> {
    Outgoing { number, kind: GROUP_SYNC, payload: &[], form: Form::Full, padding: 0, signer }
}

/// What a sync record states: the sender's next number. `None`: this is none.
pub fn synced(stream: &Stream, opened: &Opened<'_>) -> Option<u64> {
    let from_sender = stream.direction == Direction::Requests;
    let sync = from_sender && opened.kind == GROUP_SYNC && opened.in_full;
    (sync && opened.payload.is_empty()).then_some(opened.number + 1)
}

/// 8 random bytes that a sender is to repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Challenge(pub [u8; 8]);

impl Challenge {
    /// A new one.
    pub fn random(rng: &mut Random) -> Self {
        Self(rng.array())
    }

    /// The listener's record, which uses up `number`.
    pub const fn ask<'a>(
        &'a self,
        number: u64,
        form: Form,
        signer: Option<&'a SigningKey>,
    ) -> Outgoing<'a> {
        Outgoing { number, kind: GROUP_CHALLENGE, payload: &self.0, form, padding: 0, signer }
    }

    /// The challenge in a listener's record, if it is one.
    pub fn asked(stream: &Stream, opened: &Opened<'_>) -> Option<Self> {
        let from_listener =
            matches!(stream.direction, Direction::Responses(_) | Direction::PairwiseResponses(_));
        let payload = <[u8; 8]>::try_from(&*opened.payload).ok()?;
        (from_listener && opened.kind == GROUP_CHALLENGE).then_some(Self(payload))
    }

    /// The sender's answer, which uses up `number` of its requests: signed in the stream of its
    /// requests, or without a signature in its answers to this listener.
    pub const fn answer<'a>(&'a self, number: u64, signer: Option<&'a SigningKey>) -> Outgoing<'a> {
        self.ask(number, Form::Full, signer)
    }

    /// What the answer to this challenge states: the sender's next number. `None`: this is not
    /// the answer, or any member could have made it.
    pub fn answered(&self, stream: &Stream, opened: &Opened<'_>) -> Option<u64> {
        let from_sender = matches!(stream.direction, Direction::Requests | Direction::Answers(_));
        let answer = from_sender && opened.kind == GROUP_CHALLENGE && opened.in_full;
        let proven = opened.origin != Origin::Member;
        (answer && proven && *opened.payload == self.0).then_some(opened.number + 1)
    }
}
