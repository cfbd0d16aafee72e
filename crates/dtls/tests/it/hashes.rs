//! Hashes of devices, which implement as little as possible.

use lightseal_dtls::crypto::rustcrypto::{AES_128_CCM_8, PROVIDER, PSK_WITH_AES_128_CCM_8};
use lightseal_dtls::crypto::{
    CipherSuite, CipherSuite12, CipherSuiteId, CustomRunningHash, Hash, HashAlgorithm, Provider,
    RunningHash, SelfTestFailed, Sha256,
};
use lightseal_dtls::{CookiePolicy, ProtocolVersion};
use testkit::pair::Configs;

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
