//! Compares rekeying with the vectors of `docs/spec/group.md`, which a second implementation has
//! made (`docs/spec/vectors/group_rekey.py`).

use lightseal_core::{Decode, Encode, Instant, Random, Writer};
use lightseal_group::GroupId;
use lightseal_group::rekey::wrap::{epoch_key, unwrap, wrap};
use lightseal_group::rekey::{
    Chain, Change, ControllerSecret, Grant, KeyPath, KeyServer, KeyTree, Leaf, Node, NodeKey,
    Outcome, PullRequest, Refusal, Timing,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use testkit::vectors::{self, array, list, number, unhex};

fn file() -> Value {
    vectors::file(include_str!("../../../../../docs/spec/vectors/group-rekey.json"))
}

fn leaf(value: &Value) -> Leaf {
    Leaf::new(number(value) as u32).expect("a leaf")
}

fn node(value: &Value) -> Node {
    Node::new(number(&value["level"]) as u8, number(&value["index"]) as u32).expect("a node")
}

fn timing(step: &Value) -> Timing {
    let activation = Duration::from_millis(100 * number(&step["activation"]));
    Timing::new(activation, Duration::from_secs(number(&step["retention"]))).expect("in range")
}

#[test]
fn a_wrap_and_a_pull() {
    let file = file();
    let (example, group) = (&file["wrap"], GroupId(array(&file["group"])));
    let [key, new] = ["key", "new"].map(|name| NodeKey::new(array(&example[name])));
    let (node, epoch) = (node(example), number(&example["epoch"]));
    let wrapped = array(&example["wrapped"]);
    assert_eq!(wrap(&group, epoch, node, &key, &new), wrapped);
    let opened = unwrap(&group, epoch, node, &key, &wrapped).unwrap();
    assert_eq!(opened.as_bytes(), new.as_bytes());
    assert_eq!(epoch_key(&group, epoch, &key).as_bytes()[..], unhex(&example["epoch_key"]));
    let mut buf = [0; 64];
    let mut w = Writer::new(&mut buf);
    PullRequest { group, epoch }.write(&mut w).unwrap();
    assert_eq!(w.finish(), unhex(&file["pull"]));
}

#[test]
fn a_controllers_messages_are_the_second_implementations() {
    let file = file();
    let group = GroupId(array(&file["group"]));
    let secret = ControllerSecret::from_seed(&array(&file["controller_seed"]));
    assert_eq!(secret.public().as_bytes()[..], unhex(&file["controller"]));
    let chain = &file["chain"];
    let left = number(&chain["left"]) as u32;
    let chain_state = Chain::restore(array(&chain["seed"]), left).unwrap();
    assert_eq!(chain_state.anchor(&group)[..], unhex(&chain["anchor"]));
    let mut rng = Random::from_seed(array(&file["random_seed"]));
    let mut server = KeyServer::restore(group, secret, 0, chain_state, KeyTree::new());
    for step in list(&file["steps"]) {
        let leave: Vec<Leaf> = list(&step["leave"]).iter().map(leaf).collect();
        let join = number(&step["join"]) as u32;
        let change =
            Change { leave: &leave, join, refresh: step["refresh"] == true, ..Change::default() };
        let max_bytes = number(&step["max_bytes"]) as usize;
        let rekeying = server.rekey(&change, timing(step), max_bytes, &mut rng).unwrap();
        assert_eq!(rekeying.epoch, number(&step["epoch"]));
        assert_eq!(rekeying.key.unwrap().as_bytes()[..], unhex(&step["epoch_key"]));
        assert!(rekeying.joined.into_iter().eq(list(&step["joined"]).iter().map(leaf)));
        assert_eq!(u64::from(server.tree().depth()), number(&step["depth"]));
        let messages: Vec<_> = list(&step["messages"]).iter().map(unhex).collect();
        assert_eq!(rekeying.messages, messages, "epoch {}", rekeying.epoch);
        for told in list(&step["keys"]) {
            let key = server.tree().key(node(told)).expect("a key");
            assert_eq!(key.as_bytes()[..], unhex(&told["key"]));
        }
        assert_eq!(server.chain().anchor(&group)[..], unhex(&step["anchor"]));
        for granted in list(&step["grants"]) {
            let grant = server.grant(leaf(&granted["leaf"]), timing(step)).unwrap();
            assert_eq!(*grant.to_bytes(), unhex(&granted["grant"]));
        }
    }
}

#[test]
fn members_follow_the_second_implementation() {
    let file = file();
    let controller = ControllerSecret::from_seed(&array(&file["controller_seed"])).public();
    let mut members: BTreeMap<Leaf, KeyPath> = BTreeMap::new();
    for step in list(&file["steps"]) {
        let messages: Vec<_> = list(&step["messages"]).iter().map(unhex).collect();
        let excluded = list(&step["leave"]).iter().map(leaf);
        let excluded: Vec<_> = excluded.map(|leaf| members.remove(&leaf).unwrap()).collect();
        for mut member in excluded {
            let told = messages.iter().map(|message| member.handle(Instant::ZERO, message));
            assert_eq!(told.filter(|told| matches!(told, Err(Refusal::Excluded))).count(), 1);
        }
        for member in members.values_mut() {
            let told = messages.iter().map(|message| member.handle(Instant::ZERO, message));
            let mut moved = told.filter_map(|told| match told.unwrap() {
                Outcome::Moved(new) => Some(new),
                Outcome::OtherLeaves | Outcome::Duplicate => None,
                Outcome::Pull(_) => panic!("in step"),
            });
            let new = moved.next().expect("told");
            assert_eq!(new.epoch, number(&step["epoch"]));
            assert_eq!(new.key.as_bytes()[..], unhex(&step["epoch_key"]));
            assert_eq!(new.timing, timing(step));
            assert!(moved.next().is_none());
        }
        for granted in list(&step["grants"]) {
            let grant = Grant::decode(&unhex(&granted["grant"])).unwrap();
            let (member, new) = KeyPath::join(controller.clone(), grant);
            assert_eq!(new.key.as_bytes()[..], unhex(&step["epoch_key"]));
            members.insert(leaf(&granted["leaf"]), member);
        }
    }
    assert_eq!(members.len(), 15);
}
