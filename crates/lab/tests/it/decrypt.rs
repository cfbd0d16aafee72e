//! `lightseal-lab decrypt` as users run it.

use crate::program;

use lightseal_dtls::crypto::rustcrypto;
use lightseal_dtls::{AggregationPolicy, ClientConfig, Psk, ServerConfig, Settings};
use lightseal_lab::capture::Conversation;
use program::{TempDir, fails, printed};
use serde_json::Value;
use std::sync::Arc;

/// A capture of a DTLS 1.3 association with shared tags, and its key log.
fn captured(dir: &TempDir) -> (String, String) {
    let psk = Psk::external(b"sensor 7", &[0x2a; 32]).unwrap();
    let mut settings = Settings::new(&rustcrypto::PROVIDER);
    settings.aggregation = AggregationPolicy::both("agg:4".parse().unwrap());
    let client = ClientConfig::with(psk.clone(), settings.clone()).unwrap();
    let server = ServerConfig::with(Arc::new(psk), settings).unwrap();
    let messages = (0..6).map(|i| format!("{i}.5 C").into_bytes()).collect();
    let conversation = Conversation { client, server, messages, new_keys_after: None, seed: 1 };
    let captured = conversation.run().unwrap();
    let (capture, keys) = (dir.path("air.pcap"), dir.path("air.keys"));
    captured.write(std::fs::File::create(&capture).unwrap()).unwrap();
    captured.keys.save(keys.as_ref()).unwrap();
    (capture, keys)
}

#[test]
fn every_record_is_listed_and_data_can_be_had_in_clear() {
    let dir = TempDir::new();
    let (capture, keys) = captured(&dir);
    let clear = dir.path("clear.pcap");
    let text = printed(&["decrypt", &capture, "--keys", &keys, "--out", &clear]);
    for part in [
        "  0/0 handshake ",
        " clear: client_hello\n",
        " verified: encrypted_extensions, finished\n",
        " verified: \"5.5 C\"\n",
        "aggregate_tag",
        " verified: warning close_notify\n",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    let json = printed(&["decrypt", &capture, "--keys", &keys, "--json"]);
    let value: Value = serde_json::from_str(&json).unwrap();
    let summary = &value["summary"];
    assert_eq!(summary["protected"], summary["verified"]);
    assert_eq!(value["datagrams"].as_array().unwrap().len(), summary["datagrams"]);
    let records = value["datagrams"].as_array().unwrap().iter();
    let records = records.flat_map(|datagram| datagram["records"].as_array().unwrap());
    let sent = records.filter(|record| record["sender"] == "client");
    let data = sent.filter(|record| record["content_type"] == "application_data");
    let data: Vec<_> = data.collect();
    assert_eq!(data.len(), 6);
    assert!(data.iter().all(|record| record["epoch"] == 3 && record["proof"] == "verified"));
    assert_eq!(data[5]["content_hex"], "352e352043");

    // The file that was written is also a capture, of UDP without DTLS.
    let listed = printed(&["decrypt", &clear, "--keys", &keys, "--json"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed["summary"]["frames"], 12);
    assert_eq!(listed["summary"]["datagrams_other"], 12);

    let elsewhere = printed(&["decrypt", &capture, "--keys", &keys, "--port", "4433", "--json"]);
    let elsewhere: Value = serde_json::from_str(&elsewhere).unwrap();
    assert_eq!(elsewhere["summary"]["datagrams"], 0);
}

#[test]
fn only_the_owner_reads_a_key_log() {
    let dir = TempDir::new();
    let (_, keys) = captured(&dir);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&keys).unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert_eq!(std::fs::read_to_string(&keys).unwrap().lines().count(), 4);
}

#[test]
fn what_is_wrong_is_said_in_one_line() {
    let dir = TempDir::new();
    let (capture, keys) = captured(&dir);
    let decrypt = |capture: &str, keys: &str, expected: &[&str]| {
        fails(&["decrypt", capture, "--keys", keys], expected);
    };
    decrypt(&dir.path("none.pcap"), &keys, &["none.pcap: ", "(os error 2)"]);
    decrypt(&capture, &dir.path("none.keys"), &["none.keys: ", "(os error 2)"]);
    decrypt(&keys, &keys, &["air.keys: not a pcap file"]);
    decrypt(&capture, &capture, &["air.pcap: ", "UTF-8"]);
    let bad = dir.path("bad.keys");
    std::fs::write(&bad, "# a key log\nCLIENT_RANDOM 00 11\n").unwrap();
    decrypt(&capture, &bad, &["bad.keys: line 2: the client random does not have 32 bytes"]);
    let cut = dir.path("cut.pcap");
    let bytes = std::fs::read(&capture).unwrap();
    std::fs::write(&cut, &bytes[..bytes.len() - 3]).unwrap();
    decrypt(&cut, &keys, &["cut.pcap: the file ends within frame "]);
    fails(
        &["decrypt", &capture, "--keys", &keys, "--out", &dir.path("no/such/out.pcap")],
        &["out.pcap: ", if cfg!(windows) { "(os error 3)" } else { "(os error 2)" }],
    );
}
