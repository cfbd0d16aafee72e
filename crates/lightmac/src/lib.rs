//! LightMAC, a message authentication code whose security does not decrease with the length of
//! messages (Luykx, Preneel, Tischhauser, Yasuda, FSE 2016). It works with any RustCrypto block
//! cipher whose blocks have 4 to 16 bytes. AES and PRESENT are included in implementations made for
//! it.
//!
//! - [`LightMac`]: whole messages and batches; [`LongLightMac`]: several output blocks from one pass
//!   over the message;
//! - [`Stream`]: messages in pieces; [`LightMacStream`]: messages in pieces, with RustCrypto's `Mac`
//!   traits;
//! - [`Hasher`]: the inner sum alone;
//! - [`max_message_bits`], [`max_message_bytes`]: the longest message for a counter length;
//! - [`aes`]: [`Aes128`] and [`Aes256`]; `present`: `Present80` and `Present128`, from the crate
//!   `lightseal-present`, with the feature `present`, which is on by default. Both are computed in
//!   constant time, on the fastest kernel for the processor.
//!
//! The crate needs neither heap nor std, and has unsafe code only in the kernels. It provides a MAC
//! and no encryption mode: nothing is encrypted here.
//!
//! # Algorithm
//!
//! With an n-bit cipher E, a counter of s bits (1 ≤ s ≤ n/2) and a tag of t bits
//! (1 ≤ t ≤ n) (Algorithm 1 of the paper):
//!
//! ```text
//! V ← 0ⁿ; i ← 1
//! while at least n − s bits of the message remain:
//!     V ← V ⊕ E_K1( i as s bits, big-endian ‖ the next n − s bits );  i ← i + 1
//! V ← V ⊕ ( the 0 to n − s − 1 bits left ‖ 1 ‖ 0 … 0 )
//! tag ← the leading t bits of E_K2(V)
//! ```
//!
//! The paper takes the *least significant* bits of the last block as the tag. The authors' code and
//! their published vectors take the leading bytes instead, and so does this crate. The same
//! authors' Go version for AES pads differently: with it tag(M) = tag(M ‖ 0x80), which is a
//! forgery.
//!
//! # Limits
//!
//! The counter runs from 1 to 2^s, and its last value is encoded as 0. The longest message
//! therefore has 2^s full blocks, 2^s·(n − s) bits, and a longer one is refused. The theorems below
//! count 2^s − 1 cipher calls under K1 for a message. A message of the full length makes one more,
//! which changes only that count.
//!
//! # Security
//!
//! Against q messages of any permitted length (Theorem 1), as a pseudorandom function:
//!
//! ```text
//! adv ≤ (1 + ε)·q²/2^n + PRP(q·(2^s − 1)) + PRP(q),   ε = 1/(2^(n/2) − 1) + 1/(2·(2^(n/2) − 1)²)
//! ```
//!
//! and as a MAC with v verification attempts (Theorem 2):
//!
//! ```text
//! adv ≤ (1 + ε')·(q²/2^n + v/2^t) + PRP(q·(2^s − 1)) + PRP(q) + PRP(v·2^s),
//!                                              ε' = 2/(2^(n/2) − 1) + 1/(2^(n/2) − 1)²
//! ```
//!
//! K1 and K2 must be independent. With a 64-bit cipher the term q²/2^64 soon becomes large: with
//! PRESENT and a margin of 2^-20, after 2^22 messages. Because LightMAC is a pseudorandom function,
//! tags of *distinct* messages may be aggregated by XOR.
//!
//! # Vectors
//!
//! The source of this crate has test vectors in `vectors/lightmac_aes.json` and
//! `vectors/lightmac_speck.json`, in the format of Project Wycheproof. They are for AES-128, -192
//! and -256, and for Speck32/64 with its block of 32 bits. They include invalid tags, each with the
//! reason why it must be refused. They are made by `vectors/lightmac.py`, which shares no code with
//! this crate.
//!
//! # Example
//!
//! ```
//! use lightmac::{Aes128, LightMac};
//!
//! let mac = LightMac::<Aes128>::new(&[1; 16].into(), &[2; 16].into(), 16, 128)?;
//! let tag = mac.tag(&[b"a record header", b"and its content"])?;
//! assert!(mac.verify(&[b"a record headerand its content"], tag.as_bytes()).is_ok());
//! assert!(mac.verify(&[b"another content"], tag.as_bytes()).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![no_std]
#![deny(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod aes;
mod hash;
mod kernel;
mod limits;
mod mac;
mod native;
mod pipeline;
mod single;
mod stream;

pub use aes::{Aes128, Aes256};
pub use cipher;
pub use digest;
pub use hash::Hasher;
#[cfg(feature = "present")]
pub use lightseal_present::{self as present, Present80, Present128};
pub use limits::{
    BatchError, MessageTooLong, ParameterError, VerifyError, max_message_bits, max_message_bytes,
};
pub use mac::{LightMac, LongLightMac, Tag};
pub use stream::{LightMacStream, Stream};

/// Kernels for the MACs that the crate `lightseal-mac-papers` compares LightMAC with. They are no
/// part of the API, and change without notice.
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals {
    pub use crate::kernel::comparison::{ComparisonKernel, Half};
    pub use crate::native::comparison_kernel;
}

/// The examples of the page that the registry shows.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
