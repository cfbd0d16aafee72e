//! The keys of one epoch in either profile, behind one interface for sealing and opening.

use super::outcome::DropReason;
use crate::axiom::RecordSuite as _;
use crate::compact::RecordSuite as _;
use crate::compact::{Challenge, PairSecret, PrivateKey, PublicKey, VerifyingKey};
pub use crate::interface::Listener;
use crate::parts::{Axiom12, Compact};
use crate::policy::{Policy, Profile};
use crate::rekey::EpochKey;
use crate::{GroupId, ListenerId, SenderId, axiom, compact};
use core::net::IpAddr;
use lightseal_core::parts::OfPart;
use lightseal_core::{DecodeError, ReplayWindow};
use lightseal_dtls::codepoints::{ContentType, MAX_RECORD_NUMBER};
#[cfg(feature = "alloc")]
use lightseal_dtls::crypto::Provider;
use lightseal_dtls::crypto::{Limits, PremasterSecret, Sha256};

use crate::codepoints::MAX_TRUNCATED_NUMBER;

/// The suites of the two profiles, and thereby where the keys of records lie.
pub trait SuitePair: Copy {
    /// The suite of `axiom-1.2`.
    type Axiom: axiom::RecordSuite;
    /// The suite of `compact`.
    type Compact: compact::RecordSuite;
}

/// Suites that a provider lists. Their keys lie on the heap.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FromProvider {}

impl SuitePair for FromProvider {
    type Axiom = axiom::Suite;
    type Compact = compact::Suite;
}

/// The cipher suite of a group, in either profile.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Suite<S: SuitePair = FromProvider> {
    Axiom(S::Axiom, Axiom12),
    Compact(S::Compact, Compact),
}

#[cfg(feature = "alloc")]
impl Suite {
    /// The suite that a policy names, if `provider` has it.
    pub(crate) fn of(policy: &Policy, provider: &Provider) -> Option<Self> {
        match policy.profile {
            Profile::Axiom12 => {
                let suite = axiom::Suite::new(provider, policy.suite)?;
                Some(Self::Axiom(suite, suite.part))
            }
            Profile::Compact => {
                let suite = compact::Suite::find(provider, policy.suite)?;
                Some(Self::Compact(suite, suite.part))
            }
        }
    }
}

impl<S: SuitePair> Suite<S> {
    pub(crate) const fn is_compact(self) -> bool {
        matches!(self, Self::Compact(..))
    }

    /// The usage limits of a key.
    pub(crate) fn limits(self) -> &'static Limits {
        match self {
            Self::Axiom(suite, _) => suite.limits(),
            Self::Compact(suite, _) => suite.limits(),
        }
    }

    /// The maximum number of members that seal under the key of a sender's requests: all senders
    /// share it in `axiom-1.2`.
    pub(crate) const fn sealers(self) -> u64 {
        match self {
            Self::Axiom(..) => 1 << u8::BITS,
            Self::Compact(..) => 1,
        }
    }

    /// The last number that a record can carry.
    pub(crate) const fn last_number(self) -> u64 {
        match self {
            Self::Axiom(..) => MAX_TRUNCATED_NUMBER,
            Self::Compact(..) => MAX_RECORD_NUMBER,
        }
    }
}

/// All keys of an epoch.
pub(crate) enum EpochKeys<S: SuitePair = FromProvider> {
    Axiom(OfPart<Axiom12, AxiomKeys<S::Axiom>>, Axiom12),
    Compact(OfPart<Compact, CompactKeys<S::Compact>>, Compact),
}

/// The keys of an epoch in `axiom-1.2`.
pub(crate) struct AxiomKeys<S: axiom::RecordSuite> {
    keys: axiom::GroupKeys<S>,
    group: GroupId,
    epoch: u16,
}

/// The keys of an epoch in `compact`.
pub(crate) struct CompactKeys<S> {
    secret: compact::EpochSecret,
    suite: S,
}

impl<S: SuitePair> EpochKeys<S> {
    pub(crate) fn new(policy: &Policy, suite: Suite<S>, epoch: u64, key: &EpochKey) -> Self {
        match suite {
            Suite::Axiom(suite, part) => {
                let premaster = PremasterSecret::from_bytes(&Sha256, key.as_bytes());
                let (client, server) = (&policy.client_random, &policy.server_random);
                let master = premaster.into_master(client, server);
                let keys = axiom::GroupKeys::new(suite, &master, client, server);
                // Records carry only the low 16 bits of the epoch. They may repeat, because each
                // epoch has new keys.
                let keys = AxiomKeys { keys, group: policy.group, epoch: epoch as u16 };
                Self::Axiom(OfPart::new(part, keys), part)
            }
            Suite::Compact(suite, part) => {
                let secret = compact::EpochSecret::new(policy.group, epoch, key.as_bytes());
                Self::Compact(OfPart::new(part, CompactKeys { secret, suite }), part)
            }
        }
    }

    /// The keys that seal a sender's requests.
    pub(crate) fn request_sealer(&self, sender: SenderId) -> Sealer<S> {
        match self {
            Self::Axiom(axiom, part) => {
                let sealer = axiom.keys.request_sealer(axiom.epoch, sender);
                Sealer::Axiom(OfPart::new(*part, sealer))
            }
            Self::Compact(compact, part) => {
                Sealer::Compact(OfPart::new(*part, compact.requests(sender)))
            }
        }
    }

    /// The keys that open the requests of all senders, if all senders share one key; otherwise
    /// `None`.
    pub(crate) fn shared_opener(&self) -> Option<Opener<S>> {
        match self {
            Self::Axiom(axiom, part) => {
                let opener = axiom.keys.request_opener(axiom.epoch);
                Some(Opener::Axiom(OfPart::new(*part, opener)))
            }
            Self::Compact(..) => None,
        }
    }

    /// The keys that open the requests of this sender.
    pub(crate) fn request_opener(&self, sender: SenderId) -> Opener<S> {
        match self {
            Self::Axiom(axiom, part) => {
                let opener = axiom.keys.request_opener(axiom.epoch);
                Opener::Axiom(OfPart::new(*part, opener))
            }
            Self::Compact(compact, part) => {
                Opener::Compact(OfPart::new(*part, compact.requests(sender)))
            }
        }
    }

    /// The keys that seal the responses of `listener` to `sender`; `None` if this profile
    /// identifies listeners in another way.
    pub(crate) fn response_sealer(
        &self,
        listener: Listener,
        sender: SenderId,
    ) -> Option<Sealer<S>> {
        match (self, listener) {
            (Self::Axiom(axiom, part), Listener::Address(address)) => {
                let AxiomKeys { keys, group, epoch } = &**axiom;
                let individual = keys.individual(address, sender);
                let sealer = keys.response_sealer(&individual, *epoch, *group);
                Some(Sealer::Axiom(OfPart::new(*part, sealer)))
            }
            (Self::Compact(compact, part), Listener::Id(listener)) => {
                Some(Sealer::Compact(OfPart::new(*part, compact.responses(sender, listener))))
            }
            _ => None,
        }
    }

    /// The pairwise secret of a listener and a sender in this epoch, computed by the listener;
    /// `None` if the profile has no pairwise secrets or the sender's key is invalid.
    pub(crate) fn pair_for_listener(
        &self,
        listener: (ListenerId, &PrivateKey),
        sender: (SenderId, &PublicKey),
    ) -> Option<PairSecret> {
        let Self::Compact(compact, _) = self else { return None };
        compact.secret.pair_for_listener(listener, sender).ok()
    }

    /// The pairwise secret of a sender and a listener, computed by the sender.
    pub(crate) fn pair_for_sender(
        &self,
        sender: (SenderId, &PrivateKey),
        listener: (ListenerId, &PublicKey),
    ) -> Option<PairSecret> {
        let Self::Compact(compact, _) = self else { return None };
        compact.secret.pair_for_sender(sender, listener).ok()
    }

    /// The keys of a listener's pairwise responses under the boot nonce `nonce`.
    fn paired(
        &self,
        pair: &PairSecret,
        (listener, sender): (ListenerId, SenderId),
        nonce: &[u8; 8],
    ) -> Option<compact::RecordKeys<S::Compact>> {
        let Self::Compact(compact, _) = self else { return None };
        let CompactKeys { secret, suite } = &**compact;
        let stream = secret.pairwise_responses(sender, listener);
        Some(compact::RecordKeys::new(*suite, stream, &pair.response_secret(nonce)))
    }

    pub(crate) fn paired_sealer(
        &self,
        pair: &PairSecret,
        ids: (ListenerId, SenderId),
        nonce: &[u8; 8],
    ) -> Option<Sealer<S>> {
        let keys = self.paired(pair, ids, nonce).zip(Compact::INCLUDED);
        keys.map(|(keys, part)| Sealer::Compact(OfPart::new(part, keys)))
    }

    pub(crate) fn paired_opener(
        &self,
        pair: &PairSecret,
        ids: (ListenerId, SenderId),
        nonce: &[u8; 8],
    ) -> Option<Opener<S>> {
        let keys = self.paired(pair, ids, nonce).zip(Compact::INCLUDED);
        keys.map(|(keys, part)| Opener::Compact(OfPart::new(part, keys)))
    }

    /// The keys of a sender's answer to a listener's challenge.
    pub(crate) fn answer_keys(
        &self,
        pair: &PairSecret,
        (listener, sender): (ListenerId, SenderId),
        challenge: &Challenge,
    ) -> Option<compact::RecordKeys<S::Compact>> {
        let Self::Compact(compact, _) = self else { return None };
        let CompactKeys { secret, suite } = &**compact;
        let stream = secret.answers(sender, listener);
        Some(compact::RecordKeys::new(*suite, stream, &pair.answer_secret(&challenge.0)))
    }

    /// The keys of a sender's direct requests to one listener.
    pub(crate) fn direct_keys(
        &self,
        pair: &PairSecret,
        (listener, sender): (ListenerId, SenderId),
    ) -> Option<compact::RecordKeys<S::Compact>> {
        let Self::Compact(compact, _) = self else { return None };
        let CompactKeys { secret, suite } = &**compact;
        let stream = secret.direct_requests(sender, listener);
        Some(compact::RecordKeys::new(*suite, stream, &pair.direct_secret()))
    }

    /// The keys that open the responses of `listener` to `sender`.
    pub(crate) fn response_opener(
        &self,
        listener: Listener,
        sender: SenderId,
    ) -> Option<Opener<S>> {
        match (self, listener) {
            (Self::Axiom(axiom, part), Listener::Address(address)) => {
                let AxiomKeys { keys, group, epoch } = &**axiom;
                let individual = keys.individual(address, sender);
                let opener = keys.response_opener(&individual, *epoch, *group);
                Some(Opener::Axiom(OfPart::new(*part, opener)))
            }
            (Self::Compact(compact, part), Listener::Id(listener)) => {
                Some(Opener::Compact(OfPart::new(*part, compact.responses(sender, listener))))
            }
            _ => None,
        }
    }
}

impl<S: compact::RecordSuite> CompactKeys<S> {
    fn requests(&self, sender: SenderId) -> compact::RecordKeys<S> {
        let keyed = self.secret.request_secret(sender);
        compact::RecordKeys::new(self.suite, self.secret.requests(sender), &keyed)
    }

    fn responses(&self, sender: SenderId, listener: ListenerId) -> compact::RecordKeys<S> {
        let keyed = self.secret.response_secret(sender, listener);
        compact::RecordKeys::new(self.suite, self.secret.responses(sender, listener), &keyed)
    }
}

/// The keys of one writer, for sealing.
pub(crate) enum Sealer<S: SuitePair = FromProvider> {
    Axiom(OfPart<Axiom12, axiom::Sealer<S::Axiom>>),
    Compact(OfPart<Compact, compact::RecordKeys<S::Compact>>),
}

impl<S: SuitePair> Sealer<S> {
    /// Seals a record and returns its length; `None` if `buf` is too short or the payload too long
    /// for a record. `axiom-1.2` has one form of record only, and ignores the form that `record`
    /// asks for.
    pub(crate) fn seal_as(
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
pub(crate) enum Opener<S: SuitePair = FromProvider> {
    Axiom(OfPart<Axiom12, axiom::Opener<S::Axiom>>),
    Compact(OfPart<Compact, compact::RecordKeys<S::Compact>>),
}

/// What a record must prove about its origin.
#[derive(Clone, Copy)]
pub(crate) enum RequiredProof<'k> {
    /// Some member wrote it: its tag is right.
    Member,
    /// The owner of this key wrote it: its signature is right.
    Signer(&'k VerifyingKey),
    /// The writer's key is not known, so only the tag is checked and the record is refused with
    /// [`DropReason::NoKey`].
    Unknown,
}

/// A record as it was received. Its writer is stated in the header but not authenticated.
pub(crate) enum ReceivedRecord<'a> {
    Axiom(axiom::Ciphertext<'a>, Axiom12),
    Compact(compact::SealedParts<'a>, Compact),
}

/// A record in front of what follows it in its datagram.
type SplitRecord<'a> = Result<(ReceivedRecord<'a>, &'a mut [u8]), DecodeError>;

impl<'a> ReceivedRecord<'a> {
    /// Splits the first record off a sender's datagram.
    pub(crate) fn request(suite: Suite<impl SuitePair>, datagram: &'a mut [u8]) -> SplitRecord<'a> {
        Self::split_first(suite, datagram, compact::header::SENDERS_CID)
    }

    /// Splits the first record off a listener's datagram.
    pub(crate) fn response(
        suite: Suite<impl SuitePair>,
        datagram: &'a mut [u8],
    ) -> SplitRecord<'a> {
        Self::split_first(suite, datagram, compact::header::LISTENERS_CID)
    }

    fn split_first(
        suite: Suite<impl SuitePair>,
        datagram: &'a mut [u8],
        cid_len: usize,
    ) -> SplitRecord<'a> {
        Ok(match suite {
            Suite::Axiom(_, part) => {
                let (record, rest) = axiom::Ciphertext::split_first(datagram)?;
                (Self::Axiom(record, part), rest)
            }
            Suite::Compact(_, part) => {
                let (parts, rest) = compact::SealedParts::split_first(datagram, cid_len)?;
                (Self::Compact(parts, part), rest)
            }
        })
    }

    /// The sender stated in the header of a request, which is not authenticated.
    pub(crate) fn sender(&self) -> SenderId {
        match self {
            Self::Axiom(record, _) => record.header().sender(),
            Self::Compact(parts, _) => parts.sender(),
        }
    }

    /// The listener stated by the header of a response or, in `axiom-1.2`, by the source address
    /// `from`. It is not authenticated.
    pub(crate) fn listener(&self, from: IpAddr) -> Listener {
        match self {
            Self::Axiom(..) => Listener::Address(from),
            Self::Compact(parts, _) => Listener::Id(parts.listener()),
        }
    }

    /// What the record's header states about its group and epoch, not authenticated.
    pub(crate) fn stated(&self) -> StatedEpoch {
        match self {
            Self::Axiom(record, part) => StatedEpoch::Axiom(record.header().epoch, *part),
            Self::Compact(record, part) => {
                StatedEpoch::Compact(record.alias(), record.epoch(), *part)
            }
        }
    }

    /// Opens the record, unless `window` shows that its number is a replay.
    pub(crate) fn open(
        self,
        opener: &Opener<impl SuitePair>,
        window: &ReplayWindow,
        proof: RequiredProof<'_>,
    ) -> Result<AuthenticRecord<'a>, DropReason> {
        match (self, opener) {
            (Self::Axiom(record, _), Opener::Axiom(opener)) => open_axiom(record, opener, window),
            (Self::Compact(record, _), Opener::Compact(keys)) => {
                open_compact(record, keys, window, proof)
            }
            _ => Err(DropReason::Malformed),
        }
    }
}

/// The group and the epoch in the header of a record.
#[derive(Clone, Copy)]
pub(crate) enum StatedEpoch {
    /// The low 16 bits of the epoch.
    Axiom(u16, Axiom12),
    /// The group's alias, and the epoch or its low two bits.
    Compact(u8, compact::EpochBits, Compact),
}

impl StatedEpoch {
    /// Whether a record may belong to this epoch.
    pub(crate) const fn is_of(self, epoch: u64) -> bool {
        match self {
            Self::Axiom(stated, _) => stated == epoch as u16,
            Self::Compact(_, stated, _) => stated.is_of(epoch),
        }
    }

    /// Whether a record that does not belong to this epoch may belong to a later one.
    pub(crate) const fn may_be_after(self, epoch: u64) -> bool {
        match self {
            Self::Axiom(stated, _) => stated.wrapping_sub(epoch as u16) < 1 << 15,
            Self::Compact(_, stated, _) => match stated {
                compact::EpochBits::Low(_) => true,
                compact::EpochBits::Full(full) => full > epoch,
            },
        }
    }

    /// The group's alias in the header; `None` in `axiom-1.2`.
    pub(crate) const fn alias(self) -> Option<u8> {
        match self {
            Self::Axiom(..) => None,
            Self::Compact(alias, ..) => Some(alias),
        }
    }
}

fn open_axiom<'a>(
    record: axiom::Ciphertext<'a>,
    opener: &axiom::Opener<impl axiom::RecordSuite>,
    window: &ReplayWindow,
) -> Result<AuthenticRecord<'a>, DropReason> {
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

fn open_compact<'a>(
    record: compact::SealedParts<'a>,
    keys: &compact::RecordKeys<impl compact::RecordSuite>,
    window: &ReplayWindow,
    proof: RequiredProof<'_>,
) -> Result<AuthenticRecord<'a>, DropReason> {
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

/// A record that is authentic and not a replay. The caller commits its number to the window.
pub(crate) struct AuthenticRecord<'a> {
    pub(crate) number: u64,
    pub(crate) kind: ContentType,
    pub(crate) content: &'a mut [u8],
}
