//! The suites of DTLS 1.2 through their public API: sealed records open, changed ones do not, and
//! records equal those of other implementations.

use aes_gcm::aead::{AeadInOut, KeyInit};
use aes_gcm::{Aes128Gcm, Aes256Gcm, aes::Aes128};
use ccm::consts::{U8, U12, U16};
use chacha20poly1305::ChaCha20Poly1305;
use lightseal_dtls::crypto::rustcrypto::{AES_128_GCM, PROVIDER};
use lightseal_dtls::crypto::{
    Aead, CipherSuite12, CipherSuiteId, Exchange12, HashAlgorithm, KnownAnswer12, MasterSecret12,
    Provider, Record, SelfTestFailed,
};
use proptest::prelude::*;

type Ccm = ccm::Ccm<Aes128, U16, U12>;
type Ccm8 = ccm::Ccm<Aes128, U8, U12>;

fn keys(suite: &CipherSuite12, key: &[u8; 32], iv: &[u8; 12]) -> Box<dyn Aead> {
    (suite.aead)(&key[..suite.key_len], &iv[..suite.fixed_iv_len])
}

fn sealed(keys: &dyn Aead, record: Record<'_>, content: &[u8], tag_len: usize) -> [Vec<u8>; 2] {
    let (mut content, mut tag) = (content.to_vec(), vec![0; tag_len]);
    keys.seal(record, &mut content, &mut tag);
    [content, tag]
}

/// The record as an independent crate seals it, with a given nonce.
fn reference<A: AeadInOut + KeyInit>(
    key: &[u8; 32],
    nonce: &[u8; 12],
    header: &[u8],
    content: &[u8],
) -> [Vec<u8>; 2] {
    let aead = A::new_from_slice(&key[..A::key_size()]).unwrap();
    let mut content = content.to_vec();
    let nonce = nonce.as_slice().try_into().unwrap();
    let tag = aead.encrypt_inout_detached(nonce, header, content.as_mut_slice().into()).unwrap();
    [content, tag.to_vec()]
}

/// Code points, exchanges and lengths as in their RFCs.
#[test]
fn suites_of_the_rfcs() {
    use Exchange12::{EcdheEcdsa, EcdhePsk, Psk};
    let expected = [
        (0xd001, "TLS_ECDHE_PSK_WITH_AES_128_GCM_SHA256", EcdhePsk, 16, 16, 8),
        (0xd002, "TLS_ECDHE_PSK_WITH_AES_256_GCM_SHA384", EcdhePsk, 16, 32, 8),
        (0x00a8, "TLS_PSK_WITH_AES_128_GCM_SHA256", Psk, 16, 16, 8),
        (0x00a9, "TLS_PSK_WITH_AES_256_GCM_SHA384", Psk, 16, 32, 8),
        (0xccab, "TLS_PSK_WITH_CHACHA20_POLY1305_SHA256", Psk, 16, 32, 0),
        (0xc0a4, "TLS_PSK_WITH_AES_128_CCM", Psk, 16, 16, 8),
        (0xd003, "TLS_ECDHE_PSK_WITH_AES_128_CCM_8_SHA256", EcdhePsk, 8, 16, 8),
        (0xc0a8, "TLS_PSK_WITH_AES_128_CCM_8", Psk, 8, 16, 8),
        (0xc02b, "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", EcdheEcdsa, 16, 16, 8),
        (0xc02c, "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", EcdheEcdsa, 16, 32, 8),
        (0xcca9, "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", EcdheEcdsa, 16, 32, 0),
        (0xc0ac, "TLS_ECDHE_ECDSA_WITH_AES_128_CCM", EcdheEcdsa, 16, 16, 8),
        (0xc0ae, "TLS_ECDHE_ECDSA_WITH_AES_128_CCM_8", EcdheEcdsa, 8, 16, 8),
    ];
    assert_eq!(PROVIDER.suites_12.len(), expected.len());
    for (suite, (id, name, exchange, tag_len, key_len, explicit)) in
        PROVIDER.suites_12.iter().zip(expected)
    {
        assert_eq!((suite.id, suite.name), (CipherSuiteId(id), name));
        assert_eq!(suite.id.name().map(|name| format!("TLS_{name}")).as_deref(), Some(name));
        assert_eq!((suite.exchange, suite.tag_len, suite.key_len), (exchange, tag_len, key_len));
        assert_eq!(suite.explicit_nonce_len(), explicit, "{name}");
        let long = name.ends_with("SHA384");
        assert_eq!(suite.hash.algorithm() == HashAlgorithm::Sha384, long, "{name}");
        assert!(PROVIDER.suite_12(suite.id).is_some_and(|found| found.id == suite.id));
        assert!(PROVIDER.suite(suite.id).is_none(), "{name} is none of 1.3");
    }
    assert!(PROVIDER.suite_12(AES_128_GCM.id).is_none());
}

#[test]
fn the_self_test_notices_a_wrong_suite() {
    static RIGHT: CipherSuite12 = lightseal_dtls::crypto::rustcrypto::PSK_WITH_AES_128_CCM;
    static WRONG: CipherSuite12 = CipherSuite12::new(
        RIGHT.id,
        "wrong",
        RIGHT.exchange,
        RIGHT.limits,
        |key, iv| {
            let mut other = [0; 16];
            other.copy_from_slice(key);
            other[15] ^= 1;
            (RIGHT.aead)(&other, iv)
        },
        RIGHT.known_answer,
    );
    static SHORT: CipherSuite12 = CipherSuite12::new(
        RIGHT.id,
        "short",
        RIGHT.exchange,
        RIGHT.limits,
        RIGHT.aead,
        KnownAnswer12 { sealed: b"0123456789" },
    );
    static OF_WRONG: Provider = PROVIDER.with_suites_12(&[&WRONG]);
    static OF_SHORT: Provider = PROVIDER.with_suites_12(&[&SHORT]);
    assert_eq!(OF_WRONG.self_test(), Err(SelfTestFailed("wrong")));
    assert_eq!(OF_SHORT.self_test(), Err(SelfTestFailed("short")));
    assert_eq!(PROVIDER.self_test(), Ok(()));
}

#[test]
fn each_direction_has_keys_of_its_own() {
    let record = Record { number: 1 << 48, header: &[0; 13] };
    for suite in PROVIDER.suites_12 {
        let master = MasterSecret12::from_bytes(suite.hash, [5; 48]);
        let all = [[1, 2], [2, 1], [1, 1]].map(|[client, server]| {
            let keys = master.keys(suite, &[client; 32], &[server; 32]);
            [keys.client, keys.server].map(|aead| sealed(&*aead, record, b"x", suite.tag_len))
        });
        let all = all.concat();
        for (i, one) in all.iter().enumerate() {
            assert!(!all[i + 1..].contains(one), "{}", suite.name);
        }
    }
}

proptest! {
    /// The nonce as the RFCs define it, and the key as in the key block.
    #[test]
    fn records_are_those_of_other_crates(
        key in any::<[u8; 32]>(),
        iv in any::<[u8; 12]>(),
        number in any::<u64>(),
        header in prop::collection::vec(any::<u8>(), 13..300),
        content in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let record = Record { number, header: &header };
        let mut explicit = [0; 12];
        explicit[..4].copy_from_slice(&iv[..4]);
        explicit[4..].copy_from_slice(&number.to_be_bytes());
        let mut xored = iv;
        xored[4..].iter_mut().zip(number.to_be_bytes()).for_each(|(byte, n)| *byte ^= n);
        for suite in PROVIDER.suites_12 {
            let ours = sealed(&*keys(suite, &key, &iv), record, &content, suite.tag_len);
            let reference = match suite.id.0 {
                0x00a8 | 0xd001 | 0xc02b => reference::<Aes128Gcm>,
                0x00a9 | 0xd002 | 0xc02c => reference::<Aes256Gcm>,
                0xc0a4 | 0xc0ac => reference::<Ccm>,
                0xc0a8 | 0xd003 | 0xc0ae => reference::<Ccm8>,
                _ => reference::<ChaCha20Poly1305>,
            };
            let nonce = if suite.explicit_nonce_len() == 8 { &explicit } else { &xored };
            prop_assert_eq!(ours, reference(&key, nonce, &header, &content), "{}", suite.name);
        }
    }

    /// One changed bit anywhere is noticed, and an unchanged record opens.
    #[test]
    fn tags_cover_everything(
        key in any::<[u8; 32]>(),
        iv in any::<[u8; 12]>(),
        number in any::<u64>(),
        header in prop::collection::vec(any::<u8>(), 13..300),
        content in prop::collection::vec(any::<u8>(), 0..300),
        flip in any::<prop::sample::Index>(),
    ) {
        for suite in PROVIDER.suites_12 {
            let keys = keys(suite, &key, &iv);
            let record = Record { number, header: &header };
            let [body, tag] = sealed(&*keys, record, &content, suite.tag_len);

            let mut opened = body.clone();
            prop_assert!(keys.open(record, &mut opened, &tag).is_ok());
            prop_assert_eq!(&opened, &content);
            for bad in [&tag[..suite.tag_len - 1], &[], &[&tag[..], &[0]].concat()] {
                let result = keys.open(record, &mut body.clone(), bad);
                prop_assert!(result.is_err(), "{}: tag of {} bytes", suite.name, bad.len());
            }

            let mut all = [&number.to_be_bytes(), &header[..], &body, &tag].concat();
            let bit = flip.index(all.len() * 8);
            all[bit / 8] ^= 1 << (bit % 8);
            let (number, rest) = all.split_first_chunk().unwrap();
            let (header, rest) = rest.split_at(header.len());
            let (body, tag) = rest.split_at(body.len());
            let record = Record { number: u64::from_be_bytes(*number), header };
            let result = keys.open(record, &mut body.to_vec(), tag);
            prop_assert!(result.is_err(), "{}: bit {bit}", suite.name);
        }
    }
}
