//! The portable SHA-256, which is the hash of suites that name no other one.
//!
//! What belongs to no suite uses it too: cookies, fingerprints of hellos and the check that tells
//! the owners of sessions apart, which no peer ever computes, and the keys of groups.

use super::blocks256::{Hmac256, Running256};
use super::hash::{Hash, HashAlgorithm, HmacState, RunningHash};

/// SHA-256.
pub struct Sha256;

impl Hash for Sha256 {
    fn algorithm(&self) -> HashAlgorithm {
        HashAlgorithm::Sha256
    }

    fn digest(&self, message: &[&[u8]], out: &mut [u8]) {
        let mut running = Running256::new();
        message.iter().for_each(|part| running.update(part));
        running.finish(out);
    }

    fn hmac(&self, key: &[u8], message: &[&[u8]], out: &mut [u8]) {
        Hmac256::new(key).mac(message, out);
    }

    fn hmac_state(&self, key: &[u8]) -> Option<HmacState> {
        Some(HmacState::portable(self.algorithm(), key))
    }

    fn start(&self) -> RunningHash {
        RunningHash::portable(self.algorithm())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hmac::{Hmac, KeyInit, Mac};
    use lightseal_core::Random;
    use sha2::Digest;
    use std::vec::Vec;

    /// The length of a hash value in bytes.
    const OUTPUT: usize = 32;

    /// Messages of all lengths around one and two blocks, in parts, against RustCrypto's own.
    #[test]
    fn hashes_are_those_of_the_crates_sha2_and_hmac() {
        let mut rng = Random::insecure(1);
        for len in 0..300 {
            let message: Vec<u8> = (0..len).map(|_| rng.below(256) as u8).collect();
            let first = rng.below(len as u64 + 1) as usize;
            let second = first + rng.below((len - first) as u64 + 1) as usize;
            let parts = [&message[..first], &message[first..second], &message[second..]];
            let mut out = [0; OUTPUT];
            Sha256.digest(&parts, &mut out);
            assert_eq!(out[..], sha2::Sha256::digest(&message)[..], "{len}: {first}, {second}");
            for key_len in [0, 1, 31, 32, 63, 64, 65, 200] {
                let key: Vec<u8> = (0..key_len).map(|_| rng.below(256) as u8).collect();
                Sha256.hmac(&key, &parts, &mut out);
                let mut expected = Hmac::<sha2::Sha256>::new_from_slice(&key).unwrap();
                expected.update(&message);
                assert_eq!(out[..], expected.finalize().into_bytes()[..], "{key_len}, {len}");
                let state = Hmac256::new(&key);
                let mut again = [0; OUTPUT];
                state.mac(&parts, &mut again);
                assert_eq!(again, out);
                state.mac(&[&message], &mut again);
                assert_eq!(again, out);
            }
        }
    }

    #[test]
    fn a_hash_value_may_be_read_before_the_message_is_over() {
        let mut running = RunningHash::portable(HashAlgorithm::Sha256);
        let (mut early, mut late) = ([0; OUTPUT], [0; OUTPUT]);
        for count in 1..200 {
            running.update(b"part ");
            running.value(&mut early);
            running.value(&mut late);
            assert_eq!(early, late);
            assert_eq!(early[..], sha2::Sha256::digest(b"part ".repeat(count))[..]);
        }
    }
}
