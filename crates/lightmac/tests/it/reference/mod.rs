//! Reference implementations that are slow and obvious, and that share no code with the crate.

// Each test program uses a part of this module.
#![allow(dead_code)]

pub(crate) mod speck;

use cipher::{Block, BlockCipherEncrypt};

pub(crate) fn bits_of(bytes: &[u8]) -> Vec<bool> {
    bytes.iter().flat_map(|b| (0..8).map(move |i| b << i & 0x80 != 0)).collect()
}

pub(crate) fn bytes_of(bits: &[bool]) -> Vec<u8> {
    bits.chunks(8)
        .map(|c| c.iter().enumerate().fold(0, |byte, (i, &bit)| byte | u8::from(bit) << (7 - i)))
        .collect()
}

/// V as the paper defines it, one bit at a time.
pub(crate) fn model<C: BlockCipherEncrypt>(cipher: &C, s: usize, message: &[bool]) -> Vec<u8> {
    let n = C::block_size() * 8;
    let mut v = vec![0; n / 8];
    let mut add = |bytes: &[u8]| v.iter_mut().zip(bytes).for_each(|(v, b)| *v ^= b);
    let (mut rest, mut counter) = (message, 1u128);
    while rest.len() >= n - s {
        let lead = (0..s).rev().map(|bit| counter >> bit & 1 == 1);
        let block: Vec<bool> = lead.chain(rest[..n - s].iter().copied()).collect();
        let mut block = Block::<C>::try_from(bytes_of(&block).as_slice()).expect("n bits");
        cipher.encrypt_block(&mut block);
        add(&block);
        (rest, counter) = (&rest[n - s..], counter + 1);
    }
    let mut last = [rest, &[true]].concat();
    last.resize(n, false);
    add(&bytes_of(&last));
    v
}

/// The block E_K2(V), with V from [`model`].
pub(crate) fn tag<C: BlockCipherEncrypt>(k1: &C, k2: &C, s: usize, message: &[bool]) -> Block<C> {
    let mut block = Block::<C>::try_from(model(k1, s, message).as_slice()).expect("n bits");
    k2.encrypt_block(&mut block);
    block
}
