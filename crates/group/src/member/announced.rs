//! How a member processes the controller's announcements to the group.
//!
//! Every member has the keys that seal the controller's records, so their tags and numbers prove
//! nothing, and there is no replay window, which a malicious member could move to block later
//! announcements. Instead each announcement carries the controller's signature, and is idempotent:
//! a rekey that is already known, a list of senders that is already in use and the end of an epoch
//! that has already ended are dropped without a signature check. The rate of other signature checks
//! is limited ([`SignatureBudget`](crate::rekey::checks::SignatureBudget)).

use super::keys::{AuthenticRecord, ReceivedRecord, RequiredProof};
use super::outcome::{DropReason, RecordOutcome};
use super::{Event, Member};
use crate::codepoints::{GROUP_REKEY, GROUP_SENDERS};
use crate::epoch::{EpochUse, ReplayCheck};
use crate::parts::Signatures;
use crate::rekey::{Outcome, Refusal, listing};
use lightseal_core::Instant;
use lightseal_dtls::codepoints::ContentType;

impl Member {
    /// Takes a record of the epoch `at` under [`SenderId::CONTROLLER`](crate::SenderId::CONTROLLER).
    pub(super) fn controller_record(
        &mut self,
        now: Instant,
        at: u64,
        record: ReceivedRecord<'_>,
    ) -> RecordOutcome {
        let Some(epoch) = self.epochs.receiving(now, at) else {
            return DropReason::NoState.into();
        };
        let check = ReplayCheck::Idempotent;
        let AuthenticRecord { kind, content, .. } =
            match epoch.open_request(now, record, check, RequiredProof::Member) {
                Ok(opened) => opened,
                Err(reason) => return reason.into(),
            };
        let processed = match kind {
            GROUP_REKEY => self.rekey(now, content),
            GROUP_SENDERS => self.list(now, at, content),
            ContentType::CHANGE_CIPHER_SPEC => self.end_epoch(now, at, content),
            // The controller sends no other type, so another member wrote this record.
            _ => Err(DropReason::Stranger),
        };
        match processed {
            Ok(()) => RecordOutcome::Processed,
            Err(reason) => RecordOutcome::dropped_authentic(reason),
        }
    }

    /// Takes a rekey message.
    fn rekey(&mut self, now: Instant, message: &[u8]) -> Result<(), DropReason> {
        match self.keys.handle(now, message) {
            Ok(Outcome::Moved(new)) => self.enter(now, &new, EpochUse::New),
            Ok(Outcome::Duplicate | Outcome::OtherLeaves) => {}
            Ok(Outcome::Pull(_)) | Err(Refusal::OutOfStep) => self.suspect_rekey(now),
            // The message is forged, but its hash chain element shows that the controller has sent
            // a rekey message.
            Err(Refusal::BadSignature | Refusal::Unchecked) => {
                self.suspect_rekey(now);
                return Err(DropReason::RefusedRekey);
            }
            Err(Refusal::Excluded) => {
                // The event is reported once, even if the message is repeated.
                if !core::mem::replace(&mut self.is_excluded, true) {
                    self.push_event(Event::Excluded);
                }
            }
            Err(_) => return Err(DropReason::RefusedRekey),
        }
        Ok(())
    }

    /// Takes a list of active senders. Each epoch has exactly one list.
    fn list(&mut self, now: Instant, at: u64, content: &[u8]) -> Result<(), DropReason> {
        // The list of an earlier epoch is outdated.
        if at != self.epochs.newest() || self.listed_in == Some(at) {
            return Ok(());
        }
        // An unchanged list needs no signature check.
        if listing::read_unverified(content).is_some_and(|said| said == self.senders) {
            return Ok(());
        }
        if Signatures::INCLUDED.is_none() || !self.checks.take(now) {
            return Err(DropReason::Unchecked);
        }
        let listed = self.keys.controller().senders(&self.policy.group, at, content);
        let senders = listed.ok_or(DropReason::Forged)?;
        self.checks.give_back();
        self.listed_in = Some(at);
        self.set_senders(senders);
        self.push_event(Event::SendersChanged);
        Ok(())
    }

    /// Takes the controller's announcement that an epoch has ended: the next epoch is to be used
    /// from now on (Axiom, section 6.3).
    fn end_epoch(&mut self, now: Instant, at: u64, content: &[u8]) -> Result<(), DropReason> {
        let newest = self.epochs.newest();
        let is_done = at < newest && self.epochs.sending(now).0 == newest;
        if is_done || at == newest && self.pull.is_scheduled() {
            return Ok(());
        }
        if Signatures::INCLUDED.is_none() || !self.checks.take(now) {
            return Err(DropReason::Unchecked);
        }
        if !self.keys.controller().ends(&self.policy.group, at, content) {
            return Err(DropReason::Forged);
        }
        if at < newest {
            self.checks.give_back();
            self.epochs.activate(now);
        } else {
            self.suspect_rekey(now);
        }
        Ok(())
    }
}
