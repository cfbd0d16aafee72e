//! Answers to clients for which there is no state.

use super::Endpoint;
use crate::codepoints::{ContentType, HandshakeType};
use crate::connection::write_plaintext;
use crate::error::Fault;
use crate::handshake::hello_decision::HelloRequest;
use crate::messages::{Alert, Fragment};
use crate::record::PlaintextHeader;
use crate::tuning::MAX_STATELESS_ANSWERS;
use alloc::vec::Vec;
use core::net::SocketAddr;
use lightseal_core::wire::BufferFull;
use lightseal_core::{AddressPair, Encode, Writer};

impl Endpoint {
    /// Requests another hello with a cookie, in as many fragments as necessary.
    pub(super) fn request_hello(
        &mut self,
        to: SocketAddr,
        record: u64,
        sequence: u16,
        request: &HelloRequest,
    ) {
        self.stats.note(|stats| stats.retries += 1);
        let HelloRequest { kind, body: request } = request;
        let kind = *kind;
        // A HelloRetryRequest is the first message of the server's handshake.
        let sequence = if kind == HandshakeType::SERVER_HELLO { 0 } else { sequence };
        let room = self.config.settings.datagram_bytes - PlaintextHeader::LEN - Fragment::HEADER;
        let mut offset = 0;
        for (number, body) in (record..).zip(request.chunks(room)) {
            let fragment = Fragment { kind, length: request.len() as u32, sequence, offset, body };
            self.answer(to, ContentType::HANDSHAKE, number, &|w| fragment.write(w));
            offset += body.len() as u32;
        }
    }

    pub(super) fn refuse_hello(&mut self, from: SocketAddr, record_number: u64, fault: Fault) {
        self.stats.note(|stats| {
            stats.refused += 1;
            stats.refused_by.count(fault.class());
            stats.last_refusal = Some((from, fault));
        });
        // A malformed hello gets no answer.
        if !matches!(fault, Fault::Malformed(_)) {
            let alert = Alert(fault.alert());
            self.answer(from, ContentType::ALERT, record_number, &|w| alert.write(w));
        }
    }

    pub(super) fn answer(
        &mut self,
        to: SocketAddr,
        kind: ContentType,
        mut record_number: u64,
        content: &dyn Fn(&mut Writer<'_>) -> Result<(), BufferFull>,
    ) {
        let mut datagram = alloc::vec![0; self.config.settings.datagram_bytes];
        // The answer uses the client's record number, so that two answers never share a number.
        if let Some((len, _)) = write_plaintext(&mut datagram, kind, &mut record_number, content) {
            datagram.truncate(len);
            self.answer_with(to, datagram);
        }
    }

    pub(super) fn answer_with(&mut self, to: SocketAddr, datagram: Vec<u8>) {
        if self.answers.len() == MAX_STATELESS_ANSWERS {
            self.answers.pop_front();
        }
        self.answers.push_back((AddressPair { peer: to, local: self.local }, datagram));
    }
}
