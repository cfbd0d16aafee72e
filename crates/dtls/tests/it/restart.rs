//! Associations that outlive their processes: two ends that end at any point, in virtual time.

mod shared;

use lightseal_core::{DecodeError, Instant, Output, Random};
use lightseal_dtls::codepoints::PskKeyExchangeMode;
use lightseal_dtls::crypto::CipherSuiteId;
use lightseal_dtls::tuning::MOST_RENEWALS;
use lightseal_dtls::{
    AggregationPolicy, Connection, ConnectionIds, Endpoint, Engine, Event, Handle, Marks,
    ProtocolVersion, Psk, RestoreError, SaveError, SavedAssociation, Scheme, SessionSlots,
    WhenFull,
};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use testkit::drain;
use testkit::pair::{Configs, Pair, server_address};
use testkit::restart::{ENDS, Plan, Report, World};

/// The kinds of associations that are saved, by name.
const KINDS: [&str; 4] = ["1.3", "1.3 without IDs", "1.2", "1.2 without IDs"];

/// The kinds with shared tags: schemes for what goes to the server and to the client.
const SHARED: [&str; 6] = [
    "1.3 agg:8 agg:8",
    "1.3 agg:16 off",
    "1.3 off r2d2:100",
    "1.3 r2d2:50 agg:3",
    "1.3 sliding:200 agg:2+check without IDs",
    "1.3 agg:16+r2d2:150 r2d2:50+check+agg:5",
];

/// The kinds with plain tags and those with shared tags.
fn kinds() -> impl Iterator<Item = &'static str> {
    KINDS.into_iter().chain(SHARED)
}

/// The schemes for what goes to the server and to the client.
fn schemes(kind: &str) -> [Vec<Scheme>; 2] {
    let mut lists = kind.split(' ').skip(1).take(2).map(|list| {
        let names = list.replace("+check", "!").replace('+', " ").replace('!', "+check");
        let schemes = names.split(' ').filter(|name| *name != "off").map(str::parse);
        schemes.collect::<Result<Vec<Scheme>, _>>().expect("names of schemes")
    });
    [(); 2].map(|()| lists.next().unwrap())
}

fn configs(kind: &str) -> Configs {
    let shared = SHARED.contains(&kind);
    let (suite, version) = match kind.starts_with("1.3") {
        true if shared => (CipherSuiteId::AES_128_CCM_SHA256, ProtocolVersion::Dtls13),
        true => (CipherSuiteId::AES_128_GCM_SHA256, ProtocolVersion::Dtls13),
        false => (CipherSuiteId::PSK_WITH_AES_128_CCM, ProtocolVersion::Dtls12),
    };
    let mut configs = Configs::new();
    if shared {
        let [up, down] = schemes(kind);
        configs.client.settings.aggregation = AggregationPolicy::new(up.clone(), down.clone());
        configs.server.settings.aggregation = AggregationPolicy::new(down, up);
    }
    for settings in [&mut configs.client.settings, &mut configs.server.settings] {
        settings.versions = vec![version];
        settings.suites = vec![suite, CipherSuiteId::AES_128_GCM_SHA256];
        settings.psk_modes = vec![PskKeyExchangeMode::PSK_KE];
        settings.connection_ids =
            if kind.ends_with("IDs") { ConnectionIds::Off } else { ConnectionIds::Bytes(8) };
    }
    configs
}

fn run(kind: &str, plan: Plan) -> Report {
    World::new(configs(kind), plan).run().unwrap_or_else(|wrong| panic!("{kind}: {wrong}"))
}

#[test]
fn without_an_end_nothing_is_lost_and_nobody_waits() {
    for kind in kinds() {
        let plan =
            Plan { seed: 1, actions: 40, kills: vec![], faults: false, moves: false, stops: false };
        let report = run(kind, plan);
        assert_eq!((report.handshakes, report.lost), (1, 0), "{kind}: {report:?}");
        assert!(report.delivered > 50 && report.writes > 10, "{kind}: {report:?}");
    }
}

/// One point in this many. The claim `crash-points` tries all.
const STEP: usize = 12;

#[test]
fn an_end_at_any_point() {
    let (mut runs, mut restored) = (0, 0);
    for (seed, kind) in (1..).zip(kinds()) {
        let plan =
            |kills| Plan { seed, actions: 8, kills, faults: true, moves: false, stops: false };
        let points = run(kind, plan(vec![])).points;
        assert!(points > 60, "{kind}: {points} points");
        for point in (0..points).step_by(STEP) {
            restored += run(kind, plan(vec![point])).restored;
            runs += 1;
        }
    }
    assert!(runs > 80 && restored > runs / 3, "{restored} of {runs}");
}

#[test]
fn ends_at_random_points() {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    let mut totals = Report::default();
    for seed in seed.map_or(0..120, |seed| seed..seed + 1) {
        let kinds: Vec<_> = kinds().collect();
        let kind = kinds[seed as usize % kinds.len()];
        let mut rng = Random::insecure(seed);
        let mut kills: Vec<u64> = (0..rng.below(8)).map(|_| rng.below(2000)).collect();
        kills.sort_unstable();
        // The path is followed by connection IDs alone.
        let moves = !kind.ends_with("IDs");
        let report = run(kind, Plan { seed, actions: 30, kills, faults: true, moves, stops: true });
        totals.restored += report.restored;
        totals.delivered += report.delivered;
    }
    assert!(totals.delivered > 0);
}

#[test]
fn many_restarts_while_the_peer_sleeps() {
    for (kind, end) in kinds().flat_map(|kind| ENDS.map(|end| (kind, end))) {
        let plan =
            Plan { seed: 3, actions: 8, kills: vec![], faults: true, moves: false, stops: false };
        let report = World::new(configs(kind), plan).restart_often(end, 20);
        let report = report.unwrap_or_else(|wrong| panic!("{kind}, {end}: {wrong}"));
        assert_eq!((report.kills, report.restored, report.handshakes), (20, 20, 1), "{kind}");
    }
}

/// A pair that has exchanged payloads, and both ends of it as they are saved.
fn saved_pair(kind: &str) -> (Pair<'static>, [SavedAssociation; 2]) {
    let (mut pair, server) = server_saved(kind);
    let client = pair.client.save(pair.now).unwrap();
    assert!(pair.client.is_closed() && pair.server.open_connections() == 0);
    (pair, [client, server])
}

/// A pair that has exchanged payloads, and its server as it is saved.
fn server_saved(kind: &str) -> (Pair<'static>, SavedAssociation) {
    let mut pair = configs(kind).pair(5);
    pair.connect().assert_connected();
    pair.client_send(b"up");
    pair.server_send(b"down");
    pair.run_for(Duration::from_secs(1));
    let (now, handle) = (pair.now, pair.handle.unwrap());
    let server = pair.server.save(now, handle).unwrap().unwrap();
    (pair, server)
}

/// Both ends, restored in place of those that were saved.
fn restore(kind: &str, pair: &mut Pair<'_>, [client, server]: &[SavedAssociation; 2]) {
    let Configs { client: config, server: config12 } = configs(kind);
    let now = pair.now;
    pair.client = Connection::restore(config.config(), client, now, Random::insecure(8)).unwrap();
    pair.server = Endpoint::server(config12.config(), Random::insecure(9));
    pair.handle = Some(pair.server.restore(now, server).unwrap());
}

#[test]
fn a_clean_save_goes_on_where_it_was() {
    for kind in KINDS {
        let (mut pair, saved) = saved_pair(kind);
        let before = pair.log.len();
        pair.run_for(Duration::from_secs(3600));
        assert_eq!(pair.log.len(), before, "{kind}: nobody is told");
        restore(kind, &mut pair, &saved);
        pair.run_for(Duration::from_secs(3600));
        assert_eq!(pair.log.len(), before, "{kind}: nothing is sent before there is something");
        pair.client_send(b"up again");
        pair.run_for(Duration::from_secs(1));
        pair.server_send(b"down again");
        pair.run_for(Duration::from_secs(1));
        assert_eq!(pair.at_server.data, [&b"up"[..], b"up again"], "{kind}");
        assert_eq!(pair.at_client.data, [&b"down"[..], b"down again"], "{kind}");
        assert_eq!(pair.log.len(), before + 2, "{kind}: one datagram each, without new keys");
        // What came before is not delivered again.
        for (direction, datagram) in pair.log.clone() {
            pair.inject(direction, datagram);
        }
        pair.run_for(Duration::from_secs(10));
        assert_eq!((pair.at_server.data.len(), pair.at_client.data.len()), (2, 2), "{kind}");
    }
}

/// A server whose store fails acknowledges no handshake, and clients come again and again.
#[test]
fn what_ends_while_no_write_is_confirmed_takes_no_memory() {
    for kind in KINDS {
        for ends_itself in [true, false] {
            let mut configs = configs(kind);
            configs.server.settings.write_ahead = true;
            let mut pair = configs.pair(5);
            pair.connect();
            let handle = pair.handle.expect("the handshake is complete at the server");
            let now = pair.now;
            if ends_itself {
                pair.server.connection_mut(handle).unwrap().close(now);
            }
            pair.run_for(Duration::from_secs(10));
            let open = u64::from(!ends_itself);
            assert_eq!(pair.server.connections().count() as u64, open, "{kind}");
        }
    }
}

#[test]
fn what_cannot_be_saved_says_why() {
    let mut pair = configs("1.3").pair(6);
    assert_eq!(pair.client.save(pair.now), Err(SaveError::NotConnected));
    pair.connect().assert_connected();
    let now = pair.now;
    pair.client_send(b"waits");
    assert_eq!(pair.client.save(now), Err(SaveError::Busy));
}

#[test]
fn what_is_not_an_association_is_not_restored() {
    for kind in kinds() {
        let (pair, [client, server]) = saved_pair(kind);
        let now = pair.now;
        let restored = |saved: &SavedAssociation| {
            let config = configs(kind).client.config();
            Connection::restore(config, saved, now, Random::insecure(1)).map(|_| ())
        };
        assert_eq!(restored(&client), Ok(()), "{kind}");
        assert_eq!(restored(&server), Err(RestoreError::Role), "{kind}");
        let (marks, state) = (client.marks, client.state().unwrap());
        for cut in 0..state.len() {
            let error = restored(&SavedAssociation::new(marks, state[..cut].to_vec()));
            assert!(matches!(error, Err(RestoreError::Malformed(_))), "{kind}: {cut}: {error:?}");
        }
        let longer = [state, &[0]].concat();
        assert_eq!(
            restored(&SavedAssociation::new(marks, longer)),
            Err(RestoreError::Malformed(DecodeError::Trailing)),
        );
        for at in 0..state.len() {
            for change in [1, 0x80, 0xff] {
                let mut state = state.to_vec();
                state[at] ^= change;
                let _ = restored(&SavedAssociation::new(marks, state));
            }
        }
        let mut other = state.to_vec();
        other[0] = 3;
        let other = restored(&SavedAssociation::new(marks, other));
        assert_eq!(other, Err(RestoreError::Format(3)), "{kind}");
        for marks in [
            Marks { send_epoch: marks.send_epoch + 1, ..marks },
            Marks { send_below: 1 << 60, ..marks },
            Marks { version: u64::MAX, ..marks },
            Marks { deliver_epoch: marks.deliver_epoch + 1, ..marks },
        ] {
            let error = restored(&SavedAssociation::new(marks, state.to_vec()));
            assert!(matches!(error, Err(RestoreError::Malformed(_))), "{kind}: {error:?}");
        }
        let skipped = |skipped| SavedAssociation::new(Marks { skipped, ..marks }, state.to_vec());
        assert_eq!(restored(&skipped(1 << 14)), Ok(()), "{kind}");
        assert_eq!(restored(&skipped((1 << 14) + 1)), Err(RestoreError::Skipped), "{kind}");
    }
}

#[test]
fn an_association_whose_key_has_changed_is_not_restored() {
    for kind in kinds() {
        let (pair, [_, server]) = saved_pair(kind);
        let with = |psk: Psk| {
            let mut configs = configs(kind);
            configs.server.psks = Arc::new(psk);
            let mut endpoint = Endpoint::server(configs.server.config(), Random::insecure(2));
            endpoint.restore(pair.now, &server).map(|_| ())
        };
        assert_eq!(with(testkit::pair::psk()), Ok(()), "{kind}");
        let changed = Psk::external(b"Client_identity", &[0x1b; 32]).unwrap();
        assert_eq!(with(changed), Err(RestoreError::UnknownKey), "{kind}");
        let other = Psk::external(b"Other_identity", &[0x1a; 32]).unwrap();
        assert_eq!(with(other), Err(RestoreError::UnknownKey), "{kind}");
    }
}

#[test]
fn no_two_associations_of_an_endpoint_have_one_id_or_address() {
    for kind in KINDS {
        let (mut pair, saved) = saved_pair(kind);
        restore(kind, &mut pair, &saved);
        let again = pair.server.restore(pair.now, &saved[1]).map(|_| ());
        assert_eq!(again, Err(RestoreError::InUse), "{kind}");
        pair.server.forget(pair.handle.unwrap());
        assert!(pair.server.restore(pair.now, &saved[1]).is_ok(), "{kind}");
    }
}

/// What a version of the format has written once is written and read the same way for ever. If this
/// test fails, the format has changed: give it another number.
#[test]
fn the_form_of_a_saved_association_stays() {
    let plain = KINDS.map(|kind| (kind, saved_pair(kind).1));
    assert_form(include_str!("restart/format1.txt"), &plain);
    let shared = SHARED.map(|kind| (kind, saved_after_changes(kind)));
    assert_form(include_str!("restart/format2.txt"), &shared);
}

/// Both ends of an association in which each end has asked for another scheme.
fn saved_after_changes(kind: &str) -> [SavedAssociation; 2] {
    let mut pair = configs(kind).pair(5);
    pair.connect().assert_connected();
    let (now, [up, down]) = (pair.now, schemes(kind));
    if !down.is_empty() {
        pair.client.request_aggregation(now, Scheme::Plain).unwrap();
    }
    let (now, handle) = (pair.now, pair.handle.unwrap());
    if let Some(scheme) = up.last() {
        let mut server = pair.server.connection_mut(handle).unwrap();
        server
            .request_aggregation(now, if up.len() > 1 { *scheme } else { Scheme::Plain })
            .unwrap();
    }
    pair.client_send(b"up");
    pair.server_send(b"down");
    pair.run_for(Duration::from_secs(1));
    let server = pair.server.save(pair.now, handle).unwrap().unwrap();
    [pair.client.save(pair.now).unwrap(), server]
}

fn assert_form(fixtures: &str, saved: &[(&str, [SavedAssociation; 2])]) {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let form = |(kind, [client, _]): &(&str, [SavedAssociation; 2])| {
        let (marks, state) = (client.marks.to_bytes(), client.state().unwrap());
        let config = configs(kind).client.config();
        let restored = Connection::restore(config, client, Instant::ZERO, Random::insecure(1));
        assert!(restored.is_ok(), "{kind}");
        format!("{kind}: {} {}", hex(&marks), hex(state))
    };
    let forms: Vec<_> = saved.iter().map(form).collect();
    let fixtures: Vec<_> = fixtures.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(forms, fixtures);
}

/// A server that stores what it is asked to at once, and its clients, without a network between them.
struct Crowd {
    now: Instant,
    server: Endpoint,
    clients: Vec<Connection>,
    stored: BTreeMap<Handle, SavedAssociation>,
    /// The epoch of the newest record for each client, as its header shows it.
    epochs: Vec<u8>,
    /// Whether the server is told that it is stored, and what it was not told.
    confirms: bool,
    owed: Vec<(u64, Handle)>,
    /// The payloads that the server has delivered.
    delivered: u64,
}

impl Crowd {
    /// Clients whose handshakes are complete.
    fn new(kind: &str, clients: usize) -> Self {
        let (config, now) = (configs(kind).client.config(), Instant::from_micros(1));
        let connect = |number| {
            Connection::client(Arc::clone(&config), server_address(), now, Random::insecure(number))
        };
        let mut crowd = Self {
            now,
            server: Self::server(kind, 90),
            clients: (0..clients as u64).map(connect).collect(),
            stored: BTreeMap::new(),
            epochs: vec![0; clients],
            confirms: true,
            owed: Vec::new(),
            delivered: 0,
        };
        crowd.settle();
        assert_eq!(crowd.stored.len(), clients);
        crowd
    }

    fn server(kind: &str, seed: u64) -> Endpoint {
        let mut configs = configs(kind);
        configs.server.settings.write_ahead = true;
        Endpoint::server(configs.server.config(), Random::insecure(seed))
    }

    fn address(client: usize) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], 1000 + client as u16))
    }

    /// Carries datagrams until nobody has any.
    fn settle(&mut self) {
        let mut buf = vec![0; 2048];
        let mut is_quiet = false;
        while !is_quiet {
            is_quiet = true;
            for (number, client) in self.clients.iter_mut().enumerate() {
                for mut payload in drain(client, |_| {}).payloads() {
                    self.server.handle_datagram(self.now, Self::address(number), &mut payload);
                    is_quiet = false;
                }
            }
            loop {
                match self.server.poll_output(&mut buf) {
                    Output::Datagram { to, payload } => {
                        let number = usize::from(to.port() - 1000);
                        if payload[0] >> 5 == 1 {
                            self.epochs[number] = payload[0] & 3;
                        }
                        let mut payload = payload.to_vec();
                        let client = &mut self.clients[number];
                        client.handle_datagram(self.now, server_address(), &mut payload);
                        is_quiet = false;
                    }
                    Output::Event(event) => {
                        let handle = event.handle;
                        let saved = match event.event {
                            Event::Save(saved) => saved,
                            Event::Data(_) => {
                                self.delivered += 1;
                                continue;
                            }
                            _ => continue,
                        };
                        let version = saved.marks.version;
                        let former = self.stored.remove(&handle);
                        let saved = match (saved.state(), former) {
                            (None, Some(former)) => former.with(saved.marks),
                            _ => *saved,
                        };
                        self.stored.insert(handle, saved);
                        match self.confirms {
                            true => self.server.saved(self.now, handle, version),
                            false => self.owed.push((version, handle)),
                        }
                        is_quiet = false;
                    }
                    Output::BufferTooSmall { needed } => panic!("{needed} bytes are needed"),
                    Output::WakeAt(_) | Output::Idle => break,
                }
            }
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.server.handle_timeout(self.now);
        self.settle();
    }
}

#[test]
fn associations_that_are_taken_over_ask_for_new_keys_one_after_another() {
    const CLIENTS: usize = 20;
    let mut crowd = Crowd::new("1.3", CLIENTS);
    let now = crowd.now;
    // The server dies, and another one goes on.
    let stored = std::mem::take(&mut crowd.stored);
    crowd.server = Crowd::server("1.3", 91);
    for saved in stored.values() {
        let handle = crowd.server.restore(now, saved).unwrap();
        crowd.stored.insert(handle, saved.clone());
    }
    for client in &mut crowd.clients {
        let _ = client.send(now, b"here", &mut []).unwrap();
    }
    crowd.settle();
    // New keys begin with the epoch 4, which shows as 0.
    let turn = Duration::from_secs(1) / MOST_RENEWALS;
    for turns in 1..=CLIENTS {
        for handle in crowd.stored.keys().copied().collect::<Vec<_>>() {
            let mut connection = crowd.server.connection_mut(handle).unwrap();
            let _ = connection.send(crowd.now, b"answer", &mut []).unwrap();
        }
        crowd.settle();
        let renewed = crowd.epochs.iter().filter(|epoch| **epoch == 0).count();
        assert_eq!(renewed, turns, "messages do not wait for that");
        crowd.pass(turn);
    }
}

/// Nor does the newest one, which a host restores first, give way to an older one.
#[test]
fn a_restored_association_evicts_no_session() {
    let idle = WhenFull::EvictIdle(Duration::ZERO);
    for when_full in [WhenFull::Refuse, WhenFull::EvictOldest, idle] {
        let crowd = Crowd::new("1.3", 4);
        let mut configs = configs("1.3");
        configs.server.settings.write_ahead = true;
        configs.server.slots = SessionSlots::at_most(NonZeroUsize::new(3).unwrap(), when_full);
        let mut server = Endpoint::server(configs.server.config(), Random::insecure(91));
        let newest_first = crowd.stored.values().rev();
        let restored: Vec<_> =
            newest_first.map(|saved| server.restore(crowd.now, saved).map(drop)).collect();
        let full = Err(RestoreError::Full);
        assert_eq!(restored, [Ok(()), Ok(()), Ok(()), full], "{when_full:?}");
        assert_eq!((server.open_connections(), server.stats().evicted), (3, 0), "{when_full:?}");
        assert_eq!(drain(&mut server, |_| {}).payloads().count(), 0, "{when_full:?}");
    }
}

/// Payloads that wait for their write are given up after two minutes, and beyond the endpoint's limit
/// at once.
#[test]
fn payloads_that_no_write_permits_are_bounded_and_counted() {
    for kind in KINDS {
        let mut crowd = Crowd::new(kind, 1);
        let handle = *crowd.stored.keys().next().unwrap();
        // What an association that falls idle has reserved is given back.
        (0..5).for_each(|_| crowd.pass(Duration::from_secs(1)));
        crowd.confirms = false;
        let unsaved =
            |crowd: &Crowd| crowd.server.connection(handle).unwrap().stats().received.unsaved;
        let send = |crowd: &mut Crowd, count| {
            for _ in 0..count {
                let now = crowd.now;
                let _ = crowd.clients[0].send(now, &[7; 100], &mut []).unwrap();
            }
            crowd.settle();
        };
        send(&mut crowd, 10);
        crowd.pass(Duration::from_secs(60));
        send(&mut crowd, 1);
        crowd.pass(Duration::from_secs(59));
        assert_eq!((crowd.delivered, unsaved(&crowd)), (0, 0), "{kind}");
        crowd.pass(Duration::from_secs(2));
        assert_eq!(unsaved(&crowd), 10, "{kind}: the last one came later");
        crowd.pass(Duration::from_secs(60));
        assert_eq!((crowd.delivered, unsaved(&crowd)), (0, 11), "{kind}");
        crowd.server.limit_unsaved(1000);
        send(&mut crowd, 20);
        assert!(crowd.server.buffered_bytes() <= 1000, "{kind}");
        let dropped = unsaved(&crowd) - 11;
        assert!((13..20).contains(&dropped), "{kind}: {dropped}");
        // What remains is delivered when the store is there again.
        crowd.confirms = true;
        for (version, handle) in std::mem::take(&mut crowd.owed) {
            crowd.server.saved(crowd.now, handle, version);
        }
        crowd.settle();
        assert_eq!(crowd.delivered, 20 - dropped, "{kind}");
    }
}
