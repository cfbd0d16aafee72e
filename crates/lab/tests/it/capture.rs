//! Traffic of real engines on the air, written to files and read again.

use lightseal_core::Random;
use lightseal_dtls::codepoints::ContentType;
use lightseal_dtls::crypto::{CipherSuiteId, rustcrypto};
use lightseal_dtls::passive::{Proof, Secrets, Sender};
use lightseal_dtls::{
    AggregationPolicy, ClientConfig, ConnectionIds, ProtocolVersion, Psk, ServerConfig, Settings,
};
use lightseal_lab::capture::pcap::{Error, Reader};
use lightseal_lab::capture::{
    Captured, Conversation, DecryptedDatagram, Decryption, DecryptionCounts, PlaintextWriter,
    describe,
};
use lightseal_lab::handshakes::{HandshakeRun, PROFILES};
use lightseal_lab::links::{Layer, beacon, tsch, xmac};
use lightseal_lab::network::Network;
use std::sync::Arc;

fn messages() -> Vec<Vec<u8>> {
    (0..12).map(|i| format!("reading {i}: {}", "x".repeat(i * 12)).into_bytes()).collect()
}

fn captured(seed: u64, adapt: impl Fn(&mut Settings)) -> Captured {
    let psk = Psk::external(b"Client_identity", b"secretPSKsecretP").unwrap();
    let mut settings = Settings::new(&rustcrypto::PROVIDER);
    adapt(&mut settings);
    let client = ClientConfig::with(psk.clone(), settings.clone()).unwrap();
    let server = ServerConfig::with(Arc::new(psk), settings).unwrap();
    let new_keys_after = Some(5);
    Conversation { client, server, messages: messages(), new_keys_after, seed }.run().unwrap()
}

fn version(version: ProtocolVersion, suite: CipherSuiteId) -> impl Fn(&mut Settings) {
    move |settings| {
        settings.versions = vec![version];
        settings.suites = vec![suite];
    }
}

fn file(captured: &Captured) -> Vec<u8> {
    captured.write(Vec::new()).unwrap()
}

fn decrypt(file: &[u8], keys: &str) -> Result<(Vec<DecryptedDatagram>, DecryptionCounts), Error> {
    let mut decryption = Decryption::new(Reader::new(file)?, Secrets::read(keys).unwrap());
    let mut entries = Vec::new();
    while let Some(entry) = decryption.next_datagram()? {
        entries.push(entry);
    }
    Ok((entries, decryption.counts()))
}

/// The application data that the client sent.
fn sent(entries: &[DecryptedDatagram]) -> Vec<Vec<u8>> {
    let records = entries.iter().flat_map(|entry| &entry.records);
    let data = records.filter(|record| {
        record.kind == Some(ContentType::APPLICATION_DATA) && record.sender == Sender::Client
    });
    data.map(|record| record.content.clone()).collect()
}

#[test]
fn whoever_has_the_keys_reads_all_of_a_capture() {
    let aggregated = |settings: &mut Settings| {
        settings.suites = vec![CipherSuiteId::AES_128_CCM_SHA256];
        settings.aggregation = AggregationPolicy::both("agg:4".parse().unwrap());
        settings.connection_ids = ConnectionIds::Bytes(2);
    };
    let captures = [
        captured(1, version(ProtocolVersion::Dtls12, CipherSuiteId::PSK_WITH_AES_128_CCM_8)),
        captured(2, version(ProtocolVersion::Dtls13, CipherSuiteId::AES_128_CCM_SHA256)),
        captured(3, aggregated),
    ];
    for captured in captures {
        let file = file(&captured);
        let keys = captured.keys.text();
        let (entries, counts) = decrypt(&file, &keys).unwrap();
        assert_eq!(sent(&entries), messages());
        assert_eq!(counts.protected(), counts.of(Proof::Verified));
        assert!(counts.of(Proof::Clear) >= 2 && counts.protected() > 2 * messages().len() as u64);
        let words: Vec<_> =
            entries.iter().flat_map(|entry| entry.records.iter().map(describe::content)).collect();
        let has = |word: &str| words.iter().any(|words| words.contains(word));
        assert!(has("client_hello") && has("finished") && has("close_notify"), "{words:?}");
        assert!(entries.windows(2).all(|pair| pair[0].datagram.at <= pair[1].datagram.at));

        // Decrypts the file without keys, and with the keys of another association.
        let (entries, blind) = decrypt(&file, "").unwrap();
        assert_eq!((blind.of(Proof::Verified), blind.protected()), (0, counts.protected()));
        assert_eq!(sent(&entries).concat(), b"");
        assert!(blind.of(Proof::Locked) == blind.protected());

        // The stripped capture holds the datagrams that the application sent, in the clear.
        let (entries, _) = decrypt(&file, &keys).unwrap();
        let mut stripped = PlaintextWriter::new(Vec::new()).unwrap();
        entries.iter().for_each(|entry| stripped.write(entry).unwrap());
        let clear = stripped.finish().unwrap();
        let mut datagrams =
            lightseal_lab::capture::Datagrams::new(lightseal_lab::capture::pcap::LinkType::Ip);
        let mut reader = Reader::new(&clear[..]).unwrap();
        let mut payloads = Vec::new();
        while let Some(frame) = reader.next_frame().unwrap() {
            payloads.push(datagrams.take(frame.at, frame.bytes).unwrap().payload);
        }
        assert_eq!(payloads.len(), 2 * messages().len());
    }
}

/// Lossy networks of nodes in a row, on every link layer.
fn networks() -> Vec<Network> {
    let beacon = beacon::BeaconSettings::direct(3, 1);
    let lines = [
        Network::line(3, Layer::XMac(xmac::XMacSettings::contiki(125.0))),
        Network::line(3, Layer::Tsch(tsch::TschSettings::dedicated(101, 3))),
        Network::line(2, Layer::Beacon(beacon)),
    ];
    lines.into_iter().map(|line| line.with_delivery(0.85)).collect()
}

/// Every profile but `cid`, whose handshake took place before the capture began.
#[test]
fn handshakes_over_lossy_hops_are_read_from_the_air() {
    let (mut repeated, mut again) = (0, 0);
    for (network, profile) in
        networks().iter().flat_map(|network| PROFILES.iter().map(move |profile| (network, profile)))
    {
        // The frames of a long datagram hardly ever all pass two hops of X-MAC, which repeats no
        // frame, so that certificates and hellos with ML-KEM do not arrive.
        let is_long = profile.name.contains("certificate") || profile.name.ends_with("ml-kem");
        let is_too_long = is_long && matches!(network.layer, Layer::XMac(_));
        if profile.name.starts_with("cid") || is_too_long {
            continue;
        }
        let course = HandshakeRun::single(network, profile, 3);
        let (_, captured) = Captured::record(&course).unwrap();
        let reader = file(&captured);
        let reader = Reader::new(&reader[..]).unwrap();
        let mut decryption = Decryption::new(reader, Secrets::read(&captured.keys.text()).unwrap());
        let mut words = Vec::new();
        while let Some(entry) = decryption.next_datagram().unwrap() {
            for record in &entry.records {
                again += usize::from(record.repeated);
                words.push(describe::content(record));
            }
        }
        let counts = decryption.counts();
        let name = profile.name;
        assert!(counts.protected() >= 2, "{name}: {counts:?}");
        assert_eq!(counts.of(Proof::Verified), counts.protected(), "{name}: {counts:?} {words:?}");
        assert!(words.iter().filter(|words| words.contains("finished")).count() >= 2, "{name}");
        assert_eq!(counts.other_datagrams, 0, "{name}");
        repeated += decryption.frames().1;
    }
    assert!(repeated > 0 && again > 0, "{repeated} frames sent again, {again} records seen again");
}

#[test]
fn the_same_seed_gives_the_same_files() {
    let again = || captured(7, |_| {});
    let (first, second) = (again(), again());
    assert_eq!(file(&first), file(&second));
    assert_eq!(*first.keys.text(), *second.keys.text());
}

#[test]
fn a_file_that_ends_early_is_told_of_up_to_there() {
    let captured = captured(4, |_| {});
    let file = file(&captured);
    let (whole, _) = decrypt(&file, "").unwrap();
    let cut = Reader::new(&file[..file.len() - 1]).unwrap();
    let mut decryption = Decryption::new(cut, Secrets::default());
    let mut entries = 0;
    let error = loop {
        match decryption.next_datagram() {
            Ok(entry) => entries += usize::from(entry.is_some()),
            Err(error) => break error,
        }
    };
    assert_eq!(entries, whole.len() - 1);
    let expected = format!("the file ends within frame {}", captured.frames.len());
    assert_eq!(error.to_string(), expected);
}

#[test]
fn altered_captures_are_read_without_a_panic() {
    let captured = captured(5, |settings| {
        settings.suites = vec![CipherSuiteId::AES_128_CCM_SHA256];
        settings.aggregation = AggregationPolicy::both("r2d2:50".parse().unwrap());
    });
    let (file, keys) = (file(&captured), captured.keys.text());
    let mut rng = Random::insecure(31);
    for _ in 0..300 {
        let mut file = file.clone();
        for _ in 0..1 + rng.below(20) {
            let at = rng.below(file.len() as u64) as usize;
            file[at] = rng.below(256) as u8;
        }
        if let Ok((entries, counts)) = decrypt(&file, &keys) {
            assert_eq!(counts.datagrams, entries.len() as u64);
            entries.iter().flat_map(|entry| &entry.records).for_each(|record| {
                describe::content(record);
            });
        }
    }
}
