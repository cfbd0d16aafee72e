//! Malformed and forged messages.

use super::world::{GROUP, timing};
use lightseal_core::{Decode, Encode, Instant, Random, Writer};
use lightseal_group::GroupId;
use lightseal_group::rekey::checks::INTERVAL;
use lightseal_group::rekey::member::OFF_CHAIN_INTERVAL;
use lightseal_group::rekey::message::Unverified;
use lightseal_group::rekey::pull::MAX_GRANT_BYTES;
use lightseal_group::rekey::{
    Change, ChangeError, ControllerKey, ControllerSecret, Grant, KeyPath, KeyServer, KeyTree, Leaf,
    MAX_MESSAGE_BYTES, Node, NodeKey, Outcome, PullRequest, Refusal, Timing,
};
use proptest::prelude::*;
use std::time::Duration;

const NOW: Instant = Instant::ZERO;

struct Pair {
    rng: Random,
    server: KeyServer,
    member: KeyPath,
}

/// A group of `members`, and the state of the member at leaf 1.
fn pair(members: u32) -> Pair {
    let mut rng = Random::insecure(9);
    let mut server = KeyServer::new(GROUP, ControllerSecret::from_seed(&rng.array()), &mut rng);
    server
        .rekey(&Change { join: members, ..Change::default() }, timing(), 1_200, &mut rng)
        .unwrap();
    let grant = server.grant(Leaf::new(1).unwrap(), timing()).unwrap();
    let (member, _) = KeyPath::join(server.controller(), grant);
    Pair { rng, server, member }
}

impl Pair {
    fn change(&mut self, change: &Change<'_>) -> Vec<u8> {
        let rekeying = self.server.rekey(change, timing(), 1_200, &mut self.rng).unwrap();
        rekeying.messages.into_iter().next().unwrap()
    }

    fn leave(&mut self, leaf: u32) -> Vec<u8> {
        self.change(&Change { leave: &[Leaf::new(leaf).unwrap()], ..Change::default() })
    }
}

fn state(member: &KeyPath) -> Vec<u8> {
    member.to_grant(timing()).to_bytes().to_vec()
}

#[test]
fn every_cut_and_every_flipped_bit_is_refused_and_changes_nothing() {
    let mut pair = pair(20);
    let message = pair.leave(7);
    let before = state(&pair.member);
    for cut in 0..message.len() {
        let refusal = pair.member.handle(NOW, &message[..cut]).unwrap_err();
        assert!(matches!(refusal, Refusal::Malformed(_)), "{cut} bytes: {refusal}");
    }
    let longer = [&message[..], &[0]].concat();
    assert!(matches!(pair.member.handle(NOW, &longer), Err(Refusal::Malformed(_))));
    for bit in 0..8 * message.len() {
        let mut bad = message.clone();
        bad[bit / 8] ^= 0x80 >> (bit % 8);
        // The messages are spaced in time, so that the signature of each is checked.
        let outcome = pair.member.handle(NOW + INTERVAL * bit as u32, &bad);
        // A message for an epoch that is not later than the member's is ignored.
        let old = matches!(outcome, Ok(Outcome::Duplicate))
            && Unverified::decode(&bad).unwrap().epoch <= 1;
        assert!(outcome.is_err() || old, "bit {bit}: {outcome:?}");
        assert_eq!(state(&pair.member), before, "bit {bit}");
    }
    let later = NOW + INTERVAL * 8 * message.len() as u32;
    assert!(matches!(pair.member.handle(later, &message), Ok(Outcome::Moved(_))));
    assert_ne!(state(&pair.member), before);
}

#[test]
fn every_flipped_bit_of_a_part_is_refused_or_passed_over() {
    let mut pair = pair(20);
    let leave: Vec<Leaf> = [4, 9, 13, 18].into_iter().filter_map(Leaf::new).collect();
    let change = Change { leave: &leave, ..Change::default() };
    let least = KeyServer::least_bytes(5) + 24;
    let parts = pair.server.rekey(&change, timing(), least, &mut pair.rng).unwrap().messages;
    assert!(parts.len() > 2);
    let before = state(&pair.member);
    for bit in 0..8 * parts[0].len() {
        let mut bad = parts[0].clone();
        bad[bit / 8] ^= 0x80 >> (bit % 8);
        let outcome = pair.member.handle(NOW + INTERVAL * bit as u32, &bad);
        let passed = match &outcome {
            Ok(Outcome::Duplicate) => Unverified::decode(&bad).unwrap().epoch <= 1,
            // The flipped bit is in the range of leaves.
            Ok(Outcome::OtherLeaves) => (32..38).contains(&(bit / 8)),
            other => other.is_err(),
        };
        assert!(passed, "bit {bit}: {outcome:?}");
        assert_eq!(state(&pair.member), before, "bit {bit}");
    }
    let later = NOW + INTERVAL * 8 * parts[0].len() as u32;
    for part in parts.iter().rev() {
        pair.member.handle(later, part).unwrap();
    }
    assert_eq!(pair.member.epoch(), 2);
}

#[test]
fn a_replay_does_nothing_and_a_gap_asks_for_a_pull() {
    let mut pair = pair(4);
    let messages = [pair.leave(3), pair.leave(2), pair.leave(0)];
    assert!(
        matches!(pair.member.handle(NOW, &messages[2]), Ok(Outcome::Pull(request)) if request.epoch == 1)
    );
    assert!(matches!(pair.member.handle(NOW, &messages[0]), Ok(Outcome::Moved(_))));
    let before = state(&pair.member);
    assert!(matches!(pair.member.handle(NOW, &messages[0]), Ok(Outcome::Duplicate)));
    assert!(
        matches!(pair.member.handle(NOW, &messages[2]), Ok(Outcome::Pull(request)) if request.epoch == 2)
    );
    assert_eq!(state(&pair.member), before);
    let grant = pair.server.grant(Leaf::new(1).unwrap(), timing()).unwrap();
    let new = pair.member.grant(grant.clone()).unwrap().unwrap();
    assert_eq!(new.key.as_bytes(), pair.server.epoch_key().unwrap().as_bytes());
    assert!(pair.member.grant(grant).unwrap().is_none());
    assert!(matches!(pair.member.handle(NOW, &messages[1]), Ok(Outcome::Duplicate)));
}

#[test]
fn another_groups_and_another_controllers_messages_are_refused() {
    let mut pair = pair(4);
    let message = pair.leave(3);
    let other = ControllerSecret::from_seed(&[3; 32]).public();
    let parsed = || Unverified::decode(&message).unwrap();
    assert!(parsed().verify(&GROUP, &pair.server.controller()).is_ok());
    assert!(parsed().verify(&GROUP, &other).is_err());
    let mut same_alias = GROUP;
    same_alias.0[15] ^= 1;
    assert!(parsed().verify(&same_alias, &pair.server.controller()).is_err());
    let grant = |group: GroupId, epoch| {
        Grant::new(
            group,
            epoch,
            timing(),
            Leaf::new(0).unwrap(),
            [0; 16],
            vec![NodeKey::new([0; 16]); 3],
        )
    };
    let other = grant(same_alias, 9).unwrap();
    assert!(matches!(pair.member.grant(other), Err(Refusal::OtherGroup)));
    assert!(matches!(pair.member.grant(grant(GROUP, 0).unwrap()), Err(Refusal::Stale)));
}

#[test]
fn junk_is_dropped_before_its_signature_and_a_sleeper_is_not_flooded() {
    let mut pair = pair(4);
    let genuine = pair.change(&Change::default());
    let junk = |epoch: u64| {
        let mut junk = genuine.clone();
        junk[4..12].copy_from_slice(&epoch.to_be_bytes());
        junk[12..28].fill(0xaa);
        junk
    };
    assert!(matches!(pair.member.handle(NOW, &junk(2)), Err(Refusal::OffChain)));
    // Messages of later epochs may be genuine although they are off the chain: one signature is
    // checked in each interval.
    assert!(matches!(pair.member.handle(NOW, &junk(3)), Err(Refusal::BadSignature)));
    let soon = Instant::from_micros(OFF_CHAIN_INTERVAL.as_micros() as u64 - 1);
    assert!(matches!(pair.member.handle(soon, &junk(3)), Err(Refusal::OffChain)));
    let later = NOW + OFF_CHAIN_INTERVAL;
    assert!(matches!(pair.member.handle(later, &junk(3)), Err(Refusal::BadSignature)));
    assert!(matches!(pair.member.handle(later, &genuine), Ok(Outcome::Moved(_))));
}

/// A message with this depth and shape and this number of wraps, with an invalid signature.
fn forged(depth: u8, shape: &[u8], wraps: usize) -> Vec<u8> {
    let mut message = vec![1, 1, GROUP.alias(), 0];
    message.extend(2_u64.to_be_bytes());
    message.extend([0; 16]);
    message.extend([0, 0, 0, depth]);
    message.extend(shape);
    message.extend(vec![0; 24 * wraps + 64]);
    message
}

#[test]
fn counts_are_those_of_the_bytes_that_are_there() {
    assert!(Unverified::decode(&forged(1, &[0b0101_0000], 2)).is_ok());
    for (depth, shape, wraps) in [
        (1, &[0b0101_0000][..], 1),
        (1, &[0b0101_0000], 3),
        (1, &[0b0101_0001], 2),
        (0, &[0b0101_0000], 2),
        (25, &[0b0101_0000], 2),
        (255, &[0b0101_0000], 2),
        // A message of a few bytes that claims to describe a whole tree of 2^24 leaves.
        (24, &[0xaa; 100], 0),
    ] {
        assert!(
            Unverified::decode(&forged(depth, shape, wraps)).is_err(),
            "{depth} {shape:?} {wraps}"
        );
    }
    // As many nodes as a message of the maximum length can describe, then one byte more.
    let all = forged(24, &vec![0xff; MAX_MESSAGE_BYTES - 96], 0);
    assert_eq!(all.len(), MAX_MESSAGE_BYTES);
    assert!(Unverified::decode(&all).is_err());
    let most = (MAX_MESSAGE_BYTES - 97) / 24;
    assert!(Unverified::decode(&forged(24, &[0], most)).is_err());
    let mut long = forged(1, &[0b0101_0000], 2);
    long.resize(MAX_MESSAGE_BYTES + 1, 0);
    assert!(Unverified::decode(&long).is_err());
    let mut patient = forged(1, &[0b0101_0000], 2);
    patient[30] = 60;
    assert!(Unverified::decode(&patient).is_ok());
    patient[30] = 61;
    assert!(Unverified::decode(&patient).is_err());
}

#[test]
fn a_controller_is_told_of_its_mistakes_and_nothing_changes() {
    let Pair { mut rng, mut server, .. } = pair(4);
    let leaf = |number| Leaf::new(number).unwrap();
    let before: Vec<_> = server.tree().nodes().map(|(_, key)| *key.as_bytes()).collect();
    let mut refused = |leave: &[Leaf], join, max_bytes| {
        let change = Change { leave, join, ..Change::default() };
        server.rekey(&change, timing(), max_bytes, &mut rng).unwrap_err()
    };
    assert_eq!(refused(&[leaf(4)], 0, 1_200), ChangeError::NoMember);
    assert_eq!(refused(&[leaf(Leaf::LIMIT - 1)], 0, 1_200), ChangeError::NoMember);
    assert_eq!(refused(&[leaf(1), leaf(1)], 0, 1_200), ChangeError::Twice);
    assert_eq!(refused(&[], Leaf::LIMIT, MAX_MESSAGE_BYTES), ChangeError::Full);
    assert_eq!(refused(&[], u32::MAX, MAX_MESSAGE_BYTES), ChangeError::Full);
    assert_eq!(refused(&[], 0, KeyServer::least_bytes(2) - 1), ChangeError::MessageSize);
    assert_eq!(refused(&[], 1, KeyServer::least_bytes(3) - 1), ChangeError::MessageSize);
    assert_eq!(refused(&[], 0, MAX_MESSAGE_BYTES + 1), ChangeError::MessageSize);
    assert!(server.tree().nodes().map(|(_, key)| *key.as_bytes()).eq(before));
    assert_eq!(server.epoch(), 1);
    assert!(
        server.rekey(&Change::default(), timing(), KeyServer::least_bytes(2), &mut rng).is_ok()
    );
    assert!(server.grant(leaf(4), timing()).is_none());
}

#[test]
fn what_is_no_tree_is_not_restored() {
    let Pair { server, .. } = pair(5);
    let tree = server.tree();
    let nodes: Vec<(Node, NodeKey)> = tree.nodes().collect();
    assert!(KeyTree::restore(tree.depth(), nodes.clone()).is_some());
    // Without a leaf that has a sibling, the rest is another valid tree. Without any other node, it
    // is not a valid tree.
    for (gone, (node, _)) in nodes.iter().enumerate() {
        let mut others = nodes.clone();
        others.remove(gone);
        let members = KeyTree::restore(tree.depth(), others).map(|tree| tree.members());
        let paired = node.level() == 0 && node.index() < 4;
        assert_eq!(members, paired.then_some(4), "without {node:?}");
    }
    let with = |node| {
        let extra = (node, NodeKey::new([0; 16]));
        KeyTree::restore(tree.depth(), nodes.iter().cloned().chain([extra]))
    };
    assert!(with(Node::new(0, 5).unwrap()).is_some());
    assert!(with(Node::new(0, 7).unwrap()).is_none());
    assert!(with(Node::new(0, 8).unwrap()).is_none());
    assert!(with(Node::new(4, 0).unwrap()).is_none());
    assert!(with(Node::new(0, 0).unwrap()).is_none());
    assert!(KeyTree::restore(0, []).is_none() && KeyTree::restore(25, []).is_none());
}

#[test]
fn keys_of_small_order_are_no_controllers() {
    let mut neutral = [0; 32];
    neutral[0] = 1;
    assert!(ControllerKey::from_bytes(&neutral).is_none());
    assert!(ControllerKey::from_bytes(&[0; 32]).is_none());
    let genuine = ControllerSecret::from_seed(&[1; 32]).public();
    assert_eq!(ControllerKey::from_bytes(genuine.as_bytes()), Some(genuine));
}

#[test]
fn times_have_edges() {
    let timing = |activation, retention| {
        Timing::new(Duration::from_millis(activation), Duration::from_millis(retention))
    };
    let rounded = timing(1, 1).unwrap();
    assert_eq!(
        (rounded.activation(), rounded.retention()),
        (Duration::from_millis(100), Duration::from_secs(1))
    );
    assert!(timing(6_553_500, 60_000).is_some());
    assert!(timing(6_553_501, 0).is_none() && timing(0, 60_001).is_none());
    assert!(Timing::new(Duration::MAX, Duration::MAX).is_none());
}

proptest! {
    #[test]
    fn any_bytes_are_taken_calmly(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let mut member = pair(2).member;
        let _ = Unverified::decode(&bytes);
        let _ = PullRequest::decode(&bytes);
        let _ = Grant::decode(&bytes);
        let before = state(&member);
        prop_assert!(!matches!(member.handle(NOW, &bytes), Ok(Outcome::Moved(_) | Outcome::Pull(_))));
        prop_assert_eq!(state(&member), before);
    }

    #[test]
    fn any_shape_is_taken_calmly(depth in 1..=24_u8, shape in prop::collection::vec(any::<u8>(), 0..40), wraps in 0..40_usize) {
        if let Ok(message) = Unverified::decode(&forged(depth, &shape, wraps)) {
            prop_assert_eq!(message.epoch, 2);
        }
    }

    #[test]
    fn pulls_and_grants_round_trip_and_every_cut_is_refused(
        group in any::<[u8; 16]>(),
        epoch in any::<u64>(),
        anchor in any::<[u8; 16]>(),
        keys in prop::collection::vec(any::<[u8; 16]>(), 2..=25),
        leaf in any::<u32>(),
    ) {
        let request = PullRequest { group: GroupId(group), epoch };
        let mut buf = [0; 64];
        let mut w = Writer::new(&mut buf);
        request.write(&mut w).unwrap();
        let bytes = &*w.finish();
        prop_assert_eq!(PullRequest::decode(bytes), Ok(request));
        for cut in 0..bytes.len() {
            prop_assert!(PullRequest::decode(&bytes[..cut]).is_err());
        }
        let leaf = Leaf::new(leaf & ((1 << (keys.len() - 1)) - 1)).unwrap();
        let keys = keys.into_iter().map(NodeKey::new).collect();
        let grant = Grant::new(GroupId(group), epoch, timing(), leaf, anchor, keys).unwrap();
        let bytes = grant.to_bytes();
        prop_assert!(bytes.len() <= MAX_GRANT_BYTES);
        prop_assert_eq!(Grant::decode(&bytes).unwrap().to_bytes(), bytes.clone());
        for cut in 0..bytes.len() {
            prop_assert!(Grant::decode(&bytes[..cut]).is_err());
        }
    }
}
