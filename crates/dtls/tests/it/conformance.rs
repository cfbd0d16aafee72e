//! What BoringSSL's test suite BoGo has shown to be wrong: choices after a HelloVerifyRequest, the
//! keys of alerts, and the records in ACKs.

use crate::certificates12::{RAW, changing, configs, fault};
use lightseal_core::{Encode, Writer};
use lightseal_dtls::codepoints::{AlertDescription, ContentType, HandshakeType};
use lightseal_dtls::messages::{Fragment, HelloVerifyRequest};
use lightseal_dtls::record::PlaintextHeader;
use lightseal_dtls::{CloseReason, CookiePolicy, Incompatibility, Packing, ProtocolVersion};
use std::cell::Cell;
use std::time::Duration;
use testkit::pair::{Configs, Direction, pass};

/// A plaintext record with one handshake message.
fn plaintext(number: u64, fragment: &Fragment<'_>) -> Vec<u8> {
    let mut buf = [0; 512];
    let (head, body) = buf.split_at_mut(PlaintextHeader::LEN);
    let mut w = Writer::new(body);
    fragment.write(&mut w).unwrap();
    let length = w.len();
    let header = PlaintextHeader { kind: ContentType::HANDSHAKE, number, length: length as u16 };
    header.write(&mut Writer::new(head)).unwrap();
    buf[..PlaintextHeader::LEN + length].to_vec()
}

/// RFC 9147, section 5.1: a server that speaks DTLS 1.3 sends no HelloVerifyRequest.
#[test]
fn after_a_hello_verify_request_a_server_must_not_choose_1_3() {
    for forged in [true, false] {
        let mut configs = Configs::new();
        configs.client.settings.versions = vec![ProtocolVersion::Dtls13, ProtocolVersion::Dtls12];
        configs.server.cookies = CookiePolicy::ProvedBelow;
        let first = Cell::new(forged);
        let mut pair = configs.pair(1).with_rule(move |direction, _, datagram| {
            if direction != Direction::ToClient || !first.take() {
                return pass(datagram);
            }
            let mut body = [0; 16];
            let mut w = Writer::new(&mut body);
            HelloVerifyRequest { cookie: b"cookie" }.write(&mut w).unwrap();
            let body = w.finish();
            let kind = HandshakeType::HELLO_VERIFY_REQUEST;
            let length = body.len() as u32;
            let request = plaintext(7, &Fragment { kind, length, sequence: 0, offset: 0, body });
            // The ServerHello becomes the next message.
            let mut hello = datagram.to_vec();
            assert_eq!(hello[13], HandshakeType::SERVER_HELLO.0);
            hello[18] = 1;
            pass(&[request, hello].concat())
        });
        pair.connect();
        if forged {
            assert_eq!(pair.at_client.closed, fault(Incompatibility::Version));
        } else {
            pair.assert_connected();
        }
    }
}

/// RFC 5246, section 7.2.2: what does not parse is a decode_error.
#[test]
fn a_server_hello_done_is_empty() {
    let mut pair = configs(RAW).pair(1).with_rule(move |direction, _, datagram| {
        let mut datagram = datagram.to_vec();
        // The last record of the flight: its header and that of the message, without a body.
        let at = datagram.len().saturating_sub(PlaintextHeader::LEN + Fragment::HEADER);
        if direction == Direction::ToClient && datagram[at..].get(13) == Some(&14) {
            datagram[at + 12] += 1;
            datagram[at + 16] += 1;
            datagram[at + 24] += 1;
            datagram.push(0);
        }
        pass(&datagram)
    });
    pair.connect();
    let Some(CloseReason::Fault(fault)) = pair.at_client.closed else {
        panic!("{:?}", pair.at_client.closed)
    };
    assert_eq!(fault.alert(), AlertDescription::DECODE_ERROR);
}

/// RFC 5246, section 7.1: what follows a ChangeCipherSpec is protected, alerts too.
#[test]
fn alerts_after_our_change_of_keys_are_protected() {
    // The ticket that precedes the server's Finished does not parse.
    let kind = HandshakeType::NEW_SESSION_TICKET;
    let change = |body: &mut [u8]| body[4] ^= 0x40;
    let mut pair = configs(RAW).pair(1).with_rule(changing(Direction::ToClient, kind, change));
    pair.run_for(Duration::from_millis(500));
    let Some(CloseReason::Fault(fault)) = pair.at_client.closed else {
        panic!("{:?}", pair.at_client.closed)
    };
    assert_eq!(fault.alert(), AlertDescription::DECODE_ERROR);
    let mut sent = pair.log.iter().filter(|(to, _)| *to == Direction::ToServer);
    let (_, last) = sent.next_back().unwrap();
    assert_eq!(last[0], ContentType::ALERT.0);
    assert_eq!(last[3..5], [0, 1], "epoch");
    assert_eq!(pair.at_server.closed, Some(CloseReason::PeerAlert(AlertDescription::DECODE_ERROR)));
}

/// RFC 9147, section 7: an ACK names all records of the flight that have arrived, in plaintext too.
#[test]
fn a_server_hello_that_was_acknowledged_is_not_sent_again() {
    let mut configs = Configs::new();
    configs.server.cookies = CookiePolicy::ProvedBelow;
    configs.server.settings.packing = Packing::RecordPerDatagram;
    let lost = Cell::new(false);
    let mut pair = configs.pair(1).with_rule(move |direction, _, datagram| {
        let is_protected = datagram[0] & 0xe0 == 0x20;
        if direction == Direction::ToClient && is_protected && !lost.replace(true) {
            return Vec::new();
        }
        pass(datagram)
    });
    pair.connect();
    pair.assert_connected();
    let hellos = pair.log.iter().filter(|(to, datagram)| {
        *to == Direction::ToClient && datagram[13] == HandshakeType::SERVER_HELLO.0
    });
    assert_eq!(hellos.count(), 1);
}

/// RFC 9147, section 7.2: the ServerHello acknowledges the ClientHello. A second one shows that
/// the server still waits for the client, which tells it by an ACK what is missing.
#[test]
fn a_server_hello_that_comes_again_brings_an_ack_and_no_hello() {
    let mut configs = Configs::new();
    configs.server.cookies = CookiePolicy::ProvedBelow;
    configs.server.settings.packing = Packing::RecordPerDatagram;
    let mut pair = configs.pair(1).with_rule(move |direction, _, datagram| {
        let is_protected = datagram[0] & 0xe0 == 0x20;
        let after = |millis| (Duration::from_millis(millis), datagram.to_vec());
        match direction {
            Direction::ToClient if is_protected => vec![after(800)],
            Direction::ToClient => vec![after(10), after(100), after(200)],
            Direction::ToServer => vec![after(10)],
        }
    });
    pair.run_for(Duration::from_millis(700));
    let sent = pair.log.iter().filter(|(to, _)| *to == Direction::ToServer).map(|(_, d)| d);
    let hellos = sent.clone().filter(|datagram| datagram[0] == ContentType::HANDSHAKE.0);
    assert_eq!(hellos.count(), 1);
    assert!(sent.clone().any(|datagram| datagram[0] & 0xe0 == 0x20), "an ACK");
    pair.connect();
    pair.assert_connected();
}
