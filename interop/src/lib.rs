//! Lightseal beside other people's implementations.
//!
//! - [`wolfssl`]: DTLS 1.3 by wolfSSL, in memory, one object an end.
//!
//! Everything here serves tests and measurements and is never published:
//! wolfSSL is under the GPL.

pub mod wolfssl;
