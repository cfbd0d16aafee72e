//! SHA-256 of RustCrypto, which selects the processor's SHA instructions at run time.
//!
//! It is the hash of suites that name no other one. Cookies, fingerprints of hellos and the check
//! that tells the owners of sessions apart use it whatever a suite names, because no peer ever
//! computes them.

use super::hash::{Hash, HashAlgorithm};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Digest;

pub(super) type HmacState = Hmac<sha2::Sha256>;
pub(super) type Running = sha2::Sha256;

/// The portable SHA-256.
pub struct Sha256;

impl Hash for Sha256 {
    fn algorithm(&self) -> HashAlgorithm {
        HashAlgorithm::Sha256
    }

    fn digest(&self, message: &[&[u8]], out: &mut [u8]) {
        let mut running = Running::default();
        message.iter().for_each(|part| update(&mut running, part));
        finish(&running, out);
    }

    fn hmac(&self, key: &[u8], message: &[&[u8]], out: &mut [u8]) {
        mac(&hmac_state(key), message, out);
    }

    fn hmac_state(&self, key: &[u8]) -> Option<super::HmacState> {
        Some(super::HmacState::portable(HashAlgorithm::Sha256, key))
    }
}

pub(super) fn hmac_state(key: &[u8]) -> HmacState {
    Hmac::new_from_slice(key).expect("HMAC takes any key")
}

pub(super) fn mac(state: &HmacState, message: &[&[u8]], out: &mut [u8]) {
    let mut state = state.clone();
    message.iter().for_each(|part| state.update(part));
    out.copy_from_slice(&state.finalize().into_bytes());
}

pub(super) fn update(running: &mut Running, part: &[u8]) {
    Digest::update(running, part);
}

pub(super) fn finish(running: &Running, out: &mut [u8]) {
    out.copy_from_slice(&running.clone().finalize());
}
