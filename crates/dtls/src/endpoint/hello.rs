//! ClientHellos before there is any state of their senders.

use crate::codepoints::{ContentType, HandshakeType};
use crate::handshake::reassembly::Reassembly;
use crate::messages::Fragment;
use crate::record::PlaintextHeader;
use crate::tuning::MAX_PARTIAL_HELLOS;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::SocketAddr;
use vocabulary::{Decode, Reader};

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

/// ClientHellos in several datagrams, by peer and message number, oldest first.
#[derive(Debug, Default)]
pub(super) struct Hellos {
    partial: VecDeque<(SocketAddr, u16, Reassembly)>,
}

impl Hellos {
    /// A datagram that begins with a ClientHello in clear: its record number and the hello,
    /// if that is whole.
    pub(super) fn take(&mut self, from: SocketAddr, datagram: &[u8]) -> Option<Hello> {
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
        let this = |(peer, sequence, _): &(SocketAddr, u16, Reassembly)| {
            *peer == from && *sequence == fragment.sequence
        };
        let at = match self.partial.iter().position(this) {
            Some(at) => at,
            None => {
                if self.partial.len() == MAX_PARTIAL_HELLOS {
                    self.partial.pop_front();
                }
                let reassembly = Reassembly::starting_at(fragment.sequence);
                self.partial.push_back((from, fragment.sequence, reassembly));
                self.partial.len() - 1
            }
        };
        let (_, _, reassembly) = self.partial.get_mut(at)?;
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
        self.partial.remove(at);
        Some(Hello { record, sequence, body: message.body })
    }
}
