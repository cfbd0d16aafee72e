//! The portable provider: AES-GCM of RustCrypto, which selects AES and carry-less multiplication
//! instructions at run time.

use super::{Gcm, GcmProvider, Unauthentic};
use aes_gcm::aead::AeadInOut;
use aes_gcm::{Aes128Gcm, Aes256Gcm, KeyInit};
use alloc::boxed::Box;

/// The provider that uses RustCrypto's ciphers.
pub static PROVIDER: GcmProvider = GcmProvider {
    name: "RustCrypto",
    aes_128: |key| Box::new(Cipher(Aes128Gcm::new(key.into()))),
    aes_256: |key| Box::new(Cipher(Aes256Gcm::new(key.into()))),
};

/// A cipher with its round keys and hash key, which RustCrypto wipes on drop (feature `zeroize`).
struct Cipher<A>(A);

macro_rules! gcm {
    ($cipher:ty) => {
        impl Gcm for Cipher<$cipher> {
            fn seal(&self, nonce: &[u8; 12], aad: &[u8], text: &mut [u8]) -> [u8; 16] {
                self.0
                    .encrypt_inout_detached(nonce.into(), aad, text.into())
                    .expect("a frame is far below GCM's limit of 2^36 bytes")
                    .into()
            }

            fn open(
                &self,
                nonce: &[u8; 12],
                aad: &[u8],
                text: &mut [u8],
                tag: &[u8; 16],
            ) -> Result<(), Unauthentic> {
                self.0
                    .decrypt_inout_detached(nonce.into(), aad, text.into(), tag.into())
                    .map_err(|_| Unauthentic)
            }
        }
    };
}

gcm!(Aes128Gcm);
gcm!(Aes256Gcm);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_bit_anywhere_is_refused() {
        for cipher in [(PROVIDER.aes_128)(&[7; 16]), (PROVIDER.aes_256)(&[7; 32])] {
            let nonce = [3; 12];
            let mut text = *b"some text";
            let tag = cipher.seal(&nonce, b"header", &mut text);
            assert_ne!(&text, b"some text");
            for bit in 0..8 * (6 + 9 + 16) {
                let mut all = [0; 6 + 9 + 16];
                all[..6].copy_from_slice(b"header");
                all[6..15].copy_from_slice(&text);
                all[15..].copy_from_slice(&tag);
                all[bit / 8] ^= 1 << (bit % 8);
                let (aad, rest) = all.split_at_mut(6);
                let (text, tag) = rest.split_at_mut(9);
                let tag: &[u8; 16] = (&*tag).try_into().unwrap();
                assert_eq!(cipher.open(&nonce, aad, text, tag), Err(Unauthentic), "bit {bit}");
            }
            assert_eq!(cipher.open(&nonce, b"header", &mut text, &tag), Ok(()));
            assert_eq!(&text, b"some text");
        }
    }
}
