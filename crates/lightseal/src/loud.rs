//! Warnings whose rate is limited.

pub(crate) use lightseal_net::RateLimitedLog as Loud;
