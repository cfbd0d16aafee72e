//! The benchmark: all rows measured in turns, in one run.
//!
//! - [`echo`]: round trips of single frames;
//! - [`stream`]: how many frames pass, and the processor time and bytes each takes;
//! - [`tcp`]: TCP by iperf3;
//! - [`plan`]: what is measured, and in which order;
//! - [`results`]: what came of it, as JSON and as the paper's Table 2;
//! - [`figures`]: the paper's Figure 5.

pub mod echo;
pub mod figures;
pub mod plan;
pub mod results;
pub mod stream;
pub mod tcp;
