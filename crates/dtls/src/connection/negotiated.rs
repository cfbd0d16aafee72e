//! What was agreed with the peer.

use super::{Connection, Role, Stage};
use crate::handshake::{Negotiated, State};
use crate::parts;
use lightseal_aggregation::Scheme;

impl Connection {
    /// The negotiated parameters; `None` before the handshake is complete.
    #[cfg(feature = "parameters")]
    pub fn negotiated(&self) -> Option<&Negotiated> {
        self.agreed()
    }

    /// The negotiated parameters of a complete handshake, as long as they are kept.
    pub(crate) fn agreed(&self) -> Option<&Negotiated> {
        if let Stage::Established(of) = &self.stage { of.parameters.get() } else { None }
    }

    /// Whether data can be sent in this stage.
    pub(super) fn sends_data(&self) -> bool {
        self.is_established() || self.sending_early().is_some()
    }

    /// The negotiated parameters of a server that sends data before the handshake is complete; `None` if
    /// it may not, and when the handshake is complete.
    pub(super) fn sending_early(&self) -> Option<(parts::HalfRttData, &Negotiated)> {
        let part = parts::HalfRttData::INCLUDED?;
        match (&self.stage, &self.role) {
            (Stage::Handshake(handshake), Role::Server(config)) if config.send_half_rtt_data => {
                match &handshake.state {
                    State::WaitClientFinished(_, state) => Some((part, state.negotiated()?)),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Whether the data that this end sends shares tags.
    pub(super) fn data_shares_tags(&self) -> bool {
        match &self.stage {
            Stage::Established(established) => established.schemes().0.aggregates(),
            _ => self.sending_early().is_some_and(|(_, agreed)| agreed.send.aggregates()),
        }
    }

    /// The scheme of the records that the peer sends; `None` before the handshake is complete.
    pub(super) fn receiving_scheme(&self) -> Option<Scheme> {
        if let Stage::Established(of) = &self.stage { Some(of.schemes().1) } else { None }
    }
}
