//! What members and their controller say to each other, point to point under a DTLS association.
//!
//! A member asks and the controller answers. Datagrams are lost, so who gets no answer asks again
//! with the same number; to ask again for the same changes nothing.
//!
//! ```text
//! request: version (1) = 1 ‖ kind (1) ‖ number (4) ‖ body
//! answer:  version (1) = 1 ‖ kind (1) ‖ number (4): that of the request ‖ body
//!
//! request 1 join      nonce (8) ‖ name<1..64> ‖ roles (1) ‖ address<4|16> ‖ public keys (64)
//!         2 leave     GroupID (16)
//!         3 pull      as in rekey::pull
//!         4 renew     GroupID (16) ‖ epoch (8): the one that is worn or lost
//!         5 senders   GroupID (16)
//!         6 conflict  GroupID (16) ‖ SenderID (1)
//!         7 lookup    GroupID (16) ‖ lookup as in directory
//!
//! answer  1 admitted  policy ‖ roles (1) ‖ SenderID (1) ‖ controller's key (32) ‖ senders ‖ grant
//!         2 noted     empty: a leave, a renewal, a conflict
//!         3 granted   grant
//!         4 senders   senders
//!         5 refused   reason (1)
//!         6 page      as in directory
//!
//! roles: 1 sender, 2 listener, 3 both       senders: a bit for each SenderID (32), 0 the highest
//! ```

use crate::directory::{Lookup, Page};
use crate::identity::PublicKeys;
use crate::member::Roles;
use crate::policy::Policy;
use crate::rekey::{ControllerKey, Grant, PullRequest};
use crate::{GroupId, SenderId};
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::String;
use core::fmt;
use core::net::IpAddr;
use vocabulary::wire::BufferFull;
use vocabulary::{Decode, DecodeError, Encode, Reader, Writer};

const VERSION: u8 = 1;
const SENDER: u8 = 1;
const LISTENER: u8 = 2;

/// The longest name of a group, in bytes.
pub const MAX_NAME: usize = 64;
/// The longest message either way: an answer with a full page of members.
pub const MAX_MESSAGE: usize = 1110;

/// A group's name, which devices ask for: 1 to 64 bytes of UTF-8 without control characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupName(String);

impl GroupName {
    /// The name, if it is one.
    pub fn new(name: &str) -> Option<Self> {
        let fits = (1..=MAX_NAME).contains(&name.len()) && !name.chars().any(char::is_control);
        fits.then(|| Self(name.into()))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// What a device wants to be in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantedRoles {
    /// To send requests: the controller gives it a SenderID.
    pub sender: bool,
    /// To answer them.
    pub listener: bool,
}

impl WantedRoles {
    /// Whether a device that may have the roles `may` may have these.
    pub const fn are_within(self, may: Self) -> bool {
        (may.sender || !self.sender) && (may.listener || !self.listener)
    }
}

/// What a member asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// To be a member. Whoever is one already and asks with another nonce has lost its state: it
    /// is another member from then on.
    Join {
        /// Drawn for this join.
        nonce: [u8; 8],
        /// Which group.
        name: GroupName,
        /// What it wants to be.
        roles: WantedRoles,
        /// The address that it sends from.
        address: IpAddr,
        /// Its public keys.
        keys: PublicKeys,
    },
    /// To be a member no longer.
    Leave(GroupId),
    /// For the keys of epochs that it missed.
    Pull(PullRequest),
    /// For another epoch than this one.
    Renew(GroupId, u64),
    /// For the list of active senders.
    Senders(GroupId),
    /// That another member sends under its SenderID (Axiom, section 7.5).
    Conflict(GroupId, SenderId),
    /// For the keys of a page of members.
    Lookup(GroupId, Lookup),
}

impl Request {
    /// Which group it is about; `None`: who joins knows it by its name.
    pub const fn group(&self) -> Option<GroupId> {
        match self {
            Self::Join { .. } => None,
            Self::Pull(pull) => Some(pull.group),
            Self::Leave(group)
            | Self::Renew(group, _)
            | Self::Senders(group)
            | Self::Conflict(group, _)
            | Self::Lookup(group, _) => Some(*group),
        }
    }
}

/// What the controller answers.
#[derive(Debug)]
pub enum Answer {
    /// The device is a member now.
    Admitted(Box<Admitted>),
    /// It is done, or will be.
    Noted,
    /// The keys of the current epoch.
    Granted(Grant),
    /// The active senders.
    Senders(BTreeSet<SenderId>),
    /// It cannot be.
    Refused(Reason),
    /// Members and their keys.
    Page(Page),
}

/// The group security association of a new member (Axiom, section 5.3).
#[derive(Debug)]
pub struct Admitted {
    /// What holds for the group.
    pub policy: Policy,
    /// What the member may do.
    pub roles: Roles,
    /// What it checks rekey messages with.
    pub controller: ControllerKey,
    /// The active senders, itself included.
    pub senders: BTreeSet<SenderId>,
    /// Its keys.
    pub grant: Grant,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There is no such group, or none for this device.
    NoSuchGroup,
    /// The device is not a member: it was evicted, or never joined.
    NotAMember,
    /// The group has all the members, or senders, that it can have.
    Full,
    /// Another member has this address, and profile `axiom-1.2` knows members by theirs.
    AddressTaken,
    /// The device may not have these roles.
    Roles,
    /// The controller cannot write what it would have to: it may be asked again later.
    NotNow,
}

impl Reason {
    const ALL: [Self; 6] = [
        Self::NoSuchGroup,
        Self::NotAMember,
        Self::Full,
        Self::AddressTaken,
        Self::Roles,
        Self::NotNow,
    ];
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSuchGroup => "there is no such group for this device",
            Self::NotAMember => "not a member of the group",
            Self::Full => "the group is full",
            Self::AddressTaken => "another member has this address",
            Self::Roles => "the device may not have these roles",
            Self::NotNow => "the controller cannot store it now",
        })
    }
}

impl core::error::Error for Reason {}

/// A request or an answer, and the number that ties them together.
#[derive(Debug, PartialEq, Eq)]
pub struct Numbered<T> {
    /// Chosen by who asks.
    pub number: u32,
    /// What is said.
    pub said: T,
}

fn read_head(r: &mut Reader<'_>) -> Result<(u8, u32), DecodeError> {
    if r.u8()? != VERSION {
        return Err(DecodeError::Invalid("version of the control protocol"));
    }
    Ok((r.u8()?, r.u32()?))
}

fn write_head(w: &mut Writer<'_>, kind: u8, number: u32) -> Result<(), BufferFull> {
    w.u8(VERSION)?;
    w.u8(kind)?;
    w.u32(number)
}

fn write_address(w: &mut Writer<'_>, address: IpAddr) -> Result<(), BufferFull> {
    match address {
        IpAddr::V4(ip) => w.vec8(|w| w.bytes(&ip.octets())),
        IpAddr::V6(ip) => w.vec8(|w| w.bytes(&ip.octets())),
    }
}

fn read_address(r: &mut Reader<'_>) -> Result<IpAddr, DecodeError> {
    let bytes = r.vec8()?;
    match (<[u8; 4]>::try_from(bytes), <[u8; 16]>::try_from(bytes)) {
        (Ok(ip), _) => Ok(ip.into()),
        (_, Ok(ip)) => Ok(ip.into()),
        _ => Err(DecodeError::Invalid("length of an address")),
    }
}

fn write_roles(w: &mut Writer<'_>, sender: bool, listener: bool) -> Result<(), BufferFull> {
    w.u8(if sender { SENDER } else { 0 } | if listener { LISTENER } else { 0 })
}

fn read_roles(r: &mut Reader<'_>) -> Result<WantedRoles, DecodeError> {
    match r.u8()? {
        roles @ 1..=3 => {
            Ok(WantedRoles { sender: roles & SENDER != 0, listener: roles & LISTENER != 0 })
        }
        _ => Err(DecodeError::Invalid("roles")),
    }
}

pub(crate) fn write_senders(
    w: &mut Writer<'_>,
    senders: &BTreeSet<SenderId>,
) -> Result<(), BufferFull> {
    let mut bits = [0_u8; 32];
    for SenderId(id) in senders {
        bits[usize::from(*id) / 8] |= 0x80 >> (id % 8);
    }
    w.bytes(&bits)
}

pub(crate) fn read_senders(r: &mut Reader<'_>) -> Result<BTreeSet<SenderId>, DecodeError> {
    let bits: [u8; 32] = r.array()?;
    let is_set = |id: &u8| bits[usize::from(*id) / 8] & 0x80 >> (id % 8) != 0;
    Ok((0..=u8::MAX).filter(is_set).map(SenderId).collect())
}

impl Decode<'_> for Numbered<Request> {
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (kind, number) = read_head(r)?;
        let group = |r: &mut Reader<'_>| r.array().map(GroupId);
        let said = match kind {
            1 => {
                let nonce = r.array()?;
                let name = core::str::from_utf8(r.vec8()?).ok().and_then(GroupName::new);
                let name = name.ok_or(DecodeError::Invalid("name of a group"))?;
                let (roles, address) = (read_roles(r)?, read_address(r)?);
                Request::Join { nonce, name, roles, address, keys: PublicKeys::read(r)? }
            }
            2 => Request::Leave(group(r)?),
            3 => Request::Pull(PullRequest::read(r)?),
            4 => Request::Renew(group(r)?, r.u64()?),
            5 => Request::Senders(group(r)?),
            6 => Request::Conflict(group(r)?, SenderId(r.u8()?)),
            7 => Request::Lookup(group(r)?, Lookup::read(r)?),
            _ => return Err(DecodeError::Invalid("kind of request")),
        };
        Ok(Self { number, said })
    }
}

impl Encode for Numbered<Request> {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        let mut head = |kind| write_head(w, kind, self.number);
        match &self.said {
            Request::Join { nonce, name, roles, address, keys } => {
                head(1)?;
                w.bytes(nonce)?;
                w.vec8(|w| w.bytes(name.0.as_bytes()))?;
                write_roles(w, roles.sender, roles.listener)?;
                write_address(w, *address)?;
                w.put(keys)
            }
            Request::Leave(group) => {
                head(2)?;
                w.bytes(&group.0)
            }
            Request::Pull(pull) => {
                head(3)?;
                w.put(pull)
            }
            Request::Renew(group, epoch) => {
                head(4)?;
                w.bytes(&group.0)?;
                w.u64(*epoch)
            }
            Request::Senders(group) => {
                head(5)?;
                w.bytes(&group.0)
            }
            Request::Conflict(group, sender) => {
                head(6)?;
                w.bytes(&group.0)?;
                w.u8(sender.0)
            }
            Request::Lookup(group, lookup) => {
                head(7)?;
                w.bytes(&group.0)?;
                w.put(lookup)
            }
        }
    }
}

impl Decode<'_> for Numbered<Answer> {
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (kind, number) = read_head(r)?;
        let said = match kind {
            1 => {
                let policy = Policy::read(r)?;
                let (roles, sender) = (read_roles(r)?, SenderId(r.u8()?));
                let roles =
                    Roles { sender: roles.sender.then_some(sender), listener: roles.listener };
                let controller = ControllerKey::from_bytes(&r.array()?);
                let controller = controller.ok_or(DecodeError::Invalid("controller's key"))?;
                let (senders, grant) = (read_senders(r)?, Grant::read(r)?);
                if grant.group != policy.group {
                    return Err(DecodeError::Invalid("group of a grant"));
                }
                let admitted = Admitted { policy, roles, controller, senders, grant };
                Answer::Admitted(Box::new(admitted))
            }
            2 => Answer::Noted,
            3 => Answer::Granted(Grant::read(r)?),
            4 => Answer::Senders(read_senders(r)?),
            5 => {
                let reason = Reason::ALL.get(usize::from(r.u8()?)).copied();
                Answer::Refused(reason.ok_or(DecodeError::Invalid("reason"))?)
            }
            6 => Answer::Page(Page::read(r)?),
            _ => return Err(DecodeError::Invalid("kind of answer")),
        };
        Ok(Self { number, said })
    }
}

impl Encode for Numbered<Answer> {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        let mut head = |kind| write_head(w, kind, self.number);
        match &self.said {
            Answer::Admitted(admitted) => {
                head(1)?;
                let Admitted { policy, roles, controller, senders, grant } = &**admitted;
                w.put(policy)?;
                write_roles(w, roles.sender.is_some(), roles.listener)?;
                w.u8(roles.sender.map_or(0, |sender| sender.0))?;
                w.bytes(controller.as_bytes())?;
                write_senders(w, senders)?;
                w.put(grant)
            }
            Answer::Noted => head(2),
            Answer::Granted(grant) => {
                head(3)?;
                w.put(grant)
            }
            Answer::Senders(senders) => {
                head(4)?;
                write_senders(w, senders)
            }
            Answer::Refused(reason) => {
                head(5)?;
                // As many as stand there.
                w.u8(Reason::ALL.iter().position(|known| known == reason).unwrap_or(0) as u8)
            }
            Answer::Page(page) => {
                head(6)?;
                w.put(page)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::Introduced;
    use crate::identity::Identity;
    use crate::policy::{Authenticity, Freshness, Profile, Responses};
    use crate::rekey::{ControllerSecret, Leaf, NodeKey, Timing};
    use alloc::vec;
    use alloc::vec::Vec;
    use core::time::Duration;
    use dtls::crypto::CipherSuiteId;
    use std::format;

    const GROUP: GroupId = GroupId([9; 16]);

    fn keys(byte: u8) -> PublicKeys {
        Identity::from_bytes(&[byte; 64]).public()
    }

    fn requests() -> Vec<Request> {
        let name = GroupName::new("lights, 2. floor").unwrap();
        let roles = WantedRoles { sender: true, listener: false };
        let address = "192.0.2.7".parse().unwrap();
        vec![
            Request::Join { nonce: [5; 8], name, roles, address, keys: keys(0) },
            Request::Leave(GROUP),
            Request::Pull(PullRequest { group: GROUP, epoch: 77 }),
            Request::Renew(GROUP, 1 << 40),
            Request::Senders(GROUP),
            Request::Conflict(GROUP, SenderId(3)),
            Request::Lookup(GROUP, Lookup::sender(SenderId(20))),
        ]
    }

    fn grant(depth: usize) -> Grant {
        let timing = Timing::new(Duration::from_secs(1), Duration::from_secs(9)).unwrap();
        let keys = (0..=depth).map(|level| NodeKey::new([level as u8; 16])).collect();
        Grant::new(GROUP, 4, timing, Leaf::new(1).unwrap(), [6; 16], keys).unwrap()
    }

    fn answers() -> Vec<Answer> {
        let policy = Policy {
            group: GROUP,
            address: "[ff15::abcd]:5684".parse().unwrap(),
            profile: Profile::Axiom12,
            suite: CipherSuiteId::PSK_WITH_AES_128_CCM_8,
            authenticity: Authenticity::Group,
            responses: Responses::Group,
            freshness: Freshness::NewEpoch,
            client_random: [1; 32],
            server_random: [2; 32],
        };
        let roles = Roles { sender: Some(SenderId(200)), listener: true };
        let senders: BTreeSet<_> = [0, 1, 7, 8, 200, 254].map(SenderId).into();
        let controller = ControllerSecret::from_seed(&[8; 32]).public();
        let admitted =
            Admitted { policy, roles, controller, senders: senders.clone(), grant: grant(24) };
        let mut answers = vec![
            Answer::Admitted(Box::new(admitted)),
            Answer::Noted,
            Answer::Granted(grant(7)),
            Answer::Senders(senders),
        ];
        let introduce =
            |at| Introduced { sender: None, leaf: Leaf::new(at).unwrap(), keys: keys(at as u8) };
        let lookup = Lookup::Listeners(Leaf::new(0).unwrap().into());
        let members = (0..16).map(introduce).collect();
        answers.push(Answer::Page(Page { lookup, epoch: 4, members }));
        answers.extend(Reason::ALL.map(Answer::Refused));
        answers
    }

    /// Read back as it was written, and neither in part nor with more behind it.
    fn comes_back<T: fmt::Debug>(said: T)
    where
        Numbered<T>: Encode + for<'a> Decode<'a>,
    {
        let message = Numbered { number: 0xdead_beef, said };
        let mut buf = [0; MAX_MESSAGE];
        let mut w = Writer::new(&mut buf);
        message.write(&mut w).expect("the longest fits");
        let bytes = &*w.finish();
        let read = Numbered::<T>::decode(bytes).expect("as it was written");
        assert_eq!(format!("{read:?}"), format!("{message:?}"));
        for cut in 0..bytes.len() {
            assert!(Numbered::<T>::decode(&bytes[..cut]).is_err(), "{cut} of {message:?}");
        }
        assert!(Numbered::<T>::decode(&[bytes, &[0]].concat()).is_err());
    }

    #[test]
    fn requests_and_answers_come_back() {
        requests().into_iter().for_each(comes_back);
        answers().into_iter().for_each(comes_back);
    }

    #[test]
    fn names_are_short_lines_of_text() {
        assert!(GroupName::new(&"x".repeat(MAX_NAME)).is_some());
        for wrong in ["", "a\nb", "\u{7f}", &"x".repeat(MAX_NAME + 1)] {
            assert_eq!(GroupName::new(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn noise_does_no_harm() {
        let mut rng = vocabulary::Random::insecure(5);
        for _ in 0..20_000 {
            let mut noise = vec![0; rng.below(120) as usize];
            rng.fill(&mut noise);
            if let [version, kind, ..] = &mut noise[..] {
                (*version, *kind) = (VERSION, *kind % 9);
            }
            let _ = Numbered::<Request>::decode(&noise);
            let _ = Numbered::<Answer>::decode(&noise);
        }
    }
}
