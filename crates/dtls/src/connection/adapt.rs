//! Adaptation: which scheme a receiver requests by itself.
//!
//! The rule is told, for each record of the peer in the order of record numbers and across epochs,
//! whether it arrived. The scheme that the rule selects is requested like one that the application
//! requests. `record::fates` explains what an attacker could make the rule believe.

use super::Connection;
use super::pace::ClosingTagUse;
use super::stage::Stage;
use crate::config::{Adapt, AdaptRule};
use crate::parts;
use crate::record::{ReceiveEpoch, ReceiveEpochs};
use lightseal_aggregation::Scheme;
use lightseal_aggregation::choice::{Hindsight, LossRate, RecordFate};

/// The number of recent records over which the loss is measured.
const LOSS_RECORDS: u16 = 256;

/// The bytes of a record besides payload, tag and connection ID: flags, one byte of the record
/// number, and the content type.
const OVERHEAD_BYTES: u16 = 3;

/// The rule of one association, and the losses that it has seen.
#[derive(Debug)]
pub(super) struct Adaptation {
    rule: Rule,
    /// One bit for each of the last records, set if it was lost. `at` is the position of the next
    /// one.
    lost: [u64; LOSS_RECORDS as usize / 64],
    at: u16,
    losses: u16,
    seen: u16,
    closings: ClosingTagUse,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one per association, on the heap")]
enum Rule {
    Hindsight(Hindsight),
    LossRate(LossRate),
}

impl Adaptation {
    fn new(adapt: Adapt, current: Scheme, cid_len: usize) -> Self {
        let overhead_bytes = OVERHEAD_BYTES + cid_len as u16;
        let rule = match adapt.rule {
            AdaptRule::Hindsight => {
                Rule::Hindsight(Hindsight::new(adapt.family, current, overhead_bytes))
            }
            AdaptRule::LossRate => Rule::LossRate(LossRate::new(adapt.family, current)),
        };
        Self {
            rule,
            lost: Default::default(),
            at: 0,
            losses: 0,
            seen: 0,
            closings: ClosingTagUse::new(),
        }
    }

    /// Takes the next record. Returns the scheme to change to, if the rule selects another one.
    fn note(&mut self, seen: RecordFate) -> Option<Scheme> {
        let lost = u64::from(seen == RecordFate::Lost);
        let (word, bit) = (&mut self.lost[usize::from(self.at / 64)], self.at % 64);
        self.losses = self.losses + lost as u16 - (*word >> bit & 1) as u16;
        *word = *word & !(1 << bit) | lost << bit;
        self.at = (self.at + 1) % LOSS_RECORDS;
        self.seen = (self.seen + 1).min(LOSS_RECORDS);
        match &mut self.rule {
            Rule::Hindsight(rule) => rule.note(seen),
            Rule::LossRate(rule) => rule.note(seen),
        }
    }

    fn changed(&mut self, current: Scheme) {
        match &mut self.rule {
            Rule::Hindsight(rule) => rule.changed(current),
            Rule::LossRate(rule) => rule.changed(current),
        }
    }
}

impl Connection {
    /// The loss rate of the peer's last 256 records at most, in 1/65535. Without
    /// [`Settings::adapt`](crate::Settings::adapt) it is the result of the last measurement, of
    /// which there is one every 256 records. `None` before anything has been measured, and in a
    /// build without the features `adaptation` and `loss-reports`.
    pub fn observed_loss(&self) -> Option<u16> {
        match self.adaptation.get() {
            // The result is below 2^16, because `losses` is at most `seen`.
            Some(Adaptation { losses, seen, .. }) => (u32::from(*losses) * u32::from(u16::MAX))
                .checked_div(u32::from(*seen))
                .map(|share| share as u16),
            None => self.loss.get()?.observed(),
        }
    }

    /// The loss rate of this end's records in the peer's last report, in 1/65535. Peers report it
    /// under shared tags only, and a build without the feature `loss-reports` ignores the reports.
    pub fn reported_loss(&self) -> Option<u16> {
        self.loss.get()?.of_ours()
    }

    /// Tells the rule which of the peer's records have arrived.
    pub(super) fn adapt(&mut self) {
        self.hear(ReceiveEpochs::next_seen);
    }

    /// Tells the rule about the remaining records of an epoch that has ended.
    pub(super) fn adapt_to_rest(&mut self, epoch: &mut ReceiveEpoch) {
        self.hear(|_| epoch.next_seen(true));
    }

    /// Passes the records that `next` returns to the rule, and requests the scheme that it selects.
    fn hear(&mut self, mut next: impl FnMut(&mut ReceiveEpochs) -> Option<RecordFate>) {
        let settings = self.role.settings();
        let (Some(part), Some(adapt)) = (parts::Adaptation::INCLUDED, settings.adapt) else {
            return;
        };
        let Stage::Established(established) = &self.stage else { return };
        let offered = &established.offered;
        if offered.receive().is_empty() {
            return;
        }
        let Some(agreed) = established.parameters.get() else { return };
        let adaptation = self.adaptation.get_or_insert_with(part, || {
            Adaptation::new(adapt, agreed.receive, agreed.receive_cid.len())
        });
        let mut said = None;
        while let Some(seen) = next(&mut self.channel.receive) {
            said = adaptation.note(seen).or(said);
        }
        let Some(best) = said else { return };
        let accepted = &settings.aggregation.receive;
        let scheme =
            adapt.family.nearest(best, |s| offered.may_receive(s) && accepted.contains(&s));
        if scheme != best {
            adaptation.changed(scheme);
        }
        self.want_aggregation(scheme);
    }

    /// Passes the numbers of received messages and closing tags to the rule: the cost of sharing if
    /// sets do not fill.
    pub(super) fn adapt_to_closings(&mut self, messages: u64, tags: u64) {
        let shared = self.receiving_scheme().is_some_and(Scheme::aggregates);
        if let Some(adaptation) = self.adaptation.get_mut() {
            let share = adaptation.closings.note(self.now, messages, tags, shared);
            if let Rule::Hindsight(rule) = &mut adaptation.rule {
                rule.closings(share);
            }
        }
    }

    /// This end sent a message.
    pub(super) fn adapt_to_sending(&mut self) {
        if let Some(adaptation) = self.adaptation.get_mut() {
            adaptation.closings.sent();
        }
    }

    /// The peer's records use this scheme from now on.
    pub(super) fn adapt_from(&mut self, scheme: Scheme) {
        if let Some(adaptation) = self.adaptation.get_mut() {
            adaptation.changed(scheme);
        }
    }
}
