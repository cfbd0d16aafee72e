//! Files and Unix sockets that are their owner's alone.
//!
//! - [`mod@file`]: secrets in files that nobody else reads, and files that are replaced whole;
//! - [`socket`]: a Unix socket that its owner and root reach, and nobody else, not even while it is
//!   being made.
//!
//! Nothing here knows what is in a file, or what is said over a socket.

#![forbid(unsafe_code)]

pub mod file;
#[cfg(unix)]
pub mod socket;
