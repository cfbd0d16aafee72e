//! Private keys of the suite.

use crate::Failure;
use lightseal_dtls::Random;
use lightseal_dtls::codepoints::SignatureScheme;
use lightseal_dtls::crypto::{Signing, SigningKey};
use lightseal_dtls_aws_lc::PROVIDER;
use pki_types::PrivateKeyDer;
use pki_types::pem::PemObject;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A key that signs with no other schemes than the case allows, and perhaps later.
#[derive(Debug)]
struct CaseKey {
    key: Arc<dyn SigningKey>,
    /// Empty: all schemes of the key.
    allowed: Vec<SignatureScheme>,
    delay: Option<Arc<Delay>>,
}

/// Whether a key that signs later was asked.
#[derive(Debug, Default)]
pub(crate) struct Delay(AtomicBool);

impl Delay {
    /// Whether a signature is outstanding.
    pub(crate) fn is_outstanding(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Reads a key. With `allowed` schemes it signs with no others; with `delay` it signs when it is
/// asked for the second time.
pub(crate) fn read(
    path: &str,
    allowed: Vec<SignatureScheme>,
    delay: Option<Arc<Delay>>,
) -> Result<Arc<dyn SigningKey>, Failure> {
    let der = PrivateKeyDer::from_pem_file(path)
        .map_err(|error| Failure::Failed(format!("{path}: {error}")))?;
    let key = PROVIDER
        .load_key(&der)
        .map_err(|error| Failure::Unimplemented(format!("{path}: {error}")))?;
    Ok(Arc::new(CaseKey { key, allowed, delay }))
}

impl SigningKey for CaseKey {
    fn schemes(&self) -> &[SignatureScheme] {
        if self.allowed.is_empty() { self.key.schemes() } else { &self.allowed }
    }

    fn public_key(&self) -> &[u8] {
        self.key.public_key()
    }

    fn sign(&self, scheme: SignatureScheme, message: &[u8], random: &mut Random) -> Signing {
        match &self.delay {
            Some(delay) if !delay.0.fetch_not(Ordering::Relaxed) => Signing::Later,
            _ => self.key.sign(scheme, message, random),
        }
    }
}
