//! What one connection does from its first flight to its end.
//!
//! # Time
//!
//! The suite's steps of time are those of BoringSSL's schedule: a first timeout that doubles. Ours
//! follows the round trips that were measured (RFC 9147, section 5.8.2), and ends at a shorter
//! timeout. A step of at most [`LONGEST_STEP`] therefore means "until the next timer": the clock
//! advances to that timer, or by the step if there is none. A longer step is as long as the runner
//! says: it is there to let old keys expire. The runner's answers take no time; the first datagram
//! after one of ours arrives [`ROUND_TRIP`] later, as on a network.

use crate::Failure;
use crate::association::{Association, Next};
use crate::checks;
use crate::flags::Flags;
use crate::wire::{Frame, Wire};
use lightseal_dtls::codepoints::HELLO_RETRY_REQUEST_RANDOM;
use lightseal_dtls::{CloseReason, Instant};
use std::time::Duration;

/// The longest timeout in BoringSSL's schedule.
const LONGEST_STEP: Duration = Duration::from_secs(60);

/// The round trip: shorter than all first timeouts of the suite.
const ROUND_TRIP: Duration = Duration::from_millis(150);

/// The number of steps of the schedule after which BoringSSL gives a handshake up.
const STEPS: u32 = 13;

/// What the program writes first if the case wants it to.
const FIRST: &[u8] = b"hello";

/// One connection with the runner.
pub(crate) struct Exchange<'a> {
    flags: &'a Flags,
    association: &'a mut Association,
    wire: Wire,
    is_resumption: bool,
    /// A datagram was sent since one was received.
    has_sent: bool,
    /// The handshake is complete.
    is_connected: bool,
    /// A HelloRetryRequest was sent or received.
    has_retried: bool,
    /// The steps of the schedule that have passed since something last arrived.
    steps: u32,
    /// The next timer.
    wake: Option<Instant>,
    end: Option<CloseReason>,
    /// This end closes the association.
    is_closing: bool,
}

impl<'a> Exchange<'a> {
    pub(crate) fn new(
        flags: &'a Flags,
        association: &'a mut Association,
        is_resumption: bool,
    ) -> Result<Self, Failure> {
        let port = flags.number("-port")?;
        let port = port.ok_or_else(|| Failure::Failed("no -port".into()))?;
        let shim_id = flags.number("-shim-id")?.unwrap_or(0);
        let wire = Wire::connect(port, flags.has("-ipv6"), shim_id).map_err(io)?;
        Ok(Self {
            flags,
            association,
            wire,
            is_resumption,
            has_sent: false,
            is_connected: false,
            has_retried: false,
            steps: 0,
            wake: None,
            end: None,
            is_closing: false,
        })
    }

    pub(crate) fn run(mut self) -> Result<(), Failure> {
        self.flush()?;
        while self.end.is_none() {
            match self.wire.receive().map_err(io)? {
                Frame::Datagram(mut datagram) => {
                    self.steps = 0;
                    if std::mem::take(&mut self.has_sent) {
                        self.association.wait(ROUND_TRIP);
                    }
                    self.note_retry(&datagram);
                    self.association.receive(&mut datagram);
                    self.association.keep_session();
                }
                Frame::Pass(time) => {
                    self.wire.confirm_time();
                    self.pass(time);
                }
                Frame::Mtu(bytes) => {
                    return Err(Failure::Unimplemented(format!("an MTU of {bytes} from now on")));
                }
                Frame::ExpectTimeout(expected) => self.check_timeout(expected)?,
                Frame::End if self.is_connected && !self.flags.has("-check-close-notify") => {
                    break;
                }
                Frame::End => return Err(Failure::Failed("the runner closed".into())),
            }
            self.flush()?;
        }
        match self.end {
            None | Some(CloseReason::Local | CloseReason::Peer) if self.is_connected => Ok(()),
            None => Err(Failure::Failed("the runner closed".into())),
            Some(reason) => Err(Failure::Failed(format!("{reason:?}"))),
        }
    }

    /// Lets time pass in which nothing arrives.
    fn pass(&mut self, time: Duration) {
        let now = self.association.now();
        self.steps += 1;
        let until = match self.wake {
            Some(wake) if time <= LONGEST_STEP && self.steps < STEPS => wake.max(now),
            _ if !self.is_connected && self.steps >= STEPS => {
                now + crate::configuration::HANDSHAKE_DEADLINE
            }
            _ => now + time,
        };
        self.association.advance_to(until);
    }

    fn check_timeout(&self, expected: Option<Duration>) -> Result<(), Failure> {
        // Timers that are not of a handshake are this far away: old keys are kept for that time.
        let horizon = self.association.now() + LONGEST_STEP;
        let is_near = self.wake.is_some_and(|wake| wake <= horizon);
        match expected {
            Some(_) if !is_near => Err(Failure::Failed("no timer runs, but one must".into())),
            None if is_near => Err(Failure::Failed("a timer runs, but none may".into())),
            _ => Ok(()),
        }
    }

    /// Sends what the association has to send and acts on its events.
    fn flush(&mut self) -> Result<(), Failure> {
        self.wake = None;
        loop {
            match self.association.poll() {
                Next::Transmit(datagram) => self.transmit(&datagram),
                Next::Connected(negotiated) => {
                    self.is_connected = true;
                    checks::after_handshake(
                        self.flags,
                        &negotiated,
                        self.association,
                        self.is_resumption,
                        self.has_retried,
                    )?;
                    self.greet()?;
                }
                Next::Data(data) => self.answer(&data)?,
                // The alert is sent before this.
                Next::Closed(reason) => self.end = Some(reason),
                Next::Other => {}
                Next::WakeAt(at) => {
                    self.wake = Some(at);
                    return Ok(());
                }
                Next::Idle => return Ok(()),
            }
        }
    }

    fn transmit(&mut self, datagram: &[u8]) {
        self.note_retry(datagram);
        self.wire.send(datagram);
        self.has_sent = true;
    }

    fn note_retry(&mut self, datagram: &[u8]) {
        let random = HELLO_RETRY_REQUEST_RANDOM;
        self.has_retried |= datagram.windows(random.len()).any(|bytes| bytes == random);
    }

    /// Sends a payload.
    fn send(&mut self, payload: &[u8]) -> Result<(), Failure> {
        if let Some(datagram) = self.association.send(payload)? {
            self.transmit(&datagram);
        }
        Ok(())
    }

    /// What the program does first after the handshake.
    fn greet(&mut self) -> Result<(), Failure> {
        if let Some(len) = self.flags.number("-export-keying-material")? {
            let text = |flag| self.flags.text(flag).unwrap_or_default().as_bytes();
            let (label, context) = (text("-export-label"), text("-export-context"));
            let mut material = vec![0; len];
            if !self.association.export(label, context, &mut material) {
                return Err(Failure::Failed("no keying material".into()));
            }
            self.send(&material)?;
        }
        if self.flags.has("-shim-writes-first") {
            self.send(FIRST)?;
        }
        if self.flags.has("-shim-shuts-down") {
            self.is_closing = true;
            if self.flags.has("-check-close-notify") {
                self.association.close();
            } else {
                self.end = Some(CloseReason::Local);
            }
        }
        if self.flags.has("-key-update-before-read") {
            self.association.update_keys();
        }
        Ok(())
    }

    /// Answers data with its complement.
    fn answer(&mut self, data: &[u8]) -> Result<(), Failure> {
        if self.is_closing {
            return Ok(());
        }
        if self.flags.has("-key-update") {
            self.association.update_keys();
        }
        let answer: Vec<u8> = data.iter().map(|byte| byte ^ 0xff).collect();
        self.send(&answer)?;
        if self.flags.has("-key-update-before-read") {
            self.association.update_keys();
        }
        Ok(())
    }
}

fn io(error: std::io::Error) -> Failure {
    Failure::Failed(format!("the connection to the runner: {error}"))
}
