//! What the programs `lightseal` and `lightseal-lab` have in common.
//!
//! - [`failure`]: a failure is one line on standard error and exit code 2;
//! - [`program`]: how a program reads its command line and ends;
//! - `manual`: manual pages and completions of shells (feature `manual`);
//! - [`logging`]: log messages, and the flags that ask for more or fewer of them;
//! - [`progress`]: the progress of a long command;
//! - [`units`]: quantities as users write them;
//! - [`when_full`]: the policies of a server without a free session slot, as users write them;
//! - [`ciphers`]: lightweight block ciphers, their sizes, and their names on the command line.
#![forbid(unsafe_code)]

pub mod ciphers;
pub mod failure;
pub mod logging;
#[cfg(feature = "manual")]
pub mod manual;
pub mod program;
pub mod progress;
pub mod units;
pub mod when_full;
