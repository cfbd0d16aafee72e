//! The keys of one epoch in either profile, behind one interface for sealing and opening.

use super::outcome::DropReason;
use crate::compact::{Challenge, PairSecret, PrivateKey, PublicKey, VerifyingKey};
use crate::parts::{Axiom12, Compact};
use crate::policy::{Policy, Profile};
use crate::rekey::EpochKey;
use crate::{GroupId, ListenerId, SenderId, axiom, compact};
use core::net::IpAddr;
use lightseal_core::{DecodeError, ReplayWindow};
use lightseal_dtls::codepoints::{ContentType, MAX_RECORD_NUMBER};
use lightseal_dtls::crypto::{Limits, PremasterSecret, Provider, Sha256};

use crate::codepoints::MAX_TRUNCATED_NUMBER;

/// The cipher suite of a group, in either profile.
#[derive(Clone, Copy, Debug)]
pub(super) enum Suite {
    Axiom(axiom::Suite),
    Compact(compact::Suite),
}

impl Suite {
    /// The suite that a policy names, if `provider` has it.
    pub(super) fn of(policy: &Policy, provider: &Provider) -> Option<Self> {
        match policy.profile {
            Profile::Axiom12 => axiom::Suite::new(provider, policy.suite).map(Self::Axiom),
            Profile::Compact => compact::Suite::find(provider, policy.suite).map(Self::Compact),
        }
    }

    pub(super) const fn is_compact(self) -> bool {
        matches!(self, Self::Compact(_))
    }

    /// The usage limits of a key.
    pub(super) fn limits(self) -> &'static Limits {
        match self {
            Self::Axiom(suite) => suite.limits(),
            Self::Compact(suite) => suite.limits(),
        }
    }

    /// The maximum number of members that seal under the key of a sender's requests: all senders
    /// share it in `axiom-1.2`.
    pub(super) const fn sealers(self) -> u64 {
        match self {
            Self::Axiom(_) => 1 << u8::BITS,
            Self::Compact(_) => 1,
        }
    }

    /// The last number that a record can carry.
    pub(super) const fn last_number(self) -> u64 {
        match self {
            Self::Axiom(_) => MAX_TRUNCATED_NUMBER,
            Self::Compact(_) => MAX_RECORD_NUMBER,
        }
    }
}

/// A listener, identified as in the key derivation: by its address in `axiom-1.2`, by its
/// ListenerID in `compact`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum Listener {
    /// The listener's IP address, in `axiom-1.2`.
    Address(IpAddr),
    /// The listener's ListenerID, in `compact`.
    Id(ListenerId),
}

/// All keys of an epoch.
pub(super) enum EpochKeys {
    Axiom { keys: axiom::GroupKeys, group: GroupId, epoch: u16 },
    Compact { secret: compact::EpochSecret, suite: compact::Suite },
}

impl EpochKeys {
    pub(super) fn new(policy: &Policy, suite: Suite, epoch: u64, key: &EpochKey) -> Self {
        match suite {
            Suite::Axiom(suite) => {
                let premaster = PremasterSecret::from_bytes(&Sha256, key.as_bytes());
                let (client, server) = (policy.client_random, policy.server_random);
                let parameters = axiom::SecurityParameters {
                    // The group's keys do not depend on the end.
                    entity: axiom::ConnectionEnd::Client,
                    suite,
                    master_secret: premaster.into_master(&client, &server),
                    client_random: client,
                    server_random: server,
                };
                let keys = parameters.group_keys();
                // Records carry only the low 16 bits of the epoch. They may repeat, because each
                // epoch has new keys.
                Self::Axiom { keys, group: policy.group, epoch: epoch as u16 }
            }
            Suite::Compact(suite) => {
                let secret = compact::EpochSecret::new(policy.group, epoch, key.as_bytes());
                Self::Compact { secret, suite }
            }
        }
    }

    /// The keys that seal a sender's requests.
    pub(super) fn request_sealer(&self, sender: SenderId) -> Sealer {
        match self {
            Self::Axiom { keys, epoch, .. } => Sealer::Axiom(keys.request_sealer(*epoch, sender)),
            Self::Compact { secret, suite } => {
                Sealer::Compact(compact_requests(secret, *suite, sender))
            }
        }
    }

    /// The keys that open the requests of all senders, if all senders share one key; otherwise
    /// `None`.
    pub(super) fn shared_opener(&self) -> Option<Opener> {
        match self {
            Self::Axiom { keys, epoch, .. } => Some(Opener::Axiom(keys.request_opener(*epoch))),
            Self::Compact { .. } => None,
        }
    }

    /// The keys that open the requests of this sender.
    pub(super) fn request_opener(&self, sender: SenderId) -> Opener {
        match self {
            Self::Axiom { keys, epoch, .. } => Opener::Axiom(keys.request_opener(*epoch)),
            Self::Compact { secret, suite } => {
                Opener::Compact(compact_requests(secret, *suite, sender))
            }
        }
    }

    /// The keys that seal the responses of `listener` to `sender`; `None` if this profile
    /// identifies listeners in another way.
    pub(super) fn response_sealer(&self, listener: Listener, sender: SenderId) -> Option<Sealer> {
        match (self, listener) {
            (Self::Axiom { keys, group, epoch }, Listener::Address(address)) => {
                let individual = keys.individual(address, sender);
                Some(Sealer::Axiom(keys.response_sealer(&individual, *epoch, *group)))
            }
            (Self::Compact { secret, suite }, Listener::Id(listener)) => {
                let stream = secret.responses(sender, listener);
                let keyed = secret.response_secret(sender, listener);
                Some(Sealer::Compact(compact::RecordKeys::new(*suite, stream, &keyed)))
            }
            _ => None,
        }
    }

    /// The pairwise secret of a listener and a sender in this epoch, computed by the listener;
    /// `None` if the profile has no pairwise secrets or the sender's key is invalid.
    pub(super) fn pair_for_listener(
        &self,
        listener: (ListenerId, &PrivateKey),
        sender: (SenderId, &PublicKey),
    ) -> Option<PairSecret> {
        let Self::Compact { secret, .. } = self else { return None };
        secret.pair_for_listener(listener, sender).ok()
    }

    /// The pairwise secret of a sender and a listener, computed by the sender.
    pub(super) fn pair_for_sender(
        &self,
        sender: (SenderId, &PrivateKey),
        listener: (ListenerId, &PublicKey),
    ) -> Option<PairSecret> {
        let Self::Compact { secret, .. } = self else { return None };
        secret.pair_for_sender(sender, listener).ok()
    }

    /// The keys of a listener's pairwise responses under the boot nonce `nonce`.
    fn paired(
        &self,
        pair: &PairSecret,
        (listener, sender): (ListenerId, SenderId),
        nonce: &[u8; 8],
    ) -> Option<compact::RecordKeys> {
        let Self::Compact { secret, suite } = self else { return None };
        let stream = secret.pairwise_responses(sender, listener);
        Some(compact::RecordKeys::new(*suite, stream, &pair.response_secret(nonce)))
    }

    pub(super) fn paired_sealer(
        &self,
        pair: &PairSecret,
        ids: (ListenerId, SenderId),
        nonce: &[u8; 8],
    ) -> Option<Sealer> {
        self.paired(pair, ids, nonce).map(Sealer::Compact)
    }

    pub(super) fn paired_opener(
        &self,
        pair: &PairSecret,
        ids: (ListenerId, SenderId),
        nonce: &[u8; 8],
    ) -> Option<Opener> {
        self.paired(pair, ids, nonce).map(Opener::Compact)
    }

    /// The keys of a sender's answer to a listener's challenge.
    pub(super) fn answer_keys(
        &self,
        pair: &PairSecret,
        (listener, sender): (ListenerId, SenderId),
        challenge: &Challenge,
    ) -> Option<compact::RecordKeys> {
        let Self::Compact { secret, suite } = self else { return None };
        let stream = secret.answers(sender, listener);
        Some(compact::RecordKeys::new(*suite, stream, &pair.answer_secret(&challenge.0)))
    }

    /// The keys of a sender's direct requests to one listener.
    pub(super) fn direct_keys(
        &self,
        pair: &PairSecret,
        (listener, sender): (ListenerId, SenderId),
    ) -> Option<compact::RecordKeys> {
        let Self::Compact { secret, suite } = self else { return None };
        let stream = secret.direct_requests(sender, listener);
        Some(compact::RecordKeys::new(*suite, stream, &pair.direct_secret()))
    }

    /// The keys that open the responses of `listener` to `sender`.
    pub(super) fn response_opener(&self, listener: Listener, sender: SenderId) -> Option<Opener> {
        match (self, listener) {
            (Self::Axiom { keys, group, epoch }, Listener::Address(address)) => {
                let individual = keys.individual(address, sender);
                Some(Opener::Axiom(keys.response_opener(&individual, *epoch, *group)))
            }
            (Self::Compact { .. }, Listener::Id(_)) => {
                let Sealer::Compact(keys) = self.response_sealer(listener, sender)? else {
                    return None;
                };
                Some(Opener::Compact(keys))
            }
            _ => None,
        }
    }
}

fn compact_requests(
    secret: &compact::EpochSecret,
    suite: compact::Suite,
    sender: SenderId,
) -> compact::RecordKeys {
    compact::RecordKeys::new(suite, secret.requests(sender), &secret.request_secret(sender))
}

/// The keys of one writer, for sealing.
pub(super) enum Sealer {
    Axiom(axiom::Sealer),
    Compact(compact::RecordKeys),
}

impl Sealer {
    /// Seals a record and returns its length; `None` if `buf` is too short or the payload too long
    /// for a record. `axiom-1.2` has one form of record only, and ignores the form that `record`
    /// asks for.
    pub(super) fn seal_as(
        &self,
        record: &compact::PlainRecord<'_>,
        buf: &mut [u8],
    ) -> Option<usize> {
        match self {
            Self::Axiom(sealer) => {
                sealer.seal(buf, record.number, record.kind, |w| w.bytes(record.payload)).ok()
            }
            Self::Compact(keys) => keys.seal(record, buf).ok(),
        }
    }
}

/// The keys of one writer, for opening.
pub(super) enum Opener {
    Axiom(axiom::Opener),
    Compact(compact::RecordKeys),
}

/// What a record must prove about its origin.
#[derive(Clone, Copy)]
pub(super) enum RequiredProof<'k> {
    /// Some member wrote it: its tag is right.
    Member,
    /// The owner of this key wrote it: its signature is right.
    Signer(&'k VerifyingKey),
    /// The writer's key is not known, so only the tag is checked and the record is refused with
    /// [`DropReason::NoKey`].
    Unknown,
}

/// A record as it was received. Its writer is stated in the header but not authenticated.
pub(super) enum ReceivedRecord<'a, Id> {
    Axiom(axiom::Ciphertext<'a>, Axiom12),
    Compact(compact::SealedRecord<'a, Id>, Compact),
}

impl<'a> ReceivedRecord<'a, SenderId> {
    pub(super) fn request(
        suite: Suite,
        datagram: &'a mut [u8],
    ) -> Result<(Self, &'a mut [u8]), DecodeError> {
        Self::split_first(suite, datagram, compact::SealedRecord::request)
    }

    /// The sender stated in the header, which is not authenticated.
    pub(super) const fn sender(&self) -> SenderId {
        match self {
            Self::Axiom(record, _) => record.header().sender(),
            Self::Compact(record, _) => record.id,
        }
    }
}

impl<'a> ReceivedRecord<'a, ListenerId> {
    pub(super) fn response(
        suite: Suite,
        datagram: &'a mut [u8],
    ) -> Result<(Self, &'a mut [u8]), DecodeError> {
        Self::split_first(suite, datagram, compact::SealedRecord::response)
    }

    /// The listener stated by the header or, in `axiom-1.2`, by the source address `from`. It is
    /// not authenticated.
    pub(super) const fn listener(&self, from: IpAddr) -> Listener {
        match self {
            Self::Axiom(..) => Listener::Address(from),
            Self::Compact(record, _) => Listener::Id(record.id),
        }
    }
}

/// A record in front of what follows it in its datagram.
type SplitRecord<'a, Record> = Result<(Record, &'a mut [u8]), DecodeError>;

impl<'a, Id> ReceivedRecord<'a, Id> {
    fn split_first(
        suite: Suite,
        datagram: &'a mut [u8],
        compact: impl FnOnce(&'a mut [u8]) -> SplitRecord<'a, compact::SealedRecord<'a, Id>>,
    ) -> SplitRecord<'a, Self> {
        Ok(match suite {
            Suite::Axiom(suite) => {
                let (record, rest) = axiom::Ciphertext::split_first(datagram)?;
                (Self::Axiom(record, suite.part), rest)
            }
            Suite::Compact(suite) => {
                let (record, rest) = compact(datagram)?;
                (Self::Compact(record, suite.part), rest)
            }
        })
    }

    /// Whether the record may belong to this epoch.
    pub(super) const fn is_of(&self, epoch: u64) -> bool {
        match self {
            Self::Axiom(record, _) => record.header().epoch == epoch as u16,
            Self::Compact(record, _) => record.epoch.is_of(epoch),
        }
    }

    /// Whether a record that does not belong to this epoch may belong to a later one.
    pub(super) const fn may_be_after(&self, epoch: u64) -> bool {
        match self {
            Self::Axiom(record, _) => record.header().epoch.wrapping_sub(epoch as u16) < 1 << 15,
            Self::Compact(record, _) => match record.epoch {
                compact::EpochBits::Low(_) => true,
                compact::EpochBits::Full(full) => full > epoch,
            },
        }
    }

    /// The group's alias in the header; `None` in `axiom-1.2`.
    pub(super) const fn alias(&self) -> Option<u8> {
        match self {
            Self::Axiom(..) => None,
            Self::Compact(record, _) => Some(record.alias),
        }
    }

    /// Opens the record, unless `window` shows that its number is a replay.
    pub(super) fn open(
        self,
        opener: &Opener,
        window: &ReplayWindow,
        proof: RequiredProof<'_>,
    ) -> Result<AuthenticRecord<'a>, DropReason> {
        match (self, opener) {
            (Self::Axiom(record, _), Opener::Axiom(opener)) => {
                if !window.check(record.header().number) {
                    return Err(DropReason::Replayed);
                }
                let len = record.header().body_len.into();
                let opened = opener.open(record).map_err(|error| match error {
                    axiom::OpenError::Unauthentic => DropReason::Unauthentic { len },
                    _ => DropReason::Malformed,
                })?;
                let axiom::Plaintext { header, content } = opened;
                Ok(AuthenticRecord { number: header.number, kind: header.kind, content })
            }
            (Self::Compact(record, _), Opener::Compact(keys)) => {
                let record = record.reveal(keys, window.next());
                if !window.check(record.number()) {
                    return Err(DropReason::Replayed);
                }
                let len = record.body_len();
                let error = |error| match error {
                    compact::OpenError::Tag => DropReason::Unauthentic { len },
                    compact::OpenError::Source => DropReason::Forged,
                    compact::OpenError::Content => DropReason::Malformed,
                };
                let tagged = record.authenticate(keys).map_err(error)?;
                let verifier = match proof {
                    RequiredProof::Member => None,
                    RequiredProof::Signer(key) => Some(key),
                    RequiredProof::Unknown => return Err(DropReason::NoKey),
                };
                let opened = tagged.open(keys.stream(), verifier).map_err(error)?;
                let compact::OpenedRecord { number, kind, payload, .. } = opened;
                Ok(AuthenticRecord { number, kind, content: payload })
            }
            _ => Err(DropReason::Malformed),
        }
    }
}

/// A record that is authentic and not a replay. The caller commits its number to the window.
pub(super) struct AuthenticRecord<'a> {
    pub(super) number: u64,
    pub(super) kind: ContentType,
    pub(super) content: &'a mut [u8],
}
