//! Every AES kernel compared with the crate `aes`, block by block.

use aes::{Aes128Enc, Aes256Enc};
use cipher::{Block, BlockCipherEncrypt, KeyInit};
use lightmac::aes::Kernel;
use lightmac::{Aes128, Aes256, Hasher, LightMac, Stream, max_message_bytes};
use proptest::prelude::*;

type State = Block<Aes128>;

/// Length of the longest message tried, in bytes.
const MOST: usize = 4096;

fn bytes(count: usize) -> Vec<u8> {
    (0..count as u32).map(|i| (i.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect()
}

/// V of every prefix of `message` with a counter of `s` bits, from single cipher calls: the sum of
/// the whole blocks so far and the padded rest.
fn prefixes(
    cipher: &impl BlockCipherEncrypt<BlockSize = cipher::consts::U16>,
    s: u32,
    message: &[u8],
) -> Vec<u128> {
    let share = 128 - s as usize;
    let bits = |from: usize, count: usize| {
        (from..from + count)
            .fold(0u128, |all, at| all << 1 | u128::from(message[at / 8] >> (7 - at % 8) & 1))
    };
    let (mut sum, mut blocks) = (0, 0usize);
    let state = |length: usize| {
        while length * 8 - blocks * share >= share {
            let counter = (blocks as u128 + 1) & ((1 << s) - 1);
            let block = counter << share | bits(blocks * share, share);
            let mut block = State::from(block.to_be_bytes());
            cipher.encrypt_block(&mut block);
            sum ^= u128::from_be_bytes(block.0);
            blocks += 1;
        }
        let rest = length * 8 - blocks * share;
        sum ^ (bits(blocks * share, rest) << 1 | 1) << (127 - rest)
    };
    (0..=message.len()).map(state).collect()
}

fn longest(s: u32) -> usize {
    usize::try_from(max_message_bytes(16, s)).unwrap_or(MOST).min(MOST)
}

/// Each kernel's cipher with a fixed key.
fn ciphers() -> impl Iterator<Item = Aes128> {
    let kernels = Kernel::available();
    kernels.map(|kernel| Aes128::with_kernel(&[0x4b; 16].into(), kernel).expect("available"))
}

fn agree(s: u32, message: &[u8], step: usize) {
    let expected = prefixes(&Aes128Enc::new(&[0x4b; 16].into()), s, message);
    let lengths: Vec<_> =
        (0..=message.len()).filter(|l| l % step == 0 || l + 3 > message.len()).collect();
    let messages: Vec<_> = lengths.iter().map(|&length| &message[..length]).collect();
    for cipher in ciphers() {
        let kernel = cipher.kernel();
        let hasher = Hasher::from_cipher(cipher, s).unwrap();
        let mut states = vec![State::default(); messages.len()];
        hasher.hash_many(&messages, &mut states).unwrap();
        for (message, state) in messages.iter().zip(states) {
            let length = message.len();
            let expected = State::from(expected[length].to_be_bytes());
            assert_eq!(state, expected, "{kernel}, s = {s}, {length} bytes in a batch");
            let state = hasher.hash_parts(&[message]).unwrap();
            assert_eq!(state, expected, "{kernel}, s = {s}, {length} bytes alone");
        }
        if (message.len() as u128 + 1) * 8 > hasher.max_message_bits() {
            let longer = [message, &[0]].concat();
            assert!(hasher.hash_parts(&[&longer]).is_err(), "{kernel}, s = {s}");
            assert!(hasher.hash_many(&[&longer], &mut [State::default()]).is_err());
        }
    }
}

#[test]
fn every_length_for_counters_of_whole_bytes() {
    for s in (8..=64).step_by(8) {
        agree(s, &bytes(longest(s)), 1);
    }
}

#[test]
fn every_counter_length() {
    for s in (1..=64).filter(|s| s % 8 != 0) {
        agree(s, &bytes(longest(s).min(1024)), 13);
    }
}

#[test]
fn the_last_counter_is_zero() {
    // With a counter of two bytes: 2^16 blocks of 14 bytes, which is more than a batch of
    // registers.
    let message = bytes(14 << 16);
    let reference = Aes128Enc::new(&[0x4b; 16].into());
    let mut expected = 0x80 << 120;
    for (counter, share) in (1u32..).zip(message.chunks(14)) {
        let mut block = State::default();
        block[..2].copy_from_slice(&(counter as u16).to_be_bytes());
        block[2..].copy_from_slice(share);
        reference.encrypt_block(&mut block);
        expected ^= u128::from_be_bytes(block.0);
    }
    for cipher in ciphers() {
        let kernel = cipher.kernel();
        let hasher = Hasher::from_cipher(cipher, 16).unwrap();
        assert_eq!(hasher.hash_parts(&[&message]).unwrap().0, expected.to_be_bytes(), "{kernel}");
        assert!(hasher.hash_parts(&[&message, &[0]]).is_err());
    }
}

#[test]
fn blocks_in_bulk() {
    let key = bytes(32);
    let reference = Aes256Enc::new_from_slice(&key).unwrap();
    for kernel in Kernel::available() {
        let cipher = Aes256::with_kernel(key[..].try_into().unwrap(), kernel).unwrap();
        for count in 0..140 {
            let mut blocks: Vec<State> =
                bytes(16 * count).chunks(16).map(|block| block.try_into().unwrap()).collect();
            let mut expected = blocks.clone();
            cipher.encrypt_blocks(&mut blocks);
            reference.encrypt_blocks(&mut expected);
            assert_eq!(blocks, expected, "{kernel}, {count} blocks");
        }
    }
}

proptest! {
    /// However a message is divided, and whatever the keys are, the tag is the same.
    #[test]
    fn parts_streams_and_batches(
        keys in prop::array::uniform2(prop::array::uniform32(any::<u8>())),
        message in prop::collection::vec(any::<u8>(), 0..1500),
        cuts in prop::collection::vec(0usize..1500, 0..6),
        counter_bytes in 2u32..=8,
    ) {
        let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(message.len())).collect();
        cuts.extend([0, message.len()]);
        cuts.sort_unstable();
        let parts: Vec<_> = cuts.windows(2).map(|cut| &message[cut[0]..cut[1]]).collect();
        let s = 8 * counter_bytes;
        let reference = LightMac::<Aes256Enc>::new(&keys[0].into(), &keys[1].into(), s, 128).unwrap();
        let expected = reference.tag(&[&message]).unwrap();
        for kernel in Kernel::available() {
            let cipher = |key: [u8; 32]| Aes256::with_kernel(&key.into(), kernel).expect("available");
            let hasher = Hasher::from_cipher(cipher(keys[0]), s).unwrap();
            let mut stream = Stream::new(hasher.clone(), cipher(keys[1]));
            for part in &parts {
                stream.update(part).unwrap();
            }
            let streamed = stream.finalize();
            let mac = LightMac::from_parts(hasher, cipher(keys[1]), 128).unwrap();
            prop_assert_eq!(mac.tag(&parts).unwrap(), expected, "{} in parts", kernel);
            prop_assert_eq!(streamed.as_slice(), expected.as_bytes(), "{} in a stream", kernel);
            let mut blocks = vec![State::default(); parts.len()];
            mac.tag_many(&parts, &mut blocks).unwrap();
            for (part, block) in parts.iter().zip(blocks) {
                let alone = reference.tag(&[part]).unwrap();
                prop_assert_eq!(block.as_slice(), alone.as_bytes(), "{} in a batch", kernel);
            }
        }
    }
}
