//! Sessions of DTLS 1.2, and the clients that must not resume them.

use lightseal_dtls::crypto::CipherSuiteId;
use lightseal_dtls::{ClientConfig, MemorySessions, ProtocolVersion, Psk, Session, Settings};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use testkit::pair::{Configs, Pair, ServerParts, psk};

fn older(tickets: bool, change: impl Fn(&mut Settings)) -> Configs {
    let mut configs = Configs::new().suite(CipherSuiteId::PSK_WITH_AES_128_CCM);
    for settings in [&mut configs.client.settings, &mut configs.server.settings] {
        settings.versions = vec![ProtocolVersion::Dtls12];
        change(settings);
    }
    configs.client.settings.session_tickets = tickets;
    configs
}

/// A pair with a session to resume.
fn with_session(configs: Configs) -> (Pair<'static>, Session) {
    let mut pair = configs.pair(1);
    pair.connect().assert_connected();
    let session = pair.client.session().expect("a session to resume");
    (pair, session)
}

/// Connects a client with this PSK to the same server again.
fn again(pair: &mut Pair<'static>, psk: Psk, tickets: bool, session: &Session) -> Pair<'static> {
    let mut client = older(tickets, |_| {}).client;
    client.psk = Some(psk);
    client.session = Some(session.clone());
    let mut next = pair.reconnect(client, pair.now.as_micros());
    next.connect().assert_connected();
    std::mem::swap(&mut pair.server, &mut next.server);
    pair.now = next.now;
    next
}

fn resumed(pair: &Pair<'_>) -> bool {
    pair.at_client.connected.as_ref().unwrap().resumed
}

#[test]
fn a_session_ends_with_its_key() {
    for tickets in [true, false] {
        let changed = Psk::external(psk().identity(), &[0x2b; 32]).unwrap();
        let other = Psk::external(b"other", &[0x3c; 32]).unwrap();
        let (mut pair, session) = with_session(older(tickets, |_| {}));
        assert!(resumed(&again(&mut pair, psk(), tickets, &session)));
        // The server has another key for this identity, or none. A client that kept a session of
        // the old key cannot resume it.
        for psks in [vec![changed.clone()], vec![other.clone()]] {
            let mut config = ServerParts::new(Arc::new(psks));
            config.settings = older(tickets, |_| {}).server.settings;
            pair.server.set_config(config.config()).unwrap();
            let mut client = older(tickets, |_| {}).client;
            client.session = Some(session.clone());
            client.settings.handshake_deadline = Duration::from_secs(20);
            let mut next = pair.reconnect(client, pair.now.as_micros());
            next.connect();
            assert_eq!(next.at_server.connected, None, "tickets: {tickets}");
            next.run_for(Duration::from_secs(60));
            std::mem::swap(&mut pair.server, &mut next.server);
            pair.now = next.now;
        }
        // A client with the new key does not offer the session of the old one.
        let mut config = ServerParts::new(Arc::new(changed.clone()));
        config.settings = older(tickets, |_| {}).server.settings;
        pair.server.set_config(config.config()).unwrap();
        assert!(!resumed(&again(&mut pair, changed, tickets, &session)));
    }
}

/// The cache has the newest session of DTLS 1.2 whenever no association is about to resume it.
#[test]
fn a_cache_has_sessions_of_1_2_as_well() {
    for tickets in [true, false] {
        let cache = Arc::new(MemorySessions::new(NonZeroUsize::new(2).unwrap()));
        let config = |psk: Psk| {
            let config = ClientConfig::with(psk, older(tickets, |_| {}).client.settings).unwrap();
            Arc::new(config.with_session_cache(Arc::clone(&cache) as _))
        };
        let mut pair = Pair::new(config(psk()), older(tickets, |_| {}).server.config(), 6);
        assert!(cache.is_empty());
        pair.connect().assert_connected();
        assert_eq!(cache.len(), 1);
        for _ in 0..3 {
            pair.replace_client(config(psk()), pair.now.as_micros());
            assert!(cache.is_empty(), "taken");
            pair.connect().assert_connected();
            assert!(resumed(&pair), "tickets: {tickets}");
            assert_eq!(cache.len(), 1, "put back");
        }
        // Another key of the same identity: the session is not offered, and is gone.
        let changed = Psk::external(psk().identity(), &[0x2b; 32]).unwrap();
        let mut server = ServerParts::new(Arc::new(changed.clone()));
        server.settings = older(tickets, |_| {}).server.settings;
        pair.server.set_config(server.config()).unwrap();
        pair.replace_client(config(changed.clone()), 7);
        pair.connect().assert_connected();
        assert!(!resumed(&pair));
        assert_eq!(cache.len(), 1);
        // A day later it is not kept any more.
        pair.now += Duration::from_secs(24 * 3600);
        pair.replace_client(config(changed), 8);
        assert!(cache.is_empty());
        pair.connect().assert_connected();
        assert!(!resumed(&pair));
    }
}

#[test]
fn resuming_a_session_does_not_prolong_it() {
    for tickets in [true, false] {
        let (mut pair, session) = with_session(older(tickets, |_| {}));
        let hours = |n: u64| Duration::from_secs(3600 * n);
        pair.now += hours(20);
        assert!(resumed(&again(&mut pair, psk(), tickets, &session)), "tickets: {tickets}");
        pair.now += hours(5);
        assert!(!resumed(&again(&mut pair, psk(), tickets, &session)), "tickets: {tickets}");
    }
}

#[test]
fn sessions_that_are_resumed_take_no_other_one_s_place() {
    let mut configs = older(false, |_| {});
    configs.server.remembered_sessions = 2;
    let (mut pair, by_id) = with_session(configs);
    // For clients with tickets the server stores nothing, whatever session ID they choose.
    let mut client = older(true, |_| {}).client;
    client.session = None;
    let mut first = pair.reconnect(client, pair.now.as_micros());
    first.connect().assert_connected();
    let ticket = first.client.session().unwrap();
    std::mem::swap(&mut pair.server, &mut first.server);
    pair.now = first.now;
    for _ in 0..3 {
        assert!(resumed(&again(&mut pair, psk(), true, &ticket)));
    }
    assert!(resumed(&again(&mut pair, psk(), false, &by_id)));
}

/// A ticket that comes after it was declined is acknowledged, and the association goes on.
#[test]
fn a_client_that_declines_tickets_keeps_none() {
    for declines in [false, true] {
        let mut configs = Configs::new();
        configs.server.settings.psk_tickets = 2;
        let mut pair = configs.pair(3);
        assert!(pair.run_until(|pair| pair.client.negotiated().is_some()));
        if declines {
            pair.client.decline_tickets();
        }
        pair.run_for(Duration::from_secs(1));
        assert_eq!(pair.client.session().is_none(), declines);
        pair.client.decline_tickets();
        assert!(pair.client.session().is_none() && pair.client.take_session().is_none());
        pair.server_send(b"more");
        pair.run_for(Duration::from_secs(60));
        pair.assert_connected();
    }
    // DTLS 1.2 keeps its session.
    let (mut pair, _) = with_session(older(true, |_| {}));
    pair.client.decline_tickets();
    assert!(pair.client.session().is_some());
}
