//! The negotiated parameters of an association whose handshake is complete.

use super::Negotiated;
use crate::credential::PeerKey;
use crate::parts::{self, InlineState, Part};
use alloc::boxed::Box;
use lightseal_aggregation::Scheme;

/// The negotiated parameters. A build without the feature `parameters` gives them back when the
/// application has been told: a session needs the schemes alone.
#[derive(Debug)]
pub(crate) struct Parameters {
    kept: InlineState<parts::Parameters, Negotiated>,
    /// Until the application has been told, where they are not kept.
    untold: [Option<Box<Negotiated>>; PLACES],
    /// The scheme of the records that this end sends.
    sending: InlineState<parts::SharedSending, Scheme>,
    /// The scheme of the records that the peer sends.
    receiving: InlineState<parts::SharedReceiving, Scheme>,
}

/// The places for parameters that are not kept.
const PLACES: usize = if parts::Parameters::IS_INCLUDED { 0 } else { 1 };

impl Parameters {
    pub(crate) fn new(negotiated: Negotiated) -> Self {
        let mut parameters = Self {
            kept: InlineState::EMPTY,
            untold: [const { None }; PLACES],
            sending: InlineState::new(parts::SharedSending::INCLUDED, |_| negotiated.send),
            receiving: InlineState::new(parts::SharedReceiving::INCLUDED, |_| negotiated.receive),
        };
        match parts::Parameters::INCLUDED {
            Some(part) => parameters.kept = InlineState::new(Some(part), |_| negotiated),
            None => {
                if let Some(untold) = parameters.untold.first_mut() {
                    *untold = Some(Box::new(negotiated));
                }
            }
        }
        parameters
    }

    /// The parameters, as long as they are there.
    pub(crate) fn get(&self) -> Option<&Negotiated> {
        self.kept.get().or_else(|| self.untold.first()?.as_deref())
    }

    /// The aggregation schemes of both directions: sending and receiving. They are always there.
    #[inline]
    pub(crate) fn schemes(&self) -> (Scheme, Scheme) {
        let (sending, receiving) = (self.sending.get(), self.receiving.get());
        (sending.copied().unwrap_or(Scheme::Plain), receiving.copied().unwrap_or(Scheme::Plain))
    }

    /// The client of this server has authenticated itself with this key.
    pub(crate) fn authenticated(&mut self, key: PeerKey) {
        let untold = self.untold.first_mut().and_then(Option::as_deref_mut);
        if let Some(negotiated) = self.kept.get_mut().or(untold)
            && let Some(peer) = negotiated.certificates.get_mut()
        {
            peer.key = Some(key);
        }
    }

    /// Notes the scheme of the records that this end sends from now on.
    pub(crate) fn set_sending(&mut self, scheme: Scheme) {
        if let Some(sending) = self.sending.get_mut() {
            *sending = scheme;
        }
        if let Some(kept) = self.kept.get_mut() {
            kept.send = scheme;
        }
    }

    /// Notes the scheme of the records that the peer sends from now on.
    pub(crate) fn set_receiving(&mut self, scheme: Scheme) {
        if let Some(receiving) = self.receiving.get_mut() {
            *receiving = scheme;
        }
        if let Some(kept) = self.kept.get_mut() {
            kept.receive = scheme;
        }
    }

    /// The parameters for the event that tells the application.
    pub(crate) fn tell(&mut self) -> Option<Box<Negotiated>> {
        match self.kept.get() {
            Some(kept) => Some(Box::new(kept.clone())),
            None => self.untold.first_mut()?.take(),
        }
    }
}
