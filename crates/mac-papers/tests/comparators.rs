//! The MACs for comparison against models that follow their definitions one block at a time.

use aes::Aes128;
use cipher::{Block, BlockCipherEncrypt, KeyInit};
use lightmac::{Present80, Present128};
use lightseal_mac_papers::{Emac, PmacParity};
use proptest::prelude::*;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn number(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
}

fn encrypt<C: BlockCipherEncrypt>(cipher: &C, input: u128) -> u128 {
    let n = C::block_size();
    let mut block = Block::<C>::try_from(&input.to_be_bytes()[16 - n..]).unwrap();
    cipher.encrypt_block(&mut block);
    number(&block)
}

/// The blocks of M ‖ 10*, at least one.
fn padded<C: BlockCipherEncrypt>(message: &[u8]) -> Vec<u128> {
    let n = C::block_size();
    let mut bytes = [message, &[0x80]].concat();
    bytes.resize(bytes.len().next_multiple_of(n), 0);
    bytes.chunks(n).map(number).collect()
}

fn emac<C: BlockCipherEncrypt>(k1: &C, k2: &C, message: &[u8]) -> u128 {
    encrypt(k2, padded::<C>(message).into_iter().fold(0, |chain, block| encrypt(k1, chain ^ block)))
}

/// The product of two elements of the field of 2^n elements, by long multiplication.
fn times(n: u32, mut a: u128, mut b: u128) -> u128 {
    let (mask, polynomial) = if n == 128 { (u128::MAX, 0x87) } else { ((1 << n) - 1, 0x1b) };
    let mut product = 0;
    while b > 0 {
        if b & 1 == 1 {
            product ^= a;
        }
        let carry = a >> (n - 1) & 1;
        a = (a << 1 & mask) ^ (carry * polynomial);
        b >>= 1;
    }
    product
}

fn pmac_parity<C: BlockCipherEncrypt>(keys: &[C; 4], message: &[u8]) -> u128 {
    let n = C::block_size() as u32 * 8;
    let unit = encrypt(&keys[0], 0);
    let mut blocks = padded::<C>(message);
    let last = blocks.pop().unwrap();
    let mut sum = 0;
    for (i, pair) in (0u128..).zip(blocks.chunks(2)) {
        let mask = times(n, unit, 1 ^ (i ^ i >> 1) << 1);
        sum ^= encrypt(&keys[0], pair[0] ^ mask);
        if let [one, two] = pair {
            sum ^= encrypt(&keys[1], two ^ mask) ^ encrypt(&keys[2], one ^ two ^ mask);
        }
    }
    encrypt(&keys[3], sum ^ last)
}

fn keys<C: KeyInit>() -> [C; 4] {
    [0x11, 0x22, 0x33, 0x44].map(|byte| C::new_from_slice(&vec![byte; C::key_size()]).unwrap())
}

fn agree<C: BlockCipherEncrypt + KeyInit + Clone + 'static>(message: &[u8]) {
    agree_under(keys::<C>(), message);
}

fn agree_under<C: BlockCipherEncrypt + Clone + 'static>([a, b, c, d]: [C; 4], message: &[u8]) {
    let rival = Emac::from_ciphers(a.clone(), b.clone());
    assert_eq!(number(&rival.tag(message)), emac(&a, &b, message), "{} bytes", message.len());
    let rival = PmacParity::from_ciphers([a.clone(), b.clone(), c.clone()], d.clone());
    let expected = pmac_parity(&[a, b, c, d], message);
    assert_eq!(number(&rival.tag(message)), expected, "{} bytes", message.len());
}

fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i % 251) as u8).collect()
}

/// A pair has 16 or 32 bytes, a group of pairs 1 or 2 KiB.
#[test]
fn every_short_length_and_the_ends_of_groups() {
    for length in (0..100).chain(990..1060).chain(2010..2100).chain([4096, 4097, 6144, 20_000]) {
        let message = bytes(length);
        agree::<Aes128>(&message);
        agree::<Present80>(&message);
        agree::<Present128>(&message);
    }
}

#[test]
fn every_kernel() {
    for kernel in lightmac::aes::Kernel::available() {
        let keys = [1, 2, 3, 4].map(|byte| {
            lightmac::Aes128::with_kernel(&[byte; 16].into(), kernel).expect("available")
        });
        for length in (0..600).chain(2010..2100).chain([6144, 20_000]) {
            agree_under(keys.clone(), &bytes(length));
        }
    }
}

#[test]
fn doubling_in_the_model_is_the_fields() {
    // x^127 · x and x^63 · x are the lower terms of the polynomials. The product of an element and
    // its inverse is 1.
    assert_eq!(times(128, 1 << 127, 2), 0x87);
    assert_eq!(times(64, 1 << 63, 2), 0x1b);
    assert_eq!(times(64, 0x8000_0000_0000_000d, 2), 1);
}

/// The vectors over AES were made by an implementation in Python (`vectors/comparators.py`), and
/// those over PRESENT by this crate.
#[test]
fn vectors() {
    fn both<C: BlockCipherEncrypt + KeyInit + 'static>(length: usize) -> [String; 2] {
        let [a, b, c, d] = keys::<C>();
        let parity = PmacParity::from_ciphers([a, b, c], d).tag(&bytes(length));
        let [a, b, _, _] = keys::<C>();
        [hex(&Emac::from_ciphers(a, b).tag(&bytes(length))), hex(&parity)]
    }
    for (length, over_aes, over_present) in [
        (
            0,
            ["0a9a3ed0b249aa827831b82c9b953072", "f7e10fb741b214baaf848b1e26c34214"],
            ["ad64a7cf75cce4f8", "ec789ee3d3b1f7f1"],
        ),
        (
            16,
            ["0ff66168a8ff281a68ad4c77f8f09864", "229716e120080688207cc3a854f07071"],
            ["9b68da997ee5e843", "8c6c1ca7c4da8e58"],
        ),
        (
            40,
            ["810871ac8bb022dc9efd248d8edcc809", "cbb4bd825b1daf9364ad265993db3633"],
            ["a4ee8bd5b8bf36b8", "fb52543854c05297"],
        ),
        (
            1000,
            ["98bc298f4f5789296101205672b3f8d9", "2d69a185dafdf96bdccc19cbc47035ef"],
            ["03c717992e70c92b", "aa1bac9fbedb6270"],
        ),
    ] {
        assert_eq!(both::<Aes128>(length), over_aes, "{length} bytes");
        assert_eq!(both::<Present128>(length), over_present, "{length} bytes");
    }
}

proptest! {
    #[test]
    fn any_message(message in prop::collection::vec(any::<u8>(), 0..5000)) {
        agree::<Aes128>(&message);
        agree::<Present128>(&message);
    }
}
