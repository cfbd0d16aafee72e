//! The cryptography of all associations.

#[cfg(not(feature = "aws-lc"))]
pub(crate) use lightseal_dtls::crypto::rustcrypto::PROVIDER;
#[cfg(feature = "aws-lc")]
pub(crate) use lightseal_dtls_aws_lc::PROVIDER;

use crate::aside::aside;
use lightseal_dtls::Settings;
use lightseal_dtls::crypto::SelfTestFailed;
use std::sync::OnceLock;

/// The settings from which all ends of DTLS start. The provider is tested once in the life of the
/// process.
///
/// # Errors
///
/// If the provider fails its self-test.
pub(crate) fn settings() -> Result<Settings, SelfTestFailed> {
    static OUTCOME: OnceLock<Result<(), SelfTestFailed>> = OnceLock::new();
    (*OUTCOME.get_or_init(|| aside(|| PROVIDER.self_test())))?;
    Ok(Settings::new(&PROVIDER))
}
