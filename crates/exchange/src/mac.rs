//! A signer of messages with LightMAC, and its verifier.
//!
//! ```text
//! | cipher: 1 byte | tag: 8 bytes (PRESENT-80) or 16 (AES-128) | message |
//! ```
//!
//! A message is a payload with a serial number. The verifier answers each valid one with a receipt,
//! which it signs, behind altered copies of the message and of the receipt. The signer must refuse
//! all of these. A message without a receipt is signed and sent again.

use crate::payload::{Label, SeenSerials};
use crate::step::Step;
use crate::{Exchange, Options, Request};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;
use lightmac::{Aes128, LightMac, Present80};
use lightseal_core::{Engine, Instant, Output, Random};

/// Which payload it is.
const MESSAGE: u16 = 1;
const RECEIPT: u16 = 2;

/// The first byte of a datagram.
const PRESENT: u8 = 1;
const AES: u8 = 2;

/// The lengths of the counters in bits, with which a message may have 1792 bytes under PRESENT.
const PRESENT_COUNTER: u32 = 8;
const AES_COUNTER: u32 = 16;

/// The keys that both ends of an exchange know. They protect nothing else.
const PRESENT_KEYS: [[u8; 10]; 2] = [*b"exchange 1", *b"exchange 2"];
const AES_KEYS: [[u8; 16]; 2] = [*b"exchange of tags", *b"and of messages."];

/// The altered datagrams that a verifier sends for each message.
const COPIES: usize = 4;

/// The MACs under both ciphers.
struct Macs {
    present: LightMac<Present80>,
    aes: LightMac<Aes128>,
}

impl Macs {
    fn new() -> Option<Self> {
        let [first, second] = &PRESENT_KEYS;
        let present = LightMac::new(first.into(), second.into(), PRESENT_COUNTER, 64).ok()?;
        let [first, second] = &AES_KEYS;
        let aes = LightMac::new(first.into(), second.into(), AES_COUNTER, 128).ok()?;
        Some(Self { present, aes })
    }

    /// A datagram with the tag of a message; empty if the message is too long.
    fn signed(&self, cipher: u8, message: &[u8]) -> Vec<u8> {
        let tag = match cipher {
            PRESENT => self.present.tag(&[message]),
            _ => self.aes.tag(&[message]),
        };
        let Ok(tag) = tag else { return Vec::new() };
        [&[cipher], tag.as_bytes(), message].concat()
    }

    /// The cipher and the label of a datagram whose tag and payload are right.
    fn verified(&self, datagram: &[u8]) -> Verified {
        let Some((cipher, rest)) = datagram.split_first() else { return Verified::Refused };
        let tag_bytes = if *cipher == PRESENT { 8 } else { 16 };
        let Some((tag, message)) = rest.split_at_checked(tag_bytes) else {
            return Verified::Refused;
        };
        let is_valid = match *cipher {
            PRESENT => self.present.verify(&[message], tag).is_ok(),
            AES => self.aes.verify(&[message], tag).is_ok(),
            _ => false,
        };
        match (is_valid, Label::of(message)) {
            (false, _) => Verified::Refused,
            (true, None) => Verified::Forged,
            (true, Some(label)) => Verified::Genuine(*cipher, label),
        }
    }
}

/// What a datagram is.
enum Verified {
    /// Its tag is wrong.
    Refused,
    /// Its tag is right, but nobody has signed this message.
    Forged,
    /// It was signed under this cipher.
    Genuine(u8, Label),
}

/// The length of the message with this serial number, so that blocks are full, partly filled and
/// many.
fn length(serial: u32, most: usize) -> usize {
    crate::payload::LEAST_BYTES + (serial as usize * 7) % most.max(1)
}

/// What a signer has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignerCounters {
    /// Signed messages, by cipher: PRESENT-80 and AES-128.
    pub signed: [u32; 2],
    /// Messages whose receipt arrived.
    pub confirmed: u32,
    /// Altered datagrams that were refused.
    pub refused: u32,
    /// Datagrams with a right tag which the verifier has not signed.
    pub forged: u32,
    /// Own messages that came back as they were.
    pub reflected: u32,
}

/// Signs messages, and checks receipts.
pub struct Signer {
    macs: Macs,
    options: Options,
    verifier: SocketAddr,
    now: Instant,
    began: Instant,
    /// When the message without a receipt is signed again.
    due: Instant,
    serial: u32,
    request: Option<Request>,
    waiting: VecDeque<Vec<u8>>,
    counters: SignerCounters,
}

impl Signer {
    /// Signs the `payloads` of the options, of up to `bytes` bytes more than the least, one after
    /// the other. `None` if the MACs have wrong parameters.
    pub fn new(options: &Options, verifier: SocketAddr, now: Instant) -> Option<Self> {
        Some(Self {
            macs: Macs::new()?,
            options: options.clone(),
            verifier,
            now,
            began: now,
            due: now,
            serial: 0,
            request: None,
            waiting: VecDeque::new(),
            counters: SignerCounters::default(),
        })
    }

    /// What the signer has counted.
    pub const fn counters(&self) -> &SignerCounters {
        &self.counters
    }

    /// Signs the next message, or the last one again.
    fn sign(&mut self) {
        let label = Label { serial: self.serial, index: MESSAGE };
        let message = label.payload(length(self.serial, self.options.bytes));
        let cipher = if self.serial.is_multiple_of(2) { PRESENT } else { AES };
        let [present, aes] = &mut self.counters.signed;
        *(if cipher == PRESENT { present } else { aes }) += 1;
        self.waiting.push_back(self.macs.signed(cipher, &message));
        self.due = self.now + self.options.timeout;
    }

    fn take(&mut self, datagram: &[u8]) {
        match self.macs.verified(datagram) {
            Verified::Refused => self.counters.refused += 1,
            Verified::Forged => self.counters.forged += 1,
            Verified::Genuine(_, label) if label.index == MESSAGE => self.counters.reflected += 1,
            Verified::Genuine(_, label) if label.serial > self.serial || label.index != RECEIPT => {
                self.counters.forged += 1;
            }
            // A receipt of an earlier message has been delayed.
            Verified::Genuine(_, label) if label.serial < self.serial => {}
            Verified::Genuine(..) => {
                self.counters.confirmed += 1;
                self.serial += 1;
                self.due = self.now;
            }
        }
    }

    fn is_complete(&self) -> bool {
        self.counters.confirmed >= u32::from(self.options.payloads)
    }
}

impl Engine for Signer {
    type Event<'a> = Request;

    fn handle_datagram(&mut self, now: Instant, _: SocketAddr, datagram: &mut [u8]) {
        self.now = self.now.max(now);
        self.take(datagram);
        self.handle_timeout(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.now = self.now.max(now);
        if self.is_complete() || self.began + self.options.deadline <= self.now {
            self.request = Some(Request::End);
            self.due = Instant::MAX;
        } else if self.due <= self.now {
            self.sign();
        }
    }

    fn poll_output<'a>(&'a mut self, buf: &'a mut [u8]) -> Output<'a, Request> {
        let datagram = self.waiting.pop_front().map(|datagram| (self.verifier, datagram));
        next_step(datagram, self.request.take(), self.due, buf).output(buf)
    }
}

impl Exchange for Signer {
    fn succeeded(&self) -> bool {
        let SignerCounters { refused, forged, reflected, .. } = self.counters;
        self.is_complete() && refused > 0 && forged + reflected == 0
    }

    fn report(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let SignerCounters { signed: [present, aes], confirmed, refused, forged, reflected } =
            self.counters;
        write!(
            out,
            "\"role\": \"signer\", \"signed_present\": {present}, \"signed_aes\": {aes}, \
             \"confirmed\": {confirmed}, \"refused\": {refused}, \"forged\": {forged}, \
             \"reflected\": {reflected}"
        )
    }
}

/// What a verifier has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifierCounters {
    /// Valid messages, by cipher: PRESENT-80 and AES-128. Repeated ones are among them.
    pub verified: [u32; 2],
    /// Different valid messages.
    pub messages: u32,
    /// Datagrams with a wrong tag.
    pub refused: u32,
    /// Datagrams with a right tag which the signer has not signed.
    pub forged: u32,
    /// Altered datagrams that were sent.
    pub altered: u32,
}

/// Verifies messages, and sends receipts and altered datagrams.
pub struct Verifier {
    macs: Macs,
    options: Options,
    random: Random,
    now: Instant,
    /// When the last datagram arrived.
    active: Option<Instant>,
    request: Option<Request>,
    seen: SeenSerials,
    waiting: VecDeque<(SocketAddr, Vec<u8>)>,
    counters: VerifierCounters,
}

impl Verifier {
    /// Waits for the `payloads` of the options, and stops when nothing has arrived for `quiet`.
    /// `None` if the MACs have wrong parameters.
    pub fn new(options: &Options) -> Option<Self> {
        Some(Self {
            macs: Macs::new()?,
            options: options.clone(),
            random: Random::insecure(options.seed),
            now: Instant::ZERO,
            active: None,
            request: None,
            seen: SeenSerials::default(),
            waiting: VecDeque::new(),
            counters: VerifierCounters::default(),
        })
    }

    /// What the verifier has counted.
    pub const fn counters(&self) -> &VerifierCounters {
        &self.counters
    }

    fn take(&mut self, from: SocketAddr, datagram: &[u8]) {
        let (cipher, label) = match self.macs.verified(datagram) {
            Verified::Genuine(cipher, label) if label.index == MESSAGE => (cipher, label),
            Verified::Refused => return self.counters.refused += 1,
            Verified::Forged | Verified::Genuine(..) => return self.counters.forged += 1,
        };
        let [present, aes] = &mut self.counters.verified;
        *(if cipher == PRESENT { present } else { aes }) += 1;
        self.counters.messages += u32::from(self.seen.insert(label.serial));
        let receipt = Label { serial: label.serial, index: RECEIPT };
        let receipt = receipt.payload(length(label.serial, self.options.bytes));
        let receipt = self.macs.signed(cipher, &receipt);
        for at in 0..COPIES {
            let genuine = if at % 2 == 0 { datagram } else { &receipt };
            let altered = altered(&mut self.random, genuine);
            self.waiting.push_back((from, altered));
            self.counters.altered += 1;
        }
        self.waiting.push_back((from, receipt));
    }

    /// When the verifier stops unless something arrives.
    fn end(&self) -> Instant {
        let active = self.active.filter(|_| self.counters.messages > 0);
        let quiet = if self.is_complete() { self.options.quiet } else { self.options.deadline };
        active.map_or(Instant::ZERO + self.options.deadline, |active| active + quiet)
    }

    fn is_complete(&self) -> bool {
        self.counters.messages >= u32::from(self.options.payloads)
    }
}

impl Engine for Verifier {
    type Event<'a> = Request;

    fn handle_datagram(&mut self, now: Instant, from: SocketAddr, datagram: &mut [u8]) {
        self.now = self.now.max(now);
        self.active = Some(self.now);
        self.take(from, datagram);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.now = self.now.max(now);
        if self.end() <= self.now {
            self.request = Some(Request::End);
        }
    }

    fn poll_output<'a>(&'a mut self, buf: &'a mut [u8]) -> Output<'a, Request> {
        let end = self.end();
        next_step(self.waiting.pop_front(), self.request.take(), end, buf).output(buf)
    }
}

impl Exchange for Verifier {
    fn succeeded(&self) -> bool {
        let VerifierCounters { refused, forged, .. } = self.counters;
        self.is_complete() && refused + forged == 0
    }

    fn report(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let VerifierCounters { verified: [present, aes], messages, refused, forged, altered } =
            self.counters;
        write!(
            out,
            "\"role\": \"verifier\", \"verified_present\": {present}, \"verified_aes\": {aes}, \
             \"messages\": {messages}, \"refused\": {refused}, \"forged\": {forged}, \
             \"altered_sent\": {altered}"
        )
    }
}

/// A copy that differs from the datagram: a bit is inverted, or the last byte is missing, or there
/// is one more.
fn altered(random: &mut Random, genuine: &[u8]) -> Vec<u8> {
    let mut copy = genuine.to_vec();
    let bit = random.below(copy.len() as u64 * 8) as usize;
    match random.below(8) {
        0 => drop(copy.pop()),
        1 => copy.push(0),
        _ => {
            if let Some(byte) = copy.get_mut(bit / 8) {
                *byte ^= 1 << (bit % 8);
            }
        }
    }
    copy
}

/// The step of an engine that sends `datagram`, or else asks for `request`, or else sleeps until
/// `wake`.
fn next_step(
    datagram: Option<(SocketAddr, Vec<u8>)>,
    request: Option<Request>,
    wake: Instant,
    buf: &mut [u8],
) -> Step {
    let Some((to, datagram)) = datagram else {
        return request.map_or(Step::WakeAt(wake), Step::Request);
    };
    let len = datagram.len().min(buf.len());
    buf.iter_mut().zip(&datagram).for_each(|(byte, value)| *byte = *value);
    Step::Datagram { to, len }
}
