//! Tests of the kernels.

use super::*;
use aws_lc_rs::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};

/// Each kernel against AWS-LC: all lengths of texts and headers, and all bits changed.
fn compare<const R: usize, const LEN: usize>(algorithm: &'static aead::Algorithm) {
    let key: [u8; LEN] = core::array::from_fn(|at| at as u8 * 7 + 1);
    let reference = LessSafeKey::new(UnboundKey::new(algorithm, &key).unwrap());
    for kernel in Kernel::<R>::available(&key) {
        for len in 0..=3 * GROUP * BLOCK + BLOCK {
            let header: Vec<u8> = (0..len * 5 % 300).map(|at| (at * 3) as u8).collect();
            let plain: Vec<u8> = (0..len).map(|at| (at * 11 + len) as u8).collect();
            let nonce = core::array::from_fn(|at| (at * 17 + len) as u8);
            let (mut own, mut other) = (plain.clone(), plain.clone());
            let tag = kernel.seal(&nonce, &header, &mut own);
            let expected = reference
                .seal_in_place_separate_tag(
                    Nonce::assume_unique_for_key(nonce),
                    Aad::from(&header),
                    &mut other,
                )
                .unwrap();
            assert_eq!((&own, &tag[..]), (&other, expected.as_ref()), "{len}");
            // All bits of texts that end everywhere in a group, and fewer of longer ones.
            let step = if len <= GROUP * BLOCK { 1 } else { 13 };
            for bit in (0..8 * len).step_by(step) {
                let mut changed = own.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                assert_ne!(kernel.open(&nonce, &header, &mut changed), tag);
                changed[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(changed, plain);
            }
            for bit in (0..8 * header.len()).step_by(step) {
                let mut changed = header.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                assert_ne!(kernel.open(&nonce, &changed, &mut own.clone()), tag);
            }
            assert_eq!(kernel.open(&nonce, &header, &mut own), tag);
            assert_eq!(own, plain);
        }
    }
}

#[test]
fn tags_are_those_of_the_library() {
    compare::<11, 16>(&aead::AES_128_GCM);
    compare::<15, 32>(&aead::AES_256_GCM);
}

/// A counter that passes a multiple of 2^8 and of 2^16.
#[test]
fn the_longest_records_are_those_of_the_library() {
    let key = [5; 16];
    let reference = LessSafeKey::new(UnboundKey::new(&aead::AES_128_GCM, &key).unwrap());
    for kernel in Kernel::<11>::available(&key) {
        for len in [256 * 16 - 1, 256 * 16 + 1, 1 << 14, (1 << 20) + 17] {
            let (mut own, mut other) = (vec![3; len], vec![3; len]);
            let tag = kernel.seal(&[9; 12], &[7; 5], &mut own);
            let nonce = Nonce::assume_unique_for_key([9; 12]);
            let header = Aad::from(&[7; 5]);
            let expected = reference.seal_in_place_separate_tag(nonce, header, &mut other).unwrap();
            assert_eq!(tag, expected.as_ref());
            assert_eq!(own, other);
        }
    }
}

#[test]
fn single_blocks_are_those_of_the_cipher() {
    use aes::cipher::{BlockCipherEncrypt, KeyInit};
    let key: [u8; 16] = core::array::from_fn(|at| at as u8 * 15);
    let Some(own) = BlockKey::<11>::new(&key) else { return };
    for at in 0..=255 {
        let mut block = [at; BLOCK].into();
        aes::Aes128Enc::new(&key.into()).encrypt_block(&mut block);
        assert_eq!(own.encrypt(&[at; BLOCK]), block.0);
    }
}

#[test]
fn keys_of_other_lengths_are_refused() {
    for len in [0, 8, 15, 17, 24, 33] {
        assert!(Kernel::<11>::new(&vec![1; len]).is_none());
        assert!(Kernel::<15>::new(&vec![1; len]).is_none());
    }
    assert!(Kernel::<15>::new(&[1; 16]).is_none() && Kernel::<11>::new(&[1; 32]).is_none());
}

/// Neither a key nor a text of one of `lengths` determines a branch or an address.
#[cfg(target_os = "linux")]
fn constant_time<const R: usize, const LEN: usize>(lengths: &[usize]) {
    use tracer::{alike, secrets};
    alike("key schedule", &secrets(LEN), <[u8]>::to_vec, |key| Keys::<R>::expand(key).is_some());
    alike(
        "one block",
        &secrets(LEN + BLOCK),
        |secret| {
            let (key, block) = secret.split_at(LEN);
            (BlockKey::<R>::new(key), <[u8; BLOCK]>::try_from(block).unwrap())
        },
        |(key, block)| key.as_ref().map(|key| key.encrypt(block)),
    );
    for at in 0..Kernel::<R>::available(&[0; LEN]).count() {
        for (len, opens) in lengths.iter().flat_map(|len| [(*len, false), (*len, true)]) {
            let prepare = |secret: &[u8]| {
                let (key, text) = secret.split_at(LEN);
                (Kernel::<R>::available(key).nth(at).unwrap(), text.to_vec())
            };
            let name = format!("AES-{} on kernel {at}, {len} bytes", 8 * LEN);
            alike(&name, &secrets(LEN + len), prepare, |(kernel, text)| match opens {
                true => kernel.open(&[3; 12], &[7; 21], text),
                false => kernel.seal(&[3; 12], &[7; 21], text),
            });
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn secrets_determine_no_branch_and_no_address() {
    // They end in each register of a group, on both sides of its end, and after several groups.
    constant_time::<11, 16>(&[0, 1, 16, 17, 63, 65, 112, 113, 128, 300]);
    constant_time::<15, 32>(&[17, 129]);
}

/// Texts and headers lie at the edges of memory whose neighbouring pages cannot be accessed.
#[cfg(target_os = "linux")]
#[test]
fn no_byte_outside_of_a_text_or_header_is_accessed() {
    use tracer::Guarded;
    let (mut texts, headers) = (Guarded::new(1024), Guarded::new(1024));
    for kernel in Kernel::<11>::available(&[5; 16]) {
        for (len, last) in (0..=3 * GROUP * BLOCK).flat_map(|len| [(len, false), (len, true)]) {
            let header = headers.edges(len * 5 % 300)[usize::from(last)];
            let text = texts.edge_mut(len, last);
            let plain = text.to_vec();
            let tag = kernel.seal(&[9; 12], header, text);
            assert_eq!(kernel.open(&[9; 12], header, text), tag);
            assert_eq!(text, plain, "{len}");
        }
    }
}
