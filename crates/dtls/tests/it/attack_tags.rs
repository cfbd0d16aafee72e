//! Junk under the record numbers of authentic records that share tags, and how much is delivered
//! all the same.

use lightseal_core::Reader;
use lightseal_dtls::codepoints::ContentType;
use lightseal_dtls::crypto::{CipherSuiteId, Sha256, TrafficSecret, rustcrypto};
use lightseal_dtls::record::epochs::APPLICATION_EPOCH;
use lightseal_dtls::record::seal::HeaderFormat;
use lightseal_dtls::record::{NumberLength, ReceiveBuffer, ReceiveEpoch, SendEpoch, UnifiedHeader};
use lightseal_dtls::stats::ReceiveStats;
use lightseal_dtls::{AggregationPolicy, ProtocolVersion, Scheme};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use testkit::pair::{Configs, Direction, pass};

/// The number of records in each run.
const RECORDS: usize = 480;
const SCHEMES: [&str; 4] = ["agg:8", "agg:16", "r2d2:50", "r2d2:100"];

/// An attacker that copies the header of records, appends junk, and whose datagrams arrive first.
#[derive(Clone, Copy)]
struct Attack {
    /// One record in this many is attacked.
    every: usize,
    /// The bytes of junk in each forged rival of the record.
    rivals: &'static [usize],
}

/// A record with the header, masked number and first bytes of an authentic one, followed by junk.
fn rival(datagram: &[u8], junk: usize, filler: u8) -> Vec<u8> {
    let has_length = datagram[0] & 4 != 0;
    let number = if datagram[0] & 8 != 0 { 2 } else { 1 };
    let head = 1 + number + if has_length { 2 } else { 0 };
    let mut forged = datagram[..head + 16].to_vec();
    forged.resize(head + 16 + junk, filler);
    if has_length {
        forged[head - 2..head].copy_from_slice(&((16 + junk) as u16).to_be_bytes());
    }
    forged
}

/// The percentage of payloads delivered, and what the receiver counted.
fn delivered(configs: Configs, payload_len: usize, attack: Attack) -> (f64, ReceiveStats) {
    let mut pair = configs.pair(1);
    pair.connect().assert_connected();
    let mut seen = 0usize;
    pair.rule = Box::new(move |direction, _, datagram| {
        let mut fate = pass(datagram);
        if direction == Direction::ToServer && datagram[0] & 0xe0 == 0x20 && datagram.len() > 24 {
            if seen.is_multiple_of(attack.every) {
                for (filler, junk) in (0x41..).zip(attack.rivals) {
                    fate.push((Duration::from_millis(5), rival(datagram, *junk, filler)));
                }
            }
            seen += 1;
        }
        fate
    });
    for n in 0..RECORDS {
        let mut payload = format!("temperature {n:08} of the day").into_bytes();
        payload.resize(payload_len, b'.');
        pair.client_send(&payload);
        pair.run_for(Duration::from_millis(20));
        pair.log.clear();
    }
    pair.run_for(Duration::from_secs(3));
    for payload in &pair.at_server.data {
        assert!(payload.starts_with(b"temperature "), "a forgery was delivered");
    }
    let connection = pair.handle.and_then(|handle| pair.server.connection(handle));
    let stats = connection.expect("the association exists").stats().received;
    (100.0 * pair.at_server.data.len() as f64 / RECORDS as f64, stats)
}

fn aggregated(scheme: &str) -> Configs {
    // Sets of 16 take 320 ms.
    let mut configs = Configs::aggregated(scheme).waiting(Duration::from_secs(2));
    configs.client.settings.versions = vec![ProtocolVersion::Dtls13];
    configs
}

/// Rivals that are longer than a record may be are dropped unread.
#[test]
fn long_rivals_displace_nothing() {
    for scheme in SCHEMES {
        for payload in [30, 1000] {
            for rivals in [&[16_300][..], &[9_000], &[16_300, 9_000, 4_000]] {
                let attack = Attack { every: 4, rivals };
                let (percent, stats) = delivered(aggregated(scheme), payload, attack);
                assert!(percent > 99.0, "{scheme}, {payload} bytes, {rivals:?}: {percent:.1} %");
                assert!(stats.malformed > 0 && stats.buffer_full == 0, "{scheme}: {stats:?}");
            }
        }
    }
}

/// An end without a record size limit has room for the authentic records too.
#[test]
fn long_rivals_of_an_end_that_takes_long_records_make_room() {
    for scheme in SCHEMES {
        for payload in [30, 1000] {
            for rivals in [&[16_300][..], &[9_000], &[16_300, 1_000, 20]] {
                let mut configs = aggregated(scheme);
                configs.client.settings.record_size_limit = Some(16_385);
                configs.server.settings.record_size_limit = Some(16_385);
                let attack = Attack { every: 4, rivals };
                let (percent, stats) = delivered(configs, payload, attack);
                let place = format!("{scheme}, {payload} bytes, {rivals:?}");
                assert!(percent > 95.0, "{place}: {percent:.1} %, {stats:?}");
            }
        }
    }
}

/// Up to three rivals as long as the record displace nothing, for any length.
#[test]
fn three_rivals_of_each_record_displace_nothing() {
    for scheme in SCHEMES {
        for (payload, rivals) in
            [(30, &[20, 20, 20][..]), (1000, &[1_000, 1_000, 1_000]), (1000, &[20, 20, 20])]
        {
            let attack = Attack { every: 1, rivals };
            let (percent, stats) = delivered(aggregated(scheme), payload, attack);
            let place = format!("{scheme}, {payload} bytes, {rivals:?}");
            assert!(percent > 95.0, "{place}: {percent:.1} %, {stats:?}");
        }
    }
}

/// A receiver with little memory loses the records that do not fit, but not all of them.
#[test]
fn a_small_buffer_is_shared_fairly() {
    let mut configs = aggregated("agg:8");
    configs.server.settings.receive_buffer_bytes = 24 * 1024;
    let attack = Attack { every: 4, rivals: &[1_000, 1_000, 1_000] };
    let (percent, stats) = delivered(configs, 1000, attack);
    assert!(percent > 60.0, "{percent:.1} %, {stats:?}");
}

#[test]
fn four_rivals_ahead_of_one_record_of_each_set() {
    for (scheme, every, least) in
        [("agg:8", 8, 55.0), ("agg:16", 16, 45.0), ("r2d2:50", 16, 95.0), ("r2d2:100", 16, 95.0)]
    {
        for (payload, rivals) in
            [(30, &[15, 15, 15, 15][..]), (1000, &[1_000, 1_000, 1_000, 1_000])]
        {
            let attack = Attack { every, rivals };
            let (percent, stats) = delivered(aggregated(scheme), payload, attack);
            assert!(percent > least, "{scheme}, {payload} bytes: {percent:.1} %, {stats:?}");
        }
    }
}

/// With a check byte, four forgeries before each record do not become rivals.
#[test]
fn four_rivals_ahead_of_each_record_fail_their_check() {
    for scheme in ["agg:8+check", "agg:16+check", "r2d2:50+check", "r2d2:100+check"] {
        for (payload, rivals) in
            [(30, &[15, 15, 15, 15][..]), (1000, &[1_000, 1_000, 1_000, 1_000])]
        {
            let attack = Attack { every: 1, rivals };
            let (percent, stats) = delivered(aggregated(scheme), payload, attack);
            assert!(percent > 95.0, "{scheme}, {payload} bytes: {percent:.1} %, {stats:?}");
            let junk = 4 * RECORDS as u64;
            assert!(stats.check_failed > junk * 9 / 10 && stats.check_failed <= junk, "{stats:?}");
        }
    }
}

/// Rivals that fail the check byte do not count as attempts: here they are sixty times as many as
/// are evaluated for one number.
#[test]
fn failed_checks_do_not_use_up_a_number() {
    const RIVALS: [usize; 100] = [15; 100];
    for scheme in ["agg:8+check", "r2d2:100+check"] {
        let attack = Attack { every: 16, rivals: &RIVALS };
        let (percent, stats) = delivered(aggregated(scheme), 30, attack);
        assert!(percent > 95.0, "{scheme}: {percent:.1} %, {stats:?}");
    }
}

/// Schemes with check bytes are offered like all others, and an end that accepts only the schemes
/// without them negotiates one of those.
#[test]
fn check_bytes_are_negotiated() {
    let scheme = |name: &str| name.parse::<Scheme>().unwrap();
    let offered = vec![scheme("agg:8+check"), scheme("agg:8")];
    for (accepted, expected) in [
        (vec![scheme("agg:8+check"), scheme("agg:8")], "agg:8+check"),
        (vec![scheme("agg:8")], "agg:8"),
        (vec![scheme("r2d2:50+check")], "off"),
    ] {
        let mut configs = Configs::new();
        let policy = |list: &[Scheme]| AggregationPolicy::new(list.to_vec(), list.to_vec());
        configs.client.settings.aggregation = policy(&offered);
        configs.server.settings.aggregation = policy(&accepted);
        let mut pair = configs.pair(1);
        pair.connect().assert_connected();
        let negotiated = pair.at_client.connected.as_ref().unwrap();
        assert_eq!((negotiated.send, negotiated.receive), (scheme(expected), scheme(expected)));
        for n in 0..20 {
            pair.client_send(format!("payload {n}").as_bytes());
        }
        pair.run_for(Duration::from_secs(1));
        assert_eq!(pair.at_server.data.len(), 20, "{expected}");
    }
}

/// Ends that share tags state a record size limit that fits a datagram; others state none.
#[test]
fn shared_tags_limit_records_to_what_a_datagram_has() {
    let mut configs = aggregated("agg:8");
    configs.client.settings.datagram_bytes = 700;
    let mut pair = configs.pair(1);
    pair.connect().assert_connected();
    assert_eq!(pair.at_server.connected.as_ref().unwrap().record_limit, 700 - 2 - 1);
    assert_eq!(pair.at_client.connected.as_ref().unwrap().record_limit, 1200 - 2 - 1);
    let mut pair = Configs::new().pair(1);
    pair.connect().assert_connected();
    assert_eq!(pair.at_server.connected.as_ref().unwrap().record_limit, 1 << 14);
}

/// A record one byte longer than the limit of this end is dropped; one as long as the limit is not.
#[test]
fn records_beyond_the_limit_are_refused() {
    let suite = rustcrypto::PROVIDER
        .suite(CipherSuiteId::AES_128_CTR_LIGHTMAC_SHA256)
        .expect("the provider has it");
    let secret = || TrafficSecret::new(&Sha256, &[0x42; 32]);
    for scheme in ["off", "agg:2", "r2d2:200", "agg:2+check"] {
        let scheme: Scheme = scheme.parse().unwrap();
        for kind in [ContentType::APPLICATION_DATA, ContentType::HANDSHAKE] {
            for (len, taken) in [(99, true), (100, false), (5000, false)] {
                let mut send = SendEpoch::new(APPLICATION_EPOCH, suite, scheme, &secret());
                let mut receive = ReceiveEpoch::new(APPLICATION_EPOCH, suite, scheme, &secret());
                // The content type counts too.
                receive.limit(100);
                let mut held = ReceiveBuffer::new(1 << 16);
                let mut buf = [0; 6000];
                let shape = HeaderFormat { number: NumberLength::Two, last: true };
                let sealed = send.seal(&mut buf, kind, shape, |w| w.bytes(&[7; 5000][..len]));
                let record = &mut buf[..sealed.unwrap().len];
                let header = UnifiedHeader::read(&mut Reader::new(record), 0).unwrap();
                let opened = receive.open(header, record, &mut held);
                let outcomes = opened.outcomes;
                let accepted = opened.inner.is_some() || held.bytes() > 0;
                assert_eq!(accepted, taken, "{scheme} {kind:?} {len}");
                assert_eq!(outcomes.malformed, u16::from(!taken), "{scheme} {kind:?} {len}");
            }
        }
    }
}

/// An attacker delays one record in eight, and sends a copy of it from elsewhere before it arrives,
/// but after one to four newer records of the peer. The copy is accepted, and may be the newest
/// record that is verified, because the tags of the newer ones are not complete. It does not change
/// the peer's address.
#[test]
fn a_late_copy_that_completes_a_set_does_not_move_the_peer() {
    let schemes = ["agg:4", "agg:8", "r2d2:50"];
    for (scheme, checked) in schemes.into_iter().flat_map(|s| [(s, false), (s, true)]) {
        for seed in 0..32u32 {
            let (late_at, newer) = (seed % 8, 1 + seed / 8);
            let mut configs = aggregated(scheme);
            for settings in [&mut configs.client.settings, &mut configs.server.settings] {
                settings.connection_ids = lightseal_dtls::ConnectionIds::Bytes(6);
                settings.return_routability = checked;
                settings.unchecked_address_change = true;
            }
            let mut pair = configs.pair(seed.into());
            pair.connect().assert_connected();
            let elsewhere = "[2001:db8::bad]:7".parse().unwrap();
            let is_late = Rc::new(Cell::new(false));
            let late = is_late.clone();
            pair.rule = Box::new(move |direction, _, datagram| {
                let late = direction == Direction::ToServer && late.get();
                vec![(Duration::from_millis(if late { 100 } else { 1 }), datagram.to_vec())]
            });
            let mut copy = Vec::new();
            for n in 1..=200u32 {
                is_late.set(n % 8 == late_at);
                pair.client_send(format!("payload {n}").as_bytes());
                pair.run_for(Duration::from_millis(5));
                if is_late.take() {
                    copy = pair.log.last().expect("it was sent").1.clone();
                }
                pair.run_for(Duration::from_millis(15));
                if n % 8 == (late_at + newer) % 8 && !copy.is_empty() {
                    pair.inject_from(elsewhere, core::mem::take(&mut copy));
                    pair.run_for(Duration::from_millis(1));
                }
            }
            pair.run_for(Duration::from_secs(3));
            let place = format!("{scheme}, checked: {checked}, seed {seed}");
            assert_eq!(pair.at_server.moves, [], "{place}");
            assert_eq!(pair.at_server.data.len(), 200, "{place}");
            let connection = pair.handle.and_then(|handle| pair.server.connection(handle));
            let stats = connection.expect("the association exists").stats().received;
            assert!(stats.replayed >= 24, "{place}: the copies come first: {stats:?}");
        }
    }
}

/// A change of the peer's address is followed under shared tags too, once a record from there is
/// verified.
#[test]
fn a_peer_that_moved_is_followed_by_its_verified_records() {
    for scheme in ["agg:8", "r2d2:100"] {
        let mut configs = aggregated(scheme);
        for settings in [&mut configs.client.settings, &mut configs.server.settings] {
            settings.connection_ids = lightseal_dtls::ConnectionIds::Bytes(6);
        }
        let mut pair = configs.pair(3);
        pair.connect().assert_connected();
        let old = pair.client_address;
        pair.client_address = "[2001:db8::1]:50000".parse().unwrap();
        for n in 0..40u32 {
            pair.client_send(format!("payload {n}").as_bytes());
            pair.run_for(Duration::from_millis(50));
        }
        pair.run_for(Duration::from_secs(3));
        assert_eq!(pair.at_server.moves, [(old, pair.client_address)], "{scheme}");
        assert_eq!(pair.at_server.data.len(), 40, "{scheme}");
    }
}

/// R2D2 withstands four rivals before every record, also long ones, from the first record on.
#[test]
fn r2d2_stands_four_rivals_ahead_of_each_record() {
    for scheme in ["r2d2:50", "r2d2:100", "r2d2:200"] {
        for (payload, rivals) in
            [(30, &[15, 15, 15, 15][..]), (1000, &[1_000, 1_000, 1_000, 1_000])]
        {
            let attack = Attack { every: 1, rivals };
            let (percent, stats) = delivered(aggregated(scheme), payload, attack);
            assert!(percent > 95.0, "{scheme}, {payload} bytes: {percent:.1} %, {stats:?}");
        }
    }
}
