//! Nodes without security, which only copy messages.

use super::{Buffer, LISTENERS, REQUEST, RESPONSE, Sender, send};
use crate::heap;
use crate::machine::{exit, fail};
use crate::meter::measured;
use crate::transcript::LONGEST;
use core::hint::black_box;

/// A sender, whose requests go to each listener or to the group.
struct Plain {
    is_multicast: bool,
}

/// Writes a message into the buffer, and returns its length.
fn write(message: &[u8], buffer: &mut Buffer) -> usize {
    match buffer.get_mut(..message.len()) {
        Some(front) => front.copy_from_slice(message),
        None => fail("the buffer is too small"),
    }
    black_box(buffer);
    message.len()
}

impl Sender for Plain {
    fn request(&mut self, buffer: &mut Buffer) {
        if self.is_multicast {
            measured("request", || write(&REQUEST, buffer));
        }
    }

    fn peer(&mut self, _: usize, buffer: &mut Buffer) {
        if !self.is_multicast {
            measured("request", || write(&REQUEST, buffer));
        }
        write(&RESPONSE, buffer);
        let is_response = measured("peer", || buffer.starts_with(&black_box(RESPONSE)));
        if !is_response {
            fail("no response");
        }
    }
}

/// A sender of unicast requests.
pub fn unicast_sender() -> ! {
    heap::start();
    send(Plain { is_multicast: false }, LISTENERS)
}

/// A sender of a multicast request.
pub fn multicast_sender() -> ! {
    heap::start();
    send(Plain { is_multicast: true }, LISTENERS)
}

/// A listener, to which it makes no difference how a request was sent.
pub fn listener() -> ! {
    heap::start();
    let mut buffer = [0; LONGEST];
    write(&REQUEST, &mut buffer);
    let is_request = measured("request", || buffer.starts_with(&black_box(REQUEST)));
    if !is_request {
        fail("no request");
    }
    measured("peer", || write(&RESPONSE, &mut buffer));
    exit(0)
}
