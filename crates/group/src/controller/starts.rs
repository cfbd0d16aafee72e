//! How the controller decides which run of a member's program continues, and which runs are copies.

use super::{Controller, Output, ReplyTo, StoreUpdate};
use crate::control::{Answer, Reason, Request, VERSION_1};
use crate::start::{Start, StartComparison};
use alloc::vec::Vec;
use lightseal_core::Instant;

impl Controller {
    /// Why a request with this start is refused; `None` if it is served.
    pub(super) fn refusal(
        &mut self,
        device: &str,
        version: u8,
        start: Option<&Start>,
        said: &Request,
    ) -> Option<Reason> {
        let Some(member) = self.roster.get(device) else { return Some(Reason::NotAMember) };
        let Some(start) = start else {
            // A device of version 1 has no instances and states no start. The host decides whether
            // it accepts such devices.
            return (version != VERSION_1).then_some(Reason::NotUnderstood);
        };
        match start.compare(&member.start) {
            StartComparison::Current => None,
            // A leaving member seals no more records, so it need not announce its start first.
            StartComparison::Later if matches!(said, Request::Leave(_)) => None,
            StartComparison::Later => Some(Reason::NotStarted),
            StartComparison::Unknown => Some(Reason::NotAMember),
            StartComparison::Superseded => Some(self.count_copy(device, Reason::Superseded)),
            StartComparison::Copied => Some(self.count_copy(device, Reason::Copied)),
        }
    }

    /// Handles the start of a member's program after a restart.
    ///
    /// If the previous run was shut down cleanly, the member continues under its current keys.
    /// Otherwise the previous run may still be sealing records: then the member's leaf gets new
    /// keys, in a rekey that the previous run cannot follow.
    pub(super) fn start(
        &mut self,
        now: Instant,
        device: &str,
        to: ReplyTo,
        (start, resumes): (Start, bool),
    ) -> Option<Answer> {
        let Some(member) = self.roster.get(device) else {
            return Some(Answer::Refused(Reason::NotAMember));
        };
        let known = member.start;
        let waiting = self.pending.starts.get(device).map(|(_, start)| *start);
        match start.compare(&waiting.unwrap_or(known)) {
            // A repeated request: its answer was lost or is still to come.
            StartComparison::Current if waiting.is_some() => {
                self.pending.starts.insert(device.into(), (to, start));
                None
            }
            StartComparison::Current => Some(self.started(now, device)),
            // Over the rate limit: the device must ask again later, so that it cannot cause
            // unlimited writes to the store.
            StartComparison::Later
                if resumes && waiting.is_none() && !self.limiter.may_resume(device, now) =>
            {
                None
            }
            StartComparison::Later if resumes && waiting.is_none() => {
                self.roster.set_start(device, start);
                Some(if self.keep(device) {
                    self.started(now, device)
                } else {
                    Answer::Refused(Reason::NotNow)
                })
            }
            StartComparison::Later => {
                // An earlier start that still waits has not been given keys, and its run may have
                // crashed in the meantime. If that run is alive, it is a copy: it asks again, and
                // is then refused and counted.
                self.pending.starts.insert(device.into(), (to, start));
                self.renew_soon(now);
                None
            }
            StartComparison::Unknown => Some(Answer::Refused(Reason::NotAMember)),
            StartComparison::Superseded => {
                Some(Answer::Refused(self.count_copy(device, Reason::Superseded)))
            }
            StartComparison::Copied => {
                Some(Answer::Refused(self.count_copy(device, Reason::Copied)))
            }
        }
    }

    /// The answer to a start that is accepted.
    pub(super) fn started(&self, now: Instant, device: &str) -> Answer {
        // The member's last epoch is not known, so 0 is assumed: if that epoch ended with an
        // eviction, the member leaves it at once.
        match (self.granted(now, device, 0), self.roster.get(device)) {
            (Answer::Granted(grant), Some(member)) => {
                Answer::Started { clones: member.clones, senders: self.roster.senders(), grant }
            }
            _ => Answer::Refused(Reason::NotAMember),
        }
    }

    /// Counts a copy of a member and reports it to the host.
    fn count_copy(&mut self, device: &str, reason: Reason) -> Reason {
        // The count is stored only when it is a power of two, so that a copy that keeps asking does
        // not cause a write each time. The stored count may be lower than the true one.
        if self.roster.count_clone(device).is_power_of_two() {
            self.keep(device);
        }
        self.outbox.push_back(Output::CopyDetected { device: device.into(), reason });
        reason
    }

    /// Stores the roster's entry of a member. Returns false if that failed.
    fn keep(&mut self, device: &str) -> bool {
        let joined: Vec<_> =
            self.roster.get(device).map(|member| (device, member)).into_iter().collect();
        let changes = StoreUpdate {
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
