//! LightMAC, a message authentication code whose security does not decay with
//! message length (Luykx, Preneel, Tischhauser, Yasuda, FSE 2016), over any
//! RustCrypto block cipher of 4 to 16 bytes a block; with AES and PRESENT made for it.
//!
//! - [`mac`]: [`LightMac`], one-shot and in batches; [`LongLightMac`], several
//!   output blocks from one pass over the message;
//! - [`stream`]: a message in pieces; [`LightMacStream`], behind RustCrypto's `Mac` traits;
//! - [`hash`]: [`Hasher`], the inner sum alone;
//! - [`limits`]: what a counter length allows, and the errors;
//! - [`bounds`]: what is proved of LightMAC and of the modes it is compared with;
//! - [`comparators`]: EMAC and PMAC/P, what the paper measures LightMAC against;
//! - [`aes`]: [`Aes128`] and [`Aes256`]; [`present`]: [`Present80`] and [`Present128`]; in
//!   constant time, on the fastest kernel that the processor has.
//!
//! No heap and no std; unsafe code in the kernels alone. It is a MAC, not a cipher mode:
//! nothing is encrypted here.
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
//! The paper takes the tag's *least significant* bits; its authors' code takes the
//! leading bytes, and its published vectors are made so; we follow. Beware of a Go
//! version for AES from the same authors that pads differently: with it
//! tag(M) = tag(M ‖ 0x80), a forgery.
//!
//! # Limits
//!
//! The counter runs from 1 to 2^s, the last one encoded as 0. So 2^s full blocks,
//! 2^s·(n − s) bits, pass, and one bit more is refused. The theorems below count
//! 2^s − 1 cipher calls a message under K1; a message of the full length makes one
//! more, which changes nothing but that count.
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
//! with two independent keys. A 64-bit cipher reaches q²/2^64 soon: with PRESENT
//! and a margin of 2^-20, after 2^22 messages.
//! Because it is a pseudorandom function, tags of *distinct* messages may be
//! aggregated by XOR.
//!
//! # Vectors
//!
//! `vectors/lightmac_aes.json` and `vectors/lightmac_speck.json` of this crate's source, in
//! the shape of Project Wycheproof's files: AES-128, -192 and -256, and Speck32/64 for a
//! block of 32 bits; tags that are right, and tags that must be refused, each with the
//! reason. `vectors/lightmac.py`, which shares nothing with this crate, makes them.
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
pub mod bounds;
pub mod comparators;
pub mod hash;
mod kernel;
pub mod limits;
pub mod mac;
mod pipeline;
pub mod present;
mod single;
pub mod stream;

pub use aes::{Aes128, Aes256};
pub use hash::Hasher;
pub use limits::{MessageTooLong, ParameterError, max_message_bits, max_message_bytes};
pub use mac::{BatchError, LightMac, LongLightMac, Tag, VerifyError};
pub use present::{Present80, Present128};
pub use stream::{LightMacStream, Stream};
