//! Handshake, ACK, alert and path messages of DTLS 1.2 and 1.3, and their codec.

pub mod ack;
pub mod aggregation;
pub mod aggregation_update;
pub mod alert;
pub mod certificate;
pub mod certificate12;
pub mod certificate_extensions;
pub mod connection_id;
pub mod extensions;
pub mod fragment;
pub mod hello;
pub mod hello_verify;
pub mod key_exchange;
pub mod key_update;
pub mod return_routability;
pub mod ticket;

pub use ack::RecordNumber;
pub(crate) use aggregation_update::write_closing;
pub use aggregation_update::{AggregationUpdate, EpochEnd};
pub use alert::Alert;
pub use certificate::{Certificate, CertificateRequest, CertificateVerify};
pub use connection_id::{NewConnectionId, RequestConnectionId};
pub use fragment::Fragment;
pub use hello::{ClientHello, EncryptedExtensions, ServerHello};
pub use hello_verify::HelloVerifyRequest;
pub use key_exchange::{EcdhePskServerParams, EcdheServerParams};
pub use key_update::KeyUpdate;
pub use return_routability::PathMessage;
pub use ticket::NewSessionTicket12;
