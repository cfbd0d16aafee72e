//! The AEADs of AWS-LC.

use aws_lc_rs::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use lightseal_dtls::crypto::Unauthentic;

pub(crate) fn unbound(algorithm: &'static aead::Algorithm, key: &[u8]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(algorithm, key).expect("the key has its algorithm's length"))
}

pub(crate) fn seal(
    key: &LessSafeKey,
    nonce: [u8; 12],
    header: &[u8],
    content: &mut [u8],
    tag: &mut [u8],
) {
    let nonce = Nonce::assume_unique_for_key(nonce);
    let full = key
        .seal_in_place_separate_tag(nonce, Aad::from(header), content)
        .expect("a record is far below the AEAD's longest message");
    tag.copy_from_slice(full.as_ref());
}

pub(crate) fn open(
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
