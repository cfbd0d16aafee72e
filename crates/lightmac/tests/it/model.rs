//! Every interface compared with a slow model that works on bit strings, as the paper describes it.

use crate::reference;

use aes::Aes128;
use cipher::array::ArraySize;
use cipher::consts::{U4, U7};
use cipher::{
    Array, Block, BlockCipherEncBackend, BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser,
    InOut, KeyInit, ParBlocksSizeUser, consts::U1,
};
use core::marker::PhantomData;
use digest::Mac;
use lightmac::{
    BatchError, Hasher, LightMac, LightMacStream, LongLightMac, MessageTooLong, ParameterError,
    Present80, Present128, Tag,
};
use proptest::prelude::*;
use reference::{bits_of, bytes_of, model};

/// A stand-in for ciphers: a fixed function of any block length, to test lengths that no crate
/// offers.
#[derive(Clone)]
struct Stir<N>(u8, PhantomData<N>);

impl<N: ArraySize> BlockSizeUser for Stir<N> {
    type BlockSize = N;
}

impl<N: ArraySize> ParBlocksSizeUser for Stir<N> {
    type ParBlocksSize = U1;
}

impl<N: ArraySize> BlockCipherEncBackend for Stir<N> {
    fn encrypt_block(&self, mut block: InOut<'_, '_, Array<u8, N>>) {
        let mut bytes = block.clone_in();
        let mut last = self.0;
        for _ in 0..3 {
            for byte in &mut bytes {
                last = byte.wrapping_mul(167).rotate_left(3) ^ last.wrapping_add(91);
                *byte = last;
            }
        }
        *block.get_out() = bytes;
    }
}

impl<N: ArraySize> BlockCipherEncrypt for Stir<N> {
    fn encrypt_with_backend(&self, f: impl BlockCipherEncClosure<BlockSize = N>) {
        f.call(self);
    }
}

/// Asserts that a message, as a whole, in parts and in a batch, agrees with the model for every
/// counter length.
fn agrees<C: BlockCipherEncrypt + Clone + 'static>(cipher: &C, seed: u8) {
    let n = C::block_size() * 8;
    for s in 1..=n / 2 {
        let hasher = Hasher::from_cipher(cipher.clone(), s as u32).unwrap();
        let most = usize::try_from(hasher.max_message_bits() / 8).unwrap_or(usize::MAX);
        let bytes: Vec<u8> =
            (0..most.min(40 * n / 8)).map(|i| (i as u8).wrapping_mul(seed) ^ seed).collect();
        let lengths: Vec<usize> =
            (0..=bytes.len()).filter(|l| l % 7 == 0 || *l + 3 > bytes.len()).collect();
        let messages: Vec<&[u8]> = lengths.iter().map(|&l| &bytes[..l]).collect();
        let mut states = vec![Block::<C>::default(); messages.len()];
        hasher.hash_many(&messages, &mut states).unwrap();
        for (message, state) in messages.iter().zip(&states) {
            let expected = model(cipher, s, &bits_of(message));
            assert_eq!(state.as_slice(), expected, "s = {s}, {} bytes, batch", message.len());
            let (a, b) = message.split_at(message.len() / 3);
            let parts = hasher.hash_parts(&[a, &[], b]).unwrap();
            assert_eq!(parts.as_slice(), expected, "s = {s}, {} bytes, parts", message.len());
        }
    }
}

#[test]
fn every_counter_length_and_block_size() {
    agrees(&Stir::<U4>(1, PhantomData), 3);
    agrees(&Stir::<U7>(2, PhantomData), 5);
    agrees(&Present128::new(&[7; 16].into()), 11);
    agrees(&Aes128::new(&[8; 16].into()), 29);
}

#[test]
fn every_tag_length() {
    let keys = ([1; 10].into(), [2; 10].into());
    let full = LightMac::<Present80>::new(&keys.0, &keys.1, 8, 64).unwrap();
    let all = bits_of(full.tag(&[b"message"]).unwrap().as_bytes());
    for t in 1..=64u32 {
        let mac = LightMac::<Present80>::new(&keys.0, &keys.1, 8, t).unwrap();
        let tag = mac.tag(&[b"message"]).unwrap();
        assert_eq!(tag.bits(), t);
        assert_eq!(tag.as_bytes(), bytes_of(&all[..t as usize]));
        assert!(mac.verify(&[b"mess", b"age"], tag.as_bytes()).is_ok());
        let mut wrong = tag.as_bytes().to_vec();
        wrong[(t as usize - 1) / 8] ^= 0x80 >> ((t - 1) % 8);
        assert!(mac.verify(&[b"message"], &wrong).is_err());
        assert!(mac.verify(&[b"message"], &tag.as_bytes()[1..]).is_err());
    }
    for t in [0, 65] {
        let refused = LightMac::<Present80>::new(&keys.0, &keys.1, 8, t);
        assert_eq!(refused.unwrap_err(), ParameterError::TagBits);
    }
    assert_ne!(Tag::leading(&[0xff], 3), Tag::leading(&[0xff], 4));
}

#[test]
fn the_longest_message_passes_and_one_bit_more_is_refused() {
    // PRESENT with s = 8 allows 256 blocks of 7 bytes.
    let message = [0x5a; 1793];
    let (k1, k2) = ([1; 16].into(), [2; 16].into());
    let mac = LightMac::<Present128>::new(&k1, &k2, 8, 64).unwrap();
    let tag = mac.tag(&[&message[..1792]]).unwrap();
    let mut v = Block::<Present128>::try_from(
        model(&Present128::new(&k1), 8, &bits_of(&message[..1792])).as_slice(),
    )
    .unwrap();
    Present128::new(&k2).encrypt_block(&mut v);
    assert_eq!(tag.as_bytes(), v.as_slice());
    let refusal = MessageTooLong { max_bits: 1792 * 8 };
    assert_eq!(mac.tag(&[&message]).unwrap_err(), refusal);
    assert_eq!(mac.tag(&[&message[..1792], &[0]]).unwrap_err(), refusal);
    assert!(mac.verify(&[&message], tag.as_bytes()).is_err());
    let mut blocks = [v; 2];
    let messages: [&[u8]; 2] = [&message[..3], &message];
    assert_eq!(mac.tag_many(&messages, &mut blocks), Err(BatchError::TooLong(refusal)));
    assert_eq!(mac.tag_many(&messages[..1], &mut blocks), Err(BatchError::LengthsDiffer));

    let key = [[1; 16], [2; 16]].concat();
    let mut stream = LightMacStream::<Present128, 8>::new_from_slice(&key).unwrap();
    stream.try_update(&message[..1792]).unwrap();
    assert_eq!(stream.try_update(&[0]), Err(refusal));
    assert_eq!(stream.clone().try_finalize_bits(0, 1), Err(refusal));
    assert_eq!(stream.clone().try_finalize_bits(0xff, 0).unwrap().as_slice(), tag.as_bytes());
    // The refused byte has not changed the state.
    assert_eq!(stream.finalize().into_bytes().as_slice(), tag.as_bytes());
}

#[test]
#[should_panic = "message longer than LightMAC's counter allows (14336 bits)"]
fn the_trait_refuses_loudly() {
    let mut stream = LightMacStream::<Present128, 8>::new(&[3; 32].into());
    stream.update(&[0; 1792]);
    stream.update(&[0]);
}

#[test]
fn output_blocks_are_independent_macs() {
    let cipher = |byte| Aes128::new(&[byte; 16].into());
    let long = LongLightMac::new(
        Hasher::from_cipher(cipher(1), 16).unwrap(),
        [cipher(2), cipher(3), cipher(4)],
    );
    let v = long.hasher().hash_parts(&[b"a record"]).unwrap();
    for (i, k2) in [2u8, 3, 4].into_iter().enumerate() {
        let mac = LightMac::<Aes128>::new(&[1; 16].into(), &[k2; 16].into(), 16, 128).unwrap();
        let block = long.finalize(i, &v).unwrap();
        assert_eq!(mac.tag(&[b"a record"]).unwrap().as_bytes(), block.as_slice());
    }
    assert!(long.finalize(3, &v).is_none());
}

#[test]
fn reset_begins_anew() {
    let mut stream = LightMacStream::<Aes128>::new(&[9; 32].into());
    stream.update(b"something long enough to fill a block or two of the cipher");
    let first = stream.finalize_reset().into_bytes();
    assert!(stream.clone().verify_slice(&first).is_err());
    stream.update(b"something long enough to fill a block or two of the cipher");
    assert!(stream.verify(&first).is_ok());
}

#[test]
fn secrets_do_not_print() {
    let stream = LightMacStream::<Aes128>::new(&[9; 32].into());
    assert_eq!(format!("{stream:?}"), "LightMacStream { counter_bits: 16, .. }");
    let tag = Tag::leading(&[0xab; 16], 128);
    assert_eq!(format!("{tag:?}"), "Tag { bits: 128, .. }");
}

proptest! {
    /// However a message is divided into updates, and whatever its last bits are, the result is the
    /// model's.
    #[test]
    fn streams_agree_with_the_model(
        message in prop::collection::vec(any::<u8>(), 0..600),
        cuts in prop::collection::vec(0usize..600, 0..8),
        (last, count) in (any::<u8>(), 0u32..8),
    ) {
        let mut bits = bits_of(&message);
        bits.extend_from_slice(&bits_of(&[last])[..count as usize]);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(message.len())).collect();
        cuts.sort_unstable();
        cuts.push(message.len());
        fn run<const S: u32>(
            message: &[u8], cuts: &[usize], last: u8, count: u32, bits: &[bool],
        ) -> Result<(), TestCaseError> {
            let cipher = |byte| Aes128::new(&[byte; 16].into());
            let mut stream = LightMacStream::<Aes128, S>::from_ciphers(cipher(1), cipher(2));
            let mut at = 0;
            for &cut in cuts {
                stream.update(&message[at..cut]);
                at = cut;
            }
            let tag = stream.try_finalize_bits(last, count).expect("short");
            let mut v = Block::<Aes128>::try_from(model(&cipher(1), S as usize, bits).as_slice())
                .expect("16 bytes");
            cipher(2).encrypt_block(&mut v);
            prop_assert_eq!(tag, v);
            Ok(())
        }
        run::<8>(&message, &cuts, last, count, &bits)?;
        run::<16>(&message, &cuts, last, count, &bits)?;
        run::<21>(&message, &cuts, last, count, &bits)?;
        run::<64>(&message, &cuts, last, count, &bits)?;
    }
}
