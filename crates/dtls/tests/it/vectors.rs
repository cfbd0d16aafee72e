//! Records and messages of MAC aggregation as another implementation makes them
//! (`vectors/records.py`).

use lightseal_core::wire::BufferFull;
use lightseal_core::{Decode, Encode, Reader, Writer};
use lightseal_dtls::Scheme;
use lightseal_dtls::codepoints::ContentType;
use lightseal_dtls::crypto::{CipherSuiteId, Sha256, TrafficSecret, rustcrypto};
use lightseal_dtls::messages::{AggregationUpdate, EpochEnd, aggregation};
use lightseal_dtls::record::epochs::APPLICATION_EPOCH;
use lightseal_dtls::record::receive_buffer::Received;
use lightseal_dtls::record::seal::HeaderFormat;
use lightseal_dtls::record::{NumberLength, ReceiveBuffer, ReceiveEpoch, SendEpoch, UnifiedHeader};
use serde_json::Value;
use testkit::vectors::{self, list, unhex};

fn file() -> Value {
    vectors::file(include_str!("../../vectors/records.json"))
}

fn scheme(text: &Value) -> Scheme {
    text.as_str().and_then(|text| text.parse().ok()).expect("a scheme")
}

fn written(write: impl FnOnce(&mut Writer<'_>) -> Result<(), BufferFull>) -> Vec<u8> {
    let mut buf = [0; 64];
    let mut w = Writer::new(&mut buf);
    write(&mut w).expect("there is room");
    w.written().to_vec()
}

fn suite(name: &str) -> CipherSuiteId {
    match name {
        "AES_128_CTR_LIGHTMAC_SHA256" => CipherSuiteId::AES_128_CTR_LIGHTMAC_SHA256,
        "AES_128_CCM_SHA256" => CipherSuiteId::AES_128_CCM_SHA256,
        "SHA256_SHA256" => CipherSuiteId::SHA256_SHA256,
        other => panic!("no suite {other}"),
    }
}

#[test]
fn another_implementation_seals_the_same_records() {
    let file = file();
    let secret: [u8; 32] = unhex(&file["traffic_secret"]).try_into().expect("32 bytes");
    let groups = list(&file["groups"]);
    assert_eq!(groups.len(), 3 * 15);
    for group in groups {
        let (name, scheme) = (group["suite"].as_str().expect("a name"), scheme(&group["scheme"]));
        let suite = rustcrypto::PROVIDER.suite(suite(name)).expect("the provider has it");
        let secret = TrafficSecret::new(&Sha256, &secret);
        let mut send = SendEpoch::new(APPLICATION_EPOCH, suite, scheme, &secret);
        let mut receive = ReceiveEpoch::new(APPLICATION_EPOCH, suite, scheme, &secret);
        let mut held = ReceiveBuffer::new(1 << 16);
        let (mut sent, mut delivered) = (Vec::new(), Vec::new());
        for (number, record) in list(&group["records"]).iter().enumerate() {
            let place = format!("{name} {scheme} record {number}");
            let kind = ContentType(record["type"].as_u64().expect("a number") as u8);
            let (content, expected) = (unhex(&record["content"]), unhex(&record["record"]));
            // The length of data records' numbers varies; other records have two-byte numbers.
            let short = kind == ContentType::APPLICATION_DATA && number % 2 == 1;
            let length = if short { NumberLength::One } else { NumberLength::Two };
            let shape = HeaderFormat { number: length, last: true };
            let mut buf = [0; 128];
            let sealed = if kind == ContentType::AGGREGATE_TAG {
                send.seal_closing(&mut buf, shape).expect("there is room").expect("data is open")
            } else {
                send.seal(&mut buf, kind, shape, |w| w.bytes(&content)).expect("there is room")
            };
            let record = &mut buf[..sealed.len];
            assert_eq!(record, expected, "{place}");
            if kind == ContentType::APPLICATION_DATA {
                sent.push(content);
            }
            let header = UnifiedHeader::read(&mut Reader::new(record), 0).expect("well-formed");
            receive.open(header, record, &mut held);
            while let Some(received) = held.next_ready() {
                if let Received::Data(slot) = received {
                    delivered.push(held.payload(slot).to_vec());
                    held.release(slot);
                }
            }
        }
        // The last record is verified only if it ends a set.
        delivered.sort_by_key(|content| sent.iter().position(|sent| sent == content));
        assert_eq!(delivered, sent[..delivered.len()], "{name} {scheme}");
        assert!(delivered.len() >= sent.len() - 1, "{name} {scheme}");
    }
}

#[test]
fn another_implementation_writes_the_same_messages() {
    let messages = &file()["messages"];
    let schemes = |value: &Value| -> Vec<Scheme> { list(value).iter().map(scheme).collect() };
    for request in list(&messages["requests"]) {
        let (down, up) = (schemes(&request["to_client"]), schemes(&request["to_server"]));
        let content = unhex(&request["content"]);
        assert_eq!(written(|w| aggregation::write_offer(&down, &up, w)), content);
        assert_eq!(aggregation::Offer::new(&content).lists(), (down, up));
    }
    for answer in list(&messages["answers"]) {
        let (down, up) = (scheme(&answer["to_client"]), scheme(&answer["to_server"]));
        let content = unhex(&answer["content"]);
        assert_eq!(written(|w| aggregation::write_answer(down, up, w)), content);
        assert_eq!(aggregation::read_answer(&content), Ok((down, up)));
    }
    for update in list(&messages["updates"]) {
        let (message, body) =
            (AggregationUpdate { scheme: scheme(&update["scheme"]) }, unhex(&update["body"]));
        assert_eq!(written(|w| message.write(w)), body);
        assert_eq!(AggregationUpdate::decode(&body), Ok(message));
    }
    for end in list(&messages["epoch_ends"]) {
        let content = unhex(&end["content"]);
        let read = EpochEnd::decode(&content).expect("well-formed");
        assert_eq!(Some(read.records), end["records"].as_u64());
        let closing = &end["closing"];
        assert_eq!(read.closing.is_none(), closing.is_null());
        if let Some(read) = read.closing {
            let place = (Some(read.first), Some(u64::from(read.count)));
            assert_eq!(place, (closing["first"].as_u64(), closing["count"].as_u64()));
            assert_eq!(read.tag[..], unhex(&closing["tag"]));
        }
        assert_eq!(written(|w| read.write(w)), content);
    }
}
