//! What the ends prove their identities with, and how each end checks the identity of its peer.
//!
//! - [`psk`]: pre-shared keys, and the store in which a server finds them;
//! - [`imported`]: how an external PSK is imported for DTLS 1.3 (RFC 9258);
//! - [`identity`]: who a peer is, in one form for lists, logs and metrics;
//! - [`key`]: private keys with X.509 certificates or as raw public keys, and how a server chooses
//!   among its own;
//! - [`compression`]: algorithms that compress certificates;
//! - `spki`: the parts of a public key in DER;
//! - [`verifier`]: what an end accepts of its peer.

pub(crate) mod compression;
pub(crate) mod identity;
#[cfg(feature = "internals")]
pub mod imported;
#[cfg(not(feature = "internals"))]
pub(crate) mod imported;
pub(crate) mod key;
pub(crate) mod psk;
pub(crate) mod spki;
pub(crate) mod verifier;

pub use compression::CertificateCompression;
pub use identity::{Identity, IdentityError};
pub use key::{CertifiedKey, KeyStore, OfferedCertificates};
pub use psk::{KeyCheck, Lookup, Psk, PskStore};
pub use verifier::{CertificateVerifier, PeerKey, PeerLookup, PinnedKeys, PresentedCertificate};
