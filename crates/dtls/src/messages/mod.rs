//! Handshake, ACK and alert messages and their codec.

pub mod ack;
pub mod aggregation;
pub mod alert;
pub mod extensions;
pub mod fragment;
pub mod hello;
pub mod hello_verify;
pub mod key_exchange;
pub mod key_update;
pub mod ticket;

pub use ack::RecordNumber;
pub use alert::Alert;
pub use fragment::Fragment;
pub use hello::{ClientHello, EncryptedExtensions, ServerHello};
pub use hello_verify::HelloVerifyRequest;
pub use key_update::KeyUpdate;
