//! All integration tests of `lightmac`, in one program that is linked once.

mod aes_kernels;
mod constant_time;
mod guard_pages;
mod model;
mod parts;
mod present_kernels;
mod reference;
mod small_block;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod tracer;
mod vectors;
