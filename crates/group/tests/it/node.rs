//! One node in several groups, which share addresses, ports and GroupIDs.

use lightseal_group::member::{Delivery, Member};
use lightseal_group::node::{MemberHandle, MultiGroupNode, Received};
use lightseal_group::policy::Profile;
use lightseal_group::{GroupId, Policy, SenderId};
use std::net::SocketAddr;
use testkit::group::field::{Field, policy};

const LOCAL: &str = "[fd00::1]:7000";

/// A group with a sender and a listener, and the group's address.
struct Group {
    field: Field,
    address: SocketAddr,
}

impl Group {
    /// `sender` is the SenderID of device 0. Device 1 is a listener.
    fn new(profile: Profile, id: [u8; 2], address: &str, sender: u8) -> Self {
        let mut group = GroupId([0; 16]);
        group.0[..2].copy_from_slice(&id);
        let address = address.parse().unwrap();
        let policy = Policy { group, address, ..policy(profile) };
        let mut field = Field::with(policy, u64::from(id[1]));
        field.add(Some(sender), false);
        field.add(None, true);
        field.wait(20);
        Self { field, address }
    }

    /// Takes the member of a device, to be added to a node.
    fn take(&mut self, index: usize) -> Member {
        let stand_in = self.field.stand_in(index);
        std::mem::replace(&mut self.field.devices[index].member, stand_in)
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Got(MemberHandle, Vec<u8>);

fn receive(
    node: &mut MultiGroupNode,
    field: &Field,
    to: SocketAddr,
    datagram: &[u8],
) -> (Received, Vec<Got>) {
    let from = field.devices[0].address;
    receive_from(node, field, from, to, datagram)
}

fn receive_from(
    node: &mut MultiGroupNode,
    field: &Field,
    from: SocketAddr,
    to: SocketAddr,
    datagram: &[u8],
) -> (Received, Vec<Got>) {
    let (mut got, mut datagram) = (Vec::new(), datagram.to_vec());
    let received = node.receive(field.now, from, to, &mut datagram, |handle, delivery| {
        let (Delivery::Request { content, .. }
        | Delivery::DirectRequest { content, .. }
        | Delivery::Response { content, .. }) = delivery;
        got.push(Got(handle, content.to_vec()));
    });
    (received, got)
}

/// A node that is a listener in all of these groups.
fn listener(groups: &mut [Group]) -> (MultiGroupNode, Vec<MemberHandle>) {
    let mut node = MultiGroupNode::new();
    let local = LOCAL.parse().unwrap();
    let seats = groups.iter_mut().map(|group| node.add(local, group.take(1))).collect();
    (node, seats)
}

fn hears_each(mut groups: Vec<Group>) {
    let (mut node, seats) = listener(&mut groups);
    for round in 0..3 {
        for (group, handle) in groups.iter_mut().zip(&seats) {
            let now = group.field.now;
            let asked = group.field.devices[0].ask(now, &[round, 1]).unwrap();
            let (received, got) = receive(&mut node, &group.field, group.address, &asked);
            assert_eq!(
                (received, got),
                (Received::Member(*handle), vec![Got(*handle, vec![round, 1])])
            );
            let (_, again) = receive(&mut node, &group.field, group.address, &asked);
            assert!(again.is_empty(), "a replay");
            let elsewhere = "[ff15::9]:5684".parse().unwrap();
            let other = receive(&mut node, &group.field, elsewhere, &asked);
            assert_eq!(other, (Received::Unauthenticated, vec![]));
        }
    }
}

#[test]
fn requests_are_told_by_the_address_they_came_to() {
    for profile in [Profile::Axiom12, Profile::Compact] {
        hears_each(vec![
            Group::new(profile, [1, 1], "[ff15::1]:5684", 7),
            Group::new(profile, [1, 2], "[ff15::2]:5684", 7),
            Group::new(profile, [1, 3], "[ff15::2]:5685", 7),
        ]);
    }
}

#[test]
fn groups_may_share_an_address_a_group_id_and_sender_ids() {
    for profile in [Profile::Axiom12, Profile::Compact] {
        for sender in [7, 8] {
            hears_each(vec![
                Group::new(profile, [1, 1], "[ff15::1]:5684", 7),
                Group::new(profile, [1, 2], "[ff15::1]:5684", sender),
                Group::new(profile, [2, 3], "[ff15::1]:5684", 7),
            ]);
        }
    }
    hears_each(vec![
        Group::new(Profile::Axiom12, [1, 1], "[ff15::1]:5684", 7),
        Group::new(Profile::Compact, [1, 2], "[ff15::1]:5684", 7),
    ]);
}

#[test]
fn only_what_may_be_of_several_groups_is_tried_with_each() {
    let mut groups = [
        Group::new(Profile::Compact, [1, 1], "[ff15::1]:5684", 7),
        Group::new(Profile::Compact, [2, 2], "[ff15::1]:5684", 7),
    ];
    let (mut node, seats) = listener(&mut groups);
    let group = &mut groups[1];
    let asked = group.field.devices[0].ask(group.field.now, b"on").unwrap();
    receive(&mut node, &group.field, group.address, &asked);
    let stats = *node.member(seats[0]).unwrap().stats();
    assert_eq!(stats, Default::default(), "its GroupID is another");
}

#[test]
fn a_group_hears_of_a_rekey_beside_another_whose_epoch_looks_the_same() {
    for profile in [Profile::Axiom12, Profile::Compact] {
        let mut groups = [
            Group::new(profile, [1, 1], "[ff15::1]:5684", 7),
            Group::new(profile, [1, 2], "[ff15::1]:5684", 7),
        ];
        // The second group is one epoch ahead. The node's member of the first group misses that
        // group's next rekey.
        groups[1].field.change(&[], 0, |_| true);
        groups[1].field.wait(20);
        let (mut node, seats) = listener(&mut groups);
        groups[0].field.change(&[], 0, |_| true);
        groups[0].field.wait(20);
        let group = &mut groups[0];
        let asked = group.field.devices[0].ask(group.field.now, b"on").unwrap();
        let (received, _) = receive(&mut node, &group.field, group.address, &asked);
        assert_eq!(received, Received::Unauthenticated);
        node.handle_timeout(group.field.now + std::time::Duration::from_secs(30));
        let pulls = std::iter::from_fn(|| node.next_event()).filter(|(handle, event)| {
            *handle == seats[0] && format!("{event:?}").starts_with("Pull")
        });
        assert_eq!(pulls.count(), 1);
    }
}

/// Section 6.1 of the paper: groups with the same GroupID are distinguished by the port.
#[test]
fn responses_of_groups_with_one_group_id_are_told_by_the_port_or_else_by_their_tags() {
    for profile in [Profile::Axiom12, Profile::Compact] {
        for ports in [[7000, 7001], [7000, 7000]] {
            let mut groups = [
                Group::new(profile, [1, 1], "[ff15::1]:5684", 7),
                Group::new(profile, [1, 2], "[ff15::2]:5684", 7),
            ];
            let mut node = MultiGroupNode::new();
            let locals = ports.map(|port| SocketAddr::new("fd00::1".parse().unwrap(), port));
            let mut seats = Vec::new();
            for (group, local) in groups.iter_mut().zip(locals) {
                seats.push(node.add(local, group.take(0)));
            }
            for (at, (group, handle)) in groups.iter_mut().zip(&seats).enumerate() {
                let (now, mut buf) = (group.field.now, [0; 200]);
                let len = node.member(*handle).unwrap().request(now, b"on", &mut buf).unwrap();
                group.field.devices[1].hear(now, locals[at], &buf[..len]);
                let answered = group.field.devices[1].answer(now, SenderId(7), b"is on").unwrap();
                let from = group.field.devices[1].address;
                let mut take = |to| receive_from(&mut node, &group.field, from, to, &answered);
                let elsewhere = SocketAddr::new("fd00::1".parse().unwrap(), 9);
                assert_eq!(take(elsewhere), (Received::Unauthenticated, vec![]));
                let got = vec![Got(*handle, b"is on".into())];
                assert_eq!(take(locals[at]), (Received::Member(*handle), got));
                assert!(take(locals[at]).1.is_empty(), "a replay");
            }
        }
    }
}

#[test]
fn a_session_is_nobodys_group() {
    let mut groups = [Group::new(Profile::Compact, [1, 1], "[ff15::1]:5684", 7)];
    let (mut node, seats) = listener(&mut groups);
    let from: SocketAddr = "[fd00::9]:5684".parse().unwrap();
    node.member(seats[0]).unwrap().open_session(from);
    let field = &groups[0].field;
    let received = receive_from(&mut node, field, from, LOCAL.parse().unwrap(), b"\x16\xfe\xfd");
    assert_eq!(received, (Received::UnicastSession, vec![]));
}

#[test]
fn members_come_and_go_and_are_woken() {
    let mut groups = [
        Group::new(Profile::Axiom12, [1, 1], "[ff15::1]:5684", 7),
        Group::new(Profile::Compact, [1, 2], "[ff15::2]:5684", 7),
    ];
    let (mut node, seats) = listener(&mut groups);
    let now = groups[0].field.now;
    let wake = node.wake_at(now).unwrap();
    assert_eq!(Some(wake), node.members().map(|(_, _, member)| member.wake_at(now)).min());
    node.handle_timeout(now);
    // One member has missed a rekey, and asks for it.
    groups[1].field.change(&[], 0, |_| true);
    groups[1].field.wait(2);
    let asked = groups[1].field.devices[0].ask(groups[1].field.now, b"on").unwrap();
    let (received, _) = receive(&mut node, &groups[1].field, groups[1].address, &asked);
    assert_eq!(received, Received::Unauthenticated);
    let later = groups[1].field.now + std::time::Duration::from_secs(30);
    node.handle_timeout(later);
    let events: Vec<_> = std::iter::from_fn(|| node.next_event()).collect();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].0, seats[1]);
    assert!(node.remove(seats[1]).is_some() && node.remove(seats[1]).is_none());
    assert!(node.poll_transmit().is_none());
    let (received, _) = receive(&mut node, &groups[1].field, groups[1].address, &asked);
    assert_eq!(received, Received::Unauthenticated);
}
