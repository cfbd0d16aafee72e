//! MAC aggregation for datagram records: several records share one tag, and each
//! still ends with a full tag's security.
//!
//! The schemes are pure state machines over tags and record numbers. No record is parsed or
//! decrypted here, and no key is held: the caller provides a pseudorandom function ([`Prf`]), a
//! record's state under it ([`PrfState`]) and its number.
//!
//! - [`scheme`]: which schemes there are, their parameters and names;
//! - [`prf`]: the interface to a MAC that a scheme needs;
//! - [`sealer`]: the sending side, [`Sealer`];
//! - [`opener`]: the receiving side, [`Opener`], and its verdicts;
//! - [`choice`]: rules that choose a scheme by the losses seen;
//! - [`tuning`]: bounds on memory and work, with their reasons.
//!
//! No heap, no std, no unsafe code, no wire format.
//!
//! # Agg(n)
//!
//! Records n·k … n·k + n − 1 of an epoch form set k. F(record) is the 128-bit output block 0 of the
//! pseudorandom function over a record. The last record of a set carries
//!
//! ```text
//! aggregate = F(n·k) ⊕ F(n·k + 1) ⊕ … ⊕ F(n·k + n − 1)
//! ```
//!
//! and the others carry no tag, so a record costs 16/n bytes on average. A record is verified when
//! its set is complete and the aggregate is right. If the sender falls silent in the middle of a
//! set, it sends a [`ClosingTag`]: the XOR of output block 255 of the records that no tag covers
//! yet.
//!
//! # R2D2(8, o)
//!
//! Each record carries a tag of t = 24, 32, 40 or 48 bits (o = 50, 100, 150, 200) and has a long
//! tag T(m) of 8·t bits, taken from its output blocks 0, 1 and 2. Bit j of record i's tag is
//!
//! ```text
//! tag_i[j] = T(i − D_j[0])[j] ⊕ T(i − D_j[1])[t + j] ⊕ … ⊕ T(i − D_j[7])[7·t + j]
//! ```
//!
//! over the record itself (D_j\[0\] = 0) and seven before it, at most 37 behind. The D_j are Golomb
//! rulers, so a lost record costs any other record at most one bit of each ruler. The tags of later
//! records add to a record's security level; at 128 bits the record is verified. If a threshold is
//! set, records with a lower level are delivered provisionally: [`Outcome::Provisional`].
//!
//! While records arrive in order and all checks are right, both sides use faster code
//! (`agg/ordered_set.rs`, `r2d2/in_order.rs`, `r2d2/delays.rs`): a record then costs 5 to 30 % more
//! instructions than one with a tag of its own.
//!
//! A wrong tag bit shows that one of up to eight records is wrong, but not which one. The opener
//! guesses which records are genuine. The level of a record charges each of these guesses, so that
//! an attacker who sees every verdict gains nothing by trying.
//!
//! # Junk
//!
//! Anybody who has seen a record can send junk under its number. For each number up to four rivals
//! are held: the first two, and of all others the two of least rank. The rank is an output block of
//! the pseudorandom function that is used for nothing else ([`RANK_BLOCK`]). With a check byte in
//! each record ([`Checked`]) the caller drops all but one in 256 of the junk records before it
//! offers them.
//!
//! # A scheme of one's own
//!
//! The sliding window, [`SlidingWindow`], is R2D2 with D_j = 0 … 7 for every j. A scheme is a file
//! that defines which records each tag covers and how the scheme is named, and a line in the list
//! of [`scheme`].
//!
//! # Why XOR is safe here, and where it is not
//!
//! F must be a pseudorandom function of record number, header and content. Numbers make all inputs
//! distinct, so a sum of outputs that contains one unsent record is uniform to an attacker.
//! AES-GCM, GMAC and ChaCha20-Poly1305 tags are no such functions: their differences cancel, and
//! aggregates of them can be forged without a key. Never implement [`Prf`] with one of those.
//!
//! # Example
//!
//! ```
//! use lightseal_aggregation::{
//!     Block, Opener, Outcome, Prf, PrfState, RecordKind, RulerOrder, Scheme, Sealer,
//!     opener::Offer,
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
//! let mut sealer = Sealer::new(scheme, &RulerOrder::List).expect("an aggregating scheme");
//! let mut opener = <Opener>::new(scheme, &RulerOrder::List).expect("an aggregating scheme");
//! for number in 0..2 {
//!     let state = PrfState::from([number as u8; 16]);
//!     let mut tag = [0; 16];
//!     let tag = &mut tag[..scheme.aggregate_len(number)];
//!     sealer.seal(&Toy, number, RecordKind::Data, state.clone(), tag)?;
//!     // … the record is sent and received …
//!     opener.admit(number)?;
//!     assert_eq!(opener.offer_data(&Toy, number, state, tag, number as u16), Offer::Held);
//! }
//! for number in 0..2 {
//!     let verdict = opener.next_verdict().expect("the set is complete");
//!     assert_eq!((verdict.number, verdict.outcome), (number, Outcome::Verified));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Builds for small devices
//!
//! Each side of each scheme is a feature: `agg-sender`, `agg-receiver`, `r2d2-sender` and
//! `r2d2-receiver` (the sliding window belongs to R2D2). A side without its feature is a type without
//! values, so the compiler leaves out its code. [`Scheme::can_send`] and [`Scheme::can_receive`] tell
//! what a build has.
//!
//! The feature `fast` is for hosts: it takes memory and code to save instructions while records are
//! sent and arrive in order. Tags, levels and verdicts do not depend on it, except that a receiver of
//! Agg ranks the rivals of a set's last record, if there are more than four, in another order. Without it an Agg sender
//! takes 64 bytes and an R2D2 sender 1.1 KB. The memory of an [`Opener`] follows from its parameters:
//! the candidates that it holds and the record numbers of which it keeps track.
//!
//! With `provisional` an opener delivers data before it is verified ([`Opener::set_threshold`]); without
//! it no [`Outcome::Provisional`] occurs. With `check-bytes` there are the schemes with a check byte in
//! each record; without it nobody can send or receive under them.
//!
//! With `rivals` several candidates of a number are held, as the section on junk says. Without it the
//! first record of a number to arrive is its only candidate: junk that is faster than the genuine record
//! takes its place, and under Agg its set is lost. Under R2D2 another one takes its place once checks
//! speak against it.
//!
//! With `alloc`, and without `fast`, an R2D2 receiver keeps the words that are as long as a tag on the heap,
//! so that their memory follows the scheme in use.
//!
//! All features but `alloc` are on by default.
#![no_std]
#![forbid(unsafe_code)]
// Without a side, the code behind it has no user, and what follows its making is not reached.
#![cfg_attr(
    not(all(
        feature = "agg-sender",
        feature = "agg-receiver",
        feature = "r2d2-sender",
        feature = "r2d2-receiver",
        feature = "fast"
    )),
    allow(dead_code, unreachable_code)
)]

#[cfg(test)]
extern crate std;

#[cfg(not(all(
    feature = "agg-sender",
    feature = "agg-receiver",
    feature = "r2d2-sender",
    feature = "r2d2-receiver",
    feature = "fast",
    feature = "provisional",
    feature = "rivals"
)))]
mod absent;
mod agg;
mod bits;
mod candidates;
mod check;
pub mod choice;
mod closings;
mod definition;
mod number;
mod on_stack;
pub mod opener;
mod places;
pub mod prf;
mod r2d2;
mod rivals;
pub mod scheme;
pub mod sealer;
mod sealing;
mod sizes;
mod sliding;
mod table;
mod tag_words;
mod threshold;
pub mod tuning;
mod verdict;
mod window;

pub use check::{Checked, check_byte};
pub use opener::{Counters, DropReason, Offer, Opener, Outcome, Refusal, Verdict};
pub use prf::{
    Block, CHECK_BLOCK, CLOSING_BLOCK, ClosingTag, Prf, PrfState, RANK_BLOCK, TAG_BLOCK,
};
pub use scheme::{Overprovision, RulerOrder, Scheme, SchemeError, SetSize, SlidingWindow};
pub use sealer::{RecordKind, SealError, Sealer};

/// The examples of the page that the registry shows.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
