//! The portable SHA-256, which is the hash of suites that name no other one.
//!
//! What belongs to no suite uses it too: cookies, fingerprints of hellos and the check that tells
//! the owners of sessions apart, which no peer ever computes, and the keys of groups.

use super::hash::{Hash, HashAlgorithm, HmacState, RunningHash};

/// SHA-256 of RustCrypto, which selects the processor's SHA instructions at run time.
pub struct Sha256;

impl Hash for Sha256 {
    fn algorithm(&self) -> HashAlgorithm {
        HashAlgorithm::Sha256
    }

    fn digest(&self, message: &[&[u8]], out: &mut [u8]) {
        let mut running = self.start();
        message.iter().for_each(|part| running.update(part));
        running.value(out);
    }

    fn hmac(&self, key: &[u8], message: &[&[u8]], out: &mut [u8]) {
        HmacState::portable(self.algorithm(), key).mac(message, out);
    }

    fn hmac_state(&self, key: &[u8]) -> Option<HmacState> {
        Some(HmacState::portable(self.algorithm(), key))
    }

    fn start(&self) -> RunningHash {
        RunningHash::portable(self.algorithm())
    }
}
