//! Every key exchange group in handshakes of both versions.

use lightseal_core::Random;
use lightseal_dtls::codepoints::PskKeyExchangeMode;
use lightseal_dtls::crypto::rustcrypto::PROVIDER;
use lightseal_dtls::crypto::{CipherSuiteId, NamedGroup};
use lightseal_dtls::{CookiePolicy, ProtocolVersion, Settings};
use testkit::pair::Configs;

#[test]
fn every_group_makes_a_handshake_with_and_without_a_retry() {
    for group in PROVIDER.groups {
        for cookies in [CookiePolicy::Always, CookiePolicy::WhenRetrying] {
            for retried in [false, true] {
                let mut configs = Configs::new();
                configs.server.cookies = cookies;
                let (client, server) = (&mut configs.client.settings, &mut configs.server.settings);
                client.psk_modes = vec![PskKeyExchangeMode::PSK_DHE_KE];
                let other = PROVIDER.groups.iter().find(|other| other.id() != group.id()).unwrap();
                client.groups = match retried {
                    true => vec![other.id(), group.id()],
                    false => vec![group.id()],
                };
                server.groups = vec![group.id()];
                let mut pair = configs.pair(1);
                pair.connect();
                pair.assert_connected();
                let negotiated = pair.at_client.connected.as_ref().unwrap();
                assert_eq!(negotiated.group, Some(group.id()), "{} {retried}", group.name());
            }
        }
    }
}

#[test]
fn dtls_1_2_negotiates_groups_without_key_encapsulation_only() {
    let suite = CipherSuiteId::ECDHE_PSK_WITH_AES_128_GCM_SHA256;
    for group in PROVIDER.groups {
        let mut configs = Configs::new();
        for settings in [&mut configs.client.settings, &mut configs.server.settings] {
            (settings.versions, settings.suites) = (vec![ProtocolVersion::Dtls12], vec![suite]);
            settings.groups = vec![NamedGroup::X25519_MLKEM768, group.id()];
        }
        let mut pair = configs.pair(1);
        pair.connect();
        if group.is_kem() {
            assert!(pair.at_client.connected.is_none());
        } else {
            pair.assert_connected();
            assert_eq!(pair.at_client.connected.as_ref().unwrap().group, Some(group.id()));
        }
    }
}

#[test]
fn default_settings_offer_no_share_that_fills_several_datagrams() {
    let groups = Settings::new(&PROVIDER).groups;
    assert!(!groups.contains(&NamedGroup::X25519_MLKEM768));
    let mut rng = Random::insecure(1);
    for group in groups {
        let share = PROVIDER.group(group).unwrap().start(&mut rng).public_key().len();
        assert!(share < 100, "{group}");
    }
}
