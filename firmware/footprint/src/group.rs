//! A member of a group, which is linked and not run: its keys would come from a controller.

use crate::heap;
use crate::machine::{exit, fail};
use crate::random;
use crate::settings::{AES_128_CCM_8, PEER, SUITES_12};
use crate::transcript::{LONGEST, Reader};
use alloc::boxed::Box;
use alloc::vec::Vec;
use lightseal_dtls::Instant;
use lightseal_dtls::crypto::Provider;
use lightseal_group::keys::{ControllerKey, Grant, KeyPath};
use lightseal_group::member::{Delivery, Event, Membership, RequestKind, Roles, Transmit};
use lightseal_group::numbers::{Ledger, LedgerFailed};
use lightseal_group::{Decode, GroupId, Identity, Member, Policy, Random, SenderId, SenderSet};

/// AES-128-CCM with 8-byte tags, in either profile.
static PROVIDER: Provider =
    Provider::new("CCM_8").with_suites_multicast(&[&AES_128_CCM_8]).with_suites_12(SUITES_12);

const NOW: Instant = Instant::ZERO;
const SENDER: SenderId = SenderId(1);

/// A ledger that remembers nothing.
pub(crate) struct Nowhere;

impl Ledger for Nowhere {
    fn newest(&self, _: &GroupId) -> Result<Option<u64>, LedgerFailed> {
        Ok(None)
    }

    fn reserved(&self, _: &GroupId, _: u64) -> Result<Option<u64>, LedgerFailed> {
        Ok(Some(0))
    }

    fn reserve(&mut self, _: &GroupId, _: u64, _: u64) -> Result<(), LedgerFailed> {
        Ok(())
    }
}

/// The next message from the controller, or from another member.
fn message(from: &mut Reader) -> Vec<u8> {
    match from.next_entry() {
        Some((_, bytes)) => bytes.to_vec(),
        None => exit(0),
    }
}

fn member(from: &mut Reader, random: &mut Random) -> Option<Member> {
    let controller = message(from).as_slice().try_into().ok()?;
    let controller = ControllerKey::from_bytes(&controller)?;
    let grant = Grant::decode(&message(from)).ok()?;
    let policy = Policy::decode(&message(from)).ok()?;
    let (keys, _) = KeyPath::join(controller, grant);
    let roles = Roles { sender: Some(SENDER), listener: true };
    let senders = SenderSet::from([SENDER]);
    let identity = Identity::generate(random);
    let membership = Membership { policy, roles, address: PEER.ip(), senders, keys, identity };
    Member::new(membership, &PROVIDER, Box::new(Nowhere), NOW, random.fork()).ok()
}

/// A member that sends requests, answers those of others, and receives answers.
pub fn member_of_both_roles() -> ! {
    heap::start();
    let mut transcript = Reader::open();
    let mut random = random::client();
    let Some(mut member) = member(&mut transcript, &mut random) else { fail("no membership") };
    let mut buffer = [0; LONGEST];
    loop {
        let mut bytes = message(&mut transcript);
        let mut question = Vec::new();
        member.receive_multicast(NOW, PEER, &mut bytes, |delivery| {
            if let Delivery::Request { content, .. } = delivery {
                question = content.to_vec();
            }
        });
        let answer = member.respond(NOW, SENDER, RequestKind::Group, &question, &mut buffer);
        let asked = member.request(NOW, &question, &mut buffer);
        let mut bytes = message(&mut transcript);
        member.receive_unicast(NOW, PEER, &mut bytes, |delivery| {
            if let Delivery::Response { content, .. } = delivery {
                question = content.to_vec();
            }
        });
        member.handle_timeout(NOW);
        while let Some(Transmit { datagram, .. }) = member.poll_transmit() {
            question = datagram;
        }
        if let Some(Event::Pull(_)) = member.next_event() {
            let Ok(grant) = Grant::decode(&message(&mut transcript)) else { fail("no grant") };
            if member.grant(NOW, grant).is_err() {
                fail("refused");
            }
        }
        if answer.is_err() || asked.is_err() || question.is_empty() {
            fail("nothing was sent");
        }
    }
}
