//! One end alone, whose peer's datagrams come from a transcript.

use crate::machine::{exit, fail};
use crate::meter::{measured, value};
use crate::settings::{PAYLOAD, RECORDS};
use crate::transcript::{Kind, LONGEST, Reader};
use crate::{heap, machine};
use alloc::boxed::Box;
use lightseal_dtls::{Instant, SendError, Sent};

/// All steps happen at this time: no timer expires.
pub const NOW: Instant = Instant::ZERO;

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
    /// Whether the handshake is complete.
    fn is_connected(&self) -> bool;
    /// The bytes of payload received so far.
    fn received(&self) -> usize;
    /// Seals a payload into `buffer` and returns the length of the datagram; zero if the payload was
    /// queued.
    fn seal(&mut self, payload: &[u8], buffer: &mut [u8]) -> usize;
}

pub(crate) fn sealed(sent: Result<Sent, SendError>) -> usize {
    match sent {
        Ok(Sent::Datagram { len, .. }) => len,
        Ok(_) => 0,
        Err(_) => fail("a payload was not sent"),
    }
}

/// Performs the handshake of `end` in steps of this name. It takes the datagrams of this kind from the
/// transcript.
pub(crate) fn shake_hands(
    (step, from): (&str, Kind),
    end: &mut impl End,
    transcript: &mut Reader,
    buffer: &mut [u8],
) {
    measured(step, || end.turn(None, buffer, &mut |_| {}));
    while let Some((kind, datagram)) = transcript.next_entry() {
        if kind == Kind::Complete {
            break;
        }
        if kind == from {
            measured(step, || end.turn(Some(datagram), buffer, &mut |_| {}));
        }
    }
    if !end.is_connected() {
        fail("the handshake is not complete");
    }
}

/// Opens datagrams of this kind, each in a step of this name, until a payload arrives.
pub(crate) fn open(
    (step, from): (&str, Kind),
    end: &mut impl End,
    transcript: &mut Reader,
    buffer: &mut [u8],
) {
    let before = end.received();
    while end.received() == before {
        match transcript.next_entry() {
            Some((kind, datagram)) if kind == from => {
                measured(step, || end.turn(Some(datagram), buffer, &mut |_| {}));
            }
            Some(_) => {}
            None => fail("a record is missing"),
        }
    }
}

/// Takes the peer's datagrams, which are those of this kind, from the transcript.
pub(crate) fn run(mut end: impl End, from: Kind) -> ! {
    let mut transcript = Reader::open();
    let mut buffer = [0; LONGEST];
    shake_hands(("handshake", from), &mut end, &mut transcript, &mut buffer);
    for _ in 0..RECORDS {
        let payload = [0x55; PAYLOAD];
        let length = measured("seal", || end.seal(&payload, &mut buffer));
        measured("other", || end.turn(None, &mut buffer, &mut |_| {}));
        value("record", length);
        open(("open", from), &mut end, &mut transcript, &mut buffer);
    }
    exit(0)
}

/// Ends an image that has nothing to do: what every image has.
pub fn nothing() -> ! {
    heap::start();
    let block = measured("nothing", || Box::new(machine::stack_pointer()));
    exit(usize::from(*block == 0))
}
