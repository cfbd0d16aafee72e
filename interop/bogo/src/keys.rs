//! Private keys of the suite.

use crate::Failure;
use lightseal_dtls::Random;
use lightseal_dtls::codepoints::SignatureScheme;
use lightseal_dtls::crypto::{Signing, SigningKey};
use lightseal_dtls_aws_lc::PROVIDER;
use pki_types::PrivateKeyDer;
use pki_types::pem::PemObject;
use std::sync::Arc;

/// A key that signs with no other schemes than the case allows.
#[derive(Debug)]
struct Restricted {
    key: Arc<dyn SigningKey>,
    allowed: Vec<SignatureScheme>,
}

/// Reads a key. With `allowed` schemes it signs with no others.
pub(crate) fn read(
    path: &str,
    allowed: Vec<SignatureScheme>,
) -> Result<Arc<dyn SigningKey>, Failure> {
    let der = PrivateKeyDer::from_pem_file(path)
        .map_err(|error| Failure::Failed(format!("{path}: {error}")))?;
    let key = PROVIDER
        .load_key(&der)
        .map_err(|error| Failure::Unimplemented(format!("{path}: {error}")))?;
    Ok(if allowed.is_empty() { key } else { Arc::new(Restricted { key, allowed }) })
}

impl SigningKey for Restricted {
    fn schemes(&self) -> &[SignatureScheme] {
        &self.allowed
    }

    fn public_key(&self) -> &[u8] {
        self.key.public_key()
    }

    fn sign(&self, scheme: SignatureScheme, message: &[u8], random: &mut Random) -> Signing {
        self.key.sign(scheme, message, random)
    }
}
