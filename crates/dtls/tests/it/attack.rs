//! Attackers without a key. The datagrams that they record, delay and forge end no association,
//! prevent no handshake, and make no end send much to a third party.

use lightseal_core::{Engine, Instant, Random};
use lightseal_dtls::ProtocolVersion::{Dtls12, Dtls13};
use lightseal_dtls::codepoints::PskKeyExchangeMode;
use lightseal_dtls::{
    CloseReason, Connection, CookiePolicy, Endpoint, Psk, SessionSlots, WhenFull,
};
use std::cell::Cell;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use testkit::drain;
use testkit::pair::{
    self, ClientParts, Configs, Direction, Pair, ServerParts, pass, psk, server_address,
};

/// A plaintext ACK from an attacker who knows only the two addresses.
fn forged_ack(numbers: &[u64]) -> Vec<u8> {
    let mut content = ((16 * numbers.len()) as u16).to_be_bytes().to_vec();
    for number in numbers {
        content.extend([0; 8]);
        content.extend(number.to_be_bytes());
    }
    let mut datagram = vec![26, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 9];
    datagram.extend((content.len() as u16).to_be_bytes());
    datagram.extend(content);
    datagram
}

fn configs(ids: Option<u8>) -> Configs {
    let mut configs = Configs::new();
    for settings in [&mut configs.client.settings, &mut configs.server.settings] {
        settings.versions = vec![Dtls13];
        settings.connection_ids = pair::ids(ids);
    }
    configs
}

/// The index, among all datagrams to the server, of a client's ClientHello with cookie and binder.
fn hello(pair: &Pair<'_>) -> Vec<u8> {
    let mut to_server = pair.log.iter().filter(|(to, _)| *to == Direction::ToServer);
    let hello = to_server.nth(1).expect("a second hello").1.clone();
    assert_eq!(hello[0], 22, "a plaintext handshake message");
    hello
}

/// A client that receives a cookie, and whose hello with this cookie is delayed.
fn held_back<'a>(mut pair: Pair<'a>) -> (Pair<'a>, Vec<u8>) {
    pair.rule = Box::new(|_, index, datagram| if index == 2 { vec![] } else { pass(datagram) });
    pair.run_for(Duration::from_millis(25));
    let hello = hello(&pair);
    (pair, hello)
}

/// Data is delivered in both directions, in the same association as before.
#[track_caller]
fn assert_alive(pair: &mut Pair<'_>) {
    let before = (pair.at_server.data.len(), pair.at_client.data.len());
    let handle = pair.handle.expect("the server has the association");
    assert!(pair.server.connection(handle).is_some_and(|connection| connection.is_connected()));
    pair.client_send(b"ping");
    pair.server_send(b"pong");
    pair.run_for(Duration::from_secs(1));
    assert_eq!(
        (pair.at_server.data.len(), pair.at_client.data.len()),
        (before.0 + 1, before.1 + 1)
    );
    assert_eq!((pair.handle, pair.at_client.closed), (Some(handle), None));
}

/// An attacker without a key, at its own address: a DTLS 1.2 handshake that stops after the first
/// flight.
fn come_and_go(endpoint: &mut Endpoint, now: Instant, from: SocketAddr, seed: u64) {
    let mut config = ClientParts::new(Psk::external(b"nobody", &[1; 16]).unwrap());
    config.settings.versions = vec![Dtls12];
    let rng = Random::insecure(seed);
    let mut client = Connection::client(config.config(), server_address(), now, rng);
    for _ in 0..6 {
        for mut datagram in drain(&mut client, |_| {}).payloads() {
            endpoint.handle_datagram(now, from, &mut datagram);
            for (to, mut answer) in drain(endpoint, |_| {}).datagrams {
                if to == from {
                    client.handle_datagram(now, server_address(), &mut answer);
                }
            }
        }
    }
}

#[test]
fn a_recorded_hello_ends_no_live_association() {
    for ids in [None, Some(4)] {
        for strangers in [0, 300] {
            let mut first = configs(ids).pair(1);
            first.connect().assert_connected();
            let recorded = hello(&first);
            // The client restarts, at the same address and port.
            let mut second = first.reconnect(configs(ids).client, 2);
            second.connect().assert_connected();
            if ids.is_some() {
                // The server asks first whether the client still has its older association.
                second.run_for(Duration::from_secs(20));
            }
            assert_eq!(
                second.at_server.closed.take(),
                Some(CloseReason::Replaced),
                "a real restart"
            );
            assert_alive(&mut second);
            for n in 0..strangers {
                let from = SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 6, n], 4000));
                come_and_go(&mut second.server, second.now, from, 1000 + u64::from(n));
            }
            for _ in 0..20 {
                second.inject(Direction::ToServer, recorded.clone());
                assert_alive(&mut second);
            }
            // The handshake that the replayed hello began ends at its deadline; the association
            // continues.
            second.run_for(Duration::from_secs(90));
            assert_alive(&mut second);
            assert_eq!(second.server.open_connections(), 1);
        }
    }
}

/// Cookies with different secrets show which of two hellos is older.
#[test]
fn a_recorded_hello_ends_no_handshake_that_a_newer_one_began() {
    for versions in [vec![Dtls13], vec![Dtls13, Dtls12]] {
        for ids in [None, Some(4)] {
            let configs = || {
                let mut configs = configs(ids);
                configs.client.settings.versions = versions.clone();
                configs
            };
            let mut first = configs().pair(1);
            first.connect().assert_connected();
            let recorded = hello(&first);
            first.client.close(first.now);
            first.run_for(lightseal_dtls::tuning::COOKIE_ROTATION);
            let mut second = first.reconnect(configs().client, 2);
            second.run_for(Duration::from_millis(32));
            assert_eq!(second.server.open_connections(), 1, "its handshake goes on");
            second.inject(Direction::ToServer, recorded);
            second.run_for(Duration::from_millis(68));
            second.assert_connected();
            assert_alive(&mut second);
            assert_eq!(second.server.stats().ignored, 1);
        }
    }
}

/// The association of the recorded hello has ended, and its client is returning from the same
/// address, with a cookie under the same secret.
#[test]
fn a_recorded_hello_ends_no_handshake_of_a_client_that_comes_back() {
    for ids in [None, Some(4)] {
        let mut first = configs(ids).pair(1);
        first.connect().assert_connected();
        let recorded = hello(&first);
        first.client.close(first.now);
        first.run_for(Duration::from_millis(100));
        // Without a client the recorded hello begins no handshake.
        first.inject(Direction::ToServer, recorded.clone());
        first.run_for(Duration::from_millis(100));
        assert_eq!(first.server.open_connections(), 0);
        let mut second = first.reconnect(configs(ids).client, 2);
        second.run_for(Duration::from_millis(32));
        assert_eq!(second.server.open_connections(), 1, "its handshake goes on");
        second.inject(Direction::ToServer, recorded);
        second.run_for(Duration::from_millis(68));
        second.assert_connected();
        assert_alive(&mut second);
        assert_eq!(second.server.stats().ignored, 2);
    }
}

#[test]
fn a_hello_that_was_held_back_ends_no_live_association() {
    for ids in [None, Some(4)] {
        let (mut first, held) = held_back(configs(ids).pair(1));
        let mut second = first.reconnect(configs(ids).client, 2);
        second.connect().assert_connected();
        second.run_for(Duration::from_secs(20));
        second.inject(Direction::ToServer, held);
        assert_alive(&mut second);
        assert_eq!(second.server.open_connections(), 2);
        second.run_for(Duration::from_secs(70));
        assert_alive(&mut second);
        assert_eq!(second.server.open_connections(), 1);
        // The client itself may still begin a new association, also while such a handshake is in
        // progress.
        let (mut third, held) = held_back(second.reconnect(configs(ids).client, 3));
        let mut fourth = third.reconnect(configs(ids).client, 4);
        fourth.inject(Direction::ToServer, held);
        fourth.connect().assert_connected();
        assert_alive(&mut fourth);
        if ids.is_some() {
            // The server asks first whether the client still has its older association.
            fourth.run_for(Duration::from_secs(20));
        }
        assert_eq!(fourth.server.open_connections(), 1);
    }
}

/// Many hellos of one client were delayed and are replayed repeatedly: there is one handshake at a
/// time.
#[test]
fn a_flood_of_held_back_hellos_costs_one_handshake_and_no_session_slot() {
    for ids in [None, Some(4)] {
        for when_full in [WhenFull::Refuse, WhenFull::EvictOldest] {
            let with_slots = || {
                let mut configs = configs(ids);
                configs.server.slots =
                    SessionSlots::at_most(NonZeroUsize::new(2).unwrap(), when_full);
                configs
            };
            let (mut pair, first) = held_back(with_slots().pair(1));
            let mut hellos = vec![first];
            for seed in 2..6 {
                let (next, held) = held_back(pair.reconnect(with_slots().client, seed));
                (pair, hellos) = (next, [hellos, vec![held]].concat());
            }
            let mut live = pair.reconnect(with_slots().client, 7);
            live.connect().assert_connected();
            for n in 0..100 {
                live.inject(Direction::ToServer, hellos[n % hellos.len()].clone());
                live.run_for(Duration::from_millis(20));
                assert!(live.server.open_connections() <= 2, "the association and one handshake");
            }
            assert_alive(&mut live);
            // The second slot is free for another client, although the handshake is in progress.
            let mut other = live.reconnect(with_slots().client, 8);
            other.client_address = "[2001:db8::7]:9".parse().unwrap();
            other.connect().assert_connected();
            assert_eq!(other.server.open_connections(), 3);
            assert_eq!((other.server.stats().evicted, other.server.stats().full), (0, 0));
            std::mem::swap(&mut live.server, &mut other.server);
            live.now = other.now;
            live.run_for(Duration::from_secs(70));
            assert_alive(&mut live);
            assert_eq!(live.server.open_connections(), 2);
        }
    }
}

/// The association beside a handshake ends: the handshake takes its slot.
#[test]
fn a_handshake_beside_an_association_that_ends_holds_a_slot() {
    let mut with_slot = configs(None);
    with_slot.server.slots = SessionSlots::at_most(NonZeroUsize::new(1).unwrap(), WhenFull::Refuse);
    let (mut pair, held) = held_back(with_slot.pair(1));
    let mut live = pair.reconnect(configs(None).client, 2);
    live.connect().assert_connected();
    live.inject(Direction::ToServer, held);
    live.run_for(Duration::from_secs(1));
    live.client.close(live.now);
    live.run_for(Duration::from_secs(1));
    assert_eq!(live.server.open_connections(), 1, "the handshake");
    let mut other = live.reconnect(configs(None).client, 3);
    other.client_address = "[2001:db8::7]:9".parse().unwrap();
    other.run_for(Duration::from_secs(1));
    assert_eq!(other.server.open_connections(), 1);
    assert!(other.server.stats().full > 0);
    // The handshake ends at its deadline, and the client gets the slot.
    other.connect();
    let mut later = other.reconnect(configs(None).client, 4);
    later.run_for(Duration::from_secs(30));
    later.assert_connected();
}

#[test]
fn a_forged_ack_of_a_hello_stops_no_handshake() {
    for versions in [vec![Dtls13], vec![Dtls13, Dtls12]] {
        // The first or the second hello is lost; a forged ACK of both arrives.
        for (lost, at) in [(0, 1), (2, 25)] {
            let mut configs = Configs::new();
            configs.client.settings.versions = versions.clone();
            let rule = move |_, index, datagram: &[u8]| {
                if index == lost { vec![] } else { pass(datagram) }
            };
            let mut pair = configs.pair(1).with_rule(rule);
            pair.run_for(Duration::from_millis(at));
            for _ in 0..3 {
                pair.inject(Direction::ToClient, forged_ack(&[0, 1, 2]));
                pair.run_for(Duration::from_millis(5));
            }
            pair.connect().assert_connected();
            assert!(pair.log.len() < 15, "{} datagrams", pair.log.len());
        }
    }
}

#[test]
fn a_forged_ack_of_a_server_hello_stops_no_handshake() {
    // Datagrams 0 and 2 are hellos, 1 is the retry request, and 3 is the server's flight, which is
    // lost.
    let rule = |_, index, datagram: &[u8]| if index == 3 { vec![] } else { pass(datagram) };
    let mut pair = configs(None).pair(1).with_rule(rule);
    pair.run_for(Duration::from_millis(35));
    assert_eq!(pair.log.len(), 4);
    for _ in 0..3 {
        pair.inject(Direction::ToServer, forged_ack(&[0, 1, 2, 3]));
        pair.run_for(Duration::from_millis(5));
    }
    pair.connect().assert_connected();
    assert!(pair.log.len() < 15, "{} datagrams", pair.log.len());
}

/// Forged ACKs that name a part of a hello make the client send no more than its timer does, except
/// for one retransmission in each interval.
#[test]
fn forged_acks_make_a_client_say_little() {
    let mut configs = configs(None);
    configs.client.settings.datagram_bytes = 120;
    let mut pair = configs.pair(1);
    // Everything that the server sends after its retry request is lost.
    pair.run_for(Duration::from_millis(25));
    pair.rule = Box::new(|_, _, _| vec![]);
    let before = pair.log.len();
    for n in 0..2000 {
        pair.inject(Direction::ToClient, forged_ack(&[n % 40]));
        pair.run_for(Duration::from_millis(1));
    }
    let sent: usize = pair.log[before..].iter().map(|(_, datagram)| datagram.len()).sum();
    assert!(sent < 8_000, "{sent} bytes for 62,000 of forged ACKs in two seconds");
}

/// Without cookies, a hello with a forged source address causes at most three bytes for each of its
/// own.
#[test]
fn an_address_that_is_not_proved_gets_three_times_what_came_from_it() {
    for version in [Dtls13, Dtls12] {
        for half_rtt in [false, true] {
            let mut config = ClientParts::new(psk());
            config.settings.versions = vec![version];
            let now = Instant::from_micros(1_000_000);
            let rng = Random::insecure(1);
            let mut client = Connection::client(config.config(), server_address(), now, rng);
            let hello = drain(&mut client, |_| {}).payloads().next().unwrap();
            let mut config = ServerParts::new(Arc::new(psk()));
            config.cookies = CookiePolicy::WhenRetrying;
            config.send_half_rtt_data = half_rtt;
            let mut server = Endpoint::server(config.config(), Random::insecure(2));
            let victim: SocketAddr = "[2001:db8::bad]:9".parse().unwrap();
            server.handle_datagram(now, victim, &mut hello.clone());
            let (mut bytes, mut now) = (0, now);
            for _ in 0..1300 {
                bytes += drain(&mut server, |_| {}).payloads().map(|d| d.len()).sum::<usize>();
                now += Duration::from_millis(100);
                server.handle_timeout(now);
            }
            assert!(bytes > hello.len(), "its flight");
            assert!(bytes <= 3 * hello.len(), "{version}: {bytes} bytes for {}", hello.len());
            assert_eq!(server.open_connections(), 0);
        }
    }
}

/// The limit for unproved addresses keeps no honest client out, at 20 % loss each way.
#[test]
fn honest_clients_connect_without_cookies_on_bad_networks() {
    for version in [Dtls13, Dtls12] {
        for seed in 0..100 {
            let mut configs = Configs::new();
            configs.client.settings.versions = vec![version];
            configs.client.settings.psk_modes = vec![PskKeyExchangeMode::PSK_KE];
            configs.server.cookies = CookiePolicy::WhenRetrying;
            let mut rng = Random::insecure(seed);
            let mut pair = configs.pair(seed).with_rule(move |_, _, datagram| {
                if rng.below(5) == 0 { vec![] } else { pass(datagram) }
            });
            pair.connect();
            assert!(pair.client.is_connected() && pair.handle.is_some(), "{version}, seed {seed}");
        }
    }
}

/// The server has sent as much as it may, and only its ServerHello arrived: the client asks for the
/// rest.
#[test]
fn a_client_with_half_a_flight_gets_the_rest_from_a_server_that_may_send_no_more() {
    let open = Cell::new(false);
    let mut configs = configs(None);
    configs.client.settings.psk_modes = vec![PskKeyExchangeMode::PSK_KE];
    configs.server.cookies = CookiePolicy::WhenRetrying;
    configs.server.settings.datagram_bytes = 120;
    let mut pair = configs.pair(1).with_rule(|direction, index, datagram| {
        // Only the hello and the ServerHello are delivered; later everything is.
        let passes = index == 0 || direction == Direction::ToClient && datagram[0] == 22;
        if passes || open.get() { pass(datagram) } else { vec![] }
    });
    pair.run_for(Duration::from_secs(20));
    assert!(pair.at_client.connected.is_none() && pair.at_client.closed.is_none());
    let sent = |to| pair.log.iter().filter(move |(d, _)| *d == to).map(|(_, d)| d.len());
    assert!(
        sent(Direction::ToClient).sum::<usize>() > 2 * sent(Direction::ToServer).next().unwrap()
    );
    open.set(true);
    pair.run_for(Duration::from_secs(20));
    pair.assert_connected();
}

/// First fragments of hellos from forged addresses, between the two datagrams of a client's hello.
#[test]
fn fragments_from_made_up_addresses_keep_no_client_out() {
    // The fragments come from the client's own /64 network, from another one, and from one network
    // each.
    let networks: [fn(u16, u16) -> [u16; 8]; 3] = [
        |_, n| [0x2001, 0xdb8, 0, 0, 0, 0, 7, n],
        |_, n| [0x2001, 0xdb8, 5, 0, 0, 0, 7, n],
        |round, n| [0x2001, 0xdb8, round, n, 0, 0, 7, n],
    ];
    let mut fragment = vec![22, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 13];
    fragment.extend([1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 7]);
    for (kind, network) in networks.into_iter().enumerate() {
        // This number of fragments arrives every two milliseconds for ten seconds. Fragments from
        // the client's own network compete with it for places.
        for flood in if kind == 0 { [4, 8] } else { [16, 40] } {
            let mut configs = Configs::new();
            configs.client.settings.datagram_bytes = 150;
            configs.client.settings.initial_timeout = Duration::from_millis(500);
            // The second fragment of a hello arrives 4 ms after the first.
            let rule = move |direction, _: usize, datagram: &[u8]| {
                let late = direction == Direction::ToServer && datagram.len() < 140;
                vec![(Duration::from_millis(if late { 14 } else { 10 }), datagram.to_vec())]
            };
            let mut pair = configs.pair(1).with_rule(rule);
            pair.run_for(Duration::from_millis(5));
            assert!(pair.log.len() > 1, "the hello is fragmented");
            for round in 0..5000 {
                for n in 0..flood {
                    let from = SocketAddr::from((network(round, n), 1000 + round));
                    pair.inject_from(from, fragment.clone());
                }
                pair.run_for(Duration::from_millis(2));
                if pair.at_client.connected.is_some() {
                    break;
                }
            }
            assert!(pair.at_client.connected.is_some(), "kind {kind}, {flood} fragments");
        }
    }
}

/// RFC 9147, section 5.8.1: a last flight that is retransmitted within 240 s is acknowledged.
#[test]
fn a_last_flight_is_acknowledged_for_twice_the_maximum_segment_lifetime() {
    for (silent_for, acknowledged) in [(200, true), (260, false)] {
        let mut configs = configs(None);
        configs.client.settings.handshake_deadline = Duration::from_secs(400);
        let mut pair = configs.pair(1);
        // Everything that the server sends after its flight is lost at first.
        pair.rule = Box::new(|direction, index, datagram| {
            if direction == Direction::ToClient && index > 3 { vec![] } else { pass(datagram) }
        });
        pair.run_for(Duration::from_secs(silent_for));
        assert!(pair.at_client.connected.is_some() && pair.at_server.connected.is_some());
        pair.rule = Box::new(|_, _, datagram| pass(datagram));
        pair.run_for(Duration::from_secs(300));
        let expected = (!acknowledged).then_some(CloseReason::HandshakeTimeout);
        assert_eq!(pair.at_client.closed, expected, "{silent_for} s");
    }
}
