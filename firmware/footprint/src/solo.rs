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

/// Takes the peer's datagrams from the transcript, of which the entries `from` are this end's.
pub(crate) fn run(mut end: impl End, from: Kind) -> ! {
    let mut transcript = Reader::open();
    let mut buffer = [0; LONGEST];
    measured("handshake", || end.turn(None, &mut buffer, &mut |_| {}));
    while let Some((kind, datagram)) = transcript.next_entry() {
        if kind == Kind::Complete {
            break;
        }
        if kind == from {
            measured("handshake", || end.turn(Some(datagram), &mut buffer, &mut |_| {}));
        }
    }
    if !end.is_connected() {
        fail("the handshake is not complete");
    }
    for _ in 0..RECORDS {
        let payload = [0x55; PAYLOAD];
        let length = measured("seal", || end.seal(&payload, &mut buffer));
        measured("other", || end.turn(None, &mut buffer, &mut |_| {}));
        value("record", length);
        let before = end.received();
        while end.received() == before {
            match transcript.next_entry() {
                Some((kind, datagram)) if kind == from => {
                    measured("open", || end.turn(Some(datagram), &mut buffer, &mut |_| {}));
                }
                Some(_) => {}
                None => fail("a record is missing"),
            }
        }
    }
    exit(0)
}

/// Ends an image that has nothing to do: what every image has.
pub fn nothing() -> ! {
    heap::start();
    let block = measured("nothing", || Box::new(machine::stack_pointer()));
    exit(usize::from(*block == 0))
}
