//! A peer whose address changes (RFC 9146, section 6; RFC 9147, section 9; RFC 9853), and attackers
//! who try to change it.

use lightseal_dtls::ProtocolVersion::{self, Dtls12, Dtls13};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use testkit::pair::{self, Configs, Direction, Pair, client_address, pass};

const VERSIONS: [ProtocolVersion; 2] = [Dtls12, Dtls13];

fn configs(version: ProtocolVersion) -> Configs {
    let mut configs = Configs::new();
    for settings in [&mut configs.client.settings, &mut configs.server.settings] {
        settings.versions = vec![version];
        settings.connection_ids = lightseal_dtls::ConnectionIds::Bytes(6);
    }
    configs
}

fn connected(version: ProtocolVersion, seed: u64) -> Pair<'static> {
    let mut pair = configs(version).pair(seed);
    pair.connect().assert_connected();
    pair
}

fn elsewhere() -> SocketAddr {
    "[2001:db8::bad]:7".parse().unwrap()
}

/// The client's address after its NAT was restarted.
fn rebound() -> SocketAddr {
    "[2001:db8::1]:50000".parse().unwrap()
}

fn peer(pair: &Pair<'_>) -> SocketAddr {
    pair.server.connection(pair.handle.unwrap()).unwrap().peer()
}

/// The last datagram to the server.
fn last_to_server(pair: &Pair<'_>) -> Vec<u8> {
    let mut sent = pair.log.iter().rev();
    sent.find(|(direction, _)| *direction == Direction::ToServer).unwrap().1.clone()
}

fn assert_works(pair: &mut Pair<'_>) {
    pair.client_send(b"ping");
    pair.server_send(b"pong");
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.at_server.data.pop().as_deref(), Some(&b"ping"[..]));
    assert_eq!(pair.at_client.data.pop().as_deref(), Some(&b"pong"[..]));
}

#[test]
fn a_rebound_client_is_followed_after_a_check() {
    for version in VERSIONS {
        let mut pair = connected(version, 1);
        pair.client_address = rebound();
        pair.server_send(b"lost");
        pair.run_for(Duration::from_secs(1));
        assert_eq!((pair.strays.len(), pair.at_client.data.len()), (1, 0));

        pair.client_send(b"here");
        pair.run_for(Duration::from_secs(1));
        assert_eq!(pair.at_server.data.last().unwrap(), b"here");
        assert_eq!(pair.at_server.moves, [(client_address(), rebound())]);
        assert_eq!(peer(&pair), rebound());
        assert_works(&mut pair);
        assert_eq!(pair.strays.len(), 1);
        let stats = pair.server.connection(pair.handle.unwrap()).unwrap().stats();
        assert_eq!((stats.received.moves, stats.sent.path_challenges), (1, 1));

        // The client returns, and its address changes again.
        for address in [client_address(), elsewhere(), rebound()] {
            pair.client_address = address;
            pair.client_send(b"again");
            pair.run_for(Duration::from_secs(1));
            assert_eq!(peer(&pair), address);
            assert_works(&mut pair);
        }
    }
}

/// Aggregated records also change the address, although they are verified late.
#[test]
fn aggregated_records_move_the_client_too() {
    let mut configs = Configs::aggregated("agg:4");
    configs.client.settings.connection_ids = lightseal_dtls::ConnectionIds::SendOnly;
    configs.server.settings.connection_ids = lightseal_dtls::ConnectionIds::Bytes(6);
    let mut pair = configs.pair(2);
    pair.connect().assert_connected();
    pair.client_address = rebound();
    for n in 0..12u8 {
        pair.client_send(&[n]);
    }
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.at_server.data.len(), 12);
    assert_eq!(peer(&pair), rebound());
    assert_works(&mut pair);
}

/// Data is sent to the client's old address until it has answered from the new one.
#[test]
fn data_goes_to_the_old_address_until_the_answer_came() {
    for version in VERSIONS {
        let mut pair = connected(version, 3);
        pair.client_address = rebound();
        pair.client_send(b"here");
        pair.run_for(Duration::from_millis(11));
        assert_eq!(pair.at_server.data.len(), 1);
        assert_eq!(peer(&pair), client_address());
        pair.server_send(b"too early");
        pair.run_for(Duration::from_millis(11));
        assert_eq!(pair.strays.len(), 1);
        pair.run_for(Duration::from_millis(11));
        assert_eq!(peer(&pair), rebound());
    }
}

/// At most three challenges are sent, at intervals, and then none until the next record.
#[test]
fn a_check_without_answers_ends() {
    for version in VERSIONS {
        for lost in 0..4 {
            let mut pair = connected(version, 4);
            pair.client_address = rebound();
            // The record is long enough to allow three challenges within the limit.
            pair.client_send(b"here I am at last");
            let seen = Rc::new(RefCell::new(0));
            let counter = Rc::clone(&seen);
            pair.rule = Box::new(move |direction, _, datagram| {
                let lose = direction == Direction::ToClient && *counter.borrow() < lost;
                *counter.borrow_mut() += u32::from(direction == Direction::ToClient);
                if lose { vec![] } else { pass(datagram) }
            });
            pair.run_for(Duration::from_secs(30));
            let (moved, challenges) = if lost < 3 { (1, lost + 1) } else { (0, 3) };
            assert_eq!(pair.at_server.moves.len(), moved, "{version}, {lost} lost");
            assert_eq!(*seen.borrow(), challenges);
        }
    }
}

/// A client follows changes of the server's address in the same way.
#[test]
fn a_server_that_moves_is_followed_by_its_client() {
    for version in VERSIONS {
        let mut pair = connected(version, 5);
        let moved = elsewhere();
        pair.server_send(b"from elsewhere");
        let mut buf = [0; 2000];
        let handle = pair.handle.unwrap();
        let payload = b"right here";
        // The datagram is passed by hand, because the pair has only one server address.
        pair.run_for(Duration::ZERO);
        use lightseal_core::{Engine, Output, Sent};
        let sent =
            pair.server.connection_mut(handle).unwrap().send(pair.now, payload, &mut buf).unwrap();
        let Sent::Datagram { len, .. } = sent else { panic!("the payload was queued") };
        pair.client.handle_datagram(pair.now, moved, &mut buf[..len]);
        let mut out = [0; 2000];
        let mut challenge = None;
        let mut data = Vec::new();
        loop {
            match pair.client.poll_output(&mut out) {
                Output::Datagram { to, payload } => challenge = Some((to, payload.to_vec())),
                Output::Event(lightseal_dtls::Event::Data(payload)) => data.push(payload.to_vec()),
                Output::Event(_) => {}
                Output::BufferTooSmall { needed } => panic!("{needed} bytes are needed"),
                Output::WakeAt(_) | Output::Idle => break,
            }
        }
        assert_eq!(data, [payload]);
        let (to, mut challenge) = challenge.expect("a challenge");
        assert_eq!(to, moved);
        assert_eq!(pair.client.peer(), pair::server_address());
        pair.server.handle_datagram(pair.now, client_address(), &mut challenge);
        let mut answer = None;
        while let Output::Datagram { to, payload } = pair.server.poll_output(&mut out) {
            assert_eq!(to, client_address());
            answer = Some(payload.to_vec());
        }
        pair.client.handle_datagram(pair.now, moved, &mut answer.expect("an answer"));
        assert_eq!(pair.client.peer(), moved);
    }
}

#[test]
fn a_replayed_record_moves_nothing() {
    for version in VERSIONS {
        let mut pair = connected(version, 6);
        pair.client_send(b"old");
        pair.run_for(Duration::from_secs(1));
        let old = last_to_server(&pair);
        assert_works(&mut pair);
        let sent = pair.log.len();
        for _ in 0..3 {
            pair.inject_from(elsewhere(), old.clone());
            pair.inject_from(elsewhere(), last_to_server(&pair));
        }
        pair.run_for(Duration::from_secs(5));
        assert_eq!(pair.log.len(), sent, "nothing is sent to the forged address");
        assert_eq!(peer(&pair), client_address());
        assert!(pair.at_server.moves.is_empty());
    }
}

/// An authentic record that comes late from the old address is not the newest.
#[test]
fn a_late_record_moves_nothing_back() {
    for version in VERSIONS {
        let mut pair = connected(version, 7);
        pair.client_send(b"slow");
        let first = pair.log.len();
        pair.rule = Box::new(move |_, index, datagram| {
            let delay = if index == first { 3000 } else { 10 };
            vec![(Duration::from_millis(delay), datagram.to_vec())]
        });
        pair.run_for(Duration::from_millis(1));
        pair.client_address = rebound();
        pair.client_send(b"fast");
        pair.run_for(Duration::from_secs(5));
        assert_eq!(pair.at_server.data, [b"fast", b"slow"]);
        assert_eq!(peer(&pair), rebound());
        assert_eq!(pair.at_server.moves.len(), 1);
    }
}

#[test]
fn a_forged_id_reaches_nobody() {
    for version in VERSIONS {
        let mut pair = connected(version, 8);
        pair.client_send(b"data");
        pair.run_for(Duration::from_secs(1));
        let genuine = last_to_server(&pair);
        let at = if version == Dtls12 { 11 } else { 1 };
        let before = pair.log.len();
        for bit in 0..48 {
            let mut forged = genuine.clone();
            forged[at + bit / 8] ^= 1 << (bit % 8);
            pair.inject_from(elsewhere(), forged);
        }
        // The datagrams begin with the correct ID and continue with junk.
        let mut forged = genuine.clone();
        forged[at + 6..].fill(0xa5);
        pair.inject_from(elsewhere(), forged);
        pair.run_for(Duration::from_secs(5));
        assert_eq!(pair.server.stats().ignored, 48);
        // The server sends hints, as many as one network may get in a second.
        assert_eq!((pair.log.len() - before, pair.server.stats().hints), (10, 10));
        assert_eq!(peer(&pair), client_address());
        assert_works(&mut pair);
    }
}

/// Without return routability checks the address changes only if a setting allows it.
#[test]
fn an_unchecked_address_is_followed_only_if_that_is_allowed() {
    for version in VERSIONS {
        for allowed in [false, true] {
            let mut configs = configs(version);
            configs.server.settings.unchecked_address_change = allowed;
            configs.client.settings.return_routability = false;
            let mut pair = configs.pair(9);
            pair.connect().assert_connected();
            assert!(!pair.at_client.connected.as_ref().unwrap().return_routability);
            pair.client_address = rebound();
            pair.client_send(b"here");
            pair.run_for(Duration::from_secs(5));
            assert_eq!(pair.at_server.data, [b"here"], "its records are accepted from any address");
            pair.server_send(b"answer");
            pair.run_for(Duration::from_secs(1));
            assert_eq!(pair.at_client.data.len(), usize::from(allowed));
            assert_eq!(pair.strays.len(), usize::from(!allowed));
            assert_eq!(pair.at_server.moves.len(), usize::from(allowed));
        }
    }
}

/// Without a connection ID, records from another address are not accepted.
#[test]
fn a_client_without_ids_is_not_heard_from_elsewhere() {
    for version in VERSIONS {
        let mut configs = configs(version);
        configs.server.settings.connection_ids = lightseal_dtls::ConnectionIds::SendOnly;
        configs.server.settings.unchecked_address_change = true;
        let mut pair = configs.pair(10);
        pair.connect().assert_connected();
        pair.client_address = rebound();
        pair.client_send(b"here");
        pair.run_for(Duration::from_secs(1));
        assert!(pair.at_server.data.is_empty());
        assert_eq!(peer(&pair), client_address());
    }
}

/// RFC 9853, section 8.1.2: an off-path attacker copies records, and its copies arrive first.
#[test]
fn a_faster_copy_does_not_move_the_client() {
    for version in VERSIONS {
        let mut pair = connected(version, 11);
        for n in 0..10u8 {
            pair.client_send(&[n]);
            pair.run_for(Duration::ZERO);
            // The copy arrives immediately, the original ten milliseconds later.
            pair.inject_from(elsewhere(), last_to_server(&pair));
            pair.run_for(Duration::from_millis(200));
            pair.server_send(&[n]);
            pair.run_for(Duration::from_millis(200));
        }
        pair.run_for(Duration::from_secs(10));
        assert_eq!(pair.at_server.data, (0..10u8).map(|n| [n]).collect::<Vec<_>>());
        assert_eq!(pair.at_client.data, pair.at_server.data, "every answer arrived");
        assert!(pair.at_server.moves.is_empty());
        // The attacker receives only challenges, within the limit.
        assert!(pair.strays.iter().all(|(to, _)| *to == elsewhere()));
        let stolen: usize = pair.strays.iter().map(|(_, datagram)| datagram.len()).sum();
        let given = 10 * last_to_server(&pair).len();
        assert!(!pair.strays.is_empty() && stolen <= 3 * given, "{stolen} of {given}");
    }
}

/// The off-path attacker also forwards the challenge to the client, whose answer takes its own
/// path.
#[test]
fn an_answer_from_another_address_moves_nothing() {
    for version in VERSIONS {
        let mut pair = connected(version, 12);
        pair.client_send(b"data");
        pair.run_for(Duration::ZERO);
        pair.inject_from(elsewhere(), last_to_server(&pair));
        pair.run_for(Duration::from_millis(20));
        let (to, challenge) = pair.strays.last().cloned().expect("a challenge");
        assert_eq!(to, elsewhere());
        let sent = pair.log.len();
        pair.inject(Direction::ToClient, challenge.clone());
        pair.inject(Direction::ToClient, challenge);
        pair.run_for(Duration::from_secs(10));
        let answers = pair.log[sent..].iter().filter(|(d, _)| *d == Direction::ToServer).count();
        assert_eq!(answers, 1, "each challenge is answered once");
        assert!(pair.at_server.moves.is_empty());
        assert_eq!(peer(&pair), client_address());
        assert_works(&mut pair);
    }
}

/// An attacker that forwards all datagrams in both directions, faster than the direct path, becomes
/// the path while it does so.
#[test]
fn the_client_is_followed_home_from_a_carrier() {
    for version in VERSIONS {
        let mut pair = connected(version, 13);
        let carried = |pair: &mut Pair<'_>| {
            pair.inject_from(elsewhere(), last_to_server(pair));
            pair.run_for(Duration::from_millis(20));
        };
        pair.client_send(b"data");
        pair.run_for(Duration::ZERO);
        carried(&mut pair);
        let (_, challenge) = pair.strays.last().cloned().expect("a challenge");
        pair.inject(Direction::ToClient, challenge);
        pair.run_for(Duration::ZERO);
        carried(&mut pair);
        assert_eq!(peer(&pair), elsewhere());
        // The first record that arrives directly ends it.
        pair.client_send(b"more");
        pair.run_for(Duration::from_secs(1));
        assert_eq!(peer(&pair), client_address());
        assert_works(&mut pair);
    }
}
