//! Every error and gap of the paper as an attack, which succeeds against the paper's schemes and
//! fails against ours.

use core::time::Duration;
use lightseal_core::Random;
use lightseal_gateway::codepoints::DatagramType;
use lightseal_gateway::counters::Reason;
use lightseal_gateway::flows::{BaseIdentifier, keyed};
use lightseal_gateway_papers::pcbc::Pcbc;
use lightseal_gateway_papers::{encryption, identifier as paper};
use lightseal_macsec::VlanTag;
use testkit::gateway::trials::claimed::{self, Claimed};
use testkit::gateway::trials::flood::{self, Flood};
use testkit::gateway::trials::{
    ALL, Make, acquainted, captured, compressed, encryption_paper, forgeries, growth, identifier,
    identifier_paper, narrowing, sealed,
};
use testkit::gateway::world::{Datagram, Flow, World, drops, station};

/// The first bytes of datagrams of the paper's schemes.
const PAPER_TYPES: [u8; 2] = [paper::TYPE, encryption::TYPE];

fn altered(datagram: &Datagram, at: usize) -> Datagram {
    let mut altered = datagram.clone();
    altered.bytes[at] ^= 0x10;
    altered
}

#[test]
fn every_scheme_carries_frames_as_they_were() {
    for (name, scheme) in ALL {
        let mut world = World::up(2, scheme);
        let tag = |tpid, tci| Some(VlanTag { tpid, tci });
        let shapes =
            [[None; 2], [tag(0x8100, 0x2005), None], [tag(0x88a8, 0x2001), tag(0x8100, 0x0002)]];
        let mut pn = 0;
        for vlan_tags in shapes {
            for an in [0, 1] {
                for len in [1, 16, 47, 48, 600, 1378, 1400, 3000] {
                    pn += 1;
                    let flow = Flow { an, ..Flow::between(0, 1) };
                    let frame = flow.frame_with(pn, len, vlan_tags);
                    if name == "plain" && len > 1390 {
                        continue;
                    }
                    world.carry(0, &frame);
                    assert_eq!(world.sites[1].lan.pop(), Some(frame), "{name} {pn} {len}");
                }
            }
        }
    }
}

#[test]
fn bytes_on_the_wire_beside_vxlan() {
    let lengths = ALL.map(|(name, scheme)| (name, growth(scheme, 100)));
    let vxlan = 8;
    let beside = lengths.map(|(name, growth)| (name, growth - vxlan));
    let expected = [
        ("sealed", 22),
        ("compressed", 3),
        ("identifier", -25),
        ("identifier-paper", -25),
        ("encryption-paper", -3),
        ("plain", 0),
    ];
    assert_eq!(beside, expected);
}

#[test]
fn frames_of_a_new_flow_are_held_until_the_peer_knows_it_and_dropped_if_it_never_does() {
    for scheme in [identifier_paper, encryption_paper] {
        let mut world = World::up(2, scheme);
        let flow = Flow::between(0, 1);
        let frames: Vec<_> = (1..=3).map(|pn| flow.frame(pn, 100)).collect();
        frames.iter().for_each(|frame| world.frame(0, frame));
        assert!(world.wire.is_empty());
        world.settle();
        world.deliver();
        assert_eq!(world.sites[1].lan, frames, "frames are released in order");
        let other = Flow { destination: station(1, 9), ..flow };
        world.frame(0, &other.frame(4, 100));
        // The registration is lost together with its channel.
        while world.sites[0].control.poll(world.now).is_some() {}
        world.advance(Duration::from_millis(501));
        assert_eq!(drops(&world, 0, 1, Reason::HeldTooLong), 1);
        for pn in 5..3000 {
            world.frame(0, &other.frame(pn, 100));
        }
        assert_eq!(drops(&world, 0, 1, Reason::HoldFull), 2995 - 1024);
    }
}

#[test]
fn the_papers_window_stalls_for_good_after_a_burst_and_ours_does_not() {
    let after = |scheme: Make, lost: u32| {
        let mut world = acquainted(scheme);
        let flow = Flow::between(0, 1);
        for pn in 3..3 + lost {
            world.frame(0, &flow.frame(pn, 60));
        }
        world.wire.clear();
        for pn in 3 + lost..203 + lost {
            world.carry(0, &flow.frame(pn, 60));
            world.advance(Duration::from_millis(10));
            world.deliver();
        }
        world.sites[1].lan.len()
    };
    assert_eq!(after(identifier_paper, 63), 200, "one frame less than the window is lost");
    assert_eq!(after(identifier_paper, 64), 0, "as many frames as the window are lost");
    assert_eq!(after(identifier, 1000), 200);
    assert_eq!(after(sealed, 100_000), 200);
    let healed = after(identifier, 100_000);
    assert!(healed >= 189, "a tenth of a second was lost: {healed}");
}

#[test]
fn gaps_that_a_second_site_makes_stall_the_papers_flow_and_not_ours() {
    let arrived = |scheme: Make| {
        let mut world = World::up(3, scheme);
        for pn in 1..=2 {
            for (from, to) in [(0, 1), (1, 0), (0, 2), (2, 0)] {
                world.carry(from, &Flow::between(from, to).frame(pn * 2 + to as u32 % 2, 60));
            }
        }
        for pn in 10..200 {
            world.carry(0, &Flow::between(0, 1).frame(pn, 60));
        }
        world.sites[2].lan.clear();
        for pn in 200..210 {
            world.carry(0, &Flow::between(0, 2).frame(pn, 60));
        }
        world.sites[2].lan.len()
    };
    assert_eq!(arrived(identifier_paper), 0);
    assert_eq!(arrived(identifier), 10);
    assert_eq!(arrived(sealed), 10);
}

#[test]
fn a_fresh_identifier_that_was_copied_onto_junk_burns_it_under_both_but_not_under_sealed() {
    for (scheme, short) in [(identifier as Make, true), (identifier_paper, true), (sealed, false)] {
        let mut world = acquainted(scheme);
        let frame = Flow::between(0, 1).frame(3, 100);
        let datagram = captured(&mut world, &frame);
        let mut junk = datagram.clone();
        let len = junk.bytes.len();
        Random::insecure(1).fill(&mut junk.bytes[if short { 11 } else { 42 }..len]);
        assert_eq!(world.arrive(&junk), short, "whether the junk reaches the LAN");
        assert_eq!(world.arrive(&datagram), !short, "whether the true frame reaches the LAN");
    }
}

#[test]
fn a_cut_or_impossible_datagram_does_not_burn_its_identifier() {
    let mut world = acquainted(identifier);
    let frame = Flow::between(0, 1).frame(3, 20);
    let datagram = captured(&mut world, &frame);
    for cut in 0..datagram.bytes.len() {
        let cut = Datagram { bytes: datagram.bytes[..cut].to_vec(), ..datagram.clone() };
        assert!(!world.arrive(&cut));
    }
    for at in 1..11 {
        assert!(!world.arrive(&altered(&datagram, at)));
    }
    assert!(world.arrive(&datagram));
}

#[test]
fn a_replay_passes_the_papers_encryption_as_often_as_it_comes() {
    for (name, scheme) in ALL {
        let mut world = acquainted(scheme);
        let datagram = captured(&mut world, &Flow::between(0, 1).frame(3, 100));
        let passed = (0..5).filter(|_| world.arrive(&datagram)).count();
        let expected = if matches!(name, "encryption-paper" | "plain") { 5 } else { 1 };
        assert_eq!(passed, expected, "{name}");
    }
}

#[test]
fn what_stands_behind_the_header_is_altered_unnoticed_under_all_but_sealed() {
    for (name, scheme) in ALL {
        let mut world = acquainted(scheme);
        let datagram = captured(&mut world, &Flow::between(0, 1).frame(3, 100));
        let forged = altered(&datagram, datagram.bytes.len() - 20);
        let noticed = matches!(name, "sealed" | "compressed");
        assert_eq!(world.arrive(&forged), !noticed, "{name}");
    }
}

#[test]
fn a_changed_first_block_passes_the_papers_encryption_with_random_addresses() {
    let mut world = acquainted(encryption_paper);
    let frame = Flow::between(0, 1).frame(3, 100);
    let datagram = captured(&mut world, &frame);
    let mut passed = 0;
    for seed in 0..400 {
        let mut forged = datagram.clone();
        Random::insecure(seed).fill(&mut forged.bytes[5..21]);
        if world.arrive(&forged) {
            passed += 1;
            let junk = world.sites[1].lan.pop().unwrap();
            assert_ne!(junk[..12], frame[..12]);
            assert_eq!(junk[16..], frame[16..], "PN and SCI are those of the true frame");
        }
    }
    assert!((60..140).contains(&passed), "one in four frames has a known AN: {passed}");
    let second = (0..400u64)
        .filter(|&seed| {
            let mut forged = datagram.clone();
            Random::insecure(seed).fill(&mut forged.bytes[21..37]);
            world.arrive(&forged)
        })
        .count();
    assert_eq!(second, 0, "the SCI is in the second block");
    for scheme in [sealed as Make, compressed] {
        let mut world = acquainted(scheme);
        let datagram = captured(&mut world, &frame);
        for at in 0..30 {
            assert!(!world.arrive(&altered(&datagram, at)));
        }
    }
}

#[test]
fn thirty_two_bytes_leave_an_sci_in_clear_behind_two_vlan_tags_and_ours_none() {
    let tag = |tpid| Some(VlanTag { tpid, tci: 5 });
    let flow = Flow { port: 0xbeef, ..Flow::between(0, 1) };
    let frame = flow.frame_with(3, 100, [tag(0x88a8), tag(0x8100)]);
    let mut blocks: [u8; 32] = frame[..32].try_into().unwrap();
    Pcbc::new(&[1; 16]).encrypt(&mut blocks);
    let as_the_paper_has_it = [&blocks[..], &frame[32..]].concat();
    assert_eq!(as_the_paper_has_it[34..36], [0xbe, 0xef], "the port of the SCI");
    for (name, scheme) in ALL {
        let mut world = acquainted(scheme);
        for pn in 3..6 {
            let frame = flow.frame_with(pn, 100, [tag(0x88a8), tag(0x8100)]);
            world.frame(0, &frame);
            world.settle();
            let bytes = &world.wire.back().unwrap().bytes;
            let in_clear = bytes.windows(2).any(|pair| pair == [0xbe, 0xef]);
            assert_eq!(in_clear, name == "plain", "{name}");
            world.deliver();
            assert_eq!(world.sites[1].lan.pop(), Some(frame), "{name}");
        }
    }
}

#[test]
fn one_vlan_tag_leaves_nothing_unpredictable_in_the_papers_second_block() {
    let tag = Some(VlanTag { tpid: 0x8100, tci: 5 });
    let second = |len, payload: u8| {
        let mut frame = Flow::between(0, 1).frame_with(3, len, [tag, None]);
        frame[32] = payload;
        let mut blocks: [u8; 32] = frame[..32].try_into().unwrap();
        Pcbc::new(&[1; 16]).encrypt(&mut blocks);
        blocks
    };
    assert_eq!(second(100, 1), second(100, 2), "the blocks do not depend on MACsec's ciphertext");
}

#[test]
fn the_papers_derivation_is_keyed_with_what_everybody_knows() {
    // The key is the PN, which everybody knows. And identifiers repeat after 2^32 packet numbers,
    // and under another AN.
    let base = BaseIdentifier::new([7; 16]);
    let paper = |pn, an| paper::derive(&base, pn, an);
    assert_eq!(paper(5, 0), paper(5 | 1 << 32, 1));
    let ours = |pn, an| keyed(&base, pn, an);
    assert_ne!(ours(5, 0), ours(5 | 1 << 32, 0));
    assert_ne!(ours(5, 0), ours(5, 1));
}

#[test]
fn tci_and_sl_are_in_clear_under_the_papers_identifiers_and_not_under_ours() {
    let values = |scheme: Make| {
        let mut world = acquainted(scheme);
        let mut values = std::collections::BTreeSet::new();
        for pn in 3..103 {
            let datagram = captured(&mut world, &Flow::between(0, 1).frame(pn, 40));
            values.insert((datagram.bytes[9], datagram.bytes[10]));
            world.arrive(&datagram);
        }
        values
    };
    assert_eq!(values(identifier_paper).into_iter().collect::<Vec<_>>(), [(0x2c, 40)]);
    assert!(values(identifier).len() > 90);
}

#[test]
fn a_flood_of_invented_sources_fills_its_cap_under_every_scheme_and_old_flows_go_on() {
    for (name, scheme) in ALL {
        let flood = Flood { seconds: 10, frames_a_second: 1000 };
        let outcome = flood::run(scheme, flood, || 0);
        let (sent, received) = outcome.flows;
        assert!(sent <= 2048 && received <= 2048, "{name}: {outcome:?}");
        assert!((1000..=8192).contains(&outcome.stations.1), "{name}: {outcome:?}");
        assert_eq!((outcome.invented, outcome.old, outcome.old_lost), (10_000, 160, 0), "{name}");
    }
}

#[test]
fn a_device_elsewhere_that_claims_a_stations_address_does_not_silence_it() {
    for (name, scheme) in ALL {
        // With 400 s of silence, the station's gateway has removed the station from its table.
        for silence in [1, 400] {
            let mut world = World::up(3, scheme);
            let victim = Flow::between(0, 2);
            for pn in 1..3 {
                world.carry(0, &victim.frame(pn, 100));
                world.carry(2, &victim.back().frame(pn, 100));
            }
            for _ in 0..silence {
                world.advance(Duration::from_secs(1));
            }
            let claims = Flow { source: victim.source, port: 9, ..Flow::between(1, 2) };
            for second in 0..20 {
                world.carry(1, &claims.frame(second + 1, 100));
                world.advance(Duration::from_millis(500));
                let frames = [victim.frame(second + 3, 100), victim.back().frame(second + 3, 100)];
                for (from, to) in [(0, 2), (2, 0)] {
                    world.sites[to].lan.clear();
                    world.carry(from, &frames[from / 2]);
                    world.advance(Duration::ZERO);
                    world.deliver();
                    let arrived = world.sites[to].lan == [frames[from / 2].clone()];
                    // A station that every gateway has removed counts as being where it was heard
                    // first, but its own frames still arrive.
                    assert!(arrived || silence > 1 && from == 2, "{name} {silence} {second} {to}");
                }
                world.advance(Duration::from_millis(500));
            }
        }
    }
}

#[test]
fn a_station_that_writes_to_one_lan_alone_is_not_taken_from_the_others_by_claims_there() {
    for (name, scheme) in ALL {
        for claims in [1, 15] {
            // A round trip takes 40 ms. A claim is corrected after the query, the next frame of the
            // station, and the answer.
            let outcome = claimed::run(scheme, Claimed { every: 40, claims });
            println!("{name}, {claims} claims: {} of {}", outcome.lost(), outcome.sent);
            assert!(outcome.lost() <= 3 * claims as usize, "{name}, {claims} claims: {outcome:?}");
        }
        // A station that sends every three seconds is found again with its next frame, whatever the
        // destination of that frame.
        let outcome = claimed::run(scheme, Claimed { every: 3000, claims: 1 });
        println!("{name}, a slow station: {}", outcome.lost());
        assert!((1..=77).contains(&outcome.lost()), "{name}: {outcome:?}");
    }
}

#[test]
fn forgeries_that_reach_the_lan_are_counted() {
    for (name, scheme) in ALL {
        let outcome = forgeries::run(scheme, 5, 12_000);
        println!("{name}: {outcome:?}");
        let held = matches!(name, "sealed" | "compressed" | "identifier" | "identifier-paper");
        assert_eq!(outcome.passed_of_delivered() == 0, held, "{name}: {outcome:?}");
        let none_at_all = matches!(name, "sealed" | "compressed");
        assert_eq!(outcome.passed() == 0, none_at_all, "{name}: {outcome:?}");
        assert!(outcome.burnt == 0 || !none_at_all, "{name}: {outcome:?}");
    }
}

#[test]
fn a_datagram_of_another_scheme_is_dropped() {
    for (name, scheme) in ALL {
        let mut world = acquainted(scheme);
        for kind in DatagramType::ALL.map(|kind| kind as u8).into_iter().chain(PAPER_TYPES) {
            let bytes = [&[kind][..], &[0x55; 100]].concat();
            assert!(!world.arrive(&Datagram { from: 0, to: 1, bytes }), "{name} {kind:#x}");
        }
    }
}

#[test]
fn long_frames_are_back_five_seconds_after_the_path_narrowed() {
    for (name, scheme) in ALL {
        let seconds = narrowing::worst_seconds(scheme);
        println!("{name}: {seconds} s");
        assert!(seconds <= 5.1, "{name}: {seconds} s");
    }
}
