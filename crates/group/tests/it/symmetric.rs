//! Symmetric members without a heap, among members of hosts: both seal the same bytes, deliver the
//! same records, and refuse the same.

use lightseal_aes_table::Aes128;
use lightseal_core::{Instant, Random};
use lightseal_dtls::crypto::CipherSuiteId;
use lightseal_group::member::{DatagramOrigin, Delivery, RequestKind, Roles, SendError};
use lightseal_group::policy::{Authenticity, Freshness, Profile, Responses};
use lightseal_group::symmetric::{
    Ccm, Refusal, SymmetricEvent, SymmetricMember, SymmetricMemberError, SymmetricMembership,
};
use lightseal_group::{Policy, SenderId, SenderSet};
use std::collections::BTreeSet;
use std::time::Duration;
use testkit::group::field::{Disk, Field, Got, policy, timing};

const SENDERS: usize = 2;
const LISTENERS: usize = 3;
type Symmetric = SymmetricMember<Ccm<Aes128, 8>, Disk, SENDERS, LISTENERS>;

/// A group of a switch and three lights in the same epoch.
fn room(policy: Policy) -> Field {
    let mut field = Field::with(policy, 1);
    field.add(Some(7), false);
    for _ in 0..3 {
        field.add(None, true);
    }
    field.wait(20);
    field
}

fn each(test: impl Fn(Profile)) {
    Profile::ALL.iter().copied().for_each(test);
}

/// The bytes of the current grant for a device.
fn grant(field: &Field, index: usize) -> Vec<u8> {
    field.keys.grant(field.devices[index].leaf, timing()).unwrap().to_bytes().to_vec()
}

/// A symmetric member with the keys, roles and address of a device.
fn in_place_of(field: &Field, index: usize, disk: &Disk) -> Symmetric {
    let device = &field.devices[index];
    let grant = grant(field, index);
    let membership = SymmetricMembership {
        policy: field.policy.clone(),
        roles: device.roles,
        address: device.address.ip(),
        senders: field.senders(),
        grant: &grant,
    };
    Symmetric::new(membership, disk.clone(), field.now, 5).unwrap()
}

fn new(field: &Field, index: usize) -> Symmetric {
    in_place_of(field, index, &Disk::default())
}

/// What a symmetric member delivers of a datagram from a device.
fn hear(
    member: &mut Symmetric,
    (field, from): (&Field, usize),
    datagram: &[u8],
    is_multicast: bool,
) -> (Vec<Got>, DatagramOrigin) {
    let (mut got, mut datagram) = (Vec::new(), datagram.to_vec());
    let deliver = |delivery: Delivery<'_>| {
        got.push(match delivery {
            Delivery::Request { sender, content, .. } => Got::Request(sender, content.to_vec()),
            Delivery::Response { listener, content, .. } => {
                Got::Response(listener, content.to_vec())
            }
            Delivery::DirectRequest { .. } => panic!("there are no pairwise keys"),
        });
    };
    let from = field.devices[from].address;
    let origin = if is_multicast {
        member.receive_multicast(field.now, from, &mut datagram, deliver)
    } else {
        member.receive_unicast(field.now, from, &mut datagram, deliver)
    };
    (got, origin)
}

fn ask(member: &mut Symmetric, now: Instant, content: &[u8]) -> Result<Vec<u8>, SendError> {
    let mut buf = [0; 200];
    let len = member.request(now, content, &mut buf)?;
    Ok(buf[..len].to_vec())
}

fn answer(member: &mut Symmetric, now: Instant, content: &[u8]) -> Result<Vec<u8>, SendError> {
    let mut buf = [0; 200];
    let (_, len) = member.respond(now, SenderId(7), content, &mut buf)?;
    Ok(buf[..len].to_vec())
}

fn events(member: &mut Symmetric) -> Vec<SymmetricEvent> {
    std::iter::from_fn(|| member.next_event()).collect()
}

#[test]
fn both_kinds_of_members_seal_the_same_bytes() {
    each(|profile| {
        let mut field = room(policy(profile));
        let now = field.now;
        let (mut switch, mut light) = (new(&field, 0), new(&field, 1));
        let (mut host_switch, mut host_light) = (field.stand_in(0), field.stand_in(1));
        let mut buf = [0; 200];
        for number in 0..5u8 {
            let asked = ask(&mut switch, now, &[number; 20]).unwrap();
            let len = host_switch.request(now, &[number; 20], &mut buf).unwrap();
            assert_eq!(asked, buf[..len]);
            let from = field.devices[0].address;
            hear(&mut light, (&field, 0), &asked, true);
            host_light.receive_multicast(now, from, &mut asked.clone(), |_| {});
            let answered = answer(&mut light, now, &[number; 9]).unwrap();
            let answer =
                host_light.respond(now, SenderId(7), RequestKind::Group, &[number; 9], &mut buf);
            let (to, len) = answer.unwrap();
            assert!(answered == buf[..len] && to == from);
        }
    });
}

#[test]
fn members_with_and_without_a_heap_answer_each_other() {
    each(|profile| {
        let mut field = room(policy(profile));
        let now = field.now;
        let (mut switch, mut light) = (new(&field, 0), new(&field, 1));
        // The symmetric switch asks the host's lights.
        let asked = ask(&mut switch, now, b"on").unwrap();
        let to = field.policy.address;
        field.deliver(0, to, &asked);
        assert_eq!(field.devices[2].got, [Got::Request(SenderId(7), b"on".into())]);
        let answered = field.devices[2].answer(now, SenderId(7), b"is on").unwrap();
        let (got, origin) = hear(&mut switch, (&field, 2), &answered, false);
        assert!(matches!(&got[..], [Got::Response(_, content)] if content == b"is on"));
        assert_eq!(origin, DatagramOrigin::Member);
        assert_eq!(hear(&mut switch, (&field, 2), &answered, false).0, []);
        // The host's switch asks the symmetric light.
        let mut host = field.stand_in(0);
        let mut buf = [0; 200];
        let len = host.request(now, b"off", &mut buf).unwrap();
        let (got, _) = hear(&mut light, (&field, 0), &buf[..len], true);
        assert_eq!(got, [Got::Request(SenderId(7), b"off".into())]);
        assert_eq!(
            hear(&mut light, (&field, 0), &buf[..len], true),
            (vec![], DatagramOrigin::Unproven)
        );
        let answered = answer(&mut light, now, b"is off").unwrap();
        let mut got = Vec::new();
        let from = field.devices[1].address;
        host.receive_unicast(now, from, &mut answered.clone(), |delivery| {
            got.push(format!("{delivery:?}"));
        });
        assert_eq!(got.len(), 1);
    });
}

/// Datagrams of several senders in any order, altered, cut, repeated or under wrong SenderIDs, for a
/// host's member and a symmetric one.
#[test]
fn both_kinds_of_members_deliver_the_same_of_whatever_arrives() {
    each(|profile| {
        for seed in 0..20 {
            let mut rng = Random::insecure(seed);
            let mut field = room(policy(profile));
            field.add(Some(9), true);
            field.wait(20);
            let now = field.now;
            let (mut light, mut host) = (new(&field, 1), field.stand_in(1));
            let mut sent: Vec<(usize, Vec<u8>)> = Vec::new();
            let mut delivered = 0;
            for step in 0..200u8 {
                let from = if rng.below(2) == 0 { 0 } else { 4 };
                let index = match rng.below(3) {
                    0 if !sent.is_empty() => rng.below(sent.len() as u64) as usize,
                    _ => {
                        sent.push((from, field.devices[from].ask(now, &[step]).unwrap()));
                        sent.len() - 1
                    }
                };
                let (from, mut datagram) = sent[index].clone();
                match rng.below(4) {
                    0 => {
                        let at = rng.below(datagram.len() as u64) as usize;
                        datagram[at] ^= 1 << rng.below(8);
                    }
                    1 => datagram.truncate(rng.below(datagram.len() as u64) as usize),
                    _ => {}
                }
                let mut got = Vec::new();
                let address = field.devices[from].address;
                let origin =
                    host.receive_multicast(now, address, &mut datagram.clone(), |delivery| {
                        let Delivery::Request { sender, content, .. } = delivery else {
                            panic!("a request")
                        };
                        got.push(Got::Request(sender, content.to_vec()));
                    });
                delivered += got.len();
                let both = hear(&mut light, (&field, from), &datagram, true);
                assert_eq!(both, (got, origin), "seed {seed}, step {step}");
            }
            assert!(delivered > 50, "{delivered}");
        }
    });
}

#[test]
fn a_rekey_that_was_missed_is_asked_for_and_the_old_epoch_ends() {
    each(|profile| {
        let mut field = room(policy(profile));
        let mut light = new(&field, 1);
        let before = field.devices[0].ask(field.now, b"before").unwrap();
        let late = field.devices[0].ask(field.now, b"late").unwrap();
        let old = grant(&field, 1);
        field.add(None, true);
        field.wait(20);
        let asked = field.devices[0].ask(field.now, b"on").unwrap();
        assert_eq!(hear(&mut light, (&field, 0), &asked, true).0, []);
        let at = light.wake_at(field.now);
        assert!(at <= field.now + Duration::from_secs(10));
        light.handle_timeout(at);
        assert!(matches!(events(&mut light)[..], [SymmetricEvent::Pull(_)]));
        assert_eq!(light.grant(field.now, &grant(&field, 1)), Ok(()));
        let epoch = field.keys.epoch();
        assert_eq!(events(&mut light), [SymmetricEvent::Rekeyed(epoch)]);
        assert_eq!(light.grant(field.now, &old), Err(Refusal::Stale));
        // The new epoch is active a second after its grant, and the old one is received for ten more.
        assert_eq!(hear(&mut light, (&field, 0), &asked, true).0.len(), 1);
        assert_eq!(hear(&mut light, (&field, 0), &before, true).0.len(), 1);
        assert_eq!(light.epoch(field.now), epoch - 1);
        field.now += Duration::from_secs(1);
        assert_eq!(light.epoch(field.now), epoch);
        field.now += Duration::from_secs(10);
        assert_eq!(hear(&mut light, (&field, 0), &late, true).0, []);
    });
}

#[test]
fn an_announced_rekey_is_asked_for() {
    each(|profile| {
        let mut field = room(policy(profile));
        let mut light = new(&field, 1);
        field.add(None, true);
        let (_, announced) = field.announced.last().unwrap().clone();
        let (got, origin) = hear(&mut light, (&field, 0), &announced, true);
        assert_eq!((got.len(), origin), (0, DatagramOrigin::Member));
        light.handle_timeout(field.now + Duration::from_secs(10));
        assert!(matches!(events(&mut light)[..], [SymmetricEvent::Pull(_)]));
    });
}

#[test]
fn after_a_restart_no_number_repeats_and_nothing_old_is_delivered() {
    each(|profile| {
        let field = &mut room(policy(profile));
        let now = field.now;
        let disk = Disk::default();
        let mut seen = BTreeSet::new();
        for run in 0..3 {
            let mut switch = in_place_of(field, 0, &disk);
            let needed = events(&mut switch).contains(&SymmetricEvent::NewEpochNeeded);
            assert_eq!(needed, run > 0);
            for _ in 0..5 {
                // With equal content, equal numbers would give equal datagrams.
                assert!(seen.insert(ask(&mut switch, now, b"the same").unwrap()));
            }
        }
        let disk = Disk::default();
        let asked = field.devices[0].ask(now, b"on").unwrap();
        let mut light = in_place_of(field, 1, &disk);
        assert_eq!(hear(&mut light, (field, 0), &asked, true).0.len(), 1);
        let mut light = in_place_of(field, 1, &disk);
        assert_eq!(events(&mut light), [SymmetricEvent::NewEpochNeeded]);
        let again = field.devices[0].ask(now, b"off").unwrap();
        assert_eq!(hear(&mut light, (field, 0), &asked, true).0, []);
        assert_eq!(hear(&mut light, (field, 0), &again, true).0, []);
        field.add(None, true);
        field.wait(20);
        light.grant(field.now, &grant(field, 1)).unwrap();
        let asked = field.devices[0].ask(field.now, b"on").unwrap();
        assert_eq!(hear(&mut light, (field, 0), &asked, true).0.len(), 1);
    });
}

#[test]
fn a_listener_that_drops_the_first_record_recognises_replays_from_then_on() {
    let drop_first = Policy { freshness: Freshness::DropFirst, ..policy(Profile::Axiom12) };
    let mut field = room(drop_first);
    let disk = Disk::default();
    let asked: Vec<_> = (0..3).map(|n| field.devices[0].ask(field.now, &[n]).unwrap()).collect();
    drop(in_place_of(&field, 1, &disk));
    let mut light = in_place_of(&field, 1, &disk);
    let got: Vec<_> = [1, 0, 1, 2, 2]
        .map(|index: usize| hear(&mut light, (&field, 0), &asked[index], true).0.len())
        .to_vec();
    assert_eq!(got, [0, 0, 0, 1, 0]);
}

#[test]
fn peers_for_which_there_is_no_room_are_not_heard() {
    each(|profile| {
        let mut field = room(policy(profile));
        let more: Vec<_> = (0..SENDERS as u8).map(|n| field.add(Some(20 + n), true)).collect();
        field.wait(20);
        let now = field.now;
        let mut light = new(&field, 1);
        let mut heard = 0;
        for &from in [0].iter().chain(&more) {
            for n in 0..2 {
                let asked = field.devices[from].ask(now, &[n]).unwrap();
                heard += hear(&mut light, (&field, from), &asked, true).0.len();
                // A replay is not delivered, whether there was room or not.
                assert_eq!(hear(&mut light, (&field, from), &asked, true).0, []);
            }
        }
        assert_eq!(heard, 2 * SENDERS);
        let mut switch = new(&field, 0);
        let asked = ask(&mut switch, now, b"on").unwrap();
        field.deliver(0, field.policy.address, &asked);
        let mut heard = 0;
        for light in 1..field.devices.len() {
            let answered = field.devices[light].answer(now, SenderId(7), b"yes").unwrap();
            heard += hear(&mut switch, (&field, light), &answered, false).0.len();
            assert_eq!(hear(&mut switch, (&field, light), &answered, false).0, []);
        }
        assert_eq!(heard, LISTENERS);
    });
}

#[test]
fn sync_records_let_a_listener_follow_that_was_asleep() {
    let field = room(policy(Profile::Compact));
    let now = field.now;
    let (mut switch, mut light) = (new(&field, 0), new(&field, 1));
    let mut buf = [0; 200];
    for _ in 0..4096 {
        assert!(switch.poll_transmit(now, &mut buf).is_none());
        ask(&mut switch, now, b"on").unwrap();
    }
    assert_eq!(switch.wake_at(now), now);
    let (to, len) = switch.poll_transmit(now, &mut buf).unwrap();
    assert_eq!(to, field.policy.address);
    let sync = buf[..len].to_vec();
    assert!(switch.poll_transmit(now, &mut buf).is_none());
    for _ in 0..20 {
        (0..4000).for_each(|_| drop(ask(&mut switch, now, b"on").unwrap()));
        if let Some((_, len)) = switch.poll_transmit(now, &mut buf) {
            hear(&mut light, (&field, 0), &buf[..len], true);
        }
    }
    hear(&mut light, (&field, 0), &sync, true);
    let asked = ask(&mut switch, now, b"at last").unwrap();
    let (got, _) = hear(&mut light, (&field, 0), &asked, true);
    assert_eq!(got, [Got::Request(SenderId(7), b"at last".into())]);
    // The first number without a sync record is followed by one in time.
    let mut other = new(&field, 0);
    ask(&mut other, now, b"on").unwrap();
    let due = now + Duration::from_secs(600);
    assert!(other.wake_at(now) <= due && other.poll_transmit(due, &mut buf).is_some());
}

#[test]
fn nothing_is_sealed_without_a_ledger_a_role_or_the_controllers_answer() {
    each(|profile| {
        let field = room(policy(profile));
        let now = field.now;
        let disk = Disk::default();
        disk.0.lock().unwrap().fails = true;
        let mut switch = in_place_of(&field, 0, &disk);
        assert!(matches!(ask(&mut switch, now, b"on"), Err(SendError::Number(_))));
        let mut light = new(&field, 1);
        assert_eq!(ask(&mut light, now, b"on"), Err(SendError::Role));
        assert_eq!(answer(&mut light, now, b"on"), Err(SendError::UnknownSender));
        let mut switch = new(&field, 0);
        assert_eq!(answer(&mut switch, now, b"on"), Err(SendError::Role));
        switch.receive_only();
        assert_eq!(ask(&mut switch, now, b"on"), Err(SendError::NotStarted));
        switch.started(now, &grant(&field, 0)).unwrap();
        assert!(ask(&mut switch, now, b"on").is_ok());
        assert_eq!(switch.request(now, b"on", &mut [0; 10]), Err(SendError::TooLong));
    });
}

#[test]
fn another_sender_under_the_same_id_and_unknown_senders_are_reported() {
    each(|profile| {
        let mut field = room(policy(profile));
        let now = field.now;
        let mut switch = new(&field, 0);
        let asked = field.devices[0].ask(now, b"on").unwrap();
        hear(&mut switch, (&field, 0), &asked, true);
        assert_eq!(events(&mut switch), [SymmetricEvent::SenderConflict]);
        let mut light = new(&field, 1);
        light.set_senders(SenderSet::from([SenderId(8)]));
        assert_eq!(hear(&mut light, (&field, 0), &asked, true).0, []);
        let forged = [&asked[..asked.len() - 1], &[!asked[asked.len() - 1]]].concat();
        let mut other = new(&field, 2);
        other.set_senders(SenderSet::from([SenderId(8)]));
        hear(&mut other, (&field, 0), &forged, true);
        assert_eq!(events(&mut light), [SymmetricEvent::UnknownSender(SenderId(7))]);
        assert_eq!(events(&mut other), []);
    });
}

#[test]
fn what_a_symmetric_member_cannot_be_is_refused() {
    let field = room(policy(Profile::Compact));
    let good = grant(&field, 1);
    let start = |policy: Policy, grant: &[u8]| {
        let membership = SymmetricMembership {
            policy,
            roles: Roles { sender: None, listener: true },
            address: field.devices[1].address.ip(),
            senders: field.senders(),
            grant,
        };
        Symmetric::new(membership, Disk::default(), field.now, 1).err()
    };
    let compact = || policy(Profile::Compact);
    assert_eq!(start(compact(), &good), None);
    let signed = Policy { authenticity: Authenticity::Source, ..compact() };
    let paired = Policy { responses: Responses::Pairwise, ..compact() };
    let unicast = Policy { address: "[fd00::1]:5684".parse().unwrap(), ..compact() };
    for wrong in [signed, paired, unicast] {
        assert_eq!(start(wrong, &good), Some(SymmetricMemberError::Policy));
    }
    let longer = Policy { suite: CipherSuiteId::AES_128_CCM_SHA256, ..compact() };
    assert_eq!(start(longer, &good), Some(SymmetricMemberError::Suite));
    let mut other = compact();
    other.group.0[0] ^= 1;
    let refused = SymmetricMemberError::Grant(Refusal::OtherGroup);
    assert_eq!(start(other, &good), Some(refused));
    for cut in 0..good.len() {
        let refused = start(compact(), &good[..cut]);
        assert!(matches!(refused, Some(SymmetricMemberError::Grant(Refusal::Malformed(_)))));
    }
}
