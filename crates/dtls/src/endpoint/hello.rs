//! ClientHellos before there is any state of their senders.

use crate::codepoints::{ContentType, HandshakeType};
use crate::handshake::reassembly::Reassembly;
use crate::messages::Fragment;
use crate::record::PlaintextHeader;
use crate::tuning::{MAX_PARTIAL_HELLOS, MAX_PARTIAL_HELLOS_OF_NETWORK};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use vocabulary::{Decode, Random, Reader};

/// A client of DTLS 1.2 may have been asked more than once for a cookie.
const MAX_HELLO_SEQUENCE: u16 = 3;

/// A ClientHello, reassembled.
pub(super) struct Hello {
    /// The number of the record it came in.
    pub(super) record: u64,
    /// Its number in the client's sequence of messages.
    pub(super) sequence: u16,
    pub(super) body: Vec<u8>,
}

/// A ClientHello of which a part has come.
#[derive(Debug)]
struct PartialHello {
    peer: SocketAddr,
    sequence: u16,
    reassembly: Reassembly,
}

/// ClientHellos in several datagrams, by peer and message number.
///
/// Their senders have proved nothing, so anybody can fill the places with first fragments. The
/// one that gives way is chosen at random: an attacker that does not know the generator cannot aim
/// at a client's. And one network holds a part of the places only, so that a flood from there costs
/// the clients of other networks nothing.
#[derive(Debug, Default)]
pub(super) struct Hellos {
    partial: Vec<PartialHello>,
}

/// The network of an address: the IPv4 address itself, or the first 64 bits of an IPv6 address.
pub(super) fn network(peer: SocketAddr) -> u128 {
    match peer.ip().to_canonical() {
        IpAddr::V4(ip) => u128::from(u32::from(ip)),
        IpAddr::V6(ip) => u128::from(ip) >> 64 << 64,
    }
}

impl Hellos {
    /// A datagram that begins with a ClientHello in clear: its record number and the hello,
    /// if that is whole.
    pub(super) fn take(
        &mut self,
        from: SocketAddr,
        datagram: &[u8],
        rng: &mut Random,
    ) -> Option<Hello> {
        let mut r = Reader::new(datagram);
        let first = PlaintextHeader::read(&mut r).ok()?;
        if first.kind != ContentType::HANDSHAKE {
            return None;
        }
        let content = r.take(first.length.into()).ok()?;
        let mut fragments = Reader::new(content);
        let fragment = Fragment::read(&mut fragments).ok()?;
        // A first hello has number 0, one with a cookie the next.
        if fragment.kind != HandshakeType::CLIENT_HELLO || fragment.sequence > MAX_HELLO_SEQUENCE {
            return None;
        }
        let (record, sequence) = (first.number, fragment.sequence);
        if fragment.is_whole() {
            return Some(Hello { record, sequence, body: fragment.body.to_vec() });
        }
        // A late fragment of the first hello has nothing to do with the second one.
        let this = |partial: &PartialHello| partial.peer == from && partial.sequence == sequence;
        let at = match self.partial.iter().position(this) {
            Some(at) => at,
            None => self.begin(from, sequence, rng),
        };
        let reassembly = &mut self.partial.get_mut(at)?.reassembly;
        // All fragments of the datagram, in as many records as it has.
        let mut fragments = Reader::new(content);
        loop {
            while let Ok(fragment) = Fragment::read(&mut fragments) {
                reassembly.offer(0, &fragment);
            }
            let Ok(header) = PlaintextHeader::read(&mut r) else { break };
            let Ok(content) = r.take(header.length.into()) else { break };
            fragments = Reader::new(content);
        }
        let message = reassembly.next_message()?;
        self.partial.swap_remove(at);
        Some(Hello { record, sequence, body: message.body })
    }

    /// A place for a hello that begins; another one may have to give way.
    fn begin(&mut self, peer: SocketAddr, sequence: u16, rng: &mut Random) -> usize {
        let of_network = network(peer);
        let shares = |partial: &&PartialHello| network(partial.peer) == of_network;
        let share = self.partial.iter().filter(shares).count();
        let evicted = if share >= MAX_PARTIAL_HELLOS_OF_NETWORK {
            let nth = rng.below(share as u64) as usize;
            let mut places = self.partial.iter().enumerate().filter(|(_, p)| shares(p));
            places.nth(nth).map(|(at, _)| at)
        } else if self.partial.len() >= MAX_PARTIAL_HELLOS {
            Some(rng.below(self.partial.len() as u64) as usize)
        } else {
            None
        };
        if let Some(at) = evicted {
            self.partial.swap_remove(at);
        }
        let reassembly = Reassembly::starting_at(sequence);
        self.partial.push(PartialHello { peer, sequence, reassembly });
        self.partial.len() - 1
    }
}
