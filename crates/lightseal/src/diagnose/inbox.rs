//! What an engine reported and the program has not printed yet.

use super::exporter::Exported;
use super::summary::Summary;
use super::witness::Presented;
use lightseal_dtls::CloseReason;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::Notify;

/// Maximum number of payloads that wait until they are printed.
const MOST_PAYLOADS: usize = 4096;

/// What happened to an association.
#[derive(Debug)]
pub(super) enum Happening {
    /// The handshake is complete, with this keying material.
    Connected(Box<Summary>, Exported),
    /// The certificates that the peer presented.
    Certificates(Presented),
    /// A payload arrived.
    Payload(Vec<u8>),
    /// A payload arrived as early data: it may be a repetition.
    EarlyData(Vec<u8>),
    /// Something that a line of the log reports.
    Note(String),
    /// The association ended. The flag says whether it was connected.
    Closed(CloseReason, bool),
}

/// Happenings with the numbers of their associations. The engine's host fills it under the engine's
/// lock, and the program empties it.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    waiting: VecDeque<(u64, Happening)>,
    payloads: usize,
    /// Number of payloads for which there was no room.
    dropped: u64,
    wake: Arc<Notify>,
}

impl Inbox {
    /// Notifies the program that something waits.
    pub(super) fn wake(&self) -> Arc<Notify> {
        Arc::clone(&self.wake)
    }

    pub(super) fn put(&mut self, association: u64, happening: Happening) {
        if matches!(happening, Happening::Payload(_) | Happening::EarlyData(_)) {
            if self.payloads == MOST_PAYLOADS {
                self.dropped += 1;
                return;
            }
            self.payloads += 1;
        }
        self.waiting.push_back((association, happening));
        self.wake.notify_one();
    }

    /// Takes everything, and the number of payloads that were dropped since the last time.
    pub(super) fn take(&mut self) -> (VecDeque<(u64, Happening)>, u64) {
        self.payloads = 0;
        (std::mem::take(&mut self.waiting), std::mem::take(&mut self.dropped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_beyond_the_limit_are_counted_and_other_reports_are_kept() {
        let mut inbox = Inbox::default();
        for _ in 0..MOST_PAYLOADS + 2 {
            inbox.put(1, Happening::Payload(vec![7]));
        }
        inbox.put(1, Happening::Closed(CloseReason::Peer, true));
        let (taken, dropped) = inbox.take();
        assert_eq!((taken.len(), dropped), (MOST_PAYLOADS + 1, 2));
        inbox.put(1, Happening::Payload(vec![7]));
        assert_eq!((inbox.take().0.len(), inbox.take().1), (1, 0));
    }
}
