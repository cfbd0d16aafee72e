//! AES-GCM: by a kernel of this crate, or else by RustCrypto and AWS-LC.

#[cfg(target_arch = "x86_64")]
use crate::kernel::{BlockKey, Kernel};
use crate::library::{open, seal, unbound};
use crate::short_gcm::{ShortGcm, is_short};
use aes::cipher::{BlockCipherEncrypt, BlockSizeUser, KeyInit, consts::U16};
use aws_lc_rs::aead::{self, LessSafeKey};
use lightseal_dtls::crypto::suites::mask::{BlockMask, Mask};
use lightseal_dtls::crypto::suites::nonce::Iv;
use lightseal_dtls::crypto::{Aead, Block, KeyDerivation, Record, Unauthentic};
use std::sync::OnceLock;
use zeroize::Zeroizing;

/// The keys of one direction of one epoch under GCM with the block cipher `C`, whose key has `LEN`
/// bytes and expands to `R` round keys.
pub(crate) struct Gcm<C, const LEN: usize, const R: usize> {
    key: Key<C, LEN, R>,
    iv: Iv,
}

/// A key, in the form that whoever computes with it needs.
enum Key<C, const LEN: usize, const R: usize> {
    #[cfg(target_arch = "x86_64")]
    Kernel(Kernel<R>),
    /// On processors for which there is no kernel.
    Composed(Box<Composed<C, LEN>>),
}

/// Short records by RustCrypto, and long ones by AWS-LC. What AWS-LC needs for one key takes more than
/// a kilobyte, so it is made when the first long record comes.
struct Composed<C, const LEN: usize> {
    short: ShortGcm<C>,
    long: OnceLock<LessSafeKey>,
    algorithm: &'static aead::Algorithm,
    key: Zeroizing<[u8; LEN]>,
}

impl<C, const LEN: usize, const R: usize> Gcm<C, LEN, R>
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit,
{
    fn new(algorithm: &'static aead::Algorithm, key: Zeroizing<[u8; LEN]>, iv: Iv) -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(kernel) = Kernel::new(&*key) {
            return Self { key: Key::Kernel(kernel), iv };
        }
        Self { key: Key::Composed(Box::new(Composed::new(algorithm, key))), iv }
    }

    pub(crate) fn derived(algorithm: &'static aead::Algorithm, keys: &KeyDerivation) -> Self {
        let mut key = Zeroizing::new([0; LEN]);
        keys.expand("key", &[], &mut *key);
        Self::new(algorithm, key, Iv::new(keys, &[]))
    }

    /// The keys from a key block.
    pub(crate) fn from_key_block(
        algorithm: &'static aead::Algorithm,
        key: &[u8],
        fixed_iv: &[u8],
    ) -> Self {
        let mut own = Zeroizing::new([0; LEN]);
        own.copy_from_slice(key);
        Self::new(algorithm, own, Iv::from_key_block(fixed_iv))
    }
}

impl<C, const LEN: usize> Composed<C, LEN>
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit,
{
    fn new(algorithm: &'static aead::Algorithm, key: Zeroizing<[u8; LEN]>) -> Self {
        let cipher = C::new_from_slice(&*key).expect("the key has its cipher's length");
        Self { short: ShortGcm::new(cipher), long: OnceLock::new(), algorithm, key }
    }

    fn long(&self) -> &LessSafeKey {
        self.long.get_or_init(|| unbound(self.algorithm, &*self.key))
    }

    fn seal(&self, nonce: [u8; 12], header: &[u8], content: &mut [u8], tag: &mut [u8]) {
        match is_short(header.len(), content.len()) {
            true => self.short.seal(nonce, header, content, tag),
            false => seal(self.long(), nonce, header, content, tag),
        }
    }

    fn open(
        &self,
        nonce: [u8; 12],
        header: &[u8],
        content: &mut [u8],
        tag: &[u8],
    ) -> Result<(), Unauthentic> {
        match is_short(header.len(), content.len()) {
            true => self.short.open(nonce, header, content, tag),
            false => open(self.long(), nonce, header, content, tag),
        }
    }
}

impl<C, const LEN: usize, const R: usize> Aead for Gcm<C, LEN, R>
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit + Send + Sync,
{
    fn seal(&self, record: Record<'_>, content: &mut [u8], tag: &mut [u8]) {
        let nonce = self.iv.nonce(record.number);
        match &self.key {
            #[cfg(target_arch = "x86_64")]
            Key::Kernel(kernel) => {
                tag.copy_from_slice(&kernel.seal(&nonce, record.header, content));
            }
            Key::Composed(key) => key.seal(nonce, record.header, content, tag),
        }
    }

    fn open(&self, record: Record<'_>, content: &mut [u8], tag: &[u8]) -> Result<(), Unauthentic> {
        let nonce = self.iv.nonce(record.number);
        match &self.key {
            #[cfg(target_arch = "x86_64")]
            Key::Kernel(kernel) => {
                use subtle::ConstantTimeEq;
                use zeroize::Zeroize;
                let tag = tag.try_into().map_err(|_| Unauthentic)?;
                let expected = kernel.open(&nonce, record.header, content);
                if bool::from(u128::from_ne_bytes(expected).ct_eq(&u128::from_ne_bytes(tag))) {
                    return Ok(());
                }
                // It was decrypted on the way to its tag.
                content.zeroize();
                Err(Unauthentic)
            }
            Key::Composed(key) => key.open(nonce, record.header, content, tag),
        }
    }
}

/// The mask for record numbers, by whoever computes the records.
pub(crate) enum GcmMask<C, const R: usize> {
    #[cfg(target_arch = "x86_64")]
    Kernel(BlockKey<R>),
    Composed(BlockMask<C>),
}

impl<C, const R: usize> GcmMask<C, R>
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit,
{
    /// Derives its key.
    pub(crate) fn derived<const LEN: usize>(keys: &KeyDerivation) -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            let mut key = Zeroizing::new([0; LEN]);
            keys.expand("sn", &[], &mut *key);
            if let Some(key) = BlockKey::new(&*key) {
                return Self::Kernel(key);
            }
        }
        Self::Composed(BlockMask::new(keys, &[]))
    }
}

impl<C, const R: usize> Mask for GcmMask<C, R>
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + Send + Sync,
{
    #[inline]
    fn mask(&self, sample: &Block) -> [u8; 2] {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Kernel(key) => {
                let [a, b, ..] = key.encrypt(sample);
                [a, b]
            }
            Self::Composed(mask) => mask.mask(sample),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::short_gcm::{LONGEST_HEADER, LONGEST_TEXT};
    use aes::{Aes128Enc, Aes256Enc};

    /// Every length, against AWS-LC, as are all headers; and nothing that was changed is opened.
    #[test]
    fn short_records_are_as_the_library_has_them() {
        fn compare<C, const LEN: usize>(algorithm: &'static aead::Algorithm)
        where
            C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit,
        {
            let key: [u8; LEN] = core::array::from_fn(|at| at as u8 * 7);
            let gcm = Composed::<C, LEN>::new(algorithm, Zeroizing::new(key));
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

    /// With and without a kernel, records are those of AWS-LC, and what was changed is refused.
    #[test]
    fn all_records_are_of_one_key() {
        let key = || Zeroizing::new([5; 16]);
        let iv = || Iv::from_key_block(&[3; 4]);
        let composed = Box::new(Composed::new(&aead::AES_128_GCM, key()));
        let composed = Gcm { key: Key::Composed(composed), iv: iv() };
        let best = Gcm::<Aes128Enc, 16, 11>::new(&aead::AES_128_GCM, key(), iv());
        let library = unbound(&aead::AES_128_GCM, &[5; 16]);
        for gcm in [&composed, &best] {
            let lengths = [0, 1, LONGEST_TEXT, LONGEST_TEXT + 1, 2000];
            for (number, len) in lengths.into_iter().enumerate() {
                for header in [&[7; 5][..], &[7; 40]] {
                    let record = || Record { number: number as u64, header };
                    let (mut text, mut tag) = (vec![1; len], [0; 16]);
                    gcm.seal(record(), &mut text, &mut tag);
                    let nonce = gcm.iv.nonce(record().number);
                    open(&library, nonce, header, &mut text.clone(), &tag).unwrap();
                    let other = Record { number: 77, header };
                    let cut = gcm.open(record(), &mut text.clone(), &tag[..15]);
                    assert_eq!(
                        (gcm.open(other, &mut text.clone(), &tag), cut),
                        (Err(Unauthentic), Err(Unauthentic))
                    );
                    gcm.open(record(), &mut text, &tag).unwrap();
                    assert_eq!(text, vec![1; len]);
                }
            }
        }
    }

    /// What a forged record decrypts to stays nowhere.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_forged_record_is_erased() {
        let key = Zeroizing::new([5; 16]);
        let iv = Iv::from_key_block(&[3; 4]);
        let gcm = Gcm::<Aes128Enc, 16, 11>::new(&aead::AES_128_GCM, key, iv);
        if let Key::Kernel(_) = gcm.key {
            let mut text = [7; 100];
            let record = Record { number: 1, header: &[] };
            gcm.open(record, &mut text, &[0; 16]).unwrap_err();
            assert_eq!(text, [0; 100]);
        }
    }
}
