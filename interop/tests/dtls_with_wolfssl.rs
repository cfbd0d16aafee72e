//! Lightseal's DTLS 1.3 against wolfSSL's, in both roles, in virtual time.

use dtls::crypto::{CipherSuiteId, rustcrypto};
use dtls::{AggregationPolicy, Scheme};
use interop::driven::{Driven, Event};
use interop::ours::{Ours, client_config, server_config};
use interop::wolfssl::{Context, Group, Mode, Role, Settings, Suite};
use net::virtual_time::{Network, NodeId};
use net::{Either, Impairments, Probability};
use std::net::SocketAddr;
use std::time::Duration;
use vocabulary::Instant;

const MODES: [Mode; 3] = [Mode::Psk, Mode::PskWith(Group::X25519), Mode::PskWith(Group::P256)];

/// One of ours and one of theirs in a network.
struct Pair {
    network: Network<Either<Ours, Driven>>,
    ours: NodeId,
    theirs: NodeId,
    /// What either end said, ours first.
    events: [Vec<Event>; 2],
}

impl Pair {
    fn new(settings: &Settings, our_role: Role, policy: &AggregationPolicy, seed: u64) -> Self {
        let mut network = Network::new(seed);
        let here: SocketAddr = "10.0.0.1:1".parse().unwrap();
        let there: SocketAddr = "10.0.0.2:2".parse().unwrap();
        network.impair_all(&Impairments { delay: Duration::from_millis(20), ..Impairments::NONE });
        let (ours, theirs) = match our_role {
            Role::Client => {
                let mut config = client_config(settings, &rustcrypto::PROVIDER);
                want(&mut config.settings, policy);
                let context = Context::new(Role::Server, settings);
                (Ours::client(config, there, Instant::ZERO, seed), Driven::server(&context))
            }
            Role::Server => {
                let mut config = server_config(settings, &rustcrypto::PROVIDER);
                want(&mut config.settings, policy);
                let context = Context::new(Role::Client, settings);
                (Ours::server(config, seed), Driven::client(&context, here, Instant::ZERO))
            }
        };
        let ours = network.add(here, Either::Left(ours));
        let theirs = network.add(there, Either::Right(theirs));
        Self { network, ours, theirs, events: [Vec::new(), Vec::new()] }
    }

    fn run_until(&mut self, seconds: u64) {
        let Self { network, ours, events, .. } = self;
        network.run_until(Instant::from_micros(seconds * 1_000_000), |node, _, event| {
            let (Either::Left(event) | Either::Right(event)) = event;
            events[usize::from(node != *ours)].push(event);
        });
    }

    /// Both ends say so, once each.
    fn connected(&self) -> bool {
        self.events.iter().all(|events| *events == [Event::Connected])
    }

    fn call_ours<R>(&mut self, call: impl FnOnce(&mut Ours, Instant) -> R) -> R {
        self.network.call(self.ours, |end, now| call(end.left().expect("ours"), now))
    }

    fn call_theirs<R>(&mut self, call: impl FnOnce(&mut Driven) -> R) -> R {
        self.network.call(self.theirs, |end, _| call(end.right().expect("theirs")))
    }

    /// Sends payloads of every interesting length both ways and checks that they arrive.
    fn exchange_data(&mut self, from_second: u64) {
        self.events = [Vec::new(), Vec::new()];
        let payloads: Vec<_> = [1, 2, 15, 16, 17, 64, 500, 1100].map(|n| vec![n as u8; n]).into();
        for payload in &payloads {
            self.call_ours(|ours, now| ours.send(now, payload)).expect("connected");
            self.call_theirs(|theirs| theirs.send(payload)).expect("connected");
        }
        self.run_until(from_second + 5);
        let data: Vec<_> = payloads.into_iter().map(Event::Data).collect();
        assert_eq!(self.events, [data.clone(), data]);
    }
}

/// Asks for shared tags, which only our own suite can carry.
fn want(ours: &mut dtls::Settings, policy: &AggregationPolicy) {
    if policy.is_wanted() {
        ours.suites.insert(0, CipherSuiteId::AES_128_CTR_LIGHTMAC_SHA256);
    }
    ours.aggregation = policy.clone();
}

fn settings(suite: Suite, mode: Mode, cookie: bool) -> Settings {
    Settings { suite, mode, cookie, identity: b"sensor-7".to_vec(), key: vec![0x5a; 32] }
}

#[test]
fn every_suite_and_mode_in_both_roles_with_and_without_cookie() {
    for role in [Role::Client, Role::Server] {
        for suite in Suite::ALL {
            for mode in MODES {
                for cookie in [false, true] {
                    let what = format!("we are {role:?}, {suite:?} {mode:?} cookie {cookie}");
                    let settings = settings(suite, mode, cookie);
                    let mut pair = Pair::new(&settings, role, &AggregationPolicy::default(), 1);
                    pair.run_until(10);
                    assert!(pair.connected(), "{what}: {:?}", pair.events);
                    pair.exchange_data(10);
                    let sent_again = pair.call_ours(|ours, _| {
                        ours.connection().expect("open").stats().sent.retransmissions
                    });
                    assert_eq!(sent_again, 0, "{what}");
                }
            }
        }
    }
}

#[test]
fn either_end_may_close() {
    for role in [Role::Client, Role::Server] {
        let settings = settings(Suite::Aes128Gcm, Mode::Psk, true);
        let mut pair = Pair::new(&settings, role, &AggregationPolicy::default(), 1);
        pair.run_until(5);
        pair.call_ours(Ours::close);
        pair.run_until(10);
        assert!(matches!(&pair.events[1][1..], [Event::Closed(_)]), "{:?}", pair.events);

        let mut pair = Pair::new(&settings, role, &AggregationPolicy::default(), 1);
        pair.run_until(5);
        pair.call_theirs(Driven::close);
        pair.run_until(10);
        assert!(matches!(&pair.events[0][1..], [Event::Closed(_)]), "{:?}", pair.events);
    }
}

#[test]
fn their_new_keys_are_followed() {
    for role in [Role::Client, Role::Server] {
        let settings = settings(Suite::Aes128Gcm, Mode::Psk, true);
        let mut pair = Pair::new(&settings, role, &AggregationPolicy::default(), 1);
        pair.run_until(5);
        for round in 1..4 {
            pair.call_theirs(|theirs| theirs.peer().update_keys()).expect("connected");
            pair.run_until(10 * round);
            pair.exchange_data(10 * round);
        }
    }
}

/// A peer that does not know the aggregation extension gets plain DTLS 1.3.
#[test]
fn who_wants_shared_tags_falls_back_to_plain_ones() {
    let policy = AggregationPolicy::both("agg:8".parse().expect("a scheme"));
    for role in [Role::Client, Role::Server] {
        for mode in MODES {
            let settings = settings(Suite::Aes128Gcm, mode, true);
            let mut pair = Pair::new(&settings, role, &policy, 1);
            pair.run_until(5);
            assert!(pair.connected(), "{:?}", pair.events);
            let schemes = pair.call_ours(|ours, _| {
                ours.negotiated().map(|negotiated| (negotiated.send, negotiated.receive))
            });
            assert_eq!(schemes, Some((Scheme::Plain, Scheme::Plain)));
            pair.exchange_data(5);
        }
    }
}

#[test]
fn another_key_connects_nobody() {
    for role in [Role::Client, Role::Server] {
        let settings = settings(Suite::Aes128Gcm, Mode::Psk, true);
        let mut pair = Pair::new(&settings, role, &AggregationPolicy::default(), 1);
        let theirs = Settings { key: vec![0x5b; 32], ..settings };
        let here = pair.network.address(pair.ours);
        let end = match role {
            Role::Client => Driven::server(&Context::new(Role::Server, &theirs)),
            Role::Server => {
                Driven::client(&Context::new(Role::Client, &theirs), here, Instant::ZERO)
            }
        };
        pair.call_theirs(|slot| *slot = end);
        pair.run_until(70);
        assert!(!pair.events[0].contains(&Event::Connected), "{:?}", pair.events);
        // Whoever is wolfSSL learns of it, by an alert or from the binder itself.
        assert!(matches!(&pair.events[1][..], [Event::Closed(_)]), "{:?}", pair.events);
    }
}

#[test]
fn a_fifth_lost_the_handshake_still_ends() {
    for role in [Role::Client, Role::Server] {
        for seed in 0..4 {
            let settings = settings(Suite::Aes128Gcm, MODES[seed as usize % 3], true);
            let mut pair = Pair::new(&settings, role, &AggregationPolicy::default(), seed);
            pair.network.impair_all(&Impairments {
                loss: Probability::ratio(1, 5),
                delay: Duration::from_millis(30),
                ..Impairments::NONE
            });
            pair.run_until(55);
            assert!(pair.connected(), "we are {role:?}, seed {seed}: {:?}", pair.events);
        }
    }
}
