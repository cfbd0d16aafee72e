//! Record number masks of aggregated records, which may be shorter than the input of the mask
//! function (MAC aggregation specification, record number encryption).

use super::mask_sample;
use crate::crypto::{Block, CipherSuite, KeyDerivation, Keying, Pad, PrfProtection};
use crate::parts::{OfPart, OtherMasks};
use crate::record::header::UnifiedHeader;
use crate::record::number::NumberMasks;
use alloc::boxed::Box;
use lightseal_aggregation::Scheme;

/// The length in bytes of the mask function's input.
const SAMPLE: usize = 16;

/// How the record numbers of one direction of an epoch are encrypted.
pub(super) enum NumberMask {
    /// The mask follows from the first bytes of the ciphertext; a short one is padded with its
    /// length.
    Standard,
    /// The mask follows from the first bytes of the ciphertext; a short one is padded with the
    /// epoch.
    Paper(OfPart<OtherMasks, u64>),
    /// As `Standard`, and short ciphertexts are encrypted with a pad made from the masked number.
    Strong(OfPart<OtherMasks, Box<dyn Pad>>),
}

impl NumberMask {
    pub(super) fn new(
        masks: NumberMasks,
        epoch: u64,
        suite: &CipherSuite,
        scheme: Scheme,
        keys: &KeyDerivation,
    ) -> Self {
        let Some(part) = OtherMasks::INCLUDED else { return Self::Standard };
        match (masks, &suite.keying) {
            (NumberMasks::Paper, _) => Self::Paper(OfPart::new(part, epoch)),
            (NumberMasks::Strong, Keying::Prf { pad: Some(pad), .. }) => {
                Self::Strong(OfPart::new(part, pad(keys, scheme.context())))
            }
            _ => Self::Standard,
        }
    }

    /// Encrypts the plaintext record number in `head`, and a short record's `body` with it.
    #[cfg_attr(target_pointer_width = "32", inline)]
    #[cfg_attr(not(target_pointer_width = "32"), inline(always))]
    pub(super) fn hide(
        &self,
        prf: &dyn PrfProtection,
        header: &UnifiedHeader,
        head: &mut [u8],
        body: &mut [u8],
    ) {
        if let Some(sample) = body.first_chunk() {
            header.apply_mask(head, prf.mask(sample));
            return;
        }
        header.apply_mask(head, prf.mask(&self.short_sample(body)));
        self.cover(header, head, body);
    }

    /// Reverses [`Self::hide`].
    #[inline]
    pub(super) fn reveal(
        &self,
        prf: &dyn PrfProtection,
        header: &UnifiedHeader,
        head: &mut [u8],
        body: &mut [u8],
    ) {
        if let Some(sample) = body.first_chunk() {
            header.apply_mask(head, prf.mask(sample));
            return;
        }
        self.cover(header, head, body);
        header.apply_mask(head, prf.mask(&self.short_sample(body)));
    }

    #[cold]
    fn short_sample(&self, body: &[u8]) -> Block {
        match self {
            Self::Paper(epoch) => padded_with_epoch(body, **epoch),
            Self::Standard | Self::Strong(_) => mask_sample(body),
        }
    }

    /// XORs the pad made from the masked number in `head` onto a short record.
    fn cover(&self, header: &UnifiedHeader, head: &[u8], body: &mut [u8]) {
        let Self::Strong(pad) = self else { return };
        // The masked number, zeros, the number's length, and the record's length.
        let mut input = [0; SAMPLE];
        input[..2].copy_from_slice(&(header.number_bits(head) as u16).to_be_bytes());
        (input[14], input[15]) = (header.number_len as u8, body.len() as u8);
        body.iter_mut().zip(pad.pad(&input)).for_each(|(byte, pad)| *byte ^= pad);
    }
}

/// A short ciphertext, the epoch in 8 bytes, and zeros, truncated to 16 bytes (MAC aggregation
/// paper, section III-B2).
fn padded_with_epoch(body: &[u8], epoch: u64) -> Block {
    let mut sample = [0; SAMPLE];
    let bytes = body.iter().copied().chain(epoch.to_be_bytes());
    sample.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
    sample
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paper_s_padding_is_cut_where_the_sample_ends() {
        let full: Block = core::array::from_fn(|i| i as u8 + 1);
        assert_eq!(padded_with_epoch(&full, 3), full);
        assert_eq!(padded_with_epoch(&[9; 17], 3), [9; 16]);
        let mut expected = [0; 16];
        (expected[0], expected[1], expected[9]) = (7, 8, 3);
        assert_eq!(padded_with_epoch(&[7, 8], 3), expected);
        assert_eq!(padded_with_epoch(&[9; 10], 3)[10..], [0; 6]);
    }
}
