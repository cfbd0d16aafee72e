//! A server against a client that has the keys and breaks the rules: messages that only an
//! authenticated peer can send.

use super::{Connection, Event};
use crate::codepoints::{AlertDescription, ContentType, HandshakeType};
use crate::config::{
    AggregationPolicy, ClientConfig, ConnectionIds, ProtocolVersion, Psk, ServerConfig, Settings,
};
use crate::crypto::ExportError;
use crate::crypto::rustcrypto::PROVIDER;
use crate::endpoint::Endpoint;
use crate::error::{CloseReason, Fault, Limit, Misbehaviour};
use crate::messages::return_routability::{PathMessage, PathMessageKind};
use crate::messages::{Alert, Fragment, RecordNumber, ack};
use crate::record::NumberLength;
use crate::record::epochs::{APPLICATION_EPOCH, EPOCH_12};
use crate::record::seal::HeaderFormat;
use crate::tuning::{
    LAST_MESSAGE, LAST_VOLUNTARY_MESSAGE, MAX_MESSAGES_AHEAD, MAX_VAIN_ID_REQUESTS,
};
use core::net::SocketAddr;
use lightseal_aggregation::Scheme;
use lightseal_core::wire::BufferFull;
use lightseal_core::{DecodeError, Encode, Engine, Instant, Output, Random, Writer};
use std::sync::Arc;
use std::vec::Vec;

const CLIENT: ([u16; 8], u16) = ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], 40_000);
const SERVER: ([u16; 8], u16) = ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 2], 5684);

struct Ends {
    now: Instant,
    client: Connection,
    server: Endpoint,
    server_closed: Option<CloseReason>,
    client_closed: Option<CloseReason>,
}

impl Ends {
    fn connected() -> Self {
        Self::connected_with(|_| {})
    }

    fn connected_with(change: impl Fn(&mut Settings)) -> Self {
        let psk = Psk::external(b"sensor", &[7; 32]).unwrap();
        let mut settings = Settings::new(&PROVIDER);
        change(&mut settings);
        let client = Arc::new(ClientConfig::with(psk.clone(), settings.clone()).unwrap());
        let server = Arc::new(ServerConfig::with(Arc::new(psk), settings).unwrap());
        let now = Instant::from_micros(1);
        let rng = Random::insecure(1);
        let mut ends = Self {
            now,
            client: Connection::client(client, SocketAddr::from(SERVER), now, rng),
            server: Endpoint::server(server, Random::insecure(2)),
            server_closed: None,
            client_closed: None,
        };
        ends.exchange();
        assert!(ends.client.is_connected() && ends.client.channel.flight.is_done());
        ends
    }

    /// Delivers datagrams without delay until both ends are idle; returns how many the server sent.
    fn exchange(&mut self) -> usize {
        let (mut buf, mut sent) = ([0; 1500], 0);
        loop {
            let mut quiet = true;
            while let Some(mut datagram) = self.poll_client(&mut buf) {
                quiet = false;
                self.server.handle_datagram(self.now, SocketAddr::from(CLIENT), &mut datagram);
            }
            while let Some(mut datagram) = self.poll_server(&mut buf) {
                quiet = false;
                sent += 1;
                self.client.handle_datagram(self.now, SocketAddr::from(SERVER), &mut datagram);
            }
            if quiet {
                return sent;
            }
        }
    }

    fn poll_client(&mut self, buf: &mut [u8]) -> Option<Vec<u8>> {
        loop {
            match self.client.poll_output(buf) {
                Output::Datagram { payload, .. } => return Some(payload.to_vec()),
                Output::Event(Event::Closed(reason)) => self.client_closed = Some(reason),
                Output::Event(_) => {}
                Output::BufferTooSmall { needed } => panic!("{needed} bytes are needed"),
                Output::WakeAt(_) | Output::Idle => return None,
            }
        }
    }

    fn poll_server(&mut self, buf: &mut [u8]) -> Option<Vec<u8>> {
        loop {
            match self.server.poll_output(buf) {
                Output::Datagram { payload, .. } => return Some(payload.to_vec()),
                Output::Event(event) => {
                    if let Event::Closed(reason) = event.event {
                        self.server_closed = Some(reason);
                    }
                }
                Output::BufferTooSmall { needed } => panic!("{needed} bytes are needed"),
                Output::WakeAt(_) | Output::Idle => return None,
            }
        }
    }

    /// Seals a record under the client's keys and delivers it to the server; returns how many
    /// datagrams the server sent in response.
    fn client_says(
        &mut self,
        epoch: u64,
        kind: ContentType,
        content: impl FnOnce(&mut Writer<'_>) -> Result<(), BufferFull>,
    ) -> usize {
        self.client_says_from(CLIENT, epoch, kind, content)
    }

    fn client_says_from(
        &mut self,
        from: ([u16; 8], u16),
        epoch: u64,
        kind: ContentType,
        content: impl FnOnce(&mut Writer<'_>) -> Result<(), BufferFull>,
    ) -> usize {
        let mut datagram = [0; 1200];
        let shape = HeaderFormat { number: NumberLength::Two, last: true };
        let keys = self.client.channel.send.get(epoch).expect("the client has these keys");
        let len = keys.seal(&mut datagram, kind, shape, content).unwrap().len;
        let datagram = datagram.get_mut(..len).unwrap();
        self.server.handle_datagram(self.now, SocketAddr::from(from), datagram);
        self.exchange()
    }

    /// The number of the client's next handshake message.
    fn next_sequence(&mut self) -> u16 {
        self.client.channel.flight.next_sequence()
    }
}

fn key_update(sequence: u16) -> Fragment<'static> {
    Fragment { kind: HandshakeType::KEY_UPDATE, length: 1, sequence, offset: 0, body: &[0] }
}

#[test]
fn a_record_is_acknowledged_only_if_all_of_it_was_kept() {
    let mut ends = Ends::connected();
    let next = ends.next_sequence();
    let near = Fragment { length: 4, ..key_update(next + MAX_MESSAGES_AHEAD) };
    let far = Fragment { sequence: next + MAX_MESSAGES_AHEAD + 1, ..near };
    let mut say = |fragments: [Fragment<'_>; 2]| {
        ends.client_says(APPLICATION_EPOCH, ContentType::HANDSHAKE, |w| {
            fragments.iter().try_for_each(|fragment| fragment.write(w))
        })
    };
    assert_eq!(say([near, near]), 1, "an ACK");
    assert_eq!(say([near, far]), 0, "no ACK");
    assert_eq!(ends.server_closed, None);
}

#[test]
fn a_cancelling_client_is_heard_until_it_closes() {
    let mut ends = Ends::connected();
    for (alert, closed) in [
        (AlertDescription::USER_CANCELED, None),
        (AlertDescription::CLOSE_NOTIFY, Some(CloseReason::Peer)),
    ] {
        ends.client_says(APPLICATION_EPOCH, ContentType::ALERT, |w| Alert(alert).write(w));
        assert_eq!(ends.server_closed, closed);
    }
}

/// RFC 8446, section 5.4, ends the connection over an empty handshake or alert record; over
/// datagrams it is discarded (RFC 9147, section 4.5.2).
#[test]
fn a_record_of_zeros_alone_is_malformed() {
    let mut ends = Ends::connected();
    let malformed = |ends: &Ends| ends.server.totals().received.malformed;
    let before = malformed(&ends);
    ends.client_says(APPLICATION_EPOCH, ContentType(0), |w| w.bytes(&[0; 40]));
    assert_eq!((malformed(&ends), ends.server_closed), (before + 1, None));
}

#[test]
fn keys_change_once_and_then_the_new_ones_announce_the_next() {
    let mut ends = Ends::connected();
    let next = ends.next_sequence();
    let (first, second) = (key_update(next), key_update(next + 1));
    ends.client_says(APPLICATION_EPOCH, ContentType::HANDSHAKE, |w| first.write(w));
    assert_eq!(ends.server_closed, None);
    ends.client_says(APPLICATION_EPOCH, ContentType::HANDSHAKE, |w| first.write(w));
    assert_eq!(ends.server_closed, None, "a repetition");
    ends.client_says(APPLICATION_EPOCH, ContentType::HANDSHAKE, |w| second.write(w));
    let fault = Fault::from(Misbehaviour::WrongEpoch);
    assert_eq!(ends.server_closed, Some(CloseReason::Fault(fault)));
    assert_eq!(ends.client_closed, Some(CloseReason::PeerAlert(fault.alert())));
}

/// Settings that accept Agg(8) and Agg(4) in both directions.
fn with_schemes(settings: &mut Settings) {
    let schemes = alloc::vec![Scheme::agg(8).unwrap(), Scheme::agg(4).unwrap()];
    settings.aggregation = AggregationPolicy { send: schemes.clone(), receive: schemes };
}

fn aggregation_update(sequence: u16, body: &[u8]) -> Fragment<'_> {
    let kind = HandshakeType::AGGREGATION_UPDATE;
    Fragment { kind, length: body.len() as u32, sequence, offset: 0, body }
}

#[test]
fn updates_have_no_place_where_no_scheme_was_agreed_on_and_name_what_was_offered() {
    let unexpected = Fault::from(Misbehaviour::UnexpectedMessage);
    let illegal = Fault::from(Misbehaviour::illegal("aggregation scheme"));
    let unknown = Fault::from(DecodeError::invalid("aggregation scheme"));
    let plain: fn(&mut Settings) = |_| {};
    let narrow: fn(&mut Settings) = |settings| {
        let schemes = alloc::vec![Scheme::agg(4).unwrap()];
        settings.aggregation = AggregationPolicy { send: schemes.clone(), receive: schemes };
    };
    for (change, body, fault) in [
        (plain, &[1, 4][..], Some(unexpected)),
        (plain, &[0], Some(unexpected)),
        (narrow, &[1, 8], Some(illegal)),
        (with_schemes, &[1, 5], Some(illegal)),
        (with_schemes, &[1, 17], Some(unknown)),
        (with_schemes, &[1, 4], None),
        (with_schemes, &[0], None),
    ] {
        let mut ends = Ends::connected_with(change);
        let message = aggregation_update(ends.next_sequence(), body);
        ends.client_says(APPLICATION_EPOCH, ContentType::HANDSHAKE, |w| message.write(w));
        assert_eq!(ends.server_closed, fault.map(CloseReason::Fault), "{body:?}");
    }
}

#[test]
fn an_update_waits_for_the_answer_to_the_last_one() {
    let mut ends = Ends::connected_with(with_schemes);
    let next = ends.next_sequence();
    let (first, second) = (aggregation_update(next, &[0]), aggregation_update(next + 1, &[1, 4]));
    for message in [&first, &first] {
        ends.client_says(APPLICATION_EPOCH, ContentType::HANDSHAKE, |w| message.write(w));
        assert_eq!(ends.server_closed, None, "the update and its retransmission");
    }
    // The client engine of this test did not send this update itself, and does not know the
    // server's new epoch.
    assert_eq!(ends.client.stats().received.unknown_epoch, 2);
    let mut ends = Ends::connected_with(with_schemes);
    ends.client_says(APPLICATION_EPOCH, ContentType::HANDSHAKE, |w| {
        [&first, &second].into_iter().try_for_each(|message| message.write(w))
    });
    let fault = Fault::from(Misbehaviour::UnexpectedMessage);
    assert_eq!(ends.server_closed, Some(CloseReason::Fault(fault)));
}

#[test]
fn an_epoch_s_end_is_told_only_to_who_asked_and_in_the_next_epoch() {
    let unexpected = Fault::from(Misbehaviour::UnexpectedMessage);
    let mut ends = Ends::connected_with(with_schemes);
    let end = [0; 6];
    ends.client_says(APPLICATION_EPOCH, ContentType::EPOCH_END, |w| w.bytes(&end));
    assert_eq!(ends.server_closed, Some(CloseReason::Fault(unexpected)));

    let asked = || {
        let mut ends = Ends::connected_with(with_schemes);
        let handle = ends.server.connections().next().unwrap().0;
        let scheme = Scheme::agg(4).unwrap();
        ends.server.connection_mut(handle).unwrap().request_aggregation(ends.now, scheme).unwrap();
        ends.exchange();
        assert_eq!(ends.client.negotiated().unwrap().send, scheme);
        ends
    };
    let mut ends = asked();
    // Repeated reports, and reports of more or fewer records, change nothing.
    for records in [0, 1, 200] {
        ends.client_says(APPLICATION_EPOCH + 1, ContentType::EPOCH_END, |w| w.u48(records));
        assert_eq!(ends.server_closed, None);
    }
    for content in [&[0; 5][..], &[0; 7], &[0, 0, 0, 0, 0, 4, 1], &[0; 24], &[0; 25]] {
        let mut ends = asked();
        ends.client_says(APPLICATION_EPOCH + 1, ContentType::EPOCH_END, |w| w.bytes(content));
        let fault = matches!(ends.server_closed, Some(CloseReason::Fault(Fault::Malformed(_))));
        assert!(fault, "{content:?}");
    }
    // An epoch that a KeyUpdate began does not follow a requested update.
    let mut ends = asked();
    ends.client.update_keys(ends.now);
    ends.exchange();
    let _ = ends.client.send(ends.now, b"under new keys", &mut []).unwrap();
    ends.exchange();
    ends.client_says(APPLICATION_EPOCH + 2, ContentType::EPOCH_END, |w| w.bytes(&end));
    assert_eq!(ends.server_closed, Some(CloseReason::Fault(unexpected)));
}

fn with_ids(settings: &mut Settings) {
    settings.connection_ids = ConnectionIds::Bytes(4);
}

/// A message about connection IDs in one fragment.
fn about_ids(kind: HandshakeType, sequence: u16, body: &[u8]) -> Fragment<'_> {
    Fragment { kind, length: body.len() as u32, sequence, offset: 0, body }
}

#[test]
fn messages_about_ids_have_no_place_without_ids() {
    for (kind, body) in [
        (HandshakeType::NEW_CONNECTION_ID, &[0, 2, 1, 7, 1][..]),
        (HandshakeType::REQUEST_CONNECTION_ID, &[1]),
    ] {
        for ids in [ConnectionIds::Off, ConnectionIds::SendOnly] {
            let mut ends = Ends::connected_with(|settings| settings.connection_ids = ids);
            let message = about_ids(kind, ends.next_sequence(), body);
            ends.client_says(APPLICATION_EPOCH, ContentType::HANDSHAKE, |w| message.write(w));
            let fault = Fault::from(Misbehaviour::UnexpectedMessage);
            assert_eq!(ends.server_closed, Some(CloseReason::Fault(fault)), "{kind}, {ids:?}");
        }
    }
}

#[test]
fn an_id_to_be_used_at_once_must_be_of_use() {
    // No ID, an empty ID, and an ID longer than the first one.
    for body in [&[0, 0, 0][..], &[0, 1, 0, 0], &[0, 6, 5, 1, 2, 3, 4, 5, 0]] {
        let mut ends = Ends::connected_with(with_ids);
        let message = about_ids(HandshakeType::NEW_CONNECTION_ID, ends.next_sequence(), body);
        ends.client_says(APPLICATION_EPOCH, ContentType::HANDSHAKE, |w| message.write(w));
        let fault = Fault::from(Misbehaviour::illegal("connection ID"));
        assert_eq!(ends.server_closed, Some(CloseReason::Fault(fault)), "{body:?}");
    }
}

#[test]
fn spare_ids_are_kept_as_far_as_they_are_of_use() {
    let mut ends = Ends::connected_with(with_ids);
    let mut body = alloc::vec![0, 0];
    for n in 0..=255u8 {
        body.extend([4, 9, 9, 9, n]);
    }
    body.push(1);
    let len = (body.len() - 3) as u16;
    body[..2].copy_from_slice(&len.to_be_bytes());
    let sequence = ends.next_sequence();
    for (n, part) in body.chunks(600).enumerate() {
        let whole = about_ids(HandshakeType::NEW_CONNECTION_ID, sequence, &body);
        let fragment = Fragment { offset: 600 * n as u32, body: part, ..whole };
        ends.client_says(APPLICATION_EPOCH, ContentType::HANDSHAKE, |w| fragment.write(w));
    }
    assert_eq!(ends.server_closed, None);
}

#[test]
fn asking_for_ids_in_vain_again_and_again_ends_it() {
    let mut ends = Ends::connected_with(with_ids);
    let fault = Fault::from(Misbehaviour::TooManyIdsRequested);
    let mut requests = 0;
    while ends.server_closed.is_none() {
        let sequence = ends.next_sequence();
        // The client's own flight continues the message numbers.
        ends.client.channel.flight.push(
            APPLICATION_EPOCH,
            HandshakeType::REQUEST_CONNECTION_ID,
            alloc::vec![255],
        );
        assert_eq!(ends.next_sequence(), sequence + 1);
        ends.exchange();
        requests += 1;
        assert!(requests < 100);
    }
    // The first request is granted.
    assert_eq!(requests, MAX_VAIN_ID_REQUESTS + 2);
    assert_eq!(ends.server_closed, Some(CloseReason::Fault(fault)));
    assert_eq!(ends.client_closed, Some(CloseReason::PeerAlert(fault.alert())));
    assert_eq!(fault.alert(), AlertDescription::TOO_MANY_CIDS_REQUESTED);
}

#[test]
fn path_messages_have_no_place_without_their_extension_and_wrong_answers_are_ignored() {
    let elsewhere = ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 9], 9);
    let answer = PathMessage { kind: PathMessageKind::Response, cookie: [7; 8] };
    let kind = ContentType::RETURN_ROUTABILITY_CHECK;
    let mut ends = Ends::connected();
    ends.client_says(APPLICATION_EPOCH, kind, |w| answer.write(w));
    let fault = Fault::from(Misbehaviour::UnexpectedMessage);
    assert_eq!(ends.server_closed, Some(CloseReason::Fault(fault)));

    let mut ends = Ends::connected_with(with_ids);
    // No challenge was sent before the first response; the others have the wrong cookie.
    for _ in 0..3 {
        ends.client_says_from(elsewhere, APPLICATION_EPOCH, kind, |w| answer.write(w));
    }
    // Unknown messages are ignored, whatever they contain.
    ends.client_says(APPLICATION_EPOCH, kind, |w| w.bytes(&[99, 1, 2]));
    assert_eq!(ends.server_closed, None);
    let (_, server) = ends.server.connections().next().unwrap();
    assert_eq!(server.peer(), SocketAddr::from(CLIENT));
    assert!(server.stats().sent.path_challenges > 0);
}

fn older(settings: &mut Settings) {
    settings.versions = alloc::vec![ProtocolVersion::Dtls12];
}

#[test]
fn in_1_2_there_are_no_acks() {
    let mut ends = Ends::connected_with(older);
    let record = RecordNumber { epoch: EPOCH_12, number: 0 };
    ends.client_says(EPOCH_12, ContentType::ACK, |w| ack::write(&[record], w));
    let fault = Fault::from(Misbehaviour::UnexpectedMessage);
    assert_eq!(ends.server_closed, Some(CloseReason::Fault(fault)));
    assert_eq!(ends.client_closed, Some(CloseReason::PeerAlert(fault.alert())));
}

#[test]
fn exports_under_labels_of_the_protocol_itself_are_refused() {
    let ends = Ends::connected_with(older);
    let export = |label: &[u8]| ends.client.export_keying_material(label, &[], &mut [0; 12]);
    for label in [
        &b"client finished"[..],
        b"server finished",
        b"master secret",
        b"extended master secret",
        b"key expansion",
    ] {
        assert_eq!(export(label), Err(ExportError::ReservedLabel));
    }
    assert_eq!(export(b"EXPORTER-mine"), Ok(()));
}

/// RFC 9147, section 5.5.
#[test]
fn a_message_that_changes_between_transmissions_ends_it() {
    let mut ends = Ends::connected_with(with_ids);
    let kind = HandshakeType::NEW_CONNECTION_ID;
    let whole = about_ids(kind, ends.next_sequence(), &[0, 5, 4, 1, 2, 3, 4, 1]);
    let mut say = |offset: u32, body: &[u8]| {
        let fragment = Fragment { offset, body, ..whole };
        ends.client_says(APPLICATION_EPOCH, ContentType::HANDSHAKE, |w| fragment.write(w));
        ends.server_closed
    };
    assert_eq!(say(0, &[0, 5, 4, 1]), None);
    assert_eq!(say(2, &[4, 1, 2]), None, "the same again, and more");
    let fault = Fault::from(Misbehaviour::illegal("change of a message"));
    assert_eq!(say(3, &[9, 2]), Some(CloseReason::Fault(fault)));
    assert_eq!(fault.alert(), AlertDescription::ILLEGAL_PARAMETER);
}

/// RFC 8446, section 5.4, forbids such records; RFC 9147, section 4.5.2, has bad records discarded.
#[test]
fn empty_handshake_messages_and_alerts_are_discarded_and_counted() {
    for change in [(|_| {}) as fn(&mut Settings), older] {
        let mut ends = Ends::connected_with(change);
        let epoch = if ends.client.is_12() { EPOCH_12 } else { APPLICATION_EPOCH };
        for (count, kind) in [(1, ContentType::HANDSHAKE), (2, ContentType::ALERT)] {
            assert_eq!(ends.client_says(epoch, kind, |_| Ok(())), 0, "no ACK");
            let (_, server) = ends.server.connections().next().unwrap();
            assert_eq!(server.stats().received.malformed, count);
        }
        assert_eq!(ends.server_closed, None);
    }
}

/// RFC 9853, section 5.
#[test]
fn path_messages_that_do_not_parse_are_discarded_and_counted() {
    let mut ends = Ends::connected_with(with_ids);
    let bad: [&[u8]; 6] = [&[], &[0], &[1, 1, 2, 3], &[1; 8], &[1; 10], &[2; 10]];
    for content in bad {
        let kind = ContentType::RETURN_ROUTABILITY_CHECK;
        assert_eq!(ends.client_says(APPLICATION_EPOCH, kind, |w| w.bytes(content)), 0);
    }
    assert_eq!(ends.server_closed, None);
    let (_, server) = ends.server.connections().next().unwrap();
    assert_eq!(server.stats().received.malformed, bad.len() as u64);
}

/// Both ends in the state they have after `count` messages of the client.
fn after_messages(count: u32, change: impl Fn(&mut Settings)) -> Ends {
    let mut ends = Ends::connected_with(change);
    ends.client.channel.flight.skip_to(count);
    let handle = ends.server.connections().next().unwrap().0;
    ends.server.inner_mut(handle).incoming.skip_to(count);
    ends
}

#[test]
fn an_association_ends_before_message_numbers_wrap() {
    let mut ends = after_messages(LAST_MESSAGE, |_| {});
    // The last message number is used, then one more is needed for a used-up key.
    ends.client.want_key_update();
    ends.exchange();
    let _ = ends.client.send(ends.now, b"under the last keys", &mut []).unwrap();
    ends.exchange();
    assert_eq!((ends.client_closed, ends.server_closed), (None, None));
    let _ = ends.client.send(ends.now, b"the last words", &mut []).unwrap();
    ends.client.want_key_update();
    ends.exchange();
    let fault = Fault::Limit(Limit::MessageNumbers);
    assert_eq!(ends.client_closed, Some(CloseReason::Fault(fault)));
    assert_eq!(ends.server_closed, Some(CloseReason::Peer), "closed with close_notify");
}

#[test]
fn what_an_association_can_do_without_stops_before_its_message_numbers_do() {
    let both = |settings: &mut Settings| {
        with_schemes(settings);
        with_ids(settings);
    };
    for (count, sent) in [(LAST_VOLUNTARY_MESSAGE, true), (LAST_VOLUNTARY_MESSAGE + 1, false)] {
        let wishes: [fn(&mut Ends); 4] = [
            |ends| ends.client.update_keys(ends.now),
            |ends| ends.client.rotate_connection_id(ends.now),
            |ends| ends.client.request_connection_ids(ends.now, 1),
            |ends| {
                ends.client.request_aggregation(ends.now, Scheme::agg(4).unwrap()).unwrap();
            },
        ];
        for (n, wish) in wishes.into_iter().enumerate() {
            let mut ends = after_messages(count, both);
            wish(&mut ends);
            ends.exchange();
            let next = u32::from(ends.next_sequence());
            assert_eq!(next, count + u32::from(sent), "wish {n}");
            assert_eq!((ends.client_closed, ends.server_closed), (None, None));
        }
    }
}

/// The messages of a peer whose message numbers wrap cannot be understood.
#[test]
fn a_peer_whose_message_numbers_wrap_is_told() {
    let mut ends = after_messages(LAST_MESSAGE, |_| {});
    ends.client.want_key_update();
    ends.exchange();
    let _ = ends.client.send(ends.now, b"under the last keys", &mut []).unwrap();
    ends.exchange();
    let message = key_update(0);
    ends.client_says(APPLICATION_EPOCH + 1, ContentType::HANDSHAKE, |w| message.write(w));
    let fault = Fault::from(Misbehaviour::illegal("message number"));
    assert_eq!(ends.server_closed, Some(CloseReason::Fault(fault)));
}
