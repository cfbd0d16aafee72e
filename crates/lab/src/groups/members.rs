//! Members of a group in its first epoch, as their controller admits them.

use crate::Error;
use core::net::IpAddr;
use core::time::Duration;
use lightseal_core::{Instant, Random};
use lightseal_dtls::crypto::{CipherSuiteId, rustcrypto};
use lightseal_group::member::{Membership, Roles};
use lightseal_group::numbers::{KEPT_EPOCHS, Ledger, LedgerFailed};
use lightseal_group::policy::{Authenticity, Freshness, Profile, Responses};
use lightseal_group::rekey::{Change, ControllerSecret, KeyPath, KeyServer, Timing};
use lightseal_group::{GroupId, Identity, Member, Policy};
use std::collections::BTreeMap;

const GROUP: GroupId = GroupId(*b"lights of a room");

/// A ledger in memory, for nodes that never restart.
#[derive(Debug, Default)]
pub(super) struct Memory(BTreeMap<u64, u64>);

impl Ledger for Memory {
    fn newest(&self, _: &GroupId) -> Result<Option<u64>, LedgerFailed> {
        Ok(self.0.keys().next_back().copied())
    }

    fn reserved(&self, _: &GroupId, epoch: u64) -> Result<Option<u64>, LedgerFailed> {
        Ok(self.0.get(&epoch).copied())
    }

    fn reserve(&mut self, _: &GroupId, epoch: u64, below: u64) -> Result<(), LedgerFailed> {
        self.0.insert(epoch, below);
        while self.0.len() > 1 + KEPT_EPOCHS {
            self.0.pop_first();
        }
        Ok(())
    }
}

/// The policy of a group that uses `profile` with 8-byte tags.
pub(super) fn policy(profile: Profile) -> Policy {
    Policy {
        group: GROUP,
        address: "[ff02::fd]:5684".parse().expect("an address"),
        profile,
        suite: match profile {
            Profile::Axiom12 => CipherSuiteId::PSK_WITH_AES_128_CCM_8,
            Profile::Compact => CipherSuiteId::AES_128_CCM_8_SHA256,
        },
        authenticity: Authenticity::Group,
        responses: Responses::Group,
        freshness: Freshness::NewEpoch,
        client_random: [1; 32],
        server_random: [2; 32],
    }
}

/// Members with these roles and addresses, in the group's first epoch.
///
/// # Errors
///
/// Fails when the engine refuses a member.
pub fn members(
    profile: Profile,
    roles: &[(Roles, IpAddr)],
    rng: &mut Random,
) -> Result<Vec<Member>, Error> {
    let refused = Error::Stream("the group engine refused a member");
    let secret = ControllerSecret::from_seed(&rng.array());
    let mut server = KeyServer::new(GROUP, secret, rng);
    let timing = Timing::new(Duration::from_secs(2), Duration::from_secs(10));
    let timing = timing.ok_or(Error::Stream("the timing of the rekey is invalid"))?;
    let change = Change { join: roles.len() as u32, ..Change::default() };
    let Ok(rekeying) = server.rekey(&change, timing, 1200, rng) else { return Err(refused) };
    let senders: lightseal_group::SenderSet =
        roles.iter().filter_map(|(roles, _)| roles.sender).collect();
    let policy = policy(profile);
    let mut members = Vec::with_capacity(roles.len());
    for ((roles, address), leaf) in roles.iter().zip(rekeying.joined) {
        let grant = server.grant(leaf, timing).ok_or(Error::Stream("a leaf was not granted"))?;
        let (keys, _) = KeyPath::join(server.controller(), grant);
        let policy = policy.clone();
        let (roles, address, identity) = (*roles, *address, Identity::generate(rng));
        let membership = Membership { policy, roles, address, senders, keys, identity };
        let ledger = Box::new(Memory::default());
        let now = Instant::ZERO;
        let made = Member::new(membership, &rustcrypto::PROVIDER, ledger, now, rng.fork());
        let Ok(member) = made else { return Err(refused) };
        members.push(member);
    }
    Ok(members)
}
