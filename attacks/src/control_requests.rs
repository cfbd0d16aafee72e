//! Requests of members to their controller, which campaigns and fuzz targets alter.

use lightseal_core::{Random, Writer};
use lightseal_group::control::{GroupName, MAX_MESSAGE, Request, RequestMessage, RoleSet};
use lightseal_group::directory::Lookup;
use lightseal_group::identity::Identity;
use lightseal_group::keys::PullRequest;
use lightseal_group::{GroupId, ListenerId, SenderId, Start};
use std::net::IpAddr;

/// The group that the requests are about.
pub const GROUP: GroupId = GroupId(*b"lights of room 1");

/// The bytes of a request.
///
/// # Panics
/// If the request is longer than a message may be, which none of [`requests`] is.
pub fn encoded(request: &RequestMessage) -> Vec<u8> {
    let mut buf = [0; MAX_MESSAGE];
    let mut w = Writer::new(&mut buf);
    w.put(request).expect("requests are short");
    w.finish().to_vec()
}

/// A request of each kind, and several joins.
///
/// # Panics
/// Never: every name and identifier in it is valid.
pub fn requests() -> Vec<RequestMessage> {
    let mut rng = Random::insecure(11);
    let name = GroupName::new("lights").expect("a name");
    let mut join = |index: u8, roles| Request::Join {
        nonce: [index; 8],
        name: name.clone(),
        roles,
        address: IpAddr::from([192, 0, 2, index]),
        keys: Identity::generate(&mut rng).public(),
    };
    let roles = |sender, listener| RoleSet { sender, listener };
    let lookup = Lookup::listener(ListenerId::new(0).expect("a small identifier"));
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
        Request::Start { group: GROUP, resumes: true },
        Request::Start { group: GROUP, resumes: false },
        Request::Key { nonce: [3; 16] },
        Request::Names(GROUP, lookup),
    ];
    let start = Start { instance: 1, counter: 0, nonce: [1; 8] };
    let asked = |(said, number)| match said {
        Request::Join { .. } | Request::Key { .. } => RequestMessage::new(number, said),
        said => RequestMessage::by(start, number, said),
    };
    said.into_iter().zip(1..).map(asked).collect()
}
