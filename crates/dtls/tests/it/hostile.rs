//! Small attacks and unlucky networks, each of which the design has to survive.

use lightseal_core::{Encode, Writer};
use lightseal_dtls::codepoints::{ContentType, HandshakeType};
use lightseal_dtls::messages::{Fragment, RecordNumber, ack};
use lightseal_dtls::record::PlaintextHeader;
use lightseal_dtls::{CloseReason, CookiePolicy};
use std::cell::Cell;
use std::time::Duration;
use testkit::pair::{Configs, Direction, pass};

/// A plaintext record, which anybody can send.
fn plaintext(
    kind: ContentType,
    content: impl FnOnce(&mut Writer<'_>) -> Result<(), lightseal_core::wire::BufferFull>,
) -> Vec<u8> {
    let mut buf = [0; 2048];
    let (head, body) = buf.split_at_mut(PlaintextHeader::LEN);
    let mut w = Writer::new(body);
    content(&mut w).unwrap();
    let length = w.len();
    let header = PlaintextHeader { kind, number: 77, length: length as u16 };
    header.write(&mut Writer::new(head)).unwrap();
    buf[..PlaintextHeader::LEN + length].to_vec()
}

fn fragment(kind: HandshakeType, sequence: u16, length: u32, body: &[u8]) -> Vec<u8> {
    let fragment = Fragment { kind, length, sequence, offset: 0, body };
    plaintext(ContentType::HANDSHAKE, |w| fragment.write(w))
}

#[test]
fn the_smallest_datagrams_still_carry_acks() {
    for bytes in [80, 97] {
        let mut configs = Configs::new();
        configs.client.settings.datagram_bytes = bytes;
        configs.server.settings.datagram_bytes = bytes;
        let mut pair = configs.pair(1);
        pair.connect();
        pair.assert_connected();
        // The client learns only by an ACK that its Finished arrived.
        pair.run_for(Duration::from_secs(120));
        assert!(pair.client.is_connected());
        assert_eq!(pair.client.stats().sent.retransmissions, 0, "{bytes}");
    }
}

#[test]
fn a_fragment_of_the_first_hello_that_comes_again_does_not_block_the_second() {
    let mut configs = Configs::new();
    configs.client.settings.datagram_bytes = 100;
    let mut pair = configs.pair(2).with_rule(|direction, index, datagram| {
        let late = (Duration::from_millis(15), datagram.to_vec());
        match direction {
            // The first fragment arrives twice, the second time after the last one.
            Direction::ToServer if index == 0 => [pass(datagram), vec![late]].concat(),
            _ => pass(datagram),
        }
    });
    pair.connect();
    pair.assert_connected();
    assert!(pair.now.as_micros() < 2_000_000, "without a retransmission");
}

#[test]
fn a_connection_closed_as_soon_as_it_was_made_is_told_in_order() {
    let mut pair = Configs::new().pair(3).with_rule(|direction, _, datagram| {
        // The Finished arrives after the data and the alert.
        let finished = direction == Direction::ToServer && datagram[0] & 0xe3 == 0x22;
        vec![(Duration::from_millis(if finished { 30 } else { 10 }), datagram.to_vec())]
    });
    pair.client_send(b"all I had to say");
    while pair.at_client.connected.is_none() {
        pair.run_for(Duration::from_millis(1));
    }
    pair.client.close(pair.now);
    pair.run_for(Duration::from_secs(1));
    assert!(pair.at_server.connected.is_some());
    assert_eq!(pair.at_server.data, [b"all I had to say"]);
    assert_eq!(pair.at_server.closed, Some(CloseReason::Peer));
    assert_eq!(pair.server.open_connections(), 0);
}

#[test]
fn messages_in_clear_do_not_disturb_a_handshake_that_has_keys() {
    // Message 1 is the server's EncryptedExtensions or, after a retry, its ServerHello.
    for sequence in 0..6 {
        for kind in [1, 2, 8, 20, 24] {
            let kind = HandshakeType(kind);
            let done = Cell::new(false);
            let mut pair = Configs::new().pair(4);
            pair.rule = Box::new(|_, _, datagram| {
                // Either end's first encrypted flight is late.
                let encrypted = datagram.iter().any(|byte| byte & 0xe3 == 0x22);
                let delay = if encrypted && !done.replace(true) { 40 } else { 10 };
                vec![(Duration::from_millis(delay), datagram.to_vec())]
            });
            for whole in [false, true] {
                let body = [0; 32];
                let junk = fragment(kind, sequence, 32, &body[..if whole { 32 } else { 5 }]);
                // As soon as the server has keys it waits for the client's Finished.
                for _ in 0..100 {
                    if pair.server.open_connections() > 0 {
                        break;
                    }
                    pair.run_for(Duration::from_millis(1));
                }
                pair.inject(Direction::ToServer, junk);
            }
            pair.connect();
            assert!(pair.at_server.connected.is_some(), "{kind} with number {sequence}");
            pair.assert_connected();
        }
    }
}

#[test]
fn fragments_in_clear_ahead_of_their_time_do_not_keep_the_encrypted_ones_out() {
    // Complete messages would be the next ones as soon as the ServerHello has arrived.
    for kind in [2, 8, 20] {
        for (sequence, len) in (2..5).flat_map(|sequence| [(sequence, 5), (sequence, 32)]) {
            let mut pair = Configs::new().pair(5);
            let junk = fragment(HandshakeType(kind), sequence, 32, &[0; 32][..len]);
            pair.inject(Direction::ToClient, junk);
            pair.connect();
            pair.assert_connected();
        }
    }
}

#[test]
fn an_ack_in_clear_says_nothing_of_encrypted_records() {
    let mut configs = Configs::new();
    configs.server.cookies = CookiePolicy::WhenRetrying;
    // The server's flight is lost twice; an attacker claims that it arrived.
    let mut pair = configs.pair(6).with_rule(|direction, index, datagram| match direction {
        Direction::ToClient if index < 4 => vec![],
        _ => pass(datagram),
    });
    pair.run_for(Duration::from_millis(15));
    assert_eq!(pair.server.open_connections(), 1);
    let records: Vec<_> = (0..8).map(|number| RecordNumber { epoch: 2, number }).collect();
    pair.inject(Direction::ToServer, plaintext(ContentType::ACK, |w| ack::write(&records, w)));
    pair.connect();
    pair.assert_connected();
}
