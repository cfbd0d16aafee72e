//! Files and local sockets to which only their owner has access.
//!
//! - [`database`]: an embedded database in a directory that no other user can read (feature
//!   `database`);
//! - [`mod@file`]: secrets in files that no other user can read, and files that are replaced as a
//!   whole;
//! - [`socket`]: a Unix socket that only its owner and root can reach, even while it is being
//!   created; on Windows a named pipe.
//!
//! This crate does not depend on what is in a file, or what is sent over a
//! socket. Its only unsafe code has Windows make files and tell who may use them (`kernel`).

#![deny(unsafe_code)]

#[cfg(any(windows, test))]
mod access_list;

#[cfg(feature = "database")]
pub mod database;
pub mod file;
#[cfg(windows)]
mod kernel;
#[cfg(any(unix, windows))]
pub mod socket;
mod system;
#[cfg(test)]
mod test_directory;
