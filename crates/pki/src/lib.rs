//! X.509 certificates for `lightseal-dtls`: who is trusted, and which key an end shows.
//!
//! - [`verifier`]: checks a peer's chain of certificates, or its raw public key;
//! - [`trust`]: authorities, revocation lists and pinned keys;
//! - [`clock`]: the time at which certificates are checked;
//! - [`names`]: the names in a certificate;
//! - [`spki`]: the hash by which a public key is pinned;
//! - [`description`]: what a certificate says, for people;
//! - [`credential`]: private keys with their certificates, from PEM or DER;
//! - [`choice`]: several keys, one of which is chosen for each peer;
//! - [`compression`]: compression of certificates, with the feature `zlib`;
//! - [`evidence`]: what a peer presented, so that another process can judge it again, with the feature
//!   `std`;
//! - [`mod@file`] and [`replace`]: files that are read again while the program runs, with the feature
//!   `std`.
//!
//! The chain is checked by rustls-webpki with the signature algorithms of a
//! [`Provider`](lightseal_dtls::crypto::Provider). This crate implements none, and reads no ASN.1
//! itself. Without the feature `std` it needs `alloc` alone.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod choice;
pub mod clock;
#[cfg(feature = "zlib")]
pub mod compression;
pub mod credential;
pub mod description;
#[cfg(feature = "std")]
pub mod evidence;
mod extensions;
#[cfg(feature = "std")]
pub mod file;
#[cfg(feature = "std")]
mod memory;
pub mod names;
mod pem;
mod reason;
#[cfg(feature = "std")]
pub mod replace;
mod signatures;
pub mod spki;
pub mod trust;
pub mod verifier;

pub use choice::KeysByName;
pub use clock::Clock;
#[cfg(feature = "zlib")]
pub use compression::Zlib;
pub use credential::{LoadError, certified_key, raw_key};
pub use description::Description;
#[cfg(feature = "std")]
pub use evidence::{Evidence, RecordingVerifier};
pub use names::Names;
pub use spki::SpkiHash;
pub use trust::{Trust, TrustError};
pub use verifier::{Limits, Revocation, Settings, X509Verifier};

/// The examples of the page that the registry shows.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
