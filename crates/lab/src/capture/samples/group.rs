//! Sample records of groups in both profiles, made with the engine.

use super::{ExpectedFields, PORT, Sample, SampleDatagram};
use crate::Error;
use core::net::SocketAddr;
use core::time::Duration;
use lightseal_core::Random;
use lightseal_dtls::codepoints::{ContentType, MAX_RECORD_NUMBER};
use lightseal_dtls::crypto::{CipherSuiteId, MasterSecret12, Sha256, rustcrypto};
use lightseal_group::codepoints::{GROUP_CHALLENGE, GROUP_REKEY, GROUP_SYNC, MAX_TRUNCATED_NUMBER};
use lightseal_group::compact::{
    Boot, Direction, EpochSecret, HeaderForm, PlainRecord, PrivateKey, RecordKeys, SigningKey,
};
use lightseal_group::rekey::{Change, ControllerSecret, KeyServer, Leaf, Timing};
use lightseal_group::{GroupId, ListenerId, SenderId, axiom, compact};

const GROUP: GroupId = GroupId(*b"lights of room 1");
const SENDER: SenderId = SenderId(9);
const EPOCH: u64 = 0x0102_0304_0506_0707;
const BOOT: Boot = Boot { nonce: *b"restart1", request: 77 };
const CHALLENGE: [u8; 8] = *b"whatnow?";
const DATA: ContentType = ContentType::APPLICATION_DATA;

fn address(text: &str) -> SocketAddr {
    SocketAddr::new(text.parse().expect("an address"), PORT)
}

/// The addresses of a multicast datagram to the group, and of a unicast datagram to the sender.
fn ways() -> [(SocketAddr, SocketAddr); 2] {
    let [sender, listener] = [address("fd00::1"), address("fd00::7")];
    [(sender, address("ff15::abcd")), (listener, sender)]
}

fn no_suite() -> Error {
    Error::Stream("the provider lacks a suite")
}

fn too_long<E>(_: E) -> Error {
    Error::Stream("a record that does not fit its buffer")
}

/// The rekey message of a group of eight members when its sixth member leaves.
fn rekey() -> Result<Vec<u8>, Error> {
    let mut rng = Random::insecure(7);
    let mut server = KeyServer::new(GROUP, ControllerSecret::from_seed(&[3; 32]), &mut rng);
    let timing = Timing::new(Duration::from_secs(2), Duration::from_secs(10));
    let timing = timing.ok_or(Error::Stream("a timing that cannot be encoded"))?;
    let leave: Vec<Leaf> = Leaf::new(5).into_iter().collect();
    let changes =
        [Change { join: 8, ..Change::default() }, Change { leave: &leave, ..Change::default() }];
    let mut message = Vec::new();
    for change in &changes {
        let made = server.rekey(change, timing, 1200, &mut rng);
        let made = made.map_err(|_| Error::Stream("a change that cannot be made"))?;
        message = made.messages.into_iter().next().unwrap_or_default();
    }
    Ok(message)
}

/// The fields of a rekey message. The message is that of [`rekey`], which docs/spec/group.md,
/// section 4.4, has as its example.
fn shown_rekey(shown: &mut ExpectedFields, message: &[u8]) {
    let mut put = |name: &str, value: &str| shown.put(format!("lsrekey.{name}"), value);
    put("version", "1");
    put("kind", "1");
    put("alias", &format!("0x{:02x}", GROUP.alias()));
    put("flags", "0x00");
    put("flags.range", "0");
    put("flags.next_anchor", "0");
    put("epoch", "2");
    put("activation", "20");
    put("retention", "10");
    put("depth", "3");
    for node in ["(3, 0)", "(2, 1)", "(1, 2)"] {
        put("node", node);
    }
    shown.put_bytes("lsrekey.element", &message[12..28]);
    shown.put_bytes("lsrekey.shape", &[0x69, 0x40]);
    let (wraps, signature) = message[34..].split_at(5 * 24);
    wraps.chunks(24).for_each(|wrap| shown.put_bytes("lsrekey.wrap", wrap));
    shown.put_bytes("lsrekey.signature", signature);
}

/// The content that is sealed in a record of `axiom-1.2`.
struct Content<'a> {
    kind: ContentType,
    epoch: u16,
    number: u64,
    bytes: &'a [u8],
}

fn shown_axiom(
    suite: &axiom::Suite,
    content: &Content<'_>,
    id: u8,
    record: &[u8],
) -> ExpectedFields {
    let Content { kind, epoch, number, bytes } = *content;
    let mut shown = ExpectedFields::default();
    let response = id == GROUP.alias();
    let mut put = |name: &str, value: String| shown.put(format!("lsgroup.{name}"), value);
    put("profile", "axiom-1.2".into());
    put("direction", if response { "response" } else { "request" }.into());
    put("type", kind.0.to_string());
    put("version", "0xfefd".into());
    put("epoch", epoch.to_string());
    let hex = || format!("0x{id:02x}");
    if response {
        put("group_id", hex());
    } else {
        put("sender_id", id.to_string());
    }
    put("number", number.to_string());
    let (nonce, tag) = (suite.explicit_nonce_len(), suite.tag_len());
    put("length", (nonce + bytes.len() + tag).to_string());
    let place = u64::from(epoch) << 48 | u64::from(id) << 40 | number;
    shown.put_bytes("lsgroup.explicit_nonce", &place.to_be_bytes()[..nonce]);
    let (sealed, tag) = record[record.len() - bytes.len() - tag..].split_at(bytes.len());
    if suite.encrypts() {
        shown.put_bytes("lsgroup.encrypted", sealed);
    } else {
        shown.put_bytes("lsgroup.content", bytes);
        if kind == GROUP_REKEY {
            shown_rekey(&mut shown, bytes);
        }
    }
    shown.put_bytes("lsgroup.tag", tag);
    shown
}

/// Profile `axiom-1.2` under each suite.
pub(super) fn axiom() -> Result<Vec<Sample>, Error> {
    let suites = [
        CipherSuiteId::PSK_WITH_AES_128_CCM_8,
        CipherSuiteId::PSK_WITH_AES_128_CCM,
        CipherSuiteId::PSK_WITH_AES_128_GCM_SHA256,
        CipherSuiteId::PSK_WITH_CHACHA20_POLY1305_SHA256,
        CipherSuiteId::PSK_WITH_NULL_SHA256,
    ];
    suites.into_iter().map(axiom_of).collect()
}

fn axiom_of(id: CipherSuiteId) -> Result<Sample, Error> {
    let suite = axiom::Suite::new(&rustcrypto::PROVIDER, id).ok_or_else(no_suite)?;
    let parameters = axiom::SecurityParameters {
        entity: axiom::ConnectionEnd::Server,
        suite,
        master_secret: MasterSecret12::from_bytes(&Sha256, [7; 48]),
        client_random: [1; 32],
        server_random: [2; 32],
    };
    let keys = parameters.group_keys();
    let message = rekey()?;
    // The message by which a controller ends an epoch, with its signature (docs/spec/group.md,
    // section 4.7).
    let end = ControllerSecret::from_seed(&[3; 32]).end_of_epoch(&GROUP, 1);
    let listener = "fd00::7".parse().expect("an address");
    let individual = keys.individual(listener, SENDER);
    let [to_all, to_one] = ways();
    let data = |epoch, number, bytes| Content { kind: DATA, epoch, number, bytes };
    let all = [
        (SENDER, vec![data(1, 0, b"on".as_slice())]),
        (SENDER, vec![data(1, 1, b""), data(1, 2, b"dim to 40 %")]),
        (SENDER, vec![data(u16::MAX, MAX_TRUNCATED_NUMBER, &[0x5a; 1000])]),
        (SenderId::CONTROLLER, vec![Content { kind: GROUP_REKEY, ..data(1, 0, &message) }]),
        (
            SenderId::CONTROLLER,
            vec![Content { kind: ContentType::CHANGE_CIPHER_SPEC, ..data(1, 1, &end) }],
        ),
    ];
    let mut datagrams = Vec::new();
    let mut buf = vec![0; 2000];
    for (sender, contents) in &all {
        let (mut payload, mut records) = (Vec::new(), Vec::new());
        for content in contents {
            let sealer = keys.request_sealer(content.epoch, *sender);
            let sealed =
                sealer.seal(&mut buf, content.number, content.kind, |w| w.bytes(content.bytes));
            let record = &buf[..sealed.map_err(too_long)?];
            payload.extend_from_slice(record);
            records.push(shown_axiom(&suite, content, sender.0, record));
        }
        datagrams.push(SampleDatagram { from: to_all.0, to: to_all.1, payload, records });
    }
    for content in [data(1, 0, b"done".as_slice()), data(0x0203, 0x04_0506_0708, b"")] {
        let sealer = keys.response_sealer(&individual, content.epoch, GROUP);
        let sealed =
            sealer.seal(&mut buf, content.number, content.kind, |w| w.bytes(content.bytes));
        let payload = buf[..sealed.map_err(too_long)?].to_vec();
        let records = vec![shown_axiom(&suite, &content, GROUP.alias(), &payload)];
        datagrams.push(SampleDatagram { from: to_one.0, to: to_one.1, payload, records });
    }
    Ok(Sample {
        name: format!("axiom-{:04x}", id.0),
        dissector: "lightseal-group",
        preferences: vec![
            format!("lsgroup.ports:{PORT}"),
            format!("lsgroup.axiom_suite:0x{:04x}", id.0),
        ],
        datagrams,
    })
}

fn shown_compact(
    keys: &RecordKeys,
    tag: usize,
    out: &PlainRecord<'_>,
    record: &[u8],
) -> ExpectedFields {
    let mut shown = ExpectedFields::default();
    let (kind, listener) = match keys.stream().direction {
        Direction::Requests => (0, None),
        Direction::Answers(_) => (1, None),
        Direction::Direct(listener) => (1, Some(listener)),
        Direction::Responses(listener) => (2, Some(listener)),
        Direction::PairwiseResponses(listener) => {
            (if matches!(out.form, HeaderForm::Boot(_)) { 3 } else { 2 }, Some(listener))
        }
    };
    let signature = if out.signer.is_some() { 64 } else { 0 };
    let inside = out.payload.len() + 1 + out.padding + signature;
    let (head, body) = record.split_at(record.len() - inside - tag);
    let is_direct = matches!(keys.stream().direction, Direction::Direct(_));
    let mut put = |name: &str, value: String| shown.put(format!("lsgroup.{name}"), value);
    put("profile", "compact".into());
    put("direction", if listener.is_some() && !is_direct { "response" } else { "request" }.into());
    let has_length = out.form == HeaderForm::Followed;
    let low = EPOCH & 3;
    match out.form {
        HeaderForm::Last | HeaderForm::Followed => {
            put("form", "number in part".into());
            put("flags", format!("0x{:02x}", 0b0011_1000 | u64::from(has_length) << 2 | low));
            put("flags.connection_id", "1".into());
            put("flags.long_number", "1".into());
            put("flags.length", u8::from(has_length).to_string());
            put("epoch_bits", low.to_string());
            // The number is masked: only its position is known.
            let behind = if has_length { 2 } else { 0 };
            let masked = &head[head.len() - behind - 2..head.len() - behind];
            put("number_encrypted", format!("0x{:02x}{:02x}", masked[0], masked[1]));
            if has_length {
                put("length", (inside + tag).to_string());
            }
        }
        HeaderForm::Full | HeaderForm::Boot(_) => {
            let which = match kind {
                3 => ", boot",
                _ if is_direct => ", to one listener",
                _ => "",
            };
            put("form", format!("number in full{which}"));
            let signed = u8::from(out.signer.is_some() || is_direct);
            put("flags", format!("0x{:02x}", 0xf8 | signed << 2 | kind));
            put("signed", signed.to_string());
            put("kind", kind.to_string());
            put("epoch", EPOCH.to_string());
            put("number", out.number.to_string());
        }
    }
    put("group_id", format!("0x{:02x}", GROUP.alias()));
    if is_direct || listener.is_none() {
        put("sender_id", keys.stream().sender.0.to_string());
    }
    if let Some(listener) = listener {
        put("listener_id", listener.get().to_string());
    }
    if let HeaderForm::Boot(boot) = out.form {
        put("request_number", boot.request.to_string());
        shown.put_bytes("lsgroup.boot_nonce", &boot.nonce);
    }
    let (sealed, tag) = body.split_at(inside);
    shown.put_bytes("lsgroup.encrypted", sealed);
    shown.put_bytes("lsgroup.tag", tag);
    shown
}

/// Profile `compact` under each suite.
pub(super) fn compact() -> Result<Vec<Sample>, Error> {
    let suites = [
        CipherSuiteId::AES_128_CTR_LIGHTMAC_8_SHA256,
        CipherSuiteId::AES_128_CTR_LIGHTMAC_SHA256,
        CipherSuiteId::AES_128_CCM_8_SHA256,
        CipherSuiteId::AES_128_CCM_SHA256,
        CipherSuiteId::AES_128_GCM_SHA256,
        CipherSuiteId::CHACHA20_POLY1305_SHA256,
    ];
    suites.into_iter().map(compact_of).collect()
}

fn compact_of(id: CipherSuiteId) -> Result<Sample, Error> {
    let message = rekey()?;
    let suite = compact::Suite::find(&rustcrypto::PROVIDER, id).ok_or_else(no_suite)?;
    let epoch = EpochSecret::new(GROUP, EPOCH, &[0x5a; 16]);
    let listener = ListenerId::new(0x01_0203).ok_or(Error::Stream("a ListenerID too large"))?;
    let (ours, theirs) = (PrivateKey::new(&[1; 32]), PrivateKey::new(&[2; 32]));
    let pair = epoch.pair_for_sender((SENDER, &ours), (listener, &theirs.public()));
    let pair = pair.map_err(|_| Error::Stream("a public key of small order"))?;
    let new = |stream, secret| RecordKeys::new(suite, stream, &secret);
    let controller = SenderId::CONTROLLER;
    let requests = new(epoch.requests(SENDER), epoch.request_secret(SENDER));
    let rekeys = new(epoch.requests(controller), epoch.request_secret(controller));
    let responses = epoch.response_secret(SENDER, listener);
    let responses = new(epoch.responses(SENDER, listener), responses);
    let pairwise = pair.response_secret(&BOOT.nonce);
    let pairwise = new(epoch.pairwise_responses(SENDER, listener), pairwise);
    let answers = new(epoch.answers(SENDER, listener), pair.answer_secret(&CHALLENGE));
    let direct = new(epoch.direct_requests(SENDER, listener), pair.direct_secret());

    let signer = SigningKey::new(&[9; 32]);
    let signed = Some(&signer);
    let data = PlainRecord::data;
    let full = |number, bytes| PlainRecord { form: HeaderForm::Full, ..data(number, bytes) };
    let boot = |number, bytes| PlainRecord { form: HeaderForm::Boot(BOOT), ..data(number, bytes) };
    let followed =
        |number, bytes| PlainRecord { form: HeaderForm::Followed, ..data(number, bytes) };
    let [to_all, to_one] = ways();
    // The sender's messages to one listener alone travel in this direction.
    let back = (to_one.1, to_one.0);
    let all = [
        (to_all, &requests, vec![data(0, b"on")]),
        (to_all, &requests, vec![data(0x1234_5678_9abc, b"")]),
        (to_all, &requests, vec![followed(1, b"one"), followed(2, b""), data(3, &[7; 900])]),
        (to_all, &requests, vec![PlainRecord { padding: 30, ..data(4, b"padded") }]),
        (to_all, &requests, vec![PlainRecord { signer: signed, ..data(5, b"signed") }]),
        (to_all, &requests, vec![full(MAX_RECORD_NUMBER, b"in full")]),
        (to_all, &requests, vec![PlainRecord { signer: signed, ..full(7, b"in full, signed") }]),
        (to_all, &requests, vec![PlainRecord { kind: GROUP_SYNC, ..full(8, b"") }]),
        (to_all, &requests, vec![followed(9, b"before one in full"), full(10, b"")]),
        (to_all, &rekeys, vec![PlainRecord { kind: GROUP_REKEY, ..data(0, &message) }]),
        (
            back,
            &requests,
            vec![PlainRecord { signer: signed, kind: GROUP_CHALLENGE, ..full(11, &CHALLENGE) }],
        ),
        (back, &answers, vec![PlainRecord { kind: GROUP_CHALLENGE, ..full(12, &CHALLENGE) }]),
        (back, &direct, vec![full(13, b"on, you alone")]),
        (to_all, &direct, vec![full(14, b"")]),
        (to_one, &responses, vec![data(0, b"2.05")]),
        (to_one, &responses, vec![followed(1, b"2.05"), data(2, b"2.05")]),
        (to_one, &responses, vec![full(3, b"")]),
        (to_one, &responses, vec![PlainRecord { signer: signed, ..full(4, b"signed") }]),
        (to_one, &responses, vec![PlainRecord { kind: GROUP_CHALLENGE, ..full(5, &CHALLENGE) }]),
        (to_one, &pairwise, vec![data(0, b"between us")]),
        (to_one, &pairwise, vec![boot(1, b"started again")]),
        (to_one, &pairwise, vec![PlainRecord { kind: GROUP_CHALLENGE, ..boot(2, &CHALLENGE) }]),
    ];
    let tag = suite.get().tag_len;
    let mut datagrams = Vec::new();
    let mut buf = vec![0; 2000];
    for ((from, to), keys, outgoing) in &all {
        let (mut payload, mut records) = (Vec::new(), Vec::new());
        for out in outgoing {
            let len = keys.seal(out, &mut buf).map_err(too_long)?;
            let record = &buf[..len];
            payload.extend_from_slice(record);
            records.push(shown_compact(keys, tag, out, record));
        }
        datagrams.push(SampleDatagram { from: *from, to: *to, payload, records });
    }
    Ok(Sample {
        name: format!("compact-{:04x}", id.0),
        dissector: "lightseal-group",
        preferences: vec![
            format!("lsgroup.ports:{PORT}"),
            format!("lsgroup.compact_suite:0x{:04x}", id.0),
            "lsgroup.addresses:ff15::abcd".into(),
        ],
        datagrams,
    })
}
