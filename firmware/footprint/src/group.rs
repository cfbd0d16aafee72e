//! A member of a group, which is linked and not run: its keys would come from a controller.

use crate::machine::{exit, fail};
use crate::meter::measured;
use crate::settings::PEER;
use crate::transcript::{LONGEST, Reader};
use crate::{heap, machine};
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use lightseal_dtls::Instant;
use lightseal_dtls::crypto::{Provider, rustcrypto};
use lightseal_group::keys::{ControllerKey, Grant, KeyPath};
use lightseal_group::member::{Delivery, Membership, RequestKind, Roles};
use lightseal_group::numbers::{Ledger, LedgerFailed};
use lightseal_group::{Decode, GroupId, Identity, Member, Policy, Random, SenderId};

static PROVIDER: Provider = Provider::new("CTR with LightMAC")
    .with_suites_multicast(&[&rustcrypto::AES_128_CTR_LIGHTMAC_8]);

const NOW: Instant = Instant::ZERO;
const SENDER: SenderId = SenderId(1);

/// A ledger that remembers nothing.
struct Nowhere;

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
    let senders = BTreeSet::from([SENDER]);
    let identity = Identity::generate(random);
    let membership = Membership { policy, roles, address: PEER.ip(), senders, keys, identity };
    Member::new(membership, &PROVIDER, Box::new(Nowhere), NOW, random.fork()).ok()
}

/// A member that sends requests, answers those of others, and receives answers.
pub fn member_of_both_roles() -> ! {
    heap::start();
    let mut transcript = Reader::open();
    let mut random = Random::insecure(machine::stack_pointer() as u64);
    let Some(mut member) = member(&mut transcript, &mut random) else { fail("no membership") };
    let mut buffer = [0; LONGEST];
    loop {
        let mut bytes = message(&mut transcript);
        let mut question = Vec::new();
        measured("open", || {
            member.receive_multicast(NOW, PEER, &mut bytes, |delivery| {
                if let Delivery::Request { content, .. } = delivery {
                    question = content.to_vec();
                }
            });
        });
        let answered = measured("seal", || {
            member.respond(NOW, SENDER, RequestKind::Group, &question, &mut buffer).is_ok()
        });
        let asked = measured("seal", || member.request(NOW, &question, &mut buffer).is_ok());
        let mut bytes = message(&mut transcript);
        measured("open", || {
            member.receive_unicast(NOW, PEER, &mut bytes, |delivery| {
                if let Delivery::Response { content, .. } = delivery {
                    question = content.to_vec();
                }
            });
        });
        if !(answered && asked) {
            fail("nothing was sent");
        }
    }
}
