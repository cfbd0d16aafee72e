//! The traits and types that all kinds of ports share.

use crate::pool::{Frame, Pool};
use std::io;
use std::net::SocketAddr;
#[cfg(unix)]
use std::os::fd::BorrowedFd;

/// The largest number of frames or datagrams that a port receives in one call: enough to share the
/// cost of a system call, few enough that the first one does not wait long for the last.
pub const BATCH: usize = 64;

/// A port that a thread can wait for.
pub trait Pollable {
    /// Calls `visit` with each descriptor that becomes readable when there are packets to receive.
    #[cfg(unix)]
    fn descriptors(&self, visit: &mut dyn FnMut(BorrowedFd<'_>));

    /// Whether there are packets to receive now that make no descriptor readable.
    fn is_ready(&self) -> bool {
        false
    }
}

/// A port that receives and sends Ethernet frames, which begin with the destination address and
/// have no frame check sequence.
pub trait LanPort: Pollable {
    /// Appends frames that arrived, at most [`BATCH`], and returns their number; it never waits.
    /// VLAN tags are part of the frames, and there are at least 128 free bytes before each frame.
    ///
    /// # Errors
    /// The port can never be used again, for example because its interface was removed.
    fn receive(&mut self, pool: &mut Pool, into: &mut Vec<Frame>) -> io::Result<usize>;

    /// Sends frames. It takes those that were sent, and those that can never be sent, from the
    /// front of the list and returns their number. There is no room now for the frames that it
    /// leaves: the caller drops or keeps them.
    ///
    /// # Errors
    /// The port can never be used again.
    fn transmit(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) -> io::Result<usize>;

    /// Counters since the port was opened.
    fn statistics(&self) -> Statistics;
}

/// A UDP payload that was received from another host or is to be sent to one.
#[must_use = "a frame that is not released is lost to its pool"]
#[derive(Debug)]
pub struct Datagram {
    /// The payload.
    pub frame: Frame,
    /// The address and port of the other host.
    pub remote: SocketAddr,
    /// The octet of IPv4's TOS field and IPv6's traffic class: DSCP and ECN (RFC 2474, RFC 3168).
    pub class: u8,
    /// Whether the datagram is sent from the port that the other host sends to, instead of the
    /// lane's own port. A NAT between the hosts accepts nothing else. In received datagrams this
    /// field has no meaning.
    pub from_shared_port: bool,
}

/// A port that receives and sends UDP datagrams.
pub trait Underlay: Pollable {
    /// Appends datagrams that arrived and returns their number; it never waits. There are at least
    /// 128 free bytes before each. A port that receives coalesced datagrams may append more than
    /// [`BATCH`].
    ///
    /// # Errors
    /// The port can never be used again. An ICMP error about a single datagram is no error here.
    fn receive(&mut self, pool: &mut Pool, into: &mut Vec<Datagram>) -> io::Result<usize>;

    /// Sends datagrams, none of which a router may fragment. It takes those that were sent, and
    /// those that it [refuses](Self::refusals), from the front of the list and returns their
    /// number. There is no room now for the datagrams that it leaves: the caller drops or keeps
    /// them.
    ///
    /// # Errors
    /// The port can never be used again.
    fn transmit(&mut self, pool: &mut Pool, datagrams: &mut Vec<Datagram>) -> io::Result<usize>;

    /// Appends to `into` the datagrams that could not be sent since the last call, at most the
    /// last 64.
    fn refusals(&mut self, into: &mut Vec<Refusal>);

    /// Counters since the port was opened.
    fn statistics(&self) -> Statistics;
}

/// A datagram that was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The address to which it should have been sent.
    pub remote: SocketAddr,
    /// The length of its payload in bytes.
    pub bytes: usize,
    /// Why it was not sent.
    pub cause: RefusalCause,
}

/// Why a datagram was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalCause {
    /// It is longer than the interface can send without fragmentation.
    TooLong,
    /// There is no route to that address now.
    Unreachable,
    /// A filter of this host forbids it.
    Forbidden,
    /// Another failure of this host.
    Failed,
}

/// Counters of a port, which never decrease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Packets received.
    pub received: u64,
    /// Packets sent.
    pub transmitted: u64,
    /// Packets that the kernel dropped because this process did not fetch them in time.
    pub overruns: u64,
    /// Received packets dropped because no frame was free.
    pub starved: u64,
    /// Received packets dropped because they are longer than [`Pool::max_packet`].
    pub too_long: u64,
    /// Received frames without valid checksums, because the sending host is on this machine and
    /// left them to hardware that does not exist. Its offloads should be turned off.
    pub unfinished: u64,
    /// Packets that could not be sent: too long, no route, or the interface is down.
    pub refused: u64,
}

impl core::ops::Add for Statistics {
    type Output = Self;

    /// The sum of the counters of two ports.
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

/// The last refusals, until the caller takes them.
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
        let mut refused = Vec::new();
        refusals.drain(&mut refused);
        assert_eq!((refused.len(), refused[0].bytes), (Refusals::MAX, 1));
        refusals.drain(&mut refused);
        assert_eq!(refused.len(), Refusals::MAX);
    }
}
