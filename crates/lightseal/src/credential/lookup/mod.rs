//! What a server looks up one by one: pre-shared keys (`--psk-dir`, `--psk-command` and
//! `--psk-table`), and public keys and names of certificates that are let in (`--allow-dir`,
//! `--allow-command` and `--allow-table`).
//!
//! - [`args`]: the flags;
//! - [`source`]: what all sources of keys have in common;
//! - [`directory`], [`names`], [`watch`]: a directory with a file for each identity;
//! - [`command`]: a program that is asked;
//! - [`table`]: a table in a PostgreSQL database;
//! - [`known`]: what is known of identities, for how long, and who uses their keys;
//! - [`expiring`]: maps that forget;
//! - [`rate`]: how many look-ups there may be in a second;
//! - [`threads`]: the threads that ask a source;
//! - [`both`]: the source of pre-shared keys and that of public keys and names, of one server;
//! - [`peers`]: the verifier of clients that are looked up;
//! - [`report`]: what the log and the status say of it.
//!
//! The engine asks for a key without waiting. What is not known is asked of the source by a thread,
//! and the handshake goes on when the answer is there. Another thread asks the source all the time
//! what has changed, so that the associations of a revoked identity end.

pub(crate) mod args;
mod both;
mod command;
mod directory;
mod expiring;
mod known;
mod names;
mod peers;
mod rate;
pub(crate) mod report;
mod source;
#[cfg_attr(not(feature = "fleet"), path = "no_table.rs")]
mod table;
mod threads;
mod waiting;
#[cfg_attr(not(target_os = "linux"), path = "no_watch.rs")]
mod watch;

pub(crate) use both::KeyLookup;
pub(crate) use peers::LookedUpPeers;
#[cfg(feature = "fleet")]
pub(crate) use table::SCHEMA;
pub(crate) use threads::{KeyUse, KeyUser, Revoked};
