//! Compares requests and answers of the control protocol with an independent implementation
//! (`docs/spec/vectors/group_control.py`).

use lightseal_core::{Decode, Encode, Writer};
use lightseal_group::control::{
    Admitted, Answer, AnswerMessage, DeviceKey, GroupName, Reason, Request, RequestMessage,
    RoleSet, VERSION,
};
use lightseal_group::directory::{DirectoryEntry, Lookup, Names, Page};
use lightseal_group::identity::{Identity, PublicKeys};
use lightseal_group::member::Roles;
use lightseal_group::policy::{Authenticity, Freshness, Profile, Responses};
use lightseal_group::rekey::{ControllerSecret, Grant, Leaf, NodeKey, PullRequest, Timing};
use lightseal_group::{GroupId, ListenerId, Policy, SenderId, SenderSet, Start};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;
use testkit::vectors;

const EPOCH: u64 = 0x0102_0304_0506_0707;
const INSTANCE: u64 = 0x0a0b_0c0d_0e0f_1011;
const NUMBER: u32 = 0x0102_0304;

fn counted<const N: usize>(from: u8) -> [u8; N] {
    std::array::from_fn(|at| from + at as u8)
}

fn group() -> GroupId {
    GroupId(counted(0x47))
}

fn file(part: &str) -> BTreeMap<String, Vec<u8>> {
    let text = include_str!("../../../../docs/spec/vectors/group-control.json");
    let file = vectors::file(text);
    let messages = file[part].as_object().expect("by name").iter();
    messages.map(|(name, hex)| (name.clone(), vectors::unhex(hex))).collect()
}

/// The public keys of an identity with these two private keys.
fn keys(signs: u8, agrees: u8) -> PublicKeys {
    let mut bytes = [0; Identity::BYTES];
    bytes[..32].fill(signs);
    bytes[32..].fill(agrees);
    Identity::from_bytes(&bytes).public()
}

fn grant(depth: u8) -> Grant {
    let timing = Timing::new(Duration::from_millis(2500), Duration::from_secs(10)).unwrap();
    let keys = (0..=depth).map(|level| NodeKey::new([level; 16])).collect();
    Grant::new(group(), EPOCH, timing, Leaf::new(1).unwrap(), [6; 16], keys).unwrap()
}

fn senders() -> SenderSet {
    [0, 9, 254].map(SenderId).into()
}

fn admitted(sender: Option<SenderId>) -> Answer {
    let policy = Policy {
        group: group(),
        address: "[ff15::abcd]:5684".parse().unwrap(),
        profile: Profile::Compact,
        suite: lightseal_dtls::crypto::CipherSuiteId::AES_128_CCM_SHA256,
        authenticity: Authenticity::Source,
        responses: Responses::Pairwise,
        freshness: Freshness::Challenge,
        client_random: [0xc1; 32],
        server_random: [0x5e; 32],
    };
    let roles = Roles { sender, listener: true };
    let controller = ControllerSecret::from_seed(&[0x71; 32]).public();
    let (instance, senders) = (INSTANCE, senders());
    Answer::Admitted(Box::new(Admitted {
        instance,
        policy,
        roles,
        controller,
        senders,
        grant: grant(2),
    }))
}

fn requests() -> Vec<(&'static str, Request)> {
    let join = |address: &str| Request::Join {
        nonce: counted(0x20),
        name: GroupName::new("lights").unwrap(),
        roles: RoleSet { sender: true, listener: true },
        address: address.parse::<IpAddr>().unwrap(),
        keys: keys(0x61, 0x51),
    };
    let listeners = Lookup::listener(ListenerId::new(17).unwrap());
    vec![
        ("join", join("fd00::7")),
        ("join, IPv4", join("192.0.2.7")),
        ("leave", Request::Leave(group())),
        ("pull", Request::Pull(PullRequest { group: group(), epoch: EPOCH })),
        ("renew", Request::Renew(group(), EPOCH)),
        ("senders", Request::Senders(group())),
        ("conflict", Request::Conflict(group(), SenderId(9))),
        ("lookup of senders", Request::Lookup(group(), Lookup::sender(SenderId(40)))),
        ("lookup of listeners", Request::Lookup(group(), listeners)),
        ("start", Request::Start { group: group(), resumes: false }),
        ("start, resumes", Request::Start { group: group(), resumes: true }),
        ("key", Request::Key { nonce: counted(0x30) }),
        ("names of listeners", Request::Names(group(), listeners)),
    ]
}

fn answers() -> Vec<(String, Answer)> {
    let introduced =
        |sender, leaf, keys| DirectoryEntry { sender, leaf: Leaf::new(leaf).unwrap(), keys };
    let members = vec![
        introduced(None, 17, keys(0x61, 0x51)),
        introduced(Some(SenderId(9)), 31, keys(0x62, 0x52)),
    ];
    let lookup = Lookup::listener(ListenerId::new(16).unwrap());
    let named = vec![
        ("admitted", admitted(Some(SenderId(9)))),
        ("admitted, no sender", admitted(None)),
        ("noted", Answer::Noted),
        ("granted", Answer::Granted(grant(24))),
        ("senders", Answer::Senders(senders())),
        ("page", Answer::Page(Page { lookup, epoch: EPOCH, members })),
        ("started", Answer::Started { clones: 5, senders: senders(), grant: grant(7) }),
        ("key", Answer::Key(DeviceKey { id: counted(0x20), key: [0x77; 32].into() })),
        (
            "names",
            Answer::Names(Names {
                lookup,
                epoch: EPOCH,
                names: vec![(17, "lamp".into()), (31, "Türschloß".into())],
            }),
        ),
    ];
    let reasons = [
        ("no such group", Reason::NoSuchGroup),
        ("not a member", Reason::NotAMember),
        ("full", Reason::Full),
        ("address taken", Reason::AddressTaken),
        ("roles", Reason::Roles),
        ("not now", Reason::NotNow),
        ("superseded", Reason::Superseded),
        ("copied", Reason::Copied),
        ("not started", Reason::NotStarted),
        ("token used up", Reason::TokenUsed),
        ("token expired", Reason::TokenExpired),
        ("not understood", Reason::NotUnderstood),
        ("evicted", Reason::Evicted),
    ];
    let refused =
        reasons.map(|(name, reason)| (format!("refused: {name}"), Answer::Refused(reason)));
    let named = named.into_iter().map(|(name, answer)| (name.to_owned(), answer));
    named.chain(refused).collect()
}

fn written(message: &impl Encode) -> Vec<u8> {
    let mut buf = [0; lightseal_group::control::MAX_MESSAGE];
    let mut w = Writer::new(&mut buf);
    message.write(&mut w).expect("the longest fits");
    w.written().to_vec()
}

#[test]
fn requests_are_those_of_another_implementation() {
    let file = file("requests");
    let requests = requests();
    assert_eq!(requests.len(), file.len());
    for (name, said) in requests {
        let start = Start { instance: INSTANCE, counter: 3, nonce: counted(0x20) };
        let is_members = !matches!(said, Request::Join { .. } | Request::Key { .. });
        let start = is_members.then_some(start);
        let asked = RequestMessage { version: VERSION, number: NUMBER, start, request: said };
        assert_eq!(written(&asked), file[name], "{name}");
        assert_eq!(
            format!("{:?}", RequestMessage::decode(&file[name])),
            format!("{:?}", Ok::<_, ()>(asked))
        );
    }
}

#[test]
fn answers_are_those_of_another_implementation() {
    let file = file("answers");
    let answers = answers();
    assert_eq!(answers.len(), file.len());
    for (name, said) in answers {
        let answer = AnswerMessage { number: NUMBER, answer: said };
        assert_eq!(written(&answer), file[&name], "{name}");
        let read = AnswerMessage::decode(&file[&name]).expect("an answer");
        assert_eq!(written(&read), file[&name], "{name}");
    }
}
