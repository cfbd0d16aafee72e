//! PRESENT, a 64-bit block cipher with keys of 80 or 128 bits (Bogdanov et al., CHES 2007; ISO/IEC
//! 29192-2). Only encryption is implemented: this crate serves the MAC of the crate `lightmac`,
//! which does not decrypt.
//!
//! - [`Present80`] and [`Present128`]: the ciphers, with the traits of the crate [`cipher`];
//! - [`Kernel`]: the implementations. A key uses the fastest for the processor, and
//!   `with_kernel` names one;
//! - [`CounterSum`]: sums of encrypted counter blocks, for LightMAC.
//!
//! Every kernel computes in constant time. The S-box is a Boolean circuit or a shuffle within a
//! register, and the permutation consists of shuffles and masked swaps, so no table in memory is
//! read at a secret index.
//!
//! The crate needs neither heap nor std, and has unsafe code only in the kernels. A cipher with
//! blocks of 64 bits must not encrypt much data under one key: with PRESENT in a MAC, about 2^22
//! messages at a success probability of 2^-20.
//!
//! # Example
//!
//! ```
//! use lightseal_present::Present80;
//! use lightseal_present::cipher::{BlockCipherEncrypt, KeyInit};
//!
//! let mut block = [0; 8].into();
//! Present80::new(&[0; 10].into()).encrypt_block(&mut block);
//! assert_eq!(block.0, 0x5579_c138_7b22_8445_u64.to_be_bytes());
//! ```
#![no_std]
#![deny(unsafe_code)]

mod ciphers;
mod kernel;
mod sum;

pub use cipher;
pub use ciphers::{Kernel, Present80, Present128, UnknownKernel};
pub use sum::CounterSum;

/// The examples of the page that the registry shows.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
