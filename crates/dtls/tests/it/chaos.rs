//! Copies, mutations and mixtures of real traffic, from any address, at the ends of both versions.

use lightseal_core::Random;
use lightseal_dtls::ProtocolVersion::{Dtls12, Dtls13};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use testkit::pair::{self, Configs, Direction, Pair, client_address, pass};

fn attacker(n: u8) -> SocketAddr {
    SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0xbad, n.into()], 9))
}

/// A datagram made from observed ones.
fn forged(rng: &mut Random, seen: &[Vec<u8>]) -> Vec<u8> {
    let mut pick = |n: usize| u32::from_be_bytes(rng.array()) as usize % n.max(1);
    let mut datagram = seen[pick(seen.len())].clone();
    match pick(6) {
        0 => {}
        1 => {
            for _ in 0..1 + pick(3) {
                let at = pick(datagram.len());
                datagram[at] ^= 1 << pick(8);
            }
        }
        2 => datagram.truncate(pick(datagram.len()) + 1),
        3 => datagram.extend_from_slice(&seen[pick(seen.len())].clone()),
        4 => {
            // Combines the header of one with the body of another.
            let other = seen[pick(seen.len())].clone();
            let at = pick(datagram.len().min(other.len()).min(40));
            datagram.truncate(at);
            datagram.extend_from_slice(&other[at..]);
        }
        _ => {
            let at = pick(datagram.len().min(26));
            datagram[at] = pick(256) as u8;
        }
    }
    datagram
}

fn survives(seed: u64, handshake_too: bool) {
    let mut rng = Random::insecure(seed);
    let mut pick = |n: u64| u64::from_be_bytes(rng.array()) % n;
    let mut configs = Configs::new();
    let versions = match pick(3) {
        0 => vec![Dtls12],
        1 => vec![Dtls13],
        _ => vec![Dtls13, Dtls12],
    };
    for settings in [&mut configs.client.settings, &mut configs.server.settings] {
        settings.versions = versions.clone();
        settings.connection_ids = pair::ids([None, Some(0), Some(1), Some(8)][pick(4) as usize]);
        settings.return_routability = pick(4) > 0;
        settings.packing =
            [lightseal_dtls::Packing::Full, lightseal_dtls::Packing::RecordPerMessage]
                [pick(2) as usize];
    }
    let seen = Rc::new(RefCell::new(Vec::new()));
    let keep = Rc::clone(&seen);
    let mut pair: Pair<'_> = configs.pair(seed).with_rule(move |_, _, datagram| {
        keep.borrow_mut().push(datagram.to_vec());
        pass(datagram)
    });
    let mut junk = Random::insecure(seed ^ 0x5555);
    let mut inject = |pair: &mut Pair<'_>| {
        let seen = seen.borrow();
        if seen.is_empty() {
            return;
        }
        let datagram = forged(&mut junk, &seen);
        match junk.array::<1>()[0] % 4 {
            0 => pair.inject(Direction::ToClient, datagram),
            1 => pair.inject_from(attacker(junk.array::<1>()[0] % 4), datagram),
            _ => pair.inject(Direction::ToServer, datagram),
        }
    };
    if handshake_too {
        // The handshake may fail, because anybody can send plaintext. But nothing wrong may be
        // delivered.
        for _ in 0..40 {
            pair.run_for(Duration::from_millis(4));
            inject(&mut pair);
        }
    }
    pair.connect();
    if !handshake_too {
        pair.assert_connected();
    }
    let (mut up, mut down) = (0u32, 0u32);
    for _ in 0..60 {
        if pair.client.is_connected()
            && pair.send_lending(Direction::ToServer, &up.to_be_bytes(), pick(90) as usize).is_ok()
        {
            up += 1;
        }
        if pair.send_lending(Direction::ToClient, &down.to_be_bytes(), pick(90) as usize).is_ok() {
            down += 1;
        }
        for _ in 0..5 {
            inject(&mut pair);
        }
        pair.run_for(Duration::from_millis(30));
    }
    pair.run_for(Duration::from_secs(5));
    for (received, sent) in [(&pair.at_server.data, up), (&pair.at_client.data, down)] {
        let distinct: BTreeSet<_> = received.iter().collect();
        assert_eq!(distinct.len(), received.len(), "seed {seed}: delivered twice");
        for payload in received {
            let n = u32::from_be_bytes(payload.as_slice().try_into().unwrap());
            assert!(n < sent, "seed {seed}: {n} was never sent");
        }
        if !handshake_too {
            assert_eq!(received.len() as u32, sent, "seed {seed}: lost");
        }
    }
    assert!(pair.at_server.moves.is_empty(), "seed {seed}: {:?}", pair.at_server.moves);
    if !handshake_too {
        pair.assert_connected();
        let peer = pair.server.connection(pair.handle.unwrap()).unwrap().peer();
        assert_eq!(peer, client_address());
    }
}

fn seeds(default: u64) -> u64 {
    std::env::var("CHAOS_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

#[test]
fn an_association_that_is_complete_survives_what_others_make_of_its_traffic() {
    (0..seeds(60)).for_each(|seed| survives(seed, false));
}

#[test]
fn nothing_wrong_is_delivered_whatever_happened_in_the_handshake() {
    (0..seeds(60)).for_each(|seed| survives(1000 + seed, true));
}
