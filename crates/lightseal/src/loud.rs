//! Warnings whose rate is limited.

pub(crate) use net::RateLimitedLog as Loud;
