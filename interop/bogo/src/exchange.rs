//! What one connection does from its first flight to its end.
//!
//! # Time
//!
//! The suite's steps of time are those of BoringSSL's schedule: a first timeout that doubles. Ours
//! follows the round trips that were measured (RFC 9147, section 5.8.2), and ends at a shorter
//! timeout. A step of at most [`LONGEST_STEP`] therefore means "until the next timer": the clock
//! advances to that timer, or stands still if there is none. A longer step is as long as the runner
//! says: it is there to let old keys expire.
//!
//! The first datagram that answers one of ours takes [`ROUND_TRIP`], so that timeouts are longer than
//! the delay of ACKs. The runner's other datagrams take no time, and a copy of an earlier one is then
//! a copy that the network has made. Only in DTLS 1.2, after the handshake, a plaintext message that comes again arrives
//! [`REPETITION`] later: it begins a retransmission of the runner's last flight.

use crate::Failure;
use crate::association::{Association, Next};
use crate::checks;
use crate::flags::Flags;
use crate::wire::{Frame, Wire};
use lightseal_dtls::{CloseReason, Instant, ProtocolVersion};
use std::time::Duration;

/// The longest timeout in BoringSSL's schedule.
const LONGEST_STEP: Duration = Duration::from_secs(60);

/// The round trip: shorter than all first timeouts of the suite.
const ROUND_TRIP: Duration = Duration::from_millis(200);

/// The time before a retransmission by the runner: longer than the time in which a repetition of the
/// peer's flight gets no second answer.
const REPETITION: Duration = Duration::from_millis(400);

/// The number of steps of the schedule after which BoringSSL gives a handshake up.
const STEPS: u32 = 13;

/// The length of the header of a plaintext record, in bytes.
const PLAINTEXT_HEADER: usize = 13;

/// The content type of handshake records.
const HANDSHAKE: u8 = 22;

/// The handshake type of a ClientHello.
const CLIENT_HELLO: u8 = 1;

/// What the program writes first if the case wants it to.
const FIRST: &[u8] = b"hello";

/// One connection with the runner.
pub(crate) struct Exchange<'a> {
    flags: &'a Flags,
    association: &'a mut Association,
    wire: Wire,
    is_resumption: bool,
    has_sent: bool,
    /// A datagram was sent, and none has answered it.
    awaits_first_answer: bool,
    /// The number and offset of the newest plaintext message.
    newest: Option<(u16, u32)>,
    /// The handshake is complete.
    is_connected: bool,
    is_12: bool,
    /// The client has sent a second hello.
    has_second_hello: bool,
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
            awaits_first_answer: false,
            newest: None,
            is_connected: false,
            is_12: false,
            has_second_hello: false,
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
                    if std::mem::take(&mut self.awaits_first_answer) {
                        self.association.wait(ROUND_TRIP);
                    }
                    self.note_hello(&datagram);
                    self.note_repetition(&datagram);
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
            self.sign_later()?;
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
        let until = match self.near_timer() {
            _ if time > LONGEST_STEP => now + time,
            None => return,
            Some(_) if !self.is_connected && self.steps + 1 >= STEPS => {
                now + crate::configuration::HANDSHAKE_DEADLINE
            }
            Some(timer) => timer.max(now),
        };
        self.steps += 1;
        self.association.advance_to(until);
    }

    /// The next timer of a handshake. Others are further away: old keys are kept for longer.
    fn near_timer(&self) -> Option<Instant> {
        let horizon = self.association.now() + LONGEST_STEP;
        self.wake.filter(|wake| *wake <= horizon)
    }

    fn check_timeout(&self, expected: Option<Duration>) -> Result<(), Failure> {
        match (expected, self.near_timer()) {
            (Some(_), None) => Err(Failure::Failed("no timer runs, but one must".into())),
            (None, Some(_)) => Err(Failure::Failed("a timer runs, but none may".into())),
            _ => Ok(()),
        }
    }

    /// Lets the time pass that this end's private key takes to sign, if it has to.
    fn sign_later(&mut self) -> Result<(), Failure> {
        if self.association.identities.signs_later() {
            let delay = self.flags.number("-private-key-delay-ms")?.unwrap_or(0);
            self.association.advance_to(self.association.now() + Duration::from_millis(delay));
            self.flush()?;
            self.association.key_is_ready();
            self.flush()?;
        }
        Ok(())
    }

    /// Sends what the association has to send and acts on its events.
    fn flush(&mut self) -> Result<(), Failure> {
        self.wake = None;
        loop {
            match self.association.poll() {
                Next::Transmit(datagram) => self.transmit(&datagram),
                Next::Connected(negotiated) => {
                    self.is_connected = true;
                    self.is_12 = negotiated.version == ProtocolVersion::Dtls12;
                    checks::after_handshake(
                        self.flags,
                        &negotiated,
                        self.association,
                        self.is_resumption,
                        // In DTLS 1.2 it follows a HelloVerifyRequest.
                        self.has_second_hello && !self.is_12,
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
        self.note_hello(datagram);
        self.wire.send(datagram);
        self.awaits_first_answer |= !self.has_sent;
        self.has_sent = true;
    }

    /// Lets a round trip pass before a retransmission of the runner's last flight.
    fn note_repetition(&mut self, datagram: &[u8]) {
        let Some(at) =
            plaintext_messages(datagram).next().map(|message| (message.number, message.offset))
        else {
            return;
        };
        if self.is_connected && self.is_12 && self.newest.is_some_and(|newest| at <= newest) {
            self.association.wait(REPETITION);
        }
        self.newest = Some(at);
    }

    /// Notes a second ClientHello in a datagram of either end.
    fn note_hello(&mut self, datagram: &[u8]) {
        self.has_second_hello |= plaintext_messages(datagram)
            .any(|message| message.kind == CLIENT_HELLO && message.number > 0);
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

/// The header of a fragment of a handshake message (RFC 9147, section 5.2).
struct FragmentHeader {
    kind: u8,
    number: u16,
    offset: u32,
}

/// The first fragment of each plaintext record at the start of a datagram.
fn plaintext_messages(mut datagram: &[u8]) -> impl Iterator<Item = FragmentHeader> {
    std::iter::from_fn(move || {
        let (header, rest) = datagram.split_at_checked(PLAINTEXT_HEADER)?;
        let is_plaintext = header[0] == HANDSHAKE && header[3..5] == [0, 0];
        let len = usize::from(u16::from_be_bytes([header[11], header[12]]));
        let (record, rest) = rest.split_at_checked(len).filter(|_| is_plaintext)?;
        datagram = rest;
        match *record {
            [kind, _, _, _, n1, n2, o1, o2, o3, ..] => Some(FragmentHeader {
                kind,
                number: u16::from_be_bytes([n1, n2]),
                offset: u32::from_be_bytes([0, o1, o2, o3]),
            }),
            _ => None,
        }
    })
}

fn io(error: std::io::Error) -> Failure {
    Failure::Failed(format!("the connection to the runner: {error}"))
}
