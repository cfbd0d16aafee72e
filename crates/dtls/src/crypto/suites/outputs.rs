//! What all pseudorandom-function suites share: the output blocks of a tag, and the split of a
//! record body into content and tags.

use super::mask::keyed;
use crate::crypto::{Block, KeyDerivation};
use cipher::consts::U16;
use cipher::{BlockCipherEncrypt, BlockSizeUser, KeyInit};
use lightseal_aggregation::tuning::HELD_PER_NUMBER;
use lightseal_aggregation::{
    CHECK_BLOCK, CLOSING_BLOCK, Checked, Overprovision, RANK_BLOCK, Scheme, SetSize, TAG_BLOCK,
};

/// All output blocks of aggregation; those that every record needs come first.
pub(crate) const ALL_BLOCKS: [u8; 6] = [TAG_BLOCK, 1, 2, CLOSING_BLOCK, RANK_BLOCK, CHECK_BLOCK];
/// The output blocks that aggregation uses in this build, in the same order. Each takes a key.
pub(crate) const AGGREGATION_BLOCKS: [u8; BLOCKS] = used();
/// The output blocks that are derived from block 0.
pub(crate) const EXTENDED_BLOCKS: [u8; BLOCKS - 1] = {
    let [_, extended @ ..] = AGGREGATION_BLOCKS;
    extended
};
const BLOCKS: usize = {
    let (mut at, mut count) = (0, 0);
    while at < ALL_BLOCKS.len() {
        count += is_used(ALL_BLOCKS[at]) as usize;
        at += 1;
    }
    count
};

const fn used() -> [u8; BLOCKS] {
    let mut used = [0; BLOCKS];
    let (mut at, mut count) = (0, 0);
    while at < ALL_BLOCKS.len() {
        if is_used(ALL_BLOCKS[at]) {
            used[count] = ALL_BLOCKS[at];
            count += 1;
        }
        at += 1;
    }
    used
}

/// Whether a scheme of this build uses an output block.
const fn is_used(index: u8) -> bool {
    const fn has(scheme: Scheme) -> bool {
        scheme.can_send() || scheme.can_receive()
    }
    const AGG: SetSize = SetSize::MAX;
    const R2D2: Overprovision = Overprovision::ALL[0];
    match index {
        1 | 2 => has(Scheme::R2d2(R2D2)),
        RANK_BLOCK => HELD_PER_NUMBER > 1,
        CHECK_BLOCK => {
            has(Scheme::AggChecked(Checked::new(AGG)))
                || has(Scheme::R2d2Checked(Checked::new(R2D2)))
        }
        _ => true,
    }
}

/// The content type of application data, the only one whose tags are aggregated.
pub(crate) const APPLICATION_DATA: u8 = 23;
/// Length of a record's own tag in bytes.
const OWN_TAG: usize = 16;
/// The longest content in bytes: a content type and 2^14 bytes (RFC 8446, section 5.1).
const LONGEST: usize = (1 << 14) + 1;

/// The finalisation keys of `N` output blocks, expanded.
pub(crate) struct Outputs<C, const N: usize> {
    indices: [u8; N],
    ciphers: [C; N],
}

impl<C, const N: usize> Outputs<C, N>
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit,
{
    /// Derives `label` under context ‖ i for every `i` of `indices`.
    pub(crate) fn new(
        keys: &KeyDerivation,
        label: &str,
        [scheme, n, o]: [u8; 3],
        indices: [u8; N],
    ) -> Self {
        Self { indices, ciphers: indices.map(|i| keyed(keys, label, &[scheme, n, o, i])) }
    }

    /// E(K,index; input).
    ///
    /// # Panics
    /// If there is no key for `index`.
    pub(crate) fn block(&self, input: &Block, index: u8) -> Block {
        let at = self.indices.iter().position(|i| *i == index);
        let mut block = (*input).into();
        self.ciphers[at.expect("an output block that aggregation uses")].encrypt_block(&mut block);
        block.into()
    }
}

/// Returns the content of a body in the layout with the content type first, and whether the
/// record's own tag follows it. `None` if the body is too short or too long.
pub(crate) fn open_content_first(
    content_type: u8,
    body: &mut [u8],
    aggregate_len: usize,
) -> Option<(&mut [u8], bool)> {
    let own_tag = content_type != APPLICATION_DATA;
    let tags = aggregate_len.checked_add(if own_tag { OWN_TAG } else { 0 })?;
    let content_len = body.len().checked_sub(tags)?;
    if !(1..=LONGEST).contains(&content_len) {
        return None;
    }
    Some((body.get_mut(..content_len)?, own_tag))
}
