//! The key schedule of an epoch: one secret for each writer of records.
//!
//! ```text
//! root key ─Extract(GroupID ‖ epoch)─► EpochSecret
//!     ├ "ls g req" (SenderID)               requests of a sender
//!     ├ "ls g rsp" (SenderID ‖ ListenerID)  responses of a listener to a sender
//!     └ Extract(·, Z) ─ "ls g pair" ─► PairSecret, which only these two have
//!           ├ "ls g rsp" (boot nonce)       responses of the listener
//!           ├ "ls g ans" (challenge)        an answer of the sender
//!           └ "ls g dir"                    requests of the sender to this listener alone
//! ```
//!
//! No two writers have a key in common, so none can use the nonce of another. Every secret is
//! zeroized when dropped.

use super::InvalidPublicKey;
use super::pairwise::{PrivateKey, PublicKey};
use crate::{GroupId, ListenerId, SenderId};
use core::fmt;
use dtls::crypto::TrafficSecret;

/// One writer's records in one epoch of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stream {
    /// The group.
    pub group: GroupId,
    /// The epoch.
    pub epoch: u64,
    /// The sender that writes, or that is written to.
    pub sender: SenderId,
    /// Who writes to whom.
    pub direction: Direction,
}

/// Who writes the records of a [`Stream`], and who has its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The sender to the group, under a key of the group.
    Requests,
    /// A listener to the sender, under a key of the group.
    Responses(ListenerId),
    /// A listener to the sender, under a key that only they have.
    PairwiseResponses(ListenerId),
    /// The sender to a listener, under a key that only they have.
    Answers(ListenerId),
    /// The sender to a listener alone, under a key that only they have.
    Direct(ListenerId),
}

/// What all keys of an epoch derive from.
#[derive(Clone)]
pub struct EpochSecret {
    group: GroupId,
    epoch: u64,
    secret: TrafficSecret,
}

impl EpochSecret {
    /// The secret of `epoch`, whose root key is random and has 16 bytes or more.
    pub fn new(group: GroupId, epoch: u64, root_key: &[u8]) -> Self {
        let mut salt = [0; 24];
        salt[..16].copy_from_slice(&group.0);
        salt[16..].copy_from_slice(&epoch.to_be_bytes());
        Self { group, epoch, secret: TrafficSecret::extract(&salt, root_key) }
    }

    /// The group.
    pub const fn group(&self) -> GroupId {
        self.group
    }

    /// The epoch.
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// What the keys of a sender's requests derive from.
    pub fn request_secret(&self, sender: SenderId) -> TrafficSecret {
        self.secret.derive("ls g req", &[sender.0])
    }

    /// What the keys of a listener's responses to a sender derive from. It can be had again at
    /// any time, so nobody has to keep it.
    pub fn response_secret(&self, sender: SenderId, listener: ListenerId) -> TrafficSecret {
        let [a, b, c] = listener.to_bytes();
        self.secret.derive("ls g rsp", &[sender.0, a, b, c])
    }

    /// What a sender shares with a listener, for the sender.
    ///
    /// # Errors
    /// The shared point is zero: the listener's key is of small order.
    pub fn pair_for_sender(
        &self,
        (sender, own): (SenderId, &PrivateKey),
        (listener, key): (ListenerId, &PublicKey),
    ) -> Result<PairSecret, InvalidPublicKey> {
        let keys = [own.public(), *key];
        Ok(self.pair(sender, listener, keys, &*own.agree(key)?))
    }

    /// What a sender shares with a listener, for the listener.
    ///
    /// # Errors
    /// The shared point is zero: the sender's key is of small order.
    pub fn pair_for_listener(
        &self,
        (listener, own): (ListenerId, &PrivateKey),
        (sender, key): (SenderId, &PublicKey),
    ) -> Result<PairSecret, InvalidPublicKey> {
        let keys = [*key, own.public()];
        Ok(self.pair(sender, listener, keys, &*own.agree(key)?))
    }

    fn pair(
        &self,
        sender: SenderId,
        listener: ListenerId,
        [of_sender, of_listener]: [PublicKey; 2],
        shared: &[u8; 32],
    ) -> PairSecret {
        let mut context = [0; 92];
        context[..16].copy_from_slice(&self.group.0);
        context[16..24].copy_from_slice(&self.epoch.to_be_bytes());
        context[24] = sender.0;
        context[25..28].copy_from_slice(&listener.to_bytes());
        context[28..60].copy_from_slice(&of_sender.0);
        context[60..].copy_from_slice(&of_listener.0);
        PairSecret(self.secret.extract_from(shared).derive("ls g pair", &context))
    }

    /// A sender's requests.
    pub const fn requests(&self, sender: SenderId) -> Stream {
        self.stream(sender, Direction::Requests)
    }

    /// A listener's responses to a sender under [`Self::response_secret`].
    pub const fn responses(&self, sender: SenderId, listener: ListenerId) -> Stream {
        self.stream(sender, Direction::Responses(listener))
    }

    /// A listener's responses to a sender under [`PairSecret::response_secret`].
    pub const fn pairwise_responses(&self, sender: SenderId, listener: ListenerId) -> Stream {
        self.stream(sender, Direction::PairwiseResponses(listener))
    }

    /// A sender's answers to a listener under [`PairSecret::answer_secret`].
    pub const fn answers(&self, sender: SenderId, listener: ListenerId) -> Stream {
        self.stream(sender, Direction::Answers(listener))
    }

    /// A sender's requests to one listener under [`PairSecret::direct_secret`].
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

/// What a sender and a listener share with nobody in one epoch: 32 bytes, worth keeping because
/// making it again takes an X25519.
#[derive(Clone)]
pub struct PairSecret(TrafficSecret);

impl PairSecret {
    /// What the keys of the listener's responses derive from since it drew `boot_nonce`.
    pub fn response_secret(&self, boot_nonce: &[u8; 8]) -> TrafficSecret {
        self.0.derive("ls g rsp", boot_nonce)
    }

    /// What the keys of the sender's answer to `challenge` derive from.
    pub fn answer_secret(&self, challenge: &[u8; 8]) -> TrafficSecret {
        self.0.derive("ls g ans", challenge)
    }

    /// What the keys of the sender's requests to this listener alone derive from. The sender's
    /// record numbers are one count for all of its records of the epoch, kept on stable storage;
    /// so no number comes twice under this secret, and no boot nonce is needed.
    pub fn direct_secret(&self) -> TrafficSecret {
        self.0.derive("ls g dir", &[])
    }
}

impl fmt::Debug for PairSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PairSecret(..)")
    }
}
