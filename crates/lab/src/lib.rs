//! The laboratory: it reproduces every figure of the papers that this project is built from, each
//! by one call and with its data.
//!
//! - [`figure`]: what a figure is, and the result of making one;
//! - [`figures`]: the registry of figures; [`papers`]: what each paper shows;
//! - [`stream`]: a stream of messages of the engine over lossy links, simulated and real;
//! - [`world`]: nodes with radios in virtual time, which run any engine; [`topology`]: which of them
//!   hear each other;
//! - [`links`], [`channels`], [`lowpan`], [`energy`], [`network`]: link layers, lossy channels,
//!   packet formats, energy, and the description of a network;
//! - [`handshakes`]: handshakes of the engine over such networks;
//! - [`groups`]: multicast groups of the engine, and what they are compared with;
//! - [`scenario`]: handshakes as scenario files describe them;
//! - [`choice`]: which aggregation scheme suits which channel;
//! - [`sessions`]: servers with few session slots, and many clients;
//! - [`report`]: all figures on one page;
//! - [`mod@write`]: CSV, JSON and SVG files.
//!
//! # A new figure
//!
//! Add a file under `figures/` with a `pub(super) const` [`Figure`], and a line to
//! [`figures::FIGURES`]. No other place lists figures by name.
//!
//! # Example
//!
//! ```
//! let figure = lightseal_lab::figures::by_name("lightmac-figure-1").expect("in the registry");
//! let output = (figure.make)(&lightseal_lab::FigureOptions::default())?;
//! assert!(output.plot.is_some() && !output.table.rows.is_empty());
//! assert!(lightseal_lab::write::svg::render(figure, &output)?.contains("LightMAC"));
//! # Ok::<(), lightseal_lab::Error>(())
//! ```
#![forbid(unsafe_code)]

pub mod advise;
pub mod aggregation;
pub mod capture;
pub mod channels;
pub mod choice;
pub mod energy;
mod error;
pub mod figure;
pub mod figures;
pub mod groups;
pub mod handshakes;
pub mod links;
pub mod lowpan;
pub mod network;
pub mod papers;
mod parallel;
pub mod report;
pub mod scenario;
pub mod sessions;
pub mod statistics;
pub mod stream;
mod tagged;
pub mod topology;
pub mod world;
pub mod write;

pub use error::Error;
pub use figure::{Figure, FigureData, FigureOptions};
