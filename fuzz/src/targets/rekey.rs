//! Rekeying of groups: each decoded message is encoded to the same bytes, and no message that the
//! controller did not sign moves a member to another epoch.

use super::codec::written;
use lightseal_core::{Decode, Instant, Random};
use lightseal_group::control::{AnswerMessage, Request, RequestMessage};
use lightseal_group::directory::{DirectoryEntry, Lookup, Page};
use lightseal_group::member::Suspended;
use lightseal_group::rekey::message::Unverified;
use lightseal_group::rekey::{
    Change, ControllerSecret, Grant, KeyPath, KeyServer, Leaf, NodeKey, Outcome, PullRequest,
    Timing,
};
use lightseal_group::{GroupId, Identity};
use std::sync::OnceLock;
use std::time::Duration;

/// A member that has not received the last two rekeyings of its controller.
struct LateMember {
    member: Grant,
    controller: KeyServer,
    /// Messages that lead to the member's next epoch, and to the epoch after it.
    genuine: Vec<Vec<u8>>,
    later: Vec<Vec<u8>>,
}

fn scene() -> &'static LateMember {
    static SCENE: OnceLock<LateMember> = OnceLock::new();
    SCENE.get_or_init(|| {
        let mut rng = Random::insecure(7);
        let secret = ControllerSecret::from_seed(&rng.array());
        let mut controller = KeyServer::new(GroupId(*b"fuzzed lights 01"), secret, &mut rng);
        let timing =
            Timing::new(Duration::from_secs(1), Duration::from_secs(10)).expect("valid durations");
        let mut change = |controller: &mut KeyServer, leave: &[u32], join, max_bytes| {
            let leave: Vec<Leaf> = leave.iter().copied().filter_map(Leaf::new).collect();
            let change = Change { leave: &leave, join, ..Change::default() };
            let made = controller.rekey(&change, timing, max_bytes, &mut rng);
            made.expect("a valid change").messages
        };
        change(&mut controller, &[], 13, 1200);
        let member =
            controller.grant(Leaf::new(5).expect("a small identifier"), timing).expect("a member");
        let genuine = change(&mut controller, &[2, 4, 11], 7, 450);
        let later = change(&mut controller, &[], 0, 1200);
        LateMember { member, controller, genuine, later }
    })
}

pub(super) fn messages(input: &[u8]) {
    if let Ok(request) = RequestMessage::decode(input) {
        assert_eq!(written(&request), input);
    }
    let _ = AnswerMessage::decode(input);
    if let Ok(page) = Page::decode(input) {
        assert_eq!(written(&page), input);
    }
    if let Ok(suspended) = Suspended::decode(input) {
        // The previous version is accepted, and encoded as the present one.
        let present = suspended.to_bytes();
        assert!(present == input || input.first() == Some(&1));
        let again = Suspended::decode(&present).expect("an encoded state can be decoded");
        assert_eq!(again.to_bytes(), present);
    }
    if let Ok(request) = PullRequest::decode(input) {
        assert_eq!(written(&request), input);
    }
    if let Ok(grant) = Grant::decode(input) {
        assert_eq!(*grant.to_bytes(), input);
        let (path, new) = KeyPath::join(scene().controller.controller(), grant);
        assert_eq!((path.epoch(), path.epoch_key().as_bytes()), (new.epoch, new.key.as_bytes()));
    }
    let scene = scene();
    let (mut member, _) = KeyPath::join(scene.controller.controller(), scene.member.clone());
    let keys = |member: &KeyPath| -> Vec<[u8; 16]> {
        member.keys().iter().map(NodeKey::as_bytes).copied().collect()
    };
    let before = keys(&member);
    match member.handle(Instant::ZERO, input) {
        Ok(Outcome::Moved(_)) => assert!(scene.genuine.iter().any(|message| message == input)),
        outcome => {
            assert_eq!(keys(&member), before);
            let pulls = matches!(outcome, Ok(Outcome::Pull(_)));
            assert_eq!(pulls, scene.later.iter().any(|message| message == input));
        }
    }
    if let Ok(message) = Unverified::decode(input) {
        assert!(message.range[0] <= message.range[1]);
        if let Ok(message) = message.verify(member.group(), &scene.controller.controller()) {
            let told: usize = message.shape.nodes().map(|described| described.wraps()).sum();
            assert_eq!((told, message.wraps.len()), (message.shape.wraps(), told));
        }
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let scene = scene();
    let (member, _) = KeyPath::join(scene.controller.controller(), scene.member.clone());
    let mut seeds = vec![written(&member.pull_request()), scene.member.to_bytes().to_vec()];
    let keys = Identity::from_bytes(&[5; 64]).public();
    let leaf = Leaf::new(17).expect("a small identifier");
    let lookup = Lookup::listener(leaf.into());
    let members = vec![DirectoryEntry { sender: None, leaf, keys }];
    seeds.push(written(&Page { lookup, epoch: 2, members }));
    let group = GroupId(*b"fuzzed lights 01");
    let start = lightseal_group::Start { instance: 1, counter: 0, nonce: [1; 8] };
    seeds.push(written(&RequestMessage::by(start, 3, Request::Lookup(group, lookup))));
    // A suspended member that knows no other member.
    seeds.push([&[1][..], &[0; 71]].concat());
    seeds.extend(scene.genuine.iter().chain(&scene.later).cloned());
    seeds
}
