//! Handshakes with certificates and raw public keys, with toy signatures.

use lightseal_dtls::codepoints::{AlertDescription, CertificateType, PskKeyExchangeMode};
use lightseal_dtls::crypto::{NamedGroup, SignatureScheme};
use lightseal_dtls::{
    BadCertificate, CertifiedKey, ClientAuthentication, CloseReason, ConfigError, CookiePolicy,
    Fault, Identity, Incompatibility, KeyStore, Misbehaviour, OfferedCertificates, PinnedKeys,
    ProtocolVersion,
};
use std::sync::Arc;
use std::time::Duration;
use testkit::pair::{Configs, Direction, Pair, pass};
use testkit::toy_signature::{Answers, PROVIDER, ToyKey, ToyVerifier};

pub(crate) const X509: CertificateType = CertificateType::X509;
pub(crate) const RAW: CertificateType = CertificateType::RAW_PUBLIC_KEY;
/// The server's name in these tests.
const NAME: &str = "server.example";

fn certified(number: u8, kind: CertificateType) -> CertifiedKey {
    let key = ToyKey::new(number);
    if kind == RAW { key.raw() } else { key.x509(NAME, 2) }
}

fn verifier(kinds: &[CertificateType]) -> Arc<ToyVerifier> {
    Arc::new(ToyVerifier::new(kinds))
}

/// A client without a PSK that verifies the server's certificate of this kind.
fn configs(kind: CertificateType) -> Configs {
    let mut configs = Configs::new();
    configs.client.psk = None;
    configs.client.settings.provider = &PROVIDER;
    configs.client.settings.versions = vec![ProtocolVersion::Dtls13];
    configs.server.settings.provider = &PROVIDER;
    configs.client.verifier = Some(verifier(&[kind]));
    configs.client.server_name = Some(NAME.into());
    configs.server.keys = Some(Arc::new(certified(1, kind)));
    configs
}

/// With client authentication by a key of this kind.
pub(crate) fn mutual(server: CertificateType, client: CertificateType) -> Configs {
    let mut configs = configs(server);
    configs.client.keys = Some(Arc::new(certified(2, client)));
    configs.server.clients = ClientAuthentication::Required(verifier(&[client]));
    configs
}

/// The configuration with a server's certificate that is followed by `more` others.
pub(crate) fn with_chain(mut configs: Configs, more: usize) -> Configs {
    configs.server.keys = Some(Arc::new(ToyKey::new(1).x509(NAME, more)));
    configs
}

pub(crate) fn connected(configs: Configs, seed: u64) -> Pair<'static> {
    let mut pair = configs.pair(seed);
    pair.connect();
    pair.assert_connected();
    pair.client_send(b"up");
    pair.server_send(b"down");
    pair.run_for(Duration::from_secs(2));
    assert_eq!(pair.at_server.data, [b"up"]);
    assert_eq!(pair.at_client.data, [b"down"]);
    pair
}

/// The reasons why client and server closed. A client whose certificate is refused is connected
/// until it hears of that.
pub(crate) fn refused(configs: Configs) -> (Option<CloseReason>, Option<CloseReason>) {
    let mut pair = configs.pair(3);
    pair.run_for(Duration::from_secs(61));
    assert!(pair.at_server.connected.is_none());
    (pair.at_client.closed, pair.at_server.closed)
}

#[test]
fn every_credential_with_every_client_authentication() {
    for cookies in [CookiePolicy::Always, CookiePolicy::WhenRetrying] {
        for server in [X509, RAW] {
            for client in [None, Some(X509), Some(RAW)] {
                for required in [None, Some(false), Some(true)] {
                    let mut configs = configs(server);
                    configs.server.cookies = cookies;
                    configs.client.keys = client.map(|kind| Arc::new(certified(2, kind)) as _);
                    let accepted = verifier(&[RAW, X509]);
                    configs.server.clients = match required {
                        None => ClientAuthentication::Off,
                        Some(false) => ClientAuthentication::Requested(accepted),
                        Some(true) => ClientAuthentication::Required(accepted),
                    };
                    let case = format!("{cookies:?} {server} {client:?} {required:?}");
                    if required == Some(true) && client.is_none() {
                        let alert = CloseReason::PeerAlert(AlertDescription::CERTIFICATE_REQUIRED);
                        let fault = Fault::Incompatible(Incompatibility::NoClientCertificate);
                        let expected = (Some(alert), Some(CloseReason::Fault(fault)));
                        assert_eq!(refused(configs), expected, "{case}");
                        continue;
                    }
                    let pair = connected(configs, 1);
                    let at_client = pair.at_client.connected.as_ref().unwrap();
                    let key = at_client.peer_key().unwrap();
                    assert_eq!(key.spki_sha256, ToyKey::new(1).pin(), "{case}");
                    let name = (server == X509).then_some(NAME);
                    assert_eq!(key.name.as_deref(), name, "{case}");
                    assert!(at_client.psk_identity.is_empty() && at_client.group.is_some());
                    let at_server = pair.at_server.connected.as_ref().unwrap();
                    let asked = required.is_some() && client.is_some();
                    let pin = at_server.peer_key().map(|key| key.spki_sha256);
                    assert_eq!(pin, asked.then(|| ToyKey::new(2).pin()), "{case}");
                    assert_eq!(at_server.server_name(), Some(NAME));
                }
            }
        }
    }
}

#[test]
fn keys_are_pinned() {
    let mut configs = configs(RAW);
    configs.client.verifier = Some(Arc::new(PinnedKeys::new(vec![ToyKey::new(1).pin()])));
    connected(configs, 1);
    let mut other = self::configs(RAW);
    other.client.verifier = Some(Arc::new(PinnedKeys::new(vec![ToyKey::new(7).pin()])));
    let fault = CloseReason::Fault(Fault::Certificate(BadCertificate::UnknownKey));
    let alert = CloseReason::PeerAlert(AlertDescription::CERTIFICATE_UNKNOWN);
    assert_eq!(refused(other), (Some(fault), Some(alert)));
}

/// A client with pinned keys, and a server that asks for its key where `asks` says so.
fn pinned(asks: bool) -> Configs {
    let mut configs = if asks { mutual(RAW, RAW) } else { configs(RAW) };
    configs.client.verifier = Some(Arc::new(PinnedKeys::new(vec![ToyKey::new(1).pin()])));
    if asks {
        let clients = Arc::new(PinnedKeys::new(vec![ToyKey::new(2).pin()]));
        configs.server.clients = ClientAuthentication::Required(clients);
    }
    configs
}

#[test]
fn a_session_with_a_key_is_resumed_while_the_key_is_pinned() {
    for asks in [false, true] {
        let configs = pinned(asks);
        let keys = configs.client.keys.clone();
        let mut pair = configs.pair(1);
        pair.connect().assert_connected();
        let first = pair.client.take_session().expect("a ticket");
        let second = pair.client.take_session().expect("another ticket");
        let mut client = pinned(asks).client;
        client.session = Some(first);
        client.keys.clone_from(&keys);
        let mut next = pair.reconnect(client, 2);
        next.connect().assert_connected();
        for end in [&next.at_client, &next.at_server] {
            assert!(end.connected.as_ref().unwrap().resumed);
        }
        let key = |negotiated: &lightseal_dtls::Negotiated| negotiated.peer_key().cloned();
        let server = key(next.at_client.connected.as_ref().unwrap()).unwrap();
        assert_eq!(server.spki_sha256, ToyKey::new(1).pin());
        let client = key(next.at_server.connected.as_ref().unwrap());
        let pin = client.map(|key| key.spki_sha256);
        assert_eq!(pin, asks.then(|| ToyKey::new(2).pin()));

        // Another key is pinned meanwhile, so that the session is not offered.
        let mut client = pinned(asks).client;
        client.session = Some(second);
        client.keys.clone_from(&keys);
        client.verifier = Some(Arc::new(PinnedKeys::new(vec![ToyKey::new(7).pin()])));
        let mut next = next.reconnect(client, 3);
        next.connect();
        let fault = CloseReason::Fault(Fault::Certificate(BadCertificate::UnknownKey));
        assert_eq!(next.at_client.closed, Some(fault));
    }
}

#[test]
fn a_server_asks_for_a_group_and_the_client_comes_again() {
    for cookies in [CookiePolicy::Always, CookiePolicy::WhenRetrying] {
        let mut configs = mutual(X509, X509);
        configs.server.cookies = cookies;
        configs.client.settings.groups = vec![NamedGroup::X25519, NamedGroup::P256];
        configs.server.settings.groups = vec![NamedGroup::P256];
        let pair = connected(configs, 1);
        assert_eq!(pair.at_client.connected.as_ref().unwrap().group, Some(NamedGroup::P256));
        assert_eq!(pair.server.stats().retries, 1);
    }
}

#[test]
fn the_server_takes_a_psk_that_it_knows_and_else_a_certificate() {
    let both = |known: bool, modes: &[PskKeyExchangeMode]| {
        let mut configs = configs(X509);
        configs.client.psk = Some(testkit::pair::psk());
        configs.client.settings.psk_modes = modes.to_vec();
        if !known {
            configs.server.psks = Arc::new(Vec::new());
        }
        configs
    };
    let modes = [PskKeyExchangeMode::PSK_DHE_KE, PskKeyExchangeMode::PSK_KE];
    for modes in [&modes[..], &modes[..1], &modes[1..]] {
        for known in [true, false] {
            // The server has no group of the client's first share.
            for retried in [true, false] {
                let mut configs = both(known, modes);
                if retried {
                    configs.server.settings.groups = vec![NamedGroup::P256];
                }
                let pair = connected(configs, 1);
                let negotiated = pair.at_client.connected.as_ref().unwrap();
                assert_eq!(negotiated.psk_identity.is_empty(), !known);
                assert_eq!(negotiated.peer_key().is_some(), !known);
            }
        }
    }
    // A PSK whose key is wrong is refused, not replaced by a certificate.
    let mut configs = both(true, &modes);
    configs.client.psk = Some(lightseal_dtls::Psk::external(b"Client_identity", &[7; 32]).unwrap());
    let (client, _) = refused(configs);
    assert_eq!(client, Some(CloseReason::PeerAlert(AlertDescription::DECRYPT_ERROR)));
}

#[test]
fn keys_that_answer_later() {
    for (server, client) in [(3, 0), (0, 3), (2, 2)] {
        for version in [X509, RAW] {
            let mut configs = mutual(version, version);
            let key = |number, times| {
                let key = ToyKey::new(number).answering(Answers::After(times));
                if version == RAW { key.raw() } else { key.x509(NAME, 1) }
            };
            configs.server.keys = Some(Arc::new(key(1, server)));
            configs.client.keys = Some(Arc::new(key(2, client)));
            let mut pair = configs.pair(1);
            for _ in 0..10 {
                pair.run_for(Duration::from_secs(3));
                pair.server.lookups_answered(pair.now);
                pair.client.lookups_answered(pair.now);
            }
            pair.assert_connected();
            let at_server = pair.at_server.connected.as_ref().unwrap();
            assert_eq!(at_server.peer_key().unwrap().spki_sha256, ToyKey::new(2).pin());
            assert_eq!((pair.server.stats().accepted, pair.server.open_connections()), (1, 1));
        }
    }
}

#[test]
fn keys_that_fail_and_keys_that_sign_wrongly() {
    let with = |server: Answers, client: Answers| {
        let mut configs = mutual(X509, X509);
        let key = |number, answers| ToyKey::new(number).answering(answers).x509(NAME, 0);
        configs.server.keys = Some(Arc::new(key(1, server)));
        configs.client.keys = Some(Arc::new(key(2, client)));
        refused(configs)
    };
    let alert = |alert| Some(CloseReason::PeerAlert(alert));
    let fault = |fault| Some(CloseReason::Fault(fault));
    let wrong = fault(Fault::Misbehaved(Misbehaviour::WrongSignature));
    let decrypt = alert(AlertDescription::DECRYPT_ERROR);
    assert_eq!(with(Answers::Wrongly, Answers::AtOnce), (wrong, decrypt));
    assert_eq!(with(Answers::AtOnce, Answers::Wrongly), (decrypt, wrong));
    let internal = alert(AlertDescription::INTERNAL_ERROR);
    let failed = fault(Fault::Internal("private key does not sign"));
    assert_eq!(with(Answers::AtOnce, Answers::Never), (failed, internal));
    assert_eq!(with(Answers::Never, Answers::AtOnce), (internal, None), "no state was made");
}

#[test]
fn what_the_ends_do_not_have_in_common() {
    let alert = |alert| Some(CloseReason::PeerAlert(alert));
    // The kind of the server's certificate.
    let mut configs = configs(X509);
    configs.server.keys = Some(Arc::new(certified(1, RAW)));
    assert_eq!(refused(configs).0, alert(AlertDescription::UNSUPPORTED_CERTIFICATE));
    // The kind of the client's.
    let mut configs = mutual(X509, X509);
    configs.server.clients = ClientAuthentication::Required(verifier(&[RAW]));
    assert_eq!(refused(configs).0, alert(AlertDescription::UNSUPPORTED_CERTIFICATE));
    // The signature scheme.
    let mut configs = self::configs(X509);
    let key = ToyKey::of_kind(1, 0, SignatureScheme::RSA_PSS_RSAE_SHA512);
    configs.server.keys = Some(Arc::new(key.x509(NAME, 0)));
    assert_eq!(refused(configs).0, alert(AlertDescription::HANDSHAKE_FAILURE));
    // Certificates at all.
    let mut configs = self::configs(X509);
    configs.server.keys = None;
    assert_eq!(refused(configs).0, alert(AlertDescription::HANDSHAKE_FAILURE));
    // The server's name.
    let mut configs = self::configs(X509);
    configs.client.server_name = Some("other.example".into());
    let fault = CloseReason::Fault(Fault::Certificate(BadCertificate::WrongName));
    let unknown = alert(AlertDescription::CERTIFICATE_UNKNOWN);
    assert_eq!(refused(configs), (Some(fault), unknown));
}

#[test]
fn a_signature_has_a_scheme_that_fits_the_key_and_the_version() {
    let illegal = Misbehaviour::IllegalParameter("signature scheme");
    let fault = CloseReason::Fault(Fault::Misbehaved(illegal));
    let alert = CloseReason::PeerAlert(AlertDescription::ILLEGAL_PARAMETER);
    // The key is of another kind than its scheme.
    let mut configs = configs(X509);
    let key = ToyKey::of_kind(1, 2, SignatureScheme::ED25519);
    configs.server.keys = Some(Arc::new(key.x509(NAME, 0)));
    assert_eq!(refused(configs), (Some(fault), Some(alert)));
    // RSASSA-PKCS1-v1_5 signs no handshakes, though it is offered for certificates.
    let mut configs = self::configs(X509);
    let key = ToyKey::of_kind(1, 3, SignatureScheme::RSA_PKCS1_SHA256);
    configs.server.keys = Some(Arc::new(key.x509(NAME, 0)));
    let failure = CloseReason::PeerAlert(AlertDescription::HANDSHAKE_FAILURE);
    assert_eq!(refused(configs).0, Some(failure));
}

#[test]
fn flights_in_many_small_datagrams() {
    for bytes in [80, 100, 300] {
        for cookies in [CookiePolicy::Always, CookiePolicy::WhenRetrying] {
            let mut configs = mutual(X509, X509);
            configs.client.settings.datagram_bytes = bytes;
            configs.server.settings.datagram_bytes = bytes;
            configs.server.cookies = cookies;
            configs.server.keys = Some(Arc::new(ToyKey::new(1).x509(NAME, 5)));
            let pair = connected(configs, 5);
            assert!(pair.log.iter().all(|(_, datagram)| datagram.len() <= bytes));
        }
    }
}

#[test]
fn a_server_sends_no_more_than_three_times_what_came_from_an_unproved_address() {
    let mut configs = configs(X509);
    configs.server.cookies = CookiePolicy::WhenRetrying;
    configs.server.keys = Some(Arc::new(ToyKey::new(1).x509(NAME, 9)));
    // Nothing that the client sends after its first hello arrives.
    let mut hellos = 0;
    let mut pair = configs.pair(1).with_rule(move |direction, _, datagram| {
        hellos += usize::from(direction == Direction::ToServer);
        if direction == Direction::ToServer && hellos > 1 { vec![] } else { pass(datagram) }
    });
    pair.run_for(Duration::from_secs(59));
    let bytes = |way| -> usize {
        pair.log.iter().filter(|(direction, _)| *direction == way).map(|(_, d)| d.len()).sum()
    };
    let hello = pair.log[0].1.len();
    assert!(bytes(Direction::ToClient) <= 3 * hello);
    assert!(bytes(Direction::ToClient) > hello, "the server answers");
    assert!(bytes(Direction::ToServer) > hello);
}

#[test]
fn a_server_sends_its_whole_flight_to_an_address_that_is_proved_below() {
    for version in [ProtocolVersion::Dtls13, ProtocolVersion::Dtls12] {
        let begin = || {
            let mut configs = with_chain(configs(X509), 9);
            configs.client.settings.versions = vec![version];
            configs.server.cookies = CookiePolicy::ProvedBelow;
            configs
        };
        // Nothing of the client arrives but its first hello.
        let mut hellos = 0;
        let mut pair = begin().pair(1).with_rule(move |direction, _, datagram| {
            hellos += usize::from(direction == Direction::ToServer);
            if direction == Direction::ToServer && hellos > 1 { vec![] } else { pass(datagram) }
        });
        pair.run_for(Duration::from_millis(500));
        let sent = pair.log.iter().filter(|(direction, _)| *direction == Direction::ToClient);
        let sent: usize = sent.map(|(_, datagram)| datagram.len()).sum();
        let hello = pair.log[0].1.len();
        assert!(sent > 3 * hello, "{version:?}: {sent} bytes for {hello}");
        // The client has the server's Finished or, in DTLS 1.2, its ServerHelloDone, and answers.
        assert!(
            pair.log.iter().filter(|(direction, _)| *direction == Direction::ToServer).count() > 1
        );

        let pair = connected(begin(), 2);
        assert_eq!(pair.server.stats().retries, 0, "{version:?}: no cookie is asked for");
    }
}

/// RFC 8446, appendix A.2: the server has changed to its application keys.
#[test]
fn a_server_sends_alerts_after_its_finished_under_its_application_keys() {
    let mut configs = mutual(X509, X509);
    configs.client.keys = None;
    let mut pair = configs.pair(4);
    pair.run_for(Duration::from_secs(1));
    let required = CloseReason::PeerAlert(AlertDescription::CERTIFICATE_REQUIRED);
    assert_eq!(pair.at_client.closed, Some(required));
    let sent: Vec<_> = pair.log.iter().filter(|(way, _)| *way == Direction::ToClient).collect();
    let (_, alert) = sent.last().unwrap();
    assert_eq!(alert[0] & 0xe3, 0x23, "a record of epoch 3");
    let later = sent.iter().filter(|(_, datagram)| datagram[0] & 0xe3 == 0x23);
    assert_eq!(later.count(), 1, "only the alert has these keys");
}

#[test]
fn a_server_waits_with_early_data_for_a_client_that_it_asks() {
    for (asks, early) in [(false, true), (true, false)] {
        let mut configs = if asks { mutual(X509, X509) } else { configs(X509) };
        configs.server.send_half_rtt_data = true;
        let mut pair = configs.pair(1);
        pair.sent_at_once = vec![b"at once".to_vec()];
        pair.connect();
        pair.assert_connected();
        assert_eq!(pair.server_may_send.is_some(), early);
        assert_eq!(pair.at_client.data.len(), usize::from(early));
    }
}

#[test]
fn a_client_of_one_key_does_not_replace_an_anonymous_one() {
    // Two associations from one address, both anonymous and with connection IDs: the server cannot
    // know that they are of the same client.
    let mut configs = configs(X509);
    configs.client.settings.connection_ids = lightseal_dtls::ConnectionIds::Bytes(4);
    configs.server.settings.connection_ids = lightseal_dtls::ConnectionIds::Bytes(4);
    let mut pair = configs.pair(1);
    pair.connect();
    pair.assert_connected();
    let mut again = self::configs(X509);
    again.client.settings.connection_ids = lightseal_dtls::ConnectionIds::Bytes(4);
    pair.replace_client(again.client.config(), 9);
    pair.connect();
    pair.assert_connected();
    assert_eq!(pair.server.open_connections(), 2);
}

#[test]
fn an_application_refuses_a_client_that_is_not_on_its_list() {
    for kind in [X509, RAW] {
        let mut pair = mutual(kind, kind).pair(1);
        pair.connect().assert_connected();
        let negotiated = pair.at_server.connected.clone().unwrap();
        let hash = Identity::Key(ToyKey::new(2).pin());
        let name = (kind == X509).then(|| Identity::Subject(NAME.into()));
        let identities: Vec<_> = negotiated.peer_identities().collect();
        assert_eq!(identities, name.into_iter().chain([hash]).collect::<Vec<_>>());
        assert_eq!(negotiated.peer_identity(), identities.first().cloned());
        let handle = pair.handle.unwrap();
        pair.server.connection_mut(handle).unwrap().refuse(pair.now);
        pair.run_for(Duration::from_secs(1));
        assert_eq!(pair.at_server.closed, Some(CloseReason::Refused));
        let denied = CloseReason::PeerAlert(AlertDescription::ACCESS_DENIED);
        assert_eq!(pair.at_client.closed, Some(denied));
        assert_eq!(pair.server.open_connections(), 0);
    }
    let mut pair = configs(X509).pair(1);
    pair.connect().assert_connected();
    assert_eq!(pair.at_server.connected.as_ref().unwrap().peer_identity(), None);
    let mut pair = Configs::new().pair(1);
    pair.connect().assert_connected();
    let identity = pair.at_server.connected.as_ref().unwrap().peer_identity();
    assert_eq!(identity, Some(Identity::Psk(b"Client_identity".to_vec())));
}

#[test]
fn application_protocols_are_negotiated_with_every_credential_and_version() {
    let names = |names: &[&str]| -> Vec<Vec<u8>> {
        names.iter().map(|name| name.as_bytes().to_vec()).collect()
    };
    let psk = |version| {
        let mut configs = Configs::new();
        configs.client.settings.versions = vec![version];
        configs
    };
    let credentials: [&dyn Fn() -> Configs; 3] =
        [&|| configs(X509), &|| psk(ProtocolVersion::Dtls13), &|| psk(ProtocolVersion::Dtls12)];
    for credential in credentials {
        let with = |client: &[&str], server: &[&str]| {
            let mut configs = credential();
            configs.client.settings.application_protocols = names(client);
            configs.server.settings.application_protocols = names(server);
            configs
        };
        // (client's list, server's list, what is negotiated)
        let cases = [
            (&["co"][..], &["co"][..], Some("co")),
            (&["h3", "co"], &["co", "h3"], Some("co")),
            (&["co"], &[], None),
            (&[], &["co"], None),
            (&[], &[], None),
        ];
        for (client, server, expected) in cases {
            let pair = connected(with(client, server), 1);
            for end in [&pair.at_client, &pair.at_server] {
                let protocol = end.connected.as_ref().unwrap().application_protocol();
                assert_eq!(protocol, expected.map(str::as_bytes), "{client:?} {server:?}");
            }
        }
        let (client, _) = refused(with(&["h3"], &["co"]));
        let refusal = CloseReason::PeerAlert(AlertDescription::NO_APPLICATION_PROTOCOL);
        assert_eq!(client, Some(refusal));
    }
    let mut settings = Configs::new().client.settings;
    for name in [vec![], vec![b'a'; 256]] {
        settings.application_protocols = vec![name];
        assert_eq!(settings.check(), Err(ConfigError::ApplicationProtocol));
    }
    settings.application_protocols = vec![vec![b'a'; 255]; 16];
    assert_eq!(settings.check(), Ok(()));
    let mut configs = configs(X509);
    configs.client.settings.application_protocols = settings.application_protocols.clone();
    configs.server.settings.application_protocols = settings.application_protocols.clone();
    connected(configs, 1);
    settings.application_protocols.push(vec![b'a']);
    assert!(matches!(settings.check(), Err(ConfigError::ListTooLong { .. })));
}

/// The server's keys by name.
struct ByName(Vec<(&'static str, CertifiedKey)>);

impl KeyStore for ByName {
    fn choose(&self, offered: &OfferedCertificates<'_>) -> Option<CertifiedKey> {
        let wanted = offered.server_name;
        let mut keys = self.0.iter();
        keys.find(|(name, _)| wanted.is_none_or(|wanted| wanted == *name))
            .map(|(_, key)| key.clone())
    }

    fn kinds(&self) -> Vec<CertificateType> {
        vec![X509]
    }

    fn has_name(&self, wanted: &str) -> Option<bool> {
        Some(self.0.iter().any(|(name, _)| *name == wanted))
    }
}

#[test]
fn a_server_chooses_its_certificate_by_the_name_that_the_client_wants() {
    let store = || {
        let key = |number, name| (name, ToyKey::new(number).x509(name, 0));
        Arc::new(ByName(vec![key(1, "one.example"), key(2, "two.example")]))
    };
    for (name, number) in [("one.example", 1), ("Two.Example", 2)] {
        let mut configs = configs(X509);
        configs.client.server_name = Some(name.into());
        configs.server.keys = Some(store());
        let pair = connected(configs, 1);
        let negotiated = pair.at_client.connected.as_ref().unwrap();
        assert_eq!(negotiated.peer_key().unwrap().spki_sha256, ToyKey::new(number).pin());
        let name = name.to_ascii_lowercase();
        assert_eq!(pair.at_server.connected.as_ref().unwrap().server_name(), Some(&*name));
    }
    let mut configs = configs(X509);
    configs.client.server_name = Some("three.example".into());
    configs.server.keys = Some(store());
    let refusal = CloseReason::PeerAlert(AlertDescription::UNRECOGNIZED_NAME);
    assert_eq!(refused(configs).0, Some(refusal));
    // An IP address is not sent: the server takes its first key.
    let mut configs = self::configs(X509);
    configs.client.server_name = Some("192.0.2.1".into());
    configs.server.keys = Some(store());
    let fault = CloseReason::Fault(Fault::Certificate(BadCertificate::WrongName));
    assert_eq!(refused(configs).0, Some(fault));
}

#[test]
fn each_end_chooses_among_several_keys_what_the_peer_accepts() {
    let keys = || -> Arc<dyn KeyStore> {
        let ecdsa = SignatureScheme::ECDSA_SECP256R1_SHA256;
        Arc::new(vec![
            ToyKey::of_kind(8, 0, SignatureScheme::RSA_PSS_RSAE_SHA256).x509(NAME, 0),
            ToyKey::of_kind(1, 2, ecdsa).x509(NAME, 0),
            ToyKey::of_kind(2, 2, ecdsa).raw(),
        ])
    };
    let ecdsa = SignatureScheme::ECDSA_SECP256R1_SHA256;
    for (kinds, number) in [(&[X509][..], 1), (&[RAW], 2), (&[RAW, X509], 1)] {
        let mut configs = mutual(X509, X509);
        configs.client.verifier = Some(verifier(kinds));
        configs.client.keys = Some(keys());
        configs.server.keys = Some(keys());
        configs.server.clients = ClientAuthentication::Required(verifier(kinds));
        let pair = connected(configs, 1);
        let pin = ToyKey::of_kind(number, 2, ecdsa).pin();
        let server = pair.at_client.connected.as_ref().unwrap().peer_key().unwrap();
        assert_eq!(server.spki_sha256, pin, "{kinds:?}");
        assert!(pair.at_server.connected.as_ref().unwrap().peer_key().is_some());
    }
}

#[test]
fn values_that_no_standard_defines_are_ignored() {
    let psk = |version| {
        let mut configs = Configs::new();
        configs.client.settings.versions = vec![version];
        configs
    };
    let credentials: [&dyn Fn() -> Configs; 4] = [
        &|| mutual(X509, RAW),
        &|| {
            let mut configs = mutual(RAW, X509);
            // The second hello has the same values.
            configs.server.settings.groups = vec![NamedGroup::P256];
            configs
        },
        &|| psk(ProtocolVersion::Dtls13),
        &|| psk(ProtocolVersion::Dtls12),
    ];
    for credential in credentials {
        for seed in 0..8 {
            let mut lengths = [false, true].map(|grease| {
                let mut configs = credential();
                configs.client.settings.grease = grease;
                for settings in [&mut configs.client.settings, &mut configs.server.settings] {
                    settings.application_protocols = vec![b"co".to_vec()];
                }
                let pair = connected(configs, seed);
                let negotiated = pair.at_server.connected.as_ref().unwrap();
                assert_eq!(negotiated.application_protocol(), Some(&b"co"[..]));
                pair.log[0].1.len()
            });
            lengths[0] += 2 + 4 + 3;
            assert!(lengths[1] >= lengths[0], "a suite, an extension and a protocol at least");
        }
    }
}
