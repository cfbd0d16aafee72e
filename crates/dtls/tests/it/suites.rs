//! Every suite through its public API: sealed records open, changed ones do not, and the
//! constructions agree with other implementations.

use aes::Aes128;
use ccm::aead::{AeadInOut, KeyInit};
use ccm::consts::{U8, U12, U16};
use lightseal_dtls::crypto::rustcrypto::{
    AES_128_CCM, AES_128_CCM_8, AES_128_CTR_LIGHTMAC, AES_128_GCM, AES_256_GCM, CHACHA20_POLY1305,
    PROVIDER, SHA256_SHA256,
};
use lightseal_dtls::crypto::{CipherSuite, Keying, PrfProtection, Record, Sha256, TrafficSecret};
use proptest::prelude::*;

const SUITES: [&CipherSuite; 7] = [
    &AES_128_GCM,
    &AES_256_GCM,
    &CHACHA20_POLY1305,
    &AES_128_CCM,
    &AES_128_CCM_8,
    &AES_128_CTR_LIGHTMAC,
    &SHA256_SHA256,
];
/// Suites whose tags may be aggregated.
const PRF_SUITES: [&CipherSuite; 3] = [&AES_128_CCM, &AES_128_CTR_LIGHTMAC, &SHA256_SHA256];
const CONTEXT: [u8; 3] = [1, 16, 0];

fn aggregated(suite: &CipherSuite, secret: [u8; 32], context: [u8; 3]) -> Box<dyn PrfProtection> {
    match suite.keying {
        Keying::Prf { aggregated, .. } => {
            aggregated(&TrafficSecret::new(&Sha256, &secret).derivation(), context)
        }
        _ => panic!("{} has no aggregated tags", suite.name),
    }
}

/// A record sealed by `ccm`, an independent crate.
fn reference_ccm(
    secret: &TrafficSecret,
    context: &[u8],
    tag_len: usize,
    record: Record<'_>,
    content: &mut [u8],
) -> Vec<u8> {
    let (mut key, mut nonce) = ([0; 16], [0; 12]);
    secret.expand("key", context, &mut key);
    secret.expand("iv", context, &mut nonce);
    let number = record.number.to_be_bytes();
    nonce[4..].iter_mut().zip(number).for_each(|(byte, n)| *byte ^= n);
    if tag_len == 8 {
        let aead = ccm::Ccm::<Aes128, U8, U12>::new(&key.into());
        let tag = aead.encrypt_inout_detached(&nonce.into(), record.header, content.into());
        tag.unwrap().to_vec()
    } else {
        let aead = ccm::Ccm::<Aes128, U16, U12>::new(&key.into());
        let tag = aead.encrypt_inout_detached(&nonce.into(), record.header, content.into());
        tag.unwrap().to_vec()
    }
}

#[test]
fn short_tags_and_clear_text_are_in_no_default() {
    let settings = lightseal_dtls::Settings::new(&PROVIDER);
    assert!(!settings.suites.contains(&SHA256_SHA256.id));
    assert!(PROVIDER.suite(SHA256_SHA256.id).is_some_and(|suite| !suite.encrypts));
    let tag_len = |id| match PROVIDER.suite(id) {
        Some(suite) => suite.tag_len,
        None => PROVIDER.suite_12(id).unwrap().tag_len,
    };
    assert!(settings.suites.iter().all(|id| tag_len(*id) == 16));
    assert!(PROVIDER.suite(AES_128_CCM_8.id).is_some(), "it can be chosen");
    assert!(matches!(AES_128_CCM_8.keying, Keying::Aead(_)), "short tags are never aggregated");
}

#[test]
fn only_whole_tags_may_be_aggregated() {
    for suite in PROVIDER.suites {
        assert!(suite.tag_len >= 16 || matches!(suite.keying, Keying::Aead(_)), "{}", suite.name);
    }
    for suite in [&AES_128_GCM, &CHACHA20_POLY1305, &AES_128_CCM_8] {
        assert!(matches!(suite.keying, Keying::Aead(_)), "{}", suite.name);
    }
}

#[test]
fn the_self_test_notices_a_wrong_suite() {
    use lightseal_dtls::crypto::{KnownAnswer, Provider, SelfTestFailed};
    static WRONG: CipherSuite = CipherSuite::new(
        AES_128_GCM.id,
        "wrong",
        AES_128_GCM.limits,
        Keying::Aead(|secret| {
            let mut other = [0; 32];
            secret.expand("other", &[], &mut other);
            AES_128_GCM.keying.plain(&TrafficSecret::new(&Sha256, &other).derivation())
        }),
        KnownAnswer::AES_128_GCM,
    );
    static BROKEN: Provider = PROVIDER.with_suites(&[&WRONG]);
    assert_eq!(BROKEN.self_test(), Err(SelfTestFailed("wrong")));
    assert_eq!(PROVIDER.self_test(), Ok(()));
}

#[test]
fn bodies_end_where_their_tags_begin() {
    for suite in PRF_SUITES {
        let keys = aggregated(suite, [3; 32], CONTEXT);
        let record = Record { number: 1, header: &[0x2f] };
        let seal = |content_type: u8| {
            let mut content = [content_type];
            let _ = keys.seal(record, &mut content);
            content[0]
        };
        // (type, bytes after the type, length of the aggregate, length of the content found)
        let cases = [
            (23, 0, 0, Some(1)),
            (23, 0, 1, None),
            (23, 4, 4, Some(1)),
            (23, 3, 4, None),
            (22, 15, 0, None),
            (22, 16, 0, Some(1)),
            (22, 19, 4, None),
            (22, 20, 4, Some(1)),
            (23, 1 << 14, 0, Some((1 << 14) + 1)),
            (23, (1 << 14) + 1, 0, None),
            (23, 5, usize::MAX, None),
            (22, 5, usize::MAX, None),
        ];
        for (content_type, rest, aggregate_len, expected) in cases {
            let mut body = vec![0; 1 + rest];
            body[0] = seal(content_type);
            let opened = keys.open(record, &mut body, aggregate_len);
            let found = opened.map(|opened| {
                assert_eq!(opened.own_tag, content_type != 23);
                opened.content_len
            });
            assert_eq!(found, expected, "{} {content_type} {rest} {aggregate_len}", suite.name);
        }
        assert!(keys.open(record, &mut [], 0).is_none());
    }
}

#[test]
fn parameters_bind_everything() {
    for suite in PRF_SUITES {
        let record = Record { number: 1, header: &[0x2f] };
        let [a, b] = [[1, 16, 0], [1, 8, 0]].map(|context| {
            let keys = aggregated(suite, [3; 32], context);
            let mut content = *b"\x17content that is the same";
            let state = keys.seal(record, &mut content);
            (content, [0, 1, 2, 255].map(|i| keys.block(&state, i)), keys.mask(&[0; 16]))
        });
        assert!(a.1.iter().all(|block| !b.1.contains(block)));
        assert_eq!(a.0 != b.0, suite.encrypts, "{}", suite.name);
        assert_eq!(a.2 != b.2, suite.encrypts, "{}", suite.name);
    }
}

/// A byte that moves between a long header and the content is noticed. RFC 9150 leaves this to the
/// header itself.
#[test]
fn long_headers_end_where_they_end() {
    for len in [1, 253, 254, 255, 256, 260] {
        for suite in SUITES.into_iter().filter(|suite| suite.encrypts) {
            let keys = suite.keying.plain(&TrafficSecret::new(&Sha256, &[1; 32]).derivation());
            let all = [9; 300];
            let (header, content) = all.split_at(len);
            let (mut sealed, mut tag) = (content.to_vec(), vec![0; suite.tag_len]);
            keys.seal(Record { number: 3, header }, &mut sealed, &mut tag);
            let moved = [header, &sealed[..1]].concat();
            let longer = Record { number: 3, header: &moved };
            assert!(keys.open(longer, &mut sealed[1..].to_vec(), &tag).is_err(), "{}", suite.name);
            assert!(keys.open(Record { number: 3, header }, &mut sealed, &tag).is_ok());
        }
    }
}

/// The input of HMAC (RFC 9150, section 5), written out; nothing is encrypted.
#[test]
fn integrity_only_covers_nonce_header_and_content_and_hides_nothing() {
    use hmac::{Hmac, Mac};
    let secret = TrafficSecret::new(&Sha256, &[1; 32]);
    let derived = |label: &str, context: &[u8]| {
        let mut key = [0; 32];
        secret.expand(label, context, &mut key);
        key
    };
    let hmac = |key: [u8; 32], parts: &[&[u8]]| {
        let mac = Hmac::<sha2::Sha256>::new_from_slice(&key).unwrap();
        let mac = parts.iter().fold(mac, Mac::chain_update);
        mac.finalize().into_bytes().to_vec()
    };
    let content = *b"in clear";
    let record = Record { number: 0x0102_0304_0506, header: &[0x2f, 7, 7, 0, 40] };
    for context in [&[][..], &CONTEXT] {
        let mut nonce = derived("iv", context);
        nonce[26..].iter_mut().zip(1..=6).for_each(|(byte, n)| *byte ^= n);
        let expected = hmac(derived("key", context), &[&nonce, record.header, &content]);
        let mut sealed = content;
        if context.is_empty() {
            let keys = SHA256_SHA256.keying.plain(&secret.derivation());
            let mut tag = [0; 32];
            keys.seal(record, &mut sealed, &mut tag);
            assert_eq!(tag.to_vec(), expected);
            assert_eq!(keys.mask(&[9; 16]), [0; 2], "numbers are in clear");
        } else {
            let keys = aggregated(&SHA256_SHA256, [1; 32], CONTEXT);
            let state = keys.seal(record, &mut sealed);
            assert_eq!(keys.block(&state, 0), expected[..16]);
            for i in [1, 2, 255] {
                let key = derived("agg x", &[&CONTEXT[..], &[i]].concat());
                let block = hmac(key, &[&[i], &expected[..16]]);
                assert_eq!(keys.block(&state, i), block[..16], "{i}");
            }
            assert_eq!(keys.mask(&[9; 16]), [0; 2], "numbers are in clear");
        }
        assert_eq!(sealed, content);
    }
}

/// The input of LightMAC, written out, for headers around the limit of the two-byte length.
#[test]
fn lightmac_covers_number_header_and_what_was_encrypted() {
    use lightmac::LightMac;
    let secret = TrafficSecret::new(&Sha256, &[1; 32]);
    let key = |label: &str, context: &[u8]| {
        let mut key = [0; 16];
        secret.expand(label, context, &mut key);
        key.into()
    };
    let mac = LightMac::<Aes128>::new(&key("lm1", &[0; 3]), &key("lm2", &[0; 4]), 16, 128).unwrap();
    let lengths: [(usize, &[u8]); 5] =
        [(0, &[0]), (5, &[5]), (254, &[254]), (255, &[255, 0]), (260, &[255, 5])];
    for (len, encoded) in lengths {
        let header = vec![7; len];
        let (mut content, mut tag) = (b"some content".to_vec(), [0; 16]);
        let record = Record { number: 0x0102_0304_0506, header: &header };
        AES_128_CTR_LIGHTMAC.keying.plain(&secret.derivation()).seal(
            record,
            &mut content,
            &mut tag,
        );
        let expected = mac.tag(&[&[1, 2, 3, 4, 5, 6], encoded, &header, &content]).unwrap();
        assert_eq!(expected.as_bytes(), tag, "{len}");
    }
}

proptest! {
    #[test]
    fn ccm_agrees_with_another_crate(
        secret in any::<[u8; 32]>(),
        number in 0u64..1 << 48,
        header in prop::collection::vec(any::<u8>(), 0..60),
        content in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let secret = TrafficSecret::new(&Sha256, &secret);
        let record = Record { number, header: &header };
        for suite in [&AES_128_CCM, &AES_128_CCM_8] {
            let (mut ours, mut theirs) = (content.clone(), content.clone());
            let mut tag = vec![0; suite.tag_len];
            suite.keying.plain(&secret.derivation()).seal(record, &mut ours, &mut tag);
            let expected = reference_ccm(&secret, &[], suite.tag_len, record, &mut theirs);
            prop_assert_eq!((&ours, &tag), (&theirs, &expected));
        }
    }

    #[test]
    fn aggregated_ccm_is_ccm_under_keys_of_its_own(
        secret in any::<[u8; 32]>(),
        number in 0u64..1 << 48,
        content in prop::collection::vec(any::<u8>(), 1..200),
    ) {
        let record = Record { number, header: &[0x2f, 1, 2] };
        let (mut ours, mut theirs) = (content.clone(), content);
        let keys = aggregated(&AES_128_CCM, secret, CONTEXT);
        let state = keys.seal(record, &mut ours);
        let tag = reference_ccm(&TrafficSecret::new(&Sha256, &secret), &CONTEXT, 16, record, &mut theirs);
        prop_assert_eq!(&ours, &theirs);
        prop_assert_eq!(keys.block(&state, 0).to_vec(), tag);
    }

    /// One changed bit anywhere is noticed, and an unchanged record opens.
    #[test]
    fn plain_tags_cover_everything(
        secret in any::<[u8; 32]>(),
        number in 0u64..1 << 48,
        header in prop::collection::vec(any::<u8>(), 1..40),
        content in prop::collection::vec(any::<u8>(), 0..300),
        flip in any::<prop::sample::Index>(),
    ) {
        for suite in SUITES {
            let keys = suite.keying.plain(&TrafficSecret::new(&Sha256, &secret).derivation());
            let mut sealed = content.clone();
            let mut tag = vec![0; suite.tag_len];
            let record = Record { number, header: &header };
            keys.seal(record, &mut sealed, &mut tag);

            let mut opened = sealed.clone();
            prop_assert!(keys.open(record, &mut opened, &tag).is_ok());
            prop_assert_eq!(&opened, &content);
            for bad in [&tag[..suite.tag_len - 1], &[], &[&tag[..], &[0]].concat()] {
                let result = keys.open(record, &mut sealed.clone(), bad);
                prop_assert!(result.is_err(), "{}: tag of {} bytes", suite.name, bad.len());
            }

            // One bit of number ‖ header ‖ content ‖ tag is flipped.
            let mut all = [&number.to_be_bytes()[2..], &header, &sealed, &tag].concat();
            let bit = flip.index(all.len() * 8);
            all[bit / 8] ^= 1 << (bit % 8);
            let (number, rest) = all.split_at(6);
            let number = number.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
            let (header, rest) = rest.split_at(header.len());
            let (content, tag) = rest.split_at(sealed.len());
            let result = keys.open(Record { number, header }, &mut content.to_vec(), tag);
            prop_assert!(result.is_err(), "{}: bit {bit}", suite.name);
        }
    }

    /// A record opens to what was sealed, regardless of the bytes after it, and any change of
    /// number, header or content changes every output block.
    #[test]
    fn aggregated_records_open(
        secret in any::<[u8; 32]>(),
        number in 0u64..1 << 48,
        header in prop::collection::vec(any::<u8>(), 1..40),
        content in prop::collection::vec(any::<u8>(), 1..300),
        tags in prop::collection::vec(any::<u8>(), 0..64),
        flip in any::<prop::sample::Index>(),
    ) {
        for suite in PRF_SUITES {
            let keys = aggregated(suite, secret, CONTEXT);
            let record = Record { number, header: &header };
            let mut body = content.clone();
            let state = keys.seal(record, &mut body);
            let sealed = body.clone();
            let own = if content[0] == 23 { &[][..] } else { &keys.block(&state, 0)[..] };
            body.extend_from_slice(own);
            body.extend_from_slice(&tags);
            let opened = keys.open(record, &mut body, tags.len()).unwrap();
            prop_assert_eq!(opened.content_len, content.len());
            prop_assert_eq!(opened.own_tag, content[0] != 23);
            prop_assert_eq!(&body, &[&content[..], own, &tags].concat());
            let blocks = [0, 1, 2, 255].map(|i| keys.block(&state, i));
            prop_assert_eq!(blocks, [0, 1, 2, 255].map(|i| keys.block(&opened.state, i)));
            prop_assert!((0..4).all(|i| !blocks[i + 1..].contains(&blocks[i])));

            let mut all = [&number.to_be_bytes()[2..], &header, &sealed].concat();
            let bit = flip.index(all.len() * 8);
            all[bit / 8] ^= 1 << (bit % 8);
            let (number, rest) = all.split_at(6);
            let number = number.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
            let (header, body) = rest.split_at(header.len());
            let mut body = body.to_vec();
            // A changed type may move the end of the content; `None` is not a successful forgery
            // either.
            if let Some(opened) = keys.open(Record { number, header }, &mut body, 0) {
                let changed = [0, 1, 2, 255].map(|i| keys.block(&opened.state, i));
                prop_assert!(blocks.iter().zip(&changed).all(|(a, b)| a != b), "bit {bit}");
            }
        }
    }
}
