//! Where an association stands: in its handshake, or in the session that remains of it.

use crate::codepoints::AlertDescription;
use crate::config::ProtocolVersion;
use crate::handshake::resumption::Resumption;
use crate::handshake::{Established, EstablishedKeys, RenegotiationRefusal, State};
use crate::parts::{self, Part, PartState};
use crate::record::receive_buffer::Slot;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// The stage of an association.
#[derive(Debug)]
pub(super) enum Stage {
    /// The handshake is not complete.
    Handshake(Box<Handshake>),
    /// The handshake is complete: what remains of it.
    Established(Box<Established>),
    /// The association has ended, or its handshake has failed.
    Ended,
}

/// What only a handshake needs. Its memory is given back when the handshake is complete.
#[derive(Debug)]
pub(super) struct Handshake {
    pub(super) state: State,
    /// The last plaintext alert that answered the current flight. It is not authenticated, so the
    /// flight is retransmitted, and only repeated alerts end the handshake.
    pub(super) alert_hint: Option<AlertDescription>,
    /// How many retransmissions in a row were answered with an alert.
    pub(super) refusals: u8,
    /// Whether [`Connection::hurry`](super::Connection::hurry) has set the timer of the flight, so
    /// that its expiry does not double the timeout.
    pub(super) hurried: bool,
    /// Payloads of DTLS 1.2 that arrived before the peer's Finished.
    pub(super) waiting: Vec<Slot>,
    /// The number of DTLS 1.2 records under the handshake's keys that failed authentication.
    pub(super) wrong_keys: u64,
    /// Whether the client's Finished waits for the answer of the verifier.
    pub(super) looks_up_client: bool,
}

impl Stage {
    /// A handshake that begins in this state.
    pub(super) fn handshake(state: State) -> Self {
        Self::Handshake(Box::new(Handshake {
            state,
            alert_hint: None,
            refusals: 0,
            hurried: false,
            waiting: Vec::new(),
            wrong_keys: 0,
            looks_up_client: false,
        }))
    }

    /// The state of the handshake; `None` if it is complete or has failed.
    pub(super) fn state(&self) -> Option<&State> {
        match self {
            Self::Handshake(handshake) => Some(&handshake.state),
            Self::Established(_) | Self::Ended => None,
        }
    }

    /// Whether the client's Finished waits for the answer of the verifier.
    pub(super) const fn looks_up_client(&self) -> bool {
        matches!(self, Self::Handshake(handshake) if handshake.looks_up_client)
    }

    /// Whether a renegotiation is to be refused; `None` unless a DTLS 1.2 handshake is complete.
    pub(super) fn renegotiation_refusal(&mut self) -> Option<&mut RenegotiationRefusal> {
        match self {
            Self::Established(established) => {
                established.keys.dtls12_mut().map(|keys| &mut keys.refusal)
            }
            _ => None,
        }
    }

    /// The tickets of DTLS 1.3; `None` unless a handshake of that version is complete.
    pub(super) fn resumption(&mut self) -> Option<&mut PartState<parts::Resumption, Resumption>> {
        let Self::Established(established) = self else { return None };
        match &mut established.keys {
            EstablishedKeys::Dtls13 { resumption, .. } => Some(resumption),
            EstablishedKeys::Dtls12(_) => None,
        }
    }

    /// Whether DTLS 1.2 was negotiated.
    pub(super) fn is_12(&self) -> bool {
        match self {
            _ if !parts::Dtls12::IS_INCLUDED => false,
            Self::Handshake(handshake) => {
                handshake.state.version() == Some(ProtocolVersion::Dtls12)
            }
            Self::Established(established) => {
                matches!(established.keys, EstablishedKeys::Dtls12(_))
            }
            Self::Ended => false,
        }
    }

    /// The version, once it is negotiated.
    pub(super) fn version(&self) -> Option<ProtocolVersion> {
        match self {
            Self::Handshake(handshake) => handshake.state.version(),
            Self::Established(established) => Some(established.version()),
            Self::Ended => None,
        }
    }
}
