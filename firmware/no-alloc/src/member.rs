//! A symmetric member of a group, which is linked and not run: its keys would come from a controller.

use crate::{end, register};
use core::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use lightseal_aes_table::Aes128;
use lightseal_core::{Decode, Instant};
use lightseal_group::numbers::{Ledger, LedgerFailed};
use lightseal_group::policy::Policy;
use lightseal_group::symmetric::{
    Ccm, Delivery, Roles, SymmetricEvent, SymmetricMember, SymmetricMembership,
};
use lightseal_group::{GroupId, SenderId, SenderSet};

/// A member that follows at most four other senders and eight listeners.
type Member = SymmetricMember<Ccm<Aes128, 8>, Nowhere, 4, 8>;

const PEER: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 5684));
const SENDER: SenderId = SenderId(1);
const NOW: Instant = Instant::ZERO;
/// The longest datagram in bytes.
const LONGEST: usize = 256;

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

/// A member that sends requests, answers those of others, and receives answers.
pub fn of_both_roles() -> ! {
    let mut buffer = [0; LONGEST];
    let len = register::receive(&mut buffer);
    let Ok(policy) = Policy::decode(buffer.get(..len).unwrap_or_default()) else { end(false) };
    let len = register::receive(&mut buffer);
    let membership = SymmetricMembership {
        policy,
        roles: Roles { sender: Some(SENDER), listener: true },
        address: PEER.ip(),
        senders: SenderSet::from([SENDER]),
        grant: buffer.get(..len).unwrap_or_default(),
    };
    let Ok(mut member) = Member::new(membership, Nowhere, NOW, 1) else { end(false) };
    let mut content = [0; LONGEST];
    loop {
        turn(&mut member, &mut buffer, &mut content);
    }
}

/// Takes a datagram, answers it, and sends a request and what is due.
#[inline(never)]
fn turn(member: &mut Member, buffer: &mut [u8; LONGEST], content: &mut [u8; LONGEST]) {
    let len = register::receive(buffer);
    let mut deliver = |delivery: Delivery<'_>| {
        let (Delivery::Request { content: bytes, .. } | Delivery::Response { content: bytes, .. }) =
            delivery
        else {
            return;
        };
        register::send(bytes);
    };
    let datagram = buffer.get_mut(..len).unwrap_or_default();
    if datagram.first() == Some(&0) {
        member.receive_unicast(NOW, PEER, datagram, &mut deliver);
    } else {
        member.receive_multicast(NOW, PEER, datagram, &mut deliver);
    }
    let len = register::receive(content);
    let question = content.get(..len).unwrap_or_default();
    if let Ok((_, len)) = member.respond(NOW, SENDER, question, buffer) {
        register::send(buffer.get(..len).unwrap_or_default());
    }
    if let Ok(len) = member.request(NOW, question, buffer) {
        register::send(buffer.get(..len).unwrap_or_default());
    }
    member.handle_timeout(NOW);
    if let Some((_, len)) = member.poll_transmit(NOW, buffer) {
        register::send(buffer.get(..len).unwrap_or_default());
    }
    if let Some(SymmetricEvent::Pull(_)) = member.next_event() {
        let len = register::receive(buffer);
        if member.grant(NOW, buffer.get(..len).unwrap_or_default()).is_err() {
            end(false);
        }
    }
}
