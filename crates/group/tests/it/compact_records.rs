//! Tests of `compact` records: authentic records open, and no others do.

use lightseal_core::ReplayWindow;
use lightseal_dtls::codepoints::{ContentType, MAX_CONTENT, MAX_RECORD_NUMBER};
use lightseal_dtls::crypto::{CipherSuiteId, Record, rustcrypto};
use lightseal_group::compact::{
    Boot, Direction, EpochSecret, HeaderForm, OpenError, OpenedRecord, PlainRecord, PrivateKey,
    ProvenOrigin, RecordKeys, RevealedRecord, SealError, SealedRecord, SigningKey, Suite,
    VerifyingKey,
};
use lightseal_group::{GroupId, ListenerId, SenderId};
use proptest::prelude::*;

const GROUP: GroupId = GroupId(*b"lights of room 1");
/// Another group with the same alias.
const SIBLING: GroupId = GroupId(*b"lights of room 2");
const EPOCH: u64 = 0x0102_0304_0506_0707;
const SENDER: SenderId = SenderId(5);
const ROOT: [u8; 16] = [0x5a; 16];
const BOOT: Boot = Boot { nonce: *b"restart1", request: 77 };
const CHALLENGE: [u8; 8] = *b"whatnow?";

fn listener() -> ListenerId {
    ListenerId::new(0x01_0203).unwrap()
}

fn suites() -> Vec<Suite> {
    let ids = [
        CipherSuiteId::AES_128_CTR_LIGHTMAC_SHA256,
        CipherSuiteId::AES_128_CTR_LIGHTMAC_8_SHA256,
        CipherSuiteId::AES_128_CCM_SHA256,
        CipherSuiteId::AES_128_CCM_8_SHA256,
        CipherSuiteId::AES_128_GCM_SHA256,
        CipherSuiteId::CHACHA20_POLY1305_SHA256,
    ];
    ids.map(|id| Suite::find(&rustcrypto::PROVIDER, id).unwrap()).to_vec()
}

fn short_tags() -> Suite {
    Suite::new(&rustcrypto::AES_128_CTR_LIGHTMAC_8).unwrap()
}

fn epoch() -> EpochSecret {
    EpochSecret::new(GROUP, EPOCH, &ROOT)
}

/// The four kinds of keys of one epoch.
fn keys_of(suite: Suite, epoch: &EpochSecret) -> [RecordKeys; 4] {
    let listener = listener();
    let (ours, theirs) = (PrivateKey::new(&[1; 32]), PrivateKey::new(&[2; 32]));
    let pair = epoch.pair_for_sender((SENDER, &ours), (listener, &theirs.public())).unwrap();
    let new = |stream, secret| RecordKeys::new(suite, stream, &secret);
    [
        new(epoch.requests(SENDER), epoch.request_secret(SENDER)),
        new(epoch.responses(SENDER, listener), epoch.response_secret(SENDER, listener)),
        new(epoch.pairwise_responses(SENDER, listener), pair.response_secret(&BOOT.nonce)),
        new(epoch.answers(SENDER, listener), pair.answer_secret(&CHALLENGE)),
    ]
}

fn requests(suite: Suite) -> RecordKeys {
    let [requests, ..] = keys_of(suite, &epoch());
    requests
}

fn is_listeners(keys: &RecordKeys) -> bool {
    matches!(keys.stream().direction, Direction::Responses(_) | Direction::PairwiseResponses(_))
}

fn forms(keys: &RecordKeys) -> Vec<HeaderForm> {
    let forms = [HeaderForm::Last, HeaderForm::Followed, HeaderForm::Full, HeaderForm::Boot(BOOT)];
    forms.into_iter().filter(|form| keys.overhead(*form, false).is_some()).collect()
}

fn seal(keys: &RecordKeys, record: &PlainRecord<'_>) -> Vec<u8> {
    let mut buf = vec![0xee; record.payload.len() + record.padding + 200];
    let len = keys.seal(record, &mut buf).unwrap();
    assert!(buf[len..].iter().all(|byte| *byte == 0xee), "nothing beyond the record is touched");
    buf.truncate(len);
    buf
}

/// Reveals the record number nearest to `expected`, and returns the rest of the datagram.
fn reveal<'a>(
    keys: &RecordKeys,
    datagram: &'a mut [u8],
    expected: u64,
) -> Option<(RevealedRecord<'a>, usize)> {
    if is_listeners(keys) {
        let (record, rest) = SealedRecord::response(datagram).ok()?;
        assert!(!record.is_answer());
        Some((record.reveal(keys, expected), rest.len()))
    } else {
        let (record, rest) = SealedRecord::request(datagram).ok()?;
        assert_eq!(record.boot(), None);
        Some((record.reveal(keys, expected), rest.len()))
    }
}

fn open<'a>(
    keys: &RecordKeys,
    datagram: &'a mut [u8],
    expected: u64,
    verifier: Option<&VerifyingKey>,
) -> Option<Result<OpenedRecord<'a>, OpenError>> {
    let (record, _) = reveal(keys, datagram, expected)?;
    Some(record.open(keys, verifier))
}

fn opens(keys: &RecordKeys, datagram: &[u8], expected: u64, by: Option<&VerifyingKey>) -> bool {
    open(keys, &mut datagram.to_vec(), expected, by).is_some_and(|opened| opened.is_ok())
}

/// The overhead stated in the specification is that of real records.
#[test]
fn fourteen_bytes_a_request_and_sixteen_a_response() {
    for suite in suites() {
        let tag = suite.get().tag_len;
        let [requests, responses, pairwise, answers] = keys_of(suite, &epoch());
        for len in [0, 1, 2, 7, 15, 100, 1200] {
            let payload = vec![7; len];
            let overhead = |keys, form, signer| {
                let record = PlainRecord { form, signer, ..PlainRecord::data(3, &payload) };
                seal(keys, &record).len() - len
            };
            let key = &SigningKey::new(&[9; 32]);
            assert_eq!(overhead(&requests, HeaderForm::Last, None), 6 + tag);
            assert_eq!(overhead(&responses, HeaderForm::Last, None), 8 + tag);
            assert_eq!(overhead(&pairwise, HeaderForm::Last, None), 8 + tag);
            assert_eq!(overhead(&requests, HeaderForm::Last, Some(key)), 70 + tag);
            assert_eq!(overhead(&responses, HeaderForm::Last, Some(key)), 72 + tag);
            assert_eq!(overhead(&requests, HeaderForm::Followed, None), 8 + tag);
            assert_eq!(overhead(&requests, HeaderForm::Full, None), 18 + tag);
            assert_eq!(overhead(&answers, HeaderForm::Full, None), 18 + tag);
            assert_eq!(overhead(&responses, HeaderForm::Full, None), 20 + tag);
            assert_eq!(overhead(&pairwise, HeaderForm::Boot(BOOT), None), 34 + tag);
            for keys in [&requests, &responses, &pairwise, &answers] {
                for form in forms(keys) {
                    assert_eq!(keys.overhead(form, false), Some(overhead(keys, form, None)));
                }
            }
        }
        if tag == 8 {
            assert_eq!(requests.overhead(HeaderForm::Last, false), Some(14));
            assert_eq!(responses.overhead(HeaderForm::Last, false), Some(16));
        }
    }
}

#[test]
fn suites_that_do_not_encrypt_or_have_another_hash_are_none() {
    assert!(Suite::new(&rustcrypto::SHA256_SHA256).is_none());
    let find = |id| Suite::find(&rustcrypto::PROVIDER, id);
    assert!(find(CipherSuiteId::SHA256_SHA256).is_none());
    assert!(find(CipherSuiteId::AES_256_GCM_SHA384).is_none());
    let dtls = rustcrypto::PROVIDER.suite(CipherSuiteId::AES_128_CTR_LIGHTMAC_8_SHA256);
    assert!(dtls.is_none(), "no handshake negotiates it");
    for suite in suites() {
        let (tag, failed) = (suite.get().tag_len, suite.limits().failed);
        assert!(tag == 16 && failed > 1 << 23 || tag == 8 && failed == 1 << 21, "{suite:?}");
    }
}

#[test]
fn what_a_header_shows() {
    let suite = short_tags();
    let [requests, responses, pairwise, answers] = keys_of(suite, &epoch());
    let mut request = seal(&requests, &PlainRecord::data(0x1_0002, b"on"));
    assert_eq!(request[..3], [0b0011_1011, b'l', 5]);
    let (record, rest) = SealedRecord::request(&mut request).unwrap();
    assert!(rest.is_empty());
    assert_eq!((record.alias(), record.id, record.is_answer()), (b'l', SENDER, false));
    assert_eq!((record.is_signed(), record.boot()), (None, None));
    assert!(record.epoch().is_of(EPOCH) && record.epoch().is_of(EPOCH + 4));
    assert!(!record.epoch().is_of(EPOCH + 1));

    let mut response = seal(&responses, &PlainRecord::data(0, b"on"));
    assert_eq!(response[..5], [0b0011_1011, b'l', 1, 2, 3]);
    let (record, _) = SealedRecord::response(&mut response).unwrap();
    assert_eq!((record.alias(), record.id), (b'l', listener()));

    let full = PlainRecord { form: HeaderForm::Full, ..PlainRecord::data(0x0a0b_0c0d_0e0f, b"") };
    let mut sync = seal(&requests, &full);
    assert_eq!(sync[..3], [0xf8, b'l', 5]);
    assert_eq!(sync[3..11], EPOCH.to_be_bytes());
    assert_eq!(sync[11..17], [0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f]);
    let (record, _) = SealedRecord::request(&mut sync).unwrap();
    assert!(record.epoch().is_of(EPOCH) && !record.epoch().is_of(EPOCH + 4));
    assert_eq!((record.is_signed(), record.is_answer()), (Some(false), false));

    let mut answer = seal(&answers, &full);
    assert_eq!(answer[0], 0xf9);
    assert!(SealedRecord::request(&mut answer).unwrap().0.is_answer());

    let mut boot = seal(&pairwise, &PlainRecord { form: HeaderForm::Boot(BOOT), ..full });
    assert_eq!(boot[0], 0xfb);
    assert_eq!(boot[19..33], *b"\0\0\0\0\0\x4drestart1");
    assert_eq!(SealedRecord::response(&mut boot).unwrap().0.boot(), Some(BOOT));

    let key = &SigningKey::new(&[9; 32]);
    let mut signed = seal(&requests, &PlainRecord { signer: Some(key), ..full });
    assert_eq!(signed[0], 0xfc);
    assert_eq!(SealedRecord::request(&mut signed).unwrap().0.is_signed(), Some(true));
}

/// Headers with 8-bit numbers or without an ID, and signed answers, are refused.
#[test]
fn a_record_begins_as_the_specification_says() {
    let of = |of_sender: bool| {
        let begins = |first: &u8| {
            let datagram = &mut [&[*first][..], &[0; 99]].concat();
            let sender = SealedRecord::request(datagram).is_ok();
            let listener = SealedRecord::response(datagram).is_ok();
            if of_sender { sender } else { listener }
        };
        (0..=255u8).filter(begins).collect::<Vec<_>>()
    };
    let short = 0x38..=0x3f;
    assert_eq!(of(true), short.clone().chain([0xf8, 0xf9, 0xfc]).collect::<Vec<_>>());
    assert_eq!(of(false), short.chain([0xfa, 0xfb, 0xfe, 0xff]).collect::<Vec<_>>());
}

#[test]
fn records_follow_one_another_in_a_datagram() {
    let keys = requests(short_tags());
    let first = PlainRecord { form: HeaderForm::Followed, ..PlainRecord::data(1, b"one") };
    let mut datagram = [seal(&keys, &first), seal(&keys, &PlainRecord::data(2, b"two"))].concat();
    let (record, rest) = SealedRecord::request(&mut datagram).unwrap();
    let opened = record.reveal(&keys, 0).open(&keys, None).unwrap();
    assert_eq!((opened.number, &*opened.payload), (1, &b"one"[..]));
    let (record, rest) = SealedRecord::request(rest).unwrap();
    let opened = record.reveal(&keys, 2).open(&keys, None).unwrap();
    assert_eq!((opened.number, &*opened.payload), (2, &b"two"[..]));
    assert!(rest.is_empty());
    assert!(SealedRecord::request(rest).is_err());
}

/// Truncates the record at every byte, flips every bit, and appends bytes.
#[test]
fn nothing_but_the_record_opens() {
    for suite in suites() {
        for keys in keys_of(suite, &epoch()) {
            for form in forms(&keys) {
                let record = PlainRecord { form, ..PlainRecord::data(70_000, b"on") };
                let sealed = seal(&keys, &record);
                assert!(opens(&keys, &sealed, 70_001, None));
                for cut in 0..sealed.len() {
                    assert!(!opens(&keys, &sealed[..cut], 70_001, None), "{form:?} cut to {cut}");
                }
                for bit in 0..8 * sealed.len() {
                    let mut other = sealed.clone();
                    other[bit / 8] ^= 1 << (bit % 8);
                    assert!(!opens(&keys, &other, 70_001, None), "{form:?} bit {bit}");
                }
                if form != HeaderForm::Followed {
                    let longer = [&sealed[..], &[0]].concat();
                    assert!(!opens(&keys, &longer, 70_001, None), "{form:?}");
                }
            }
        }
    }
}

#[test]
fn keys_are_of_one_group_epoch_and_writer() {
    let suite = short_tags();
    let epochs = [
        EpochSecret::new(SIBLING, EPOCH, &ROOT),
        EpochSecret::new(GROUP, EPOCH + 4, &ROOT),
        EpochSecret::new(GROUP, EPOCH, &[0x5b; 16]),
    ];
    for (i, keys) in keys_of(suite, &epoch()).iter().enumerate() {
        let sealed =
            seal(keys, &PlainRecord { form: HeaderForm::Full, ..PlainRecord::data(1, b"on") });
        assert!(opens(keys, &sealed, 0, None));
        for other in &epochs {
            let others = keys_of(suite, other);
            assert!(!opens(&others[i], &sealed, 0, None), "{other:?}");
        }
        for (j, other) in keys_of(suite, &epoch()).iter().enumerate() {
            assert_eq!(opens(other, &sealed, 0, None), i == j);
        }
    }
    let epoch = epoch();
    let request = seal(&requests(suite), &PlainRecord::data(1, b"on"));
    let other =
        RecordKeys::new(suite, epoch.requests(SenderId(6)), &epoch.request_secret(SenderId(6)));
    assert!(!opens(&other, &request, 0, None));
    let [_, responses, ..] = keys_of(suite, &epoch);
    let response = seal(&responses, &PlainRecord::data(1, b"on"));
    let peer = ListenerId::new(9).unwrap();
    for (sender, listener) in [(SENDER, peer), (SenderId(6), listener())] {
        let secret = epoch.response_secret(sender, listener);
        let other = RecordKeys::new(suite, epoch.responses(sender, listener), &secret);
        assert!(!opens(&other, &response, 0, None));
    }
}

/// Their headers have different lengths, so each record is also tried unchanged as the other kind.
#[test]
fn a_request_is_no_response_and_a_response_no_request() {
    for suite in suites() {
        let [requests, responses, ..] = keys_of(suite, &epoch());
        for form in [HeaderForm::Last, HeaderForm::Full] {
            let record = PlainRecord { form, ..PlainRecord::data(0, b"a payload of some length") };
            let (request, response) = (seal(&requests, &record), seal(&responses, &record));
            for keys in [&requests, &responses] {
                if let Ok((record, _)) = SealedRecord::response(&mut request.clone()) {
                    assert_eq!(record.reveal(keys, 0).open(keys, None), Err(OpenError::Tag));
                }
                if let Ok((record, _)) = SealedRecord::request(&mut response.clone()) {
                    assert_eq!(record.reveal(keys, 0).open(keys, None), Err(OpenError::Tag));
                }
            }
        }
    }
}

/// The number is reconstructed from 16 bits. If the result is wrong, the record does not open with
/// any suite.
#[test]
fn a_wrong_guess_of_the_number_opens_nothing() {
    for suite in suites() {
        let keys = requests(suite);
        let number = 3 << 16 | 5;
        let sealed = seal(&keys, &PlainRecord::data(number, b"on"));
        let half = 1 << 15;
        for expected in [number - half + 1, number, number + half] {
            assert!(opens(&keys, &sealed, expected, None), "{expected}");
        }
        for expected in [0, number - half - 1, number + half + 1, number + (1 << 20)] {
            let mut copy = sealed.clone();
            let (record, _) = SealedRecord::request(&mut copy).unwrap();
            let record = record.reveal(&keys, expected);
            let guess = record.number();
            assert!(guess != number && guess & 0xffff == number & 0xffff);
            assert_eq!(record.open(&keys, None), Err(OpenError::Tag));
        }
        let full = PlainRecord { form: HeaderForm::Full, ..PlainRecord::data(number, b"on") };
        assert!(opens(&keys, &seal(&keys, &full), 0, None), "a number in full is no guess");
    }
}

#[test]
fn numbers_end_and_never_begin_again() {
    let keys = requests(short_tags());
    let buf = &mut [0; 100];
    let last = PlainRecord::data(MAX_RECORD_NUMBER, b"on");
    let len = keys.seal(&last, buf).unwrap();
    assert!(opens(&keys, &buf[..len], MAX_RECORD_NUMBER, None));
    for number in [MAX_RECORD_NUMBER + 1, u64::MAX] {
        let beyond = PlainRecord::data(number, b"on");
        assert_eq!(keys.seal(&beyond, buf), Err(SealError::NumbersExhausted));
    }
}

#[test]
fn what_cannot_be_sealed_is_refused() {
    let [requests, responses, pairwise, answers] = keys_of(short_tags(), &epoch());
    let data = PlainRecord::data(0, b"on");
    let key = &SigningKey::new(&[9; 32]);
    let form = |form| PlainRecord { form, ..data };
    let refused = |keys: &RecordKeys, record: &PlainRecord<'_>| {
        assert_eq!(keys.seal(record, &mut [0; 200]), Err(SealError::Form));
        assert_eq!(keys.overhead(record.form, record.signer.is_some()), None);
    };
    refused(&requests, &form(HeaderForm::Boot(BOOT)));
    refused(&responses, &form(HeaderForm::Boot(BOOT)));
    refused(&answers, &form(HeaderForm::Last));
    refused(&answers, &form(HeaderForm::Followed));
    refused(&answers, &form(HeaderForm::Boot(BOOT)));
    refused(&answers, &PlainRecord { signer: Some(key), ..form(HeaderForm::Full) });
    let boot = Boot { request: MAX_RECORD_NUMBER + 1, ..BOOT };
    refused(&pairwise, &form(HeaderForm::Boot(boot)));

    for len in 0..16 {
        assert_eq!(requests.seal(&data, &mut vec![0; len]), Err(SealError::BufferFull));
    }
    assert_eq!(requests.seal(&data, &mut [0; 16]), Ok(16));
    let mut buf = vec![0; 1 << 15];
    let long = vec![7; MAX_CONTENT];
    let mut fits = |record: &PlainRecord<'_>| match requests.seal(record, &mut buf) {
        Ok(len) => opens(&requests, &buf[..len], 0, record.signer.map(SigningKey::public).as_ref()),
        Err(error) => {
            assert_eq!(error, SealError::TooLong);
            false
        }
    };
    assert!(fits(&PlainRecord::data(0, &long)));
    assert!(!fits(&PlainRecord { padding: 1, ..PlainRecord::data(0, &long) }));
    assert!(!fits(&PlainRecord { padding: usize::MAX, ..PlainRecord::data(0, &long) }));
    let signed = PlainRecord { signer: Some(key), ..PlainRecord::data(0, &long[64..]) };
    assert!(fits(&signed));
    assert!(!fits(&PlainRecord { padding: 1, ..signed }));
}

/// Such records have right tags and come from a member that violates the protocol.
#[test]
fn a_record_may_be_too_long_to_be_one() {
    for suite in suites() {
        let keys = requests(suite);
        let raw = suite.get().keying.plain(&epoch().request_secret(SENDER).derivation());
        let opened = |content_len: usize| {
            let number = 3;
            let full = PlainRecord { form: HeaderForm::Full, ..PlainRecord::data(number, &[]) };
            let mut datagram = seal(&keys, &full)[..17].to_vec();
            let header = datagram.clone();
            let mut body = vec![23; content_len + suite.get().tag_len];
            let (content, tag) = body.split_at_mut(content_len);
            raw.seal(Record { number, header: &header }, content, tag);
            datagram.extend(body);
            open(&keys, &mut datagram, 0, None).unwrap().map(|opened| opened.payload.len())
        };
        assert_eq!(opened(MAX_CONTENT + 1), Ok(MAX_CONTENT));
        assert_eq!(opened(MAX_CONTENT + 2), Err(OpenError::Tag));
        let mut huge = vec![0; 1 << 21];
        huge[0] = 0xf8;
        assert_eq!(open(&keys, &mut huge, 0, None).unwrap(), Err(OpenError::Tag));
    }
}

#[test]
fn a_record_of_zeros_has_no_type() {
    let keys = requests(short_tags());
    let record = PlainRecord { kind: ContentType(0), padding: 3, ..PlainRecord::data(0, &[0; 4]) };
    let mut sealed = seal(&keys, &record);
    assert_eq!(open(&keys, &mut sealed, 0, None).unwrap(), Err(OpenError::Content));
}

#[test]
fn a_signature_is_neither_stripped_nor_swapped() {
    for suite in suites() {
        let [requests, responses, pairwise, _] = keys_of(suite, &epoch());
        let (key, other) = (&SigningKey::new(&[9; 32]), &SigningKey::new(&[8; 32]));
        for keys in [&requests, &responses, &pairwise] {
            for form in forms(keys) {
                let record = PlainRecord { form, signer: Some(key), ..PlainRecord::data(4, b"on") };
                let bare = PlainRecord { signer: None, ..record };
                let public = Some(key.public());
                let result = |record, by: Option<VerifyingKey>| {
                    let sealed = &mut seal(keys, record);
                    let opened = open(keys, sealed, 5, by.as_ref()).unwrap();
                    opened.map(|opened| (opened.payload.to_vec(), opened.origin))
                };
                assert_eq!(result(&record, public), Ok((b"on".to_vec(), ProvenOrigin::Signer)));
                assert_eq!(result(&bare, public), Err(OpenError::Source), "stripped");
                assert_eq!(result(&record, Some(other.public())), Err(OpenError::Source));
                let by_other = PlainRecord { signer: Some(other), ..record };
                assert_eq!(result(&by_other, public), Err(OpenError::Source), "swapped");
                if matches!(form, HeaderForm::Full | HeaderForm::Boot(_)) {
                    assert_eq!(result(&record, None), Err(OpenError::Source), "not looked for");
                }
            }
        }
    }
}

/// Members can take signatures of other members and seal them again under keys that they have.
#[test]
fn a_signature_holds_for_one_record_alone() {
    let suite = short_tags();
    let epoch = epoch();
    let key = &SigningKey::new(&[9; 32]);
    let public = key.public();
    let [requests, responses, ..] = keys_of(suite, &epoch);
    let long = [b"on".as_slice(), &[ContentType::APPLICATION_DATA.0]].concat();
    // The signature of a record, which any member can extract.
    let signature = |keys: &RecordKeys, record: &PlainRecord<'_>| {
        let mut sealed = seal(keys, &PlainRecord { signer: Some(key), ..*record });
        let (record, _) = reveal(keys, &mut sealed, record.number).unwrap();
        let opened = record.open(keys, None).unwrap();
        let whole = [&*opened.payload, &[opened.kind.0]].concat();
        whole[long.len()..].to_vec()
    };
    // A member without the private key builds a record that carries this signature: payload ‖ type
    // ‖ signature. The last byte of the signature is placed where a record has its type.
    let forged = |keys: &RecordKeys, number, signature: &[u8]| {
        let (last, rest) = signature.split_last().unwrap();
        let payload = [&long, rest].concat();
        let record =
            PlainRecord { kind: ContentType(*last), ..PlainRecord::data(number, &payload) };
        opens(keys, &seal(keys, &record), number, Some(&public))
    };
    let data = PlainRecord::data(4, b"on");
    let of_request = signature(&requests, &data);
    let of_response = signature(&responses, &data);
    assert_eq!(of_request.len(), 64);
    assert!(forged(&requests, 4, &of_request), "an identical record opens");
    assert!(forged(&responses, 4, &of_response));
    assert!(!forged(&requests, 5, &of_request), "another number");
    assert!(!forged(&requests, 4 + (1 << 16), &of_request), "the same low 16 bits");
    assert!(!forged(&requests, 4, &of_response));
    assert!(!forged(&responses, 4, &of_request));
    let of_followed = signature(&requests, &PlainRecord { form: HeaderForm::Followed, ..data });
    assert!(!forged(&requests, 4, &of_followed), "another header");

    let elsewhere =
        [EpochSecret::new(SIBLING, EPOCH, &ROOT), EpochSecret::new(GROUP, EPOCH + 4, &ROOT)];
    for epoch in &elsewhere {
        let [requests, responses, ..] = keys_of(suite, epoch);
        assert!(!forged(&requests, 4, &of_request), "{epoch:?}");
        assert!(!forged(&responses, 4, &of_response), "{epoch:?}");
    }
    let secret = epoch.response_secret(SenderId(6), listener());
    let stream = epoch.responses(SenderId(6), listener());
    let to_another = RecordKeys::new(suite, stream, &secret);
    assert!(!forged(&to_another, 4, &of_response), "a response is for one sender");
    let secret = epoch.request_secret(SenderId(6));
    let as_another = RecordKeys::new(suite, epoch.requests(SenderId(6)), &secret);
    assert!(!forged(&as_another, 4, &of_request));
}

/// All steps of a listener, with a replay window: each record is delivered once, in any order
/// within the window.
#[test]
fn replays_are_dropped_before_they_are_opened() {
    let keys = requests(short_tags());
    let sealed: Vec<_> = (0..40).map(|n| seal(&keys, &PlainRecord::data(n, b"on"))).collect();
    let mut window = ReplayWindow::new();
    let mut receive = |datagram: &[u8]| {
        let datagram = &mut datagram.to_vec();
        let (record, _) = SealedRecord::request(datagram).unwrap();
        let record = record.reveal(&keys, window.next());
        let fresh = window.check(record.number());
        let opened = fresh.then(|| record.open(&keys, None).unwrap().number);
        opened.inspect(|number| window.commit(*number)).is_some()
    };
    let order = [0, 3, 1, 39, 20, 2, 38];
    assert!(order.iter().all(|n| receive(&sealed[*n])));
    assert!(order.iter().all(|n| !receive(&sealed[*n])));
    assert_eq!((0..40).filter(|n| receive(&sealed[*n])).count(), 40 - order.len());
}

proptest! {
    #[test]
    fn what_is_sealed_opens(
        suite in 0..6usize,
        keys in 0..4usize,
        form in 0..4usize,
        number in prop_oneof![0u64..1 << 20, 0..=MAX_RECORD_NUMBER],
        behind in -0x7f00i64..0x7f00,
        kind in 1..=255u8,
        payload in prop::collection::vec(any::<u8>(), 0..300),
        padding in 0..40usize,
        signed in any::<bool>(),
    ) {
        let keys = &keys_of(suites()[suite], &epoch())[keys];
        let forms = forms(keys);
        let form = forms[form % forms.len()];
        let signer = SigningKey::new(&[9; 32]);
        let signed = signed && keys.overhead(form, true).is_some();
        let signer = Some(&signer).filter(|_| signed);
        let kind = ContentType(kind);
        let record = PlainRecord { number, kind, payload: &payload, form, padding, signer };
        let mut sealed = seal(keys, &record);
        let overhead = keys.overhead(form, signed).unwrap();
        prop_assert_eq!(sealed.len(), overhead + payload.len() + padding);
        let expected = number.saturating_add_signed(behind).min(MAX_RECORD_NUMBER);
        let by = signer.map(SigningKey::public);
        let opened = open(keys, &mut sealed, expected, by.as_ref()).unwrap().unwrap();
        prop_assert_eq!((opened.number, opened.kind), (number, kind));
        prop_assert_eq!(&*opened.payload, &payload[..]);
        prop_assert_eq!(opened.in_full, matches!(form, HeaderForm::Full | HeaderForm::Boot(_)));
    }

    #[test]
    fn any_bytes_do_no_harm(
        suite in 0..6usize,
        first in prop_oneof![any::<u8>(), 0x20..0x40u8, 0xf8..=0xffu8],
        bytes in prop::collection::vec(any::<u8>(), 0..100),
        expected in 0..=MAX_RECORD_NUMBER + 1,
        verify in any::<bool>(),
    ) {
        let datagram = [&[first][..], &bytes].concat();
        let by = Some(SigningKey::new(&[9; 32]).public()).filter(|_| verify);
        for keys in keys_of(suites()[suite], &epoch()) {
            prop_assert!(!opens(&keys, &datagram, expected, by.as_ref()));
        }
    }
}
