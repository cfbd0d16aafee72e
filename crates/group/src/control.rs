//! The control protocol: requests of devices and answers of their controller, point to point under
//! a DTLS association.
//!
//! A device sends a request and the controller answers it. Datagrams may be lost, so a device that
//! gets no answer repeats its request with the same number. All requests are idempotent.
//!
//! ```text
//! request: version (1) = 2 ‖ kind (1) ‖ number (4) [ ‖ start (20) ] ‖ body
//! answer:  version (1) = 2 ‖ kind (1) ‖ number (4): the request's ‖ body
//!
//! request 1 join      nonce (8) ‖ name<1..64> ‖ roles (1) ‖ address<4|16> ‖ public keys (64)
//!         2 leave     GroupID (16)
//!         3 pull      as in rekey::pull
//!         4 renew     GroupID (16) ‖ epoch (8): the one to be replaced
//!         5 senders   GroupID (16)
//!         6 conflict  GroupID (16) ‖ SenderID (1)
//!         7 lookup    GroupID (16) ‖ lookup as in directory
//!         8 start     GroupID (16) ‖ resumes (1): 1 if the previous run was shut down cleanly
//!         9 key       nonce (16)
//!         10 names    GroupID (16) ‖ lookup as in directory
//!
//! answer  1 admitted  instance (8) ‖ policy ‖ roles (1) ‖ SenderID (1) ‖ controller's key (32)
//!                     ‖ senders ‖ grant
//!         2 noted     empty body: to a leave, a renewal or a conflict
//!         3 granted   grant
//!         4 senders   senders
//!         5 refused   reason (1)
//!         6 page      as in directory
//!         7 started   clones (4) ‖ senders ‖ grant
//!         8 key       key ID (8) ‖ key (32)
//!         9 names     as in directory
//!
//! roles: 1 sender, 2 listener, 3 both       senders: a bit for each SenderID (32), 0 the highest
//! ```
//!
//! All requests except join and key carry the start of the member's program ([`crate::start`]). In
//! version 1 requests carried no start, the answer `admitted` carried no instance, the requests from
//! 8 on and the answers from 7 on did not exist, and the SenderID of a device that was only a
//! listener was 0 instead of 255.

pub use crate::ids::{MAX_NAME, is_name};

use crate::directory::{Lookup, Names, Page};
use crate::identity::PublicKeys;
use crate::member::Roles;
use crate::policy::Policy;
use crate::rekey::{ControllerKey, Grant, PullRequest};
use crate::start::Start;
use crate::{GroupId, SenderId, SenderSet};
use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;
use core::net::IpAddr;
use lightseal_core::wire::BufferFull;
use lightseal_core::{Decode, DecodeError, Encode, Reader, Writer};
use zeroize::Zeroizing;

/// The current version of this protocol.
pub const VERSION: u8 = 2;
/// The previous version, without starts and instances.
pub const VERSION_1: u8 = 1;
/// The request kinds that carry no start, because the device need not be a member.
const JOIN: u8 = 1;
const KEY: u8 = 9;
const SENDER: u8 = 1;
const LISTENER: u8 = 2;

/// The maximum length in bytes of a request or an answer: an answer with a full page of members.
pub const MAX_MESSAGE: usize = 1110;

/// A group's name, by which devices ask to join it: 1 to 64 bytes of UTF-8 without control
/// characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupName(String);

impl GroupName {
    /// The name; `None` if its length is not 1 to 64 bytes or it has control characters.
    pub fn new(name: &str) -> Option<Self> {
        is_name(name).then(|| Self(name.into()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The roles that a device asks for in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleSet {
    /// Whether it wants to send requests. The controller then gives it a SenderID.
    pub sender: bool,
    /// Whether it wants to answer requests.
    pub listener: bool,
}

impl RoleSet {
    /// Whether these roles are all permitted by `may`.
    pub const fn are_within(self, may: Self) -> bool {
        (may.sender || !self.sender) && (may.listener || !self.listener)
    }
}

/// A request of a device to its controller.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum Request {
    /// The device asks to join a group. A member that sends this with a new nonce has lost its
    /// state, and becomes a new member with new keys.
    Join {
        /// Random bytes, drawn for this join. A repeated request has the same nonce.
        nonce: [u8; 8],
        /// The name of the group.
        name: GroupName,
        /// The roles that the device asks for.
        roles: RoleSet,
        /// The address that the device sends from.
        address: IpAddr,
        /// The device's public keys.
        keys: PublicKeys,
    },
    /// The member leaves the group.
    Leave(GroupId),
    /// The member asks for the keys of the current epoch, because it has missed a rekey.
    Pull(PullRequest),
    /// The member asks for a new epoch in place of the epoch given here.
    Renew(GroupId, u64),
    /// The member asks for the list of active senders.
    Senders(GroupId),
    /// The member reports that another member sends under its SenderID (Axiom, section 7.5).
    Conflict(GroupId, SenderId),
    /// The member asks for the public keys of a page of members.
    Lookup(GroupId, Lookup),
    /// The member's program has been restarted, and asks to continue its membership.
    Start {
        /// The identifier of the group.
        group: GroupId,
        /// Whether the previous run was shut down cleanly, so that its record numbers are known.
        resumes: bool,
    },
    /// The device asks for a key of its own, which replaces the key in its enrolment token.
    Key {
        /// Random bytes that the device draws and stores before it asks. A repeated request with
        /// the same nonce gets the same key.
        nonce: [u8; 16],
    },
    /// For the names of the devices in a page of members.
    Names(GroupId, Lookup),
}

impl Request {
    /// The identifier of the group that the request is about; `None` for a join, which gives the
    /// group's name, and for a device key, which is for all groups.
    pub const fn group(&self) -> Option<GroupId> {
        match self {
            Self::Join { .. } | Self::Key { .. } => None,
            Self::Start { group, .. } => Some(*group),
            Self::Pull(pull) => Some(pull.group),
            Self::Leave(group)
            | Self::Renew(group, _)
            | Self::Senders(group)
            | Self::Conflict(group, _)
            | Self::Lookup(group, _)
            | Self::Names(group, _) => Some(*group),
        }
    }
}

/// An answer of the controller.
#[derive(Debug)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum Answer {
    /// The device is now a member.
    Admitted(Box<Admitted>),
    /// The request was accepted: its change has been made or will be made.
    Noted,
    /// The member's keys of the current epoch.
    Granted(Grant),
    /// The active senders.
    Senders(SenderSet),
    /// The request is refused.
    Refused(Reason),
    /// A page of members with their public keys.
    Page(Page),
    /// The restarted member may seal records in the epoch of the grant and later ones.
    Started {
        /// The number of times that a copy of this member was detected.
        clones: u32,
        /// The active senders.
        senders: SenderSet,
        /// The member's path of keys.
        grant: Grant,
    },
    /// The device's own key, in place of its token's.
    Key(DeviceKey),
    /// The names of the devices in a page of members.
    Names(Names),
}

/// The key that authenticates a device to the controller after it has used its token. It is
/// zeroized when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct DeviceKey {
    /// The key's identifier.
    pub id: [u8; 8],
    /// The secret key.
    pub key: Zeroizing<[u8; 32]>,
}

impl fmt::Debug for DeviceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceKey").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The group security association of a new member (Axiom, section 5.3).
#[derive(Debug)]
pub struct Admitted {
    /// The epoch in which this instance of the device joined; 0 from a controller of version 1.
    pub instance: u64,
    /// The group's policy.
    pub policy: Policy,
    /// The member's roles.
    pub roles: Roles,
    /// The public key that verifies the controller's rekey messages.
    pub controller: ControllerKey,
    /// The active senders, itself included.
    pub senders: SenderSet,
    /// The member's path of keys.
    pub grant: Grant,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum Reason {
    /// There is no such group, or the device may not join it.
    NoSuchGroup,
    /// The device is not a member: it was evicted, or never joined.
    NotAMember,
    /// The group has its maximum number of members or senders.
    Full,
    /// Another member has this address. Profile `axiom-1.2` identifies listeners by their
    /// addresses.
    AddressTaken,
    /// The device may not have these roles.
    Roles,
    /// The controller cannot store the change now, the device must wait before it joins again, or
    /// its protocol version is too old. It may ask again later.
    NotNow,
    /// A later instance or start of the device has replaced the one that asks.
    Superseded,
    /// Another run has already started from a copy of the asking device's state.
    Copied,
    /// The controller has not been told of this start: the device must send [`Request::Start`]
    /// first.
    NotStarted,
    /// The token has been used the maximum number of times.
    TokenUsed,
    /// The token has expired.
    TokenExpired,
    /// The request is malformed or has invalid values.
    NotUnderstood,
    /// The device was evicted. It may join again after the administrator has readmitted it.
    Evicted,
}

impl Reason {
    const ALL: [Self; 13] = [
        Self::NoSuchGroup,
        Self::NotAMember,
        Self::Full,
        Self::AddressTaken,
        Self::Roles,
        Self::NotNow,
        Self::Superseded,
        Self::Copied,
        Self::NotStarted,
        Self::TokenUsed,
        Self::TokenExpired,
        Self::NotUnderstood,
        Self::Evicted,
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
            Self::Superseded => "another instance of this device has taken the place of this one",
            Self::Copied => "a copy of this device's state has started before this one",
            Self::NotStarted => "the controller does not know of this start",
            Self::TokenUsed => "the token is used up",
            Self::TokenExpired => "the token has expired",
            Self::NotUnderstood => "the controller does not understand the request",
            Self::Evicted => "the device was evicted and is not readmitted yet",
        })
    }
}

impl core::error::Error for Reason {}

/// A request with its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestMessage {
    /// The version of the protocol: [`VERSION`] or [`VERSION_1`].
    pub version: u8,
    /// The request's number, chosen by the device.
    pub number: u32,
    /// The start of the member's program; `None` in a join, in a request for a device key, and in
    /// version 1.
    pub start: Option<Start>,
    /// The request itself.
    pub request: Request,
}

impl RequestMessage {
    /// A request without a start: a join or a request for a device key.
    pub const fn new(number: u32, request: Request) -> Self {
        Self { version: VERSION, number, start: None, request }
    }

    /// A member's request, with its current start.
    pub const fn by(start: Start, number: u32, request: Request) -> Self {
        Self { version: VERSION, number, start: Some(start), request }
    }

    /// Version and number of a request, also if its body is malformed.
    pub fn head(request: &[u8]) -> Option<(u8, u32)> {
        let (version, _, number) = read_head(&mut Reader::new(request)).ok()?;
        Some((version, number))
    }
}

/// An answer with the number of the request that it answers.
#[derive(Debug)]
pub struct AnswerMessage {
    /// The request's number, chosen by the device.
    pub number: u32,
    /// The answer itself.
    pub answer: Answer,
}

fn read_head(r: &mut Reader<'_>) -> Result<(u8, u8, u32), DecodeError> {
    let version = r.u8()?;
    if version != VERSION && version != VERSION_1 {
        return Err(DecodeError::invalid("version of the control protocol"));
    }
    Ok((version, r.u8()?, r.u32()?))
}

fn write_head(w: &mut Writer<'_>, version: u8, kind: u8, number: u32) -> Result<(), BufferFull> {
    w.u8(version)?;
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
        _ => Err(DecodeError::invalid("length of an address")),
    }
}

fn write_roles(w: &mut Writer<'_>, sender: bool, listener: bool) -> Result<(), BufferFull> {
    w.u8(if sender { SENDER } else { 0 } | if listener { LISTENER } else { 0 })
}

fn read_roles(r: &mut Reader<'_>) -> Result<RoleSet, DecodeError> {
    match r.u8()? {
        roles @ 1..=3 => {
            Ok(RoleSet { sender: roles & SENDER != 0, listener: roles & LISTENER != 0 })
        }
        _ => Err(DecodeError::invalid("roles")),
    }
}

impl Decode<'_> for RequestMessage {
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (version, kind, number) = read_head(r)?;
        let is_new = version == VERSION;
        let start = (is_new && !matches!(kind, JOIN | KEY)).then(|| Start::read(r)).transpose()?;
        let group = |r: &mut Reader<'_>| r.array().map(GroupId);
        let request = match kind {
            JOIN => {
                let nonce = r.array()?;
                let name = core::str::from_utf8(r.vec8()?).ok().and_then(GroupName::new);
                let name = name.ok_or(DecodeError::invalid("name of a group"))?;
                let (roles, address) = (read_roles(r)?, read_address(r)?);
                Request::Join { nonce, name, roles, address, keys: PublicKeys::read(r)? }
            }
            2 => Request::Leave(group(r)?),
            3 => Request::Pull(PullRequest::read(r)?),
            4 => Request::Renew(group(r)?, r.u64()?),
            5 => Request::Senders(group(r)?),
            6 => Request::Conflict(group(r)?, SenderId(r.u8()?)),
            7 => Request::Lookup(group(r)?, Lookup::read(r)?),
            8 if is_new => Request::Start { group: group(r)?, resumes: read_flag(r)? },
            KEY if is_new => Request::Key { nonce: r.array()? },
            10 if is_new => Request::Names(group(r)?, Lookup::read(r)?),
            _ => return Err(DecodeError::invalid("kind of request")),
        };
        Ok(Self { version, number, start, request })
    }
}

fn read_flag(r: &mut Reader<'_>) -> Result<bool, DecodeError> {
    match r.u8()? {
        flag @ 0..=1 => Ok(flag == 1),
        _ => Err(DecodeError::invalid("flag")),
    }
}

impl Encode for RequestMessage {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        let mut head = |kind| {
            write_head(w, self.version, kind, self.number)?;
            self.start.as_ref().map_or(Ok(()), |start| w.put(start))
        };
        match &self.request {
            Request::Join { nonce, name, roles, address, keys } => {
                head(JOIN)?;
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
            Request::Start { group, resumes } => {
                head(8)?;
                w.bytes(&group.0)?;
                w.u8(u8::from(*resumes))
            }
            Request::Key { nonce } => {
                head(KEY)?;
                w.bytes(nonce)
            }
            Request::Names(group, lookup) => {
                head(10)?;
                w.bytes(&group.0)?;
                w.put(lookup)
            }
        }
    }
}

impl Decode<'_> for AnswerMessage {
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (version, kind, number) = read_head(r)?;
        let is_new = version == VERSION;
        let answer = match kind {
            1 => {
                let instance = if is_new { r.u64()? } else { 0 };
                let policy = Policy::read(r)?;
                let (roles, sender) = (read_roles(r)?, SenderId(r.u8()?));
                let roles =
                    Roles { sender: roles.sender.then_some(sender), listener: roles.listener };
                let controller = ControllerKey::from_bytes(&r.array()?);
                let controller = controller.ok_or(DecodeError::invalid("controller's key"))?;
                let (senders, grant) = (SenderSet::from_bytes(r.array()?), Grant::read(r)?);
                if grant.group != policy.group {
                    return Err(DecodeError::invalid("group of a grant"));
                }
                let admitted = Admitted { instance, policy, roles, controller, senders, grant };
                Answer::Admitted(Box::new(admitted))
            }
            2 => Answer::Noted,
            3 => Answer::Granted(Grant::read(r)?),
            4 => Answer::Senders(SenderSet::from_bytes(r.array()?)),
            5 => {
                let reason = Reason::ALL.get(usize::from(r.u8()?)).copied();
                Answer::Refused(reason.ok_or(DecodeError::invalid("reason"))?)
            }
            6 => Answer::Page(Page::read(r)?),
            7 if is_new => {
                let clones = r.u32()?;
                Answer::Started {
                    clones,
                    senders: SenderSet::from_bytes(r.array()?),
                    grant: Grant::read(r)?,
                }
            }
            8 if is_new => {
                let id = r.array()?;
                Answer::Key(DeviceKey { id, key: Zeroizing::new(r.array()?) })
            }
            9 if is_new => Answer::Names(Names::read(r)?),
            _ => return Err(DecodeError::invalid("kind of answer")),
        };
        Ok(Self { number, answer })
    }
}

impl Encode for AnswerMessage {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        self.write_as(w, VERSION)
    }
}

impl AnswerMessage {
    /// Writes the answer in the format of `version`.
    ///
    /// # Errors
    /// The buffer is full.
    pub fn write_as(&self, w: &mut Writer<'_>, version: u8) -> Result<(), BufferFull> {
        let mut head = |kind| write_head(w, version, kind, self.number);
        match &self.answer {
            Answer::Admitted(admitted) => {
                head(1)?;
                let Admitted { instance, policy, roles, controller, senders, grant } = &**admitted;
                let is_new = version == VERSION;
                if is_new {
                    w.u64(*instance)?;
                }
                w.put(policy)?;
                write_roles(w, roles.sender.is_some(), roles.listener)?;
                let nobody = if is_new { SenderId::CONTROLLER } else { SenderId(0) };
                w.u8(roles.sender.unwrap_or(nobody).0)?;
                w.bytes(controller.as_bytes())?;
                w.bytes(senders.as_bytes())?;
                w.put(grant)
            }
            Answer::Noted => head(2),
            Answer::Granted(grant) => {
                head(3)?;
                w.put(grant)
            }
            Answer::Senders(senders) => {
                head(4)?;
                w.bytes(senders.as_bytes())
            }
            Answer::Refused(reason) => {
                head(5)?;
                // The position in the list is the number on the wire.
                w.u8(Reason::ALL.iter().position(|known| known == reason).unwrap_or(0) as u8)
            }
            Answer::Page(page) => {
                head(6)?;
                w.put(page)
            }
            Answer::Started { clones, senders, grant } => {
                head(7)?;
                w.u32(*clones)?;
                w.bytes(senders.as_bytes())?;
                w.put(grant)
            }
            Answer::Key(DeviceKey { id, key }) => {
                head(8)?;
                w.bytes(id)?;
                w.bytes(&**key)
            }
            Answer::Names(names) => {
                head(9)?;
                w.put(names)
            }
        }
    }
}

#[cfg(test)]
mod tests;
