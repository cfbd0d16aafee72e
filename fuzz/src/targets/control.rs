//! Messages between members and controllers: each decoded message is encoded to the same bytes.

use super::codec::written;
use attacks::control_requests::{GROUP, encoded, requests};
use lightseal_core::{Decode, Random, Writer};
use lightseal_group::SenderId;
use lightseal_group::control::{Answer, AnswerMessage, DeviceKey, RequestMessage};
use lightseal_group::directory::{Lookup, Names, Page};
use lightseal_group::policy::{Authenticity, Freshness, Policy, Profile, Responses};
use lightseal_group::rekey::{ControllerSecret, Grant, KeyServer, Leaf, Timing};
use std::time::Duration;

fn written_as(answer: &AnswerMessage, version: u8) -> Vec<u8> {
    let mut buf = [0; lightseal_group::control::MAX_MESSAGE];
    let mut w = Writer::new(&mut buf);
    answer.write_as(&mut w, version).expect("the input was no longer");
    w.finish().to_vec()
}

fn grant() -> Grant {
    let mut rng = Random::insecure(12);
    let mut server = KeyServer::new(GROUP, ControllerSecret::from_seed(&[5; 32]), &mut rng);
    let timing =
        Timing::new(Duration::from_secs(1), Duration::from_secs(10)).expect("valid durations");
    let change = lightseal_group::rekey::Change { join: 5, ..Default::default() };
    server.rekey(&change, timing, 1200, &mut rng).expect("a valid change");
    server.grant(Leaf::new(3).expect("a small identifier"), timing).expect("a member")
}

pub(super) fn messages(input: &[u8]) {
    if let Ok(request) = RequestMessage::decode(input) {
        assert_eq!(written(&request), input);
    }
    if let Ok(answer) = AnswerMessage::decode(input) {
        // The SenderID of a member that is only a listener has no meaning, and is encoded as that
        // of no sender.
        let once = written_as(&answer, input[0]);
        assert_eq!(once.len(), input.len());
        let again = AnswerMessage::decode(&once).expect("an encoded answer can be decoded");
        assert_eq!(written_as(&again, input[0]), once);
    }
    if let Ok(page) = Page::decode(input) {
        assert_eq!(written(&page), input);
    }
    if let Ok(policy) = Policy::decode(input) {
        assert_eq!(written(&policy), input);
        assert_eq!(policy.fault(), None);
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    use lightseal_group::control::{Admitted, Reason};
    use lightseal_group::member::Roles;
    let policy = Policy {
        group: GROUP,
        address: "[ff15::abcd]:5684".parse().expect("an address"),
        profile: Profile::Compact,
        suite: lightseal_dtls::crypto::CipherSuiteId::AES_128_CTR_LIGHTMAC_8_SHA256,
        authenticity: Authenticity::Source,
        responses: Responses::Pairwise,
        freshness: Freshness::Challenge,
        client_random: [1; 32],
        server_random: [2; 32],
    };
    let senders = || [SenderId(1), SenderId(9)].into_iter().collect();
    let admitted = Admitted {
        instance: 3,
        policy: policy.clone(),
        roles: Roles { sender: Some(SenderId(9)), listener: true },
        controller: ControllerSecret::from_seed(&[5; 32]).public(),
        senders: senders(),
        grant: grant(),
    };
    let lookup = Lookup::sender(SenderId(1));
    let names = Names { lookup, epoch: 3, names: vec![(1, "switch".into())] };
    let page = Page { lookup, epoch: 3, members: Vec::new() };
    let answers = [
        Answer::Admitted(Box::new(admitted)),
        Answer::Noted,
        Answer::Granted(grant()),
        Answer::Senders(senders()),
        Answer::Refused(Reason::Full),
        Answer::Page(page),
        Answer::Started { clones: 1, senders: senders(), grant: grant() },
        Answer::Key(DeviceKey { id: [1; 8], key: [2; 32].into() }),
        Answer::Names(names),
    ];
    let mut seeds: Vec<_> = requests().iter().map(encoded).collect();
    let answers = answers.into_iter().zip(1..);
    seeds.extend(answers.map(|(said, number)| written(&AnswerMessage { number, answer: said })));
    seeds.push(written(&policy));
    seeds
}
