//! Which run of a member goes on, and which are copies.

use super::{Changes, Controller, Output, To};
use crate::control::{Answer, Reason, Request, VERSION_1};
use crate::start::{Standing, Start};
use alloc::vec::Vec;
use vocabulary::Instant;

impl Controller {
    /// Why a member is not served, which names this start.
    pub(super) fn refusal(
        &mut self,
        device: &str,
        version: u8,
        start: Option<&Start>,
        said: &Request,
    ) -> Option<Reason> {
        let Some(member) = self.roster.get(device) else { return Some(Reason::NotAMember) };
        let Some(start) = start else {
            // Before there were instances a device was one member. The host lets such devices
            // come, or does not.
            return (version != VERSION_1).then_some(Reason::NotUnderstood);
        };
        match start.standing(&member.start) {
            Standing::Current => None,
            // Who leaves seals nothing more: it need not start first.
            Standing::Later if matches!(said, Request::Leave(_)) => None,
            Standing::Later => Some(Reason::NotStarted),
            Standing::Unknown => Some(Reason::NotAMember),
            Standing::Superseded => Some(self.clone_seen(device, Reason::Superseded)),
            Standing::Copied => Some(self.clone_seen(device, Reason::Copied)),
        }
    }

    /// Lets a member go on whose program has started anew.
    ///
    /// After a run that ended in good order it goes on under its keys. After another one its old
    /// self may still be sealing: then its leaf gets new keys, in a rekey that the old self cannot
    /// follow.
    pub(super) fn start(
        &mut self,
        now: Instant,
        device: &str,
        to: To,
        (start, resumes): (Start, bool),
    ) -> Option<Answer> {
        let Some(member) = self.roster.get(device) else {
            return Some(Answer::Refused(Reason::NotAMember));
        };
        let known = member.start;
        let waiting = self.pending.starts.get(device).map(|(_, start)| *start);
        match start.standing(&waiting.unwrap_or(known)) {
            // It was heard before: the answer was lost, or is to come.
            Standing::Current if waiting.is_some() => {
                self.pending.starts.insert(device.into(), (to, start));
                None
            }
            Standing::Current => Some(self.started(now, device)),
            // It asks again, and pays for the write with its patience.
            Standing::Later
                if resumes && waiting.is_none() && !self.pacing.may_resume(device, now) =>
            {
                None
            }
            Standing::Later if resumes && waiting.is_none() => {
                self.roster.set_start(device, start);
                Some(if self.keep(device) {
                    self.started(now, device)
                } else {
                    Answer::Refused(Reason::NotNow)
                })
            }
            Standing::Later => {
                // One that waited has had no keys yet, and may be a run that has crashed in the
                // meantime. One that is alive, and so a copy, asks again: then it is refused and
                // counted.
                self.pending.starts.insert(device.into(), (to, start));
                self.renew_soon(now);
                None
            }
            Standing::Unknown => Some(Answer::Refused(Reason::NotAMember)),
            Standing::Superseded => {
                Some(Answer::Refused(self.clone_seen(device, Reason::Superseded)))
            }
            Standing::Copied => Some(Answer::Refused(self.clone_seen(device, Reason::Copied))),
        }
    }

    /// What a start that is taken is answered.
    pub(super) fn started(&self, now: Instant, device: &str) -> Answer {
        // Which epoch it was in is not known: one that was ended by an eviction ends at once.
        match (self.granted(now, device, 0), self.roster.get(device)) {
            (Answer::Granted(grant), Some(member)) => {
                Answer::Started { clones: member.clones, senders: self.roster.senders(), grant }
            }
            _ => Answer::Refused(Reason::NotAMember),
        }
    }

    /// Counts a copy of a member, and tells the host.
    fn clone_seen(&mut self, device: &str, reason: Reason) -> Reason {
        // On disk the count may be behind: a copy that goes on asking costs no write each time.
        if self.roster.count_clone(device).is_power_of_two() {
            self.keep(device);
        }
        self.outbox.push_back(Output::Clone { device: device.into(), reason });
        reason
    }

    /// Stores what is known of a member. False if that failed.
    fn keep(&mut self, device: &str) -> bool {
        let joined: Vec<_> =
            self.roster.get(device).map(|member| (device, member)).into_iter().collect();
        let changes = Changes {
            epoch: self.keys.epoch(),
            chain: self.keys.chain(),
            tree: self.keys.tree(),
            nodes: &[],
            joined,
            left: &[],
        };
        self.failed |= self.store.commit(&changes).is_err();
        !self.failed
    }
}
