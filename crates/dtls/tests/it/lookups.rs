//! A server whose store answers later.

use crate::pair;

use lightseal_dtls::tuning::MAX_WAITING_HELLOS;
use lightseal_dtls::{
    CloseReason, Connection, Engine, Lookup, Output, ProtocolVersion, Psk, PskStore, Random,
};
use pair::{Configs, Pair, server_address};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A store that answers from elsewhere: what it says now is set from outside.
struct Remote(Arc<Mutex<Lookup>>);

impl PskStore for Remote {
    fn look_up(&self, _identity: &[u8]) -> Lookup {
        self.0.lock().unwrap().clone()
    }
}

fn remote(version: ProtocolVersion) -> (Pair<'static>, Arc<Mutex<Lookup>>, Psk) {
    let answer = Arc::new(Mutex::new(Lookup::Later));
    let mut configs = Configs::new();
    configs.client.settings.versions = vec![version];
    configs.server.psks = Arc::new(Remote(Arc::clone(&answer)));
    let lightseal_dtls::Credential::Psk(psk) = configs.client.credential.clone() else {
        unreachable!("clients have a PSK")
    };
    (configs.pair(1), answer, psk)
}

#[test]
fn a_client_waits_for_the_answer_and_then_connects() {
    for version in [ProtocolVersion::Dtls13, ProtocolVersion::Dtls12] {
        let (mut pair, answer, psk) = remote(version);
        pair.run_for(Duration::from_millis(500));
        let waiting = pair.server.waiting_for_lookups();
        assert_eq!(waiting, usize::from(version == ProtocolVersion::Dtls13), "{version}");
        // The answer is still not known.
        pair.server.lookups_answered(pair.now);
        pair.run_for(Duration::from_millis(100));
        assert!(pair.server_connected.is_none() && pair.server_closed.is_none());
        *answer.lock().unwrap() = Lookup::Found(psk);
        pair.server.lookups_answered(pair.now);
        pair.run_for(Duration::from_secs(4));
        pair.assert_connected();
        assert_eq!(pair.server.waiting_for_lookups(), 0);
    }
}

#[test]
fn a_client_without_a_key_is_refused_when_the_answer_comes() {
    for version in [ProtocolVersion::Dtls13, ProtocolVersion::Dtls12] {
        let (mut pair, answer, _) = remote(version);
        pair.run_for(Duration::from_millis(500));
        *answer.lock().unwrap() = Lookup::Unknown;
        pair.server.lookups_answered(pair.now);
        pair.run_for(Duration::from_secs(30));
        let unknown = lightseal_dtls::codepoints::AlertDescription::UNKNOWN_PSK_IDENTITY;
        assert_eq!(pair.client_closed, Some(CloseReason::PeerAlert(unknown)), "{version}");
        assert_eq!(pair.server.waiting_for_lookups(), 0);
    }
}

#[test]
fn a_hello_that_came_again_and_was_accepted_begins_nothing_new() {
    let (mut pair, answer, psk) = remote(ProtocolVersion::Dtls13);
    pair.run_for(Duration::from_millis(500));
    *answer.lock().unwrap() = Lookup::Found(psk);
    pair.run_for(Duration::from_secs(5));
    pair.assert_connected();
    pair.server.lookups_answered(pair.now);
    pair.run_for(Duration::from_secs(1));
    assert_eq!((pair.server.stats().accepted, pair.server.open_connections()), (1, 1));
    assert_eq!(pair.server.waiting_for_lookups(), 0);
}

#[test]
fn the_number_of_waiting_clients_is_bounded() {
    let (mut pair, ..) = remote(ProtocolVersion::Dtls13);
    pair.run_for(Duration::from_secs(10));
    assert_eq!(pair.server.waiting_for_lookups(), 1, "retransmissions take one place");
    let config = Configs::new().client.config();
    let mut buf = [0; 1500];
    for port in 1..=MAX_WAITING_HELLOS as u16 + 6 {
        let (here, now) = (SocketAddr::from(([192, 0, 2, 1], port)), pair.now);
        let rng = Random::insecure(port.into());
        let mut client = Connection::client(Arc::clone(&config), server_address(), now, rng);
        // The first hello is answered with a cookie.
        for _ in 0..2 {
            while let Output::Datagram { payload, .. } = client.poll_output(&mut buf) {
                pair.server.handle_datagram(now, here, &mut payload.to_vec());
            }
            while let Output::Datagram { payload, .. } = pair.server.poll_output(&mut buf) {
                client.handle_datagram(now, server_address(), &mut payload.to_vec());
            }
        }
    }
    assert_eq!(pair.server.waiting_for_lookups(), MAX_WAITING_HELLOS);
    assert_eq!(pair.server.open_connections(), 0);
}
