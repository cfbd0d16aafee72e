//! Connection IDs in both versions (RFC 9146; RFC 9147, section 9).

use lightseal_dtls::ProtocolVersion::{self, Dtls12, Dtls13};
use lightseal_dtls::Random;
use std::collections::BTreeSet;
use std::time::Duration;
use testkit::pair::{self, Configs, Direction, Pair};

const VERSIONS: [ProtocolVersion; 2] = [Dtls12, Dtls13];

/// Configurations of both ends for one version, with connection IDs of these lengths.
pub(crate) fn configs(version: ProtocolVersion, client: Option<u8>, server: Option<u8>) -> Configs {
    with_ids(Configs::new(), version, client, server)
}

fn with_ids(
    mut configs: Configs,
    version: ProtocolVersion,
    client: Option<u8>,
    server: Option<u8>,
) -> Configs {
    for (settings, len) in
        [(&mut configs.client.settings, client), (&mut configs.server.settings, server)]
    {
        settings.versions = vec![version];
        settings.connection_ids = pair::ids(len);
    }
    configs
}

fn exchange(pair: &mut Pair<'_>) {
    pair.client_send(b"ping");
    pair.server_send(b"pong");
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.at_server.data.pop().as_deref(), Some(&b"ping"[..]));
    assert_eq!(pair.at_client.data.pop().as_deref(), Some(&b"pong"[..]));
}

/// The connection ID in a datagram's first record, if that has one of `len` bytes.
fn cid_in(datagram: &[u8], len: usize) -> Option<&[u8]> {
    match datagram[0] {
        25 => Some(&datagram[11..11 + len]),
        first if first & 0b1111_0000 == 0b0011_0000 => Some(&datagram[1..1 + len]),
        _ => None,
    }
}

#[test]
fn each_end_gets_the_id_it_asked_for() {
    for version in VERSIONS {
        for client in [None, Some(0), Some(1), Some(32)] {
            for server in [None, Some(0), Some(8)] {
                let mut pair = configs(version, client, server).pair(1);
                pair.connect().assert_connected();
                let both = client.is_some() && server.is_some();
                let len = |len: Option<u8>| usize::from(len.filter(|_| both).unwrap_or(0));
                let at_client = pair.at_client.connected.clone().unwrap();
                let at_server = pair.at_server.connected.clone().unwrap();
                assert_eq!(at_client.receive_cid.len(), len(client));
                assert_eq!(at_server.receive_cid.len(), len(server));
                assert_eq!(at_client.send_cid, at_server.receive_cid);
                assert_eq!(at_client.receive_cid, at_server.send_cid);
                assert_eq!(at_client.return_routability, both);
                assert_eq!(at_server.return_routability, both);
                let before = pair.log.len();
                exchange(&mut pair);
                assert!(pair.log.len() > before + 1);
                for (direction, datagram) in &pair.log[before..] {
                    let cid = match direction {
                        Direction::ToServer => at_client.send_cid,
                        Direction::ToClient => at_server.send_cid,
                    };
                    let expected = Some(&*cid).filter(|cid| !cid.is_empty());
                    assert_eq!(cid_in(datagram, cid.len()), expected, "{version} {datagram:x?}");
                }
            }
        }
    }
}

#[test]
fn records_of_the_handshake_have_them_too() {
    for version in VERSIONS {
        let mut pair = configs(version, Some(4), Some(4)).pair(2);
        pair.connect().assert_connected();
        let sent = pair.at_client.connected.as_ref().unwrap().send_cid;
        // The client's last flight contains its Finished, in DTLS 1.2 after plaintext messages.
        let finished = pair
            .log
            .iter()
            .filter(|(direction, _)| *direction == Direction::ToServer)
            .any(|(_, datagram)| datagram.windows(4).any(|window| window == &*sent));
        assert!(finished);
    }
}

#[test]
fn aggregated_records_have_ids_too() {
    for scheme in ["agg:2", "agg:8"] {
        let configs = with_ids(Configs::aggregated(scheme), Dtls13, Some(3), Some(32));
        let mut pair = configs.pair(3);
        pair.connect().assert_connected();
        assert!(pair.at_server.connected.as_ref().unwrap().receive.aggregates());
        let before = pair.log.len();
        for n in 0..40u8 {
            pair.client_send(&[n; 20]);
            pair.server_send(&[n; 30]);
        }
        pair.run_for(Duration::from_secs(1));
        let numbered = |len| (0..40u8).map(|n| vec![n; len]).collect::<Vec<_>>();
        assert_eq!(pair.at_server.data, numbered(20));
        assert_eq!(pair.at_client.data, numbered(30));
        let with_id = |(direction, datagram): &(Direction, Vec<u8>)| {
            let len = if *direction == Direction::ToServer { 32 } else { 3 };
            cid_in(datagram, len).is_some()
        };
        assert!(pair.log[before..].iter().all(with_id));
    }
}

/// The largest payload still fits the datagram.
#[test]
fn room_for_an_id_is_reckoned_with() {
    for version in VERSIONS {
        let mut configs = configs(version, Some(0), Some(32));
        configs.client.settings.datagram_bytes = 200;
        let mut pair = configs.pair(4);
        pair.connect().assert_connected();
        let most = pair.client.max_payload();
        pair.client_send(&vec![1; most]);
        pair.run_for(Duration::from_secs(1));
        assert_eq!(pair.at_server.data.last().unwrap().len(), most);
        assert_eq!(pair.log.last().unwrap().1.len(), 200);
        assert!(pair.client.send(pair.now, &vec![1; most + 1], &mut []).is_err());
    }
}

/// A record whose ID was changed in transit belongs to no association.
#[test]
fn an_id_is_authentic() {
    for version in VERSIONS {
        let mut pair = configs(version, Some(4), Some(4)).pair(5);
        pair.connect().assert_connected();
        pair.client_send(b"one");
        let before = pair.log.len();
        pair.rule = Box::new(move |_, index, datagram| {
            let mut datagram = datagram.to_vec();
            if index == before {
                datagram[if version == Dtls12 { 11 } else { 1 }] ^= 1;
            }
            pair::pass(&datagram)
        });
        pair.run_for(Duration::from_secs(1));
        assert!(pair.at_server.data.is_empty());
        exchange(&mut pair);
    }
}

/// A server answers the connection ID extension only in its ServerHello.
#[test]
fn the_answer_is_in_the_server_hello() {
    for version in VERSIONS {
        let mut pair = configs(version, Some(4), Some(4)).pair(6);
        pair.connect().assert_connected();
        let own = pair.at_server.connected.as_ref().unwrap().receive_cid;
        let hello = pair.log.iter().find(|(direction, datagram)| {
            // A plaintext ServerHello with connection_id (54), 5 bytes, an ID of 4.
            *direction == Direction::ToClient && datagram[0] == 22 && datagram[13] == 2 && {
                let extension = [&[0, 54, 0, 5, 4][..], &own].concat();
                datagram.windows(9).any(|window| window == extension)
            }
        });
        assert!(hello.is_some(), "{version}");
    }
}

/// The distinct IDs in datagrams since `from`, in one direction.
fn ids_since(pair: &Pair<'_>, from: usize, to: Direction, len: usize) -> Vec<Vec<u8>> {
    let sent = pair.log[from..].iter().filter(|(direction, _)| *direction == to);
    let mut ids: Vec<_> =
        sent.map(|(_, datagram)| cid_in(datagram, len).unwrap().to_vec()).collect();
    ids.dedup();
    ids
}

#[test]
fn ids_are_rotated_as_often_as_one_likes() {
    let mut pair = configs(Dtls13, Some(5), Some(7)).pair(7);
    pair.connect().assert_connected();
    let start = pair.log.len();
    exchange(&mut pair);
    for round in 0..20 {
        pair.server.connection_mut(pair.handle.unwrap()).unwrap().rotate_connection_id(pair.now);
        if round % 2 == 0 {
            pair.client.rotate_connection_id(pair.now);
        }
        pair.run_for(Duration::from_secs(1));
        exchange(&mut pair);
    }
    let to_server = ids_since(&pair, start, Direction::ToServer, 7);
    assert_eq!(to_server.len(), 21);
    let to_client = ids_since(&pair, start, Direction::ToClient, 5);
    assert_eq!(to_client.len(), 11);
    for mut ids in [to_server, to_client] {
        let count = ids.len();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), count, "no ID is used again");
    }
}

/// New IDs identify their association from any address; old ones are no longer accepted after a
/// while.
#[test]
fn an_endpoint_knows_all_live_ids_and_forgets_the_others() {
    let mut pair = configs(Dtls13, Some(0), Some(7)).pair(8);
    pair.connect().assert_connected();
    pair.client_send(b"first");
    pair.run_for(Duration::from_secs(1));
    let first = pair.log.last().unwrap().1.clone();
    for port in 50_000..50_010 {
        pair.server.connection_mut(pair.handle.unwrap()).unwrap().rotate_connection_id(pair.now);
        pair.run_for(Duration::from_secs(1));
        pair.client_address.set_port(port);
        pair.client_send(b"here");
        pair.run_for(Duration::from_secs(1));
        exchange(&mut pair);
    }
    assert_eq!(pair.at_server.moves.len(), 10);
    assert_eq!(pair.server.stats().ignored, 0);
    pair.inject_from("[2001:db8::9]:9".parse().unwrap(), first);
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.server.stats().ignored, 1, "nobody's");
}

#[test]
fn a_spare_id_is_used_when_the_peer_moves() {
    let mut pair = configs(Dtls13, Some(5), Some(7)).pair(9);
    pair.connect().assert_connected();
    let handle = pair.handle.unwrap();
    pair.server.connection_mut(handle).unwrap().request_connection_ids(pair.now, 200);
    pair.run_for(Duration::from_secs(1));
    let start = pair.log.len();
    for port in 50_000..50_008 {
        exchange(&mut pair);
        pair.client_address.set_port(port);
        pair.client_send(b"here");
        pair.run_for(Duration::from_secs(1));
    }
    exchange(&mut pair);
    assert_eq!(pair.at_server.moves.len(), 8);
    // The first ID, and as many spare IDs as are given at once.
    let used = ids_since(&pair, start, Direction::ToClient, 5);
    assert_eq!(used.len(), 1 + lightseal_dtls::tuning::MAX_SPARE_IDS);
    // Further IDs can be requested.
    pair.server.connection_mut(handle).unwrap().request_connection_ids(pair.now, 1);
    pair.run_for(Duration::from_secs(1));
    pair.client_address.set_port(50_100);
    pair.client_send(b"here");
    pair.run_for(Duration::from_secs(1));
    let start = pair.log.len();
    exchange(&mut pair);
    assert!(!used.contains(&ids_since(&pair, start, Direction::ToClient, 5)[0]));
}

#[test]
fn new_ids_get_through_a_bad_network_and_beside_new_keys() {
    for seed in 0..8 {
        let mut pair = configs(Dtls13, Some(5), Some(2)).pair(seed);
        pair.connect().assert_connected();
        let mut rng = Random::insecure(seed);
        pair.rule = Box::new(move |_, _, datagram| match rng.below(10) {
            0..3 => vec![],
            n => vec![(Duration::from_millis(n * n), datagram.to_vec()); 1 + (n == 9) as usize],
        });
        let handle = pair.handle.unwrap();
        for _ in 0..5 {
            pair.server.connection_mut(handle).unwrap().rotate_connection_id(pair.now);
            pair.client.rotate_connection_id(pair.now);
            pair.server.connection_mut(handle).unwrap().update_keys(pair.now);
            pair.client.update_keys(pair.now);
            pair.server.connection_mut(handle).unwrap().request_connection_ids(pair.now, 3);
            pair.client.request_connection_ids(pair.now, 1);
            pair.run_for(Duration::from_millis(seed * 37));
        }
        pair.run_for(Duration::from_secs(300));
        pair.rule = Box::new(|_, _, datagram| pair::pass(datagram));
        pair.assert_connected();
        pair.at_server.data.clear();
        exchange(&mut pair);
    }
}

/// Without an ID to replace, or in DTLS 1.2, no message is sent.
#[test]
fn where_ids_cannot_change_asking_does_nothing() {
    for (version, client, server) in
        [(Dtls12, Some(4), Some(4)), (Dtls13, Some(0), Some(0)), (Dtls13, None, Some(4))]
    {
        let mut pair = configs(version, client, server).pair(10);
        pair.connect().assert_connected();
        let before = pair.log.len();
        let handle = pair.handle.unwrap();
        pair.server.connection_mut(handle).unwrap().rotate_connection_id(pair.now);
        pair.client.rotate_connection_id(pair.now);
        pair.server.connection_mut(handle).unwrap().request_connection_ids(pair.now, 3);
        pair.client.request_connection_ids(pair.now, 3);
        pair.run_for(Duration::from_secs(1));
        assert_eq!(pair.log.len(), before);
        exchange(&mut pair);
    }
}

/// There are 256 IDs of one byte, and no two associations have the same one.
#[test]
fn no_two_associations_have_the_same_id() {
    let mut pair = configs(Dtls13, Some(0), Some(1)).pair(11);
    let mut ids = BTreeSet::new();
    let mut complete = 0;
    for n in 0..300u16 {
        let mut next = configs(Dtls13, Some(0), Some(1)).pair(u64::from(n) + 100);
        std::mem::swap(&mut next.server, &mut pair.server);
        next.client_address.set_port(10_000 + n);
        next.connect();
        complete += usize::from(next.client.is_connected());
        let id = next.at_client.connected.as_ref().unwrap().send_cid;
        assert!(id.is_empty() || ids.insert(id), "{id:?} twice");
        std::mem::swap(&mut next.server, &mut pair.server);
    }
    assert_eq!((complete, pair.server.open_connections()), (300, 300), "the others go without");
    assert!(ids.len() > 200, "{}", ids.len());
}

/// RFC 9147, section 4: what follows a record of another association must not be read.
#[test]
fn a_record_of_another_association_hides_the_rest_of_its_datagram() {
    let mut pair = configs(Dtls13, Some(5), Some(7)).pair(20);
    pair.connect().assert_connected();
    pair.rule = Box::new(|_, _, _| Vec::new());
    pair.client_send(b"hidden");
    pair.run_for(Duration::from_millis(1));
    let genuine = pair.log.last().unwrap().1.clone();
    assert!(cid_in(&genuine, 7).is_some());
    // A header of epoch 3 with an ID, a two-byte number and a length.
    let foreign = [&[0x3f][..], &[9; 7], &[0, 1, 0, 16], &[0; 16]].concat();
    pair.inject(Direction::ToServer, [&foreign[..], &genuine].concat());
    pair.run_for(Duration::from_millis(1));
    assert!(pair.at_server.data.is_empty());
    pair.inject(Direction::ToServer, genuine);
    pair.run_for(Duration::from_millis(1));
    assert_eq!(pair.at_server.data, [b"hidden"]);
}
