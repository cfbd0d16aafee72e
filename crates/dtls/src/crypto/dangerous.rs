//! AES-GCM with aggregated tags. This suite is **broken**, and exists to show that.
//!
//! GHASH is linear, so changes to the tags of two records can cancel in their XOR. An attacker who
//! flips the same bits at the same place in two records of one length, or swaps their bodies, does
//! not change an aggregate over both. No key is needed. A test carries out the forgery
//! (`tests/dangerous.rs`).
//!
//! The suite needs the feature `dangerous-gcm-aggregation`, is in no provider, and derives its keys
//! with separate labels, so that it never shares a key with a secure suite.

use super::suites::gcm::Gcm;
use super::suites::known_answer::{AggregatedAnswer, KnownAnswer};
use super::suites::mask::{BlockMask, Mask, keyed};
use super::suites::nonce::Iv;
use super::suites::outputs::{EXTENDED_BLOCKS, Outputs, open_content_first};
use super::{
    Block, CipherSuite, CipherSuiteId, KeyDerivation, Keying, Limits, Opened, Prf, PrfProtection,
    PrfState, Record,
};
use aes::Aes128Enc;
use aes_gcm::AesGcm;
use aes_gcm::aead::AeadInOut;
use alloc::boxed::Box;
use cipher::consts::U12;

/// AES-128-GCM with aggregated tags, as the MAC aggregation paper evaluates it. Forgeable: for
/// experiments only.
pub static AES_128_GCM_AGGREGATED: CipherSuite = CipherSuite {
    id: CipherSuiteId(0xff7f),
    name: "DANGEROUS_AES_128_GCM_AGGREGATED",
    encrypts: true,
    tag_len: 16,
    hash: &crate::crypto::Sha256,
    limits: Limits::GCM,
    keying: Keying::Prf {
        plain: Gcm::<Aes128Enc>::protection,
        aggregated: AggregatedGcm::keys,
        pad: None,
    },
    known_answer: KnownAnswer {
        aggregated: Some(AggregatedAnswer {
            content: [0xdf, 0xf9, 0xae, 0x8c, 0xd5, 0x0c, 0xa6, 0xca, 0xfd, 0x5b, 0x05],
            blocks: [
                [
                    0x11, 0x51, 0x4e, 0x86, 0x93, 0x44, 0x52, 0xee, 0x4d, 0x00, 0x78, 0x30, 0x65,
                    0x93, 0x95, 0x01,
                ],
                [
                    0xc2, 0xc9, 0x14, 0x1f, 0x49, 0xe8, 0xff, 0xb9, 0xd7, 0x71, 0x16, 0xb3, 0x08,
                    0xca, 0x81, 0xf5,
                ],
                [
                    0x8b, 0xa7, 0xfb, 0x2c, 0x6c, 0x63, 0x3b, 0xf3, 0x0a, 0x7d, 0xc6, 0xaa, 0xf0,
                    0x47, 0xb8, 0x1f,
                ],
                [
                    0xc9, 0x06, 0x60, 0x2b, 0x4b, 0xed, 0x3c, 0x0a, 0xd6, 0xb3, 0xaa, 0x4b, 0x5e,
                    0x0a, 0x3c, 0xd3,
                ],
                [
                    0x37, 0x56, 0xd4, 0x7b, 0x3d, 0xfc, 0x2d, 0x31, 0x48, 0x8a, 0x87, 0x74, 0x4c,
                    0x09, 0x16, 0xc9,
                ],
                [
                    0x47, 0x80, 0xd9, 0x10, 0xee, 0xb8, 0x7c, 0xea, 0x9f, 0xc4, 0x72, 0x06, 0x99,
                    0xf5, 0xb4, 0xa9,
                ],
            ],
            mask: [0x94, 0x51],
        }),
        ..KnownAnswer::AES_128_GCM
    },
};

struct AggregatedGcm {
    aead: AesGcm<Aes128Enc, U12>,
    iv: Iv,
    extended: Outputs<Aes128Enc, { EXTENDED_BLOCKS.len() }>,
    mask: BlockMask<Aes128Enc>,
}

impl AggregatedGcm {
    fn keys(keys: &KeyDerivation, context: [u8; 3]) -> Box<dyn PrfProtection> {
        Box::new(Self {
            aead: AesGcm::from(keyed::<Aes128Enc>(keys, "dangerous key", &context)),
            iv: Iv::labelled(keys, "dangerous iv", &context),
            extended: Outputs::new(keys, "dangerous x", context, EXTENDED_BLOCKS),
            mask: BlockMask::labelled(keys, "dangerous sn", &context),
        })
    }

    /// Encrypts, which in counter mode also decrypts; the returned tag covers the result.
    fn run(&self, record: Record<'_>, content: &mut [u8]) -> Block {
        self.aead
            .encrypt_inout_detached(
                &self.iv.nonce(record.number).into(),
                record.header,
                content.into(),
            )
            .expect("a record is far below the 2^36 bytes of GCM")
            .into()
    }
}

impl Prf for AggregatedGcm {
    fn block(&self, state: &PrfState, index: u8) -> Block {
        if index == 0 { *state.as_bytes() } else { self.extended.block(state.as_bytes(), index) }
    }
}

impl PrfProtection for AggregatedGcm {
    fn seal(&self, record: Record<'_>, content: &mut [u8]) -> PrfState {
        self.run(record, content).into()
    }

    fn open(&self, record: Record<'_>, body: &mut [u8], aggregate_len: usize) -> Option<Opened> {
        let mut first = [*body.first()?];
        self.run(record, &mut first);
        let (content, own_tag) = open_content_first(first[0], body, aggregate_len)?;
        self.run(record, content);
        let state = self.run(record, content).into();
        self.run(record, content);
        Some(Opened { content_len: content.len(), own_tag, state })
    }

    fn mask(&self, sample: &Block) -> [u8; 2] {
        self.mask.mask(sample)
    }
}
