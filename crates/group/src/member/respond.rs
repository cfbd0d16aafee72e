//! How a listener seals responses and challenges.

use super::epoch::{AnsweredSender, Epoch, PairedPeers, SenderState};
use super::keys::{EpochKeys, Listener, Suite};
use super::peers::KeyDirectory;
use super::{Member, RequestKind, SendError, signer};
use crate::codepoints::GROUP_CHALLENGE;
use crate::compact::{Boot, HeaderForm, PlainRecord};
use crate::directory::Lookup;
use crate::epoch::{Answering, HEADER_BYTES};
use crate::identity::Identity;
use crate::{ListenerId, SenderId};
use core::net::SocketAddr;
use lightseal_core::Instant;
use lightseal_dtls::codepoints::{ContentType, MAX_RECORD_NUMBER};
use lightseal_dtls::crypto::KeyState;

impl Member {
    /// Seals a response to the last request of `sender` that was of the kind `request` into the
    /// front of `buf`. Returns the address that it is to be sent to, from which that request came,
    /// and its length.
    ///
    /// # Errors
    /// See [`SendError`].
    pub fn respond(
        &mut self,
        now: Instant,
        sender: SenderId,
        request: RequestKind,
        content: &[u8],
        buf: &mut [u8],
    ) -> Result<(SocketAddr, usize), SendError> {
        if !self.roles.listener {
            return Err(SendError::Role);
        }
        let to = *self.heard_from.get((sender, request)).ok_or(SendError::UnknownSender)?;
        if self.has_session(to) {
            return Err(SendError::Session(to));
        }
        let at = self.response_epoch(now, sender, request)?;
        let data = (ContentType::APPLICATION_DATA, content);
        let len = self.seal_response(now, (at, sender, Some(request)), data, buf)?;
        Ok((to, len))
    }

    /// The epoch in which to respond: the sending epoch, or a later one in which the sender was
    /// heard, because a sender that has just joined knows no older epoch. With pairwise responses
    /// it is the newest epoch in which the sender acknowledged this listener's boot or in which a
    /// request of this kind was heard.
    fn response_epoch(
        &mut self,
        now: Instant,
        sender: SenderId,
        request: RequestKind,
    ) -> Result<u64, SendError> {
        let (sending, _) = self.epochs.sending(now);
        let paired = self.policy.pairwise().is_some();
        let is_known = |epoch: &Epoch| {
            let heard = epoch.senders.get(sender);
            heard.is_some_and(|heard| heard.knows_boot || heard.last_number(request).is_some())
        };
        let known = self.epochs.epochs().filter(|(_, epoch)| is_known(epoch));
        let newest = known.map(|(at, _)| at).max();
        if paired {
            newest.ok_or(SendError::UnknownSender)
        } else {
            Ok(sending.max(newest.unwrap_or(0)))
        }
    }

    /// Seals a record from this listener to `sender` in the epoch `at`: a response to the sender's
    /// last request of the kind `request`, or a challenge if that is `None`.
    pub(super) fn seal_response(
        &mut self,
        now: Instant,
        (at, sender, request): (u64, SenderId, Option<RequestKind>),
        record: (ContentType, &[u8]),
        buf: &mut [u8],
    ) -> Result<usize, SendError> {
        if !self.permission.covers(at) {
            return Err(SendError::NotStarted);
        }
        let me = self.as_listener();
        let Self { epochs, ledger, policy, roles, identity, peers, boot, rng, .. } = self;
        let epoch = epochs.receiving(now, at).ok_or(SendError::UnknownSender)?;
        // A sender that was heard in the previous epoch only has no state here yet.
        let AnsweredSender { state, paired, heard } = epoch.answering(now, sender);
        let len = match (policy.pairwise(), me) {
            (Some(_), Listener::Id(me)) => {
                if state.key_state() == KeyState::Exhausted {
                    return Err(SendError::Exhausted);
                }
                let (keys, ids) = ((&state.keys, paired), (me, sender, request));
                let sealed = seal_paired(keys, heard, ids, (identity, peers), boot, record, buf);
                if sealed == Err(SendError::NoKey) {
                    peers.schedule_lookup(now, rng, Lookup::sender(sender));
                }
                let len = sealed?;
                state.responses.add_sealed(HEADER_BYTES, len);
                len
            }
            _ => {
                let signer = signer(policy, *roles, identity);
                let ids = (me, sender);
                state.seal_response(
                    ids,
                    &mut heard.answering,
                    &mut **ledger,
                    record,
                    signer,
                    buf,
                )?
            }
        };
        self.stats.sealed += 1;
        Ok(len)
    }

    /// This member, identified as in the key derivation of its responses.
    fn as_listener(&self) -> Listener {
        match self.suite {
            Suite::Axiom(..) => Listener::Address(self.address),
            Suite::Compact(..) => Listener::Id(self.listener()),
        }
    }
}

/// Seals a pairwise response, which only the sender of the request can read. Its number needs no
/// ledger, because the key is derived from the boot nonce, which is new after each restart.
fn seal_paired(
    (keys, paired): (&EpochKeys, Option<&PairedPeers>),
    heard: &mut SenderState,
    (me, sender, request): (ListenerId, SenderId, Option<RequestKind>),
    (identity, peers): (&Identity, &KeyDirectory),
    boot: &[u8; 8],
    (kind, payload): (ContentType, &[u8]),
    buf: &mut [u8],
) -> Result<usize, SendError> {
    if heard.pair.is_none() {
        let paired = paired.ok_or(SendError::NoKey)?;
        heard.pair = paired.sender_pairs.get(&sender).map(|pair| pair.secret.clone());
    }
    if heard.pair.is_none() {
        let peer = peers.sender(sender).ok_or(SendError::NoKey)?;
        let own = identity.exchanger().ok_or(SendError::NoKey)?;
        let (own, key) = ((me, own), (sender, &peer.exchange));
        heard.pair = keys.pair_for_listener(own, key);
    }
    let pair = heard.pair.as_ref().ok_or(SendError::NoKey)?;
    if heard.answering.sealer.is_none() {
        heard.answering.sealer = keys.paired_sealer(pair, (me, sender), boot);
    }
    let request = request.and_then(|request| heard.last_number(request)).unwrap_or(0);
    let Answering { numbers, sealer } = &mut heard.answering;
    let sealer = sealer.as_ref().ok_or(SendError::Role)?;
    let numbers = numbers.as_mut().ok_or(SendError::Role)?;
    let number = numbers.take_unreserved(MAX_RECORD_NUMBER).map_err(SendError::Number)?;
    let form = if heard.knows_boot && kind != GROUP_CHALLENGE {
        HeaderForm::Last
    } else {
        HeaderForm::Boot(Boot { nonce: *boot, request })
    };
    let record = PlainRecord { number, kind, payload, form, padding: 0, signer: None };
    sealer.seal_as(&record, buf).ok_or(SendError::TooLong)
}
