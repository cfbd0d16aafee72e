//! Tests of `axiom-1.2` records through the public interface: authentic records open, and no others
//! do.

use lightseal_core::ReplayWindow;
use lightseal_dtls::codepoints::{ContentType, MAX_CONTENT};
use lightseal_dtls::crypto::{CipherSuiteId, PremasterSecret, Sha256, rustcrypto::PROVIDER};
use lightseal_group::axiom::{
    Ciphertext, ConnectionEnd, GroupKeys, HEADER_LEN, IndividualKey, OpenError, Opener, SealError,
    Sealer, SecurityParameters, Suite,
};
use lightseal_group::codepoints::MAX_TRUNCATED_NUMBER;
use lightseal_group::{GroupId, SenderId};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::IpAddr;

const SUITES: [CipherSuiteId; 5] = [
    CipherSuiteId::PSK_WITH_AES_128_CCM_8,
    CipherSuiteId::PSK_WITH_AES_128_CCM,
    CipherSuiteId::PSK_WITH_AES_128_GCM_SHA256,
    CipherSuiteId::PSK_WITH_CHACHA20_POLY1305_SHA256,
    CipherSuiteId::PSK_WITH_NULL_SHA256,
];
const DATA: ContentType = ContentType::APPLICATION_DATA;
const EPOCH: u16 = 7;
const GROUP: GroupId = GroupId([0x47; 16]);
const SENDER: SenderId = SenderId(9);
const LISTENER: &str = "2001:db8::7";

fn suites() -> impl Iterator<Item = Suite> {
    SUITES.into_iter().map(|id| Suite::new(&PROVIDER, id).expect("a suite for groups"))
}

fn keys_from(suite: Suite, premaster: u8) -> GroupKeys {
    let (client_random, server_random) = ([1; 32], [2; 32]);
    let premaster = PremasterSecret::from_bytes(&Sha256, &[premaster; 48]);
    let master_secret = premaster.into_master(&client_random, &server_random);
    let entity = ConnectionEnd::Server;
    SecurityParameters { entity, suite, master_secret, client_random, server_random }.group_keys()
}

fn keys(suite: Suite) -> GroupKeys {
    keys_from(suite, 3)
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn sealed(sealer: &Sealer, number: u64, content: &[u8]) -> Vec<u8> {
    let mut record = vec![0; content.len() + 100];
    let len = sealer.seal(&mut record, number, DATA, |w| w.bytes(content)).expect("there is room");
    record.truncate(len);
    record
}

/// Opens a datagram of one record.
fn opened(opener: &Opener, mut datagram: Vec<u8>) -> Result<Vec<u8>, OpenError> {
    let split = Ciphertext::split_first(&mut datagram);
    let (record, _) = split.map_err(|_| OpenError::Malformed)?;
    Ok(opener.open(record)?.content.to_vec())
}

fn with_body_len(mut record: Vec<u8>, body: usize) -> Vec<u8> {
    record.truncate(HEADER_LEN + body);
    record[HEADER_LEN - 2..HEADER_LEN].copy_from_slice(&(body as u16).to_be_bytes());
    record
}

#[test]
fn a_record_has_the_overhead_of_its_suite() {
    let overheads: Vec<usize> = suites()
        .map(|suite| {
            let keys = keys(suite);
            let request = sealed(&keys.request_sealer(EPOCH, SENDER), 0, b"on");
            let key = keys.individual(ip(LISTENER), SENDER);
            let response = sealed(&keys.response_sealer(&key, EPOCH, GROUP), 0, b"on");
            assert_eq!(request.len(), response.len());
            request.len() - 2
        })
        .collect();
    assert_eq!(overheads, [29, 37, 37, 29, 45]);
    assert!(suites().map(|suite| suite.overhead()).eq(overheads));
}

/// A sender with thousands of listeners stores a key and a window for each of them.
#[test]
fn what_a_sender_keeps_of_a_listener_is_small() {
    assert_eq!(size_of::<IndividualKey>(), 32);
    assert!(size_of::<(IndividualKey, ReplayWindow)>() <= 64);
}

#[test]
fn any_flipped_bit_and_any_cut_is_refused() {
    for suite in suites() {
        let keys = keys(suite);
        let individual = keys.individual(ip(LISTENER), SENDER);
        let pairs = [
            (keys.request_sealer(EPOCH, SENDER), keys.request_opener(EPOCH)),
            (
                keys.response_sealer(&individual, EPOCH, GROUP),
                keys.response_opener(&individual, EPOCH, GROUP),
            ),
        ];
        for (sealer, opener) in pairs {
            let record = sealed(&sealer, 5, b"light 12 on");
            assert_eq!(opened(&opener, record.clone()).as_deref(), Ok(&b"light 12 on"[..]));
            for bit in 0..8 * record.len() {
                let mut flipped = record.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(opened(&opener, flipped).is_err(), "{suite:?}, bit {bit}");
            }
            for cut in 0..record.len() {
                assert!(opened(&opener, record[..cut].to_vec()).is_err(), "{suite:?}, cut {cut}");
            }
        }
    }
}

/// The paper authors' code accepted any fragment of less than 16 bytes as authentic.
#[test]
fn no_body_is_too_short_to_be_authenticated() {
    for suite in suites() {
        let keys = keys(suite);
        let (sealer, opener) = (keys.request_sealer(EPOCH, SENDER), keys.request_opener(EPOCH));
        let record = sealed(&sealer, 5, &[b'x'; 64]);
        let least = suite.explicit_nonce_len() + suite.tag_len();
        for body in 0..record.len() - HEADER_LEN {
            let expected = if body < least { OpenError::Malformed } else { OpenError::Unauthentic };
            let short = with_body_len(record.clone(), body);
            assert_eq!(opened(&opener, short), Err(expected), "{suite:?}, {body}");
            let mut zeros = record[..HEADER_LEN].to_vec();
            zeros.resize(HEADER_LEN + body, 0);
            assert!(opened(&opener, with_body_len(zeros, body)).is_err(), "{suite:?}, {body}");
        }
        assert_eq!(opened(&opener, sealed(&sealer, 6, b"")), Ok(Vec::new()));
    }
}

/// The vectors contain such a record with a right tag.
#[test]
fn an_explicit_nonce_that_is_not_the_records_number_is_refused() {
    for suite in suites().filter(|suite| suite.explicit_nonce_len() > 0) {
        let keys = keys(suite);
        let mut record = sealed(&keys.request_sealer(EPOCH, SENDER), 5, b"on");
        assert_eq!(record[3..11], record[HEADER_LEN..HEADER_LEN + 8]);
        record[HEADER_LEN + 7] ^= 1;
        assert_eq!(opened(&keys.request_opener(EPOCH), record), Err(OpenError::Malformed));
    }
}

#[test]
fn a_record_opens_only_in_its_epoch_group_and_direction() {
    for suite in suites() {
        let keys = keys(suite);
        let individual = keys.individual(ip(LISTENER), SENDER);
        let request = sealed(&keys.request_sealer(EPOCH, SENDER), 5, b"on");
        let response = sealed(&keys.response_sealer(&individual, EPOCH, GROUP), 5, b"done");

        // Two epochs may have the same keys (section 6.3).
        let next = keys.request_opener(EPOCH + 1);
        assert_eq!(opened(&next, request.clone()), Err(OpenError::Epoch));
        let mut moved = request.clone();
        moved[3..5].copy_from_slice(&(EPOCH + 1).to_be_bytes());
        assert!(opened(&next, moved.clone()).is_err());
        if suite.explicit_nonce_len() > 0 {
            moved.copy_within(3..11, HEADER_LEN);
            assert_eq!(opened(&next, moved), Err(OpenError::Unauthentic));
        }

        let other = GroupId([0x48; 16]);
        let opener = keys.response_opener(&individual, EPOCH, other);
        assert_eq!(opened(&opener, response.clone()), Err(OpenError::Group));
        // Two groups may have the same alias, but not the same keys.
        let elsewhere = keys_from(suite, 4);
        let same_alias =
            elsewhere.response_opener(&elsewhere.individual(ip(LISTENER), SENDER), EPOCH, GROUP);
        assert_eq!(opened(&same_alias, response.clone()), Err(OpenError::Unauthentic));
        let requests = elsewhere.request_opener(EPOCH);
        assert_eq!(opened(&requests, request.clone()), Err(OpenError::Unauthentic));

        // A response in a group whose alias equals a SenderID does not open as a request, and vice
        // versa.
        let alias = GroupId([SENDER.0; 16]);
        let as_request = sealed(&keys.response_sealer(&individual, EPOCH, alias), 5, b"on");
        let opener = keys.request_opener(EPOCH);
        assert_eq!(opened(&opener, as_request), Err(OpenError::Unauthentic));
        let opener = keys.response_opener(&individual, EPOCH, alias);
        assert_eq!(opened(&opener, request), Err(OpenError::Unauthentic));
    }
}

/// Section 5.5. This also holds for the NULL suite, where the secret is made from the MAC keys.
#[test]
fn each_listener_has_a_key_of_its_own_towards_each_sender_in_each_group() {
    for suite in suites() {
        let keys = keys(suite);
        let own = keys.individual(ip(LISTENER), SENDER);
        let response = sealed(&keys.response_sealer(&own, EPOCH, GROUP), 5, b"done");
        let open = |key: &IndividualKey| {
            opened(&keys.response_opener(key, EPOCH, GROUP), response.clone())
        };
        assert!(open(&keys.individual(ip(LISTENER), SENDER)).is_ok());
        for (listener, sender) in
            [("2001:db8::8", SENDER), (LISTENER, SenderId(10)), ("192.0.2.7", SENDER)]
        {
            let other = keys.individual(ip(listener), sender);
            assert_eq!(open(&other), Err(OpenError::Unauthentic), "{suite:?}");
        }
        let elsewhere = keys_from(suite, 4).individual(ip(LISTENER), SENDER);
        assert_eq!(open(&elsewhere), Err(OpenError::Unauthentic), "{suite:?}");
    }
}

#[test]
fn an_ipv4_address_and_its_mapped_form_are_one_listener() {
    for suite in suites() {
        let keys = keys(suite);
        let v4 = keys.individual(ip("192.0.2.7"), SENDER);
        let mapped = keys.individual(ip("::ffff:192.0.2.7"), SENDER);
        let response = sealed(&keys.response_sealer(&v4, EPOCH, GROUP), 0, b"done");
        assert!(opened(&keys.response_opener(&mapped, EPOCH, GROUP), response).is_ok());
    }
}

#[test]
fn numbers_end_and_never_wrap() {
    for suite in suites() {
        let keys = keys(suite);
        let sealer = keys.request_sealer(u16::MAX, SenderId(u8::MAX));
        let last = sealed(&sealer, MAX_TRUNCATED_NUMBER, b"last");
        assert_eq!(last[3..11], [0xff; 8]);
        assert!(opened(&keys.request_opener(u16::MAX), last).is_ok());
        for number in [MAX_TRUNCATED_NUMBER + 1, u64::MAX] {
            let mut untouched = [0; 100];
            let result = sealer.seal(&mut untouched, number, DATA, |w| w.bytes(b"one more"));
            assert_eq!(result, Err(SealError::Exhausted));
            assert_eq!(untouched, [0; 100]);
        }
    }
}

#[test]
fn a_buffer_has_to_hold_the_record_and_a_record_its_content() {
    for suite in suites() {
        let sealer = keys(suite).request_sealer(EPOCH, SENDER);
        let opener = keys(suite).request_opener(EPOCH);
        let len = suite.overhead() + 5;
        for room in 0..len {
            let result = sealer.seal(&mut vec![0; room], 1, DATA, |w| w.bytes(b"light"));
            assert_eq!(result, Err(SealError::Full), "{suite:?}, {room}");
        }
        assert_eq!(sealer.seal(&mut vec![0; len], 1, DATA, |w| w.bytes(b"light")), Ok(len));

        let longest = sealed(&sealer, 2, &vec![b'x'; MAX_CONTENT]);
        assert_eq!(opened(&opener, longest).map(|content| content.len()), Ok(MAX_CONTENT));
        let mut buf = vec![0; MAX_CONTENT + 100];
        let beyond = vec![b'x'; MAX_CONTENT + 1];
        let result = sealer.seal(&mut buf, 3, DATA, |w| w.bytes(&beyond));
        assert_eq!(result, Err(SealError::Full));
        let mut longer = sealed(&sealer, 4, &vec![b'x'; MAX_CONTENT]);
        longer.push(0);
        let longer = with_body_len(longer.clone(), longer.len() - HEADER_LEN);
        assert_eq!(opened(&opener, longer), Err(OpenError::Malformed));
    }
}

#[test]
fn records_are_taken_from_a_datagram_one_after_the_other() {
    let suite = suites().next().expect("a suite");
    let (sealer, opener) =
        (keys(suite).request_sealer(EPOCH, SENDER), keys(suite).request_opener(EPOCH));
    let mut forged = sealed(&sealer, 1, b"two");
    *forged.last_mut().expect("not empty") ^= 1;
    let mut datagram = [sealed(&sealer, 0, b"one"), forged, sealed(&sealer, 2, b"three")].concat();
    // A fourth record, which is truncated.
    datagram.extend(&sealed(&sealer, 3, b"four")[..20]);

    let (mut rest, mut contents, mut left) = (&mut datagram[..], Vec::new(), 0);
    while let Ok((record, behind)) = Ciphertext::split_first(rest) {
        contents.push(opener.open(record).map(|record| record.content.to_vec()));
        left = behind.len();
        rest = behind;
    }
    let expected = [Ok(b"one".to_vec()), Err(OpenError::Unauthentic), Ok(b"three".to_vec())];
    assert_eq!(contents, expected);
    assert_eq!(left, 20);
}

/// A listener that processes requests in the right order of steps.
struct Listener {
    opener: Opener,
    /// A replay window for each sender that the controller has announced.
    windows: BTreeMap<SenderId, ReplayWindow>,
}

impl Listener {
    fn new(keys: &GroupKeys) -> Self {
        let windows = BTreeMap::from([(SENDER, ReplayWindow::new())]);
        Self { opener: keys.request_opener(EPOCH), windows }
    }

    fn receive(&mut self, mut datagram: Vec<u8>) -> Option<Vec<u8>> {
        let (record, _) = Ciphertext::split_first(&mut datagram).ok()?;
        let window = self.windows.get_mut(&record.header().sender())?;
        if !window.check(record.header().number) {
            return None;
        }
        let record = self.opener.open(record).ok()?;
        window.commit(record.header.number);
        Some(record.content.to_vec())
    }
}

/// The paper authors' code delivered replays, and crashed on an unknown SenderID.
#[test]
fn replays_and_unknown_senders_are_dropped_and_forgeries_move_nothing() {
    for suite in suites() {
        let keys = keys(suite);
        let mut listener = Listener::new(&keys);
        let sealer = keys.request_sealer(EPOCH, SENDER);
        let [first, second] = [0, 1].map(|number| sealed(&sealer, number, b"on"));

        // A forged record with the highest possible number must not move the window.
        let mut forged = sealed(&sealer, MAX_TRUNCATED_NUMBER, b"on");
        *forged.last_mut().expect("not empty") ^= 1;
        assert_eq!(listener.receive(forged), None);

        assert!(listener.receive(second.clone()).is_some());
        assert!(listener.receive(first.clone()).is_some(), "late, not strictly in order");
        assert_eq!(listener.receive(first), None);
        assert_eq!(listener.receive(second), None);

        for id in (0..=u8::MAX).filter(|id| *id != SENDER.0) {
            let unknown = sealed(&keys.request_sealer(EPOCH, SenderId(id)), 9, b"on");
            assert_eq!(listener.receive(unknown), None, "{suite:?}, {id}");
        }
        assert!(listener.receive(sealed(&sealer, 9, b"on")).is_some());
    }
}

#[test]
fn nothing_secret_shows() {
    for suite in suites() {
        let keys = keys(suite);
        let individual = keys.individual(ip(LISTENER), SENDER);
        assert_eq!(format!("{keys:?} {individual:?}"), "GroupKeys(..) IndividualKey(..)");
        let sealer = keys.request_sealer(EPOCH, SENDER);
        assert_eq!(format!("{sealer:?}"), "Sealer(9, epoch 7)");
        assert_eq!(format!("{:?}", keys.request_opener(EPOCH)), "Opener(epoch 7)");
    }
}

proptest! {
    /// A sealed record opens with its content unchanged, but not with the header of another record.
    #[test]
    fn round_trips(
        which in 0..SUITES.len(),
        kind: u8,
        epoch: u16,
        sender: u8,
        number in 0..=MAX_TRUNCATED_NUMBER,
        content in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let suite = Suite::new(&PROVIDER, SUITES[which]).expect("a suite for groups");
        let keys = keys(suite);
        let sealer = keys.request_sealer(epoch, SenderId(sender));
        let mut buf = vec![0; content.len() + suite.overhead()];
        let len = sealer.seal(&mut buf, number, ContentType(kind), |w| w.bytes(&content));
        prop_assert_eq!(len, Ok(buf.len()));
        let (record, rest) = Ciphertext::split_first(&mut buf).expect("well formed");
        prop_assert!(rest.is_empty());
        let plaintext = keys.request_opener(epoch).open(record).expect("authentic");
        prop_assert_eq!(plaintext.header.kind, ContentType(kind));
        prop_assert_eq!(plaintext.header.sender(), SenderId(sender));
        prop_assert_eq!((plaintext.header.epoch, plaintext.header.number), (epoch, number));
        prop_assert_eq!(&*plaintext.content, &content[..]);
    }

    /// Arbitrary bytes, also behind a valid header, cause no panic and are never authentic.
    #[test]
    fn noise_is_refused(
        which in 0..SUITES.len(),
        mut noise in prop::collection::vec(any::<u8>(), 0..200),
        fitting: bool,
    ) {
        if fitting && noise.len() >= HEADER_LEN {
            let body = (noise.len() - HEADER_LEN) as u16;
            noise[1..5].copy_from_slice(&[0xfe, 0xfd, 0, EPOCH as u8]);
            noise[HEADER_LEN - 2..HEADER_LEN].copy_from_slice(&body.to_be_bytes());
            if noise.len() >= HEADER_LEN + 8 {
                noise.copy_within(3..11, HEADER_LEN);
            }
        }
        let suite = Suite::new(&PROVIDER, SUITES[which]).expect("a suite for groups");
        prop_assert!(opened(&keys(suite).request_opener(EPOCH), noise).is_err());
    }
}
