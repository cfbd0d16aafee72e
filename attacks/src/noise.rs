//! Arbitrary bytes sent to all ports of a group: active members and a controller receive random,
//! altered, truncated, foreign and repeated datagrams.
//!
//! All genuine datagrams were received before by all their receivers. Therefore none of the
//! datagrams sent now may be delivered, and none may change the state that a member keeps.

use crate::control_requests::{encoded, requests};
use crate::mutate;
use crate::parallel::shared;
use lightseal_core::{Decode, Instant, Random};
use lightseal_dtls::crypto::{CipherSuiteId, rustcrypto};
use lightseal_group::Policy;
use lightseal_group::control::{GroupName, Request, RequestMessage, RoleSet};
use lightseal_group::controller::{Controller, Group, Output, Roster, Settings};
use lightseal_group::policy::{Authenticity, Freshness, Profile, Responses};
use lightseal_group::rekey::{ControllerSecret, KeyServer};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use testkit::group::field::{self, CONTROLLER, Disk, Field, GROUP};
use testkit::group::site::{BOTH, Shelf};

/// Number of datagrams sent to one group.
const PER_ROUND: usize = 2000;
/// How many of the datagrams to a group are sent to its controller.
const TO_CONTROLLER: usize = 400;
/// First bytes of records of both profiles, and invalid ones.
const FIRST: [u8; 16] =
    [20, 23, 0xe8, 0xe9, 0xea, 0x38, 0x39, 0x3a, 0x3b, 0x3c, 0x3f, 0xf8, 0xf9, 0xfa, 0xfb, 0xff];

/// The effects of the noise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of datagrams sent.
    pub datagrams: usize,
    /// Number of datagrams shorter than the shortest tag.
    pub short: usize,
    /// Number of datagrams to members' own addresses.
    pub unicast: usize,
    /// Number of datagrams to the controller.
    pub to_controller: usize,
    /// Number of groups in which a member or the controller panicked.
    pub panics: usize,
    /// Number of payloads that were delivered.
    pub deliveries: usize,
    /// Number of datagrams after which the state of a member or controller had changed, or an
    /// unexpected message was to be sent.
    pub touched: usize,
    /// Number of groups whose members did not receive each other's records afterwards.
    pub deaf: usize,
    /// Descriptions of the first failures.
    pub failures: Vec<String>,
}

impl Report {
    fn failure(&mut self, what: impl FnOnce() -> String) {
        if self.failures.len() < 10 {
            self.failures.push(what());
        }
    }

    fn add(&mut self, other: Self) {
        self.datagrams += other.datagrams;
        self.short += other.short;
        self.unicast += other.unicast;
        self.to_controller += other.to_controller;
        self.panics += other.panics;
        self.deliveries += other.deliveries;
        self.touched += other.touched;
        self.deaf += other.deaf;
        self.failures.extend(other.failures);
        self.failures.truncate(20);
    }
}

/// Policies with every suite of both profiles, and with every other option.
fn policies() -> Vec<Policy> {
    let with = |profile, suite| Policy { suite, ..field::policy(profile) };
    let axiom = [
        CipherSuiteId::PSK_WITH_AES_128_CCM_8,
        CipherSuiteId::PSK_WITH_AES_128_CCM,
        CipherSuiteId::PSK_WITH_AES_128_GCM_SHA256,
        CipherSuiteId::PSK_WITH_CHACHA20_POLY1305_SHA256,
        CipherSuiteId::PSK_WITH_NULL_SHA256,
    ];
    let compact = [
        CipherSuiteId::AES_128_CTR_LIGHTMAC_8_SHA256,
        CipherSuiteId::AES_128_CTR_LIGHTMAC_SHA256,
        CipherSuiteId::AES_128_CCM_8_SHA256,
        CipherSuiteId::AES_128_CCM_SHA256,
        CipherSuiteId::AES_128_GCM_SHA256,
        CipherSuiteId::CHACHA20_POLY1305_SHA256,
    ];
    let mut policies: Vec<_> = axiom.map(|suite| with(Profile::Axiom12, suite)).into();
    policies.extend(compact.map(|suite| with(Profile::Compact, suite)));
    let short = with(Profile::Compact, CipherSuiteId::AES_128_CTR_LIGHTMAC_8_SHA256);
    let source = Policy { authenticity: Authenticity::Source, ..short.clone() };
    let pairwise = Policy { responses: Responses::Pairwise, ..short.clone() };
    let both = Policy { authenticity: Authenticity::Source, ..pairwise.clone() };
    let asking = Policy { freshness: Freshness::Challenge, ..both.clone() };
    policies.extend([source, pairwise, both, asking]);
    policies.push(Policy { freshness: Freshness::DropFirst, ..field::policy(Profile::Axiom12) });
    policies
}

/// A group of two senders that also listen and a third listener, which know each other, and all
/// datagrams that were sent in it.
fn lively(policy: &Policy, seed: u64) -> (Field, Vec<Vec<u8>>) {
    let mut field = Field::with(policy.clone(), seed);
    field.add(Some(1), true);
    field.add(Some(2), true);
    field.add(None, true);
    field.wait(20);
    field.acquaint();
    let mut said = Vec::new();
    // Under policies with challenges, listeners send them to the senders now.
    for _ in 0..2 {
        said.extend((0..2).map(|asking| field.ask(asking, b"first")));
        field.wait(2);
        said.extend(field.carry().into_iter().map(|transmit| transmit.datagram));
    }
    for turn in 0..4 {
        said.extend(talk(&mut field, turn));
    }
    said.extend(field.announced.iter().map(|(_, datagram)| datagram.clone()));
    (field, said)
}

/// Each sender sends a request and all others respond. Returns all datagrams sent.
fn talk(field: &mut Field, turn: u8) -> Vec<Vec<u8>> {
    let mut said = Vec::new();
    for asking in 0..2 {
        said.push(field.ask(asking, &[turn, 0xa5, 1]));
        for answering in (0..3).filter(|index| *index != asking) {
            said.push(field.answer(answering, asking, &[turn; 30]));
        }
        said.extend(field.carry().into_iter().map(|transmit| transmit.datagram));
    }
    said
}

fn noise(rng: &mut Random, own: &[Vec<u8>], foreign: &[Vec<u8>]) -> Vec<u8> {
    let pick =
        |rng: &mut Random, from: &[Vec<u8>]| from[rng.below(from.len() as u64) as usize].clone();
    match rng.below(10) {
        0 => {
            let mut bytes = vec![0; rng.below(120) as usize];
            rng.fill(&mut bytes);
            if let Some(first) = bytes.first_mut() {
                *first = FIRST[rng.below(FIRST.len() as u64) as usize];
            }
            if bytes.len() > 13 && rng.below(2) == 0 {
                bytes[1..3].copy_from_slice(&[0xfe, 0xfd]);
                let len = bytes.len() as u16 - 13;
                bytes[11..13].copy_from_slice(&len.to_be_bytes());
            }
            bytes
        }
        1 => mutate::noise(rng),
        // A datagram as it was sent, and one of another group with the same name.
        2 => pick(rng, own),
        3 => pick(rng, foreign),
        4 => {
            let mut bytes = pick(rng, own);
            bytes.truncate(rng.below(28) as usize);
            bytes
        }
        // A change in the first bytes, which hold IDs, epochs and numbers.
        5 | 6 => {
            let mut bytes = pick(rng, own);
            let end = bytes.len().min(20) as u64;
            if let Some(byte) = bytes.get_mut(rng.below(end.max(1)) as usize) {
                *byte = rng.below(256) as u8;
            }
            bytes
        }
        _ => mutate::altered(rng, own),
    }
}

/// Sends noise to one group.
fn round(policy: &Policy, seed: u64, report: &mut Report) {
    let mut rng = Random::insecure(seed ^ 0x0015_e5ed);
    let (mut field, own) = lively(policy, seed);
    let (_, foreign) = lively(policy, seed ^ 1);
    field.devices.iter_mut().for_each(|device| {
        device.take_events();
        device.got.clear();
    });
    let stranger: SocketAddr = "[2001:db8::bad]:1".parse().expect("an address");
    for _ in 0..PER_ROUND - TO_CONTROLLER {
        let bytes = noise(&mut rng, &own, &foreign);
        let from = match rng.below(4) {
            0 => stranger,
            1 => CONTROLLER.parse().expect("an address"),
            _ => field.devices[rng.below(3) as usize].address,
        };
        let to = rng.below(3) as usize;
        let (now, device) = (field.now, &mut field.devices[to]);
        let before = device.member.state_for_tests();
        report.datagrams += 1;
        report.short += usize::from(bytes.len() < 8);
        if rng.below(2) == 0 {
            device.hear(now, from, &bytes);
        } else {
            report.unicast += 1;
            device.hear_alone(now, from, &bytes);
        }
        let delivered = device.got.drain(..).count();
        let after = device.member.state_for_tests();
        report.deliveries += delivered;
        report.touched += usize::from(before != after);
        if delivered > 0 || before != after {
            let told: Vec<_> = device.events();
            report.failure(|| {
                format!("{policy:?} seed {seed}: {bytes:02x?}: {before} became {after}, {told:?}")
            });
        }
    }
    // Members may have lookups pending because of the noise. They are sent and answered soon.
    field.wait(20);
    field.acquaint();
    for index in 0..3 {
        field.devices[index].take_events();
        field.grant(index);
    }
    field.devices.iter_mut().for_each(|device| device.got.clear());
    talk(&mut field, 9);
    // There are two requests, of which each sender receives the other one's, and four responses.
    let heard: Vec<usize> = field.devices.iter().map(|device| device.got.len()).collect();
    if heard != [3, 3, 2] {
        report.deaf += 1;
        report.failure(|| {
            format!("{policy:?} seed {seed}: afterwards devices received {heard:?} records")
        });
    }
}

const NONE: RoleSet = RoleSet { sender: false, listener: false };

/// A controller with members.
fn controller(policy: &Policy, rng: &mut Random) -> (Controller, Instant) {
    let keys = KeyServer::new(GROUP, ControllerSecret::from_seed(&rng.array()), rng);
    let name = GroupName::new("lights").expect("a name");
    let group = Group { name, policy: policy.clone(), keys, roster: Roster::default() };
    let mut now = Instant::from_micros(5_000_000);
    let (store, ledger) = (Box::new(Shelf::default()), Box::new(Disk::default()));
    let (provider, settings) = (&rustcrypto::PROVIDER, Settings::default());
    let mut controller = Controller::new(group, settings, provider, store, ledger, now, rng.fork())
        .expect("a valid policy");
    for (index, join) in requests().into_iter().filter(is_join).enumerate() {
        controller.handle(now, &format!("device {index}"), BOTH, &encoded(&join));
    }
    now += Duration::from_secs(5);
    controller.handle_timeout(now);
    assert!(controller.roster().iter().count() > 0, "at least one device joined");
    while controller.poll().is_some() {}
    (controller, now)
}

fn is_join(request: &RequestMessage) -> bool {
    matches!(request.request, Request::Join { .. })
}

/// The visible state of a controller.
fn seen(controller: &Controller) -> String {
    let members: Vec<_> = controller.roster().iter().collect();
    format!("{} {members:?} {:?}", controller.epoch(), controller.wake_at())
}

/// Sends altered requests of members and strangers to a controller.
fn control_round(policy: &Policy, seed: u64, report: &mut Report) {
    let mut rng = Random::insecure(seed ^ 0xc0);
    let (mut controller, now) = controller(policy, &mut rng);
    let corpus: Vec<_> = requests().iter().map(encoded).collect();
    for _ in 0..TO_CONTROLLER {
        let bytes = match rng.below(4) {
            0 => mutate::noise(&mut rng),
            _ => mutate::altered(&mut rng, &corpus),
        };
        let is_message = RequestMessage::decode(&bytes).is_ok();
        // A request that cannot be decoded is answered with an error if its head can be.
        let has_head = RequestMessage::head(&bytes).is_some();
        // Valid requests are sent as a stranger only, because those of a member would be carried
        // out.
        let is_stranger = is_message || rng.below(2) == 0;
        let (device, may) = if is_stranger { ("a stranger", NONE) } else { ("device 0", BOTH) };
        let before = seen(&controller);
        controller.handle(now, device, may, &bytes);
        report.datagrams += 1;
        report.to_controller += 1;
        let outputs: Vec<_> = std::iter::from_fn(|| controller.poll()).collect();
        let only_answered = outputs.iter().all(|output| match output {
            Output::Answer { device: to, .. } => to == device && has_head,
            Output::MalformedRequest(by) => by == device && has_head && !is_message,
            _ => false,
        });
        let after = seen(&controller);
        if before != after || !only_answered {
            report.touched += 1;
            report.failure(|| format!("{bytes:02x?}: {before} became {after}, {outputs:?}"));
        }
    }
}

/// Sends at least `datagrams` of noise, to groups with every policy in turn.
pub fn run(seed: u64, datagrams: usize) -> Report {
    let policies = policies();
    let rounds: Vec<usize> = (0..datagrams.div_ceil(PER_ROUND)).collect();
    let reports = shared(&rounds, |round_index| {
        let policy = &policies[round_index % policies.len()];
        // Seeds are used in pairs: the one with the lowest bit set is for the other group.
        let seed = seed.wrapping_mul(1 << 32).wrapping_add(*round_index as u64 * 2);
        let mut report = Report::default();
        let attempt = AssertUnwindSafe(|| {
            round(policy, seed, &mut report);
            control_round(policy, seed, &mut report);
        });
        if catch_unwind(attempt).is_err() {
            report.panics += 1;
            report.failure(|| format!("{policy:?} seed {seed}: panic"));
        }
        report
    });
    reports.into_iter().fold(Report::default(), |mut sum, report| {
        sum.add(report);
        sum
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Genuine new datagrams are delivered and change the state. If they did not, the effects of
    /// noise would not be noticed either.
    #[test]
    fn what_is_new_is_noticed() {
        for policy in policies() {
            let (mut field, _) = lively(&policy, 5);
            field.devices.iter_mut().for_each(|device| device.got.clear());
            let before: Vec<_> =
                field.devices.iter().map(|device| device.member.state_for_tests()).collect();
            talk(&mut field, 7);
            for (device, before) in field.devices.iter().zip(&before) {
                assert!(device.got.len() >= 2, "{policy:?}");
                assert_ne!(device.member.state_for_tests(), *before, "{policy:?}");
            }
            let before = field.devices[2].member.state_for_tests();
            field.change(&[], 0, |_| true);
            assert_ne!(field.devices[2].member.state_for_tests(), before, "{policy:?}");
        }
        let mut rng = Random::insecure(5);
        let (mut controller, now) = controller(&policies()[0], &mut rng);
        let before = seen(&controller);
        let _ = controller.evict(now, "device 0");
        assert_ne!(seen(&controller), before);
    }
}
