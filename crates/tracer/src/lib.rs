//! What compiled code does with memory, for tests of code that handles secrets or is `unsafe`.
//!
//! [`compare`] runs an operation with several secrets and tells whether they determine a branch, an
//! address or a division. [`Guarded`] is memory between pages that cannot be accessed, so that whoever
//! reads or writes a byte beyond it is ended.
//!
//! The crate is empty elsewhere than on Linux on x86-64, whose instructions it decodes.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod constant_time;
mod guarded;
mod instruction;

pub use constant_time::{Alike, Leak, What, alike, compare, secrets};
pub use guarded::Guarded;
