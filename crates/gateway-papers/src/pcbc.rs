//! The paper's encryption of a frame's first 32 bytes (section 4.3), as two blocks. The second
//! block is encrypted first; the first block is combined with the plaintext and the ciphertext of
//! the second before it is encrypted.

use aes::Aes128;
use aes::cipher::{Array, BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use core::fmt;

/// Number of bytes that are encrypted.
pub const COVERED: usize = 32;

/// AES-128 in this mode, under one key.
pub struct Pcbc(Aes128);

impl Pcbc {
    /// The cipher under `key`.
    pub fn new(key: &[u8; 16]) -> Self {
        Self(Aes128::new(key.into()))
    }

    /// C2 = E(P2), C1 = E(P1 ⊕ P2 ⊕ C2).
    pub fn encrypt(&self, blocks: &mut [u8; COVERED]) {
        let (first, second) = halves(blocks);
        let plain = second;
        let mut cipher = Array::from(second);
        self.0.encrypt_block(&mut cipher);
        let mut start = Array::from(xor(first, xor(plain, cipher.into())));
        self.0.encrypt_block(&mut start);
        blocks[..16].copy_from_slice(&start);
        blocks[16..].copy_from_slice(&cipher);
    }

    /// P2 = D(C2), P1 = D(C1) ⊕ P2 ⊕ C2.
    pub fn decrypt(&self, blocks: &mut [u8; COVERED]) {
        let (first, second) = halves(blocks);
        let mut plain = Array::from(second);
        self.0.decrypt_block(&mut plain);
        let mut start = Array::from(first);
        self.0.decrypt_block(&mut start);
        let start = xor(start.into(), xor(plain.into(), second));
        blocks[..16].copy_from_slice(&start);
        blocks[16..].copy_from_slice(&plain);
    }
}

impl fmt::Debug for Pcbc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pcbc(..)")
    }
}

fn halves(blocks: &[u8; COVERED]) -> ([u8; 16], [u8; 16]) {
    let (mut first, mut second) = ([0; 16], [0; 16]);
    first.copy_from_slice(&blocks[..16]);
    second.copy_from_slice(&blocks[16..]);
    (first, second)
}

fn xor(a: [u8; 16], b: [u8; 16]) -> [u8; 16] {
    core::array::from_fn(|at| a[at] ^ b[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_encrypted_is_decrypted_and_a_changed_first_block_leaves_the_second_as_it_was() {
        let pcbc = Pcbc::new(&[7; 16]);
        let plain: [u8; COVERED] = core::array::from_fn(|at| at as u8);
        let mut blocks = plain;
        pcbc.encrypt(&mut blocks);
        assert_ne!(blocks, plain);
        let mut changed = blocks;
        changed[3] ^= 1;
        pcbc.decrypt(&mut blocks);
        assert_eq!(blocks, plain);
        pcbc.decrypt(&mut changed);
        assert_eq!(changed[16..], plain[16..]);
        assert_ne!(changed[..16], plain[..16]);
    }

    #[test]
    fn any_change_of_the_second_block_changes_both() {
        let pcbc = Pcbc::new(&[7; 16]);
        let encrypted = |pn: u8| {
            let mut blocks = [9; COVERED];
            blocks[16] = pn;
            pcbc.encrypt(&mut blocks);
            blocks
        };
        let (one, two) = (encrypted(1), encrypted(2));
        assert_ne!(one[..16], two[..16]);
        assert_ne!(one[16..], two[16..]);
    }
}
