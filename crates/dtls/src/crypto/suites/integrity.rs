//! Integrity only (RFC 9150): HMAC-SHA256 over records that are **not encrypted**. Their record
//! numbers are not encrypted either (section 9).
//!
//! The tag is HMAC(key, nonce ‖ header ‖ content), with all its 32 bytes. Key and IV have 32 bytes
//! too, so the nonce is the IV with the record number XORed into its last 8 bytes. No length
//! separates header and content, because the header determines its own end by its flags and by the
//! length of connection IDs, which the receiver knows.
//!
//! With aggregated tags every key is derived under the aggregation context. Output block 0 is the
//! first 16 bytes of the same HMAC, and block i is the first 16 bytes of HMAC(Kx,i; i ‖ block 0).
//! The state is block 0, which is half of the HMAC's output. Nobody knows anything about block 0 of
//! a record that was not sent, so an attacker guesses its block i with a probability of about
//! 2^-128, regardless of the number of records that were sent. Two sent records with equal blocks 0
//! (a probability of 2^-33 after 2^48 records) would have equal blocks i, which would be visible
//! but does not help to forge a third record.

use super::outputs::{EXTENDED_BLOCKS, open_content_first};
use crate::crypto::{
    Aead, Block, HmacKey, KeyDerivation, Opened, Prf, PrfProtection, PrfState, Protection, Record,
    Unauthentic,
};
use alloc::boxed::Box;
use subtle::ConstantTimeEq;
use zeroize::ZeroizeOnDrop;

/// The length in bytes of keys, IVs and tags: that of the hash (RFC 9150, section 6).
const LEN: usize = 32;

/// One direction of one epoch with plain tags.
pub struct IntegrityOnly {
    mac: HmacKey,
    iv: Iv,
}

#[derive(ZeroizeOnDrop)]
struct Iv([u8; LEN]);

impl IntegrityOnly {
    /// Derives the keys of an epoch in the standard layout.
    pub fn protection(keys: &KeyDerivation) -> Box<dyn Protection> {
        Box::new(Self::derived(keys, &[]))
    }

    fn derived(keys: &KeyDerivation, context: &[u8]) -> Self {
        let mut iv = Iv([0; LEN]);
        keys.expand("iv", context, &mut iv.0);
        Self { mac: keys.hmac_key("key", context), iv }
    }

    fn tag(&self, record: Record<'_>, content: &[u8]) -> [u8; LEN] {
        let mut nonce = self.iv.0;
        for (byte, n) in nonce[LEN - 8..].iter_mut().zip(record.number.to_be_bytes()) {
            *byte ^= n;
        }
        let mut tag = [0; LEN];
        self.mac.mac(&[&nonce, record.header, content], &mut tag);
        tag
    }

    fn state(&self, record: Record<'_>, content: &[u8]) -> PrfState {
        let tag = self.tag(record, content);
        PrfState::from(first_block(&tag))
    }
}

fn first_block(tag: &[u8; LEN]) -> Block {
    core::array::from_fn(|i| tag[i])
}

impl Aead for IntegrityOnly {
    fn seal(&self, record: Record<'_>, content: &mut [u8], tag: &mut [u8]) {
        tag.copy_from_slice(&self.tag(record, content));
    }

    fn open(&self, record: Record<'_>, content: &mut [u8], tag: &[u8]) -> Result<(), Unauthentic> {
        if self.tag(record, content)[..].ct_eq(tag).into() { Ok(()) } else { Err(Unauthentic) }
    }
}

impl Protection for IntegrityOnly {
    fn mask(&self, _: &Block) -> [u8; 2] {
        [0; 2]
    }
}

/// One direction of one epoch with aggregated tags.
pub struct AggregatedIntegrityOnly {
    keys: IntegrityOnly,
    extended: [HmacKey; EXTENDED_BLOCKS.len()],
}

impl AggregatedIntegrityOnly {
    /// Derives the keys of an epoch under an aggregation context.
    pub fn protection(keys: &KeyDerivation, context: [u8; 3]) -> Box<dyn PrfProtection> {
        let [scheme, n, o] = context;
        Box::new(Self {
            keys: IntegrityOnly::derived(keys, &context),
            extended: EXTENDED_BLOCKS.map(|i| keys.hmac_key("agg x", &[scheme, n, o, i])),
        })
    }
}

impl Prf for AggregatedIntegrityOnly {
    fn block(&self, state: &PrfState, index: u8) -> Block {
        if index == 0 {
            return *state.as_bytes();
        }
        let at = EXTENDED_BLOCKS.iter().position(|i| *i == index);
        let mac = &self.extended[at.expect("an output block that aggregation uses")];
        let mut output = [0; LEN];
        mac.mac(&[&[index], state.as_bytes()], &mut output);
        first_block(&output)
    }
}

impl PrfProtection for AggregatedIntegrityOnly {
    fn seal(&self, record: Record<'_>, content: &mut [u8]) -> PrfState {
        self.keys.state(record, content)
    }

    fn open(&self, record: Record<'_>, body: &mut [u8], aggregate_len: usize) -> Option<Opened> {
        let (content, own_tag) = open_content_first(*body.first()?, body, aggregate_len)?;
        let state = self.keys.state(record, content);
        Some(Opened { content_len: content.len(), own_tag, state })
    }

    fn mask(&self, _: &Block) -> [u8; 2] {
        [0; 2]
    }
}
