//! Handshake, ACK and alert messages and their codec.

pub mod ack;
pub mod aggregation;
pub mod alert;
pub mod extensions;
pub mod fragment;
pub mod hello;
pub mod key_update;

pub use ack::RecordNumber;
pub use alert::Alert;
pub use fragment::Fragment;
pub use hello::{ClientHello, EncryptedExtensions, ServerHello};
pub use key_update::KeyUpdate;
