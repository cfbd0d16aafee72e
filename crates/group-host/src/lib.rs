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

/// A random number generator that is seeded by the operating system.
///
/// # Errors
/// The operating system has no source of randomness.
pub fn os_random() -> Result<lightseal_core::Random, getrandom::Error> {
    let mut seed = zeroize::Zeroizing::new([0; 32]);
    getrandom::fill(&mut *seed)?;
    Ok(lightseal_core::Random::from_seed(*seed))
}
