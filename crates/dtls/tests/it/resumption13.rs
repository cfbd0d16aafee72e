//! Tickets of DTLS 1.3, their resumption, and the clients that must not resume them.

mod certificates;

use lightseal_dtls::codepoints::PskKeyExchangeMode;
use lightseal_dtls::crypto::CipherSuiteId;
use lightseal_dtls::{
    ClientConfig, CloseReason, ConfigError, MemorySessions, Packing, ProtocolVersion, Psk, Session,
    SessionSlots, Settings, WhenFull,
};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use testkit::pair::{ClientParts, Configs, Direction, Pair, ServerParts, pass, psk};

fn newer(change: impl Fn(&mut Settings)) -> Configs {
    let mut configs = Configs::new();
    for settings in [&mut configs.client.settings, &mut configs.server.settings] {
        settings.psk_tickets = 2;
        change(settings);
    }
    configs.client.settings.versions = vec![ProtocolVersion::Dtls13];
    configs
}

fn client(session: &Session) -> ClientParts {
    let mut client = newer(|_| {}).client;
    client.session = Some(session.clone());
    client
}

/// A pair with two tickets.
fn with_sessions(configs: Configs) -> (Pair<'static>, [Session; 2]) {
    let mut pair = configs.pair(1);
    pair.connect().assert_connected();
    assert!(!resumed(&pair));
    let sessions = [(); 2].map(|()| pair.client.take_session().expect("a ticket"));
    assert!(pair.client.take_session().is_none());
    (pair, sessions)
}

fn with_session(configs: Configs) -> (Pair<'static>, Session) {
    let (pair, [session, _]) = with_sessions(configs);
    (pair, session)
}

/// Begins an association of another client with the same server.
fn begin(pair: &mut Pair<'static>, client: ClientParts) -> Pair<'static> {
    pair.reconnect(client, pair.now.as_micros())
}

/// Gives the server back.
fn end(pair: &mut Pair<'static>, next: &mut Pair<'static>) {
    std::mem::swap(&mut pair.server, &mut next.server);
    pair.now = next.now;
}

/// Connects another client to the same server.
fn again(pair: &mut Pair<'static>, client: ClientParts) -> Pair<'static> {
    let mut next = begin(pair, client);
    next.connect().assert_connected();
    end(pair, &mut next);
    next
}

fn resumed(pair: &Pair<'_>) -> bool {
    let [client, server] =
        [&pair.at_client, &pair.at_server].map(|end| end.connected.as_ref().unwrap());
    assert_eq!(client.resumed, server.resumed);
    assert_eq!(client.psk_identity, psk().identity(), "the identity is carried on");
    assert_eq!(server.psk_identity, psk().identity());
    client.resumed
}

#[test]
fn a_ticket_is_resumed_in_either_mode_and_replaced() {
    for mode in [PskKeyExchangeMode::PSK_KE, PskKeyExchangeMode::PSK_DHE_KE] {
        let (mut pair, session) = with_session(newer(|_| {}));
        assert_eq!(session.version(), ProtocolVersion::Dtls13);
        assert_eq!(session.identity(), psk().identity());
        let mut client = client(&session);
        client.settings.psk_modes = vec![mode];
        let mut next = begin(&mut pair, client);
        next.client_send(b"once more");
        next.connect().assert_connected();
        assert!(resumed(&next), "{mode}");
        assert_eq!(next.at_client.connected.as_ref().unwrap().psk_mode(), mode);
        assert_eq!(next.at_server.data, [b"once more"]);
        assert!(next.client.take_session().is_some());
        assert!(next.client.take_session().is_none(), "one in place of the used one");
    }
}

#[test]
fn resumption_goes_on_from_ticket_to_ticket() {
    let (mut pair, mut session) = with_session(newer(|_| {}));
    for _ in 0..5 {
        let mut next = again(&mut pair, client(&session));
        assert!(resumed(&next));
        session = next.client.take_session().unwrap();
    }
}

#[test]
fn a_ticket_serves_once() {
    let (mut pair, [one, other]) = with_sessions(newer(|_| {}));
    assert!(resumed(&again(&mut pair, client(&one))));
    assert!(!resumed(&again(&mut pair, client(&one))));
    assert!(resumed(&again(&mut pair, client(&other))));
    assert!(!resumed(&again(&mut pair, client(&other))));
}

#[test]
fn a_server_may_accept_its_tickets_more_than_once() {
    let (mut pair, session) = with_session(newer(|settings| settings.reusable_tickets = true));
    for _ in 0..3 {
        assert!(resumed(&again(&mut pair, client(&session))));
    }
}

#[test]
fn a_ticket_expires_at_both_ends() {
    let configs = || newer(|settings| settings.ticket_lifetime = Duration::from_secs(600));
    let (mut pair, [one, other]) = with_sessions(configs());
    pair.now += Duration::from_secs(590);
    assert!(resumed(&again(&mut pair, client(&one))));
    // The client received the ticket later than the server sent it, so that it still offers it.
    let expires = other.expires().unwrap();
    assert!(expires > pair.now);
    pair.now += (expires - pair.now) - Duration::from_millis(1);
    let mut next = begin(&mut pair, client(&other));
    next.run_for(Duration::from_millis(1));
    let offered = next.log[0].1.len();
    next.connect().assert_connected();
    assert!(!resumed(&next), "the server finds it expired");
    end(&mut pair, &mut next);
    let mut next = begin(&mut pair, client(&other));
    next.connect().assert_connected();
    assert!(next.log[0].1.len() + 100 < offered, "the client does not offer it");
}

#[test]
fn lifetimes_and_numbers_of_tickets_have_their_ranges() {
    let check = |change: &dyn Fn(&mut Settings)| {
        let mut configs = newer(|_| {});
        change(&mut configs.server.settings);
        configs.server.settings.check()
    };
    assert_eq!(check(&|s| s.ticket_lifetime = Duration::from_secs(7 * 24 * 3600)), Ok(()));
    let tickets = Err(ConfigError::Tickets);
    assert_eq!(check(&|s| s.ticket_lifetime = Duration::from_secs(7 * 24 * 3600 + 1)), tickets);
    assert_eq!(check(&|s| s.ticket_lifetime = Duration::from_millis(999)), tickets);
    assert_eq!(check(&|s| s.tickets = 16), Ok(()));
    assert_eq!(check(&|s| s.tickets = 17), tickets);
    assert_eq!(check(&|s| s.psk_tickets = 17), tickets);
}

#[test]
fn tickets_outlive_one_rotation_of_the_keys() {
    let days = |n: u64| Duration::from_secs(n * 24 * 3600);
    let configs = newer(|settings| settings.ticket_lifetime = days(7));
    let (mut pair, [one, other]) = with_sessions(configs);
    pair.now += days(6);
    let mut next = again(&mut pair, client(&one));
    assert!(resumed(&next));
    let later = next.client.take_session().unwrap();
    pair.now += days(2);
    assert!(!resumed(&again(&mut pair, client(&other))), "older than seven days");
    assert!(resumed(&again(&mut pair, client(&later))), "of the key before");
    assert!(!resumed(&again(&mut pair, client(&later))), "used");
}

#[test]
fn a_server_that_lost_its_keys_falls_back() {
    let (mut pair, session) = with_session(newer(|_| {}));
    let mut restarted = newer(|_| {}).pair(99);
    pair.server = std::mem::replace(&mut restarted.server, pair.server);
    assert!(!resumed(&again(&mut pair, client(&session))));
}

#[test]
fn a_session_ends_with_its_key() {
    let changed = Psk::external(psk().identity(), &[0x2b; 32]).unwrap();
    let other = Psk::external(b"other", &[0x3c; 32]).unwrap();
    let (mut pair, session) = with_session(newer(|_| {}));
    for psks in [vec![changed.clone()], vec![other.clone()], vec![]] {
        let mut config = ServerParts::new(Arc::new(psks));
        config.settings = newer(|_| {}).server.settings;
        pair.server.set_config(config.config()).unwrap();
        let mut client = client(&session);
        client.settings.handshake_deadline = Duration::from_secs(20);
        let mut next = begin(&mut pair, client);
        next.connect();
        assert_eq!(next.at_server.connected, None);
        next.run_for(Duration::from_secs(60));
        end(&mut pair, &mut next);
    }
    // With another key the client does not offer the session, and the ticket is not used up by all
    // these attempts.
    let mut config = ServerParts::new(Arc::new(vec![changed.clone(), other.clone()]));
    config.settings = newer(|_| {}).server.settings;
    pair.server.set_config(config.config()).unwrap();
    for key in [changed, other] {
        let mut client = client(&session);
        client.psk = Some(key);
        let mut next = begin(&mut pair, client);
        next.connect().assert_connected();
        assert!(!next.at_client.connected.as_ref().unwrap().resumed);
        end(&mut pair, &mut next);
    }
    let mut config = ServerParts::new(Arc::new(psk()));
    config.settings = newer(|_| {}).server.settings;
    pair.server.set_config(config.config()).unwrap();
    assert!(resumed(&again(&mut pair, client(&session))));
}

#[test]
fn ends_that_do_not_resume_do_not() {
    let (mut pair, session) = with_session(newer(|_| {}));
    let mut unwilling = client(&session);
    unwilling.settings.resumption = false;
    assert!(!resumed(&again(&mut pair, unwilling)));
    let mut older = client(&session);
    older.settings.versions = vec![ProtocolVersion::Dtls12];
    assert!(!resumed(&again(&mut pair, older)), "each version has sessions of its own");
    let mut config = ServerParts::new(Arc::new(psk()));
    config.settings = newer(|settings| settings.resumption = false).server.settings;
    pair.server.set_config(config.config()).unwrap();
    let mut next = again(&mut pair, client(&session));
    assert!(!resumed(&next) && next.client.take_session().is_none());
}

#[test]
fn by_default_a_psk_gets_no_tickets() {
    let mut pair = Configs::new().pair(3);
    pair.connect().assert_connected();
    assert!(pair.client.session().is_none());
}

/// The hash of the suite must stay the same, not the suite (RFC 8446, section 4.2.11).
#[test]
fn a_session_continues_under_another_suite() {
    let (mut pair, session) = with_session(newer(|_| {}));
    for suite in [CipherSuiteId::CHACHA20_POLY1305_SHA256, CipherSuiteId::AES_128_CCM_SHA256] {
        if session.suite() != suite {
            let mut client = client(&session);
            client.settings.suites = vec![suite];
            let next = again(&mut pair, client);
            assert!(resumed(&next));
            assert_eq!(next.at_client.connected.as_ref().unwrap().suite, suite);
            return;
        }
    }
}

#[test]
fn a_client_of_both_versions_resumes_the_newer_one() {
    let (mut pair, session) = with_session(newer(|_| {}));
    let mut both = client(&session);
    both.settings.versions = vec![ProtocolVersion::Dtls13, ProtocolVersion::Dtls12];
    assert!(resumed(&again(&mut pair, both)));
}

#[test]
fn a_client_keeps_a_few_tickets_of_many() {
    let mut pair = newer(|settings| settings.psk_tickets = 16).pair(4);
    pair.connect().assert_connected();
    pair.run_for(Duration::from_secs(5));
    let kept = std::iter::from_fn(|| pair.client.take_session()).count();
    assert_eq!(kept, 4, "MAX_KEPT_TICKETS");
    assert!(pair.client.stats().received.unauthentic == 0);
}

#[test]
fn all_complete_whatever_pair_of_datagrams_is_lost() {
    let drop_both = |one: usize, other: usize| {
        move |_: Direction, index: usize, datagram: &[u8]| {
            if index == one || index == other { Vec::new() } else { pass(datagram) }
        }
    };
    let mut last = 0;
    for one in 0.. {
        if one > last {
            break;
        }
        for other in one..=last.max(6) {
            let (mut pair, session) = with_session(newer(|_| {}));
            let mut next = begin(&mut pair, client(&session)).with_rule(drop_both(one, other));
            next.connect().assert_connected();
            assert!(resumed(&next), "without {one} and {other}");
            next.run_for(Duration::from_secs(40));
            next.rule = Box::new(|_, _, datagram| pass(datagram));
            next.client_send(b"on");
            next.run_for(Duration::from_secs(1));
            assert_eq!(next.at_server.data, [b"on"], "without {one} and {other}");
            assert!(next.client.session().is_some(), "without {one} and {other}");
            assert!(next.client.stats().sent.retransmissions < 12);
            if one == other {
                last = last.max(next.log.len().min(9));
            }
        }
    }
    assert!(last >= 6);
}

#[test]
fn tickets_that_were_lost_are_sent_again_beside_new_keys() {
    let mut pair = newer(|_| {}).pair(5);
    let mut lost = 0;
    // The first ten datagrams of epoch 3 to the client are lost.
    pair.rule = Box::new(move |direction, _, datagram| {
        let is_late = direction == Direction::ToClient && datagram[0] & 0xe3 == 0x23;
        lost += usize::from(is_late);
        if is_late && lost <= 10 { Vec::new() } else { pass(datagram) }
    });
    pair.connect().assert_connected();
    assert!(pair.client.session().is_none());
    pair.update_keys(Direction::ToClient);
    pair.update_keys(Direction::ToServer);
    pair.run_for(Duration::from_secs(60));
    assert!(pair.client.session().is_some());
    pair.server_send(b"down");
    pair.client_send(b"up");
    pair.run_for(Duration::from_secs(1));
    assert_eq!(
        (&pair.at_client.data[..], &pair.at_server.data[..]),
        (&[b"down".to_vec()][..], &[b"up".to_vec()][..])
    );
}

/// RFC 9147, section 7.1: one ACK may cover several messages.
#[test]
fn tickets_are_acknowledged_together_when_acks_may_wait() {
    let [at_once, together] = [0, 50].map(|ms| {
        let delay = Duration::from_millis(ms);
        let mut configs = newer(|settings| settings.ack_delay = delay);
        // Each ticket comes in a datagram of its own, ten milliseconds after the one before it.
        configs.server.settings.packing = Packing::RecordPerDatagram;
        let mut late = 0;
        let mut pair = configs.pair(6).with_rule(move |direction, _, datagram| {
            let is_ticket = direction == Direction::ToClient && datagram.len() > 100;
            late += u64::from(is_ticket && datagram[0] & 0xe3 == 0x23);
            vec![(Duration::from_millis(10 * (1 + late)), datagram.to_vec())]
        });
        pair.connect().assert_connected();
        pair.run_for(Duration::from_secs(20));
        assert!([(); 2].iter().all(|()| pair.client.take_session().is_some()), "{delay:?}");
        // The client sends nothing else under its application keys.
        let mut sent = pair
            .log
            .iter()
            .filter(|(way, datagram)| *way == Direction::ToServer && datagram[0] & 0xe3 == 0x23);
        sent.next().expect("an ACK").1.len()
    });
    assert!(together > at_once, "an ACK of both tickets is longer: {at_once} and {together} bytes");
}

#[test]
fn reordering_and_duplication_change_nothing() {
    for seed in 0..40 {
        let mut random = lightseal_core::Random::insecure(seed);
        let (mut pair, session) = with_session(newer(|_| {}));
        let mut next = begin(&mut pair, client(&session)).with_rule(move |_, _, datagram| {
            let copies = 1 + random.below(2);
            let fate = |_| (Duration::from_millis(random.below(300)), datagram.to_vec());
            (0..copies).map(fate).collect()
        });
        next.connect().assert_connected();
        next.run_for(Duration::from_secs(30));
        assert!(resumed(&next), "seed {seed}");
        assert!(next.client.session().is_some(), "seed {seed}");
        assert_eq!(next.server.stats().accepted, 2, "seed {seed}");
    }
}

/// The first hello of a client with a ticket, which has no cookie, uses nothing up, and neither does
/// a retransmission of the second one.
#[test]
fn a_hello_that_is_answered_by_a_retry_uses_no_ticket() {
    let (mut pair, session) = with_session(newer(|_| {}));
    // All answers to the first client are lost: it never gets beyond its first hello.
    let mut first = begin(&mut pair, client(&session)).with_rule(|direction, _, datagram| {
        if direction == Direction::ToClient { Vec::new() } else { pass(datagram) }
    });
    first.run_for(Duration::from_secs(5));
    assert!(first.log.len() > 4);
    end(&mut pair, &mut first);
    // The second hello arrives three times.
    let mut next = begin(&mut pair, client(&session)).with_rule(|direction, _, datagram| {
        let copies = if direction == Direction::ToServer { 3 } else { 1 };
        vec![(Duration::from_millis(10), datagram.to_vec()); copies]
    });
    next.connect().assert_connected();
    assert!(resumed(&next));
    assert_eq!(next.server.stats().accepted, 2);
}

#[test]
fn a_recorded_hello_resumes_nothing() {
    let (mut pair, session) = with_session(newer(|_| {}));
    let mut next = begin(&mut pair, client(&session));
    next.connect().assert_connected();
    let hellos: Vec<_> = next
        .log
        .iter()
        .filter(|(to, datagram)| *to == Direction::ToServer && datagram[0] == 22)
        .map(|(_, datagram)| datagram.clone())
        .collect();
    assert_eq!(hellos.len(), 2, "without and with a cookie");
    next.client.close(next.now);
    next.run_for(Duration::from_secs(1));
    let accepted = next.server.stats().accepted;
    for hello in &hellos {
        next.inject(Direction::ToServer, hello.clone());
    }
    next.run_for(Duration::from_secs(1));
    assert_eq!(next.server.stats().accepted, accepted);
}

#[test]
fn a_ticket_is_not_used_up_where_no_slot_is_free() {
    let (mut pair, session) = with_session(newer(|_| {}));
    let slots = |when_full| {
        let mut config = ServerParts::new(Arc::new(psk()));
        config.settings = newer(|_| {}).server.settings;
        config.slots = SessionSlots::at_most(NonZeroUsize::new(1).unwrap(), when_full);
        config.config()
    };
    // The client comes from another address, so that its own association keeps the slot.
    pair.server.set_config(slots(WhenFull::Refuse)).unwrap();
    let mut refused = client(&session);
    refused.settings.handshake_deadline = Duration::from_secs(5);
    let mut next = begin(&mut pair, refused);
    next.client_address = "[2001:db8::7]:40000".parse().unwrap();
    next.run_for(Duration::from_secs(10));
    assert!(next.at_server.connected.is_none());
    end(&mut pair, &mut next);
    pair.server.set_config(slots(WhenFull::EvictOldest)).unwrap();
    let mut next = begin(&mut pair, client(&session));
    next.client_address = "[2001:db8::7]:40001".parse().unwrap();
    next.connect().assert_connected();
    assert!(resumed(&next));
    assert_eq!(next.at_server.closed, Some(CloseReason::Evicted), "its older association");
    assert_eq!(next.server.open_connections(), 1);
}

#[test]
fn associations_with_shared_tags_have_tickets_too() {
    let mut configs = Configs::aggregated("agg:8");
    configs.server.settings.psk_tickets = 2;
    let (mut pair, session) = with_session(configs);
    let mut client = Configs::aggregated("agg:8").client;
    client.session = Some(session);
    let mut next = begin(&mut pair, client);
    for n in 0..8 {
        next.client_send(&[n; 10]);
    }
    next.connect().assert_connected();
    next.run_for(Duration::from_secs(1));
    assert!(resumed(&next) && next.client.session().is_some());
    assert_eq!(next.at_server.data.len(), 8);
}

#[test]
fn a_cache_hands_out_each_session_once() {
    let cache = Arc::new(MemorySessions::new(NonZeroUsize::new(2).unwrap()));
    let config = || {
        let config = ClientConfig::with(psk(), newer(|_| {}).client.settings).unwrap();
        Arc::new(config.with_session_cache(Arc::clone(&cache) as _))
    };
    let mut pair = Pair::new(config(), newer(|_| {}).server.config(), 6);
    pair.connect().assert_connected();
    assert_eq!(cache.len(), 2);
    assert!(pair.client.session().is_none(), "the cache has it");
    for _ in 0..5 {
        pair.replace_client(config(), pair.now.as_micros());
        assert_eq!(cache.len(), 1, "taken");
        pair.connect().assert_connected();
        assert!(resumed(&pair));
        assert_eq!(cache.len(), 2, "replaced");
    }
    // A client with another key does not get the session of this one.
    let other = ClientConfig::with(
        Psk::external(b"other", &[1; 16]).unwrap(),
        newer(|_| {}).client.settings,
    );
    let other = other.unwrap().with_session_cache(Arc::clone(&cache) as _);
    pair.replace_client(Arc::new(other), 7);
    assert_eq!(cache.len(), 2);
    // Sessions are dropped when they expire.
    pair.now += Duration::from_secs(25 * 3600);
    pair.replace_client(config(), 8);
    assert_eq!(cache.len(), 0);
    pair.connect().assert_connected();
    assert!(!resumed(&pair));
}

#[test]
fn a_cache_is_bounded() {
    let cache = Arc::new(MemorySessions::new(NonZeroUsize::new(2).unwrap()));
    for port in 0..5 {
        let config = ClientConfig::with(psk(), newer(|_| {}).client.settings).unwrap();
        let config = Arc::new(config.with_session_cache(Arc::clone(&cache) as _));
        let addresses = (
            testkit::pair::client_address(),
            format!("[2001:db8::2]:{}", 5684 + port).parse().unwrap(),
        );
        let server = newer(|settings| settings.psk_tickets = 16).server.config();
        let now = lightseal_dtls::Instant::from_micros(1_000_000);
        let mut pair = Pair::between(addresses, now, config, server, port);
        pair.connect().assert_connected();
        pair.run_for(Duration::from_secs(3));
        assert_eq!(cache.len(), 4 * (port as usize + 1).min(2));
    }
}
