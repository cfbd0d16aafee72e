//! Hashes of devices, which implement as little as possible.

use lightseal_core::Random;
use lightseal_dtls::crypto::SigningKey;
use lightseal_dtls::crypto::rustcrypto::{AES_128_CCM_8, PROVIDER, PSK_WITH_AES_128_CCM_8};
use lightseal_dtls::crypto::signatures::p256::EcdsaP256Key;
use lightseal_dtls::crypto::{
    CipherSuite, CipherSuite12, CipherSuiteId, CustomRunningHash, Hash, HashAlgorithm, Provider,
    RunningHash, SelfTestFailed, Sha256,
};
use lightseal_dtls::{
    CertifiedKey, ClientConfig, ConfigError, CookiePolicy, PinnedKeys, ProtocolVersion, Settings,
    WhenRejected,
};
use std::sync::Arc;
use testkit::pair::{Configs, psk};

/// A peripheral that computes one hash or HMAC at a time.
struct Peripheral;

impl Hash for Peripheral {
    fn algorithm(&self) -> HashAlgorithm {
        HashAlgorithm::Sha256
    }

    fn digest(&self, message: &[&[u8]], out: &mut [u8]) {
        Sha256.digest(message, out);
    }

    fn hmac(&self, key: &[u8], message: &[&[u8]], out: &mut [u8]) {
        Sha256.hmac(key, message, out);
    }

    fn start(&self) -> RunningHash {
        RunningHash::custom(Box::new(Kept(Vec::new())))
    }
}

/// A message that is kept until its hash value is asked for.
struct Kept(Vec<u8>);

impl CustomRunningHash for Kept {
    fn update(&mut self, part: &[u8]) {
        self.0.extend_from_slice(part);
    }

    fn value(&self, out: &mut [u8]) {
        Peripheral.digest(&[&self.0], out);
    }

    fn fork(&self) -> Box<dyn CustomRunningHash> {
        Box::new(Self(self.0.clone()))
    }
}

/// A peripheral that computes HMAC wrongly under long keys.
struct Faulty;

impl Hash for Faulty {
    fn algorithm(&self) -> HashAlgorithm {
        HashAlgorithm::Sha256
    }

    fn digest(&self, message: &[&[u8]], out: &mut [u8]) {
        Sha256.digest(message, out);
    }

    fn hmac(&self, key: &[u8], message: &[&[u8]], out: &mut [u8]) {
        Sha256.hmac(&key[..key.len().min(64)], message, out);
    }
}

static SUITE: CipherSuite = AES_128_CCM_8.with_hash(&Peripheral);
static SUITE_12: CipherSuite12 = PSK_WITH_AES_128_CCM_8.with_hash(&Peripheral);
static DEVICE: Provider = PROVIDER.with_suites(&[&SUITE]).with_suites_12(&[&SUITE_12]);

#[test]
fn a_device_with_its_own_hash_talks_to_a_host() {
    for (suite, version) in [
        (CipherSuiteId::AES_128_CCM_8_SHA256, ProtocolVersion::Dtls13),
        (CipherSuiteId::PSK_WITH_AES_128_CCM_8, ProtocolVersion::Dtls12),
    ] {
        for device_serves in [false, true] {
            let mut configs = Configs::new();
            configs.server.cookies = CookiePolicy::Always;
            for settings in [&mut configs.client.settings, &mut configs.server.settings] {
                (settings.versions, settings.suites) = (vec![version], vec![suite]);
            }
            match device_serves {
                true => configs.server.settings.provider = &DEVICE,
                false => configs.client.settings.provider = &DEVICE,
            }
            let mut pair = configs.pair(1);
            pair.connect();
            pair.assert_connected();
            let mut keys = [[0; 32]; 2];
            pair.client.export_keying_material(b"EXPORTER-x", b"y", &mut keys[0]).unwrap();
            let server = pair.server.connection(pair.handle.unwrap()).unwrap();
            server.export_keying_material(b"EXPORTER-x", b"y", &mut keys[1]).unwrap();
            assert_eq!(keys[0], keys[1], "{version}");
        }
    }
}

#[test]
fn the_self_test_notices_a_wrong_hash() {
    static WRONG: CipherSuite = AES_128_CCM_8.with_hash(&Faulty);
    static WRONG_12: CipherSuite12 = PSK_WITH_AES_128_CCM_8.with_hash(&Faulty);
    static BROKEN: Provider = PROVIDER.with_suites(&[&WRONG]);
    static BROKEN_12: Provider = PROVIDER.with_suites_12(&[&WRONG_12]);
    for provider in [&BROKEN, &BROKEN_12] {
        assert_eq!(provider.self_test(), Err(SelfTestFailed("SHA-256")));
    }
    assert_eq!(DEVICE.self_test(), Ok(()));
}

#[test]
fn suites_with_sha_384_make_handshakes_in_dtls_1_2() {
    for suite in [
        CipherSuiteId::PSK_WITH_AES_256_GCM_SHA384,
        CipherSuiteId::ECDHE_PSK_WITH_AES_256_GCM_SHA384,
    ] {
        for extended in [false, true] {
            let mut configs = Configs::new();
            // The client does not know the hash before the server chooses the suite.
            let other = CipherSuiteId::PSK_WITH_AES_128_GCM_SHA256;
            let client = &mut configs.client.settings;
            (client.versions, client.suites) = (vec![ProtocolVersion::Dtls12], vec![other, suite]);
            client.require_extended_master_secret = extended;
            let server = &mut configs.server.settings;
            (server.versions, server.suites) = (vec![ProtocolVersion::Dtls12], vec![suite]);
            server.require_extended_master_secret = extended;
            let mut pair = configs.pair(1);
            pair.connect();
            pair.assert_connected();
            assert_eq!(pair.at_client.connected.as_ref().unwrap().suite, suite);
            pair.client_send(b"up");
            pair.server_send(b"down");
            pair.run_for(std::time::Duration::from_secs(1));
            assert_eq!(
                (&pair.at_server.data[0][..], &pair.at_client.data[0][..]),
                (&b"up"[..], &b"down"[..])
            );
        }
    }
}

/// An external PSK is bound to SHA-256 (RFC 8446, section 4.2.11).
#[test]
fn a_psk_of_sha_256_never_goes_with_another_hash_in_dtls_1_3() {
    let suite = CipherSuiteId::AES_256_GCM_SHA384;
    let mut configs = Configs::new();
    for settings in [&mut configs.client.settings, &mut configs.server.settings] {
        settings.suites = vec![suite, CipherSuiteId::AES_128_GCM_SHA256];
    }
    let mut pair = configs.pair(1);
    pair.connect();
    pair.assert_connected();
    let chosen = pair.at_client.connected.as_ref().unwrap().suite;
    assert_eq!(chosen, CipherSuiteId::AES_128_GCM_SHA256);
}

/// A client that verifies a server's raw public key, both with these suites of DTLS 1.3.
fn by_raw_key(client: &[CipherSuiteId], server: &[CipherSuiteId]) -> Configs {
    let key = EcdsaP256Key::generate(&mut Random::insecure(7));
    let mut hash = [0; 32];
    Sha256.digest(&[key.public_key()], &mut hash);
    let mut configs = Configs::new();
    configs.client.psk = None;
    configs.client.verifier = Some(Arc::new(PinnedKeys::new(vec![hash])));
    configs.server.keys = Some(Arc::new(CertifiedKey::raw(Arc::new(key))));
    let settings = [&mut configs.client.settings, &mut configs.server.settings];
    for (settings, suites) in settings.into_iter().zip([client, server]) {
        settings.suites = suites.to_vec();
        settings.versions = vec![ProtocolVersion::Dtls13];
    }
    configs
}

const LONG: CipherSuiteId = CipherSuiteId::AES_256_GCM_SHA384;
const SHORT: CipherSuiteId = CipherSuiteId::AES_128_GCM_SHA256;

#[test]
fn the_server_decides_the_hash_of_dtls_1_3() {
    for cookies in [CookiePolicy::Always, CookiePolicy::WhenRetrying] {
        for client in [&[LONG][..], &[SHORT, LONG], &[LONG, SHORT]] {
            for server in [LONG, SHORT] {
                if !client.contains(&server) {
                    continue;
                }
                let mut configs = by_raw_key(client, &[server]);
                configs.server.cookies = cookies;
                let mut pair = configs.pair(1);
                pair.connect();
                pair.assert_connected();
                let negotiated = pair.at_client.connected.as_ref().unwrap();
                assert_eq!(negotiated.suite, server, "{client:?}");
                pair.client_send(b"up");
                pair.update_keys(testkit::pair::Direction::ToServer);
                pair.server_send(b"down");
                pair.run_for(std::time::Duration::from_secs(2));
                assert_eq!(pair.at_server.data, [b"up"]);
                assert_eq!(pair.at_client.data, [b"down"]);
            }
        }
    }
}

/// A client with a PSK of SHA-256 and a verifier meets a server that prefers SHA-384.
#[test]
fn a_psk_goes_with_its_own_hash_or_not_at_all() {
    for cookies in [CookiePolicy::Always, CookiePolicy::WhenRetrying] {
        for (suites, by_psk) in [(&[LONG, SHORT][..], true), (&[LONG], false)] {
            let mut configs = by_raw_key(&[LONG, SHORT], suites);
            configs.client.psk = Some(psk());
            configs.server.cookies = cookies;
            let mut pair = configs.pair(1);
            pair.connect();
            pair.assert_connected();
            let negotiated = pair.at_server.connected.as_ref().unwrap();
            assert_eq!(negotiated.suite, if by_psk { SHORT } else { LONG });
            assert_eq!(negotiated.psk_identity.is_empty(), !by_psk);
        }
    }
}

/// A session and its early data have the hash of the session's suite, whatever else is offered.
#[test]
fn a_ticket_and_early_data_have_the_hash_of_their_session() {
    for (client, session_suite) in
        [([SHORT, LONG], LONG), ([LONG, SHORT], LONG), ([LONG, SHORT], SHORT)]
    {
        for (later, resumes) in [(session_suite, true), (other(session_suite), false)] {
            let configs = |server| {
                let mut configs = by_raw_key(&client, &[server]);
                configs.server.cookies = CookiePolicy::WhenRetrying;
                for settings in [&mut configs.client.settings, &mut configs.server.settings] {
                    settings.early_data = 1000;
                }
                configs
            };
            let place = format!("{client:?}, {session_suite:?}, {later:?}");
            let mut pair = configs(session_suite).pair(1);
            pair.connect();
            pair.assert_connected();
            let session = pair.client.take_session().expect("a ticket");
            // A server with the other suite has lost the keys of its tickets too.
            if !resumes {
                pair = configs(later).pair(99);
            }
            let mut client = configs(later).client;
            client.session = Some(session);
            let mut next = pair.reconnect(client, 2);
            next.client_address.set_port(40_001);
            next.client.send_early(next.now, b"early", WhenRejected::SendAgain).unwrap();
            next.connect();
            next.assert_connected();
            let negotiated = next.at_client.connected.as_ref().unwrap();
            assert_eq!(negotiated.suite, later, "{place}");
            assert_eq!((negotiated.resumed, negotiated.early_data), (resumes, resumes), "{place}");
            next.run_for(std::time::Duration::from_secs(2));
            let [early, data] = [&next.at_server.early_data, &next.at_server.data];
            assert_eq!(*if resumes { early } else { data }, [b"early"], "{place}");
        }
    }
}

fn other(suite: CipherSuiteId) -> CipherSuiteId {
    if suite == LONG { SHORT } else { LONG }
}

#[test]
fn a_client_needs_a_suite_with_the_hash_of_its_psk() {
    let mut settings = Settings::new(&PROVIDER);
    settings.suites = vec![LONG];
    settings.versions = vec![ProtocolVersion::Dtls13];
    let refused = ClientConfig::with(psk(), settings.clone()).err();
    assert_eq!(refused, Some(ConfigError::CipherSuites));
    // A suite of DTLS 1.2 helps only if it takes a PSK.
    settings.versions.push(ProtocolVersion::Dtls12);
    settings.suites.push(CipherSuiteId::ECDHE_ECDSA_WITH_AES_128_GCM_SHA256);
    let refused = ClientConfig::with(psk(), settings.clone()).err();
    assert_eq!(refused, Some(ConfigError::CipherSuites));
    settings.suites.push(CipherSuiteId::PSK_WITH_AES_128_GCM_SHA256);
    assert!(ClientConfig::with(psk(), settings).is_ok());
    // A server with a PSK alone and such a suite refuses the client.
    let mut configs = by_raw_key(&[LONG, SHORT], &[LONG]);
    configs.client.psk = Some(psk());
    configs.client.verifier = None;
    configs.client.settings.suites = vec![SHORT];
    configs.server.keys = None;
    let mut pair = configs.pair(1);
    pair.run_for(std::time::Duration::from_secs(61));
    assert!(pair.at_client.connected.is_none() && pair.at_server.connected.is_none());
}
