//! The configurations of the paper on Axiom: one request to the listeners of a group, and their
//! responses.
//!
//! - [`plain`]: nodes without security;
//! - [`sessions`]: an association with each listener;
//! - [`members`]: members of a group, with or without associations;
//! - [`writer`]: both sides in one image, whose datagrams become the transcript `members`.
//!
//! A sender takes one listener after another, and prints the step `peer` for the response of each,
//! so that its RAM is known for every number of listeners.

#[cfg(feature = "group")]
pub mod members;
pub mod plain;
#[cfg(any(feature = "client", feature = "server"))]
pub mod sessions;
#[cfg(feature = "group-writer")]
pub mod writer;

use crate::machine::exit;
use crate::transcript::LONGEST;

/// The number of listeners of a group.
pub const LISTENERS: usize = 400;
/// A request, as long as the simulator's (`crates/lab/src/groups/coap.rs`).
pub(crate) const REQUEST: [u8; 23] = *b"POST /actuators/leds 40";
/// A response, as long as the simulator's.
pub(crate) const RESPONSE: [u8; 27] = *b"2.04 Changed, light on 40 %";

/// The buffer that the host lends for datagrams.
pub(crate) type Buffer = [u8; LONGEST];

/// A node that sends requests. It measures its own steps.
pub trait Sender {
    /// Sends the request to the group, if there is one request for all listeners.
    fn request(&mut self, buffer: &mut Buffer);
    /// Takes the response of the listener with this number; before it, whatever is needed for that.
    fn peer(&mut self, number: usize, buffer: &mut Buffer);
}

/// Runs a sender with this many listeners.
pub(crate) fn send(mut sender: impl Sender, listeners: usize) -> ! {
    let mut buffer = [0; LONGEST];
    sender.request(&mut buffer);
    for number in 0..listeners {
        sender.peer(number, &mut buffer);
    }
    exit(0)
}
