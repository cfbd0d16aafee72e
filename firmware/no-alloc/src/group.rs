//! Symmetric members of a group: a sender and a listener, in both profiles.

use core::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use lightseal_aes_table::Aes128;
use lightseal_core::{Instant, Random, Writer};
use lightseal_dtls::crypto::CipherSuiteId;
use lightseal_group::numbers::{Ledger, LedgerFailed};
use lightseal_group::policy::{Policy, Profile};
use lightseal_group::symmetric::{
    Ccm, DatagramOrigin, Delivery, Roles, SymmetricEvent, SymmetricMember, SymmetricMembership,
};
use lightseal_group::{GroupId, SenderId, SenderSet};

/// A member of a group that follows at most two other senders and four listeners.
type Member = SymmetricMember<Ccm<Aes128, 8>, LastEpoch, 2, 4>;

const GROUP: GroupId = GroupId([7; 16]);
const SENDER: SenderId = SenderId(1);
const NOW: Instant = Instant::ZERO;
/// The longest datagram in bytes.
const LONGEST: usize = 128;

/// A ledger that remembers the newest epoch until the board is switched off.
#[derive(Default)]
struct LastEpoch {
    epoch: Option<u64>,
    below: u64,
}

impl Ledger for LastEpoch {
    fn newest(&self, _: &GroupId) -> Result<Option<u64>, LedgerFailed> {
        Ok(self.epoch)
    }

    fn reserved(&self, _: &GroupId, epoch: u64) -> Result<Option<u64>, LedgerFailed> {
        Ok((self.epoch == Some(epoch)).then_some(self.below))
    }

    fn reserve(&mut self, _: &GroupId, epoch: u64, below: u64) -> Result<(), LedgerFailed> {
        (self.epoch, self.below) = (Some(epoch), below);
        Ok(())
    }
}

/// Whether members of both profiles answer each other, refuse a replay and move to a new epoch.
pub(crate) fn work() -> bool {
    let profiles = [
        (Profile::Axiom12, CipherSuiteId::PSK_WITH_AES_128_CCM_8),
        (Profile::Compact, CipherSuiteId::AES_128_CCM_8_SHA256),
    ];
    profiles.into_iter().all(|(profile, suite)| converse(profile, suite).is_some())
}

/// An address in the group's network.
const fn address(host: u8) -> SocketAddr {
    SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, host), 5684))
}

/// The keys of a leaf in a tree of two leaves.
fn grant(epoch: u64, leaf: u8) -> Option<[u8; 81]> {
    let mut bytes = [0; 81];
    let mut w = Writer::new(&mut bytes);
    w.bytes(&[1, 3]).ok()?;
    w.bytes(&GROUP.0).ok()?;
    w.u64(epoch).ok()?;
    w.bytes(&[0, 0, 5, 0, 0, leaf, 1]).ok()?;
    // The anchor, the leaf's key and the root's.
    [0x61, leaf, epoch as u8].into_iter().try_for_each(|byte| w.bytes(&[byte; 16])).ok()?;
    (w.len() == bytes.len()).then_some(bytes)
}

fn member(policy: &Policy, roles: Roles, leaf: u8) -> Option<Member> {
    let grant = grant(1, leaf)?;
    let membership = SymmetricMembership {
        policy: policy.clone(),
        roles,
        address: address(leaf + 1).ip(),
        senders: SenderSet::from([SENDER]),
        grant: &grant,
    };
    Member::new(membership, LastEpoch::default(), NOW, u32::from(leaf) + 1).ok()
}

fn converse(profile: Profile, suite: CipherSuiteId) -> Option<()> {
    let to = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::new(239, 1, 2, 3), 5684));
    let policy = Policy::new(GROUP, to, profile, suite, &mut Random::insecure(1));
    let mut sender = member(&policy, Roles { sender: Some(SENDER), listener: false }, 0)?;
    let mut listener = member(&policy, Roles { sender: None, listener: true }, 1)?;
    for epoch in 1..=2 {
        let mut buffer = [0; LONGEST];
        let len = sender.request(NOW, b"on", &mut buffer).ok()?;
        let mut replayed = buffer;
        let mut heard = false;
        listener.receive_multicast(NOW, address(1), buffer.get_mut(..len)?, |delivery| {
            heard |= matches!(delivery, Delivery::Request { content: b"on", .. });
        });
        let again = listener.receive_multicast(NOW, address(1), replayed.get_mut(..len)?, |_| {
            heard = false;
        });
        let (_, len) = listener.respond(NOW, SENDER, b"done", &mut buffer).ok()?;
        let mut answered = false;
        sender.receive_unicast(NOW, address(2), buffer.get_mut(..len)?, |delivery| {
            answered |= matches!(delivery, Delivery::Response { content: b"done", .. });
        });
        if !heard || !answered || again != DatagramOrigin::Unproven {
            return None;
        }
        for (member, leaf) in [(&mut sender, 0), (&mut listener, 1)] {
            member.grant(NOW, &grant(epoch + 1, leaf)?).ok()?;
            if member.next_event() != Some(SymmetricEvent::Rekeyed(epoch + 1)) {
                return None;
            }
        }
    }
    Some(())
}
