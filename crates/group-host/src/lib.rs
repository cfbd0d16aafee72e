//! Hosts of the group engines: sockets, stores and time around [`group`].
//!
//! - [`service`]: a controller, with its devices and its administrator;
//! - [`member`]: a device that is a member, and the applications behind it;
//! - [`store`]: what survives a crash;
//! - [`token`]: what a device is enrolled with.
#![forbid(unsafe_code)]

pub mod member;
pub mod service;
pub mod store;
pub mod token;

/// A generator seeded by the operating system.
///
/// # Errors
/// The operating system has no randomness to give.
pub fn os_random() -> Result<vocabulary::Random, getrandom::Error> {
    let mut seed = zeroize::Zeroizing::new([0; 32]);
    getrandom::fill(&mut *seed)?;
    Ok(vocabulary::Random::from_seed(*seed))
}
