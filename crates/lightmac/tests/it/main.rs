//! All integration tests of `lightmac`, in one program that is linked once.

mod aes_kernels;
mod constant_time;
mod guard_pages;
mod model;
mod parts;
mod present_kernels;
mod reference;
mod small_block;
mod vectors;
