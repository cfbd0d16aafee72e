//! A socket for a single user, at a path: a Unix socket, or on Windows a named pipe.
//!
//! Both systems have the same functions. What they check differs, and stands in the file of the
//! system.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
use unix as system;
#[cfg(windows)]
use windows as system;

pub use system::{
    Listener, Stream, check_directory, check_listener, connect, is_socket, listen,
    prepare_directory, try_connect,
};
