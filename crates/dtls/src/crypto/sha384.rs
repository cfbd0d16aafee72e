//! The portable SHA-384 (feature `sha384`).

use super::hash::{Hash, HashAlgorithm, HmacState, RunningHash};

/// SHA-384 of RustCrypto.
pub struct Sha384;

impl Hash for Sha384 {
    fn algorithm(&self) -> HashAlgorithm {
        HashAlgorithm::Sha384
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
