//! The key schedule of an epoch, with one secret for each writer of records.
//!
//! ```text
//! root key ─Extract(GroupID ‖ epoch)─► EpochSecret
//!     ├ "ls g req" (SenderID)               requests of a sender
//!     ├ "ls g rsp" (SenderID ‖ ListenerID)  responses of a listener to a sender
//!     └ Extract(·, Z) ─ "ls g pair" ─► PairSecret, known only to this sender and listener
//!           ├ "ls g rsp" (boot nonce)       responses of the listener
//!           ├ "ls g ans" (challenge)        an answer of the sender
//!           └ "ls g dir"                    requests of the sender to this listener alone
//! ```
//!
//! No two writers share a key, so no writer can repeat the nonce of another. Every secret is
//! zeroized when dropped.

use super::InvalidPublicKey;
use super::pairwise::{PrivateKey, PublicKey};
use crate::parts::Pairwise;
use crate::{GroupId, ListenerId, SenderId};
use core::fmt;
use lightseal_dtls::crypto::{Sha256, TrafficSecret};
use zeroize::Zeroizing;

/// Identifies the records of one writer in one epoch of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stream {
    /// The group.
    pub group: GroupId,
    /// The epoch.
    pub epoch: u64,
    /// The sender that writes the records or receives them.
    pub sender: SenderId,
    /// The writer, the receiver and the kind of keys.
    pub direction: Direction,
}

/// The writer and the receiver of a [`Stream`], and the members that have its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the sender to the group, under a key that all members can derive.
    Requests,
    /// From a listener to the sender, under a key that all members can derive.
    Responses(ListenerId),
    /// From a listener to the sender, under a pairwise key that only these two have.
    PairwiseResponses(ListenerId),
    /// Answers to challenges, from the sender to a listener, under a pairwise key.
    Answers(ListenerId),
    /// Direct requests, from the sender to one listener, under a pairwise key.
    Direct(ListenerId),
}

/// The secret from which all keys of an epoch are derived.
#[derive(Clone)]
pub struct EpochSecret {
    group: GroupId,
    epoch: u64,
    secret: TrafficSecret,
}

impl EpochSecret {
    /// The secret of `epoch`. `root_key` must be random and at least 16 bytes long.
    pub fn new(group: GroupId, epoch: u64, root_key: &[u8]) -> Self {
        let mut salt = [0; 24];
        salt[..16].copy_from_slice(&group.0);
        salt[16..].copy_from_slice(&epoch.to_be_bytes());
        Self { group, epoch, secret: TrafficSecret::extract(&Sha256, &salt, root_key) }
    }

    /// The group.
    pub const fn group(&self) -> GroupId {
        self.group
    }

    /// The epoch.
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The secret from which the keys of a sender's requests are derived.
    pub fn request_secret(&self, sender: SenderId) -> TrafficSecret {
        self.secret.derive("ls g req", &[sender.0])
    }

    /// The secret from which the keys of a listener's responses to a sender are derived. It can be
    /// derived again at any time, so it need not be stored.
    pub fn response_secret(&self, sender: SenderId, listener: ListenerId) -> TrafficSecret {
        let [a, b, c] = listener.to_bytes();
        self.secret.derive("ls g rsp", &[sender.0, a, b, c])
    }

    /// The pairwise secret of a sender and a listener, computed by the sender.
    ///
    /// # Errors
    /// The X25519 shared secret is zero: the listener's key is of small order.
    pub fn pair_for_sender(
        &self,
        (sender, own): (SenderId, &PrivateKey),
        (listener, key): (ListenerId, &PublicKey),
    ) -> Result<PairSecret, InvalidPublicKey> {
        let keys = [own.public(), *key];
        self.pair(sender, listener, keys, (own, key))
    }

    /// The pairwise secret of a sender and a listener, computed by the listener.
    ///
    /// # Errors
    /// The X25519 shared secret is zero: the sender's key is of small order.
    pub fn pair_for_listener(
        &self,
        (listener, own): (ListenerId, &PrivateKey),
        (sender, key): (SenderId, &PublicKey),
    ) -> Result<PairSecret, InvalidPublicKey> {
        let keys = [*key, own.public()];
        self.pair(sender, listener, keys, (own, key))
    }

    fn pair(
        &self,
        sender: SenderId,
        listener: ListenerId,
        [of_sender, of_listener]: [PublicKey; 2],
        (own, peer): (&PrivateKey, &PublicKey),
    ) -> Result<PairSecret, InvalidPublicKey> {
        let shared = own.agree(peer)?;
        let mut context = [0; 92];
        context[..16].copy_from_slice(&self.group.0);
        context[16..24].copy_from_slice(&self.epoch.to_be_bytes());
        context[24] = sender.0;
        context[25..28].copy_from_slice(&listener.to_bytes());
        context[28..60].copy_from_slice(&of_sender.0);
        context[60..].copy_from_slice(&of_listener.0);
        let mut pair = PairSecret(Zeroizing::new([0; 32]), own.part);
        self.secret.extract_from(&*shared).expand("ls g pair", &context, &mut *pair.0);
        Ok(pair)
    }

    /// The stream of a sender's requests.
    pub const fn requests(&self, sender: SenderId) -> Stream {
        self.stream(sender, Direction::Requests)
    }

    /// The stream of a listener's responses to a sender, under [`Self::response_secret`].
    pub const fn responses(&self, sender: SenderId, listener: ListenerId) -> Stream {
        self.stream(sender, Direction::Responses(listener))
    }

    /// The stream of a listener's pairwise responses to a sender, under
    /// [`PairSecret::response_secret`].
    pub const fn pairwise_responses(&self, sender: SenderId, listener: ListenerId) -> Stream {
        self.stream(sender, Direction::PairwiseResponses(listener))
    }

    /// The stream of a sender's answers to a listener, under [`PairSecret::answer_secret`].
    pub const fn answers(&self, sender: SenderId, listener: ListenerId) -> Stream {
        self.stream(sender, Direction::Answers(listener))
    }

    /// The stream of a sender's direct requests to one listener, under
    /// [`PairSecret::direct_secret`].
    pub const fn direct_requests(&self, sender: SenderId, listener: ListenerId) -> Stream {
        self.stream(sender, Direction::Direct(listener))
    }

    const fn stream(&self, sender: SenderId, direction: Direction) -> Stream {
        Stream { group: self.group, epoch: self.epoch, sender, direction }
    }
}

impl fmt::Debug for EpochSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EpochSecret({} epoch {})", self.group, self.epoch)
    }
}

/// The pairwise secret of a sender and a listener in one epoch, 32 bytes. It is worth storing,
/// because deriving it again takes an X25519 computation.
#[derive(Clone)]
pub struct PairSecret(Zeroizing<[u8; 32]>, Pairwise);

impl PairSecret {
    fn derive(&self, label: &str, context: &[u8]) -> TrafficSecret {
        TrafficSecret::new(&Sha256, &*self.0).derive(label, context)
    }

    /// The secret from which the keys of the listener's responses are derived while its boot nonce
    /// is `boot_nonce`.
    pub fn response_secret(&self, boot_nonce: &[u8; 8]) -> TrafficSecret {
        self.derive("ls g rsp", boot_nonce)
    }

    /// The secret from which the keys of the sender's answer to `challenge` are derived.
    pub fn answer_secret(&self, challenge: &[u8; 8]) -> TrafficSecret {
        self.derive("ls g ans", challenge)
    }

    /// The secret from which the keys of the sender's direct requests to this listener are derived.
    /// All of the sender's records of an epoch take their numbers from one sequence, whose reserved
    /// bound is in stable storage. No number is therefore used twice under this secret, and no boot
    /// nonce is needed.
    pub fn direct_secret(&self) -> TrafficSecret {
        self.derive("ls g dir", &[])
    }
}

impl fmt::Debug for PairSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PairSecret(..)")
    }
}
