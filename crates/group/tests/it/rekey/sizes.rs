//! The size of rekey messages.

use super::world::{GROUP, timing};
use lightseal_core::{Instant, Random};
use lightseal_group::rekey::message::Unverified;
use lightseal_group::rekey::{
    Change, ControllerSecret, KeyPath, KeyServer, Leaf, MAX_MESSAGE_BYTES, Outcome,
};

/// The overhead of a record with an 8-byte tag in bytes, in `axiom-1.2` and in `compact`.
const OVERHEADS: [usize; 2] = [29, 14];

fn server(members: u32, rng: &mut Random) -> KeyServer {
    let secret = ControllerSecret::from_seed(&rng.array());
    let mut server = KeyServer::new(GROUP, secret, rng);
    let joined = server.rekey(&Change { join: members, ..Change::default() }, timing(), 1_200, rng);
    assert_eq!(joined.unwrap().joined.len(), members as usize);
    server
}

fn member(server: &KeyServer, leaf: u32) -> KeyPath {
    let grant = server.grant(Leaf::new(leaf).unwrap(), timing()).unwrap();
    KeyPath::join(server.controller(), grant).0
}

/// The number of wraps in a message.
fn wraps(server: &KeyServer, message: &[u8]) -> usize {
    let message = Unverified::decode(message).unwrap();
    message.verify(&GROUP, &server.controller()).unwrap().wraps.len()
}

/// The most expensive leave among `leaves`: its number of wraps, and the longest datagram in each
/// profile.
fn dearest_leave(members: u32, leaves: impl Iterator<Item = u32>) -> (usize, [usize; 2]) {
    let mut rng = Random::insecure(members.into());
    let mut server = server(members, &mut rng);
    let mut dearest = (0, [0; 2]);
    for leaf in leaves {
        let leave = [Leaf::new(leaf).unwrap()];
        let change = Change { leave: &leave, ..Change::default() };
        let rekeying = server.rekey(&change, timing(), 1_200, &mut rng).unwrap();
        let [message] = &rekeying.messages[..] else { panic!("one datagram") };
        dearest.0 = dearest.0.max(wraps(&server, message));
        for (most, overhead) in dearest.1.iter_mut().zip(OVERHEADS) {
            *most = (*most).max(message.len() + overhead);
        }
        // A new member gets the same leaf.
        let back =
            server.rekey(&Change { join: 1, ..Change::default() }, timing(), 1_200, &mut rng);
        assert_eq!(back.unwrap().joined, leave);
    }
    dearest
}

#[test]
fn a_leave_of_a_hundred_is_one_short_datagram() {
    // The number of rekeys is large enough that some messages carry the anchor of the next chain.
    let (wraps, datagrams) = dearest_leave(100, (0..100).chain(0..100));
    println!("n = 100: {wraps} wraps, {datagrams:?} bytes");
    assert_eq!(wraps, 13);
    assert!(datagrams.iter().all(|bytes| *bytes <= 480), "{datagrams:?}");
}

#[test]
fn a_leave_of_a_hundred_thousand_is_one_datagram() {
    let (wraps, datagrams) = dearest_leave(100_000, (0..300).map(|i| i * 333));
    println!("n = 100000: {wraps} wraps, {datagrams:?} bytes");
    assert_eq!(wraps, 33);
    assert!(datagrams.iter().all(|bytes| *bytes <= 1_100), "{datagrams:?}");
}

#[test]
fn a_join_and_a_renewal_are_told_under_old_keys() {
    let mut rng = Random::insecure(5);
    let mut server = server(99, &mut rng);
    let mut change = |change| {
        let rekeying = server.rekey(&change, timing(), MAX_MESSAGE_BYTES, &mut rng).unwrap();
        let [message] = &rekeying.messages[..] else { panic!("one message") };
        wraps(&server, message)
    };
    // The new member gets leaf 99. Below each of the seven nodes above it there is a member that
    // stays, so there are seven wraps.
    assert_eq!(change(Change { join: 1, ..Change::default() }), 7);
    assert_eq!(change(Change::default()), 1);
    // Under the key of every node with members, except the root, the new key of its parent is
    // wrapped.
    let nodes = 100 + 50 + 25 + 13 + 7 + 4 + 2;
    assert_eq!(change(Change { refresh: true, ..Change::default() }), nodes);
}

#[test]
fn a_large_batch_comes_in_parts_of_which_a_member_needs_one() {
    let mut rng = Random::insecure(6);
    let mut server = server(20_000, &mut rng);
    let leave: Vec<Leaf> = (0..200).filter_map(|i| Leaf::new(i * 97)).collect();
    let mut members: Vec<KeyPath> = (0..400)
        .map(|i| i * 49 + 1)
        .filter(|leaf| leaf % 97 != 0)
        .map(|leaf| member(&server, leaf))
        .collect();
    let change = Change { leave: &leave, join: 20, ..Change::default() };
    let whole = server.clone().rekey(&change, timing(), 1 << 14, &mut rng).unwrap();
    let parts = server.rekey(&change, timing(), 1_071, &mut rng).unwrap().messages;
    let bytes = |messages: &[Vec<u8>]| messages.iter().map(Vec::len).sum::<usize>();
    println!(
        "{} parts, {} bytes; {} bytes in parts of 16 KiB",
        parts.len(),
        bytes(&parts),
        bytes(&whole.messages)
    );
    assert!(parts.len() > 10 && parts.iter().all(|part| part.len() <= 1_071));
    let expected = server.epoch_key().unwrap();
    for member in &mut members {
        let mut moved = 0;
        for part in &parts {
            match member.handle(Instant::ZERO, part).unwrap() {
                Outcome::Moved(new) => {
                    assert_eq!(new.key.as_bytes(), expected.as_bytes());
                    moved += 1;
                }
                Outcome::OtherLeaves | Outcome::Duplicate => {}
                Outcome::Pull(_) => panic!("in step"),
            }
        }
        assert_eq!(moved, 1);
    }
}
