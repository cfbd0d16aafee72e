//! MAC aggregation for datagram records: several records share one tag, and each
//! still ends with a full tag's security.
//!
//! The schemes are pure state machines over tags and record numbers. No record is
//! parsed or decrypted here, and no key is held: the caller brings a pseudorandom
//! function ([`Prf`]), a record's state under it ([`PrfState`]) and its number.
//!
//! - [`scheme`]: which schemes there are, their parameters and names;
//! - [`prf`]: what a scheme needs of a MAC;
//! - [`sealer`]: the sending side, [`Sealer`];
//! - [`opener`]: the receiving side, [`Opener`], and its verdicts;
//! - [`tuning`]: bounds on memory and work, with their reasons.
//!
//! No heap, no std, no unsafe code, no wire format.
//!
//! # Agg(n)
//!
//! Records n·k … n·k + n − 1 of an epoch form set k. Each has the 128-bit
//! F(record), block 0 of the pseudorandom function. The last record of a set carries
//!
//! ```text
//! aggregate = F(n·k) ⊕ F(n·k + 1) ⊕ … ⊕ F(n·k + n − 1)
//! ```
//!
//! and the others carry nothing, so a record pays 16/n bytes. A record is verified
//! when its set is. Silence in the middle of a set is ended by a
//! [`ClosingTag`]: the same sum over the open records, of output block 255.
//!
//! # Why XOR is safe here, and where it is not
//!
//! F must be a pseudorandom function of record number, header and content. Numbers
//! make all inputs distinct, so a sum of outputs that contains one unsent record is
//! uniform to an attacker. AES-GCM, GMAC and ChaCha20-Poly1305 tags are no such
//! functions: their differences cancel, and aggregates of them are forged without
//! a key. Never implement [`Prf`] with one of those.
//!
//! # Example
//!
//! ```
//! use aggregation::{
//!     Block, Kind, Opener, Outcome, Prf, PrfState, Scheme, Sealer, opener::Offer,
//! };
//!
//! /// A stand-in; a real one is keyed.
//! struct Toy;
//! impl Prf for Toy {
//!     fn block(&self, state: &PrfState, index: u8) -> Block {
//!         state.as_bytes().map(|byte| byte.wrapping_mul(31) ^ index)
//!     }
//! }
//!
//! let scheme: Scheme = "agg:2".parse()?;
//! let mut sealer = Sealer::new(scheme).expect("an aggregating scheme");
//! let mut opener = <Opener>::new(scheme).expect("an aggregating scheme");
//! for number in 0..2 {
//!     let state = PrfState::from([number as u8; 16]);
//!     let mut tag = [0; 16];
//!     let tag = &mut tag[..scheme.aggregate_len(number)];
//!     sealer.seal(&Toy, number, Kind::Data, state.clone(), tag)?;
//!     // … the record travels …
//!     opener.admit(number)?;
//!     assert_eq!(opener.offer_data(&Toy, number, state, tag, number as u16), Offer::Held);
//! }
//! for number in 0..2 {
//!     let verdict = opener.next_verdict().expect("the set is complete");
//!     assert_eq!((verdict.number, verdict.outcome), (number, Outcome::Verified));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod agg;
pub mod opener;
pub mod prf;
pub mod scheme;
pub mod sealer;
pub mod tuning;

pub use opener::{Counters, DropReason, Offer, Opener, Outcome, Refusal, Verdict};
pub use prf::{Block, CLOSING_BLOCK, ClosingTag, Prf, PrfState, TAG_BLOCK};
pub use scheme::{Scheme, SchemeError, SetSize};
pub use sealer::{Kind, SealError, Sealer};
