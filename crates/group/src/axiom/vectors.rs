//! Compares keys and records with those of an independent implementation
//! (`docs/spec/vectors/group_axiom_1_2.py`).

use super::{Ciphertext, ConnectionEnd, OpenError, SecurityParameters, Suite};
use crate::{GroupId, SenderId};
use lightseal_dtls::codepoints::ContentType;
use lightseal_dtls::crypto::{CipherSuiteId, PremasterSecret, Sha256, rustcrypto};
use serde_json::Value;
use std::vec;
use std::vec::Vec;

fn file() -> Value {
    let text = include_str!("../../../../docs/spec/vectors/group-axiom-1.2.json");
    serde_json::from_str(text).expect("JSON")
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().expect("a list")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a string")
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

fn unhex(value: &Value) -> Vec<u8> {
    let text = text(value);
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex");
    (0..text.len()).step_by(2).map(byte).collect()
}

fn array<const N: usize>(value: &Value) -> [u8; N] {
    unhex(value).try_into().expect("the right length")
}

fn kind(value: &Value) -> ContentType {
    ContentType(number(&value["type"]) as u8)
}

fn suite(vector: &Value) -> Suite {
    let id = u16::from_be_bytes(array(&vector["id"]));
    Suite::new(&rustcrypto::PROVIDER, CipherSuiteId(id)).expect("a suite for groups")
}

fn parameters(file: &Value, suite: Suite) -> SecurityParameters {
    let [client_random, server_random] =
        ["client_random", "server_random"].map(|n| array(&file[n]));
    let premaster = PremasterSecret::from_bytes(&Sha256, &unhex(&file["premaster_secret"]));
    let master_secret = premaster.into_master(&client_random, &server_random);
    let entity = ConnectionEnd::Server;
    SecurityParameters { entity, suite, master_secret, client_random, server_random }
}

#[test]
fn another_implementation_derives_the_same_keys() {
    let file = file();
    assert_eq!(list(&file, "suites").len(), 5);
    for vector in list(&file, "suites") {
        let suite = suite(vector);
        assert_eq!(suite.name(), text(&vector["name"]));
        assert_eq!(suite.overhead() as u64, number(&vector["overhead"]));
        let parameters = parameters(&file, suite);
        assert_eq!(parameters.master_secret.as_bytes()[..], unhex(&file["master_secret"]));
        let keys = parameters.group_keys();
        for (side, keys) in ["client", "server"].into_iter().zip(keys.write_keys()) {
            let named = |what| unhex(&vector["key_block"][std::format!("{side}_write_{what}")]);
            assert_eq!(keys.mac_key, named("mac_key"));
            assert_eq!(keys.enc_key, named("key"));
            assert_eq!(keys.iv, named("iv"));
        }
        for response in list(vector, "responses") {
            let listener = text(&response["listener"]).parse().expect("an address");
            let sender = SenderId(number(&response["sender"]) as u8);
            let expected = unhex(&response["key_material"]);
            assert_eq!(keys.individual(listener, sender).bytes(suite), expected);
        }
    }
}

#[test]
fn another_implementation_seals_the_same_requests() {
    let file = file();
    for vector in list(&file, "suites") {
        let suite = suite(vector);
        let keys = parameters(&file, suite).group_keys();
        for request in list(vector, "requests") {
            let epoch = number(&request["epoch"]) as u16;
            let sender = SenderId(number(&request["sender"]) as u8);
            let (next, kind) = (number(&request["number"]), kind(request));
            let (content, expected) = (unhex(&request["content"]), unhex(&request["record"]));
            let sealer = keys.request_sealer(epoch, sender);
            let mut record = vec![0; content.len() + suite.overhead()];
            let len = sealer.seal(&mut record, next, kind, |w| w.bytes(&content)).expect("room");
            assert_eq!(len, record.len());
            assert_eq!(record, expected, "{suite:?}");

            let (received, rest) = Ciphertext::split_first(&mut record).expect("well formed");
            assert!(rest.is_empty());
            assert_eq!(received.header().sender(), sender);
            let opened = keys.request_opener(epoch).open(received).expect("authentic");
            assert_eq!((opened.header.kind, opened.header.number), (kind, next));
            assert_eq!(opened.content, content);
        }
    }
}

#[test]
fn another_implementation_seals_the_same_responses() {
    let file = file();
    let group = GroupId(array(&file["group"]));
    for vector in list(&file, "suites") {
        let suite = suite(vector);
        let keys = parameters(&file, suite).group_keys();
        for response in list(vector, "responses") {
            let listener = text(&response["listener"]).parse().expect("an address");
            let sender = SenderId(number(&response["sender"]) as u8);
            let individual = keys.individual(listener, sender);
            let (epoch, next) = (number(&response["epoch"]) as u16, number(&response["number"]));
            let (content, expected) = (unhex(&response["content"]), unhex(&response["record"]));
            let sealer = keys.response_sealer(&individual, epoch, group);
            let mut record = vec![0; content.len() + suite.overhead()];
            let kind = kind(response);
            sealer.seal(&mut record, next, kind, |w| w.bytes(&content)).expect("room");
            assert_eq!(record, expected, "{suite:?}");

            let (received, _) = Ciphertext::split_first(&mut record).expect("well formed");
            let opener = keys.response_opener(&individual, epoch, group);
            assert_eq!(opener.open(received).expect("authentic").content, content);
        }
    }
}

#[test]
fn what_another_implementation_would_refuse_is_refused() {
    let file = file();
    for vector in list(&file, "suites") {
        let opener = parameters(&file, suite(vector)).group_keys().request_opener(1);
        for refused in list(vector, "refused") {
            let mut record = unhex(&refused["record"]);
            let (received, rest) = Ciphertext::split_first(&mut record).expect("well formed");
            assert!(rest.is_empty());
            let error = match text(&refused["error"]) {
                "epoch" => OpenError::Epoch,
                "malformed" => OpenError::Malformed,
                "unauthentic" => OpenError::Unauthentic,
                other => panic!("no error {other}"),
            };
            let place = std::format!("{}: {}", vector["name"], refused["why"]);
            assert_eq!(opener.open(received), Err(error), "{place}");
        }
    }
}
