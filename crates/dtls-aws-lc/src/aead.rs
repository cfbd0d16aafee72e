//! AEAD suites over AWS-LC.

use crate::short_gcm::{ShortGcm, is_short};
use aes::cipher::{BlockCipherEncrypt, BlockSizeUser, KeyInit, consts::U16};
use aes::{Aes128Enc, Aes256Enc};
use aws_lc_rs::aead::quic::HeaderProtectionKey;
use aws_lc_rs::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use lightseal_dtls::crypto::suites::mask::{BlockMask, Mask, Masked};
use lightseal_dtls::crypto::suites::nonce::Iv;
use lightseal_dtls::crypto::{Aead, Block, KeyDerivation, Protection, Record, Unauthentic};
use std::sync::OnceLock;
use zeroize::Zeroizing;

struct ChaChaMask(HeaderProtectionKey);

impl Mask for ChaChaMask {
    fn mask(&self, sample: &Block) -> [u8; 2] {
        // QUIC's mask is computed in the same way (RFC 9001, section 5.4.4) and is three bytes
        // longer.
        let [a, b, ..] = self.0.new_mask(sample).expect("a sample has 16 bytes");
        [a, b]
    }
}

fn unbound(algorithm: &'static aead::Algorithm, key: &[u8]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(algorithm, key).expect("the key has its algorithm's length"))
}

/// The keys of one direction of one epoch under ChaCha20-Poly1305.
struct Keys {
    aead: LessSafeKey,
    iv: Iv,
}

impl Keys {
    fn derived<const LEN: usize>(
        algorithm: &'static aead::Algorithm,
        keys: &KeyDerivation,
    ) -> Self {
        let mut key = Zeroizing::new([0; LEN]);
        keys.expand("key", &[], &mut *key);
        Self::new(algorithm, &*key, Iv::new(keys, &[]))
    }

    fn new(algorithm: &'static aead::Algorithm, key: &[u8], iv: Iv) -> Self {
        Self { aead: unbound(algorithm, key), iv }
    }
}

/// The keys of one direction of one epoch under GCM. What AWS-LC needs for one key takes more than a
/// kilobyte, so it is made when the first long record comes.
struct Gcm<C, const LEN: usize> {
    short: ShortGcm<C>,
    long: OnceLock<LessSafeKey>,
    algorithm: &'static aead::Algorithm,
    key: Zeroizing<[u8; LEN]>,
    iv: Iv,
}

impl<C, const LEN: usize> Gcm<C, LEN>
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit,
{
    fn new(algorithm: &'static aead::Algorithm, key: Zeroizing<[u8; LEN]>, iv: Iv) -> Self {
        let cipher = C::new_from_slice(&*key).expect("the key has its cipher's length");
        Self { short: ShortGcm::new(cipher), long: OnceLock::new(), algorithm, key, iv }
    }

    fn derived(algorithm: &'static aead::Algorithm, keys: &KeyDerivation) -> Self {
        let mut key = Zeroizing::new([0; LEN]);
        keys.expand("key", &[], &mut *key);
        Self::new(algorithm, key, Iv::new(keys, &[]))
    }

    /// The keys from a key block.
    fn from_key_block(algorithm: &'static aead::Algorithm, key: &[u8], fixed_iv: &[u8]) -> Self {
        let mut own = Zeroizing::new([0; LEN]);
        own.copy_from_slice(key);
        Self::new(algorithm, own, Iv::from_key_block(fixed_iv))
    }

    fn long(&self) -> &LessSafeKey {
        self.long.get_or_init(|| unbound(self.algorithm, &*self.key))
    }
}

impl<C, const LEN: usize> Aead for Gcm<C, LEN>
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit + Send + Sync,
{
    fn seal(&self, record: Record<'_>, content: &mut [u8], tag: &mut [u8]) {
        let nonce = self.iv.nonce(record.number);
        match is_short(record.header.len(), content.len()) {
            true => self.short.seal(nonce, record.header, content, tag),
            false => seal(self.long(), nonce, record.header, content, tag),
        }
    }

    fn open(&self, record: Record<'_>, content: &mut [u8], tag: &[u8]) -> Result<(), Unauthentic> {
        let nonce = self.iv.nonce(record.number);
        match is_short(record.header.len(), content.len()) {
            true => self.short.open(nonce, record.header, content, tag),
            false => open(self.long(), nonce, record.header, content, tag),
        }
    }
}

pub(crate) fn aes_128_gcm(keys: &KeyDerivation) -> Box<dyn Protection> {
    let aead = Gcm::<Aes128Enc, 16>::derived(&aead::AES_128_GCM, keys);
    Box::new(Masked { aead, mask: BlockMask::<Aes128Enc>::new(keys, &[]) })
}

pub(crate) fn aes_256_gcm(keys: &KeyDerivation) -> Box<dyn Protection> {
    let aead = Gcm::<Aes256Enc, 32>::derived(&aead::AES_256_GCM, keys);
    Box::new(Masked { aead, mask: BlockMask::<Aes256Enc>::new(keys, &[]) })
}

pub(crate) fn chacha20_poly1305(keys: &KeyDerivation) -> Box<dyn Protection> {
    let aead = Keys::derived::<32>(&aead::CHACHA20_POLY1305, keys);
    let mut sn = Zeroizing::new([0; 32]);
    keys.expand("sn", &[], &mut *sn);
    let mask = HeaderProtectionKey::new(&aead::quic::CHACHA20, &*sn);
    let mask = ChaChaMask(mask.expect("the key has its algorithm's length"));
    Box::new(Masked { aead, mask })
}

/// AES-128-GCM in DTLS 1.2, with keys from a key block.
pub(crate) fn aes_128_gcm_12(key: &[u8], fixed_iv: &[u8]) -> Box<dyn Aead> {
    Box::new(Gcm::<Aes128Enc, 16>::from_key_block(&aead::AES_128_GCM, key, fixed_iv))
}

/// AES-256-GCM in DTLS 1.2, with keys from a key block.
pub(crate) fn aes_256_gcm_12(key: &[u8], fixed_iv: &[u8]) -> Box<dyn Aead> {
    Box::new(Gcm::<Aes256Enc, 32>::from_key_block(&aead::AES_256_GCM, key, fixed_iv))
}

/// ChaCha20-Poly1305 in DTLS 1.2, with keys from a key block.
pub(crate) fn chacha20_poly1305_12(key: &[u8], fixed_iv: &[u8]) -> Box<dyn Aead> {
    Box::new(Keys::new(&aead::CHACHA20_POLY1305, key, Iv::from_key_block(fixed_iv)))
}

impl Aead for Keys {
    fn seal(&self, record: Record<'_>, content: &mut [u8], tag: &mut [u8]) {
        seal(&self.aead, self.iv.nonce(record.number), record.header, content, tag);
    }

    fn open(&self, record: Record<'_>, content: &mut [u8], tag: &[u8]) -> Result<(), Unauthentic> {
        open(&self.aead, self.iv.nonce(record.number), record.header, content, tag)
    }
}

fn seal(key: &LessSafeKey, nonce: [u8; 12], header: &[u8], content: &mut [u8], tag: &mut [u8]) {
    let nonce = Nonce::assume_unique_for_key(nonce);
    let full = key
        .seal_in_place_separate_tag(nonce, Aad::from(header), content)
        .expect("a record is far below the AEAD's longest message");
    tag.copy_from_slice(full.as_ref());
}

fn open(
    key: &LessSafeKey,
    nonce: [u8; 12],
    header: &[u8],
    content: &mut [u8],
    tag: &[u8],
) -> Result<(), Unauthentic> {
    let nonce = Nonce::assume_unique_for_key(nonce);
    key.open_in_place_separate_tag(nonce, Aad::from(header), tag, content)
        .map(|_| ())
        .map_err(|_| Unauthentic)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::short_gcm::{LONGEST_HEADER, LONGEST_TEXT};

    /// Every length, against AWS-LC, as are all headers; and nothing that was changed is opened.
    #[test]
    fn short_records_are_as_the_library_has_them() {
        fn compare<C, const LEN: usize>(algorithm: &'static aead::Algorithm)
        where
            C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit,
        {
            let key: [u8; LEN] = core::array::from_fn(|at| at as u8 * 7);
            let gcm = Gcm::<C, LEN>::from_key_block(algorithm, &key, &[3; 4]);
            for text in 0..=LONGEST_TEXT {
                let header = [9; LONGEST_HEADER];
                let header = &header[..text % (LONGEST_HEADER + 1)];
                let plain: Vec<u8> = (0..text).map(|at| at as u8).collect();
                let nonce = core::array::from_fn(|at| (at + text) as u8);
                assert!(is_short(header.len(), text));
                let (mut one, mut other) = (plain.clone(), plain.clone());
                let (mut tag, mut expected) = ([0; 16], [0; 16]);
                gcm.short.seal(nonce, header, &mut one, &mut tag);
                seal(gcm.long(), nonce, header, &mut other, &mut expected);
                assert_eq!((&one, tag), (&other, expected), "{text}");
                for bit in 0..8 * (text + 16) {
                    let (mut text, mut tag) = (one.clone(), tag);
                    match text.get_mut(bit / 8) {
                        Some(byte) => *byte ^= 1 << (bit % 8),
                        None => tag[bit / 8 - text.len()] ^= 1 << (bit % 8),
                    }
                    let changed = text.clone();
                    let opened = gcm.short.open(nonce, header, &mut text, &tag);
                    assert!(opened.is_err() && text == changed);
                }
                assert!(gcm.short.open(nonce, &[8], &mut one.clone(), &tag).is_err());
                assert!(gcm.short.open(nonce, header, &mut one, &tag[..15]).is_err());
                gcm.short.open(nonce, header, &mut one, &tag).unwrap();
                assert_eq!(one, plain);
            }
        }
        compare::<Aes128Enc, 16>(&aead::AES_128_GCM);
        compare::<Aes256Enc, 32>(&aead::AES_256_GCM);
    }

    #[test]
    fn short_and_long_records_are_of_one_key() {
        let gcm = Gcm::<Aes128Enc, 16>::from_key_block(&aead::AES_128_GCM, &[5; 16], &[3; 4]);
        for (number, len) in [0, 1, LONGEST_TEXT, LONGEST_TEXT + 1, 2000].into_iter().enumerate() {
            for header in [&[7; 5][..], &[7; 40]] {
                let record = || Record { number: number as u64, header };
                let (mut text, mut tag) = (vec![1; len], [0; 16]);
                gcm.seal(record(), &mut text, &mut tag);
                let whole = Keys {
                    aead: unbound(&aead::AES_128_GCM, &[5; 16]),
                    iv: Iv::from_key_block(&[3; 4]),
                };
                whole.open(record(), &mut text.clone(), &tag).unwrap();
                gcm.open(record(), &mut text, &tag).unwrap();
                assert_eq!(text, vec![1; len]);
            }
        }
    }
}
