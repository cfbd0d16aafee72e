//! The keys of a group without a controller on the network: every member computes them from one
//! seed, which would be nothing for a group in the field.

use super::GroupOptions;
use super::kind::{FixedMember, GroupEngine};
use super::ledger::MemoryLedger;
use crate::options::PROVIDER;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;
use lightseal_core::{Encode, Instant, Random, Writer};
use lightseal_group::codepoints::GROUP_REKEY;
use lightseal_group::directory::{DirectoryEntry, Lookup, Page};
use lightseal_group::keys::{ControllerSecret, KeyPath, KeyServer, Leaf, Timing};
use lightseal_group::member::{Member, Membership, Roles, SendError, Stats};
use lightseal_group::rekey::Change;
use lightseal_group::symmetric::SymmetricMembership;
use lightseal_group::{Identity, Policy, SenderId, SenderSet};

/// The seed of all keys of the group.
const SEED: u64 = 0x6c69_6768_7473;

/// The longest rekey message in bytes.
const REKEY_BYTES: usize = 1200;

/// The longest grant in bytes, in a tree of 64 members.
const GRANT_BYTES: usize = 256;

/// Senders use new keys this long after they are announced, and the old ones are received for this
/// long afterwards.
const ACTIVATION: Duration = Duration::from_millis(300);
const RETENTION: Duration = Duration::from_secs(10);

/// What every member computes.
pub(super) struct SharedKeys {
    policy: Policy,
    server: KeyServer,
    /// By the number of the member, which is also its leaf.
    identities: Vec<Identity>,
    /// The leaf behind those of the members, under whose keys the first member seals announcements
    /// in the controller's name.
    announcer: Leaf,
    random: Random,
}

impl SharedKeys {
    /// The keys of a group; `None` if the options do not go together.
    pub(super) fn new(options: &GroupOptions) -> Option<Self> {
        if !options.are_possible() {
            return None;
        }
        let mut random = Random::insecure(SEED);
        let policy = options.policy(&mut random);
        let secret = ControllerSecret::from_seed(&random.array());
        let mut server = KeyServer::new(policy.group, secret, &mut random);
        let join = Change { join: u32::from(options.members) + 1, ..Change::default() };
        server.rekey(&join, timing()?, REKEY_BYTES, &mut random).ok()?;
        let identities = (0..=options.members).map(|_| Identity::generate(&mut random)).collect();
        let announcer = Leaf::new(options.members.into())?;
        Some(Self { policy, server, identities, announcer, random })
    }

    /// The policy.
    pub(super) const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// A member of the group, of the kind that the options say.
    pub(super) fn engine(
        &self,
        options: &GroupOptions,
        now: Instant,
        mut rng: Random,
    ) -> Option<GroupEngine> {
        let number = options.member;
        let sender = (number < options.senders).then_some(SenderId(number));
        let roles = Roles { sender, listener: true };
        let senders = (0..options.senders).map(SenderId).collect();
        let address = options.address(number).into();
        if options.heap {
            let leaf = Leaf::new(number.into())?;
            let member = self.membership(leaf, roles, address, senders, now, rng)?;
            return Some(GroupEngine::Heap(Box::new(member)));
        }
        let (policy, grant) = (self.policy.clone(), self.grant(number)?);
        let membership = SymmetricMembership { policy, roles, address, senders, grant: &grant };
        let jitter = u32::from_be_bytes(rng.array());
        let member = FixedMember::new(membership, MemoryLedger::default(), now, jitter).ok()?;
        Some(GroupEngine::Fixed(Box::new(member), Stats::default()))
    }

    /// The keys of the newest epoch for a member, as the controller would send them.
    fn grant(&self, number: u8) -> Option<Vec<u8>> {
        let mut bytes = [0; GRANT_BYTES];
        let mut writer = Writer::new(&mut bytes);
        self.server.grant(Leaf::new(number.into())?, timing()?)?.write(&mut writer).ok()?;
        let len = writer.len();
        bytes.get(..len).map(<[u8]>::to_vec)
    }

    /// The keys of the epoch after `epoch` for a member. They are made if this end has not made them
    /// yet: all ends make the same keys.
    pub(super) fn grant_after(&mut self, epoch: u64, number: u8) -> Option<Vec<u8>> {
        if self.server.epoch() <= epoch {
            let Self { server, random, .. } = self;
            server.rekey(&Change::default(), timing()?, REKEY_BYTES, random).ok()?;
        }
        self.grant(number)
    }

    /// A member that seals what the controller would announce.
    pub(super) fn announcer(&self, own: IpAddr, now: Instant, rng: Random) -> Option<Member> {
        let roles = Roles { sender: Some(SenderId::CONTROLLER), listener: false };
        self.membership(self.announcer, roles, own, SenderSet::new(), now, rng)
    }

    fn membership(
        &self,
        leaf: Leaf,
        roles: Roles,
        address: IpAddr,
        senders: SenderSet,
        now: Instant,
        rng: Random,
    ) -> Option<Member> {
        let grant = self.server.grant(leaf, timing()?)?;
        let (keys, _) = KeyPath::join(self.server.controller(), grant);
        let identity = self.identities.get(leaf.get() as usize)?.clone();
        let policy = self.policy.clone();
        let membership = Membership { policy, roles, address, senders, keys, identity };
        Member::new(membership, &PROVIDER, Box::<MemoryLedger>::default(), now, rng).ok()
    }

    /// Makes new keys, and returns the datagrams that announce them.
    pub(super) fn rekey(&mut self, announcer: &mut Member) -> Option<Vec<Vec<u8>>> {
        let change = Change::default();
        let made = self.server.rekey(&change, timing()?, REKEY_BYTES, &mut self.random).ok()?;
        let mut buf = [0; REKEY_BYTES + 200];
        let mut seal = |message: &Vec<u8>| -> Result<Vec<u8>, SendError> {
            let len = announcer.announce(GROUP_REKEY, message, &mut buf)?;
            Ok(buf.get(..len).unwrap_or_default().to_vec())
        };
        made.messages.iter().map(|message| seal(message).ok()).collect()
    }

    /// The controller's answer to a lookup in `epoch`.
    pub(super) fn page(&self, lookup: Lookup, epoch: u64, senders: u8) -> Page {
        let entries = (0..).zip(&self.identities).filter_map(|(number, identity)| {
            let sender = u8::try_from(number).ok().filter(|number| *number < senders);
            let keys = identity.public();
            Some(DirectoryEntry { sender: sender.map(SenderId), leaf: Leaf::new(number)?, keys })
        });
        let holds = |entry: &DirectoryEntry| match lookup {
            Lookup::Senders(_) => entry.sender.is_some_and(|id| Lookup::sender(id) == lookup),
            Lookup::Listeners(_) => Lookup::listener(entry.leaf.into()) == lookup,
        };
        Page { lookup, epoch, members: entries.filter(holds).collect() }
    }
}

fn timing() -> Option<Timing> {
    Timing::new(ACTIVATION, RETENTION)
}
