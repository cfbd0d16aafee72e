//! LightMAC with a 32-bit cipher, the shortest block that it allows, with every counter length. The
//! paper's example of a large improvement has this block length (section 1.1, s = 16). Messages
//! have up to the longest permitted length, and one bit more.

use crate::reference;

use cipher::KeyInit;
use lightmac::{Hasher, LightMac, MessageTooLong, Stream, max_message_bits};
use reference::speck::Speck32;
use reference::{bits_of, tag};

/// All messages up to this number of bits are tried. Among longer ones, only those around the limit
/// are.
const ALL_BITS: usize = 500;

fn keys() -> [Speck32; 2] {
    [[0x19, 0x18, 0x11, 0x10, 0x09, 0x08, 0x01, 0x00], [7, 6, 5, 4, 3, 2, 1, 0xf0]]
        .map(|key| Speck32::new(&key.into()))
}

fn mac(counter_bits: u32) -> LightMac<Speck32> {
    let [k1, k2] = keys();
    let hasher = Hasher::from_cipher(k1, counter_bits).expect("1 to 16");
    LightMac::from_parts(hasher, k2, 32).expect("32 bits")
}

fn message(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect()
}

/// The tag of the first `bits` bits of `bytes`, which are added in pieces.
fn streamed(counter_bits: u32, bytes: &[u8], bits: usize) -> Result<Vec<u8>, MessageTooLong> {
    let [k1, k2] = keys();
    let mut stream = Stream::new(Hasher::from_cipher(k1, counter_bits).expect("1 to 16"), k2);
    for piece in bytes[..bits / 8].chunks(1021) {
        stream.update(piece)?;
    }
    let last = bytes.get(bits / 8).copied().unwrap_or(0);
    stream.finalize_bits(last, bits as u32 % 8).map(|block| block.to_vec())
}

#[test]
fn every_counter_length_up_to_its_limit() {
    let [k1, k2] = keys();
    for s in 1..=16 {
        let mac = mac(s);
        let most = max_message_bits(4, s) as usize;
        let bytes = message(most / 8 + 2);
        let bits = bits_of(&bytes);
        let short = 0..=most.min(ALL_BITS);
        for length in short.chain(most.saturating_sub(33).max(ALL_BITS)..=most) {
            let expected = tag(&k1, &k2, s as usize, &bits[..length]).to_vec();
            assert_eq!(streamed(s, &bytes, length), Ok(expected.clone()), "s = {s}, {length} bits");
            if length % 8 == 0 {
                let whole = &bytes[..length / 8];
                let (a, b) = whole.split_at(whole.len() / 3);
                assert_eq!(
                    mac.tag(&[whole]).unwrap().as_bytes(),
                    expected,
                    "s = {s}, {length} bits"
                );
                assert_eq!(
                    mac.tag(&[a, b]).unwrap().as_bytes(),
                    expected,
                    "s = {s}, {length} bits"
                );
                assert_eq!(mac.verify(&[a, &[], b], &expected), Ok(()));
            }
        }
        let refusal = MessageTooLong { max_bits: most as u128 };
        assert_eq!(streamed(s, &bytes, most + 1), Err(refusal), "s = {s}");
        assert_eq!(mac.tag(&[&bytes[..most / 8 + 1]]).unwrap_err(), refusal, "s = {s}");
    }
}

#[test]
fn batches_of_every_length() {
    let [k1, k2] = keys();
    for s in [10, 11, 16] {
        let bytes = message(300);
        let messages: Vec<&[u8]> = (0..=bytes.len()).map(|length| &bytes[..length]).collect();
        let mut blocks = vec![[0; 4].into(); messages.len()];
        mac(s).tag_many(&messages, &mut blocks).unwrap();
        for (message, block) in messages.iter().zip(blocks) {
            assert_eq!(block, tag(&k1, &k2, s as usize, &bits_of(message)), "{}", message.len());
        }
    }
}
