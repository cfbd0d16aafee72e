//! The laboratory: every figure of the papers this project is built from, made
//! again by one call each, with its data.
//!
//! - [`figure`]: what a figure is, and what making one gives;
//! - [`figures`]: the registry, one file a figure;
//! - [`ciphers`]: lightweight block ciphers and their sizes;
//! - [`stream`]: the engine itself over lossy links, simulated and real;
//! - [`world`]: nodes with radios in virtual time, any engine in them;
//! - [`links`], [`channels`], [`lowpan`], [`energy`], [`network`]: what lies between them and what it
//!   costs;
//! - [`handshakes`]: handshakes of the engine over all that;
//! - [`groups`]: multicast groups of the engine, and what they are measured against;
//! - [`scenario`]: such handshakes as files describe them;
//! - [`choice`]: which aggregation scheme suits which channel;
//! - [`sessions`]: servers with few session slots, and many clients;
//! - [`report`]: all of it on one page;
//! - [`mod@write`]: CSV, JSON and SVG files.
//!
//! # A new figure
//!
//! One file under `figures/` with a `pub(super) const` [`Figure`], and one line in
//! [`figures::FIGURES`]. Nothing else knows figures by name.
//!
//! # Example
//!
//! ```
//! let figure = lab::figures::by_name("lightmac-figure-1").expect("in the registry");
//! let output = (figure.make)(&lab::Options::default())?;
//! assert!(output.plot.is_some() && !output.table.rows.is_empty());
//! assert!(lab::write::svg::render(figure, &output)?.contains("LightMAC"));
//! # Ok::<(), lab::Error>(())
//! ```
#![forbid(unsafe_code)]

pub mod advise;
pub mod aggregation;
pub mod capture;
pub mod channels;
pub mod choice;
pub mod ciphers;
pub mod energy;
mod error;
pub mod figure;
pub mod figures;
pub mod groups;
pub mod handshakes;
pub mod links;
pub mod lowpan;
pub mod network;
mod parallel;
pub mod report;
pub mod scenario;
pub mod sessions;
pub mod statistics;
pub mod stream;
mod tagged;
pub mod world;
pub mod write;

pub use error::Error;
pub use figure::{Figure, Options, Output};
