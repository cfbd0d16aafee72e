//! Key agreement between two gateways whose management channel is lost at any time.

use core::time::Duration;
use lightseal_gateway::control::{Event, Output, messages};
use testkit::gateway::world::{self, Flow, World, index};

#[test]
fn a_peer_that_proposes_keys_again_and_again_fills_no_memory() {
    let mut world = World::up_sealed(2);
    let site = &mut world.sites[1];
    let proposal = |nonce| {
        let offer = messages::Offer { epoch: 2, nonce: [nonce; 32], index: 7 };
        messages::Message::Propose(offer).to_vec()
    };
    for round in 0..100 {
        site.control.handle_message(world.now, index(1, 0), &proposal(round));
        assert_eq!(
            site.gateway.links().receiver_count(),
            2,
            "the keys in use and the keys that were offered"
        );
    }
    for round in 0..100 {
        site.control.handle_down(world.now, index(1, 0));
        let most = 2 + usize::from(round.min(3));
        assert_eq!(
            site.gateway.links().receiver_count(),
            most,
            "keys are kept that the proposer may seal with"
        );
        site.control.handle_up(world.now, index(1, 0), [round; 32].into());
        let hello = messages::Hello {
            version: messages::VERSION,
            scheme: lightseal_gateway::schemes::SchemeName::Sealed.code(),
        };
        let offer = messages::Offer { epoch: 1, nonce: [round; 32], index: 7 };
        for message in [messages::Message::Hello(hello), messages::Message::Propose(offer)] {
            site.control.handle_message(world.now, index(1, 0), &message.to_vec());
        }
        assert_eq!(site.gateway.links().receiver_count(), most + 1);
    }
}

/// The messages of `site` for its only peer; all other outputs are discarded.
fn said(world: &mut World, site: usize) -> Vec<Vec<u8>> {
    let mut said = Vec::new();
    while let Some(output) = world.sites[site].control.poll(world.now) {
        if let Output::Message(_, bytes) = output {
            said.push(bytes.to_vec());
        }
    }
    said
}

#[test]
fn a_channel_that_is_lost_before_all_are_ready_leaves_frames_their_way() {
    // The channel is lost before the proposal, after it, after the answer, or after Ready.
    for messages in 0..=3 {
        let mut world = World::up_sealed(2);
        world.sites[0].control.rekey();
        world.sites[0].control.handle_timeout(world.now);
        for (from, to) in [(0, 1), (1, 0), (0, 1)].into_iter().take(messages) {
            for bytes in said(&mut world, from) {
                world.sites[to].control.handle_message(world.now, index(to, from), &bytes);
            }
        }
        for site in [0, 1] {
            world.sites[site].control.handle_down(world.now, index(site, 1 - site));
            assert_eq!(said(&mut world, site), [[0; 0]; 0], "there is no channel");
        }
        let mut pn = 0;
        for _ in 0..40 {
            for (from, to) in [(0, 1), (1, 0)] {
                pn += 1;
                let frame = Flow::between(from, to).frame(pn, 100);
                world.carry(from, &frame);
                assert_eq!(world.sites[to].lan.pop(), Some(frame), "{pn} after {messages}");
            }
            world.advance(Duration::from_secs(1));
            world.deliver();
        }
        for site in &world.sites {
            assert!(site.gateway.links().receiver_count() <= 2);
        }
        world.connect_two(0, 1, [0x77; 32]);
        world.settle();
        world.advance(Duration::from_secs(11));
        for (site, (from, to)) in [(0, 1), (1, 0)].into_iter().enumerate() {
            let frame = Flow::between(from, to).frame(1000, 100);
            world.carry(from, &frame);
            assert_eq!(world.sites[to].lan.pop(), Some(frame));
            assert_eq!(world.sites[site].gateway.links().receiver_count(), 1);
        }
    }
}

/// Delivers the messages of `from`, and nothing else.
fn pass(world: &mut World, from: usize) {
    for bytes in said(world, from) {
        let to = 1 - from;
        world.sites[to].control.handle_message(world.now, index(to, from), &bytes);
    }
}

fn lose_channel(world: &mut World) {
    for site in [0, 1] {
        world.sites[site].control.handle_down(world.now, index(site, 1 - site));
        assert_eq!(said(world, site), [[0; 0]; 0], "there is no channel");
    }
}

/// Brings a channel up, on which the leader proposes and the follower answers. The answer is not
/// delivered yet.
fn answered(world: &mut World, round: u8) {
    world.connect_two(0, 1, [round; 32]);
    pass(world, 0);
    pass(world, 1);
    pass(world, 0);
}

/// The leader seals with new keys, and the follower has not received Ready.
fn agreed_in_secret(world: &mut World, round: u8) {
    answered(world, round);
    pass(world, 1);
    said(world, 0);
}

fn works(world: &mut World, pn: u32) {
    for (from, to) in [(0, 1), (1, 0), (0, 1), (1, 0)] {
        let frame = Flow::between(from, to).frame(pn, 100);
        world.carry(from, &frame);
        assert_eq!(world.sites[to].lan.pop(), Some(frame), "{pn} to {to}");
        world.advance(Duration::from_millis(100));
        world.deliver();
    }
}

#[test]
fn keys_of_a_lost_channel_open_until_others_are_agreed_on_however_many_are_lost() {
    for lost in 0..=3 {
        let mut world = World::up_sealed(2);
        agreed_in_secret(&mut world, 1);
        lose_channel(&mut world);
        for round in 0..lost {
            answered(&mut world, 2 + round);
            lose_channel(&mut world);
        }
        works(&mut world, 1);
        world.advance(Duration::from_secs(11));
        works(&mut world, 2);
        world.connect_two(0, 1, [0x77; 32]);
        world.settle();
        world.advance(Duration::from_secs(11));
        works(&mut world, 3);
        for site in &world.sites {
            assert_eq!(site.gateway.links().receiver_count(), 1);
        }
    }
}

#[test]
fn what_comes_late_under_keys_of_a_lost_channel_takes_none_of_newer_ones_away() {
    // The channel of the second agreement is lost, or stays up.
    for is_lost in [true, false] {
        let mut world = World::up_sealed(2);
        agreed_in_secret(&mut world, 1);
        world.frame(0, &Flow::between(0, 1).frame(1, 100));
        let late = world.wire.pop_back().unwrap();
        lose_channel(&mut world);
        answered(&mut world, 2);
        pass(&mut world, 1);
        let ready = said(&mut world, 0);
        if is_lost {
            lose_channel(&mut world);
        }
        assert!(world.arrive(&late));
        world.sites[1].control.handle_timeout(world.now);
        for bytes in ready.into_iter().filter(|_| !is_lost) {
            world.sites[1].control.handle_message(world.now, index(1, 0), &bytes);
        }
        world.sites[1].lan.clear();
        said(&mut world, 1);
        for second in 0..20 {
            world.now += Duration::from_secs(1);
            let _keepalive = said(&mut world, 1);
            world.sites[1].control.handle_timeout(world.now);
            if second == 15 {
                works(&mut world, 2);
            }
        }
        works(&mut world, 3);
    }
}

#[test]
fn keys_that_near_their_end_are_proposed_once_when_the_channel_returns() {
    for site in [0, 1] {
        let mut world = World::up_sealed(2);
        for site in [0, 1] {
            world.sites[site].control.handle_down(world.now, index(site, 1 - site));
        }
        // A lane that does not exist reports its key as used up.
        let gateway = std::sync::Arc::clone(&world.sites[site].gateway);
        let peer = index(site, 1 - site);
        world::in_room(&[], |packet| {
            gateway
                .seal_encrypted(
                    16,
                    peer,
                    lightseal_gateway::codepoints::EncryptedContent::Keepalive,
                    packet,
                )
                .ok()
        });
        assert!(gateway.links().get(peer).unwrap().needs_rekey());
        world.connect_two(0, 1, [0x77; 32]);
        // Timers run after the channel is up and before the peer's Hello arrives.
        for site in &mut world.sites {
            site.control.handle_timeout(world.now);
        }
        world.settle();
        for (from, to) in [(0, 1), (1, 0)] {
            let frame = Flow::between(from, to).frame(1, 100);
            world.carry(from, &frame);
            assert_eq!(world.sites[to].lan.pop(), Some(frame));
        }
        let ups = |event: &&Event| matches!(event, Event::Up(..));
        for site in &world.sites {
            assert_eq!(site.events.iter().filter(ups).count(), 2, "{:?}", site.events);
        }
    }
}

#[test]
fn a_second_hello_closes_the_channel() {
    let mut world = World::up_sealed(2);
    let (version, scheme) =
        (messages::VERSION, lightseal_gateway::schemes::SchemeName::Sealed.code());
    let hello = messages::Message::Hello(messages::Hello { version, scheme }).to_vec();
    world.sites[0].control.handle_message(world.now, index(0, 1), &hello);
    let outputs: Vec<_> = core::iter::from_fn(|| world.sites[0].control.poll(world.now)).collect();
    assert!(matches!(outputs[..], [Output::Close(..)]), "{outputs:?}");
}

#[test]
fn a_new_channel_begins_with_hello_whatever_was_to_be_said_on_the_old_one() {
    let mut world = World::up_sealed(2);
    world.sites[0].control.rekey();
    world.sites[0].control.handle_timeout(world.now);
    world.sites[0].control.handle_up(world.now, index(0, 1), [9; 32].into());
    let said = said(&mut world, 0);
    assert_eq!((said.len(), said[0][0]), (1, 1), "{said:?}");
}

#[test]
fn a_senseless_message_closes_the_channel_once() {
    let mut world = World::up_sealed(2);
    for message in [&[99][..], &[2], &[5], &[]] {
        world.sites[0].control.handle_message(world.now, index(0, 1), message);
    }
    let outputs: Vec<_> = core::iter::from_fn(|| world.sites[0].control.poll(world.now)).collect();
    assert!(matches!(outputs[..], [Output::Close(..)]), "{outputs:?}");
}
