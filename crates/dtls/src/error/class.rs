//! Classes of reasons why associations do not come about or end, for counters.

use super::{CloseReason, Fault, Incompatibility, Limit, Misbehaviour};
use core::ops::AddAssign;

/// Why an association did not come about, or why it ended: coarse enough for counters, fine enough to
/// tell a wrong key from a flood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ReasonClass {
    /// One end closed the association in an orderly way, or the client began a new one.
    Closed,
    /// The handshake was not complete in time.
    Timeout,
    /// The peer sent an alert.
    PeerAlert,
    /// Bytes did not parse.
    Malformed,
    /// The peer broke the protocol.
    Misbehaved,
    /// The two ends hold different keys for one identity, or the peer lacks the private key to its
    /// certificate.
    WrongKey,
    /// The PSK identity is unknown.
    UnknownIdentity,
    /// The certificate or raw public key is not accepted, or missing.
    Certificate,
    /// The application refused the peer: it is not on the access list.
    NotAllowed,
    /// The configurations of the two ends have nothing in common.
    Incompatible,
    /// There were too many handshakes at once.
    Crowded,
    /// All session slots were taken, or the slot was given to another client.
    Full,
    /// A key had been used up to its limit.
    KeyLimit,
    /// An error of this implementation.
    Internal,
}

impl ReasonClass {
    /// All classes, in the order of their declaration.
    pub const ALL: [Self; 14] = [
        Self::Closed,
        Self::Timeout,
        Self::PeerAlert,
        Self::Malformed,
        Self::Misbehaved,
        Self::WrongKey,
        Self::UnknownIdentity,
        Self::Certificate,
        Self::NotAllowed,
        Self::Incompatible,
        Self::Crowded,
        Self::Full,
        Self::KeyLimit,
        Self::Internal,
    ];

    /// The name of the class in metrics: lower case letters with underscores.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Timeout => "timeout",
            Self::PeerAlert => "peer_alert",
            Self::Malformed => "malformed",
            Self::Misbehaved => "misbehaved",
            Self::WrongKey => "wrong_key",
            Self::UnknownIdentity => "unknown_identity",
            Self::Certificate => "certificate",
            Self::NotAllowed => "not_allowed",
            Self::Incompatible => "incompatible",
            Self::Crowded => "crowded",
            Self::Full => "full",
            Self::KeyLimit => "key_limit",
            Self::Internal => "internal",
        }
    }
}

impl Fault {
    /// The class of the fault.
    pub const fn class(&self) -> ReasonClass {
        match self {
            Self::Malformed(_) => ReasonClass::Malformed,
            Self::Misbehaved(
                Misbehaviour::WrongBinder
                | Misbehaviour::WrongKey
                | Misbehaviour::WrongFinished
                | Misbehaviour::WrongSignature,
            ) => ReasonClass::WrongKey,
            Self::Misbehaved(_) => ReasonClass::Misbehaved,
            Self::Certificate(_)
            | Self::Incompatible(
                Incompatibility::Certificate | Incompatibility::NoClientCertificate,
            ) => ReasonClass::Certificate,
            Self::Incompatible(Incompatibility::UnknownIdentity) => ReasonClass::UnknownIdentity,
            Self::Incompatible(_) => ReasonClass::Incompatible,
            Self::Limit(Limit::SessionSlots | Limit::AddressInUse) => ReasonClass::Full,
            Self::Limit(_) => ReasonClass::KeyLimit,
            Self::Internal(_) => ReasonClass::Internal,
        }
    }
}

impl CloseReason {
    /// The class of the reason.
    pub const fn class(&self) -> ReasonClass {
        match self {
            Self::Local | Self::Peer | Self::Replaced => ReasonClass::Closed,
            Self::PeerAlert(_) => ReasonClass::PeerAlert,
            Self::Fault(fault) => fault.class(),
            Self::HandshakeTimeout => ReasonClass::Timeout,
            Self::Crowded => ReasonClass::Crowded,
            Self::Refused => ReasonClass::NotAllowed,
            Self::Evicted => ReasonClass::Full,
        }
    }
}

/// Numbers of events by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReasonCounts([u64; ReasonClass::ALL.len()]);

impl AddAssign<&Self> for ReasonCounts {
    fn add_assign(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(count, more)| *count += more);
    }
}

impl ReasonCounts {
    /// No events.
    pub(crate) const NONE: Self = Self([0; ReasonClass::ALL.len()]);

    /// Counts one event.
    pub const fn count(&mut self, class: ReasonClass) {
        self.0[class as usize] += 1;
    }

    /// The number of events of a class.
    pub const fn get(&self, class: ReasonClass) -> u64 {
        self.0[class as usize]
    }

    /// The number of events of each class that has had one.
    pub fn iter(&self) -> impl Iterator<Item = (ReasonClass, u64)> {
        ReasonClass::ALL.into_iter().map(|class| (class, self.get(class))).filter(|(_, n)| *n > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    #[test]
    fn each_class_has_its_own_place_and_name() {
        for (at, class) in ReasonClass::ALL.into_iter().enumerate() {
            assert_eq!(class as usize, at);
        }
        let names: BTreeSet<_> = ReasonClass::ALL.iter().map(|class| class.name()).collect();
        assert_eq!(names.len(), ReasonClass::ALL.len());
        let mut counts = ReasonCounts::default();
        counts.count(ReasonClass::WrongKey);
        counts.count(Fault::Misbehaved(Misbehaviour::WrongBinder).class());
        counts.count(CloseReason::HandshakeTimeout.class());
        let expected = [(ReasonClass::Timeout, 1), (ReasonClass::WrongKey, 2)];
        assert!(counts.iter().eq(expected));
    }
}
