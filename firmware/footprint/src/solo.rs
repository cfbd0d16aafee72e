//! One end alone, whose peer's datagrams come from a transcript.

use crate::machine::{exit, fail};
use crate::meter::{measured, value};
use crate::settings::{PAYLOAD, least_received};
use crate::transcript::{Kind, LONGEST, Reader};
use crate::{heap, machine};
use alloc::boxed::Box;
use core::net::SocketAddr;
use lightseal_dtls::{Engine, Event, Instant, Output, SendError, Sent, Settings};

/// All steps but the last one happen at this time: no timer expires.
pub const NOW: Instant = Instant::ZERO;
/// The time of the last step: the keys of the handshake are not needed any more
/// ([`HANDSHAKE_KEYS_LIFETIME`](lightseal_dtls::tuning::HANDSHAKE_KEYS_LIFETIME)), and associations
/// that may sleep do.
const LATER: Instant = Instant::from_micros(300_000_000);

/// An end of an association as the images drive it.
pub trait End {
    /// Takes a datagram, and everything that the engine then wants to do. Each datagram to send goes
    /// to `transmit`. The host lends `buffer` for them, which is therefore in no measured stack.
    fn turn(
        &mut self,
        datagram: Option<&mut [u8]>,
        buffer: &mut [u8],
        transmit: &mut dyn FnMut(&[u8]),
    );
    /// Does what is due at that time.
    fn wait_until(&mut self, now: Instant, buffer: &mut [u8]);
    /// Whether the handshake is complete.
    fn is_connected(&self) -> bool;
    /// The bytes of payload received so far.
    fn received(&self) -> usize;
    /// Seals a payload into `buffer` and returns the length of the datagram; zero if the payload was
    /// queued.
    fn seal(&mut self, payload: &[u8], buffer: &mut [u8]) -> usize;
}

/// What an engine reports, as far as the images need it.
#[derive(Default)]
pub(crate) struct Received {
    /// The bytes of payload.
    pub(crate) bytes: usize,
}

impl Received {
    /// Takes an event. The end of an association ends the image.
    pub(crate) fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Data(data) => self.bytes += data.len(),
            Event::Closed(_) => fail("an association ended"),
            _ => {}
        }
    }
}

/// Passes a datagram to an engine, and everything that the engine then wants to do to `transmit` and
/// `take`.
pub(crate) fn drive<E: Engine>(
    engine: &mut E,
    peer: SocketAddr,
    datagram: Option<&mut [u8]>,
    buffer: &mut [u8],
    transmit: &mut dyn FnMut(&[u8]),
    take: impl FnMut(E::Event<'_>),
) {
    if let Some(datagram) = datagram {
        engine.handle_datagram(NOW, peer, datagram);
    }
    drain(engine, buffer, transmit, take);
}

/// Passes everything that an engine wants to do to `transmit` and `take`. It has a frame of its own,
/// which is not part of the stack that a datagram takes.
#[inline(never)]
fn drain<E: Engine>(
    engine: &mut E,
    buffer: &mut [u8],
    transmit: &mut dyn FnMut(&[u8]),
    mut take: impl FnMut(E::Event<'_>),
) {
    loop {
        match engine.poll_output(buffer) {
            Output::Datagram { payload, .. } => transmit(payload),
            Output::Event(event) => take(event),
            Output::BufferTooSmall { .. } => fail("the buffer is too small"),
            Output::WakeAt(_) | Output::Idle => return,
        }
    }
}

pub(crate) fn sealed(sent: Result<Sent, SendError>) -> usize {
    match sent {
        Ok(Sent::Datagram { len, .. }) => len,
        Ok(_) => 0,
        Err(_) => fail("a payload was not sent"),
    }
}

/// Passes the peer's datagrams, which are those of this kind, to `end` until the next round, each in
/// a step of this name. Returns whether there is a next round.
pub(crate) fn take_round(
    (step, from): (&str, Kind),
    end: &mut impl End,
    transcript: &mut Reader,
    buffer: &mut [u8],
) -> bool {
    while let Some((kind, datagram)) = transcript.next_entry() {
        if kind == Kind::Round {
            return true;
        }
        if kind == from {
            measured(step, || end.turn(Some(datagram), buffer, &mut |_| {}));
        }
    }
    false
}

/// Performs the handshake of `end`, up to the first round, in steps of this name.
pub(crate) fn shake_hands(
    (step, from): (&str, Kind),
    end: &mut impl End,
    transcript: &mut Reader,
    buffer: &mut [u8],
) {
    measured(step, || end.turn(None, buffer, &mut |_| {}));
    if !take_round((step, from), end, transcript, buffer) || !end.is_connected() {
        fail("the handshake is not complete");
    }
}

/// An end that runs alone: how it is made, and what is told of it.
pub(crate) struct Alone<Config, E> {
    /// Types with their sizes in bytes.
    pub(crate) types: &'static [(&'static str, usize)],
    pub(crate) configure: fn(Settings) -> Config,
    /// The name of the step that makes the end.
    pub(crate) start: &'static str,
    pub(crate) new: fn(Config) -> E,
    /// The peer's entries in the transcript.
    pub(crate) from: Kind,
}

impl<Config, E: End> Alone<Config, E> {
    /// Makes the end, and takes its peer's datagrams from the transcript.
    pub(crate) fn run(self, settings: fn() -> Settings) -> ! {
        heap::start();
        for (name, bytes) in self.types {
            value(name, *bytes);
        }
        let settings = settings();
        let least = least_received(&settings);
        let config = (self.configure)(settings);
        value("configuration", heap::usage().bytes);
        let end = measured(self.start, || (self.new)(config));
        follow(end, self.from, least)
    }
}

/// Fails if an end has received less than that.
pub(crate) fn check_received(end: &dyn End, least: usize) {
    value("received", end.received());
    if end.received() < least {
        fail("records are missing");
    }
}

fn follow(mut end: impl End, from: Kind, least: usize) -> ! {
    let mut transcript = Reader::open();
    let mut buffer = [0; LONGEST];
    shake_hands(("handshake", from), &mut end, &mut transcript, &mut buffer);
    loop {
        let length = measured("seal", || end.seal(&[0x55; PAYLOAD], &mut buffer));
        measured("other", || end.turn(None, &mut buffer, &mut |_| {}));
        value("record", length);
        if !take_round(("open", from), &mut end, &mut transcript, &mut buffer) {
            break;
        }
    }
    check_received(&end, least);
    value("payloads", heap::usage().payloads);
    measured("later", || end.wait_until(LATER, &mut buffer));
    exit(0)
}

/// Ends an image that has nothing to do: what every image has.
pub fn nothing() -> ! {
    heap::start();
    let block = measured("nothing", || Box::new(machine::stack_pointer()));
    exit(usize::from(*block == 0))
}
