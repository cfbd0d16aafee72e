//! All integration tests of `lightseal-gateway-host`, in one program that is linked once.

mod channel;
mod check;
#[cfg(target_os = "linux")]
mod credentials;
#[cfg(target_os = "linux")]
mod tunnel;
