//! Compares profile `compact` with an independent implementation
//! (`docs/spec/vectors/group_compact.py`).

use lightseal_dtls::codepoints::ContentType;
use lightseal_dtls::crypto::{CipherSuiteId, Sha256, TrafficSecret, rustcrypto};
use lightseal_group::compact::{
    Boot, EpochSecret, HeaderForm, PairSecret, PlainRecord, PrivateKey, PublicKey, RecordKeys,
    SealedRecord, SigningKey, Stream, Suite, VerifyingKey,
};
use lightseal_group::{GroupId, ListenerId, SenderId};
use serde_json::Value;
use testkit::vectors::{self, array, list, number, unhex};

fn file() -> Value {
    vectors::file(include_str!("../../../../docs/spec/vectors/group-compact.json"))
}

/// Asserts that `secret` is the one in the file, by a value that is derived from it.
fn assert_secret(secret: &TrafficSecret, expected: &Value) {
    let derived = |secret: &TrafficSecret| {
        let mut out = [0; 32];
        secret.expand("compared", &[], &mut out);
        out
    };
    assert_eq!(
        derived(secret),
        derived(&TrafficSecret::new(&Sha256, &array::<32>(expected))),
        "{expected}"
    );
}

/// The members of the group in the file.
struct Members {
    sender: SenderId,
    listener: ListenerId,
    x25519: [PrivateKey; 2],
    ed25519: [SigningKey; 2],
    boot_nonce: [u8; 8],
    challenge: [u8; 8],
}

impl Members {
    fn read(file: &Value) -> Self {
        let both = ["sender", "listener"];
        let x25519 = both.map(|who| {
            let keys = &file["x25519"][who];
            let own = PrivateKey::new(&array(&keys["private"]));
            assert_eq!(own.public(), PublicKey(array(&keys["public"])));
            own
        });
        let ed25519 = both.map(|who| {
            let keys = &file["ed25519"][who];
            let own = SigningKey::new(&array(&keys["seed"]));
            assert_eq!(Ok(own.public()), VerifyingKey::new(&array(&keys["public"])));
            own
        });
        Self {
            sender: SenderId(number(&file["sender"]) as u8),
            listener: ListenerId::new(number(&file["listener"]) as u32).unwrap(),
            x25519,
            ed25519,
            boot_nonce: array(&file["boot_nonce"]),
            challenge: array(&file["challenge"]),
        }
    }

    /// The stream with this name, and its secret.
    fn stream(
        &self,
        name: &str,
        epoch: &EpochSecret,
        pair: &PairSecret,
    ) -> (Stream, TrafficSecret) {
        let (sender, listener) = (self.sender, self.listener);
        match name {
            "requests" => (epoch.requests(sender), epoch.request_secret(sender)),
            "responses" => {
                (epoch.responses(sender, listener), epoch.response_secret(sender, listener))
            }
            "pairwise" => {
                let secret = pair.response_secret(&self.boot_nonce);
                (epoch.pairwise_responses(sender, listener), secret)
            }
            "direct" => (epoch.direct_requests(sender, listener), pair.direct_secret()),
            "answers" => (epoch.answers(sender, listener), pair.answer_secret(&self.challenge)),
            other => panic!("{other}"),
        }
    }
}

#[test]
fn records_are_those_of_another_implementation() {
    let file = file();
    let members = Members::read(&file);
    let [sender_key, listener_key] = &members.x25519;
    let mut records = 0;
    for vectors in list(&file["epochs"]) {
        let number = u64::from_be_bytes(array(&vectors["epoch"]));
        let root_key = unhex(&file["root_key"]);
        let epoch = EpochSecret::new(GroupId(array(&file["group"])), number, &root_key);
        let listener = (members.listener, &listener_key.public());
        let pair = epoch.pair_for_sender((members.sender, sender_key), listener).unwrap();
        let secrets = &vectors["secrets"];
        for name in ["requests", "responses", "pairwise", "answers", "direct"] {
            assert_secret(&members.stream(name, &epoch, &pair).1, &secrets[name]);
        }
        for suite in list(&vectors["suites"]) {
            let id = u16::from_be_bytes(array(&suite["id"]));
            let suite_ = Suite::find(&rustcrypto::PROVIDER, CipherSuiteId(id)).unwrap();
            assert_eq!(suite_.get().name, suite["name"]);
            for vector in list(&suite["records"]) {
                let name = vector["stream"].as_str().unwrap();
                let (stream, secret) = members.stream(name, &epoch, &pair);
                check(&RecordKeys::new(suite_, stream, &secret), vector, &members);
                records += 1;
            }
        }
    }
    assert_eq!(records, 2 * 6 * 16);
}

fn check(keys: &RecordKeys, vector: &Value, members: &Members) {
    let from_listener = matches!(vector["stream"].as_str(), Some("responses" | "pairwise"));
    let [sender, listener] = &members.ed25519;
    let signer = if from_listener { listener } else { sender };
    let signer = vector.get("signed").map(|_| signer);
    let form = match vector["form"].as_str().unwrap() {
        "last" => HeaderForm::Last,
        "followed" => HeaderForm::Followed,
        "full" => HeaderForm::Full,
        "boot" => HeaderForm::Boot(Boot {
            nonce: members.boot_nonce,
            request: number(&vector["request"]),
        }),
        other => panic!("{other}"),
    };
    let payload = unhex(&vector["payload"]);
    let record = PlainRecord {
        number: number(&vector["number"]),
        kind: ContentType(number(&vector["type"]) as u8),
        payload: &payload,
        form,
        padding: vector.get("padding").map_or(0, number) as usize,
        signer,
    };
    let mut buf = [0; 200];
    let len = keys.seal(&record, &mut buf).unwrap();
    let buf = &mut buf[..len];
    assert_eq!(buf, unhex(&vector["record"]), "{vector}");
    let record_ = if vector["stream"] == "direct" {
        let direct = SealedRecord::direct(buf).unwrap();
        assert_eq!(direct.id, (members.sender, members.listener));
        direct.reveal(keys, record.number)
    } else if from_listener {
        SealedRecord::response(buf).unwrap().0.reveal(keys, record.number)
    } else {
        SealedRecord::request(buf).unwrap().0.reveal(keys, record.number)
    };
    let verifier = signer.map(SigningKey::public);
    let opened = record_.open(keys, verifier.as_ref()).unwrap();
    assert_eq!((opened.number, opened.kind), (record.number, record.kind));
    assert_eq!(*opened.payload, payload);
}

/// Direct requests that a listener drops, and those that it opens afterwards with the window that
/// it has by then.
#[test]
fn direct_requests_of_another_implementation_are_dropped_or_taken_as_it_says() {
    let file = file();
    let members = Members::read(&file);
    let [sender_key, listener_key] = &members.x25519;
    let epoch = u64::from_be_bytes(array(&file["replay"]["epoch"]));
    let secret = EpochSecret::new(GroupId(array(&file["group"])), epoch, &unhex(&file["root_key"]));
    let listener = (members.listener, &listener_key.public());
    let pair = secret.pair_for_sender((members.sender, sender_key), listener).unwrap();
    let suite = Suite::find(&rustcrypto::PROVIDER, CipherSuiteId(0xff02)).unwrap();
    let (stream, keyed) = members.stream("direct", &secret, &pair);
    let keys = RecordKeys::new(suite, stream, &keyed);
    let mut window = lightseal_core::ReplayWindow::new();
    let mut outcomes = 0;
    for vector in list(&file["replay"]["records"]) {
        let mut bytes = unhex(&vector["record"]);
        let outcome = match SealedRecord::direct(&mut bytes) {
            Err(_) => "malformed",
            Ok(record) if record.id != (members.sender, members.listener) => "stranger",
            Ok(record) if !record.epoch().is_of(epoch) => "epoch",
            Ok(record) => {
                let record = record.reveal(&keys, window.next());
                if window.check(record.number()) {
                    match record.open(&keys, None) {
                        Ok(opened) => {
                            window.commit(opened.number);
                            "taken"
                        }
                        Err(_) => "unauthentic",
                    }
                } else {
                    "replayed"
                }
            }
        };
        assert_eq!(outcome, vector["outcome"], "{vector}");
        outcomes += 1;
    }
    assert_eq!(outcomes, 11);
}
