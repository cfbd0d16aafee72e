//! Captures of the traffic on the air in files that other tools open, and their decryption with
//! logged keys.
//!
//! - [`pcap`]: capture files, written and read;
//! - [`Captured`]: frames and the secrets of their associations, such as of a
//!   [`HandshakeRun`](crate::handshakes::HandshakeRun);
//! - [`KeyLog`]: the secrets of a run, in the format that other tools read (SSLKEYLOGFILE);
//! - [`Datagrams`]: UDP datagrams from captured frames;
//! - [`Decryption`]: the DTLS in a capture, record by record; [`PlaintextWriter`]: its application
//!   data without DTLS;
//! - [`describe`]: descriptions of records in words;
//! - [`samples`]: captures of every form of our records, and the fields that a dissector should
//!   find in them;
//! - [`Conversation`]: an association to capture, for tests of other tools.

mod captured;
mod conversation;
mod datagrams;
mod decryption;
pub mod describe;
mod key_log;
pub mod pcap;
pub mod samples;

pub use captured::Captured;
pub use conversation::Conversation;
pub use datagrams::{Datagram, Datagrams};
pub use decryption::{DecryptedDatagram, Decryption, DecryptionCounts, PlaintextWriter};
pub use key_log::KeyLog;
