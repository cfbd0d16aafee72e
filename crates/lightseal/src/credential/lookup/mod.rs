//! Pre-shared keys of a server that are looked up one by one: `--psk-dir`, `--psk-command` and
//! `--psk-table`.
//!
//! - [`args`]: the flags;
//! - [`source`]: what all sources of keys have in common;
//! - [`directory`], [`names`], [`watch`]: a directory with a file for each key;
//! - [`command`]: a program that is asked for keys;
//! - [`table`]: a table in a PostgreSQL database;
//! - [`known`]: what is known of identities, for how long, and who uses their keys;
//! - [`expiring`]: maps that forget;
//! - [`rate`]: how many look-ups there may be in a second;
//! - [`threads`]: the threads that ask the source;
//! - [`report`]: what the log and the status say of it.
//!
//! The engine asks for a key without waiting. What is not known is asked of the source by a thread,
//! and the handshake goes on when the answer is there. Another thread asks the source all the time
//! what has changed, so that the associations of a revoked identity end.

pub(crate) mod args;
mod command;
mod directory;
mod expiring;
mod known;
mod names;
mod rate;
pub(crate) mod report;
mod source;
mod table;
mod threads;
#[cfg(target_os = "linux")]
mod watch;

pub(crate) use table::SCHEMA;
pub(crate) use threads::{KeyLookup, KeyUse, KeyUser, Revoked};
