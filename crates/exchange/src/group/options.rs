//! Which group it is, and which of its members an end is.

use crate::options::parse;
use alloc::string::String;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use lightseal_dtls::crypto::CipherSuiteId;
use lightseal_group::policy::{Authenticity, Profile, Responses};
use lightseal_group::{GroupId, Policy, Random};

/// The UDP port of the group.
pub const PORT: u16 = 5684;

/// The most members of a group. Their numbers have one byte in a payload.
const MOST_MEMBERS: u8 = 64;

/// The group and the place of one end in it.
#[derive(Clone, Debug)]
pub struct GroupOptions {
    /// The record format: `profile=compact` or `profile=axiom-1.2`.
    pub profile: Profile,
    /// What a record proves: `authenticity=group` or `authenticity=source`.
    pub authenticity: Authenticity,
    /// The keys of responses: `responses=group` or `responses=pairwise`.
    pub responses: Responses,
    /// The number of members: `members=2`, at most 64.
    pub members: u8,
    /// The members that send requests, which are the first ones: `senders=1`. All members are
    /// listeners.
    pub senders: u8,
    /// The number of this member: `member=0`.
    pub member: u8,
    /// Whether the member keeps its peers on the heap: `heap=true`. Otherwise it keeps all of its
    /// state in itself, and the group can have neither signatures nor pairwise keys.
    pub heap: bool,
    /// The number of payloads after which the first member announces new keys, zero for never:
    /// `rekey=0`.
    pub rekey: u32,
}

impl Default for GroupOptions {
    fn default() -> Self {
        Self {
            profile: Profile::Compact,
            authenticity: Authenticity::Group,
            responses: Responses::Group,
            members: 2,
            senders: 1,
            member: 0,
            heap: true,
            rekey: 0,
        }
    }
}

impl GroupOptions {
    /// Sets the option of a word such as `members=4`. Returns whether an option has this name.
    ///
    /// # Errors
    /// The value is invalid.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool, String> {
        match name {
            "profile" => self.profile = parse(value)?,
            "authenticity" => self.authenticity = parse(value)?,
            "responses" => self.responses = parse(value)?,
            "members" => self.members = parse(value)?,
            "senders" => self.senders = parse(value)?,
            "member" => self.member = parse(value)?,
            "heap" => self.heap = parse(value)?,
            "rekey" => self.rekey = parse(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Whether there is such a group and such a member.
    pub(super) const fn are_possible(&self) -> bool {
        let Self { members, senders, member, .. } = *self;
        0 < senders && senders <= members && members <= MOST_MEMBERS && member < members
    }

    /// The multicast address of the group.
    pub const fn multicast(&self) -> Ipv4Addr {
        Ipv4Addr::new(239, 255, 77, 1)
    }

    /// The IP address of a member.
    pub const fn address(&self, member: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, 2, 20 + member)
    }

    /// The policy of the group, whose numbers come from `random`.
    pub(super) fn policy(&self, random: &mut Random) -> Policy {
        let suite = match self.profile {
            Profile::Axiom12 => CipherSuiteId::PSK_WITH_AES_128_CCM_8,
            Profile::Compact => CipherSuiteId::AES_128_CCM_8_SHA256,
        };
        let address = SocketAddr::new(IpAddr::V4(self.multicast()), PORT);
        let group = GroupId(random.array());
        let mut policy = Policy::new(group, address, self.profile, suite, random);
        policy.authenticity = self.authenticity;
        policy.responses = self.responses;
        policy
    }
}
