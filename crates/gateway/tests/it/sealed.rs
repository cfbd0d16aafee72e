//! Tests of gateways under the scheme `sealed`.

use core::time::Duration;
use lightseal_gateway::config::{Allowed, GatewaySettings, SecondGateway};
use lightseal_gateway::control::{Event, Output, messages};
use lightseal_gateway::counters::Reason;
use lightseal_gateway::gateway::Mka;
use lightseal_gateway::stations::{Port, Station};
use lightseal_macsec::VlanTag;
use testkit::gateway::world::{
    self, Datagram, Flow, World, address, drops, index, quiet, quiet_with, sealed,
};

#[test]
fn frames_appear_on_the_other_lan_as_they_were() {
    let mut world = World::up_sealed(2);
    for len in [1, 10, 47, 48, 1000, 1378] {
        for flow in [Flow::between(0, 1), Flow { an: 3, ..Flow::between(0, 1) }] {
            let frame = flow.frame(len as u32, len);
            world.carry(0, &frame);
            assert_eq!(world.sites[1].lan.pop(), Some(frame));
        }
    }
    assert!(world.sites[1].lan.is_empty() && world.sites[0].lan.is_empty());
}

#[test]
fn padding_of_the_lan_does_not_cross_the_tunnel() {
    let mut world = World::up_sealed(2);
    let frame = Flow::between(0, 1).frame(1, 4);
    let padded = [&frame[..], &[0; 12]].concat();
    assert_eq!(padded.len(), 60);
    world.carry(0, &padded);
    assert_eq!(world.sites[1].lan, [frame]);
}

#[test]
fn an_unknown_station_is_sought_everywhere_and_then_known() {
    let mut world = World::up_sealed(3);
    world.frame(0, &Flow::between(0, 1).frame(1, 100));
    assert_eq!(world.wire.len(), 2, "the frame is sent to both peers");
    world.deliver();
    world.carry(1, &Flow::between(1, 0).frame(1, 100));
    assert_eq!(world.sites[2].lan.len(), 1, "the answer is sent to one peer only");
    world.frame(0, &Flow::between(0, 1).frame(2, 100));
    assert_eq!(world.wire.len(), 1);
    let everyone = Flow { destination: [0xff; 6], ..Flow::between(0, 1) };
    world.wire.clear();
    world.frame(0, &everyone.frame(3, 100));
    assert_eq!(world.wire.len(), 2);
}

#[test]
fn what_is_on_the_same_lan_stays_there() {
    let mut world = World::up_sealed(2);
    world.carry(0, &Flow::between(0, 1).frame(1, 100));
    let back = Flow { source: world::station(0, 2), ..Flow::between(0, 0) };
    world.frame(0, &back.frame(1, 100));
    assert!(world.wire.is_empty());
    assert_eq!(world.sites[0].gateway.counters().drops.get(Reason::Local), 1);
}

#[test]
fn long_frames_are_split_and_come_out_whole_in_any_order() {
    let mut world = World::up_sealed(2);
    let tag = |tpid, tci| Some(VlanTag { tpid, tci });
    let tags = [[None; 2], [tag(0x88a8, 0x2001), tag(0x8100, 0x0002)]];
    for (len, vlan_tags) in [1500, 9000].into_iter().flat_map(|len| tags.map(|tags| (len, tags))) {
        let frame = Flow::between(0, 1).frame_with(len as u32, len, vlan_tags);
        world.frame(0, &frame);
        assert!(world.wire.len() > 1);
        assert!(world.wire.iter().all(|datagram| datagram.bytes.len() <= 1452));
        world.wire.make_contiguous().reverse();
        let last = world.wire.pop_back().unwrap();
        world.deliver();
        assert_eq!(world.sites[1].lan.len(), 0, "an incomplete frame is not forwarded");
        world.arrive(&last);
        assert_eq!(world.sites[1].lan.pop(), Some(frame));
    }
    world.frame(0, &Flow::between(0, 1).frame(9, 3000));
    world.wire.pop_front();
    world.deliver();
    world.advance(Duration::from_secs(1));
    assert_eq!(drops(&world, 1, 0, Reason::Incomplete), 1);
}

#[test]
fn loss_costs_what_was_lost_and_order_nothing() {
    let mut world = World::up_sealed(2);
    let flow = Flow::between(0, 1);
    let mut pn = 0;
    for lost in [1, 10, 1000, 100_000] {
        for _ in 0..lost {
            pn += 1;
            world.frame(0, &flow.frame(pn, 100));
            world.wire.clear();
        }
        pn += 1;
        let frame = flow.frame(pn, 100);
        world.carry(0, &frame);
        assert_eq!(world.sites[1].lan.pop(), Some(frame), "the first frame after {lost} lost ones");
    }
    let window = lightseal_gateway::tuning::REPLAY_WINDOW as u32;
    for pn in 0..window {
        world.frame(0, &flow.frame(pn + 1, 60));
    }
    world.wire.make_contiguous().reverse();
    world.deliver();
    assert_eq!(world.sites[1].lan.len(), window as usize);
}

#[test]
fn nothing_that_was_replayed_cut_or_altered_reaches_the_lan() {
    let mut world = World::up_sealed(2);
    let frame = Flow::between(0, 1).frame(1, 100);
    world.frame(0, &frame);
    let datagram = world.wire[0].clone();
    for cut in 0..datagram.bytes.len() {
        let cut = Datagram { bytes: datagram.bytes[..cut].to_vec(), ..datagram.clone() };
        assert!(!world.arrive(&cut));
    }
    for bit in 0..datagram.bytes.len() * 8 {
        let mut altered = datagram.clone();
        altered.bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(!world.arrive(&altered), "bit {bit}");
    }
    let longer = Datagram { bytes: [&datagram.bytes[..], &[0]].concat(), ..datagram.clone() };
    assert!(!world.arrive(&longer));
    assert!(world.arrive(&datagram), "forgeries did not use up the counter of the true datagram");
    assert!(!world.arrive(&datagram));
    assert_eq!(world.sites[1].lan, [frame]);
    assert_eq!(drops(&world, 1, 0, Reason::Replayed), 1);
    let back = Datagram { to: 0, ..datagram };
    assert!(!world.arrive(&back), "a datagram that is reflected to its sender");
}

#[test]
fn keys_change_and_nothing_under_way_is_lost() {
    let timing = quiet_with(|timing| timing.rekey = Duration::from_secs(60));
    let mut world = World::with(2, sealed, |_| {}, timing);
    world.connect();
    let epoch = |world: &World, site: usize| {
        world.sites[site]
            .gateway
            .links()
            .iter()
            .next()
            .and_then(lightseal_gateway::link::Link::epoch)
    };
    assert_eq!((epoch(&world, 0), epoch(&world, 1)), (Some(1), Some(1)));
    let flow = Flow::between(0, 1);
    world.frame(0, &flow.frame(1, 100));
    let before = world.wire.pop_back().unwrap();
    let other = {
        world.frame(0, &flow.frame(2, 100));
        world.wire.pop_back().unwrap()
    };
    world.advance(Duration::from_secs(60));
    assert_eq!((epoch(&world, 0), epoch(&world, 1)), (Some(2), Some(2)));
    assert!(world.arrive(&before), "the old keys still open datagrams for a while");
    world.carry(0, &flow.frame(3, 100));
    assert_eq!(world.sites[1].lan.len(), 2);
    world.advance(Duration::from_secs(11));
    assert!(!world.arrive(&other));
    assert_eq!(drops(&world, 1, 0, Reason::UnknownReceiver), 1);
}

#[test]
fn a_gateway_that_starts_again_is_heard_and_its_old_datagrams_are_not() {
    let mut world = World::up_sealed(2);
    let flow = Flow::between(0, 1);
    world.frame(0, &flow.frame(1, 100));
    let old = world.wire.pop_back().unwrap();
    let fresh = World::new(2, sealed).sites.remove(1);
    world.sites[1] = fresh;
    assert!(!world.arrive(&old));
    world.connect_two(0, 1, [0x77; 32]);
    world.settle();
    assert!(!world.arrive(&old));
    world.carry(0, &flow.frame(2, 100));
    assert_eq!(world.sites[1].lan.len(), 1);
}

#[test]
fn mka_that_is_longer_than_a_message_is_dropped() {
    let mut world = World::with(2, sealed, |settings| settings.mka = Mka::Management, quiet());
    world.connect();
    let mka = [&[1, 0x80, 0xc2, 0, 0, 3][..], &[2; 6], &[0x88, 0x8e, 3, 5], &[7; 20_000]].concat();
    for (len, arrives) in [(messages::MAX_LEN - 1, true), (messages::MAX_LEN, false)] {
        world.frame(0, &mka[..len]);
        world.settle();
        assert_eq!(world.sites[1].lan.pop().is_some(), arrives, "{len}");
    }
    assert_eq!(world.sites[0].gateway.counters().drops.get(Reason::TooLong), 1);
}

#[test]
fn what_is_to_be_said_is_not_shown() {
    let output = Output::Message(index(0, 1), vec![0xab; 3].into());
    assert_eq!(format!("{output:?}"), "Message(PeerIndex(0), 3)");
}

/// An MKA frame with a unique number.
fn mka(number: u32) -> Vec<u8> {
    let header = [&[1, 0x80, 0xc2, 0, 0, 3][..], &[2; 6], &[0x88, 0x8e, 3, 5, 0, 60]].concat();
    [&header[..], &number.to_be_bytes(), &[7; 56]].concat()
}

#[test]
fn mka_goes_where_it_is_set_to_go() {
    let mka = mka(1);
    for (mode, datagrams, frames) in
        [(Mka::Tunnel, 1, 1), (Mka::Management, 0, 1), (Mka::Drop, 0, 0)]
    {
        let mut world = World::with(2, sealed, |settings| settings.mka = mode, quiet());
        world.connect();
        world.advance(Duration::from_millis(1));
        world.deliver();
        world.frame(0, &mka);
        assert_eq!(world.wire.len(), datagrams, "{mode:?}");
        world.deliver();
        assert_eq!(world.sites[1].lan, vec![mka.clone(); frames], "{mode:?}");
    }
}

#[test]
fn a_flood_of_mka_keeps_no_probe_waiting() {
    let timing = quiet_with(|timing| timing.probe = true);
    let mode = |settings: &mut GatewaySettings| settings.mka = Mka::Management;
    let mut world = World::with(2, sealed, mode, timing);
    world.connect();
    for round in 0..50 {
        for (site, number) in [0, 1].into_iter().flat_map(|site| (0..300).map(move |n| (site, n))) {
            world.frame(site, &mka(round * 300 + number));
        }
        // Probes and their answers are handled before the flood.
        for datagram in core::mem::take(&mut world.wire) {
            world.arrive(&datagram);
        }
        world.advance(Duration::from_millis(100));
    }
    let payload = |site: usize| world.sites[site].gateway.links().iter().next().unwrap().payload();
    assert!(payload(0) > 1400 && payload(1) > 1400, "{} {}", payload(0), payload(1));
}

fn arp_only() -> Vec<Allowed> {
    vec![Allowed::ether_type(0x0806).unwrap()]
}

#[test]
fn other_frames_cross_only_if_allowed() {
    let arp = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 9], &[0x08, 0x06], &[1; 46]].concat();
    let mut world = World::up_sealed(2);
    world.frame(0, &arp);
    assert!(world.wire.is_empty());
    assert_eq!(world.sites[0].gateway.counters().drops.get(Reason::NotAllowed), 1);
    let mut world = World::with(2, sealed, |settings| settings.allow = arp_only(), quiet());
    world.connect();
    world.carry(0, &arp);
    assert_eq!(world.sites[1].lan, [arp]);
}

#[test]
fn a_peer_is_followed_to_another_address_by_what_is_authentic_and_new() {
    let mut world = World::up_sealed(2);
    let elsewhere = ([198, 51, 100, 9], 999).into();
    let flow = Flow::between(0, 1);
    world.frame(0, &flow.frame(1, 100));
    world.frame(0, &flow.frame(2, 100));
    let at = |world: &World| world.sites[1].gateway.links().iter().next().unwrap().address();
    let (first, second) = (world.wire[0].clone(), world.wire[1].clone());
    world.arrive(&second);
    let mut forged = second.clone();
    *forged.bytes.last_mut().unwrap() ^= 1;
    for datagram in [&first, &second, &forged] {
        world.arrive_from(elsewhere, datagram);
        assert_eq!(
            at(&world),
            Some(address(0)),
            "old, replayed and forged datagrams do not change the address"
        );
    }
    world.wire.clear();
    world.frame(0, &flow.frame(3, 100));
    let third = world.wire[0].clone();
    world.arrive_from(elsewhere, &third);
    assert_eq!(at(&world), Some(elsewhere));
}

#[test]
fn a_path_is_probed_and_frames_fit_it() {
    let timing = quiet_with(|timing| timing.probe = true);
    let mut world = World::with(2, sealed, |_| {}, timing);
    world.connect();
    for _ in 0..50 {
        world.advance(Duration::from_millis(100));
        world.wire.retain(|datagram| datagram.bytes.len() <= 1400);
        world.deliver();
    }
    let payload = world.sites[0].gateway.links().iter().next().unwrap().payload();
    assert_eq!(payload, 1392);
    assert!(world.sites[0].events.iter().any(|event| matches!(event, Event::Mtu(_, 1420))));
    let header = 28;
    for (len, datagrams) in [(payload - 30 - header - 16, 1), (payload - 30 - header - 15, 2)] {
        world.frame(0, &Flow::between(0, 1).frame(1, len));
        assert_eq!(world.wire.len(), datagrams);
        world.deliver();
    }
    assert_eq!(world.sites[1].lan.len(), 2);
}

/// Advances the time by `ticks` tenths of a second. Datagrams of up to `payload` bytes arrive if
/// `arrives` returns true.
fn pass(world: &mut World, ticks: u32, payload: usize, arrives: impl Fn(&Datagram) -> bool) {
    for _ in 0..ticks {
        world.advance(Duration::from_millis(100));
        while let Some(datagram) = world.wire.pop_front() {
            if datagram.bytes.len() <= payload && arrives(&datagram) {
                world.arrive(&datagram);
                world.settle();
            }
        }
    }
}

#[test]
fn after_an_outage_frames_go_whole_again_at_once() {
    for reconnects in [false, true] {
        let timing = quiet_with(|timing| timing.probe = true);
        let mut world = World::with(2, sealed, |_| {}, timing);
        world.connect();
        pass(&mut world, 100, 1472, |_| true);
        let mtu = |world: &World| world.sites[0].gateway.links().iter().next().unwrap().mtu();
        assert_eq!(mtu(&world), 1500);
        pass(&mut world, 600, 0, |_| true);
        assert_eq!(mtu(&world), 1280);
        let unanswered = |event: &Event| matches!(event, Event::Unanswered(_));
        assert_eq!(world.sites[0].events.iter().filter(|event| unanswered(event)).count(), 1);
        if reconnects {
            world.connect_two(0, 1, [77; 32]);
            pass(&mut world, 2, 1472, |_| true);
        } else {
            // Frames of the other side arrive.
            for pn in 1..=15 {
                world.frame(1, &Flow::between(1, 0).frame(pn, 60));
                pass(&mut world, 1, 1472, |_| true);
            }
        }
        assert_eq!(mtu(&world), 1500, "{reconnects}");
        let answered = |event: &Event| matches!(event, Event::Answered(_));
        assert_eq!(world.sites[0].events.iter().filter(|event| answered(event)).count(), 1);
    }
}

#[test]
fn a_path_that_carries_one_way_alone_is_told_by_both_ends() {
    for probe in [true, false] {
        let timing = quiet_with(|timing| (timing.probe, timing.check) = (probe, true));
        let mut world = World::with(2, sealed, |_| {}, timing);
        world.connect();
        for pn in 1..=40 {
            world.frame(0, &Flow::between(0, 1).frame(2 * pn, 60));
            world.frame(1, &Flow::between(1, 0).frame(2 * pn, 60));
            // No datagram reaches the first site.
            pass(&mut world, 5, 1472, |datagram| datagram.to != 0);
        }
        for site in &world.sites {
            let link = site.gateway.links().iter().next().unwrap();
            assert!(link.is_unanswered(), "{probe}");
            assert!(site.events.iter().any(|event| matches!(event, Event::Unanswered(_))));
        }
    }
}

#[test]
fn a_peer_that_moves_is_answered_where_it_is_and_asked_first() {
    let timing = quiet_with(|timing| timing.probe = true);
    let mut world = World::with(2, sealed, |_| {}, timing);
    world.connect();
    pass(&mut world, 50, 1472, |_| true);
    let elsewhere = ([198, 51, 100, 9], 8885).into();
    world.frame(0, &Flow::between(0, 1).frame(1, 100));
    let datagram = world.wire.pop_front().unwrap();
    world.arrive_from(elsewhere, &datagram);
    let link = |world: &World| world.sites[1].gateway.links().iter().next().unwrap().address();
    assert_eq!(link(&world), Some(elsewhere));
    // The path to the new address is probed with one small datagram first, before it is searched.
    world.wire.clear();
    world.advance(Duration::from_millis(100));
    let probes = world.wire.iter().filter(|datagram| datagram.to == 0);
    assert_eq!(probes.map(|datagram| datagram.bytes.len()).collect::<Vec<_>>(), [1252]);
}

#[test]
fn two_gateways_on_one_lan_notice_each_other_and_one_yields() {
    let mut world =
        World::with(2, sealed, |settings| settings.second_gateway = SecondGateway::Stop, quiet());
    world.connect();
    let announcements = [0, 1].map(|site: usize| world.sites[site].gateway.announcement());
    for site in [0, 1] {
        world.frame(site, &announcements[0]);
        world.frame(site, &announcements[1]);
    }
    world.settle();
    for (site, id) in [(0, world::settings(1).id), (1, world::settings(0).id)] {
        assert_eq!(world.sites[site].events.last(), Some(&Event::SecondGateway(id)));
    }
    for (from, frames) in [(0, 0), (1, 0)] {
        world.carry(from, &Flow::between(from, 1 - from).frame(1, 100));
        assert_eq!(world.sites[1 - from].lan.len(), frames, "one of the gateways yields");
    }
    assert!(!world.sites[0].gateway.is_yielding(world.now));
    world.advance(Duration::from_secs(5));
    world.carry(1, &Flow::between(1, 0).frame(2, 100));
    assert_eq!(world.sites[0].lan.len(), 1, "the gateway yields until the other one is gone");
}

#[test]
fn announcements_are_told_once_in_ten_seconds_and_each_makes_a_gateway_yield() {
    let mut world =
        World::with(2, sealed, |settings| settings.second_gateway = SecondGateway::Stop, quiet());
    world.connect();
    let announcement = world.sites[0].gateway.announcement();
    world.sites[1].events.clear();
    for _ in 0..200 {
        for _ in 0..300 {
            world.frame(1, &announcement);
        }
        world.advance(Duration::from_millis(100));
        assert!(world.sites[1].gateway.is_yielding(world.now));
    }
    let told = Event::SecondGateway(world::settings(0).id);
    assert_eq!(world.sites[1].events, [told; 2], "two notices in twenty seconds");
    world.advance(Duration::from_secs(5));
    assert!(!world.sites[1].gateway.is_yielding(world.now));
}

#[test]
fn what_a_loop_brings_back_is_dropped_and_moves_nobody() {
    // The first and the second gateway share a LAN. If `roamed`, the stations of the far LAN were
    // on this LAN before.
    for roamed in [false, true] {
        let mut world = World::up_sealed(3);
        let everyone = Flow { destination: [0xff; 6], ..Flow::between(2, 0) };
        if roamed {
            world.carry(0, &everyone.frame(1, 100));
            world.advance(Duration::from_secs(2));
        }
        for pn in 2..20 {
            world.carry(2, &everyone.frame(pn, 4));
            for (site, other) in [(0, 1), (1, 0)] {
                let echo = world.sites[other].lan.last().unwrap().clone();
                world.frame(site, &[&echo[..], &[0; 12]].concat());
                assert!(world.wire.is_empty(), "{roamed} {pn}");
                let known = Station::new(None, everyone.source);
                let port = Port::Peer(index(site, 2));
                assert_eq!(world.sites[site].gateway.stations().find(world.now, known), Some(port));
            }
            world.advance(Duration::from_millis(700));
        }
        for site in [0, 1] {
            assert_eq!(world.sites[site].gateway.counters().drops.get(Reason::Loop), 18);
        }
    }
}

/// Delivers the frames that each gateway puts on its LAN to the other gateways of that LAN, until
/// there are no more frames.
fn echo(world: &mut World, lan_of: [usize; 4], at_once: bool) {
    for _ in 0..8 {
        let said = [0, 1, 2, 3].map(|site| core::mem::take(&mut world.sites[site].lan));
        if said.iter().all(Vec::is_empty) {
            return;
        }
        for (by, frame) in
            said.iter().enumerate().flat_map(|(by, said)| said.iter().map(move |frame| (by, frame)))
        {
            for site in (0..4).filter(|&site| site != by && lan_of[site] == lan_of[by]) {
                world.frame(site, frame);
                if at_once {
                    world.settle();
                    world.deliver();
                }
            }
        }
        world.settle();
        world.deliver();
    }
    panic!(
        "frames circulate without end: {}",
        world.sites.iter().map(|site| site.lan.len()).sum::<usize>()
    );
}

#[test]
fn mka_runs_in_no_circles_between_two_lans_with_two_gateways_each_or_a_cable() {
    for mode in [Mka::Tunnel, Mka::Management] {
        for (lan_of, at_once, lost) in [
            ([0, 0, 1, 1], false, None),
            ([0, 0, 1, 1], true, None),
            ([0, 0, 1, 1], false, Some(1)),
            ([0, 0, 1, 1], true, Some(1)),
            ([0; 4], false, None),
            ([0; 4], true, None),
            ([0; 4], false, Some(1)),
        ] {
            let mut world = World::with(4, sealed, |settings| settings.mka = mode, quiet());
            world.connect();
            world.deliver();
            for number in 0..4 {
                for site in (0..4).filter(|&site| lan_of[site] == 0) {
                    world.frame(site, &mka(number));
                }
                world.wire.retain(|datagram| Some(datagram.from) != lost);
                world.settle();
                world.deliver();
                assert!(world.sites[3].lan.contains(&mka(number)));
                echo(&mut world, lan_of, at_once);
            }
        }
    }
}

#[test]
fn a_gateway_that_yields_puts_no_mka_on_its_lan() {
    for mode in [Mka::Tunnel, Mka::Management] {
        let change = |settings: &mut GatewaySettings| {
            settings.mka = mode;
            settings.second_gateway = SecondGateway::Stop;
        };
        let mut world = World::with(2, sealed, change, quiet());
        world.connect();
        let announcement = world.sites[0].gateway.announcement();
        for (number, yields) in [(0, false), (1, true)] {
            if yields {
                world.frame(1, &announcement);
            }
            world.frame(0, &mka(number));
            world.settle();
            world.deliver();
            assert_eq!(world.sites[1].lan.pop().is_none(), yields, "{mode:?}");
        }
        assert_eq!(drops(&world, 1, 0, Reason::Yielding), 1);
    }
}

#[test]
fn allowed_frames_are_learned_in_their_vlan() {
    let frame = |tag: &[u8], from: u8, to: u8| {
        let addresses = [[2, 0, 0, 0, 0, to], [2, 0, 0, 0, 0, from]].concat();
        [&addresses[..], tag, &[0x08, 0x06], &[1; 46]].concat()
    };
    for tag in [&[][..], &[0x81, 0, 0x20, 5], &[0x88, 0xa8, 0, 5]] {
        let mut world = World::with(3, sealed, |settings| settings.allow = arp_only(), quiet());
        world.connect();
        world.deliver();
        world.carry(1, &frame(tag, 1, 9));
        world.wire.clear();
        world.frame(0, &frame(tag, 2, 1));
        assert_eq!(world.wire.len(), 1, "the frame is sent to the station's port only");
        world.wire.clear();
        world.frame(0, &frame(&[0x81, 0, 0, 6], 2, 1));
        assert_eq!(world.wire.len(), 2, "the station is unknown in another VLAN");
    }
}

#[test]
fn frames_of_bridges_cross_only_if_allowed() {
    let bpdu = [&[1, 0x80, 0xc2, 0, 0, 0, 2, 0, 0, 0, 0, 9, 0, 38, 0x42, 0x42, 3][..], &[0; 35]];
    for allow in [false, true] {
        let change = |settings: &mut GatewaySettings| {
            settings.allow.extend(allow.then_some(Allowed::BPDU));
        };
        let mut world = World::with(2, sealed, change, quiet());
        world.connect();
        world.carry(0, &bpdu.concat());
        assert_eq!(world.sites[1].lan.len(), usize::from(allow));
    }
}
