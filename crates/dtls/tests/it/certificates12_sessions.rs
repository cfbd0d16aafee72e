//! Sessions of DTLS 1.2 that were made with certificates and raw public keys.

use crate::certificates12::{
    NAME, RAW, SUITES, X509, certified, configs, connected, exchange, messages, mutual,
    verifier_raw,
};
use lightseal_dtls::codepoints::{CertificateType, HandshakeType};
use lightseal_dtls::{
    CertificateVerifier, CertifiedKey, ClientAuthentication, KeyStore, OfferedCertificates,
    PeerKey, Session,
};
use std::sync::Arc;
use std::time::Duration;
use testkit::pair::{ClientParts, Configs, Direction, Pair, pass};
use testkit::toy_signature::{ToyKey, ToyVerifier};

/// A pair whose first handshake is complete, and its session.
pub(crate) fn with_session(configs: Configs) -> (Pair<'static>, Session) {
    let pair = connected(configs, 1);
    let session = pair.client.session().expect("a session to resume");
    (pair, session)
}

/// Connects another client to the same server. Returns whether the session was resumed.
pub(crate) fn resumes(pair: &mut Pair<'static>, client: ClientParts) -> bool {
    let mut next = pair.reconnect(client, pair.now.as_micros());
    next.connect();
    next.assert_connected();
    exchange(&mut next);
    let at_client = next.at_client.connected.clone().unwrap();
    let at_server = next.at_server.connected.clone().unwrap();
    assert_eq!(at_client.resumed, at_server.resumed);
    // The identity of the peer is known in either case.
    let pin = |key: Option<&PeerKey>| key.unwrap().spki_sha256;
    assert_eq!(pin(at_client.peer_key()), ToyKey::new(1).pin());
    assert_eq!(pin(at_server.peer_key()), ToyKey::new(2).pin());
    std::mem::swap(&mut pair.server, &mut next.server);
    pair.now = next.now;
    at_client.resumed
}

#[test]
fn a_session_is_resumed_with_the_same_credentials_and_name_only() {
    for tickets in [true, false] {
        for kind in [X509, RAW] {
            let parts = || {
                let mut configs = mutual(kind, kind);
                configs.client.settings.session_tickets = tickets;
                configs
            };
            let mut first = parts();
            let shared_keys = first.client.keys.clone();
            let shared_verifier = first.client.verifier.clone();
            let (mut pair, session) = with_session(std::mem::replace(&mut first, parts()));
            assert_eq!(session.peer_key().unwrap().spki_sha256, ToyKey::new(1).pin());
            let same = || {
                let mut client = parts().client;
                client.keys.clone_from(&shared_keys);
                client.verifier.clone_from(&shared_verifier);
                client.session = Some(session.clone());
                client
            };
            assert!(resumes(&mut pair, same()), "tickets: {tickets}");
            assert!(resumes(&mut pair, same()), "twice");
            // Other keys of the client, a verifier that does not accept the server any more, or
            // another name.
            let mut other = same();
            other.keys = parts().client.keys;
            assert!(!resumes(&mut pair, other));
            let mut other = same();
            let revoking = ToyVerifier::new(&[kind]);
            revoking.revoke(&[ToyKey::new(1).pin()]);
            other.verifier = Some(Arc::new(revoking));
            assert!(!resumes(&mut pair, other));
            if kind == RAW {
                let mut other = same();
                other.server_name = Some("other.example".into());
                assert!(!resumes(&mut pair, other));
            }
            // Another suite.
            let mut other = same();
            other.settings.suites = vec![SUITES[1]];
            assert!(!resumes(&mut pair, other));
            assert!(resumes(&mut pair, same()), "still");
        }
    }
}

/// The extensions of the ServerHello in a log of datagrams, and its session ID.
fn server_hello(pair: &Pair<'_>) -> (Vec<u16>, Vec<u8>) {
    let hello = pair.log.iter().rev().find_map(|(_, datagram)| {
        let at = messages(datagram)
            .into_iter()
            .find(|(kind, _)| *kind == HandshakeType::SERVER_HELLO)?;
        Some(datagram[at.1..].to_vec())
    });
    let hello = hello.expect("a ServerHello");
    let id_end = 35 + usize::from(hello[34]);
    let number = |at: usize| usize::from(u16::from_be_bytes([hello[at], hello[at + 1]]));
    // Suite and compression come before the extensions.
    let mut at = id_end + 3;
    let end = at + 2 + number(at);
    at += 2;
    let mut extensions = Vec::new();
    while at < end {
        extensions.push(number(at) as u16);
        at += 4 + number(at + 2);
    }
    (extensions, hello[35..id_end].to_vec())
}

/// A key of a server that has every name.
pub(crate) struct ServerOf(pub(crate) CertifiedKey);

impl KeyStore for ServerOf {
    fn choose(&self, offered: &OfferedCertificates<'_>) -> Option<CertifiedKey> {
        self.0.choose(offered)
    }

    fn kinds(&self) -> Vec<CertificateType> {
        self.0.kinds()
    }

    fn has_name(&self, _: &str) -> Option<bool> {
        Some(true)
    }
}

/// RFC 6066, section 3: the server confirms the name in a whole handshake only.
#[test]
fn the_server_s_name_is_not_confirmed_when_a_session_is_resumed() {
    const SERVER_NAME: u16 = 0;
    for tickets in [true, false] {
        let mut parts = configs(RAW);
        parts.client.settings.session_tickets = tickets;
        parts.server.keys = Some(Arc::new(ServerOf(certified(1, RAW))));
        let (keys, verifier) = (parts.client.keys.clone(), parts.client.verifier.clone());
        let (mut pair, session) = with_session(parts);
        assert!(server_hello(&pair).0.contains(&SERVER_NAME));
        let mut client = configs(RAW).client;
        client.settings.session_tickets = tickets;
        (client.keys, client.verifier, client.session) = (keys, verifier, Some(session));
        let mut next = pair.reconnect(client, 2);
        next.connect();
        next.assert_connected();
        let connected = next.at_client.connected.as_ref().unwrap();
        assert!(connected.resumed && connected.server_name() == Some(NAME));
        assert!(!server_hello(&next).0.contains(&SERVER_NAME), "tickets: {tickets}");
    }
}

/// wolfSSL's clients compare 32 bytes, so that a handshake that resumes a session with a shorter ID
/// does not complete there.
#[test]
fn session_ids_have_32_bytes() {
    let mut parts = configs(RAW);
    parts.client.settings.session_tickets = false;
    let (pair, _) = with_session(parts);
    assert_eq!(server_hello(&pair).1.len(), 32);
}

/// RFC 5077, section 3.4: a client may present its ticket without a session ID.
#[test]
fn a_ticket_is_resumed_without_a_session_id() {
    let first = configs(RAW);
    let verifier = first.client.verifier.clone();
    let (mut pair, session) = with_session(first);
    let mut client = configs(RAW).client;
    (client.verifier, client.session) = (verifier, Some(session));
    let mut next = pair.reconnect(client, 2).with_rule(|way, _, datagram| {
        let mut datagram = datagram.to_vec();
        let hello = messages(&datagram).first().copied();
        if let (Direction::ToServer, Some((HandshakeType::CLIENT_HELLO, body))) = (way, hello) {
            // Record, message and fragment are as much shorter.
            let id = usize::from(datagram[body + 34]);
            assert!(id > 0);
            datagram.drain(body + 35..body + 35 + id);
            datagram[body + 34] = 0;
            for at in [11, body - 10, body - 2] {
                let length = u16::from_be_bytes([datagram[at], datagram[at + 1]]) - id as u16;
                datagram[at..at + 2].copy_from_slice(&length.to_be_bytes());
            }
        }
        pass(&datagram)
    });
    next.run_for(Duration::from_millis(100));
    let (_, id) = server_hello(&next);
    assert!(id.is_empty());
    // A resumed handshake has the server's Finished in its first flight, and no ServerHelloDone.
    let flight: Vec<_> = next.log.iter().filter(|(way, _)| *way == Direction::ToClient).collect();
    let kinds = flight.iter().flat_map(|(_, datagram)| messages(datagram)).map(|(kind, _)| kind);
    let kinds = kinds.filter(|kind| *kind != HandshakeType::HELLO_VERIFY_REQUEST);
    assert_eq!(kinds.collect::<Vec<_>>(), [HandshakeType::SERVER_HELLO]);
    let is_protected =
        |datagram: &[u8]| datagram.windows(5).any(|head| *head == [22, 254, 253, 0, 1]);
    assert!(flight.iter().any(|(_, datagram)| is_protected(datagram)));
}

#[test]
fn a_session_ends_when_a_verifier_does_not_accept_the_key_any_more() {
    for tickets in [true, false] {
        for at_client in [true, false] {
            let revoking = Arc::new(ToyVerifier::new(&[X509]));
            let verifier: Arc<dyn CertificateVerifier> = revoking.clone();
            let mut configs = mutual(X509, X509);
            configs.client.settings.session_tickets = tickets;
            let (ours, theirs) = (ToyKey::new(2).pin(), ToyKey::new(1).pin());
            let (peer, other) = if at_client {
                configs.client.verifier = Some(verifier);
                (theirs, ours)
            } else {
                configs.server.clients = ClientAuthentication::Required(verifier);
                (ours, theirs)
            };
            let (keys, verifier) = (configs.client.keys.clone(), configs.client.verifier.clone());
            let (mut pair, session) = with_session(configs);
            let client = || {
                let mut client = mutual(X509, X509).client;
                client.settings.session_tickets = tickets;
                client.keys.clone_from(&keys);
                client.verifier.clone_from(&verifier);
                client.session = Some(session.clone());
                client
            };
            assert!(resumes(&mut pair, client()));
            revoking.revoke(&[peer]);
            assert!(!resumes(&mut pair, client()), "{tickets} {at_client}");
            revoking.revoke(&[other]);
            assert!(resumes(&mut pair, client()));
        }
    }
}

#[test]
fn a_session_ends_with_the_server_s_key_and_when_the_client_must_authenticate_itself() {
    for tickets in [true, false] {
        let parts = || {
            let mut configs = configs(RAW);
            configs.client.settings.session_tickets = tickets;
            configs.client.keys = Some(Arc::new(certified(2, RAW)));
            configs
        };
        let first = parts();
        let (keys, verifier) = (first.client.keys.clone(), first.client.verifier.clone());
        let (mut pair, session) = with_session(first);
        let mut again = |change: &dyn Fn(&mut Configs)| {
            let mut configs = parts();
            change(&mut configs);
            pair.server.set_config(configs.server.config()).unwrap();
            let mut client = parts().client;
            client.keys.clone_from(&keys);
            client.verifier.clone_from(&verifier);
            client.session = Some(session.clone());
            let mut next = pair.reconnect(client, pair.now.as_micros());
            next.connect();
            next.assert_connected();
            let resumed = next.at_client.connected.as_ref().unwrap().resumed;
            let asked = next.at_server.connected.as_ref().unwrap().peer_key().is_some();
            next.run_for(Duration::from_secs(1));
            std::mem::swap(&mut pair.server, &mut next.server);
            pair.now = next.now;
            (resumed, asked)
        };
        assert_eq!(again(&|_| {}), (true, false));
        let other = |configs: &mut Configs| configs.server.keys = Some(Arc::new(certified(3, RAW)));
        assert_eq!(again(&other), (false, false));
        let asks = |configs: &mut Configs| {
            configs.server.clients = ClientAuthentication::Required(verifier_raw());
        };
        assert_eq!(again(&asks), (false, true));
        assert_eq!(again(&|_| {}), (true, false));
    }
}
