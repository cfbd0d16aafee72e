//! A text form of a member's state, which tests compare.

use super::Member;
use crate::numbers::{NumberSpace, ReservedNumbers};
use alloc::format;
use alloc::string::String;
use core::fmt::Write as _;

impl Member {
    /// The state that only authentic records of other members may change, as text without secrets:
    /// for each epoch the known senders and listeners with their replay windows, next numbers and
    /// boots; the addresses at which senders were heard; and the numbers of waiting events and
    /// datagrams. Bounded state that unauthenticated datagrams may change is left out: statistics,
    /// counts of wrong tags, expanded keys, and the times of the next requests to the controller or
    /// to a sender.
    #[doc(hidden)]
    pub fn state_for_tests(&self) -> String {
        let mut text = format!(
            "{:?} {} {:?} {:?} {} {}",
            self.senders,
            self.keys.epoch(),
            self.heard_from,
            self.sessions,
            self.events.len(),
            self.outbox.len()
        );
        for (number, epoch) in self.epochs.epochs() {
            let own = epoch.own.as_ref().map(|own| (own.numbers.next(), own.synced));
            let bounds = epoch.reserved.as_ref().ok().map(ReservedNumbers::bounds);
            let _ = write!(text, "; {number} {own:?} {bounds:?}");
            for (sender, heard) in epoch.senders.iter() {
                let next = heard.answering.numbers.as_ref().map(NumberSpace::next);
                let windows = (&heard.requests.window, &heard.direct);
                let _ = write!(text, ", {sender:?} {windows:?} {next:?}");
            }
            for (listener, known) in epoch.listeners.iter() {
                let _ = write!(text, ", {listener:?} {:?}", known.window);
            }
            for (listener, (boot, window)) in
                epoch.paired().into_iter().flat_map(|paired| &paired.boots)
            {
                let _ = write!(text, ", {listener:?} {boot:?} {window:?}");
            }
        }
        text
    }
}
