//! ClientHellos of clients for which there is no state yet.

use crate::codepoints::{ContentType, HandshakeType};
use crate::handshake::reassembly::Reassembly;
use crate::messages::Fragment;
use crate::record::PlaintextHeader;
use crate::tuning::{MAX_PARTIAL_HELLOS, MAX_PARTIAL_HELLOS_OF_NETWORK};
use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use lightseal_core::{Decode, Random, Reader};

/// The largest message number of a ClientHello: a DTLS 1.2 client may have been asked for a cookie
/// more than once.
pub(super) const MAX_HELLO_SEQUENCE: u16 = 3;

/// A ClientHello, in its datagram or reassembled.
#[derive(Debug)]
pub(super) struct WholeHello<'a> {
    /// The number of the record that contained it.
    pub(super) record: u64,
    /// Its message number.
    pub(super) sequence: u16,
    pub(super) body: Cow<'a, [u8]>,
}

impl WholeHello<'_> {
    /// The hello, to be kept when its datagram is gone.
    pub(super) fn to_kept(&self) -> WholeHello<'static> {
        let Self { record, sequence, .. } = *self;
        WholeHello { record, sequence, body: Cow::Owned(self.body.to_vec()) }
    }
}

/// A ClientHello of which some fragments have arrived.
#[derive(Debug)]
struct PartialHello {
    peer: SocketAddr,
    sequence: u16,
    reassembly: Reassembly,
}

/// ClientHellos that span several datagrams, by peer and message number.
///
/// Their senders have proved nothing, so anybody can fill the places with first fragments. The one
/// that is evicted is chosen at random: an attacker that does not know the generator's state cannot
/// aim at a particular client. One network can hold only a part of the places, so that a flood from
/// there does not affect clients of other networks.
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
    /// Processes a datagram that begins with a plaintext ClientHello. Returns the hello and its
    /// record number if it is complete.
    pub(super) fn take<'a>(
        &mut self,
        from: SocketAddr,
        datagram: &'a [u8],
        rng: &mut Random,
    ) -> Option<WholeHello<'a>> {
        let mut r = Reader::new(datagram);
        let first = PlaintextHeader::read(&mut r).ok()?;
        if first.kind != ContentType::HANDSHAKE {
            return None;
        }
        let content = r.take(first.length.into()).ok()?;
        let mut fragments = Reader::new(content);
        let fragment = Fragment::read(&mut fragments).ok()?;
        // The first hello has message number 0, one with a cookie the next number.
        if fragment.kind != HandshakeType::CLIENT_HELLO || fragment.sequence > MAX_HELLO_SEQUENCE {
            return None;
        }
        let (record, sequence) = (first.number, fragment.sequence);
        if fragment.is_whole() {
            return Some(WholeHello { record, sequence, body: Cow::Borrowed(fragment.body) });
        }
        // Fragments of the first hello and of the second one are kept apart.
        let this = |partial: &PartialHello| partial.peer == from && partial.sequence == sequence;
        let at = match self.partial.iter().position(this) {
            Some(at) => at,
            None => self.begin(from, sequence, rng),
        };
        let reassembly = &mut self.partial.get_mut(at)?.reassembly;
        // Takes the fragments in all records of the datagram.
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
        Some(WholeHello { record, sequence, body: Cow::Owned(message.body) })
    }

    /// Makes a place for a new hello, for which another one may be evicted.
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
