//! An observer with the key log reads every record of real associations.

use lightseal_core::Random;
use lightseal_dtls::codepoints::ContentType;
use lightseal_dtls::crypto::{CipherSuiteId, HashAlgorithm, rustcrypto};
use lightseal_dtls::passive::{Observer, Proof, Record, Secrets, Sender};
use lightseal_dtls::{AggregationPolicy, NumberMasks, ProtocolVersion, RecordNumbers};
use std::time::Duration;
use testkit::pair::{
    self, Configs, Direction, LoggedSecrets, Pair, client_address, pass, server_address,
};

/// A pair that logs its secrets.
fn logged(configs: &mut Configs) -> LoggedSecrets {
    let lines = LoggedSecrets::default();
    configs.client.settings.key_log = Some(lines.log());
    configs.server.settings.key_log = Some(lines.log());
    lines
}

/// All records that were sent, each with its final proof.
fn observe(mut observer: Observer, log: &[(Direction, Vec<u8>)]) -> Vec<Record> {
    let mut records = Vec::new();
    for (direction, datagram) in log {
        let (from, to) = match direction {
            Direction::ToServer => (client_address(), server_address()),
            Direction::ToClient => (server_address(), client_address()),
        };
        records.extend(observer.datagram(from, to, &mut datagram.clone()));
    }
    settle(observer, &mut records);
    records
}

fn settle(mut observer: Observer, records: &mut [Record]) {
    observer.finish();
    while let Some(verdict) = observer.next_verdict() {
        let record = &mut records[verdict.serial as usize];
        assert_eq!((record.serial, record.proof), (verdict.serial, Proof::Pending));
        record.proof = verdict.proof;
    }
}

fn observer(lines: &LoggedSecrets) -> Observer {
    Observer::new(&rustcrypto::PROVIDER, Secrets::read(&lines.text()).unwrap())
}

/// The application's payloads from one sender, all verified.
fn data(records: &[Record], sender: Sender) -> Vec<&[u8]> {
    let data = |record: &&Record| {
        record.sender == sender && record.kind == Some(ContentType::APPLICATION_DATA)
    };
    records.iter().filter(data).map(|record| &record.content[..]).collect()
}

#[track_caller]
fn assert_all_read(records: &[Record], context: &str) {
    let protected = records.iter().filter(|record| record.proof.is_protected()).count();
    assert!(protected >= 4, "{context}: {protected} protected records");
    for record in records {
        assert!(matches!(record.proof, Proof::Clear | Proof::Verified), "{context}: {record:?}");
        assert_eq!((record.association, record.repeated), (0, false), "{context}");
    }
}

fn talk(pair: &mut Pair<'_>, messages: usize) -> Vec<Vec<u8>> {
    let messages: Vec<_> = (0..messages).map(|i| format!("reading {i}").into_bytes()).collect();
    for message in &messages {
        pair.client_send(message);
        pair.server_send(&message.to_ascii_uppercase());
        pair.run_for(Duration::from_millis(30));
    }
    messages
}

/// The suites that go with an external PSK: in DTLS 1.3 those with SHA-256.
fn suites() -> impl Iterator<Item = (ProtocolVersion, CipherSuiteId)> {
    let provider = &rustcrypto::PROVIDER;
    let newer = provider.suites.iter();
    let newer = newer.filter(|suite| suite.hash.algorithm() == HashAlgorithm::Sha256);
    let older = provider.suites_12.iter().filter(|suite| !suite.exchange.is_signed());
    let newer = newer.map(|suite| (ProtocolVersion::Dtls13, suite.id));
    newer.chain(older.map(|suite| (ProtocolVersion::Dtls12, suite.id)))
}

#[test]
fn every_suite_of_both_versions_with_and_without_connection_ids() {
    for (i, (version, suite)) in suites().enumerate() {
        for ids in [None, Some(0), Some(3)] {
            let mut configs = Configs::new().suite(suite);
            for settings in [&mut configs.client.settings, &mut configs.server.settings] {
                settings.versions = vec![version];
                settings.connection_ids = pair::ids(ids);
                settings.record_numbers = RecordNumbers::Short;
            }
            let lines = logged(&mut configs);
            let mut pair = configs.pair(i as u64);
            pair.connect();
            let sent = talk(&mut pair, 5);
            pair.assert_connected();
            let records = observe(observer(&lines), &pair.log);
            let context = format!("{suite}, IDs {ids:?}");
            assert_all_read(&records, &context);
            assert_eq!(data(&records, Sender::Client), sent, "{context}");
            assert_eq!(data(&records, Sender::Server).len(), sent.len(), "{context}");

            // Without the key log no protected record is decrypted, and nothing else changes.
            let without =
                observe(Observer::new(&rustcrypto::PROVIDER, Secrets::default()), &pair.log);
            for (blind, record) in without.iter().zip(&records) {
                assert_eq!(blind.len, record.len, "{context}");
                if record.proof == Proof::Clear {
                    assert_eq!(blind, record, "{context}");
                } else {
                    assert_eq!((blind.proof, &blind.content[..]), (Proof::Locked, &b""[..]));
                }
            }
        }
    }
}

const SCHEMES: [&str; 6] = ["agg:2", "agg:8", "agg:16", "r2d2:50", "r2d2:200", "off"];

#[test]
fn shared_tags_verify_what_they_cover() {
    for (seed, scheme) in SCHEMES.into_iter().enumerate() {
        for masks in [NumberMasks::Standard, NumberMasks::Strong, NumberMasks::Paper] {
            let mut configs = Configs::aggregated(scheme);
            for settings in [&mut configs.client.settings, &mut configs.server.settings] {
                settings.number_masks = masks;
                settings.connection_ids = lightseal_dtls::ConnectionIds::of_bytes(seed as u8);
            }
            let lines = logged(&mut configs);
            let mut pair = configs.pair(seed as u64);
            pair.connect();
            let sent = talk(&mut pair, 100);
            // Closing tags.
            pair.run_for(Duration::from_secs(2));
            let records = observe(observer(&lines).with_masks(masks), &pair.log);
            assert_all_read(&records, scheme);
            assert_eq!(data(&records, Sender::Client), sent, "{scheme}");
        }
    }
}

#[test]
fn what_no_tag_covers_is_said_to_be_unproved() {
    let mut configs = Configs::aggregated("agg:8");
    let lines = logged(&mut configs);
    let mut pair = configs.pair(1);
    pair.connect();
    pair.client_send(b"alone");
    pair.run_for(Duration::from_millis(50));
    let records = observe(observer(&lines), &pair.log);
    let last = records.last().unwrap();
    assert_eq!((&last.content[..], last.proof), (&b"alone"[..], Proof::Unknown));
}

#[test]
fn keys_and_schemes_change_under_way() {
    for scheme in ["off", "agg:8", "r2d2:100"] {
        let mut configs = Configs::aggregated(scheme);
        let list: Vec<_> =
            [scheme, "agg:8", "agg:2"].iter().map(|name| name.parse().unwrap()).collect();
        for settings in [&mut configs.client.settings, &mut configs.server.settings] {
            settings.aggregation = AggregationPolicy::new(list.clone(), list.clone());
        }
        let lines = logged(&mut configs);
        let mut pair = configs.pair(3);
        pair.connect();
        let mut sent = Vec::new();
        for round in 0..9 {
            sent.extend(talk(&mut pair, 30));
            pair.client.update_keys(pair.now);
            let handle = pair.handle.unwrap();
            if round % 3 == 1 {
                pair.client.request_aggregation(pair.now, "agg:2".parse().unwrap()).unwrap();
                let asked = if round == 4 { "agg:8" } else { "agg:2" };
                let now = pair.now;
                pair.server
                    .connection_mut(handle)
                    .unwrap()
                    .request_aggregation(now, asked.parse().unwrap())
                    .unwrap();
            }
        }
        pair.run_for(Duration::from_secs(3));
        pair.assert_connected();
        let records = observe(observer(&lines), &pair.log);
        assert_all_read(&records, scheme);
        assert_eq!(data(&records, Sender::Client), sent, "{scheme}");
        assert!(records.iter().any(|record| record.epoch >= 10), "{scheme}");
        let ended = |record: &Record| record.kind == Some(ContentType::EPOCH_END);
        assert!(records.iter().any(ended), "{scheme}");
    }
}

#[test]
fn a_client_that_moves_is_known_by_its_connection_id() {
    for version in [ProtocolVersion::Dtls12, ProtocolVersion::Dtls13] {
        let mut configs = Configs::new();
        for settings in [&mut configs.client.settings, &mut configs.server.settings] {
            settings.versions = vec![version];
            settings.connection_ids = lightseal_dtls::ConnectionIds::Bytes(5);
        }
        let lines = logged(&mut configs);
        let mut pair = configs.pair(5);
        pair.connect();
        let before = pair.log.len();
        let moved = "[2001:db8::77]:9".parse().unwrap();
        pair.client_address = moved;
        let sent = talk(&mut pair, 3);
        let mut observer = observer(&lines);
        let mut records = Vec::new();
        for (at, (direction, datagram)) in pair.log.iter().enumerate() {
            let client = if at < before { client_address() } else { moved };
            let (from, to) = match direction {
                Direction::ToServer => (client, server_address()),
                Direction::ToClient => (server_address(), client),
            };
            records.extend(observer.datagram(from, to, &mut datagram.clone()));
        }
        settle(observer, &mut records);
        assert_all_read(&records, "moved");
        assert_eq!(data(&records, Sender::Client), sent);
    }
}

#[test]
fn loss_copies_and_forgeries_are_told_apart() {
    for scheme in ["off", "agg:8", "r2d2:100"] {
        let mut configs = Configs::aggregated(scheme);
        let lines = logged(&mut configs);
        let mut rng = Random::insecure(9);
        let mut pair =
            configs.pair(7).with_rule(
                move |_, _, datagram| {
                    if rng.below(10) == 0 { Vec::new() } else { pass(datagram) }
                },
            );
        pair.connect();
        talk(&mut pair, 60);
        pair.run_for(Duration::from_secs(2));
        // Datagrams lost in transit were sent all the same, and the observer sees everything twice.
        let twice: Vec<_> = pair.log.iter().flat_map(|sent| [sent.clone(), sent.clone()]).collect();
        let records = observe(observer(&lines), &twice);
        let (first, second): (Vec<_>, Vec<_>) = records.iter().partition(|r| !r.repeated);
        assert_eq!(first.len(), second.len(), "{scheme}");
        for (first, second) in first.iter().zip(&second) {
            assert!(matches!(first.proof, Proof::Clear | Proof::Verified), "{scheme}: {first:?}");
            assert_eq!((first.proof, first.number), (second.proof, second.number), "{scheme}");
            assert_eq!(first.content, second.content, "{scheme}");
        }
        // A record with a wrong bit is not verified.
        let mut log = pair.log.clone();
        let data = |(to, sent): &&mut (Direction, Vec<u8>)| {
            *to == Direction::ToServer && sent[0] & 0xe3 == 0x23
        };
        let altered = &mut log.iter_mut().filter(data).nth(30).unwrap().1;
        let middle = altered.len() / 2;
        altered[middle] ^= 1;
        let records = observe(observer(&lines), &log);
        // The changed bit also changes the mask of a short record, and with it record number and
        // type.
        let unproved = |record: &&Record| {
            matches!(record.proof, Proof::Forged | Proof::Unknown)
                || record.proof == Proof::Malformed && record.epoch > 0
        };
        assert!(records.iter().filter(unproved).count() >= 1, "{scheme}");
    }
}

#[test]
fn altered_datagrams_are_read_without_a_panic() {
    let mut rng = Random::insecure(17);
    for seed in 0..20 {
        let mut configs = Configs::aggregated(SCHEMES[seed % SCHEMES.len()]);
        configs.client.settings.connection_ids = lightseal_dtls::ConnectionIds::Bytes(2);
        configs.server.settings.connection_ids = lightseal_dtls::ConnectionIds::Bytes(2);
        if seed % 3 == 2 {
            configs.client.settings.aggregation = AggregationPolicy::default();
            configs.client.settings.versions = vec![ProtocolVersion::Dtls12];
        }
        let lines = logged(&mut configs);
        let mut pair = configs.pair(seed as u64);
        pair.connect();
        talk(&mut pair, 40);
        for _ in 0..10 {
            let mut log = pair.log.clone();
            for (_, datagram) in &mut log {
                match rng.below(8) {
                    0 => datagram.truncate(rng.below(datagram.len() as u64 + 1) as usize),
                    1 => {
                        let at = rng.below(datagram.len() as u64) as usize;
                        datagram[at] ^= 1 << rng.below(8);
                    }
                    2 => datagram.extend([0x2f; 40]),
                    3 => rng.fill(datagram),
                    _ => {}
                }
            }
            log.rotate_left(rng.below(3) as usize);
            let records = observe(observer(&lines), &log);
            assert!(records.iter().all(|record| record.proof != Proof::Pending));
        }
    }
}
