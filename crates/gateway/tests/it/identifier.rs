//! Tests of gateways under the scheme `identifier`.

use core::time::Duration;
use lightseal_core::{Instant, Random};
use lightseal_gateway::codepoints::DatagramType;
use lightseal_gateway::counters::Reason;
use lightseal_gateway::flows::FlowLimits;
use lightseal_gateway::schemes::Scheme;
use lightseal_gateway::schemes::identifier::{Identifier, IdentifierSettings};
use lightseal_gateway::tuning::{MAX_FLOWS_PER_ASSOCIATION, SKIPPED_BURST, SKIPPED_PER_SECOND};
use lightseal_macsec::VlanTag;
use testkit::gateway::world::{Flow, World, drops, index, station};

fn identifier(random: &mut Random) -> Box<dyn Scheme> {
    Box::new(
        Identifier::new(IdentifierSettings::default(), random, Instant::from_micros(1_000_000))
            .unwrap(),
    )
}

fn limited(limits: FlowLimits) -> impl Fn(&mut Random) -> Box<dyn Scheme> {
    move |random| {
        let mut settings = IdentifierSettings::default();
        settings.limits = limits;
        Box::new(Identifier::new(settings, random, Instant::from_micros(1_000_000)).unwrap())
    }
}

/// A world in which the stations 1 of all sites know each other and their flows are registered.
fn acquainted(sites: usize, scheme: impl Fn(&mut Random) -> Box<dyn Scheme>) -> World {
    let mut world = World::up(sites, scheme);
    for pn in 1..=2 {
        for from in 0..sites {
            for to in (0..sites).filter(|&to| to != from) {
                world.carry(from, &Flow::between(from, to).frame(pn, 100));
            }
        }
    }
    world.sites.iter_mut().for_each(|site| site.lan.clear());
    world
}

/// Sends and delivers a frame; returns whether it appeared, and the type of its datagram.
fn carried(
    world: &mut World,
    from: usize,
    to: usize,
    frame: &[u8],
) -> (bool, Option<DatagramType>) {
    world.sites[to].lan.clear();
    world.wire.clear();
    world.frame(from, frame);
    let kind = world.wire.back().and_then(|datagram| DatagramType::of(datagram.bytes[0]));
    world.deliver();
    (world.sites[to].lan == [frame], kind)
}

#[test]
fn frames_of_every_shape_appear_as_they_were_and_are_shorter_than_vxlan() {
    let mut world = acquainted(2, identifier);
    let tag = |tpid, tci| Some(VlanTag { tpid, tci });
    let shapes =
        [[None; 2], [tag(0x8100, 0x2005), None], [tag(0x88a8, 0x2001), tag(0x8100, 0x0002)]];
    for (vlan_tags, an) in shapes.into_iter().zip(0..) {
        let flow = Flow { an, ..Flow::between(0, 1) };
        for (pn, len) in (3..).zip([1, 10, 47, 48, 1000, 1378, 1390]) {
            let frame = flow.frame_with(pn, len, vlan_tags);
            world.frame(0, &frame);
            assert!(
                an == 0
                    || pn == 3
                    || world.wire[0].bytes.len() == frame.len() - frame_header(&frame) + 11
            );
            world.deliver();
            assert_eq!(world.sites[1].lan.pop(), Some(frame));
        }
    }
    assert!(world.sites[1].lan.is_empty());
}

fn frame_header(frame: &[u8]) -> usize {
    lightseal_macsec::Header::of(frame).unwrap().len()
}

#[test]
fn a_new_flow_goes_sealed_until_the_peer_knows_it() {
    let mut world = World::up(2, identifier);
    let flow = Flow::between(0, 1);
    world.frame(0, &flow.frame(1, 100));
    world.frame(0, &flow.frame(2, 100));
    world.deliver();
    assert_eq!(world.sites[1].lan.len(), 2);
    for (pn, kind) in [(3, DatagramType::Identifier), (4, DatagramType::Identifier)] {
        assert_eq!(carried(&mut world, 0, 1, &flow.frame(pn, 100)), (true, Some(kind)));
    }
    assert_eq!(world.sites[0].gateway.scheme().flow_counts(), (1, 0));
    assert_eq!(world.sites[1].gateway.scheme().flow_counts(), (0, 1));
}

#[test]
fn a_flow_of_frames_that_only_fit_in_short_is_split_until_the_peer_knows_it() {
    let mut world = World::up(2, identifier);
    let flow = Flow::between(0, 1);
    for (pn, datagrams) in [(1, 2), (2, 1), (3, 1)] {
        let frame = flow.frame(pn, 1400);
        world.wire.clear();
        world.frame(0, &frame);
        assert_eq!(world.wire.len(), datagrams);
        world.deliver();
        assert_eq!(world.sites[1].lan.pop(), Some(frame));
    }
}

#[test]
fn loss_costs_what_was_lost_and_order_nothing() {
    let mut world = acquainted(2, identifier);
    let flow = Flow::between(0, 1);
    let mut pn = 2;
    for lost in [1, 10, 1000, 1500, 1, 1000] {
        for _ in 0..lost {
            pn += 1;
            world.frame(0, &flow.frame(pn, 60));
            world.wire.clear();
        }
        for _ in 0..20 {
            pn += 1;
            let frame = flow.frame(pn, 60);
            assert!(carried(&mut world, 0, 1, &frame).0, "a frame after {lost} lost ones");
        }
    }
    world.sites[1].lan.clear();
    let window = IdentifierSettings::default().behind as u32;
    for _ in 0..window {
        pn += 1;
        world.frame(0, &flow.frame(pn, 60));
    }
    world.wire.make_contiguous().reverse();
    world.deliver();
    assert_eq!(world.sites[1].lan.len(), window as usize);
}

#[test]
fn any_loss_is_healed_by_a_beacon() {
    let mut world = acquainted(2, identifier);
    let flow = Flow::between(0, 1);
    for pn in 3..10_000 {
        world.frame(0, &flow.frame(pn, 60));
        world.settle();
    }
    world.wire.clear();
    assert!(!carried(&mut world, 0, 1, &flow.frame(10_000, 60)).0);
    world.advance(Duration::from_millis(100));
    world.deliver();
    for pn in 10_001..10_010 {
        let frame = flow.frame(pn, 60);
        assert_eq!(carried(&mut world, 0, 1, &frame), (true, Some(DatagramType::Identifier)));
    }
}

#[test]
fn beacons_come_every_half_look_ahead_even_if_nobody_looks_at_the_time() {
    let mut world = acquainted(2, identifier);
    let flow = Flow::between(0, 1);
    let mut beacons = 0;
    for pn in 3..=10_000 {
        world.frame(0, &flow.frame(pn, 60));
        world.settle();
        beacons +=
            world.wire.iter().filter(|sent| sent.bytes[0] == DatagramType::Encrypted as u8).count();
        world.wire.clear();
    }
    assert_eq!(beacons, 9_998 / 768);
}

#[test]
fn a_sender_to_two_sites_makes_gaps_at_each_that_cost_nothing() {
    let mut world = acquainted(3, identifier);
    let mut pn = 2;
    for gap in [1, 100, 1000, 5000, 3, 20_000] {
        for _ in 0..gap {
            pn += 1;
            world.frame(0, &Flow::between(0, 1).frame(pn, 60));
            world.wire.clear();
        }
        for _ in 0..5 {
            pn += 1;
            let frame = Flow::between(0, 2).frame(pn, 60);
            assert!(
                carried(&mut world, 0, 2, &frame).0,
                "a frame after {gap} frames to the other site"
            );
        }
        pn += 1;
        let frame = Flow::between(0, 1).frame(pn, 60);
        world.advance(Duration::from_millis(100));
        world.deliver();
        assert!(carried(&mut world, 0, 1, &frame).0);
    }
}

#[test]
fn the_broadcast_flow_and_unicast_flows_share_their_window() {
    let mut world = acquainted(2, identifier);
    let unicast = Flow::between(0, 1);
    let broadcast = Flow { destination: [0xff; 6], ..unicast };
    assert!(carried(&mut world, 0, 1, &broadcast.frame(3, 60)).0);
    for pn in 4..4000 {
        let flow = if pn % 1000 == 0 { broadcast } else { unicast };
        let (appeared, kind) = carried(&mut world, 0, 1, &flow.frame(pn, 60));
        assert_eq!((appeared, kind), (true, Some(DatagramType::Identifier)), "{pn}");
    }
}

#[test]
fn new_keys_of_an_association_cost_nothing() {
    let mut world = acquainted(2, identifier);
    for (round, an) in [1, 2, 3, 0, 1, 2].into_iter().enumerate() {
        let flow = Flow { an, ..Flow::between(0, 1) };
        for pn in 1..2000 {
            assert!(carried(&mut world, 0, 1, &flow.frame(pn, 60)).0, "{round} {an} {pn}");
        }
        let frame = flow.frame(2000, 60);
        assert_eq!(carried(&mut world, 0, 1, &frame).1, Some(DatagramType::Identifier));
    }
}

#[test]
fn a_frame_that_is_far_behind_counts_once_however_many_peers_and_copies_there_are() {
    let mut world = acquainted(4, identifier);
    let unicast = Flow::between(0, 1);
    let broadcast = Flow { destination: [0xff; 6], ..unicast };
    for pn in [1000, 1001] {
        world.carry(0, &broadcast.frame(pn, 60));
    }
    for _ in 0..5 {
        world.carry(0, &broadcast.frame(300, 60));
    }
    world.carry(0, &broadcast.frame(301, 60));
    let next = carried(&mut world, 0, 1, &unicast.frame(1002, 60));
    assert_eq!(next, (true, Some(DatagramType::Identifier)), "the flow continued");
    for pn in [1, 2, 3, 4] {
        world.carry(0, &broadcast.frame(pn, 60));
    }
    let next = carried(&mut world, 0, 1, &broadcast.frame(5, 60));
    assert_eq!(next, (true, Some(DatagramType::Identifier)), "the association was restarted");
}

#[test]
fn extended_packet_numbers_go_on_where_the_lower_half_ends() {
    let mut world = World::up(2, identifier);
    let flow = Flow::between(0, 1);
    for pn in (u32::MAX - 1000..=u32::MAX).chain(0..1000) {
        let frame = flow.frame(pn, 60);
        assert!(carried(&mut world, 0, 1, &frame).0, "{pn}");
    }
    let last = carried(&mut world, 0, 1, &flow.frame(1000, 60));
    assert_eq!(last.1, Some(DatagramType::Identifier));
}

#[test]
fn after_a_restart_flows_are_registered_anew_and_no_frame_is_missed() {
    let mut world = acquainted(2, identifier);
    let flow = Flow::between(0, 1);
    world.frame(0, &flow.frame(3, 60));
    let under_way = world.wire.pop_back().unwrap();
    let copy = under_way.clone();
    assert_eq!(under_way.bytes[0], DatagramType::Identifier as u8);
    world.connect_two(0, 1, [0x66; 32]);
    world.settle();
    assert!(world.arrive(&under_way) && !world.arrive(&copy), "old flows are known for a while");
    world.wire.clear();
    for (pn, kind) in [(4, DatagramType::Sealed), (5, DatagramType::Identifier)] {
        assert_eq!(carried(&mut world, 0, 1, &flow.frame(pn, 60)), (true, Some(kind)));
    }
    world.sites[1] = World::new(2, identifier).sites.remove(1);
    world.connect_two(0, 1, [0x77; 32]);
    world.settle();
    for (pn, kind) in [(6, DatagramType::Sealed), (7, DatagramType::Identifier)] {
        assert_eq!(carried(&mut world, 0, 1, &flow.frame(pn, 60)), (true, Some(kind)));
    }
    world.sites[0] = World::new(2, identifier).sites.remove(0);
    world.connect_two(0, 1, [0x88; 32]);
    world.settle();
    for (pn, kind) in [(8, DatagramType::Sealed), (9, DatagramType::Identifier)] {
        assert_eq!(carried(&mut world, 0, 1, &flow.frame(pn, 60)), (true, Some(kind)));
    }
    world.advance(Duration::from_secs(11));
    assert_eq!(world.sites[1].gateway.scheme().flow_counts().1, 1, "old flows are removed");
}

#[test]
fn a_copy_of_a_datagram_is_dropped() {
    let mut world = acquainted(2, identifier);
    world.frame(0, &Flow::between(0, 1).frame(3, 100));
    let datagram = world.wire.pop_back().unwrap();
    assert!(world.arrive(&datagram) && !world.arrive(&datagram));
    assert_eq!(world.sites[1].gateway.counters().drops.get(Reason::UnknownIdentifier), 1);
}

#[test]
fn a_flood_of_invented_sources_fills_its_cap_and_old_flows_go_on() {
    let mut limits = FlowLimits::default();
    (limits.flows, limits.flows_a_peer, limits.burst) = (300, 300, 50);
    let mut world = acquainted(2, limited(limits));
    let sent = |world: &World| world.sites[0].gateway.scheme().flow_counts().0;
    let (mut invented, mut most) = (0u32, 0);
    for second in 0..20 {
        for _ in 0..500 {
            invented += 1;
            let [_, a, b, c] = invented.to_be_bytes();
            let flow = Flow { source: [2, 9, 9, a, b, c], ..Flow::between(0, 1) };
            world.frame(0, &flow.frame(1, 60));
        }
        assert!(world.wire.iter().all(|sent| sent.bytes[0] != DatagramType::Identifier as u8));
        let sealed =
            world.wire.iter().filter(|sent| sent.bytes[0] == DatagramType::Sealed as u8).count();
        assert_eq!(sealed, 500, "frames over the limit are carried too");
        world.deliver();
        most = most.max(sent(&world));
        assert!(most <= 300);
        let frame = Flow::between(0, 1).frame(3 + second, 60);
        assert_eq!(carried(&mut world, 0, 1, &frame), (true, Some(DatagramType::Identifier)));
        let back = Flow::between(1, 0).frame(3 + second, 60);
        assert_eq!(carried(&mut world, 1, 0, &back), (true, Some(DatagramType::Identifier)));
        world.advance(Duration::from_secs(1));
    }
    assert_eq!(most, 300, "as many flows as the limit");
    for _ in 0..20 {
        world.advance(Duration::from_secs(1));
    }
    assert_eq!(sent(&world), 1, "flows without an answer are removed");
}

#[test]
fn one_source_one_sci_and_one_peer_have_no_more_than_their_share() {
    let mut limits = FlowLimits::default();
    (limits.flows_a_source, limits.flows_an_sci, limits.received_a_peer) = (10, 8, 5);
    let mut world = World::up(2, limited(limits));
    for number in 0..50 {
        let flow = Flow { destination: station(1, number), ..Flow::between(0, 1) };
        world.carry(0, &flow.frame(u32::from(number) + 1, 60));
    }
    assert_eq!(world.sites[1].lan.len(), 50);
    assert_eq!(world.sites[0].gateway.scheme().flow_counts().0, 8);
    assert_eq!(
        world.sites[1].gateway.scheme().flow_counts().1,
        5,
        "as many flows as one peer may register"
    );
    for number in 50..100 {
        let flow = Flow { destination: station(1, number), port: 2, ..Flow::between(0, 1) };
        world.carry(0, &flow.frame(u32::from(number) + 1, 60));
    }
    assert_eq!(world.sites[0].gateway.scheme().flow_counts().0, 10);
    assert_eq!(drops(&world, 1, 0, Reason::UnknownIdentifier), 0);
}

#[test]
fn an_association_that_skips_numbers_without_end_goes_sealed() {
    let mut world = acquainted(2, identifier);
    let attacker = Flow { source: station(0, 9), port: 9, ..Flow::between(0, 1) };
    let group = |number| Flow { destination: [3, 0, 0, 0, 0, number], ..attacker };
    let mut pn = 0;
    for number in (0..=255).cycle().take(512) {
        pn += 1;
        world.carry(0, &group(number).frame(pn, 60));
    }
    let received = |world: &World| world.sites[1].gateway.scheme().flow_counts().1;
    assert_eq!(received(&world), 1 + MAX_FLOWS_PER_ASSOCIATION, "further flows were refused");
    // Each jump costs a whole window. The burst and the rate of one second allow this many.
    let window =
        (IdentifierSettings::default().ahead + IdentifierSettings::default().behind) as u32;
    let cost = MAX_FLOWS_PER_ASSOCIATION as u32 * window;
    let most = (SKIPPED_BURST + SKIPPED_PER_SECOND) / cost;
    let mut jumps = 0;
    for number in (0..=255).cycle().take(1000) {
        pn += window;
        let frame = group(number).frame(pn, 60);
        assert!(carried(&mut world, 0, 1, &frame).0, "the frame is carried nevertheless");
        jumps += u32::from(received(&world) > 1);
        world.advance(Duration::from_millis(1));
        world.deliver();
    }
    assert!((1..=most).contains(&jumps), "{jumps} of {most}");
    for pn in 3..1000 {
        let frame = Flow::between(0, 1).frame(pn, 60);
        assert_eq!(
            carried(&mut world, 0, 1, &frame),
            (true, Some(DatagramType::Identifier)),
            "the flows of others are not affected"
        );
    }
    world.advance(Duration::from_secs(16));
    for (pn, kind) in [(pn + 1, DatagramType::Sealed), (pn + 2, DatagramType::Identifier)] {
        let frame = group(0).frame(pn, 60);
        assert_eq!(
            carried(&mut world, 0, 1, &frame),
            (true, Some(kind)),
            "the association gets identifiers again"
        );
    }
}

#[test]
fn a_device_with_forty_neighbours_may_skip_numbers() {
    let mut world = acquainted(2, identifier);
    let to = |number| Flow { destination: station(1, number), ..Flow::between(0, 1) };
    let mut pn = 2;
    for number in (0..40).cycle().take(80) {
        pn += 1;
        world.carry(0, &to(number).frame(pn, 60));
    }
    // Skipped numbers belong to frames that stayed on the LAN or were lost there.
    for skipped in [1, 10, 1000, 1500, 3, 1000, 2047, 1] {
        pn += skipped;
        for number in 0..40 {
            pn += 1;
            let (appeared, kind) = carried(&mut world, 0, 1, &to(number).frame(pn, 60));
            let kind_of =
                if number == 0 && skipped > 1000 { kind } else { Some(DatagramType::Identifier) };
            assert_eq!((appeared, kind), (true, kind_of), "{skipped} {number}");
        }
        world.advance(Duration::from_millis(300));
        world.deliver();
    }
}

#[test]
fn silent_flows_are_looked_for_once_a_second_and_beacons_told_every_tick() {
    let mut world = acquainted(2, identifier);
    let tick = Duration::from_millis(100);
    let sent = |world: &World| world.sites[0].gateway.scheme().flow_counts().0;
    let other = Flow { destination: station(1, 9), port: 7, ..Flow::between(0, 1) };
    world.carry(0, &other.frame(1, 60));
    world.advance(tick);
    world.deliver();
    let mut gone = Vec::new();
    for tenth in 0..170 {
        let before = sent(&world);
        world.frame(0, &Flow::between(0, 1).frame(3 + tenth, 60));
        world.deliver();
        world.advance(tick);
        assert_eq!(world.wire.len(), 1, "one beacon a tick");
        world.deliver();
        gone.extend((sent(&world) < before).then_some(tenth));
    }
    // The flow is too old in the sixteenth second, of which the first tick came before the loop.
    assert_eq!(gone, [158]);
}

#[test]
fn what_makes_no_sense_on_the_management_channel_ends_it_and_panics_nowhere() {
    let world = acquainted(2, identifier);
    let scheme = &world.sites[1].gateway.scheme();
    let mut random = Random::insecure(11);
    for len in (0..80).cycle().take(20_000) {
        let mut noise = vec![0; len];
        random.fill(&mut noise);
        if let Some(kind) = noise.first_mut() {
            *kind %= 6;
        }
        let _refused = scheme.handle_message(world.now, index(1, 0), &noise);
        scheme.handle_beacon(world.now, index(1, 0), &noise);
    }
    assert!(scheme.flow_counts().1 < 512);
}
