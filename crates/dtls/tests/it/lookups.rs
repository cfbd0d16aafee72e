//! Servers whose store or whose application decides later about a client.

use crate::{certificates, certificates12};
use lightseal_dtls::codepoints::{AlertDescription, CertificateType};
use lightseal_dtls::tuning::{MAX_INCOMING, MAX_WAITING_HELLOS};
use lightseal_dtls::{
    BadCertificate, CertificateVerifier, ClientAuthentication, CloseReason, Connection,
    CookiePolicy, Engine, Lookup, PeerKey, PeerLookup, PresentedCertificate, ProtocolVersion, Psk,
    PskStore, Random,
};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testkit::drain;
use testkit::pair::{Configs, Direction, Pair, client_address, server_address};
use testkit::toy_signature::ToyVerifier;

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
    let psk = configs.client.psk.clone().expect("clients have a PSK");
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
        assert!(pair.at_server.connected.is_none() && pair.at_server.closed.is_none());
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
        let unknown = AlertDescription::UNKNOWN_PSK_IDENTITY;
        assert_eq!(pair.at_client.closed, Some(CloseReason::PeerAlert(unknown)), "{version}");
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
    greet_from_many(&mut pair, MAX_WAITING_HELLOS as u16 + 6);
    assert_eq!(pair.server.waiting_for_lookups(), MAX_WAITING_HELLOS);
    assert_eq!(pair.server.open_connections(), 0);
}

#[test]
fn a_flood_from_one_network_displaces_no_client_of_another_one() {
    let (mut pair, answer, psk) = remote(ProtocolVersion::Dtls13);
    pair.run_for(Duration::from_millis(500));
    assert_eq!(pair.server.waiting_for_lookups(), 1);
    greet_from_many(&mut pair, MAX_WAITING_HELLOS as u16 + 6);
    assert_eq!(pair.server.waiting_for_lookups(), MAX_WAITING_HELLOS);
    *answer.lock().unwrap() = Lookup::Found(psk);
    pair.server.lookups_answered(pair.now);
    // The client has not sent its hello again, and the newest ones of the others were kept.
    let peers: Vec<_> = pair.server.connections().map(|(_, of)| of.peer()).collect();
    assert!(peers.contains(&client_address()));
    let stranger = |port: u16| SocketAddr::from(([192, 0, 2, 1], port));
    assert!(!peers.contains(&stranger(1)) && !peers.contains(&stranger(7)));
    assert!(peers.contains(&stranger(8)) && peers.contains(&stranger(70)));
}

#[test]
fn whose_client_the_store_is_asked_for_is_told_before() {
    for version in [ProtocolVersion::Dtls13, ProtocolVersion::Dtls12] {
        let (mut pair, ..) = remote(version);
        pair.run_for(Duration::from_millis(500));
        let asked = Mutex::new(Vec::new());
        let asks_for = |client| asked.lock().unwrap().push(client);
        pair.server.lookups_answered_for(pair.now, asks_for);
        assert_eq!(asked.into_inner().unwrap(), [client_address()], "{version}");
    }
}

/// Clients at `count` addresses send their hellos, with a cookie.
fn greet_from_many(pair: &mut Pair<'_>, count: u16) {
    let config = Configs::new().client.config();
    for port in 1..=count {
        let (here, now) = (SocketAddr::from(([192, 0, 2, 1], port)), pair.now);
        let rng = Random::insecure(port.into());
        let mut client = Connection::client(Arc::clone(&config), server_address(), now, rng);
        // The first hello is answered with a cookie.
        for _ in 0..2 {
            for mut datagram in drain(&mut client, |_| {}).payloads() {
                pair.server.handle_datagram(now, here, &mut datagram);
            }
            for mut datagram in drain(&mut pair.server, |_| {}).payloads() {
                client.handle_datagram(now, server_address(), &mut datagram);
            }
        }
    }
}

/// A pair whose server asks the application, and whose client has sent its hello with a cookie.
fn asking(version: ProtocolVersion, cookies: CookiePolicy) -> Pair<'static> {
    let mut configs = Configs::new();
    configs.client.settings.versions = vec![version];
    configs.server.cookies = cookies;
    let mut pair = configs.pair(1);
    pair.server.hold_incoming();
    pair.run_for(Duration::from_millis(500));
    assert_eq!((pair.server.open_connections(), pair.server.stats().accepted), (0, 0));
    pair
}

#[test]
fn an_application_accepts_a_client_before_there_is_state() {
    for version in [ProtocolVersion::Dtls13, ProtocolVersion::Dtls12] {
        for cookies in [CookiePolicy::Always, CookiePolicy::WhenRetrying] {
            let mut pair = asking(version, cookies);
            let incoming = pair.server.next_incoming().expect("a client");
            assert!(pair.server.next_incoming().is_none());
            assert_eq!((incoming.peer(), incoming.version()), (client_address(), version));
            assert_eq!(incoming.has_proved_address(), cookies == CookiePolicy::Always);
            let identities: Vec<_> = incoming.identities().collect();
            assert_eq!(identities.len(), usize::from(version == ProtocolVersion::Dtls13));
            let handle = pair.server.accept(pair.now, incoming).expect("an association");
            pair.run_for(Duration::from_secs(3));
            pair.assert_connected();
            assert_eq!(pair.handle, Some(handle));
            let agreed = pair.at_server.connected.as_ref().unwrap();
            assert!(identities_are(version, &agreed.psk_identity));
            assert!(pair.server.next_incoming().is_none(), "the application is asked once");
        }
    }
}

fn identities_are(version: ProtocolVersion, identity: &[u8]) -> bool {
    let mut pair = asking(version, CookiePolicy::Always);
    let incoming = pair.server.next_incoming().unwrap();
    incoming.identities().all(|offered| offered == identity)
}

#[test]
fn a_client_that_came_again_meanwhile_is_accepted_once() {
    let mut pair = asking(ProtocolVersion::Dtls13, CookiePolicy::Always);
    let first = pair.server.next_incoming().unwrap();
    pair.run_for(Duration::from_secs(3));
    let again = pair.server.next_incoming().expect("the client has sent its hello again");
    assert!(pair.server.accept(pair.now, first).is_some());
    assert!(pair.server.accept(pair.now, again).is_none());
    pair.run_for(Duration::from_secs(3));
    pair.assert_connected();
    assert_eq!((pair.server.stats().accepted, pair.server.open_connections()), (1, 1));
}

#[test]
fn a_client_that_is_accepted_too_late_proves_its_address_anew() {
    for version in [ProtocolVersion::Dtls13, ProtocolVersion::Dtls12] {
        let mut pair = asking(version, CookiePolicy::Always);
        let late = pair.server.next_incoming().unwrap();
        let accepted = pair.server.accept(pair.now + Duration::from_secs(300), late);
        assert_eq!(accepted, None, "{version}");
        assert_eq!(pair.server.open_connections(), 0);
    }
}

#[test]
fn a_refused_client_is_sent_an_alert_and_leaves_nothing() {
    for version in [ProtocolVersion::Dtls13, ProtocolVersion::Dtls12] {
        let mut pair = asking(version, CookiePolicy::Always);
        for _ in 0..200 {
            if let Some(incoming) = pair.server.next_incoming() {
                pair.server.refuse(pair.now, incoming, AlertDescription::ACCESS_DENIED);
            }
            pair.run_for(Duration::from_millis(200));
        }
        let refused = CloseReason::PeerAlert(AlertDescription::ACCESS_DENIED);
        assert_eq!(pair.at_client.closed, Some(refused), "{version}");
        let stats = pair.server.stats();
        assert!(stats.refused > 0 && stats.accepted == 0);
        assert_eq!((pair.server.open_connections(), pair.server.buffered_bytes()), (0, 0));
    }
}

#[test]
fn an_ignored_client_gets_no_answer_and_leaves_nothing() {
    for version in [ProtocolVersion::Dtls13, ProtocolVersion::Dtls12] {
        let mut pair = asking(version, CookiePolicy::Always);
        let answers = |pair: &Pair<'_>| {
            pair.log.iter().filter(|(direction, _)| *direction == Direction::ToClient).count()
        };
        let before = answers(&pair);
        let mut ignored = 0;
        for _ in 0..400 {
            if let Some(incoming) = pair.server.next_incoming() {
                pair.server.ignore(incoming);
                ignored += 1;
            }
            pair.run_for(Duration::from_millis(200));
        }
        assert!(ignored > 1);
        assert_eq!((answers(&pair), pair.server.stats().ignored), (before, ignored), "{version}");
        assert_eq!(pair.at_client.closed, Some(CloseReason::HandshakeTimeout));
        assert_eq!((pair.server.open_connections(), pair.server.buffered_bytes()), (0, 0));
    }
}

#[test]
fn a_client_without_a_cookie_is_asked_for_one() {
    for version in [ProtocolVersion::Dtls13, ProtocolVersion::Dtls12] {
        let mut pair = asking(version, CookiePolicy::WhenRetrying);
        let incoming = pair.server.next_incoming().unwrap();
        assert!(!incoming.has_proved_address());
        pair.server.retry(pair.now, incoming).expect("the client was not asked yet");
        pair.run_for(Duration::from_millis(500));
        let incoming = pair.server.next_incoming().expect("the client came again");
        assert_eq!((pair.server.open_connections(), pair.server.stats().retries), (0, 1));
        assert!(incoming.has_proved_address());
        assert!(pair.server.accept(pair.now, incoming).is_some());
        pair.run_for(Duration::from_secs(3));
        pair.assert_connected();
    }
}

#[test]
fn a_client_is_asked_again_as_often_as_its_version_allows() {
    for (version, most) in [(ProtocolVersion::Dtls13, 0), (ProtocolVersion::Dtls12, 2)] {
        let mut pair = asking(version, CookiePolicy::Always);
        let mut rounds = 0;
        let incoming = loop {
            let incoming = pair.server.next_incoming().expect("the client came (again)");
            match pair.server.retry(pair.now, incoming) {
                Ok(()) => rounds += 1,
                Err(incoming) => break incoming,
            }
            pair.run_for(Duration::from_millis(500));
        };
        assert_eq!(rounds, most, "{version}");
        assert!(pair.server.accept(pair.now, incoming).is_some());
        pair.run_for(Duration::from_secs(3));
        pair.assert_connected();
    }
}

#[test]
fn an_accepted_client_waits_for_its_lookup_without_a_second_question() {
    let (mut pair, answer, psk) = remote(ProtocolVersion::Dtls13);
    pair.server.hold_incoming();
    pair.run_for(Duration::from_millis(500));
    let incoming = pair.server.next_incoming().unwrap();
    assert_eq!(pair.server.accept(pair.now, incoming), None);
    assert_eq!(pair.server.waiting_for_lookups(), 1);
    *answer.lock().unwrap() = Lookup::Found(psk);
    pair.server.lookups_answered(pair.now);
    pair.run_for(Duration::from_millis(500));
    pair.assert_connected();
    assert!(pair.server.next_incoming().is_none());
}

#[test]
fn the_number_of_clients_to_be_decided_about_is_bounded() {
    let mut pair = asking(ProtocolVersion::Dtls13, CookiePolicy::Always);
    greet_from_many(&mut pair, MAX_INCOMING as u16 + 6);
    let waiting: Vec<_> = std::iter::from_fn(|| pair.server.next_incoming()).collect();
    assert_eq!(waiting.len(), MAX_INCOMING);
    assert_eq!(waiting.last().unwrap().peer().port(), MAX_INCOMING as u16 + 6);
    assert_eq!(pair.server.open_connections(), 0);
}

#[test]
fn both_ends_know_which_key_of_an_identity_was_used() {
    for version in [ProtocolVersion::Dtls13, ProtocolVersion::Dtls12] {
        let (mut pair, answer, psk) = remote(version);
        let check = psk.check();
        *answer.lock().unwrap() = Lookup::Found(psk);
        pair.run_for(Duration::from_secs(4));
        for end in [&pair.at_client, &pair.at_server] {
            assert_eq!(end.connected.as_ref().unwrap().key_check, Some(check), "{version}");
        }
        let other = Psk::external(b"sensor 7", &[0x55; 32]).unwrap();
        assert_ne!(other.check(), check);
    }
}

/// A verifier that accepts all keys that its peers prove, and knows later whether a client is let in.
struct RemotePeers {
    verifier: ToyVerifier,
    answer: Arc<Mutex<PeerLookup>>,
}

impl CertificateVerifier for RemotePeers {
    fn kinds(&self) -> &[CertificateType] {
        self.verifier.kinds()
    }

    fn verify(
        &self,
        presented: &PresentedCertificate<'_>,
    ) -> Result<(Vec<u8>, Option<String>), BadCertificate> {
        self.verifier.verify(presented)
    }

    fn still_accepts(&self, peer: &PeerKey) -> bool {
        self.verifier.still_accepts(peer)
    }

    fn look_up(&self, client: &PeerKey) -> PeerLookup {
        assert_ne!(client.spki_sha256, [0; 32]);
        *self.answer.lock().unwrap()
    }
}

const PEERS: [(ProtocolVersion, CertificateType); 4] = [
    (ProtocolVersion::Dtls13, CertificateType::RAW_PUBLIC_KEY),
    (ProtocolVersion::Dtls13, CertificateType::X509),
    (ProtocolVersion::Dtls12, CertificateType::RAW_PUBLIC_KEY),
    (ProtocolVersion::Dtls12, CertificateType::X509),
];

fn remote_peers(
    version: ProtocolVersion,
    kind: CertificateType,
) -> (Configs, Arc<Mutex<PeerLookup>>) {
    let mut configs = match version {
        ProtocolVersion::Dtls13 => certificates::mutual(CertificateType::X509, kind),
        _ => certificates12::mutual(CertificateType::X509, kind),
    };
    let answer = Arc::new(Mutex::new(PeerLookup::Later));
    let verifier = RemotePeers { verifier: ToyVerifier::new(&[kind]), answer: Arc::clone(&answer) };
    configs.server.clients = ClientAuthentication::Required(Arc::new(verifier));
    (configs, answer)
}

#[test]
fn a_client_that_has_proved_its_key_waits_for_the_answer() {
    for (version, kind) in PEERS {
        let (configs, answer) = remote_peers(version, kind);
        let mut pair = configs.pair(1);
        pair.run_for(Duration::from_secs(3));
        // The answer is still not known, and the client is told nothing.
        pair.server.lookups_answered(pair.now);
        pair.run_for(Duration::from_millis(100));
        let sent_again = pair.client.stats().sent.retransmissions;
        assert!(sent_again > 0, "{version}: nothing acknowledges its Finished");
        assert!(pair.at_server.connected.is_none() && pair.at_server.closed.is_none());
        assert!(pair.at_client.closed.is_none());
        *answer.lock().unwrap() = PeerLookup::Accepted;
        pair.server.lookups_answered(pair.now);
        pair.run_for(Duration::from_millis(500));
        pair.assert_connected();
        let settled = pair.client.stats().sent.retransmissions;
        pair.client_send(b"up");
        pair.server_send(b"down");
        pair.run_for(Duration::from_secs(20));
        assert_eq!(
            (&pair.at_server.data[..], &pair.at_client.data[..]),
            (&[b"up".to_vec()][..], &[b"down".to_vec()][..])
        );
        assert_eq!(pair.client.stats().sent.retransmissions, settled, "{version}");
    }
}

#[test]
fn a_client_that_is_not_let_in_hears_why() {
    for (version, kind) in PEERS {
        let (configs, answer) = remote_peers(version, kind);
        let mut pair = configs.pair(1);
        pair.run_for(Duration::from_millis(900));
        let why = BadCertificate::other("not ours");
        *answer.lock().unwrap() = PeerLookup::Refused(why);
        pair.server.lookups_answered(pair.now);
        pair.run_for(Duration::from_secs(61));
        assert_eq!(pair.at_client.closed, Some(CloseReason::PeerAlert(why.alert())), "{version}");
        assert!(pair.at_server.connected.is_none() && pair.at_server.closed.is_some());
    }
}

#[test]
fn a_session_is_resumed_only_while_its_client_is_known_to_be_let_in() {
    for (version, kind) in PEERS {
        for (known, resumed) in [(PeerLookup::Accepted, true), (PeerLookup::Later, false)] {
            let (configs, answer) = remote_peers(version, kind);
            let mut client = remote_peers(version, kind).0.client;
            client.keys.clone_from(&configs.client.keys);
            client.verifier.clone_from(&configs.client.verifier);
            *answer.lock().unwrap() = PeerLookup::Accepted;
            let mut pair = configs.pair(1);
            pair.run_for(Duration::from_secs(3));
            pair.assert_connected();
            client.session = Some(pair.client.session().expect("a session"));
            *answer.lock().unwrap() = known;
            let mut next = pair.reconnect(client, 2);
            next.run_for(Duration::from_secs(1));
            *answer.lock().unwrap() = PeerLookup::Accepted;
            next.server.lookups_answered(next.now);
            next.run_for(Duration::from_secs(3));
            next.assert_connected();
            assert_eq!(next.at_server.connected.as_ref().unwrap().resumed, resumed, "{version}");
        }
    }
}
