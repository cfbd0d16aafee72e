//! What every suite must compute from one fixed input.
//!
//! Secret 00 01 … 1f, record number 5, header 23 05, payload "0123456789" of
//! type 23, sample 00 01 … 0f, aggregation context 01 10 00. The answers here
//! come from a second implementation, `tests/known_answers.py`.

use crate::crypto::{Block, CipherSuite, Keying, PrfProtection, Protection, Record, TrafficSecret};

/// The aggregation context of the fixed input: scheme 1, n = 16.
const CONTEXT: [u8; 3] = [1, 16, 0];
const RECORD: Record<'static> = Record { number: 5, header: &[0x23, 0x05] };
/// In the standard layout.
const PLAIN: [u8; 11] = *b"0123456789\x17";
/// With the content type first.
const AGGREGATED: [u8; 11] = *b"\x170123456789";

/// A suite's answers.
#[derive(Debug)]
pub struct KnownAnswer {
    /// Content and tag in the standard layout.
    pub plain: &'static [u8],
    /// The mask for the fixed sample.
    pub mask: [u8; 2],
    /// The same with aggregated tags, if the suite has them.
    pub aggregated: Option<AggregatedAnswer>,
}

/// A suite's answers with aggregated tags.
#[derive(Debug)]
pub struct AggregatedAnswer {
    /// The encrypted content.
    pub content: [u8; 11],
    /// Output blocks 0, 1, 2 and 255.
    pub blocks: [Block; 4],
    /// The mask for the fixed sample.
    pub mask: [u8; 2],
}

impl KnownAnswer {
    /// Whether `suite` computes this.
    pub(crate) fn holds(&self, suite: &CipherSuite) -> bool {
        let secret = TrafficSecret::new(core::array::from_fn(|i| i as u8));
        let plain = self.plain_holds(suite.tag_len, &*suite.keying.plain(&secret));
        let aggregated = match (&suite.keying, &self.aggregated) {
            (Keying::Aead(_), None) => true,
            (Keying::Prf { aggregated, .. }, Some(answer)) => {
                answer.holds(&*aggregated(&secret, CONTEXT))
            }
            _ => false,
        };
        plain && aggregated
    }

    fn plain_holds(&self, tag_len: usize, keys: &dyn Protection) -> bool {
        let mut content = PLAIN;
        let mut buf = [0; 16];
        let Some(tag) = buf.get_mut(..tag_len) else { return false };
        keys.seal(RECORD, &mut content, tag);
        let sealed = self.plain.split_at_checked(PLAIN.len()) == Some((&content[..], &tag[..]));
        let opened = keys.open(RECORD, &mut content, tag).is_ok() && content == PLAIN;
        keys.seal(RECORD, &mut content, tag);
        tag[tag_len - 1] ^= 1;
        let refused = keys.open(RECORD, &mut content, tag).is_err();
        sealed && opened && refused && keys.mask(&sample()) == self.mask
    }
}

impl AggregatedAnswer {
    /// Whether `keys` compute this.
    pub(crate) fn holds(&self, keys: &dyn PrfProtection) -> bool {
        let mut content = AGGREGATED;
        let state = keys.seal(RECORD, &mut content);
        let sealed = content == self.content;
        let blocks = [0, 1, 2, 255].map(|index| keys.block(&state, index)) == self.blocks;
        let opened = keys.open(RECORD, &mut content, 0).is_some_and(|opened| {
            opened.content_len == AGGREGATED.len() && !opened.own_tag && opened.state == state
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
}
