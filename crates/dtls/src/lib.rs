//! DTLS 1.3 and 1.2, sans I/O.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

#[cfg(test)]
extern crate std;

pub mod crypto;
