//! Every PRESENT kernel compared with single blocks of the portable one.

use cipher::{Block, BlockCipherEncrypt};
use lightmac::present::Kernel;
use lightmac::{Hasher, LightMac, Present128, Stream, max_message_bytes};
use proptest::prelude::*;

type State = Block<Present128>;

/// Length of the longest message tried, in bytes.
const MOST: usize = 4096;

fn bytes(count: usize) -> Vec<u8> {
    (0..count as u32).map(|i| (i.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect()
}

fn portable(key: [u8; 16]) -> Present128 {
    Present128::with_kernel(&key.into(), Kernel::Portable).expect("always available")
}

fn encrypt(cipher: &Present128, block: u64) -> u64 {
    let mut block = State::from(block.to_be_bytes());
    cipher.encrypt_block(&mut block);
    u64::from_be_bytes(block.0)
}

/// V of every prefix of `message` with a counter of `s` bits, from single cipher calls: the sum of
/// the whole blocks so far and the padded rest.
fn prefixes(cipher: &Present128, s: u32, message: &[u8]) -> Vec<u64> {
    let share = 64 - s as usize;
    let bits = |from: usize, count: usize| {
        (from..from + count)
            .fold(0u64, |all, at| all << 1 | u64::from(message[at / 8] >> (7 - at % 8) & 1))
    };
    let (mut sum, mut blocks) = (0, 0usize);
    let state = |length: usize| {
        while length * 8 - blocks * share >= share {
            let counter = (blocks as u64 + 1) & ((1 << s) - 1);
            sum ^= encrypt(cipher, counter << share | bits(blocks * share, share));
            blocks += 1;
        }
        let rest = length * 8 - blocks * share;
        sum ^ (bits(blocks * share, rest) << 1 | 1) << (63 - rest)
    };
    (0..=message.len()).map(state).collect()
}

fn longest(s: u32) -> usize {
    usize::try_from(max_message_bytes(8, s)).unwrap_or(MOST).min(MOST)
}

/// Each kernel's cipher with a fixed key.
fn ciphers() -> impl Iterator<Item = Present128> {
    let kernels = Kernel::available();
    kernels.map(|kernel| Present128::with_kernel(&[0x4b; 16].into(), kernel).expect("available"))
}

fn agree(s: u32, message: &[u8], alone: bool) {
    let expected = prefixes(&portable([0x4b; 16]), s, message);
    let messages: Vec<_> = (0..=message.len()).map(|length| &message[..length]).collect();
    for cipher in ciphers() {
        let kernel = cipher.kernel();
        let hasher = Hasher::from_cipher(cipher, s).unwrap();
        let mut states = vec![State::default(); messages.len()];
        hasher.hash_many(&messages, &mut states).unwrap();
        for (message, state) in messages.iter().zip(states) {
            let length = message.len();
            let expected = State::from(expected[length].to_be_bytes());
            assert_eq!(state, expected, "{kernel}, s = {s}, {length} bytes in a batch");
            if alone {
                let state = hasher.hash_parts(&[message]).unwrap();
                assert_eq!(state, expected, "{kernel}, s = {s}, {length} bytes alone");
            }
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
    for s in (8..=32).step_by(8) {
        agree(s, &bytes(longest(s)), true);
    }
}

#[test]
fn every_counter_length() {
    for s in (1..=32).filter(|s| s % 8 != 0) {
        agree(s, &bytes(longest(s).min(1024)), s % 5 == 0);
    }
    // A counter that ends within a byte, with a message of full length.
    agree(13, &bytes(longest(13)), false);
}

#[test]
fn the_last_counter_is_zero() {
    // With a counter of two bytes: 2^16 blocks of 6 bytes.
    let message = bytes(6 << 16);
    let reference = portable([0x4b; 16]);
    let mut expected = 0x80 << 56;
    for (counter, share) in (1u32..).zip(message.chunks(6)) {
        let mut block = [0; 8];
        block[..2].copy_from_slice(&(counter as u16).to_be_bytes());
        block[2..].copy_from_slice(share);
        expected ^= encrypt(&reference, u64::from_be_bytes(block));
    }
    for cipher in ciphers() {
        let kernel = cipher.kernel();
        let hasher = Hasher::from_cipher(cipher, 16).unwrap();
        assert_eq!(hasher.hash_parts(&[&message]).unwrap().0, expected.to_be_bytes(), "{kernel}");
        assert!(hasher.hash_parts(&[&message, &[0]]).is_err());
    }
}

proptest! {
    /// However a message is divided, and whatever the keys are, the tag is the same.
    #[test]
    fn parts_streams_and_batches(
        keys in prop::array::uniform2(prop::array::uniform16(any::<u8>())),
        message in prop::collection::vec(any::<u8>(), 0..1500),
        cuts in prop::collection::vec(0usize..1500, 0..6),
        counter_bytes in 1u32..=4,
    ) {
        let s = 8 * counter_bytes;
        let message = &message[..message.len().min(longest(s))];
        let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(message.len())).collect();
        cuts.extend([0, message.len()]);
        cuts.sort_unstable();
        let parts: Vec<_> = cuts.windows(2).map(|cut| &message[cut[0]..cut[1]]).collect();
        let model = |message: &[u8]| {
            let v = *prefixes(&portable(keys[0]), s, message).last().unwrap();
            encrypt(&portable(keys[1]), v).to_be_bytes()
        };
        let expected = model(message);
        for kernel in Kernel::available() {
            let cipher = |key: [u8; 16]| Present128::with_kernel(&key.into(), kernel).unwrap();
            let hasher = Hasher::from_cipher(cipher(keys[0]), s).unwrap();
            let mut stream = Stream::new(hasher.clone(), cipher(keys[1]));
            for part in &parts {
                stream.update(part).unwrap();
            }
            let streamed = stream.finalize();
            let mac = LightMac::from_parts(hasher, cipher(keys[1]), 64).unwrap();
            let tag = mac.tag(&parts).unwrap();
            prop_assert_eq!(tag.as_bytes(), expected, "{} in parts", kernel);
            prop_assert_eq!(streamed.as_slice(), expected, "{} in a stream", kernel);
            let mut blocks = vec![State::default(); parts.len()];
            mac.tag_many(&parts, &mut blocks).unwrap();
            for (part, block) in parts.iter().zip(blocks) {
                prop_assert_eq!(block.as_slice(), model(part), "{} in a batch", kernel);
            }
        }
    }
}
