//! How a symmetric member seals records.

use super::peers::{place_of, state_of};
use super::{InlineSuite, SymmetricEpoch, SymmetricMember};
use crate::SenderId;
use crate::compact::HeaderForm;
use crate::epoch::keys::{Listener, Suite};
use crate::interface::SendError;
use crate::numbers::Ledger;
use core::net::SocketAddr;
use lightseal_core::Instant;
use lightseal_dtls::codepoints::ContentType;

impl<S, L, const SENDERS: usize, const LISTENERS: usize> SymmetricMember<S, L, SENDERS, LISTENERS>
where
    S: InlineSuite,
    L: Ledger,
{
    /// Seals a group request into the front of `buf` and returns its length. The program sends it to
    /// the group's address, and then calls [`Self::poll_transmit`].
    ///
    /// # Errors
    /// See [`SendError`].
    pub fn request(
        &mut self,
        now: Instant,
        content: &[u8],
        buf: &mut [u8],
    ) -> Result<usize, SendError> {
        if self.roles.sender.is_none() {
            return Err(SendError::Role);
        }
        let Self { epochs, ledger, suite, permission, .. } = self;
        let (at, SymmetricEpoch { state, .. }) = epochs.sending(now);
        if !permission.covers(at) {
            return Err(SendError::NotStarted);
        }
        let record = (ContentType::APPLICATION_DATA, content, HeaderForm::Last);
        let sealed = state.seal(*suite, ledger, record, None, buf)?;
        if suite.is_compact() {
            state.schedule_sync(now);
        }
        self.check_key_usage(now);
        Ok(sealed)
    }

    /// Seals a response to the last request of `sender` into the front of `buf`. Returns the address
    /// that it is to be sent to, from which that request came, and its length.
    ///
    /// # Errors
    /// See [`SendError`].
    pub fn respond(
        &mut self,
        now: Instant,
        sender: SenderId,
        content: &[u8],
        buf: &mut [u8],
    ) -> Result<(SocketAddr, usize), SendError> {
        if !self.roles.listener {
            return Err(SendError::Role);
        }
        let heard = self.heard_from.iter().flatten().find(|(heard, _)| *heard == sender);
        let (_, to) = *heard.ok_or(SendError::UnknownSender)?;
        let at = self.response_epoch(now, sender);
        if !self.permission.covers(at) {
            return Err(SendError::NotStarted);
        }
        let me = match self.suite {
            Suite::Axiom(..) => Listener::Address(self.address),
            Suite::Compact(..) => Listener::Id(self.leaf.into()),
        };
        let Self { epochs, ledger, .. } = self;
        let SymmetricEpoch { state, peers } =
            epochs.receiving(now, at).ok_or(SendError::UnknownSender)?;
        let place = place_of(&mut peers.senders, sender).ok_or(SendError::UnknownSender)?;
        // A sender that was heard in the previous epoch only has no state here yet.
        let answering = &mut state_of(place, sender, state).answering;
        let data = (ContentType::APPLICATION_DATA, content);
        let len = state.seal_response((me, sender), answering, ledger, data, None, buf)?;
        Ok((to, len))
    }

    /// The epoch in which to respond: the sending epoch, or a later one in which the sender was
    /// heard, because a sender that has just joined knows no older epoch.
    fn response_epoch(&self, now: Instant, sender: SenderId) -> u64 {
        let (sending, _) = self.epochs.sending_ref(now);
        let is_heard = |epoch: &SymmetricEpoch<S, SENDERS, LISTENERS>| {
            let mut senders = epoch.peers.senders.iter().flatten();
            senders.any(|(known, heard)| *known == sender && heard.requests.number().is_some())
        };
        let later = |newest, (at, epoch)| if at > newest && is_heard(epoch) { at } else { newest };
        self.epochs.epochs().fold(sending, later)
    }

    /// Seals the next datagram that the member sends on its own into the front of `buf`, and returns
    /// the address that it is to be sent to and its length: a sync record, after which listeners know
    /// the sender's record number. The program calls this after requests and when
    /// [`Self::wake_at`] says so.
    pub fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<(SocketAddr, usize)> {
        let Self { epochs, ledger, permission, policy, .. } = self;
        let (at, SymmetricEpoch { state, .. }) = epochs.sending(now);
        if state.sync_at().is_none_or(|due| now < due) {
            return None;
        }
        let len = state.seal_sync(permission.covers(at), ledger, None, buf)?;
        Some((policy.address, len))
    }
}
