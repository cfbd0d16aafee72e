//! Connection IDs that show their place to nobody without the key: the encryption of QUIC-LB
//! (draft-ietf-quic-load-balancers, section "Four-Pass Encryption"), for IDs of eight bytes.

use aes_gcm::aes::Aes128;
use aes_gcm::aes::cipher::{BlockCipherEncrypt, KeyInit};

/// The bytes that are encrypted: a server ID and a nonce.
pub(super) const PLAIN: usize = 7;
/// Half of them, rounded up: the byte in the middle is split.
const HALF: usize = PLAIN.div_ceil(2);

/// A key under which IDs are encrypted.
pub(crate) struct ScrambleKey(Aes128);

impl ScrambleKey {
    pub(super) fn new(key: &[u8; 16]) -> Self {
        Self(Aes128::new(key.into()))
    }

    /// One round: what the half `from` adds to the other one.
    fn round(&self, pass: u8, from: [u8; HALF], into: &mut [u8; HALF]) {
        let mut block = [0; 16];
        block[..HALF].copy_from_slice(&from);
        [block[14], block[15]] = [PLAIN as u8, pass];
        let mut block = block.into();
        self.0.encrypt_block(&mut block);
        into.iter_mut().zip(&block).for_each(|(byte, pad)| *byte ^= pad);
        // Each half has four bits of the byte in the middle; even passes change the left half.
        if pass.is_multiple_of(2) {
            into[HALF - 1] &= 0xf0;
        } else {
            into[0] &= 0x0f;
        }
    }

    pub(super) fn encrypt(&self, bytes: &mut [u8; PLAIN]) {
        let (mut left, mut right) = split(bytes);
        self.round(1, left, &mut right);
        self.round(2, right, &mut left);
        self.round(3, left, &mut right);
        self.round(4, right, &mut left);
        *bytes = join(left, right);
    }

    pub(super) fn decrypt(&self, bytes: &mut [u8; PLAIN]) {
        let (mut left, mut right) = split(bytes);
        self.round(4, right, &mut left);
        self.round(3, left, &mut right);
        self.round(2, right, &mut left);
        self.round(1, left, &mut right);
        *bytes = join(left, right);
    }
}

/// Never the key.
impl std::fmt::Debug for ScrambleKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScrambleKey").finish_non_exhaustive()
    }
}

fn split(bytes: &[u8; PLAIN]) -> ([u8; HALF], [u8; HALF]) {
    let (mut left, mut right) = ([0; HALF], [0; HALF]);
    left.copy_from_slice(&bytes[..HALF]);
    right.copy_from_slice(&bytes[PLAIN - HALF..]);
    left[HALF - 1] &= 0xf0;
    right[0] &= 0x0f;
    (left, right)
}

fn join(left: [u8; HALF], right: [u8; HALF]) -> [u8; PLAIN] {
    let mut bytes = [0; PLAIN];
    bytes[..HALF].copy_from_slice(&left);
    bytes[HALF - 1] |= right[0];
    bytes[HALF..].copy_from_slice(&right[1..]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the draft's section on encryption, and the vector of seven bytes in its appendix.
    #[test]
    fn ids_are_encrypted_as_the_draft_says() {
        let examples: [(u128, u64, u64); 2] = [
            (0xfdf726a9893ec05c0632d3956680baf0, 0x31441a9c69c275, 0x67947d29be054a),
            (0x8f95f09245765f80256934e50c66207f, 0xed793aee080dbf, 0x20b1d07b359d3c),
        ];
        let bytes = |number: u64| {
            let mut bytes = [0; PLAIN];
            bytes.copy_from_slice(&number.to_be_bytes()[1..]);
            bytes
        };
        for (key, plain, encrypted) in examples {
            let key = ScrambleKey::new(&key.to_be_bytes());
            let mut id = bytes(plain);
            key.encrypt(&mut id);
            assert_eq!(id, bytes(encrypted));
            key.decrypt(&mut id);
            assert_eq!(id, bytes(plain));
        }
    }
}
