//! Acts on timers that have expired.

use super::Connection;
use super::stage::Stage;
use crate::config::ProtocolVersion;
use crate::error::CloseReason;
use crate::handshake::State;
use crate::timer::Timer;
use crate::tuning::{DEADLINES_WITHOUT_ACK, MAX_REFUSALS};
use lightseal_core::wire::BufferFull;
use lightseal_core::{DecodeError, Instant, Reader, Writer};

/// Shows that the server has our Finished although no ACK of it comes.
#[derive(Debug, Default)]
pub(super) struct FinishedProgress {
    /// A record of an application epoch was authenticated since the last handshake deadline.
    heard_application: bool,
    /// The number of handshake deadlines that such records preceded.
    deadlines: u8,
}

/// What became of our Finished.
enum FinishedFate {
    /// Nothing shows that the peer is there.
    Lost,
    /// The peer is there. Its data proves nothing yet: a server may send data before it has our
    /// Finished.
    Unknown,
    /// The server has it.
    Received,
}

impl FinishedProgress {
    /// A record of an application epoch was authenticated.
    pub(super) const fn heard_application(&mut self) {
        self.heard_application = true;
    }

    /// Writes the state.
    pub(super) fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        w.u8(self.heard_application.into())?;
        w.u8(self.deadlines)
    }

    /// Reads what [`write`](Self::write) has written.
    pub(super) fn read(&mut self, r: &mut Reader<'_>) -> Result<(), DecodeError> {
        (self.heard_application, self.deadlines) = (r.u8()? != 0, r.u8()?);
        Ok(())
    }

    fn deadline_passed(&mut self) -> FinishedFate {
        if !core::mem::take(&mut self.heard_application) {
            return FinishedFate::Lost;
        }
        self.deadlines += 1;
        if self.deadlines < DEADLINES_WITHOUT_ACK {
            FinishedFate::Unknown
        } else {
            FinishedFate::Received
        }
    }
}

impl Connection {
    pub(super) fn handle_timers(&mut self) {
        while let Some(timer) = self.timers.expire(self.now) {
            match timer {
                Timer::Retransmit => self.retransmit(),
                Timer::Acknowledge => self.acks.make_due(),
                Timer::HandshakeDeadline => self.handshake_deadline(),
                Timer::OpenSet => {
                    if let Some(pace) = self.pace.get_mut() {
                        pace.expired();
                    }
                }
                Timer::OldEpoch => self.forget_old_epochs(),
                Timer::PathChallenge => self.path_challenge_lost(),
                Timer::Liveness => self.liveness_due(),
                Timer::PathMtu => self.probe_lost(),
                Timer::Save => self.saving_due(),
                Timer::Renewal => self.renew_keys(),
                Timer::Unsaved => self.unsaved_too_long(),
            }
        }
    }

    fn handshake_deadline(&mut self) {
        match self.finished.deadline_passed() {
            FinishedFate::Received if self.is_established() => {
                self.channel.flight.complete();
                self.flight_acknowledged();
            }
            FinishedFate::Unknown if self.is_established() => {
                let patience = self.settings().handshake_deadline;
                self.timers.set(Timer::HandshakeDeadline, self.now + patience);
            }
            _ => self.end(CloseReason::HandshakeTimeout),
        }
    }

    fn retransmit(&mut self) {
        let mut hurried = false;
        // A DTLS 1.3 server sends an alert for each retransmission, a DTLS 1.2 server only once.
        if let Stage::Handshake(handshake) = &mut self.stage {
            hurried = core::mem::take(&mut handshake.hurried);
            let hint = match handshake.state.version() {
                Some(ProtocolVersion::Dtls13) => handshake.alert_hint.take(),
                _ => handshake.alert_hint,
            };
            if let Some(alert) = hint {
                handshake.refusals += 1;
                if handshake.refusals >= MAX_REFUSALS {
                    return self.end(CloseReason::PeerAlert(alert));
                }
            }
        }
        if self.channel.flight.is_done() {
            return self.ask_for_the_rest();
        }
        if self.waits_for_a_silent_peer() {
            return;
        }
        self.stats.sent(|sent| sent.retransmissions += 1);
        if !hurried {
            self.back_off();
        }
        self.channel.flight.resend();
    }

    /// A client that has the ServerHello and waits for the rest of the flight has nothing to
    /// retransmit. The server may have reached the limit of what it may send to an unproved
    /// address, so the client sends it a protected record, which proves the address.
    fn ask_for_the_rest(&mut self) {
        let state = self.stage.state();
        if matches!(
            state,
            Some(
                State::WaitEncryptedExtensions(..)
                    | State::WaitServerCertificate(..)
                    | State::WaitServerCertificateVerify(..)
                    | State::WaitServerFinished(..)
            )
        ) {
            self.acks.make_due_though_empty();
            self.back_off();
            self.timers.set(Timer::Retransmit, self.retransmission.ends(self.now));
        }
    }

    /// The time from which events other than the timer may cause a retransmission of the flight.
    pub(super) fn flight_repeats_from(&self) -> Instant {
        let initial = self.settings().initial_timeout;
        self.retransmission.flight_repeats_from(self.timers.repeats_from(), initial)
    }

    /// Whether an event other than the timer may cause a retransmission of the flight.
    pub(super) fn may_repeat_flight(&self) -> bool {
        self.now >= self.flight_repeats_from()
    }

    fn back_off(&mut self) {
        let initial = self.settings().initial_timeout;
        let has_deadline = self.timers.is_set(Timer::HandshakeDeadline);
        self.retransmission.back_off(initial, has_deadline);
    }
}
