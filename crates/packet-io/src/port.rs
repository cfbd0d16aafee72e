//! What the ports of every kind have in common.

use crate::pool::{Frame, Pool};
use std::io;
use std::net::SocketAddr;
#[cfg(unix)]
use std::os::fd::BorrowedFd;

/// How many frames or datagrams a port receives at most in one call: enough to share the price of
/// a system call, few enough that the first one does not wait long for the last.
pub const BATCH: usize = 64;

/// What a thread can wait for.
pub trait Source {
    /// Names the descriptors that become readable when there is something to receive.
    #[cfg(unix)]
    fn descriptors(&self, visit: &mut dyn FnMut(BorrowedFd<'_>));

    /// Whether there is something to receive now that no descriptor tells of.
    fn is_ready(&self) -> bool {
        false
    }
}

/// Where Ethernet frames come and go, from the destination address on and without the check
/// sequence.
pub trait LanPort: Source {
    /// Appends frames that arrived, at most [`BATCH`], and says how many; never waits. VLAN tags are
    /// in place, and there are at least 128 bytes before each frame.
    ///
    /// # Errors
    /// The port is lost for good, such as with an interface that was removed.
    fn receive(&mut self, pool: &mut Pool, into: &mut Vec<Frame>) -> io::Result<usize>;

    /// Sends frames, takes those that it could send or that nobody could from the front, and
    /// says how many it took. What it leaves finds no room now: the caller drops or keeps it.
    ///
    /// # Errors
    /// The port is lost for good.
    fn transmit(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) -> io::Result<usize>;

    /// What has happened since the port was opened.
    fn statistics(&self) -> Statistics;
}

/// A UDP payload that came from or goes to another host.
#[must_use = "a frame that is not released is lost to its pool"]
#[derive(Debug)]
pub struct Datagram {
    /// The payload.
    pub frame: Frame,
    /// The other end.
    pub remote: SocketAddr,
    /// The octet of IPv4's TOS and IPv6's traffic class: DSCP and ECN (RFC 2474, RFC 3168).
    pub class: u8,
    /// Sent from the port that the other end sends to, and not from a lane's own: a NAT on the way
    /// lets nothing else in. Of a datagram that was received it says nothing.
    pub answers: bool,
}

/// Where UDP datagrams come and go.
pub trait Underlay: Source {
    /// Appends datagrams that arrived and says how many; never waits. Each has at least 128 bytes
    /// before it. A port that is handed runs of datagrams may append more than [`BATCH`].
    ///
    /// # Errors
    /// The port is lost for good. What a peer's network says of single datagrams is no error.
    fn receive(&mut self, pool: &mut Pool, into: &mut Vec<Datagram>) -> io::Result<usize>;

    /// Sends datagrams, none of which a router may fragment; takes those it could send and those
    /// it [refuses](Self::refusals) from the front, and says how many. What it leaves finds no
    /// room now: the caller drops or keeps it.
    ///
    /// # Errors
    /// The port is lost for good.
    fn transmit(&mut self, pool: &mut Pool, datagrams: &mut Vec<Datagram>) -> io::Result<usize>;

    /// Moves to `into` what could not be sent since the last call, the last 64 at most.
    fn refusals(&mut self, into: &mut Vec<Refusal>);

    /// What has happened since the port was opened.
    fn statistics(&self) -> Statistics;
}

/// A datagram that was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Where it should have gone.
    pub remote: SocketAddr,
    /// Its payload in bytes.
    pub bytes: usize,
    /// Why not.
    pub cause: RefusalCause,
}

/// Why a datagram was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalCause {
    /// It is longer than the interface takes without fragments.
    TooLong,
    /// There is no way to that address now.
    Unreachable,
    /// A filter of this host forbids it.
    Forbidden,
    /// Another fault of this host's.
    Failed,
}

/// What has happened at a port. Counters never go back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Packets received.
    pub received: u64,
    /// Packets sent.
    pub transmitted: u64,
    /// Packets that the kernel dropped because nobody fetched them in time.
    pub overruns: u64,
    /// Received packets dropped because no frame was free.
    pub starved: u64,
    /// Received packets dropped because they are longer than a frame holds.
    pub too_long: u64,
    /// Received frames whose IP checksums the sending host on this machine had left to hardware
    /// that is not there: its offloads should be off.
    pub unfinished: u64,
    /// Packets that could not be sent: too long, no way, interface down.
    pub refused: u64,
}

impl core::ops::Add for Statistics {
    type Output = Self;

    /// What has happened at two ports together.
    fn add(self, other: Self) -> Self {
        Self {
            received: self.received + other.received,
            transmitted: self.transmitted + other.transmitted,
            overruns: self.overruns + other.overruns,
            starved: self.starved + other.starved,
            too_long: self.too_long + other.too_long,
            unfinished: self.unfinished + other.unfinished,
            refused: self.refused + other.refused,
        }
    }
}

/// Refusals that wait to be asked for.
#[derive(Debug, Default)]
pub(crate) struct Refusals(std::collections::VecDeque<Refusal>);

impl Refusals {
    const MAX: usize = 64;

    pub(crate) fn push(&mut self, refusal: Refusal) {
        if self.0.len() == Self::MAX {
            self.0.pop_front();
        }
        self.0.push_back(refusal);
    }

    pub(crate) fn drain(&mut self, into: &mut Vec<Refusal>) {
        into.extend(self.0.drain(..));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_refusals_are_kept() {
        let mut refusals = Refusals::default();
        let remote = "192.0.2.1:1".parse().unwrap();
        for bytes in 0..=Refusals::MAX {
            refusals.push(Refusal { remote, bytes, cause: RefusalCause::TooLong });
        }
        let mut told = Vec::new();
        refusals.drain(&mut told);
        assert_eq!((told.len(), told[0].bytes), (Refusals::MAX, 1));
        refusals.drain(&mut told);
        assert_eq!(told.len(), Refusals::MAX);
    }
}
