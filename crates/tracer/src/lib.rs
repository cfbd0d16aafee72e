//! What compiled code does with memory, for tests of code that handles secrets or is `unsafe`.
//!
//! [`compare`] runs an operation with several secrets and tells whether they determine a branch or an
//! address. [`Guarded`] is memory between pages that cannot be accessed, so that whoever reads or
//! writes a byte beyond it is ended.
//!
//! On x86-64, operations run instruction by instruction under Linux's ptrace, and their divisions are
//! compared too. On aarch64 they run under QEMU with a plugin: there `run_ignored` runs the tests that
//! are ignored otherwise. The crate is empty elsewhere.
#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

mod alike;
#[cfg(target_arch = "aarch64")]
mod emulated;
mod guarded;
#[cfg(target_arch = "x86_64")]
mod instruction;
#[cfg(target_arch = "x86_64")]
mod stepped;

pub use alike::{Alike, alike, secrets};
#[cfg(target_arch = "aarch64")]
pub use emulated::{Leak, What, compare, run_ignored};
pub use guarded::Guarded;
#[cfg(target_arch = "x86_64")]
pub use stepped::{Leak, What, compare};
