//! The controller, the sender and all listeners of a group in one image, which writes the transcript
//! for the images with one member.

use super::members::{Admission, LISTENS, NOW, SENDER, SENDS, TRANSCRIPT, address, join};
use super::{LISTENERS, REQUEST, RESPONSE};
use crate::heap;
use crate::machine::{exit, fail};
use crate::random;
use crate::settings::PEER;
use crate::transcript::{Kind, LONGEST, Writer};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::{Ipv6Addr, SocketAddr};
use core::time::Duration;
use lightseal_dtls::crypto::{CipherSuiteId, Provider};
use lightseal_group::keys::{ControllerSecret, KeyServer, Leaf, Timing};
use lightseal_group::member::{RequestKind, Roles};
use lightseal_group::policy::{Authenticity, Freshness, Profile, Responses};
use lightseal_group::rekey::Change;
use lightseal_group::{Encode, GroupId, Identity, Member, Policy, Random, Writer as EncodeWriter};

const GROUP: GroupId = GroupId(*b"lights of a room");
/// The activation and the retention of epochs; there is only one epoch.
const TIMES: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(10));

/// Requests and responses are authentic as the group's, as in the paper.
fn policy(profile: Profile) -> Policy {
    Policy {
        group: GROUP,
        address: SocketAddr::new(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0xfd).into(), 5684),
        profile,
        suite: match profile {
            Profile::Axiom12 => CipherSuiteId::PSK_WITH_AES_128_CCM_8,
            Profile::Compact => CipherSuiteId::AES_128_CCM_8_SHA256,
        },
        authenticity: Authenticity::Group,
        responses: Responses::Group,
        freshness: Freshness::NewEpoch,
        client_random: [1; 32],
        server_random: [2; 32],
    }
}

fn encoded(message: &impl Encode) -> Vec<u8> {
    let mut buffer = [0; LONGEST];
    let mut writer = EncodeWriter::new(&mut buffer);
    match message.write(&mut writer) {
        Ok(()) => writer.written().to_vec(),
        Err(_) => fail("a message is too long"),
    }
}

/// A group whose members all join in its first epoch.
struct Group {
    server: KeyServer,
    timing: Timing,
    leaves: Vec<Leaf>,
    policy: Vec<u8>,
    identity: Identity,
    random: Random,
}

impl Group {
    fn new(profile: Profile) -> Option<Self> {
        let mut random = random::server();
        let secret = ControllerSecret::from_seed(&random.array());
        let mut server = KeyServer::new(GROUP, secret, &mut random);
        let timing = Timing::new(TIMES.0, TIMES.1)?;
        let change = Change { join: LISTENERS as u32 + 1, ..Change::default() };
        let rekeying = server.rekey(&change, timing, 1200, &mut random).ok()?;
        let identity = Identity::generate(&mut random);
        let (leaves, policy) = (rekeying.joined, encoded(&policy(profile)));
        Some(Self { server, timing, leaves, policy, identity, random })
    }

    /// The grant of the member with this number, of which the first is the sender.
    fn grant(&self, number: usize) -> Vec<u8> {
        let leaf = self.leaves.get(number);
        match leaf.and_then(|leaf| self.server.grant(*leaf, self.timing)) {
            Some(grant) => encoded(&grant),
            None => fail("no grant"),
        }
    }

    fn member(
        &mut self,
        provider: &Provider,
        number: usize,
        who: (Roles, SocketAddr),
    ) -> Box<Member> {
        let (grant, controller) = (self.grant(number), self.server.controller());
        let admission =
            Admission { controller: controller.as_bytes(), policy: &self.policy, grant: &grant };
        let own = (self.identity.clone(), self.random.fork());
        join(&admission, provider, who, own).unwrap_or_else(|| fail("no membership"))
    }
}

/// Writes the transcript of a group whose records have this profile.
pub fn write(profile: Profile, provider: &Provider) -> ! {
    heap::start();
    let Some(mut group) = Group::new(profile) else { fail("no group") };
    let mut transcript = Writer::named(TRANSCRIPT);
    let mut say = |bytes: &[u8]| transcript.push(Kind::FromServer, bytes);
    say(group.server.controller().as_bytes());
    say(&group.policy);
    say(&group.grant(0));
    say(&group.grant(1));
    let mut sender = group.member(provider, 0, (SENDS, PEER));
    let mut buffer = [0; LONGEST];
    let Ok(length) = sender.request(NOW, &REQUEST, &mut buffer) else { fail("no request") };
    let request = buffer.get(..length).unwrap_or_default().to_vec();
    say(&request);
    for number in 0..LISTENERS {
        let mut listener = group.member(provider, number + 1, (LISTENS, address(number)));
        listener.receive_multicast(NOW, PEER, &mut request.clone(), |_| {});
        let kind = RequestKind::Group;
        let response = listener.respond(NOW, SENDER, kind, &RESPONSE, &mut buffer);
        let Ok((_, length)) = response else { fail("no response") };
        say(buffer.get(..length).unwrap_or_default());
    }
    exit(0)
}
