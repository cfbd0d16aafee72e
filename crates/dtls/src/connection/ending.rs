//! How an association ends, and why.

use super::stage::Stage;
use super::{Connection, Notice};
use crate::codepoints::AlertDescription;
use crate::error::{CloseReason, Fault, Incompatibility};
use crate::record::ReceiveBuffer;
use crate::seldom::Seldom;
use crate::timer::Timer;
use crate::tuning::FAREWELL_PATIENCE;
use alloc::boxed::Box;
use lightseal_core::Instant;

/// Whether, and how, an association is ending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The association is not ending.
    Open,
    /// Open aggregates are to be closed and an alert is to be sent; then the association ends.
    Farewell(Box<(AlertDescription, CloseReason)>),
    /// The association has ended. The application may still have to take the event that says so.
    Ended,
}

impl Ending {
    /// The alert that is to be sent, and why the association ends then.
    pub(super) fn farewell(&self) -> Option<(AlertDescription, CloseReason)> {
        match self {
            Self::Farewell(farewell) => Some(**farewell),
            Self::Open | Self::Ended => None,
        }
    }
}

impl Connection {
    /// Ends the association: open aggregates are closed, and the peer is sent close_notify.
    pub fn close(&mut self, now: Instant) {
        self.now = self.now.max(now);
        self.farewell(AlertDescription::CLOSE_NOTIFY, CloseReason::Local);
    }

    /// Ends the association because its peer, though authenticated, is not welcome: it is sent
    /// `access_denied` (RFC 8446, section 6.2).
    pub fn refuse(&mut self, now: Instant) {
        self.now = self.now.max(now);
        self.farewell(AlertDescription::ACCESS_DENIED, CloseReason::Refused);
    }

    /// Ends the association without an alert to the peer.
    pub(crate) fn abandon(&mut self, reason: CloseReason) {
        self.end(reason);
    }

    /// Ends an association whose handshake is complete, before the application has learnt of it; no
    /// event reports that it was connected.
    pub(crate) fn turn_away(&mut self, fault: Fault) {
        self.held = Seldom::new(|| ReceiveBuffer::new(0));
        self.notices.retain(|notice| !matches!(notice, Notice::Connected(_) | Notice::MaySend(..)));
        self.fail(fault);
    }

    /// Ends the association because of a fault, with the alert that tells the peer.
    pub(super) fn fail(&mut self, fault: Fault) {
        let alert = match fault {
            // RFC 5246, section 7.4.6. In DTLS 1.3 a server has keys when it asks the client.
            Fault::Incompatible(Incompatibility::NoClientCertificate)
                if self.channel.send.peek().is_none() =>
            {
                AlertDescription::HANDSHAKE_FAILURE
            }
            fault => fault.alert(),
        };
        self.farewell(alert, CloseReason::Fault(fault));
    }

    /// Ends the association with an alert to the peer.
    pub(crate) fn farewell(&mut self, alert: AlertDescription, reason: CloseReason) {
        if self.is_open() {
            self.awaken();
            self.ending = Ending::Farewell(Box::new((alert, reason)));
            self.timers.stop_all();
            if !self.may_transmit() {
                self.timers.set(Timer::Save, self.now + FAREWELL_PATIENCE);
            }
        }
    }

    /// Erases all keys and reports the end to the application.
    pub(super) fn end(&mut self, reason: CloseReason) {
        if self.ending == Ending::Ended {
            return;
        }
        self.ending = Ending::Ended;
        self.timers.stop_all();
        for mut epoch in self.channel.receive.take_before(u64::MAX) {
            let outcomes = epoch.abandon(self.role.held(&mut self.held));
            self.stats.received(|received| received.count(&outcomes));
        }
        self.held.tidy(ReceiveBuffer::is_unused);
        self.channel.send.forget_before(u64::MAX);
        self.channel.flight.complete();
        let unsent = self.queue.clear();
        self.stats.sent(|sent| sent.unsent += unsent);
        self.early.clear();
        self.stage = Stage::Ended;
        self.notices.push(Notice::Closed(reason));
    }
}
