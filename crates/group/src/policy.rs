//! A group's policy: the settings that are fixed when the group is created and common to all its
//! members.

use crate::ids::GroupId;
use crate::parts::{Pairwise, PeerKeys, Signatures};
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::str::FromStr;
use lightseal_core::wire::BufferFull;
use lightseal_core::{Decode, DecodeError, Encode, Random, Reader, Writer};
use lightseal_dtls::crypto::CipherSuiteId;

/// The record format and key schedule of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum Profile {
    /// As in the Axiom paper: see [`crate::axiom`].
    Axiom12,
    /// This project's own profile: see [`crate::compact`].
    Compact,
}

/// What a record proves about its origin (Axiom, section 7.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum Authenticity {
    /// Group authenticity: some member of the group sent the record.
    #[default]
    Group,
    /// Source authenticity: the stated member sent the record. Requests are signed, responses are
    /// signed or sealed under pairwise keys.
    Source,
}

/// The keys under which responses are sealed in profile `compact`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum Responses {
    /// Keys of the group: every member can read and forge responses.
    #[default]
    Group,
    /// Pairwise keys, which only the listener and the sender know. Suites with 16-byte tags suit
    /// them better: with an 8-byte tag the first attempt to forge a record succeeds with
    /// probability 2^-64.
    Pairwise,
}

/// How a listener that hears a sender for the first time in the middle of an epoch learns which of
/// its records are fresh and which are replays (Axiom, section 6.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum Freshness {
    /// The listener asks the controller for a new epoch, and delivers nothing until that epoch
    /// begins.
    #[default]
    NewEpoch,
    /// The listener sends the sender a challenge, and delivers nothing of it until the answer.
    /// Available only in `compact` with source authentication or pairwise keys, because any member
    /// could forge an answer under a key of the group.
    Challenge,
    /// The listener drops the first record and takes its number as the start of the replay window,
    /// as in the paper. If several recorded records are replayed, all but the first are therefore
    /// delivered. Available only in `axiom-1.2`, whose records carry their numbers in full.
    DropFirst,
}

/// Declares the number on the wire and the command-line name of each value of an enum.
macro_rules! named {
    ($type:ident, $what:literal, $($value:ident = $number:literal $name:literal),+) => {
        impl $type {
            /// All values of the type.
            pub const ALL: &[Self] = &[$(Self::$value),+];

            /// The name on the command line.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name),+
                }
            }

            const fn number(self) -> u8 {
                match self {
                    $(Self::$value => $number),+
                }
            }

            const fn from_number(number: u8) -> Result<Self, DecodeError> {
                match number {
                    $($number => Ok(Self::$value),)+
                    _ => Err(DecodeError::invalid($what)),
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl FromStr for $type {
            type Err = UnknownName;

            fn from_str(text: &str) -> Result<Self, UnknownName> {
                let known = Self::ALL.iter().copied().find(|value| value.name() == text);
                known.ok_or(UnknownName { what: $what, known: &[$($name),+] })
            }
        }
    };
}
named!(Profile, "profile", Axiom12 = 1 "axiom-1.2", Compact = 2 "compact");
named!(Authenticity, "authenticity", Group = 0 "group", Source = 1 "source");
named!(Responses, "kind of responses", Group = 0 "group", Pairwise = 1 "pairwise");
named!(
    Freshness, "freshness method",
    NewEpoch = 0 "new-epoch", Challenge = 1 "challenge", DropFirst = 2 "drop-first"
);

/// A name that is not a value of the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownName {
    what: &'static str,
    known: &'static [&'static str],
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown {}, expected ", self.what)?;
        for (at, name) in self.known.iter().enumerate() {
            f.write_str(if at == 0 { "" } else { " or " })?;
            f.write_str(name)?;
        }
        Ok(())
    }
}

impl core::error::Error for UnknownName {}

/// The policy of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct Policy {
    /// The group's identifier.
    pub group: GroupId,
    /// The destination of its requests: a multicast address and a port.
    pub address: SocketAddr,
    /// The record format and key schedule.
    pub profile: Profile,
    /// The cipher suite: one of DTLS 1.2 in `axiom-1.2`, one of DTLS 1.3 in `compact`.
    pub suite: CipherSuiteId,
    /// What records prove about their origin.
    pub authenticity: Authenticity,
    /// The keys under which responses are sealed.
    pub responses: Responses,
    /// How a listener that joins in the middle of an epoch tells fresh records from replays.
    pub freshness: Freshness,
    /// `client_random` of the SecurityParameters, 32 bytes (Axiom, section 5.3).
    pub client_random: [u8; 32],
    /// `server_random` of the SecurityParameters, 32 bytes.
    pub server_random: [u8; 32],
}

impl Policy {
    /// The policy of a new group with keys of the group alone: everything else has its default. A
    /// group never takes the random values of another group.
    pub fn new(
        group: GroupId,
        address: SocketAddr,
        profile: Profile,
        suite: CipherSuiteId,
        random: &mut Random,
    ) -> Self {
        Self {
            group,
            address,
            profile,
            suite,
            authenticity: Authenticity::default(),
            responses: Responses::default(),
            freshness: Freshness::default(),
            client_random: random.array(),
            server_random: random.array(),
        }
    }

    /// Why the policy is invalid; `None` if it is valid. It is invalid if the address is not
    /// multicast, the port is 0, or the profile does not support the authenticity, the responses or
    /// the freshness.
    pub fn fault(&self) -> Option<&'static str> {
        self.first_fault().map(Fault::text)
    }

    /// Whether the policy is valid.
    pub(crate) fn is_valid(&self) -> bool {
        self.first_fault().is_none()
    }

    fn first_fault(&self) -> Option<Fault> {
        if !self.address.ip().is_multicast() {
            return Some(Fault::UnicastAddress);
        }
        if self.address.port() == 0 {
            return Some(Fault::NoPort);
        }
        let plain = (self.authenticity, self.responses) == Default::default();
        match (self.profile, self.freshness) {
            (Profile::Axiom12, _) if !plain => Some(Fault::ProofInAxiom),
            (Profile::Axiom12, Freshness::Challenge) => Some(Fault::ChallengesInAxiom),
            (Profile::Compact, Freshness::DropFirst) => Some(Fault::DropFirstInCompact),
            (Profile::Compact, Freshness::Challenge) if plain => {
                Some(Fault::ChallengesWithoutProof)
            }
            _ => None,
        }
    }
}

/// Why a policy is invalid. The texts are apart, so that a device that shows none need not store
/// them.
#[derive(Clone, Copy)]
enum Fault {
    UnicastAddress,
    NoPort,
    ProofInAxiom,
    ChallengesInAxiom,
    DropFirstInCompact,
    ChallengesWithoutProof,
}

impl Fault {
    const fn text(self) -> &'static str {
        match self {
            Self::UnicastAddress => "the group's address is not a multicast address",
            Self::NoPort => "the group's port is 0",
            Self::ProofInAxiom => {
                "profile axiom-1.2 supports only group authenticity and group responses"
            }
            Self::ChallengesInAxiom => "profile axiom-1.2 does not support challenges",
            Self::DropFirstInCompact => {
                "profile compact does not support drop-first: its record numbers are truncated"
            }
            Self::ChallengesWithoutProof => {
                "challenges need source authentication or pairwise responses"
            }
        }
    }
}

impl Policy {
    /// Signatures, if members sign their records and this build contains signatures.
    pub(crate) fn signatures(&self) -> Option<Signatures> {
        Signatures::INCLUDED.filter(|_| self.authenticity == Authenticity::Source)
    }

    /// Pairwise keys, if responses are sealed under them and this build contains them.
    pub(crate) fn pairwise(&self) -> Option<Pairwise> {
        Pairwise::INCLUDED.filter(|_| self.responses == Responses::Pairwise)
    }

    /// Public keys of other members, if members need them and this build contains what uses them.
    pub(crate) fn peer_keys(&self) -> Option<PeerKeys> {
        let are_used = self.signatures().is_some() || self.pairwise().is_some();
        PeerKeys::INCLUDED.filter(|_| are_used)
    }

    /// What a member of the group needs and this build lacks.
    pub(crate) fn lacking(&self) -> Option<&'static str> {
        if self.authenticity == Authenticity::Source && self.signatures().is_none() {
            Some("signatures")
        } else if self.responses == Responses::Pairwise && self.pairwise().is_none() {
            Some("pairwise")
        } else {
            None
        }
    }
}

impl Encode for Policy {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        w.bytes(&self.group.0)?;
        match self.address.ip() {
            IpAddr::V4(ip) => w.vec8(|w| w.bytes(&ip.octets()))?,
            IpAddr::V6(ip) => w.vec8(|w| w.bytes(&ip.octets()))?,
        }
        w.u16(self.address.port())?;
        w.u8(self.profile.number())?;
        w.u16(self.suite.0)?;
        w.u8(self.authenticity.number())?;
        w.u8(self.responses.number())?;
        w.u8(self.freshness.number())?;
        w.bytes(&self.client_random)?;
        w.bytes(&self.server_random)
    }
}

impl<'a> Decode<'a> for Policy {
    fn read(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let group = GroupId(r.array()?);
        let ip = r.vec8()?;
        let ip = match (<[u8; 4]>::try_from(ip), <[u8; 16]>::try_from(ip)) {
            (Ok(ip), _) => IpAddr::from(ip),
            (_, Ok(ip)) => IpAddr::from(ip),
            _ => return Err(DecodeError::invalid("length of an address")),
        };
        let policy = Self {
            group,
            address: SocketAddr::new(ip, r.u16()?),
            profile: Profile::from_number(r.u8()?)?,
            suite: CipherSuiteId(r.u16()?),
            authenticity: Authenticity::from_number(r.u8()?)?,
            responses: Responses::from_number(r.u8()?)?,
            freshness: Freshness::from_number(r.u8()?)?,
            client_random: r.array()?,
            server_random: r.array()?,
        };
        policy.fault().map_or(Ok(policy), |fault| Err(DecodeError::invalid(fault)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    fn policy() -> Policy {
        Policy {
            group: GroupId([3; 16]),
            address: "[ff15::abcd]:5684".parse().unwrap(),
            profile: Profile::Compact,
            suite: CipherSuiteId::AES_128_CCM_8_SHA256,
            authenticity: Authenticity::Source,
            responses: Responses::Pairwise,
            freshness: Freshness::Challenge,
            client_random: [1; 32],
            server_random: [2; 32],
        }
    }

    fn written<'b>(policy: &Policy, buf: &'b mut [u8]) -> &'b [u8] {
        let mut w = Writer::new(buf);
        policy.write(&mut w).unwrap();
        w.finish()
    }

    #[test]
    fn a_policy_is_read_as_it_was_written_and_not_in_part() {
        let v4 = Policy { address: "239.1.2.3:9".parse().unwrap(), ..policy() };
        for policy in [policy(), v4] {
            let mut buf = [0; 200];
            let bytes = written(&policy, &mut buf);
            assert_eq!(Policy::decode(bytes), Ok(policy));
            for cut in 0..bytes.len() {
                assert!(Policy::decode(&bytes[..cut]).is_err());
            }
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let unicast = Policy { address: "[fd00::1]:5684".parse().unwrap(), ..policy() };
        let portless = Policy { address: "[ff15::1]:0".parse().unwrap(), ..policy() };
        let signed = Policy { profile: Profile::Axiom12, ..policy() };
        for wrong in [unicast, portless, signed] {
            assert!(Policy::decode(written(&wrong, &mut [0; 200])).is_err());
        }
    }

    #[test]
    fn names_are_those_of_the_command_line() {
        assert_eq!("axiom-1.2".parse(), Ok(Profile::Axiom12));
        assert_eq!(Freshness::DropFirst.to_string(), "drop-first");
        let unknown = "axiom".parse::<Profile>().unwrap_err();
        assert_eq!(unknown.to_string(), "unknown profile, expected axiom-1.2 or compact");
    }
}
