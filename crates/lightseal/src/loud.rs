//! Complaints that are loud but not endless.

pub(crate) use net::RateLimitedLog as Loud;
