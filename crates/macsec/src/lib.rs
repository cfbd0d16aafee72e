//! MACsec (IEEE 802.1AE-2018): protects and validates Ethernet frames in place.
//!
//! There is no I/O, no clock and no randomness: frames come in, frames go out. It needs `alloc`,
//! not `std`.
//!
//! - [`tag`]: the SecTAG;
//! - [`frame`]: finds SecTAG, secure data and ICV in a frame, without any keys;
//! - [`secy`]: protection and validation, with [`suite`]s, [`window`]s and [`counters`];
//! - [`crypto`]: AES-GCM, and the providers that implement it.
//!
//! Key agreement (MKA, IEEE 802.1X) is not part of this crate: the host supplies the keys.
//!
//! ```
//! use lightseal_macsec::{Frame, Kind, Sci, classify};
//!
//! let mut frame = Vec::from(*b"\x01\x02\x03\x04\x05\x06\x0a\x0b\x0c\x0d\x0e\x0f");
//! frame.extend(*b"\x88\xe5\x2e\x02\x00\x00\x00\x07\x0a\x0b\x0c\x0d\x0e\x0f\x00\x01");
//! frame.extend([0x5a; 2 + 16]);
//!
//! assert_eq!(classify(&frame), Kind::Macsec);
//! let frame = Frame::parse(&frame)?;
//! let sci = Sci { address: [0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f], port: 1 };
//! assert_eq!(frame.header.tag.sci(), Some(sci));
//! assert_eq!((frame.header.tag.pn, frame.secure_data()), (7, &[0x5a; 2][..]));
//! # Ok::<(), lightseal_core::DecodeError>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod codepoints;
pub mod counters;
pub mod crypto;
pub mod frame;
pub mod secy;
pub mod suite;
pub mod tag;
pub mod window;

pub use crypto::{Gcm, GcmProvider, Unauthentic};
pub use frame::{Frame, Header, Kind, VlanTag, classify};
pub use lightseal_core::PacketBuf;
pub use secy::{
    ConfigError, Delivery, Discard, FrameProtection, ProtectError, ProtectOutcome, Secy,
    SecySettings,
};
pub use suite::{CipherSuite, ConfidentialityOffset, KeyError, SaKey, XpnParameters};
pub use tag::{AssociationNumber, Protection, Sci, SciField, SecTag, ShortLength};
pub use window::{Replay, ReplayProtection};

/// The examples of the page that the registry shows.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
