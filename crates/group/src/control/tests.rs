//! Requests and answers are read as they were written, and random bytes cause no panic.

use super::*;
use crate::directory::DirectoryEntry;
use crate::identity::Identity;
use crate::policy::{Authenticity, Freshness, Profile, Responses};
use crate::rekey::{ControllerSecret, Leaf, NodeKey, Timing};
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;
use lightseal_dtls::crypto::CipherSuiteId;
use std::format;

const GROUP: GroupId = GroupId([9; 16]);

fn keys(byte: u8) -> PublicKeys {
    Identity::from_bytes(&[byte; 64]).public()
}

fn requests() -> Vec<Request> {
    let name = GroupName::new("lights, 2. floor").unwrap();
    let roles = RoleSet { sender: true, listener: false };
    let address = "192.0.2.7".parse().unwrap();
    vec![
        Request::Join { nonce: [5; 8], name, roles, address, keys: keys(0) },
        Request::Leave(GROUP),
        Request::Pull(PullRequest { group: GROUP, epoch: 77 }),
        Request::Renew(GROUP, 1 << 40),
        Request::Senders(GROUP),
        Request::Conflict(GROUP, SenderId(3)),
        Request::Lookup(GROUP, Lookup::sender(SenderId(20))),
        Request::Start { group: GROUP, resumes: true },
        Request::Key { nonce: [7; 16] },
    ]
}

fn asked() -> impl Iterator<Item = RequestMessage> {
    let start = Start { instance: 3, counter: 2, nonce: [1; 8] };
    requests().into_iter().flat_map(move |said| {
        let is_members = !matches!(said, Request::Join { .. } | Request::Key { .. });
        let is_new = matches!(said, Request::Start { .. } | Request::Key { .. });
        let old =
            RequestMessage { version: VERSION_1, number: 7, start: None, request: said.clone() };
        let new =
            RequestMessage { version: VERSION, start: is_members.then_some(start), ..old.clone() };
        [(!is_new).then_some(old), Some(new)].into_iter().flatten()
    })
}

fn grant(depth: usize) -> Grant {
    let timing = Timing::new(Duration::from_secs(1), Duration::from_secs(9)).unwrap();
    let keys = (0..=depth).map(|level| NodeKey::new([level as u8; 16])).collect();
    Grant::new(GROUP, 4, timing, Leaf::new(1).unwrap(), [6; 16], keys).unwrap()
}

fn answers() -> Vec<Answer> {
    let policy = Policy {
        group: GROUP,
        address: "[ff15::abcd]:5684".parse().unwrap(),
        profile: Profile::Axiom12,
        suite: CipherSuiteId::PSK_WITH_AES_128_CCM_8,
        authenticity: Authenticity::Group,
        responses: Responses::Group,
        freshness: Freshness::NewEpoch,
        client_random: [1; 32],
        server_random: [2; 32],
    };
    let roles = Roles { sender: Some(SenderId(200)), listener: true };
    let senders: SenderSet = [0, 1, 7, 8, 200, 254].map(SenderId).into();
    let controller = ControllerSecret::from_seed(&[8; 32]).public();
    let admitted = Admitted { instance: 9, policy, roles, controller, senders, grant: grant(24) };
    let mut answers = vec![
        Answer::Admitted(Box::new(admitted)),
        Answer::Noted,
        Answer::Granted(grant(7)),
        Answer::Senders(senders),
        Answer::Started { clones: 2, senders, grant: grant(24) },
        Answer::Key(DeviceKey { id: [4; 8], key: Zeroizing::new([5; 32]) }),
    ];
    let introduce =
        |at| DirectoryEntry { sender: None, leaf: Leaf::new(at).unwrap(), keys: keys(at as u8) };
    let lookup = Lookup::Listeners(Leaf::new(0).unwrap().into());
    let members = (0..16).map(introduce).collect();
    answers.push(Answer::Page(Page { lookup, epoch: 4, members }));
    answers.extend(Reason::ALL.map(Answer::Refused));
    answers
}

/// Checks that the message is read as it was written, and refused if it is cut or followed by a
/// byte.
fn comes_back<T: fmt::Debug + for<'a> Decode<'a>>(message: &T, version: u8, bytes: &[u8]) {
    let read = T::decode(bytes).expect("as it was written");
    assert_eq!(format!("{read:?}"), format!("{message:?}"));
    assert_eq!(bytes[0], version);
    for cut in 0..bytes.len() {
        assert!(T::decode(&bytes[..cut]).is_err(), "{cut} of {message:?}");
    }
    assert!(T::decode(&[bytes, &[0]].concat()).is_err());
}

#[test]
fn requests_and_answers_come_back_in_both_versions() {
    let mut buf = [0; MAX_MESSAGE];
    for asked in asked() {
        let mut w = Writer::new(&mut buf);
        asked.write(&mut w).expect("the longest fits");
        comes_back(&asked, asked.version, w.written());
        assert_eq!(RequestMessage::head(w.written()), Some((asked.version, 7)));
    }
    for (mut said, version) in answers().into_iter().flat_map(|said| {
        let again = answers_like(&said);
        [(said, VERSION), (again, VERSION_1)]
    }) {
        if let (Answer::Admitted(admitted), VERSION_1) = (&mut said, version) {
            admitted.instance = 0;
        }
        if matches!(said, Answer::Started { .. } | Answer::Key(_)) && version == VERSION_1 {
            continue;
        }
        let mut w = Writer::new(&mut buf);
        let answer = AnswerMessage { number: 0xdead_beef, answer: said };
        answer.write_as(&mut w, version).expect("the longest fits");
        comes_back(&answer, version, w.written());
    }
}

/// A second copy of this answer, which cannot be cloned.
fn answers_like(answer: &Answer) -> Answer {
    let is_same = |other: &Answer| format!("{other:?}") == format!("{answer:?}");
    answers().into_iter().find(is_same).expect("it is one of them")
}

#[test]
fn names_are_short_lines_of_text() {
    assert!(GroupName::new(&"x".repeat(MAX_NAME)).is_some());
    for wrong in ["", "a\nb", "\u{7f}", &"x".repeat(MAX_NAME + 1)] {
        assert_eq!(GroupName::new(wrong), None, "{wrong:?}");
    }
}

#[test]
fn noise_does_no_harm() {
    let mut rng = lightseal_core::Random::insecure(5);
    for _ in 0..20_000 {
        let mut noise = vec![0; rng.below(120) as usize];
        rng.fill(&mut noise);
        if let [version, kind, ..] = &mut noise[..] {
            (*version, *kind) = (1 + *version % 2, *kind % 11);
        }
        let _ = RequestMessage::decode(&noise);
        let _ = AnswerMessage::decode(&noise);
    }
}
