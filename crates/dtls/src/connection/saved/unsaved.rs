//! Received payloads that wait for the write that must come before their delivery.

use crate::connection::Connection;
use crate::record::ReceiveBuffer;
use crate::timer::Timer;
use crate::tuning::UNSAVED_PATIENCE;

impl Connection {
    /// Notes since when payloads wait for the write that must come before their delivery.
    pub(in crate::connection) fn watch_unsaved(&mut self) {
        if self.persistence.get().is_none() {
            return;
        }
        let ready = self.held.get().map_or(0, ReceiveBuffer::ready_len);
        let waiting = if self.may_deliver() { 0 } else { ready };
        let now = self.now;
        let Some(persistence) = self.persistence.get_mut() else { return };
        if waiting == 0 {
            if persistence.unsaved.take().is_some() {
                self.timers.stop(Timer::Unsaved);
            }
            return;
        }
        let unsaved = persistence.unsaved.get_or_insert_default();
        let known: usize = unsaved.iter().map(|(_, count)| count).sum();
        if waiting > known {
            unsaved.push_back((now, waiting - known));
        }
        if !self.timers.is_set(Timer::Unsaved) {
            self.timers.set(Timer::Unsaved, now + UNSAVED_PATIENCE);
        }
    }

    /// Drops payloads that have waited for too long.
    pub(in crate::connection) fn unsaved_too_long(&mut self) {
        let now = self.now;
        let Some(unsaved) = self.persistence.get_mut().and_then(|of| of.unsaved.as_mut()) else {
            return;
        };
        let mut dropped = 0;
        while let Some((since, count)) = unsaved.front().copied()
            && now.saturating_since(since) >= UNSAVED_PATIENCE
        {
            unsaved.pop_front();
            dropped += count;
        }
        if let Some((since, _)) = unsaved.front() {
            self.timers.set(Timer::Unsaved, *since + UNSAVED_PATIENCE);
        }
        for _ in 0..dropped {
            self.drop_unsaved(false);
        }
    }

    fn drop_unsaved(&mut self, is_newest: bool) -> bool {
        let is_dropped = self.held.get_mut().is_some_and(|held| held.drop_ready(is_newest));
        self.stats.received(|received| received.unsaved += u64::from(is_dropped));
        is_dropped
    }

    /// The bytes of payloads that wait for a write, with overhead.
    pub(crate) fn unsaved_bytes(&self) -> usize {
        let waits = self.persistence.get().is_some_and(|of| of.unsaved.is_some());
        if waits { self.held_bytes() } else { 0 }
    }

    /// Drops the newest payloads that wait for a write, until at most this many bytes do.
    pub(crate) fn limit_unsaved(&mut self, most: usize) {
        while self.unsaved_bytes() > most && self.drop_unsaved(true) {
            let unsaved = self.persistence.get_mut().and_then(|of| of.unsaved.as_mut());
            if let Some(unsaved) = unsaved
                && let Some((_, count)) = unsaved.back_mut()
            {
                *count -= 1;
                if *count == 0 {
                    unsaved.pop_back();
                }
            }
        }
    }
}
