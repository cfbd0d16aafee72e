//! What members and controllers say to each other: what is understood is written back as it was.

use super::codec::written;
use group::control::{Answer, GroupName, Numbered, Request, WantedRoles};
use group::directory::{Lookup, Page};
use group::identity::Identity;
use group::policy::{Authenticity, Freshness, Policy, Profile, Responses};
use group::rekey::{ControllerSecret, Grant, KeyServer, Leaf, PullRequest, Timing};
use group::{GroupId, ListenerId, SenderId};
use std::net::IpAddr;
use std::time::Duration;
use vocabulary::{Decode, Random};

/// As the groups of the noise campaign have it.
const GROUP: GroupId = GroupId(*b"lights of room 1");

pub(crate) fn encoded(request: &Numbered<Request>) -> Vec<u8> {
    written(request)
}

/// One of each kind, and several joins.
pub(crate) fn requests() -> Vec<Numbered<Request>> {
    let mut rng = Random::insecure(11);
    let name = GroupName::new("lights").expect("a name");
    let mut join = |index: u8, roles| Request::Join {
        nonce: [index; 8],
        name: name.clone(),
        roles,
        address: IpAddr::from([192, 0, 2, index]),
        keys: Identity::generate(&mut rng).public(),
    };
    let roles = |sender, listener| WantedRoles { sender, listener };
    let lookup = Lookup::listener(ListenerId::new(0).expect("small"));
    let said = [
        join(1, roles(true, true)),
        join(2, roles(true, false)),
        join(3, roles(false, true)),
        Request::Leave(GROUP),
        Request::Pull(PullRequest { group: GROUP, epoch: 1 }),
        Request::Renew(GROUP, 1),
        Request::Senders(GROUP),
        Request::Conflict(GROUP, SenderId(1)),
        Request::Lookup(GROUP, lookup),
        Request::Lookup(GROUP, Lookup::sender(SenderId(1))),
    ];
    said.into_iter().zip(1..).map(|(said, number)| Numbered { number, said }).collect()
}

fn grant() -> Grant {
    let mut rng = Random::insecure(12);
    let mut server = KeyServer::new(GROUP, ControllerSecret::from_seed(&[5; 32]), &mut rng);
    let timing = Timing::new(Duration::from_secs(1), Duration::from_secs(10)).expect("short");
    let change = group::rekey::Change { join: 5, ..Default::default() };
    server.rekey(&change, timing, 1200, &mut rng).expect("a change that can be made");
    server.grant(Leaf::new(3).expect("small"), timing).expect("a member")
}

pub(super) fn messages(input: &[u8]) {
    if let Ok(request) = Numbered::<Request>::decode(input) {
        assert_eq!(written(&request), input);
    }
    if let Ok(answer) = Numbered::<Answer>::decode(input) {
        // A listener's SenderID means nothing, and is written as 0.
        let once = written(&answer);
        assert_eq!(once.len(), input.len());
        let again = Numbered::<Answer>::decode(&once).expect("it was just written");
        assert_eq!(written(&again), once);
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
    use group::control::{Admitted, Reason};
    use group::member::Roles;
    let policy = Policy {
        group: GROUP,
        address: "[ff15::abcd]:5684".parse().expect("an address"),
        profile: Profile::Compact,
        suite: dtls::crypto::CipherSuiteId::AES_128_CTR_LIGHTMAC_8_SHA256,
        authenticity: Authenticity::Source,
        responses: Responses::Pairwise,
        freshness: Freshness::Challenge,
        client_random: [1; 32],
        server_random: [2; 32],
    };
    let senders = || [SenderId(1), SenderId(9)].into_iter().collect();
    let admitted = Admitted {
        policy: policy.clone(),
        roles: Roles { sender: Some(SenderId(9)), listener: true },
        controller: ControllerSecret::from_seed(&[5; 32]).public(),
        senders: senders(),
        grant: grant(),
    };
    let lookup = Lookup::sender(SenderId(1));
    let page = Page { lookup, epoch: 3, members: Vec::new() };
    let answers = [
        Answer::Admitted(Box::new(admitted)),
        Answer::Noted,
        Answer::Granted(grant()),
        Answer::Senders(senders()),
        Answer::Refused(Reason::Full),
        Answer::Page(page),
    ];
    let mut seeds: Vec<_> = requests().iter().map(encoded).collect();
    let answers = answers.into_iter().zip(1..);
    seeds.extend(answers.map(|(said, number)| written(&Numbered { number, said })));
    seeds.push(written(&policy));
    seeds
}
