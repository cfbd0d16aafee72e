//! How listeners learn a sender's current record number: sync records, challenges of listeners, and
//! the sender's answers.
//!
//! To prevent amplification, an answer is no longer than the record that it answers, goes to that
//! record's source address, and is limited in rate. Anybody can trigger a challenge by sending a
//! record with a listed SenderID, so a listener has at most one outstanding challenge for each
//! sender, and waits longer each time that it is not answered.

use super::epoch::Epoch;
use super::keys::{AuthenticRecord, ReceivedRecord, RequiredProof, Suite};
use super::map::SmallMap;
use super::outcome::{DropReason, Origin, RecordOutcome};
use super::{Member, Transmit, micros};
use crate::codepoints::GROUP_CHALLENGE;
use crate::compact::{Challenge, RecordKeys};
use crate::parts::PeerKeys;
use crate::{ListenerId, SenderId, compact};
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;
use lightseal_core::parts::PartState;
use lightseal_core::{Instant, Random, ReplayWindow};

/// The maximum random delay before a challenge: other listeners may need to send one at the same
/// moment.
const JITTER: Duration = Duration::from_secs(1);
/// How long the first answer is awaited. The time doubles with each challenge that is not answered,
/// up to 2^6 times this value.
const TIMEOUT: Duration = Duration::from_secs(4);
const MOST_DOUBLINGS: u32 = 6;
/// The maximum number of answers that a sender sends in one burst.
const BURST: u32 = 32;
/// The interval after which the sender may send one more answer.
const ANSWER_INTERVAL: Duration = Duration::from_millis(20);
/// The number of recently answered challenges that a sender remembers, so as not to answer them
/// twice.
const RECENT: usize = 32;
/// Buffer size for the longest record built in this module: a signed record with a boot.
const ROOM: usize = 160;
/// The maximum length in bytes of an answer under pairwise keys: header, challenge, content type
/// and tag.
const MOST_ANSWER: usize = 17 + 9 + 16;

/// A listener's challenges, at most one for each sender.
pub(super) struct Challenges(PartState<PeerKeys, PendingChallenges>);

type PendingChallenges = SmallMap<SenderId, PendingChallenge>;

struct PendingChallenge {
    epoch: u64,
    to: SocketAddr,
    /// Whether an authentic record came from that address.
    origin: Origin,
    /// `None` until the challenge is sent.
    challenge: Option<Challenge>,
    /// When the challenge is to be sent or, once sent, when it expires.
    at: Instant,
    unanswered: u32,
}

impl Challenges {
    pub(super) const NONE: Self = Self(PartState::EMPTY);

    fn pending(&self) -> Option<&PendingChallenges> {
        self.0.get()
    }

    fn get_mut(&mut self, sender: SenderId) -> Option<&mut PendingChallenge> {
        self.0.get_mut()?.get_mut(sender)
    }

    fn get(&self, sender: SenderId) -> Option<&PendingChallenge> {
        self.pending()?.get(sender)
    }

    /// Whether a challenge to this sender is scheduled or outstanding, at an address from which an
    /// authentic record came.
    pub(super) fn is_asked(&self, now: Instant, sender: SenderId, epoch: u64) -> bool {
        self.get(sender).is_some_and(|asking| {
            let waits = asking.challenge.is_none() || now < asking.at;
            asking.epoch == epoch && asking.origin == Origin::Member && waits
        })
    }

    /// Schedules a challenge to a sender.
    pub(super) fn schedule(
        &mut self,
        part: PeerKeys,
        (now, rng): (Instant, &mut Random),
        (sender, epoch): (SenderId, u64),
        to: SocketAddr,
        origin: Origin,
    ) {
        let mut unanswered = 0;
        if let Some(asking) = self.get_mut(sender)
            && asking.epoch >= epoch
        {
            if asking.challenge.is_none() || now < asking.at {
                if origin > asking.origin && asking.challenge.is_none() {
                    (asking.to, asking.origin) = (to, origin);
                }
                return;
            }
            unanswered = (asking.unanswered + 1).min(MOST_DOUBLINGS);
        }
        let at = now.plus_micros(rng.below(micros(JITTER)));
        let asking = PendingChallenge { epoch, to, origin, challenge: None, at, unanswered };
        self.0.get_or_insert_with(part, SmallMap::new).insert(sender, asking);
    }

    pub(super) fn wake_at(&self) -> Option<Instant> {
        let unsent = self.pending()?.iter().filter(|(_, asking)| asking.challenge.is_none());
        unsent.map(|(_, asking)| asking.at).min()
    }

    fn outstanding(&self, sender: SenderId, epoch: u64) -> Option<Challenge> {
        let asking = self.get(sender).filter(|asking| asking.epoch == epoch);
        asking.and_then(|asking| asking.challenge)
    }
}

/// Limits the rate at which a sender answers challenges.
pub(super) struct AnswerLimiter {
    left: u32,
    since: Instant,
    recent: Vec<(ListenerId, Challenge)>,
}

impl AnswerLimiter {
    pub(super) const fn new(now: Instant) -> Self {
        Self { left: BURST, since: now, recent: Vec::new() }
    }

    fn may(&mut self, now: Instant) -> bool {
        let more = micros(now.saturating_since(self.since)) / micros(ANSWER_INTERVAL);
        if more > 0 {
            self.left = BURST.min(self.left.saturating_add(more.try_into().unwrap_or(BURST)));
            self.since = now;
        }
        let may = self.left > 0;
        self.left = self.left.saturating_sub(1);
        may
    }
}

impl Member {
    /// Sends the challenges and the sync record that are due.
    pub(super) fn send_due(&mut self, now: Instant) {
        let due = |(sender, asking): (&SenderId, &PendingChallenge)| {
            (asking.challenge.is_none() && asking.at <= now).then_some((*sender, asking.epoch))
        };
        while let Some(due) = self.challenges.pending().and_then(|all| all.iter().find_map(due)) {
            self.challenge(now, due);
        }
        if !self.suite.is_compact() {
            return;
        }
        let (_, epoch) = self.epochs.sending(now);
        if epoch.sync_at().is_some_and(|at| at <= now) {
            self.sync(now);
        }
    }

    /// Sends a challenge to a sender whose current record number is not known.
    fn challenge(&mut self, now: Instant, (sender, at): (SenderId, u64)) {
        let challenge = Challenge::random(&mut self.rng);
        let mut buf = [0; ROOM];
        let record = (GROUP_CHALLENGE, &challenge.0[..]);
        let sealed = self.seal_response(now, (at, sender, None), record, &mut buf);
        let Some(asking) = self.challenges.get_mut(sender) else { return };
        asking.challenge = Some(challenge);
        asking.at = now + TIMEOUT * (1 << asking.unanswered);
        let to = asking.to;
        // If sealing failed, the sender's public key is missing. Another challenge follows later.
        if let Ok(len) = sealed
            && !self.has_session(to)
        {
            self.transmit(Transmit { to, datagram: buf[..len].into() });
        }
    }

    /// Answers a listener's challenge.
    pub(super) fn answer(
        &mut self,
        now: Instant,
        at: u64,
        to: (ListenerId, SocketAddr),
        challenge: Challenge,
    ) {
        let answers = &mut self.answers;
        if answers.recent.contains(&(to.0, challenge)) || !answers.may(now) {
            return;
        }
        answers.recent.truncate(RECENT - 1);
        answers.recent.insert(0, (to.0, challenge));
        self.send_answer(now, at, to, challenge);
    }

    /// Tells a listener that its boot nonce is known, so that it need not state it again.
    pub(super) fn acknowledge(
        &mut self,
        now: Instant,
        at: u64,
        to: (ListenerId, SocketAddr),
        nonce: [u8; 8],
    ) {
        if self.answers.may(now) {
            self.send_answer(now, at, to, Challenge(nonce));
        }
    }

    fn send_answer(
        &mut self,
        now: Instant,
        at: u64,
        (listener, to): (ListenerId, SocketAddr),
        challenge: Challenge,
    ) {
        let Some(sender) = self.roles.sender.filter(|_| self.permission.covers(at)) else { return };
        let Self { epochs, ledger, policy, identity, .. } = self;
        let Some(epoch) = epochs.receiving(now, at) else { return };
        let (paired, state) = (epoch.paired.get(), &mut epoch.state);
        let (Some(own), Ok(reserved)) = (&mut state.own, &mut state.reserved) else { return };
        let Ok(number) = reserved.take(&mut own.numbers, &mut **ledger) else { return };
        let mut buf = [0; ROOM];
        let sealed = match policy.pairwise() {
            Some(_) => paired.and_then(|paired| {
                let pair = paired.pairs.get(&listener)?;
                let keys = state.keys.answer_keys(pair, (listener, sender), &challenge)?;
                keys.seal(&challenge.answer(number, None), &mut buf).ok()
            }),
            None => identity.signer().and_then(|signer| {
                own.sealer.seal_as(&challenge.answer(number, Some(signer)), &mut buf)
            }),
        };
        if let Some(len) = sealed {
            self.transmit(Transmit { to, datagram: buf[..len].into() });
        }
        self.used_numbers(now);
    }

    /// Schedules a sync record after record numbers were used, and sends it at once if many were.
    pub(super) fn used_numbers(&mut self, now: Instant) {
        if !self.suite.is_compact() || self.roles.sender == Some(SenderId::CONTROLLER) {
            return;
        }
        let (_, epoch) = self.epochs.sending(now);
        if epoch.schedule_sync(now) {
            self.sync(now);
        }
    }

    fn sync(&mut self, now: Instant) {
        let signer = super::signer(&self.policy, self.roles, &self.identity);
        let (at, epoch) = self.epochs.sending(now);
        let may_seal = self.permission.covers(at);
        let mut buf = [0; ROOM];
        if let Some(len) = epoch.seal_sync(may_seal, &mut *self.ledger, signer, &mut buf) {
            let to = self.policy.address;
            self.transmit(Transmit { to, datagram: buf[..len].into() });
        }
    }

    /// Takes a sender's record that arrived by unicast, which should be an answer to this listener.
    pub(super) fn answered(&mut self, now: Instant, datagram: &mut [u8]) -> RecordOutcome {
        let (Some(_), Suite::Compact(_, part)) = (PeerKeys::INCLUDED, self.suite) else {
            return DropReason::Stranger.into();
        };
        let mut copy = [0; MOST_ANSWER];
        let len = datagram.len();
        copy[..len.min(MOST_ANSWER)].copy_from_slice(&datagram[..len.min(MOST_ANSWER)]);
        let Ok((record, _)) = compact::SealedRecord::request(datagram) else {
            return DropReason::Malformed.into();
        };
        let (sender, is_paired) = (record.id, record.is_answer());
        let compact::EpochBits::Full(at) = record.epoch() else {
            return DropReason::NoState.into();
        };
        if record.alias() != self.policy.group.alias()
            || !self.roles.listener
            || !self.senders.contains(sender)
            || is_paired && (self.policy.pairwise().is_none() || len > MOST_ANSWER)
        {
            return DropReason::Stranger.into();
        }
        if is_paired {
            return self.paired_answer(now, (sender, at), &copy[..len]);
        }
        let Some(challenge) = self.challenges.outstanding(sender, at) else {
            return DropReason::NotFresh.into();
        };
        let Some(epoch) = self.epochs.receiving(now, at) else {
            return DropReason::NoState.into();
        };
        let proof = match record.is_signed() {
            Some(true) => self.peers.proof(sender),
            _ => RequiredProof::Unknown,
        };
        let record = ReceivedRecord::Compact(record.parts, part);
        match epoch.open_without_state(record, proof) {
            Ok(AuthenticRecord { number, kind: GROUP_CHALLENGE, content })
                if *content == challenge.0 =>
            {
                self.start_windows_at(now, (sender, at), number + 1);
                RecordOutcome::Processed
            }
            Ok(_) => RecordOutcome::dropped_authentic(DropReason::Stranger),
            Err(reason) => reason.into(),
        }
    }

    /// Takes an answer under pairwise keys. It answers the outstanding challenge, or acknowledges
    /// this listener's boot nonce, which is sent as if it were a challenge.
    fn paired_answer(
        &mut self,
        now: Instant,
        (sender, at): (SenderId, u64),
        record: &[u8],
    ) -> RecordOutcome {
        let me = self.listener();
        let challenge = self.challenges.outstanding(sender, at);
        let Some(epoch) = self.epochs.receiving(now, at) else {
            return DropReason::NoState.into();
        };
        let Epoch { state, senders, .. } = epoch;
        let Some(heard) = senders.get_mut(sender) else {
            return DropReason::NoState.into();
        };
        let boot = (!heard.knows_boot).then_some(Challenge(self.boot));
        // There is no pairwise secret yet if this listener has neither challenged this sender nor
        // responded to it.
        let Some(pair) = &heard.pair else { return DropReason::NoState.into() };
        for expected in [challenge, boot].into_iter().flatten() {
            let mut copy = [0; MOST_ANSWER];
            let copy = &mut copy[..record.len()];
            copy.copy_from_slice(record);
            let keys = state.keys.answer_keys(pair, (me, sender), &expected);
            let stated = keys.as_ref().and_then(|keys| open_answer(keys, copy, expected));
            let Some(next) = stated else { continue };
            if boot == Some(expected) {
                heard.knows_boot = true;
            } else {
                self.start_windows_at(now, (sender, at), next);
            }
            return RecordOutcome::Processed;
        }
        DropReason::WrongAnswer.into()
    }

    /// Starts the replay windows of a sender at `next`, the next number that it stated in its
    /// answer.
    fn start_windows_at(&mut self, now: Instant, (sender, at): (SenderId, u64), next: u64) {
        if let Some(pending) = self.challenges.0.get_mut() {
            pending.remove(sender);
        }
        let Some(epoch) = self.epochs.receiving(now, at) else { return };
        let heard = epoch.heard(now);
        let heard = epoch.senders.get_or_insert_with(sender, || heard);
        // Group requests and direct requests take their numbers from one sequence.
        heard.requests.window.get_or_insert_with(|| ReplayWindow::starting_at(next));
        heard.direct.get_or_insert_with(|| ReplayWindow::starting_at(next));
    }
}

fn open_answer(keys: &RecordKeys, record: &mut [u8], challenge: Challenge) -> Option<u64> {
    let (record, _) = compact::SealedRecord::request(record).ok()?;
    let opened = record.reveal(keys, 0).open(keys, None).ok()?;
    challenge.answered(keys.stream(), &opened)
}
