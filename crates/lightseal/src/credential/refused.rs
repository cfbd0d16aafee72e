//! The peers that were refused and that no line of the log has named yet.

use std::sync::{Mutex, PoisonError};

/// Says in words for the log which peers were refused.
#[derive(Debug, Default)]
pub(crate) struct RefusedPeers(Mutex<Refused>);

#[derive(Debug, Default)]
enum Refused {
    #[default]
    None,
    /// What the line of the log says.
    One(String),
    /// It is not known which of them a line of the log is about.
    Several,
}

impl RefusedPeers {
    /// Notes that a peer was refused. `refusal` says who.
    pub(super) fn note(&self, refusal: impl FnOnce() -> String) {
        let mut refused = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *refused = match *refused {
            Refused::None => Refused::One(refusal()),
            Refused::One(_) | Refused::Several => Refused::Several,
        };
    }

    /// Says which peer was refused since the last call; `None` if none was.
    pub(super) fn take(&self) -> Option<String> {
        let mut refused = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::take(&mut *refused) {
            Refused::None => None,
            Refused::One(refusal) => Some(refusal),
            Refused::Several => Some("it is not among the peers that are let in".to_owned()),
        }
    }
}
