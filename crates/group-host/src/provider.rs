//! The cryptography of the channels between controllers and devices.

#[cfg(not(feature = "aws-lc"))]
pub(crate) use lightseal_dtls::crypto::rustcrypto::PROVIDER;
#[cfg(feature = "aws-lc")]
pub(crate) use lightseal_dtls_aws_lc::PROVIDER;

use lightseal_dtls::crypto::SelfTestFailed;
use std::sync::OnceLock;

/// Tests the cryptography, once in the life of the process.
pub(crate) fn self_test() -> Result<(), SelfTestFailed> {
    static OUTCOME: OnceLock<Result<(), SelfTestFailed>> = OnceLock::new();
    *OUTCOME.get_or_init(|| {
        lightseal_group::self_test()?;
        // Groups always use this one.
        #[cfg(feature = "aws-lc")]
        lightseal_dtls::crypto::rustcrypto::PROVIDER.self_test()?;
        PROVIDER.self_test()
    })
}
