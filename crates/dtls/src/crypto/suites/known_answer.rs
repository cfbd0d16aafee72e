//! The results that every suite must compute from one fixed input.
//!
//! DTLS 1.3: secret 00 01 … 1f, record number 5, header 23 05, payload "0123456789" of type 23,
//! sample 00 01 … 0f, aggregation context 01 10 00. DTLS 1.2: key 00 01 …, IV 20 21 …, the same
//! payload in epoch 1 with sequence number 5. The answers here come from a second implementation,
//! `tests/known_answers.py`.

use super::outputs::AGGREGATION_BLOCKS;
use crate::crypto::{
    Aead, Block, CipherSuite, CipherSuite12, Hash, HashAlgorithm, HashValue, HmacKey, Keying,
    PrfProtection, Record, TrafficSecret,
};

/// The aggregation context of the fixed input: scheme 1, n = 16.
const CONTEXT: [u8; 3] = [1, 16, 0];
const RECORD: Record<'static> = Record { number: 5, header: &[0x23, 0x05] };
/// The plaintext in the standard layout.
const PLAIN: [u8; 11] = *b"0123456789\x17";
/// The header is epoch ‖ sequence number ‖ type ‖ version ‖ length (RFC 5246, section 6.2.3.3).
const RECORD_12: Record<'static> =
    Record { number: 1 << 48 | 5, header: &[0, 1, 0, 0, 0, 0, 0, 5, 23, 0xfe, 0xfd, 0, 10] };
/// The plaintext in DTLS 1.2, where the type is in the header.
const PLAIN_12: [u8; 10] = *b"0123456789";
/// The plaintext with the content type first.
const AGGREGATED: [u8; 11] = *b"\x170123456789";

/// The known answers of a DTLS 1.3 suite.
#[derive(Clone, Copy, Debug)]
pub struct KnownAnswer {
    /// Content and tag in the standard layout.
    pub plain: &'static [u8],
    /// The mask for the fixed sample.
    pub mask: [u8; 2],
    /// The answers with aggregated tags, if the suite supports them.
    pub aggregated: Option<AggregatedAnswer>,
}

/// The known answers of a suite with aggregated tags.
#[derive(Clone, Copy, Debug)]
pub struct AggregatedAnswer {
    /// The encrypted content.
    pub content: [u8; 11],
    /// Output blocks 0, 1, 2, 255, 254 and 253.
    pub blocks: [Block; AGGREGATION_BLOCKS.len()],
    /// The mask for the fixed sample.
    pub mask: [u8; 2],
}

impl KnownAnswer {
    /// Whether `suite` computes these answers.
    pub(crate) fn holds(&self, suite: &CipherSuite) -> bool {
        let secret: HashValue = core::array::from_fn(|i| i as u8);
        let keys = TrafficSecret::new(suite.hash, &secret).derivation();
        let protection = suite.keying.plain(&keys);
        let plain = aead_holds(&*protection, RECORD, PLAIN, suite.tag_len, self.plain);
        let mask = protection.mask(&sample()) == self.mask;
        let aggregated = match (&suite.keying, &self.aggregated) {
            (Keying::Aead(_), None) => true,
            (Keying::Prf { aggregated, .. }, Some(answer)) => {
                answer.holds(&*aggregated(&keys, CONTEXT))
            }
            _ => false,
        };
        plain && mask && aggregated
    }
}

/// The known answer of a DTLS 1.2 suite.
#[derive(Clone, Copy, Debug)]
pub struct KnownAnswer12 {
    /// The encrypted content and its tag.
    pub sealed: &'static [u8],
}

impl KnownAnswer12 {
    /// Whether `suite` computes this answer.
    pub(crate) fn holds(&self, suite: &CipherSuite12) -> bool {
        let key: [u8; 32] = core::array::from_fn(|i| i as u8);
        let iv: [u8; 12] = core::array::from_fn(|i| 0x20 + i as u8);
        let (Some(key), Some(iv)) = (key.get(..suite.key_len), iv.get(..suite.fixed_iv_len)) else {
            return false;
        };
        aead_holds(&*(suite.aead)(key, iv), RECORD_12, PLAIN_12, suite.tag_len, self.sealed)
    }
}

/// The known answers of a hash algorithm for the message "abc", in the parts "a" and "bc".
pub(crate) struct HashAnswer {
    digest: HashValue,
    /// HMAC under a key of 20 bytes 0b.
    hmac: HashValue,
    /// HMAC under a key of 131 bytes aa, which is longer than a block.
    hmac_long: HashValue,
    /// HKDF of 42 bytes: the salt is the first key, input keying material and info are the message.
    okm: [u8; 42],
}

impl HashAnswer {
    /// Whether `hash` computes the answers of its algorithm.
    pub(crate) fn holds(hash: &'static dyn Hash) -> bool {
        let answer = match hash.algorithm() {
            HashAlgorithm::Sha256 => &Self::SHA_256,
        };
        let len = hash.algorithm().output_len();
        let (message, key) = ([&b"a"[..], b"bc"], [0x0b; 20]);
        let value = |compute: &dyn Fn(&mut [u8])| {
            let mut out = HashValue::default();
            compute(&mut out[..len]);
            out
        };
        let mut running = hash.start();
        running.update(b"a");
        let mut other = running.clone();
        other.update(b"x");
        let _ = value(&|out| running.value(out));
        running.update(b"bc");
        let digests = [value(&|out| hash.digest(&message, out)), value(&|out| running.value(out))];
        let macs = |key: &[u8], expected| {
            let kept = HmacKey::new(hash, key);
            value(&|out| hash.hmac(key, &message, out)) == expected
                && value(&|out| kept.mac(&message, out)) == expected
        };
        let prk = value(&|out| hash.extract(&key, b"abc", out));
        let expands = |expand: &dyn Fn(&mut [u8])| {
            let mut okm = [0; 42];
            expand(&mut okm);
            okm == answer.okm
        };
        digests == [answer.digest; 2]
            && macs(&key, answer.hmac)
            && macs(&[0xaa; 131], answer.hmac_long)
            && expands(&|okm| hash.expand(&prk[..len], &message, okm))
            && expands(&|okm| HmacKey::new(hash, &prk[..len]).expand(&message, okm))
    }

    const SHA_256: Self = Self {
        digest: [
            0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40, 0xde, 0x5d, 0xae,
            0x22, 0x23, 0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17, 0x7a, 0x9c, 0xb4, 0x10, 0xff, 0x61,
            0xf2, 0x00, 0x15, 0xad,
        ],
        hmac: [
            0x72, 0x1e, 0x28, 0x1e, 0x92, 0x41, 0x0e, 0x54, 0x5a, 0x43, 0x1e, 0xac, 0x66, 0x26,
            0x77, 0x21, 0xb9, 0x17, 0xc6, 0xbe, 0xaf, 0x08, 0xa8, 0x6d, 0x6e, 0x4b, 0xc6, 0x7b,
            0x65, 0x7b, 0x92, 0xde,
        ],
        hmac_long: [
            0xc2, 0x17, 0x70, 0xe7, 0xa2, 0x94, 0xfd, 0x85, 0xf9, 0xe8, 0xad, 0x80, 0xb2, 0xd1,
            0xe9, 0xcc, 0xcb, 0x25, 0xd4, 0x96, 0x01, 0x5f, 0x87, 0x08, 0xe6, 0x41, 0x35, 0x81,
            0x20, 0xf4, 0x69, 0x76,
        ],
        okm: [
            0x59, 0x8d, 0x47, 0xdb, 0xe1, 0x1e, 0x1a, 0xe1, 0x91, 0xc3, 0xdf, 0x54, 0x42, 0x31,
            0x3a, 0xee, 0xaa, 0x9e, 0x92, 0x04, 0xed, 0x32, 0x9d, 0x59, 0x2b, 0x40, 0xd7, 0x87,
            0x4f, 0x0e, 0x10, 0x7f, 0xb3, 0xe2, 0xeb, 0x13, 0x5a, 0x9a, 0x17, 0xee, 0x57, 0x49,
        ],
    };
}

/// Whether `plain` is sealed to `expected`, `expected` opens, and a changed tag does not.
fn aead_holds<const N: usize, A: Aead + ?Sized>(
    keys: &A,
    record: Record<'_>,
    plain: [u8; N],
    tag_len: usize,
    expected: &[u8],
) -> bool {
    let mut content = plain;
    let mut buf = [0; 32];
    let Some((tag, _)) = buf.split_at_mut_checked(tag_len).filter(|(tag, _)| !tag.is_empty())
    else {
        return false;
    };
    keys.seal(record, &mut content, tag);
    let sealed = expected.split_at_checked(N) == Some((&content[..], &tag[..]));
    let opened = keys.open(record, &mut content, tag).is_ok() && content == plain;
    keys.seal(record, &mut content, tag);
    tag[tag_len - 1] ^= 1;
    let refused = keys.open(record, &mut content, tag).is_err();
    sealed && opened && refused
}

impl AggregatedAnswer {
    /// Whether `keys` compute these answers.
    pub(crate) fn holds(&self, keys: &dyn PrfProtection) -> bool {
        let mut content = AGGREGATED;
        let state = keys.seal(RECORD, &mut content);
        let sealed = content == self.content;
        let blocks = AGGREGATION_BLOCKS.map(|index| keys.block(&state, index)) == self.blocks;
        let opened = keys.open(RECORD, &mut content, 0).is_some_and(|opened| {
            opened.content_len == AGGREGATED.len()
                && !opened.own_tag
                && opened.state.as_bytes() == state.as_bytes()
        });
        let mask = keys.mask(&sample()) == self.mask;
        sealed && blocks && opened && content == AGGREGATED && mask
    }
}

fn sample() -> Block {
    core::array::from_fn(|i| i as u8)
}

impl KnownAnswer {
    /// TLS_AES_128_GCM_SHA256.
    pub const AES_128_GCM: Self = Self {
        plain: &[
            0x10, 0xcc, 0xd6, 0x5b, 0x69, 0x10, 0x00, 0xcf, 0xa6, 0xb7, 0x4b, 0x43, 0x1d, 0xa8,
            0xf2, 0xa9, 0xbb, 0xfe, 0x3b, 0x1f, 0xfd, 0x0a, 0x6c, 0x7c, 0xd6, 0x8b, 0x3f,
        ],
        mask: [0x08, 0x26],
        aggregated: None,
    };

    /// TLS_CHACHA20_POLY1305_SHA256.
    pub const CHACHA20_POLY1305: Self = Self {
        plain: &[
            0x4c, 0xfb, 0xbb, 0x55, 0xf1, 0xeb, 0x44, 0x02, 0x47, 0x30, 0x15, 0xb1, 0x65, 0xd9,
            0xa9, 0xe1, 0x6f, 0xf6, 0x8f, 0x2e, 0x65, 0xa0, 0x73, 0xbc, 0x9a, 0x29, 0x5d,
        ],
        mask: [0x1e, 0x87],
        aggregated: None,
    };

    /// TLS_AES_128_CCM_SHA256.
    pub const AES_128_CCM: Self = Self {
        plain: &[
            0xcf, 0xac, 0xe4, 0x6b, 0x72, 0x1d, 0x14, 0x8f, 0x85, 0xa9, 0x82, 0xf7, 0x04, 0xe6,
            0x1a, 0x0e, 0x41, 0xb4, 0x76, 0xd8, 0x00, 0x34, 0x2c, 0x1e, 0xd3, 0x1a, 0x2b,
        ],
        mask: [0x08, 0x26],
        aggregated: Some(AggregatedAnswer {
            content: [0x54, 0xb0, 0x46, 0x57, 0x0c, 0xe3, 0xb1, 0xb6, 0x49, 0x5e, 0xf5],
            blocks: [
                [
                    0xc2, 0x76, 0x0c, 0x3e, 0x77, 0x91, 0xee, 0xbe, 0xa6, 0x67, 0x4a, 0xbf, 0x65,
                    0x73, 0x68, 0x6c,
                ],
                [
                    0x76, 0xcb, 0x07, 0xee, 0xc8, 0xcf, 0xe4, 0x18, 0x14, 0xc0, 0x25, 0x89, 0xed,
                    0xf0, 0x1e, 0x1c,
                ],
                [
                    0xec, 0x45, 0xce, 0xe6, 0xb1, 0xcf, 0x0c, 0x6a, 0xf4, 0x45, 0xc5, 0x02, 0x30,
                    0xba, 0x34, 0xe9,
                ],
                [
                    0xa3, 0xb8, 0xc1, 0xaf, 0x9e, 0xf3, 0xf4, 0x5b, 0x8f, 0xb8, 0x94, 0x31, 0x75,
                    0xa7, 0x9a, 0x38,
                ],
                [
                    0x25, 0x85, 0x3b, 0xb0, 0xde, 0x60, 0x30, 0x08, 0x3d, 0xb2, 0xba, 0x80, 0x3e,
                    0x6f, 0xd2, 0xf8,
                ],
                [
                    0x1a, 0x79, 0x8b, 0xd6, 0xe9, 0x22, 0xc8, 0x30, 0x32, 0xc3, 0x26, 0xb7, 0xe1,
                    0x36, 0x79, 0xc7,
                ],
            ],
            mask: [0x4b, 0xf1],
        }),
    };

    /// TLS_AES_128_CCM_8_SHA256.
    pub const AES_128_CCM_8: Self = Self {
        plain: &[
            0xcf, 0xac, 0xe4, 0x6b, 0x72, 0x1d, 0x14, 0x8f, 0x85, 0xa9, 0x82, 0xe3, 0xd2, 0xc0,
            0x6d, 0x71, 0x0b, 0x8f, 0x07,
        ],
        mask: [0x08, 0x26],
        aggregated: None,
    };

    /// AES-128-CTR with LightMAC.
    pub const AES_128_CTR_LIGHTMAC: Self = Self {
        plain: &[
            0x6d, 0xe5, 0xce, 0x86, 0x6e, 0xc1, 0xb4, 0x9c, 0xa0, 0xbe, 0x48, 0x33, 0xeb, 0xc5,
            0xbd, 0x62, 0xb9, 0x76, 0xd1, 0xd6, 0xd3, 0x0f, 0x86, 0x35, 0x94, 0x18, 0xac,
        ],
        mask: [0x4b, 0x5c],
        aggregated: Some(AggregatedAnswer {
            content: [0xac, 0x58, 0xe5, 0x69, 0x10, 0xf2, 0xbb, 0xf2, 0xdf, 0x7c, 0xd9],
            blocks: [
                [
                    0x9f, 0x10, 0xb6, 0x47, 0xc2, 0x07, 0x2b, 0x84, 0x6a, 0x4f, 0x8f, 0xb2, 0x62,
                    0x23, 0x80, 0xfb,
                ],
                [
                    0x2b, 0xef, 0x6f, 0xd2, 0x99, 0x35, 0xaf, 0x28, 0x3b, 0x7c, 0xe9, 0x7d, 0xfa,
                    0x9f, 0xa0, 0x11,
                ],
                [
                    0x32, 0x98, 0x4c, 0xf3, 0x01, 0xa9, 0x67, 0xb2, 0xda, 0xe3, 0xff, 0x9a, 0x4a,
                    0xf6, 0x4a, 0xd3,
                ],
                [
                    0x02, 0xaa, 0x28, 0x07, 0xb0, 0x08, 0x65, 0x0b, 0xf4, 0x6b, 0x84, 0x5d, 0xe7,
                    0xca, 0xf4, 0xff,
                ],
                [
                    0x8f, 0xd0, 0x3c, 0x90, 0x25, 0x1f, 0x12, 0xb6, 0x5d, 0xda, 0xd2, 0xc8, 0xfe,
                    0xd4, 0xfa, 0xdb,
                ],
                [
                    0xc5, 0xca, 0x83, 0xcb, 0x57, 0xf1, 0xa8, 0xc1, 0x90, 0xb6, 0x5a, 0x40, 0xe8,
                    0x24, 0x83, 0xc3,
                ],
            ],
            mask: [0x4b, 0xf1],
        }),
    };

    /// AES_128_CTR_LIGHTMAC_8_SHA256: the tag above, truncated to 8 bytes.
    pub const AES_128_CTR_LIGHTMAC_8: Self = Self {
        plain: &[
            0x6d, 0xe5, 0xce, 0x86, 0x6e, 0xc1, 0xb4, 0x9c, 0xa0, 0xbe, 0x48, 0x33, 0xeb, 0xc5,
            0xbd, 0x62, 0xb9, 0x76, 0xd1,
        ],
        mask: [0x4b, 0x5c],
        aggregated: None,
    };

    /// TLS_SHA256_SHA256.
    pub const SHA256_SHA256: Self = Self {
        plain: &[
            0x30, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x17, 0x88, 0x19, 0x0f,
            0x60, 0x64, 0x41, 0xb1, 0xb1, 0x32, 0x35, 0x09, 0xf1, 0x40, 0x02, 0xa7, 0x61, 0xf9,
            0x0b, 0xce, 0xf8, 0xf9, 0x95, 0xc8, 0x5c, 0xbf, 0x1d, 0xa7, 0xed, 0x43, 0x38, 0x32,
            0x8e,
        ],
        mask: [0; 2],
        aggregated: Some(AggregatedAnswer {
            content: AGGREGATED,
            blocks: [
                [
                    0xeb, 0xe8, 0x10, 0xe9, 0x30, 0x02, 0xee, 0xd5, 0x02, 0x93, 0xe6, 0x39, 0x1d,
                    0x84, 0xd3, 0x37,
                ],
                [
                    0x09, 0xf4, 0xd7, 0x45, 0x8a, 0x2f, 0x7e, 0x2b, 0x4a, 0xc4, 0x3b, 0xf8, 0xcf,
                    0x62, 0xe4, 0xf5,
                ],
                [
                    0x0e, 0x39, 0xe3, 0x07, 0xd1, 0xc4, 0x85, 0x13, 0xdb, 0xa3, 0x2d, 0xd8, 0x16,
                    0x18, 0xc3, 0xa8,
                ],
                [
                    0x96, 0x76, 0x26, 0xe6, 0x1b, 0xff, 0x6c, 0x64, 0xcd, 0xe9, 0x03, 0x10, 0x66,
                    0xdb, 0x41, 0xbd,
                ],
                [
                    0x80, 0x75, 0xec, 0xae, 0x76, 0x52, 0xe2, 0x98, 0x35, 0xbf, 0x42, 0x67, 0xdf,
                    0xf6, 0x77, 0x2b,
                ],
                [
                    0xaf, 0xfa, 0xeb, 0xc5, 0x6c, 0xb4, 0xd0, 0x37, 0xb9, 0x5d, 0x00, 0x86, 0x06,
                    0xa4, 0xac, 0x56,
                ],
            ],
            mask: [0; 2],
        }),
    };
}

impl KnownAnswer12 {
    /// TLS_PSK_WITH_AES_128_GCM_SHA256 and its ECDHE form.
    pub const AES_128_GCM: Self = Self {
        sealed: &[
            0x31, 0x5d, 0x3f, 0x1f, 0x8e, 0xc0, 0x5e, 0x50, 0x1a, 0x1f, 0x65, 0x9d, 0x2c, 0xc9,
            0xc3, 0x03, 0x01, 0x63, 0x6b, 0xcf, 0xa9, 0x6d, 0x18, 0xe2, 0x45, 0xec,
        ],
    };

    /// TLS_PSK_WITH_CHACHA20_POLY1305_SHA256.
    pub const CHACHA20_POLY1305: Self = Self {
        sealed: &[
            0xf0, 0x4b, 0x1a, 0xd0, 0xbf, 0x2b, 0xbc, 0x54, 0x48, 0xa0, 0x7f, 0xf7, 0x2f, 0x95,
            0x00, 0x19, 0x87, 0x0c, 0xd9, 0xea, 0x2d, 0xaa, 0x77, 0x7f, 0x75, 0x5a,
        ],
    };

    /// TLS_PSK_WITH_AES_128_CCM.
    pub const AES_128_CCM: Self = Self {
        sealed: &[
            0x10, 0x7c, 0x57, 0x20, 0xc4, 0x89, 0x71, 0x5b, 0x80, 0xc9, 0x8e, 0xfc, 0xd9, 0xc1,
            0x23, 0x48, 0x8c, 0xbc, 0xde, 0xcb, 0xfc, 0x10, 0x21, 0xa2, 0x4b, 0x49,
        ],
    };

    /// TLS_PSK_WITH_AES_128_CCM_8 and its ECDHE form.
    pub const AES_128_CCM_8: Self = Self {
        sealed: &[
            0x10, 0x7c, 0x57, 0x20, 0xc4, 0x89, 0x71, 0x5b, 0x80, 0xc9, 0x50, 0xc6, 0x63, 0x19,
            0x02, 0x81, 0xc6, 0x91,
        ],
    };
}
