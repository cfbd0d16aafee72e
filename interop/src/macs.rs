//! LightMAC and other libraries' MACs over AES-128, keyed once, one message at a time.

use aws_lc_rs::aead as aws_lc;
use digest::{FixedOutputReset, InvalidLength, KeyInit, Mac};
use lightmac::{Aes128, Hasher, LightMac};
use openssl_sys as ffi;
use ring::aead as ring_aead;
use std::ptr::{NonNull, null, null_mut};

/// A tag of the length of a block.
pub type Tag = [u8; 16];

/// A MAC that tags messages.
pub trait Tagger {
    /// The tag of `message`.
    fn tag(&mut self, message: &[u8]) -> Tag;
}

/// LightMAC with tags of the length of a block.
///
/// # Panics
/// There is no counter of `counter_bits` bits, or later a message is too long for it.
pub fn lightmac(counter_bits: u32) -> LightMac<Aes128> {
    let hasher = Hasher::new(&[1; 16].into(), counter_bits).expect("a counter length");
    LightMac::from_parts(hasher, Aes128::new(&[2; 16].into()), 128).expect("a tag length")
}

impl Tagger for LightMac<Aes128> {
    fn tag(&mut self, message: &[u8]) -> Tag {
        let tag = LightMac::tag(self, &[message]).expect("a short message");
        *tag.as_bytes().first_chunk().expect("a whole block")
    }
}

/// RustCrypto's CMAC over any AES-128.
#[derive(Clone)]
pub struct RustCrypto<M>(M);

impl<M: KeyInit> RustCrypto<M> {
    /// The MAC under a key.
    ///
    /// # Errors
    /// The key does not have the cipher's length.
    pub fn new(key: &[u8]) -> Result<Self, InvalidLength> {
        <M as KeyInit>::new_from_slice(key).map(Self)
    }
}

impl<M: Mac + FixedOutputReset> Tagger for RustCrypto<M> {
    fn tag(&mut self, message: &[u8]) -> Tag {
        Mac::update(&mut self.0, message);
        *self.0.finalize_reset().into_bytes().first_chunk().expect("a whole block")
    }
}

/// OpenSSL's CMAC with AES-128, by the interface with the least overhead.
pub struct OpenSslCmac(NonNull<ffi::CMAC_CTX>);

impl OpenSslCmac {
    /// The MAC under a key.
    ///
    /// # Panics
    /// OpenSSL is out of memory.
    pub fn new(key: &[u8; 16]) -> Self {
        // SAFETY: the function has no arguments.
        let context = unsafe { ffi::CMAC_CTX_new() };
        let this = Self(NonNull::new(context).expect("memory"));
        // SAFETY: the context is valid, the key has the given length, and there is no engine.
        let done = unsafe {
            ffi::CMAC_Init(
                this.0.as_ptr(),
                key.as_ptr().cast(),
                key.len(),
                ffi::EVP_aes_128_cbc(),
                null_mut(),
            )
        };
        assert_eq!(done, 1, "CMAC_Init");
        this
    }
}

impl Tagger for OpenSslCmac {
    fn tag(&mut self, message: &[u8]) -> Tag {
        let (mut tag, mut length) = ([0; 16], 16);
        let context = self.0.as_ptr();
        // SAFETY: the context is valid and has a key. Null for the key and the cipher keeps both.
        // The message is readable, and the tag is writable for a block.
        let done = unsafe {
            ffi::CMAC_Init(context, null(), 0, null(), null_mut()) == 1
                && ffi::CMAC_Update(context, message.as_ptr().cast(), message.len()) == 1
                && ffi::CMAC_Final(context, tag.as_mut_ptr(), &raw mut length) == 1
        };
        assert!(done && length == tag.len(), "CMAC");
        tag
    }
}

impl Drop for OpenSslCmac {
    fn drop(&mut self) {
        // SAFETY: the context is valid and not used any more.
        unsafe { ffi::CMAC_CTX_free(self.0.as_ptr()) }
    }
}

/// ring's AES-128-GCM with associated data only.
pub struct RingGmac(ring_aead::LessSafeKey);

impl RingGmac {
    /// The MAC under a key.
    ///
    /// # Panics
    /// Never: the key has the cipher's length.
    pub fn new(key: &[u8; 16]) -> Self {
        let key = ring_aead::UnboundKey::new(&ring_aead::AES_128_GCM, key).expect("16 bytes");
        Self(ring_aead::LessSafeKey::new(key))
    }
}

impl Tagger for RingGmac {
    fn tag(&mut self, message: &[u8]) -> Tag {
        let nonce = ring_aead::Nonce::assume_unique_for_key([0; 12]);
        let aad = ring_aead::Aad::from(message);
        let tag = self.0.seal_in_place_separate_tag(nonce, aad, &mut []).expect("nothing to seal");
        *tag.as_ref().first_chunk().expect("a whole block")
    }
}

/// AWS-LC's AES-128-GCM with associated data only.
pub struct AwsLcGmac(aws_lc::LessSafeKey);

impl AwsLcGmac {
    /// The MAC under a key.
    ///
    /// # Panics
    /// Never: the key has the cipher's length.
    pub fn new(key: &[u8; 16]) -> Self {
        let key = aws_lc::UnboundKey::new(&aws_lc::AES_128_GCM, key).expect("16 bytes");
        Self(aws_lc::LessSafeKey::new(key))
    }
}

impl Tagger for AwsLcGmac {
    fn tag(&mut self, message: &[u8]) -> Tag {
        let nonce = aws_lc::Nonce::assume_unique_for_key([0; 12]);
        let aad = aws_lc::Aad::from(message);
        let tag = self.0.seal_in_place_separate_tag(nonce, aad, &mut []).expect("nothing to seal");
        *tag.as_ref().first_chunk().expect("a whole block")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cmac::Cmac;

    const KEY: [u8; 16] = [0x5a; 16];

    /// The contenders compute the same function, so that their times can be compared.
    #[test]
    fn the_cmacs_agree_and_so_do_the_gmacs() {
        let mut cmacs: [Box<dyn Tagger>; 3] = [
            Box::new(OpenSslCmac::new(&KEY)),
            Box::new(RustCrypto::<Cmac<aes::Aes128Enc>>::new(&KEY).unwrap()),
            Box::new(RustCrypto::<Cmac<Aes128>>::new(&KEY).unwrap()),
        ];
        let mut gmacs: [Box<dyn Tagger>; 2] =
            [Box::new(RingGmac::new(&KEY)), Box::new(AwsLcGmac::new(&KEY))];
        let message: Vec<u8> = (0..200).collect();
        for length in [0, 1, 8, 15, 16, 17, 64, 200, 5] {
            let message = &message[..length];
            for group in [&mut cmacs[..], &mut gmacs[..]] {
                let expected = group[0].tag(message);
                assert!(group.iter_mut().all(|mac| mac.tag(message) == expected), "{length}");
            }
        }
    }

    #[test]
    fn lightmacs_tag_is_its_whole_block() {
        let mut mac = lightmac(8);
        let tag = Tagger::tag(&mut mac, b"message");
        assert_eq!(
            tag,
            mac.hasher()
                .hash_parts(&[b"message"])
                .map(|v| { *mac.finalize(&v).as_bytes().first_chunk().unwrap() })
                .unwrap()
        );
    }
}
