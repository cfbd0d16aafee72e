//! Handshakes of DTLS 1.2 with certificates and raw public keys, with toy signatures.

use lightseal_dtls::codepoints::{AlertDescription, CertificateType, HandshakeType};
use lightseal_dtls::crypto::{
    CipherSuite12, CipherSuiteId, Exchange12, KnownAnswer12, Limits, NamedGroup, Provider,
    SignatureScheme, rustcrypto,
};
use lightseal_dtls::{
    BadCertificate, CertifiedKey, ClientAuthentication, CloseReason, CookiePolicy, Fault,
    Incompatibility, Misbehaviour, PinnedKeys, ProtocolVersion,
};
use std::sync::Arc;
use std::time::Duration;
use testkit::pair::{Configs, Direction, Fate, Pair, pass, psk};
use testkit::toy_signature::{Answers, PROVIDER, ToyKey, ToyVerifier};

pub(crate) const X509: CertificateType = CertificateType::X509;
pub(crate) const RAW: CertificateType = CertificateType::RAW_PUBLIC_KEY;
/// The server's name in these tests.
pub(crate) const NAME: &str = "server.example";

pub(crate) const SUITES: [CipherSuiteId; 5] = [
    CipherSuiteId::ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    CipherSuiteId::ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    CipherSuiteId::ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    CipherSuiteId::ECDHE_ECDSA_WITH_AES_128_CCM,
    CipherSuiteId::ECDHE_ECDSA_WITH_AES_128_CCM_8,
];

pub(crate) fn certified(number: u8, kind: CertificateType) -> CertifiedKey {
    let key = ToyKey::new(number);
    if kind == RAW { key.raw() } else { key.x509(NAME, 2) }
}

pub(crate) fn verifier(kinds: &[CertificateType]) -> Arc<ToyVerifier> {
    Arc::new(ToyVerifier::new(kinds))
}

/// A client without a PSK that verifies the server's certificate of this kind, in DTLS 1.2.
pub(crate) fn configs(kind: CertificateType) -> Configs {
    let mut configs = Configs::new();
    for settings in [&mut configs.client.settings, &mut configs.server.settings] {
        settings.provider = &PROVIDER;
        settings.versions = vec![ProtocolVersion::Dtls12];
    }
    configs.client.psk = None;
    configs.client.verifier = Some(verifier(&[kind]));
    configs.client.server_name = Some(NAME.into());
    configs.server.psks = Arc::new(Vec::new());
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

pub(crate) fn exchange(pair: &mut Pair<'_>) {
    pair.client_send(b"up");
    pair.server_send(b"down");
    pair.run_for(Duration::from_secs(2));
    assert_eq!(pair.at_server.data.last().unwrap(), b"up");
    assert_eq!(pair.at_client.data.last().unwrap(), b"down");
}

pub(crate) fn connected(configs: Configs, seed: u64) -> Pair<'static> {
    let mut pair = configs.pair(seed);
    pair.connect();
    pair.assert_connected();
    exchange(&mut pair);
    pair
}

/// The reasons why client and server closed.
pub(crate) fn refused(configs: Configs) -> (Option<CloseReason>, Option<CloseReason>) {
    reasons(configs.pair(3))
}

pub(crate) fn reasons(mut pair: Pair<'_>) -> (Option<CloseReason>, Option<CloseReason>) {
    pair.run_for(Duration::from_secs(61));
    assert!(pair.at_server.connected.is_none() && pair.at_client.connected.is_none());
    (pair.at_client.closed, pair.at_server.closed)
}

pub(crate) fn alert(alert: AlertDescription) -> Option<CloseReason> {
    Some(CloseReason::PeerAlert(alert))
}

pub(crate) fn fault(fault: impl Into<Fault>) -> Option<CloseReason> {
    Some(CloseReason::Fault(fault.into()))
}

#[test]
fn every_credential_with_every_client_authentication_and_suite() {
    for (at, suite) in SUITES.into_iter().enumerate() {
        for server in [X509, RAW] {
            for client in [None, Some(X509), Some(RAW)] {
                for required in [None, Some(false), Some(true)] {
                    let mut configs = configs(server).suite(suite);
                    if at % 2 == 1 {
                        configs.server.cookies = CookiePolicy::WhenRetrying;
                    }
                    configs.client.keys = client.map(|kind| Arc::new(certified(2, kind)) as _);
                    let accepted = verifier(&[RAW, X509]);
                    configs.server.clients = match required {
                        None => ClientAuthentication::Off,
                        Some(false) => ClientAuthentication::Requested(accepted),
                        Some(true) => ClientAuthentication::Required(accepted),
                    };
                    let case = format!("{suite} {server} {client:?} {required:?}");
                    if required == Some(true) && client.is_none() {
                        let none = Incompatibility::NoClientCertificate;
                        let (at_client, at_server) = refused(configs);
                        assert_eq!(at_server, fault(none), "{case}");
                        // RFC 5246, section 7.4.6.
                        assert_eq!(at_client, alert(AlertDescription::HANDSHAKE_FAILURE), "{case}");
                        continue;
                    }
                    let pair = connected(configs, 1);
                    let at_client = pair.at_client.connected.as_ref().unwrap();
                    assert_eq!(at_client.version, ProtocolVersion::Dtls12);
                    assert_eq!(at_client.suite, suite);
                    let key = at_client.peer_key().unwrap();
                    assert_eq!(key.spki_sha256, ToyKey::new(1).pin(), "{case}");
                    let name = (server == X509).then_some(NAME);
                    assert_eq!(key.name.as_deref(), name, "{case}");
                    assert!(at_client.psk_identity.is_empty() && at_client.group.is_some());
                    assert!(at_client.extended_master && !at_client.resumed);
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

static WITH_RSA: CipherSuite12 = CipherSuite12::new(
    CipherSuiteId::ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    Exchange12::EcdheRsa,
    Limits::GCM,
    rustcrypto::ECDHE_ECDSA_WITH_AES_128_GCM.aead,
    KnownAnswer12::AES_128_GCM,
);
/// A provider with suites for both kinds of keys.
static BOTH: Provider = Provider::new("toy signatures")
    .with_suites_12(&[&WITH_RSA, &rustcrypto::ECDHE_ECDSA_WITH_AES_128_GCM])
    .with_groups(PROVIDER.groups)
    .with_signatures(PROVIDER.signatures);

#[test]
fn the_suite_follows_from_the_kind_of_the_server_s_key() {
    let rsa = || ToyKey::of_kind(1, 3, SignatureScheme::RSA_PKCS1_SHA256).x509(NAME, 0);
    let ecdsa = || certified(2, X509);
    let (with_rsa, with_ecdsa) = (WITH_RSA.id, SUITES[0]);
    for (keys, offered, expected) in [
        (vec![rsa()], vec![with_ecdsa, with_rsa], Some(with_rsa)),
        (vec![ecdsa()], vec![with_rsa, with_ecdsa], Some(with_ecdsa)),
        (vec![ecdsa(), rsa()], vec![with_rsa, with_ecdsa], Some(with_ecdsa)),
        (vec![ecdsa(), rsa()], vec![with_rsa], Some(with_rsa)),
        (vec![rsa()], vec![with_ecdsa], None),
    ] {
        let mut configs = configs(X509);
        // A client may sign with either kind of key in either suite.
        let signer = ToyKey::of_kind(5, 3, SignatureScheme::RSA_PKCS1_SHA256).x509(NAME, 0);
        configs.client.keys = Some(Arc::new(signer));
        configs.server.clients = ClientAuthentication::Required(verifier(&[X509]));
        configs.server.keys = Some(Arc::new(keys));
        for settings in [&mut configs.client.settings, &mut configs.server.settings] {
            settings.provider = &BOTH;
            settings.suites = vec![with_rsa, with_ecdsa];
        }
        configs.client.settings.suites = offered;
        match expected {
            Some(expected) => {
                let pair = connected(configs, 1);
                assert_eq!(pair.at_client.connected.as_ref().unwrap().suite, expected);
            }
            None => assert_eq!(refused(configs).0, alert(AlertDescription::HANDSHAKE_FAILURE)),
        }
    }
}

#[test]
fn every_group() {
    for group in [NamedGroup::X25519, NamedGroup::P256] {
        let mut configs = mutual(X509, RAW);
        configs.server.settings.groups = vec![group];
        let pair = connected(configs, 1);
        assert_eq!(pair.at_client.connected.as_ref().unwrap().group, Some(group));
        assert_eq!(pair.at_server.connected.as_ref().unwrap().group, Some(group));
    }
    let mut configs = mutual(X509, RAW);
    configs.client.settings.groups = vec![NamedGroup::X25519];
    configs.server.settings.groups = vec![NamedGroup::P256];
    assert_eq!(refused(configs).0, alert(AlertDescription::HANDSHAKE_FAILURE));
}

#[test]
fn keys_are_pinned() {
    let pinned = |number| {
        let mut configs = mutual(RAW, RAW);
        configs.client.verifier = Some(Arc::new(PinnedKeys::new(vec![ToyKey::new(number).pin()])));
        configs
    };
    connected(pinned(1), 1);
    let unknown = alert(AlertDescription::CERTIFICATE_UNKNOWN);
    assert_eq!(refused(pinned(7)), (fault(BadCertificate::UnknownKey), unknown));
    let mut configs = mutual(RAW, RAW);
    configs.server.clients = ClientAuthentication::Requested(Arc::new(PinnedKeys::default()));
    assert_eq!(refused(configs), (unknown, fault(BadCertificate::UnknownKey)));
}

#[test]
fn keys_that_answer_later() {
    for (server, client) in [(3, 0), (0, 3), (2, 2)] {
        for kind in [X509, RAW] {
            let mut configs = mutual(kind, kind);
            let key = |number, times| {
                let key = ToyKey::new(number).answering(Answers::After(times));
                if kind == RAW { key.raw() } else { key.x509(NAME, 1) }
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
            exchange(&mut pair);
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
    let wrong = fault(Misbehaviour::WrongSignature);
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
    let failure = alert(AlertDescription::HANDSHAKE_FAILURE);
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
    assert_eq!(refused(configs).0, failure);
    // A kind of key that fits the suites: PKCS #1 does not sign in ECDHE_ECDSA.
    let mut configs = self::configs(X509);
    let key = ToyKey::of_kind(1, 3, SignatureScheme::RSA_PKCS1_SHA256);
    configs.server.keys = Some(Arc::new(key.x509(NAME, 0)));
    assert_eq!(refused(configs).0, failure);
    // Certificates at all.
    let mut configs = self::configs(X509);
    configs.server.keys = None;
    assert_eq!(refused(configs).0, failure);
    // The server's name.
    let mut configs = self::configs(X509);
    configs.client.server_name = Some("other.example".into());
    let unknown = alert(AlertDescription::CERTIFICATE_UNKNOWN);
    assert_eq!(refused(configs), (fault(BadCertificate::WrongName), unknown));
    // A client whose key the server's CertificateRequest does not accept has no certificate.
    let mut configs = mutual(X509, X509);
    let key = ToyKey::of_kind(2, 0, SignatureScheme::RSA_PSS_RSAE_SHA512);
    configs.client.keys = Some(Arc::new(key.x509(NAME, 0)));
    assert_eq!(refused(configs).1, fault(Incompatibility::NoClientCertificate));
}

#[test]
fn a_signature_has_a_scheme_that_fits_the_key() {
    let illegal = fault(Misbehaviour::IllegalParameter("signature scheme"));
    let told = alert(AlertDescription::ILLEGAL_PARAMETER);
    let key = |number| ToyKey::of_kind(number, 2, SignatureScheme::ED25519).x509(NAME, 0);
    let mut configs = configs(X509);
    configs.server.keys = Some(Arc::new(key(1)));
    assert_eq!(refused(configs), (illegal, told));
    let mut configs = mutual(X509, X509);
    configs.client.keys = Some(Arc::new(key(2)));
    assert_eq!(refused(configs), (told, illegal));
}

#[test]
fn psks_and_certificates_in_one_configuration() {
    // What the client has, and whether the server's suites with PSKs come first.
    for (has_psk, verifies, psks_first, uses_psk) in [
        (true, false, true, true),
        (true, false, false, true),
        (false, true, true, false),
        (false, true, false, false),
        (true, true, true, true),
        (true, true, false, false),
    ] {
        let mut configs = configs(X509);
        configs.server.psks = Arc::new(psk());
        configs.client.psk = has_psk.then(psk);
        if !verifies {
            (configs.client.verifier, configs.client.server_name) = (None, None);
        }
        let (signed, psk) = (SUITES[0], CipherSuiteId::ECDHE_PSK_WITH_AES_128_GCM_SHA256);
        configs.client.settings.suites = vec![signed, psk];
        configs.server.settings.suites =
            if psks_first { vec![psk, signed] } else { vec![signed, psk] };
        let pair = connected(configs, 1);
        let agreed = pair.at_client.connected.as_ref().unwrap();
        assert_eq!(agreed.suite, if uses_psk { psk } else { signed });
        assert_eq!(agreed.peer_key().is_none(), uses_psk);
        assert_eq!(agreed.psk_identity.is_empty(), !uses_psk);
    }
    // A server without PSKs does not choose a suite for which it needs one.
    let mut configs = configs(X509);
    configs.client.psk = Some(psk());
    let pair = connected(configs, 1);
    assert!(pair.at_client.connected.as_ref().unwrap().peer_key().is_some());
}

#[test]
fn a_client_of_both_versions_falls_back_to_a_server_of_1_2() {
    let both = vec![ProtocolVersion::Dtls13, ProtocolVersion::Dtls12];
    for kind in [X509, RAW] {
        let mut configs = mutual(kind, kind);
        configs.client.settings.versions = both.clone();
        let pair = connected(configs, 1);
        assert_eq!(pair.at_client.connected.as_ref().unwrap().version, ProtocolVersion::Dtls12);
        let mut configs = mutual(kind, kind);
        configs.server.settings.versions = both.clone();
        let pair = connected(configs, 1);
        assert_eq!(pair.at_client.connected.as_ref().unwrap().version, ProtocolVersion::Dtls12);
        let mut configs = mutual(kind, kind);
        configs.client.settings.versions = both.clone();
        configs.server.settings.versions = both.clone();
        let pair = connected(configs, 1);
        assert_eq!(pair.at_client.connected.as_ref().unwrap().version, ProtocolVersion::Dtls13);
    }
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

/// The handshake messages in plaintext records of a datagram: their types, and where their bodies
/// begin. Messages of these tests are not fragmented, unless they are long.
pub(crate) fn messages(datagram: &[u8]) -> Vec<(HandshakeType, usize)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(header) = datagram.get(at..at + 13) {
        let end = at + 13 + usize::from(u16::from_be_bytes([header[11], header[12]]));
        if header[0] == 22 && header[3..5] == [0, 0] {
            let mut message = at + 13;
            while message + 12 <= end {
                found.push((HandshakeType(datagram[message]), message + 12));
                let length = &datagram[message + 9..message + 12];
                message += 12 + usize::from(u16::from_be_bytes([length[1], length[2]]));
            }
        }
        at = end;
    }
    found
}

/// Changes the body of each message of this type that goes in this direction.
pub(crate) fn changing(
    way: Direction,
    kind: HandshakeType,
    mut change: impl FnMut(&mut [u8]),
) -> impl FnMut(Direction, usize, &[u8]) -> Fate {
    move |direction, _, datagram| {
        let mut datagram = datagram.to_vec();
        if direction == way {
            for (found, body) in messages(&datagram) {
                if found == kind {
                    change(&mut datagram[body..]);
                }
            }
        }
        pass(&datagram)
    }
}

#[test]
fn who_changes_a_message_on_its_way_is_noticed() {
    let to_client = Direction::ToClient;
    let short = || {
        let mut configs = mutual(RAW, RAW);
        configs.client.settings.handshake_deadline = Duration::from_secs(20);
        configs.server.settings.handshake_deadline = Duration::from_secs(20);
        configs
    };
    // The key share, its signature, and the scheme: its position is behind the point.
    let scheme_at = |body: &[u8]| 4 + usize::from(body[3]);
    let kind = HandshakeType::SERVER_KEY_EXCHANGE;
    let pair = short().pair(1).with_rule(changing(to_client, kind, |body| body[10] ^= 1));
    assert_eq!(reasons(pair).0, fault(Misbehaviour::WrongSignature));
    let pair = short().pair(1).with_rule(changing(to_client, kind, |body| {
        body[scheme_at(body) + 10] ^= 1;
    }));
    assert_eq!(reasons(pair).0, fault(Misbehaviour::WrongSignature));
    for scheme in [[4, 1], [2, 3], [6, 3]] {
        let pair = short().pair(1).with_rule(changing(to_client, kind, |body| {
            let at = scheme_at(body);
            body[at..at + 2].copy_from_slice(&scheme);
        }));
        let illegal = Misbehaviour::IllegalParameter("signature scheme");
        assert_eq!(reasons(pair).0, fault(illegal), "{scheme:?}");
    }
    // The certificate: the signature is not made with its key.
    let kind = HandshakeType::CERTIFICATE;
    let pair = short().pair(1).with_rule(changing(to_client, kind, |body| body[40] ^= 1));
    assert_eq!(reasons(pair).0, fault(Misbehaviour::WrongSignature));
    let to_server = Direction::ToServer;
    let pair = short().pair(1).with_rule(changing(to_server, kind, |body| body[40] ^= 1));
    assert_eq!(reasons(pair).1, fault(Misbehaviour::WrongSignature));
    // What the client signs contains all messages: that the server asks for more schemes, too.
    let kind = HandshakeType::CERTIFICATE_REQUEST;
    let pair = short().pair(1).with_rule(changing(to_client, kind, |body| body[10] ^= 0x40));
    let (_, server) = reasons(pair);
    assert_eq!(server, fault(Misbehaviour::WrongSignature));
    // The client's key share.
    let kind = HandshakeType::CLIENT_KEY_EXCHANGE;
    let pair = short().pair(1).with_rule(changing(to_server, kind, |body| body[10] ^= 1));
    assert_eq!(reasons(pair).1, fault(Misbehaviour::WrongSignature));
}

#[test]
fn a_kind_of_certificate_that_was_not_offered_is_refused() {
    // The server's answer, in its ServerHello: server_certificate_type (20), one byte.
    for (extension, configs) in [(20, mutual(RAW, X509)), (19, mutual(X509, RAW))] {
        for wrong in [0, 1, 3] {
            let answer = [0, extension, 0, 1, 2];
            let pair = configs_again(&configs).pair(1).with_rule(changing(
                Direction::ToClient,
                HandshakeType::SERVER_HELLO,
                move |body| {
                    let at = body.windows(5).position(|window| window == answer).unwrap();
                    body[at + 4] = wrong;
                },
            ));
            let illegal = Misbehaviour::IllegalParameter("certificate type");
            assert_eq!(reasons(pair).0, fault(illegal), "{extension} {wrong}");
        }
    }
    // An answer without an offer: the client has X.509 certificates alone, which it need not offer.
    let pair = mutual(X509, X509).pair(1).with_rule(changing(
        Direction::ToClient,
        HandshakeType::SERVER_HELLO,
        |body| {
            // extended_master_secret (23) becomes server_certificate_type.
            let at = body.windows(4).position(|window| window == [0, 23, 0, 0]).unwrap();
            body[at + 1] = 20;
        },
    ));
    assert_eq!(reasons(pair).0, fault(Misbehaviour::UnsolicitedExtension));
}

/// New configurations with the keys, the verifier and the rule for clients of `configs`.
pub(crate) fn configs_again(configs: &Configs) -> Configs {
    let mut again = self::configs(X509);
    again.client.keys.clone_from(&configs.client.keys);
    again.client.verifier.clone_from(&configs.client.verifier);
    again.server.keys.clone_from(&configs.server.keys);
    again.server.clients = configs.server.clients.clone();
    again
}

pub(crate) fn verifier_raw() -> Arc<ToyVerifier> {
    verifier(&[RAW])
}
