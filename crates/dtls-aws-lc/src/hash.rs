//! SHA-256, HMAC and HKDF over AWS-LC.

use aws_lc_rs::{digest, hmac};
use lightseal_dtls::crypto::{CustomRunningHash, Hash, HashAlgorithm, RunningHash};

/// SHA-256 of AWS-LC, for [`CipherSuite::with_hash`](lightseal_dtls::crypto::CipherSuite::with_hash)
/// where AWS-LC must compute everything.
pub struct Sha256;

impl Hash for Sha256 {
    fn algorithm(&self) -> HashAlgorithm {
        HashAlgorithm::Sha256
    }

    fn digest(&self, message: &[&[u8]], out: &mut [u8]) {
        let mut context = digest::Context::new(&digest::SHA256);
        message.iter().for_each(|part| context.update(part));
        out.copy_from_slice(context.finish().as_ref());
    }

    fn hmac(&self, key: &[u8], message: &[&[u8]], out: &mut [u8]) {
        let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
        message.iter().for_each(|part| context.update(part));
        out.copy_from_slice(context.sign().as_ref());
    }

    fn start(&self) -> RunningHash {
        RunningHash::custom(Box::new(Running(digest::Context::new(&digest::SHA256))))
    }
}

struct Running(digest::Context);

impl CustomRunningHash for Running {
    fn update(&mut self, part: &[u8]) {
        self.0.update(part);
    }

    fn value(&self, out: &mut [u8]) {
        out.copy_from_slice(self.0.clone().finish().as_ref());
    }

    fn fork(&self) -> Box<dyn CustomRunningHash> {
        Box::new(Self(self.0.clone()))
    }
}
