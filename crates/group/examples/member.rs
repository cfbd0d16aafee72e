//! A group of two members with their controller in one process: the switch sends a request to the
//! group's multicast address over the loopback interface, and the lamp receives it.
//!
//! A host adds DTLS between members and controller, and durable stores: `lightseal-group-host`.
//! Run it with `cargo run --example member`.
#![allow(clippy::disallowed_methods, reason = "an example is a host, and a host owns the clock")]

use lightseal_dtls::crypto::{CipherSuiteId, rustcrypto::PROVIDER};
use lightseal_group::control::{
    Admitted, Answer, AnswerMessage, GroupName, Request, RequestMessage, RoleSet,
};
use lightseal_group::controller::{
    Controller, Group, Output, Roster, Settings, Store, StoreFailed, StoreUpdate,
};
use lightseal_group::keys::{ControllerSecret, KeyPath, KeyServer};
use lightseal_group::member::{Delivery, Member, Membership};
use lightseal_group::numbers::{Ledger, LedgerFailed};
use lightseal_group::policy::{Policy, Profile};
use lightseal_group::{Decode, Encode, GroupId, Identity, Instant, Random, Writer};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

/// The loopback interface.
const HERE: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// A store in memory: the bound of the record numbers of each epoch. A real one survives restarts,
/// so that no record number is used twice.
#[derive(Default)]
struct Memory(BTreeMap<u64, u64>);

impl Ledger for Memory {
    fn newest(&self, _: &GroupId) -> Result<Option<u64>, LedgerFailed> {
        Ok(self.0.keys().next_back().copied())
    }
    fn reserved(&self, _: &GroupId, epoch: u64) -> Result<Option<u64>, LedgerFailed> {
        Ok(self.0.get(&epoch).copied())
    }
    fn reserve(&mut self, _: &GroupId, epoch: u64, below: u64) -> Result<(), LedgerFailed> {
        self.0.insert(epoch, below);
        Ok(())
    }
}

impl Store for Memory {
    fn commit(&mut self, _: &StoreUpdate<'_>) -> Result<(), StoreFailed> {
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut random = Random::from_os()?;
    let start = std::time::Instant::now();
    let now = || Instant::ZERO + start.elapsed();

    let (group, sender) = (UdpSocket::bind("0.0.0.0:0")?, UdpSocket::bind((HERE, 0))?);
    group.join_multicast_v4(&Ipv4Addr::new(239, 255, 77, 1), &HERE)?;
    group.set_read_timeout(Some(Duration::from_secs(5)))?;
    let id = GroupId(random.array());
    let address = ([239, 255, 77, 1], group.local_addr()?.port()).into();
    let suite = CipherSuiteId::AES_128_CCM_8_SHA256;
    let policy = Policy::new(id, address, Profile::Compact, suite, &mut random);
    let name = GroupName::new("lights").ok_or("not a name")?;
    let secret = ControllerSecret::from_seed(&random.array());
    let keys = KeyServer::new(policy.group, secret, &mut random);
    let new = Group { name: name.clone(), policy: policy.clone(), keys, roster: Roster::default() };
    let (store, ledger, rng) = (Box::<Memory>::default(), Box::<Memory>::default(), random.fork());
    let settings = Settings::default();
    let mut controller = Controller::new(new, settings, &PROVIDER, store, ledger, now(), rng)?;

    // Both devices ask to join. The controller collects requests for a while and answers together.
    let (mut identities, mut members) = (BTreeMap::new(), BTreeMap::new());
    for (device, sender) in [("switch", true), ("lamp", false)] {
        let roles = RoleSet { sender, listener: !sender };
        let (identity, nonce) = (Identity::generate(&mut random), random.array());
        let (name, keys) = (name.clone(), identity.public());
        let join = Request::Join { nonce, name, roles, address: HERE.into(), keys };
        let mut buf = [0; 700];
        let mut writer = Writer::new(&mut buf);
        RequestMessage::new(1, join).write(&mut writer).map_err(|_| "the request is too long")?;
        controller.handle(now(), device, roles, writer.finish());
        identities.insert(device.to_owned(), identity);
    }
    while !identities.is_empty() {
        std::thread::sleep(Duration::from_millis(50));
        controller.handle_timeout(now());
        while let Some(output) = controller.poll() {
            let Output::Answer { device, answer } = output else { continue };
            let answer = AnswerMessage::decode(&answer)?.answer;
            let Answer::Admitted(admitted) = answer else { return Err("refused".into()) };
            let Admitted { policy, roles, senders, controller, grant, .. } = *admitted;
            let identity = identities.remove(&device).ok_or("an answer to nobody")?;
            let (keys, _) = KeyPath::join(controller, grant);
            let member =
                Membership { policy, roles, address: HERE.into(), senders, keys, identity };
            let member =
                Member::new(member, &PROVIDER, Box::<Memory>::default(), now(), random.fork())?;
            println!("{device} is a member");
            members.insert(device, member);
        }
    }

    // A request to the group is one datagram, however many members there are.
    let mut buf = [0; 2048];
    let switch = members.get_mut("switch").ok_or("no switch")?;
    let len = switch.request(now(), b"on", &mut buf)?;
    sender.send_to(&buf[..len], policy.address)?;
    let (len, from) = group.recv_from(&mut buf)?;
    let lamp = members.get_mut("lamp").ok_or("no lamp")?;
    let mut received = false;
    lamp.receive_multicast(now(), from, &mut buf[..len], |delivery| {
        if let Delivery::Request { sender, content, .. } = delivery {
            println!("lamp: {sender:?} says {:?}", String::from_utf8_lossy(content));
            received = true;
        }
    });
    if received { Ok(()) } else { Err(format!("not received: {:?}", lamp.stats()).into()) }
}
