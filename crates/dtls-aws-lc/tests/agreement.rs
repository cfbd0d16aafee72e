//! Both providers compute the same bytes and refuse the same records and key shares.

use lightseal_core::Random;
use lightseal_dtls::crypto::{
    CipherSuite, CipherSuite12, Exchange12, Group, Hash, HmacKey, NamedGroup, Provider, Record,
    Sha256, TrafficSecret, rustcrypto,
};
use proptest::prelude::*;

const SUITES: [[&CipherSuite; 2]; 3] = [
    [&rustcrypto::AES_128_GCM, &lightseal_dtls_aws_lc::AES_128_GCM],
    [&rustcrypto::CHACHA20_POLY1305, &lightseal_dtls_aws_lc::CHACHA20_POLY1305],
    [&rustcrypto::AES_256_GCM, &lightseal_dtls_aws_lc::AES_256_GCM],
];

const SUITES_12: [[&CipherSuite12; 2]; 6] = [
    [&rustcrypto::ECDHE_PSK_WITH_AES_128_GCM, &lightseal_dtls_aws_lc::ECDHE_PSK_WITH_AES_128_GCM],
    [&rustcrypto::PSK_WITH_AES_128_GCM, &lightseal_dtls_aws_lc::PSK_WITH_AES_128_GCM],
    [&rustcrypto::PSK_WITH_CHACHA20_POLY1305, &lightseal_dtls_aws_lc::PSK_WITH_CHACHA20_POLY1305],
    [&rustcrypto::PSK_WITH_AES_256_GCM, &lightseal_dtls_aws_lc::PSK_WITH_AES_256_GCM],
    [
        &rustcrypto::ECDHE_ECDSA_WITH_AES_128_GCM,
        &lightseal_dtls_aws_lc::ECDHE_ECDSA_WITH_AES_128_GCM,
    ],
    [
        &rustcrypto::ECDHE_ECDSA_WITH_CHACHA20_POLY1305,
        &lightseal_dtls_aws_lc::ECDHE_ECDSA_WITH_CHACHA20_POLY1305,
    ],
];

const HASHES: [&dyn Hash; 2] = [&Sha256, &lightseal_dtls_aws_lc::Sha256];

/// A provider in which AWS-LC computes the hashes too.
static ALL: Provider =
    Provider::new("AWS-LC, hashes included").with_suites(&[&GCM]).with_suites_12(&[&GCM_12]);
static GCM: CipherSuite =
    lightseal_dtls_aws_lc::AES_128_GCM.with_hash(&lightseal_dtls_aws_lc::Sha256);
static GCM_12: CipherSuite12 =
    lightseal_dtls_aws_lc::PSK_WITH_AES_128_GCM.with_hash(&lightseal_dtls_aws_lc::Sha256);

#[test]
fn both_have_the_same_suites() {
    let [portable, fast] =
        [&rustcrypto::PROVIDER, &lightseal_dtls_aws_lc::PROVIDER].map(|provider| {
            let ids: Vec<_> = provider.suites.iter().map(|suite| suite.id).collect();
            // The portable provider has no RSA.
            let suites_12 = provider.suites_12.iter();
            let suites_12 = suites_12.filter(|suite| suite.exchange != Exchange12::EcdheRsa);
            let ids_12: Vec<_> = suites_12.map(|suite| suite.id).collect();
            (ids, ids_12)
        });
    assert_eq!(portable, fast);
}

#[test]
fn known_answers_hold() {
    assert_eq!(lightseal_dtls_aws_lc::PROVIDER.self_test(), Ok(()));
    assert_eq!(ALL.self_test(), Ok(()));
}

#[test]
fn only_a_whole_tag_opens() {
    for [_, suite] in SUITES {
        let keys = suite.keying.plain(&TrafficSecret::new(&Sha256, &[1; 32]).derivation());
        let record = Record { number: 9, header: &[0x2f] };
        let mut sealed = *b"content";
        let mut tag = [0; 16];
        keys.seal(record, &mut sealed, &mut tag);
        for len in 0..16 {
            assert!(keys.open(record, &mut sealed.clone(), &tag[..len]).is_err(), "{len} bytes");
        }
        let longer = [&tag[..], &[0]].concat();
        assert!(keys.open(record, &mut sealed.clone(), &longer).is_err());
        assert!(keys.open(record, &mut sealed, &tag).is_ok());
        assert_eq!(&sealed, b"content");
    }
}

#[test]
fn the_last_chacha_counter_masks_alike() {
    let secret = TrafficSecret::new(&Sha256, &[1; 32]);
    let [portable, fast] = SUITES[1].map(|suite| suite.keying.plain(&secret.derivation()));
    for counter in [0xffff_ffffu32, 0xffff_fffe, 0, 1] {
        let mut sample = [9; 16];
        sample[..4].copy_from_slice(&counter.to_le_bytes());
        assert_eq!(portable.mask(&sample), fast.mask(&sample), "{counter:#x}");
    }
}

/// The group of both providers.
fn both(id: NamedGroup) -> [&'static dyn Group; 2] {
    [&rustcrypto::PROVIDER, &lightseal_dtls_aws_lc::PROVIDER].map(|p| p.group(id).unwrap())
}

#[test]
fn a_hybrid_share_is_answered_by_either_provider() {
    let groups = both(NamedGroup::X25519_MLKEM768);
    let mut rng = Random::insecure(3);
    for first in groups {
        for second in groups {
            let ours = first.start(&mut rng);
            let share = ours.public_key().to_vec();
            let (answer, secret) = second.answer(&mut rng, &share).unwrap();
            // The lengths of RFC 10024, section 3.
            assert_eq!((share.len(), answer.len()), (1216, 1120));
            assert_eq!(secret.as_bytes().len(), 64);
            assert_eq!(ours.complete(&answer).unwrap().as_bytes(), secret.as_bytes());
        }
    }
}

#[test]
fn hybrid_shares_are_refused_alike() {
    let groups = both(NamedGroup::X25519_MLKEM768);
    let mut rng = Random::insecure(4);
    let good = groups[0].start(&mut rng).public_key().to_vec();
    let (answer, _) = groups[0].answer(&mut rng, &good).unwrap();
    // A coefficient of the encapsulation key that is not reduced (FIPS 203, section 7.2).
    let mut unreduced = good.clone();
    unreduced[..3].fill(0xff);
    // An X25519 share of small order.
    let mut small = good.clone();
    small[1184..].fill(0);
    let longer = [&good[..], &[0]].concat();
    for group in groups {
        for share in [&unreduced, &small, &longer, &good[..1215].to_vec(), &Vec::new()] {
            assert!(group.answer(&mut rng, share).is_err(), "{} bytes", share.len());
        }
        let mut small = answer.clone();
        small[1088..].fill(0);
        let longer = [&answer[..], &[0]].concat();
        for answer in [&small, &longer, &answer[..1119].to_vec(), &Vec::new()] {
            let ours = group.start(&mut rng);
            assert!(ours.complete(answer).is_err(), "{} bytes", answer.len());
        }
        // ML-KEM rejects implicitly: another ciphertext gives another secret.
        let ours = group.start(&mut rng);
        let (mut answer, secret) = group.answer(&mut rng, ours.public_key()).unwrap();
        answer[0] ^= 1;
        assert_ne!(ours.complete(&answer).unwrap().as_bytes(), secret.as_bytes());
    }
}

#[test]
fn groups_refuse_alike() {
    for pair in [NamedGroup::X25519, NamedGroup::P256, NamedGroup::P384].map(both) {
        let good = pair[0].start(&mut Random::insecure(2)).public_key().to_vec();
        let mut flipped = good.clone();
        *flipped.last_mut().unwrap() ^= 1;
        let mut compressed = good[..good.len().min(good.len() / 2 + 1)].to_vec();
        compressed[0] = 2 | good.last().unwrap() & 1;
        let mut hybrid = good.clone();
        hybrid[0] = 6 | good.last().unwrap() & 1;
        let mut order_one = vec![0; good.len()];
        order_one[0] = if good.len() > 32 { 4 } else { 1 };
        let short = good[1..].to_vec();
        for share in [good, flipped, compressed, hybrid, order_one, short, vec![0], vec![]] {
            let [a, b] = pair.map(|group| {
                let shared = group.start(&mut Random::insecure(1)).complete(&share);
                shared.map(|shared| shared.as_bytes().to_vec())
            });
            assert_eq!(a, b, "{} {share:02x?}", pair[0].name());
        }
    }
}

proptest! {
    #[test]
    fn hashes_are_the_same(
        key in prop::collection::vec(any::<u8>(), 0..200),
        first in prop::collection::vec(any::<u8>(), 0..200),
        second in prop::collection::vec(any::<u8>(), 0..200),
        okm_len in 0usize..=255 * 32,
    ) {
        let message = [&first[..], &second];
        let [portable, fast] = HASHES.map(|hash| {
            let mut values = [[0; 32]; 6];
            hash.digest(&message, &mut values[0]);
            hash.hmac(&key, &message, &mut values[1]);
            hash.extract(&key, &first, &mut values[2]);
            HmacKey::new(hash, &key).mac(&message, &mut values[3]);
            let mut running = hash.start();
            running.update(&first);
            let fork = running.clone();
            running.value(&mut values[4]);
            running.update(&second);
            fork.value(&mut values[5]);
            assert_eq!(values[4], values[5], "a fork does not follow");
            running.value(&mut values[5]);
            let prk = values[2];
            let mut okm = vec![0; okm_len];
            hash.expand(&prk, &message, &mut okm);
            let mut keys = [[0; 16]; 2];
            let derivation = TrafficSecret::new(hash, &prk).derivation();
            derivation.expand("key", &first[..first.len().min(255)], &mut keys[0]);
            derivation.expand("iv", &[], &mut keys[1]);
            (values, okm, keys)
        });
        prop_assert_eq!(&portable.0[0], &portable.0[5]);
        prop_assert_eq!(&portable.0[1], &portable.0[3]);
        prop_assert_eq!(portable, fast);
    }

    #[test]
    fn records_are_the_same(
        secret in any::<[u8; 32]>(),
        number in 0u64..1 << 48,
        header in prop::collection::vec(any::<u8>(), 0..40),
        content in prop::collection::vec(any::<u8>(), 0..400),
        sample in any::<[u8; 16]>(),
    ) {
        let secret = TrafficSecret::new(&Sha256, &secret);
        let record = Record { number, header: &header };
        for pair in SUITES {
            let [portable, fast] = pair.map(|suite| suite.keying.plain(&secret.derivation()));
            let (mut a, mut b) = (content.clone(), content.clone());
            let (mut tag_a, mut tag_b) = ([0; 16], [0; 16]);
            portable.seal(record, &mut a, &mut tag_a);
            fast.seal(record, &mut b, &mut tag_b);
            prop_assert_eq!((&a, tag_a), (&b, tag_b));
            prop_assert!(fast.open(record, &mut a, &tag_b).is_ok());
            prop_assert_eq!(a, content.clone());
            prop_assert_eq!(portable.mask(&sample), fast.mask(&sample));
        }
    }

    #[test]
    fn records_of_1_2_are_the_same(
        key in any::<[u8; 32]>(),
        iv in any::<[u8; 12]>(),
        number in any::<u64>(),
        header in prop::collection::vec(any::<u8>(), 13..300),
        content in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        let record = Record { number, header: &header };
        for pair in SUITES_12 {
            let [portable, fast] = pair.map(|suite| {
                (suite.aead)(&key[..suite.key_len], &iv[..suite.fixed_iv_len])
            });
            let (mut a, mut b) = (content.clone(), content.clone());
            let (mut tag_a, mut tag_b) = ([0; 16], [0; 16]);
            portable.seal(record, &mut a, &mut tag_a);
            fast.seal(record, &mut b, &mut tag_b);
            prop_assert_eq!((&a, tag_a), (&b, tag_b));
            prop_assert!(fast.open(record, &mut a, &tag_b).is_ok());
            prop_assert!(portable.open(record, &mut b, &tag_a).is_ok());
            prop_assert_eq!((&a, &b), (&content, &content));
            prop_assert!(fast.open(record, &mut a, &tag_b[..15]).is_err());
        }
    }

    #[test]
    fn key_pairs_are_the_same(seed in any::<u64>(), peer in any::<u64>()) {
        for id in [NamedGroup::X25519, NamedGroup::P256, NamedGroup::P384] {
            let [a, b] = [&rustcrypto::PROVIDER, &lightseal_dtls_aws_lc::PROVIDER].map(|provider| {
                let group = provider.group(id).unwrap();
                let ours = group.start(&mut Random::insecure(seed));
                let peer = group.start(&mut Random::insecure(peer));
                let share = ours.public_key().to_vec();
                (share, ours.complete(peer.public_key()).unwrap().as_bytes().to_vec())
            });
            prop_assert_eq!(a, b);
        }
    }
}
