//! Hosts for the engines of crate [`lightseal_group`]: sockets, stores and clocks.
//!
//! - [`service`]: a group controller, which serves devices and an administrator;
//! - [`member`]: a device that is a member of a group, and its applications;
//! - [`store`]: the durable stores of controllers and members;
//! - [`token`]: the token with which a device is enrolled.
#![forbid(unsafe_code)]

pub mod member;
pub mod service;
pub mod store;
pub mod token;

/// Tests the cryptography, once in the life of the process.
fn self_test() -> Result<(), lightseal_dtls::crypto::SelfTestFailed> {
    use std::sync::OnceLock;
    static OUTCOME: OnceLock<Result<(), lightseal_dtls::crypto::SelfTestFailed>> = OnceLock::new();
    *OUTCOME.get_or_init(|| {
        lightseal_group::self_test()?;
        lightseal_dtls::crypto::rustcrypto::PROVIDER.self_test()?;
        lightseal_dtls_aws_lc::PROVIDER.self_test()
    })
}
