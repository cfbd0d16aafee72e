//! What a member remembers, to be compared by tests.

use super::Member;
use crate::numbers::{NumberSpace, Reserved};
use alloc::format;
use alloc::string::String;
use core::fmt::Write as _;

impl Member {
    /// All that records of others may change, as text without secrets: of each epoch the senders and
    /// listeners that are known with their windows, next numbers and boots; where senders were heard;
    /// what waits for the host. Not what anybody may cause, which is bounded: statistics, counts of wrong
    /// tags, keys that are expanded, and when the controller or a sender will be asked something.
    #[doc(hidden)]
    pub fn remembered(&self) -> String {
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
            let bounds = epoch.reserved.as_ref().ok().map(Reserved::bounds);
            let _ = write!(text, "; {number} {own:?} {bounds:?}");
            for (sender, heard) in &epoch.senders {
                let next = heard.numbers.as_ref().map(NumberSpace::next);
                let windows = (&heard.window, &heard.direct);
                let _ = write!(text, ", {sender:?} {windows:?} {next:?}");
            }
            for (listener, known) in &epoch.listeners {
                let _ = write!(text, ", {listener:?} {:?}", known.window);
            }
            for (listener, (boot, window)) in &epoch.boots {
                let _ = write!(text, ", {listener:?} {boot:?} {window:?}");
            }
        }
        text
    }
}
