//! Signs that the server may have lost associations or be back. Anybody can forge them.

use lightseal_core::Instant;
use std::time::Duration;

/// The shortest time between two signs at one socket that are heeded: each may have to look at all of
/// its flows.
pub(super) const HINT_GAP: Duration = Duration::from_millis(50);

/// The signs that came to a socket: hints (docs/spec/hints.md) and ICMP errors.
#[derive(Debug, Default)]
pub(super) struct Signs {
    /// Whether one came, and when the last one was heeded.
    came: bool,
    heeded_at: Option<Instant>,
    /// Whether a hint was among them. A hint says that the server is there, and an ICMP error that it
    /// is not.
    is_back: bool,
}

/// A sign that is heeded now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sign {
    pub(super) is_back: bool,
    /// When the one before it was heeded.
    pub(super) before: Instant,
}

impl Signs {
    /// Notes a sign. Returns whether none was waiting.
    pub(super) const fn note(&mut self, is_hint: bool) -> bool {
        self.is_back |= is_hint;
        !std::mem::replace(&mut self.came, true)
    }

    /// Whether one came that was not heeded yet.
    pub(super) const fn wait(&self) -> bool {
        self.came
    }

    /// The sign that is to be heeded; `None` if none came, or if it is heeded later.
    pub(super) fn take(&mut self, now: Instant) -> Option<Sign> {
        let soon = self.heeded_at.is_some_and(|last| now.saturating_since(last) < HINT_GAP);
        if !self.came || soon {
            return None;
        }
        self.came = false;
        let is_back = std::mem::take(&mut self.is_back);
        let before = self.heeded_at.replace(now).unwrap_or(Instant::ZERO);
        Some(Sign { is_back, before })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_that_comes_too_soon_is_heeded_later() {
        let (mut signs, now) = (Signs::default(), Instant::from_micros(1));
        assert_eq!(signs.take(now), None);
        assert!(signs.note(false));
        assert_eq!(signs.take(now), Some(Sign { is_back: false, before: Instant::ZERO }));
        assert!(signs.note(true) && !signs.note(false));
        assert_eq!(signs.take(now + (HINT_GAP - Duration::from_micros(1))), None);
        assert_eq!(signs.take(now + HINT_GAP), Some(Sign { is_back: true, before: now }));
        assert_eq!(signs.take(now + 2 * HINT_GAP), None);
    }
}
