//! Pairwise keys, boots and challenges of profile `compact`.

use lightseal_core::{Random, ReplayWindow};
use lightseal_dtls::codepoints::{ContentType, MAX_RECORD_NUMBER};
use lightseal_dtls::crypto::{TrafficSecret, rustcrypto};
use lightseal_group::codepoints::{GROUP_CHALLENGE, GROUP_SYNC};
use lightseal_group::compact::freshness::{sync, synced};
use lightseal_group::compact::{
    Boot, BootStatus, Challenge, Direction, EpochSecret, HeaderForm, InvalidPublicKey, KnownBoot,
    OpenError, OpenedRecord, PairSecret, PlainRecord, PrivateKey, PublicKey, RecordKeys,
    SealedRecord, SigningKey, Suite, VerifyingKey,
};
use lightseal_group::{GroupId, ListenerId, SenderId};
use proptest::prelude::*;
use std::collections::BTreeSet;

const GROUP: GroupId = GroupId(*b"lights of room 1");
const SENDER: SenderId = SenderId(5);

fn suite() -> Suite {
    Suite::new(&rustcrypto::AES_128_CTR_LIGHTMAC_8).unwrap()
}

fn listener(id: u32) -> ListenerId {
    ListenerId::new(id).unwrap()
}

fn epoch(epoch: u64) -> EpochSecret {
    EpochSecret::new(GROUP, epoch, &[0x5a; 16])
}

/// Secrets are compared by a value that is derived from them.
fn told(secret: &TrafficSecret) -> [u8; 32] {
    let mut out = [0; 32];
    secret.expand("test", &[], &mut out);
    out
}

fn responses(pair: &PairSecret) -> [u8; 32] {
    told(&pair.response_secret(b"bootnonc"))
}

#[test]
fn a_pair_shares_what_nobody_else_has() {
    let [a, b, c] = [1, 2, 3].map(|byte| PrivateKey::new(&[byte; 32]));
    let (one, two) = (epoch(1), epoch(2));
    let pair = |epoch: &EpochSecret, sender, (id, peer): (u32, &PrivateKey)| {
        epoch.pair_for_sender((sender, &a), (listener(id), &peer.public())).unwrap()
    };
    let ours = pair(&one, SENDER, (7, &b));
    let theirs = one.pair_for_listener((listener(7), &b), (SENDER, &a.public())).unwrap();
    assert_eq!(responses(&ours), responses(&theirs));
    assert_eq!(told(&ours.answer_secret(&[1; 8])), told(&theirs.answer_secret(&[1; 8])));

    // A change of any input, also an exchange of the roles, gives another secret.
    let turned = one.pair_for_listener((listener(7), &a), (SENDER, &b.public())).unwrap();
    let other_group = EpochSecret::new(GroupId([0; 16]), 1, &[0x5a; 16]);
    let other_root = EpochSecret::new(GROUP, 1, &[0x5b; 16]);
    let all = [
        responses(&ours),
        responses(&turned),
        responses(&pair(&two, SENDER, (7, &b))),
        responses(&pair(&other_group, SENDER, (7, &b))),
        responses(&pair(&other_root, SENDER, (7, &b))),
        responses(&pair(&one, SenderId(6), (7, &b))),
        responses(&pair(&one, SENDER, (8, &b))),
        responses(&pair(&one, SENDER, (7, &c))),
        told(&ours.response_secret(b"bootnond")),
        told(&ours.answer_secret(b"bootnonc")),
        told(&one.response_secret(SENDER, listener(7))),
        told(&one.request_secret(SENDER)),
    ];
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
}

#[test]
fn keys_of_small_order_are_refused() {
    let own = PrivateKey::new(&[1; 32]);
    let mut one = [0; 32];
    one[0] = 1;
    for point in [[0; 32], one] {
        let point = PublicKey(point);
        let epoch = epoch(1);
        let sender = epoch.pair_for_sender((SENDER, &own), (listener(7), &point));
        assert_eq!(sender.err(), Some(InvalidPublicKey));
        let listener = epoch.pair_for_listener((listener(7), &own), (SENDER, &point));
        assert_eq!(listener.err(), Some(InvalidPublicKey));
    }
    assert_eq!(VerifyingKey::new(&one), Err(InvalidPublicKey), "the neutral element");
    assert_eq!(VerifyingKey::new(&[0; 32]), Err(InvalidPublicKey), "of order 4");
    assert_eq!(VerifyingKey::new(&[2; 32]).err(), Some(InvalidPublicKey), "no point");
    let key = SigningKey::new(&[9; 32]).public();
    assert_eq!(VerifyingKey::new(key.as_bytes()), Ok(key));
}

#[test]
fn debug_shows_no_secret() {
    let own = PrivateKey::new(&[0x41; 32]);
    let epoch = EpochSecret::new(GROUP, 1, &[0x41; 32]);
    let pair = epoch.pair_for_sender((SENDER, &own), (listener(7), &own.public())).unwrap();
    let secret = epoch.request_secret(SENDER);
    let keys = RecordKeys::new(suite(), epoch.requests(SENDER), &secret);
    let shown = format!("{own:?} {epoch:?} {pair:?} {:?} {secret:?}", SigningKey::new(&[0x41; 32]));
    let expected = "PrivateKey(..) EpochSecret(6c6967687473206f6620726f6f6d2031 epoch 1) \
                    PairSecret(..) SigningKey(..) TrafficSecret(..)";
    assert_eq!(shown, expected);
    assert!(format!("{keys:?}").ends_with(", .. }"), "{keys:?}");
}

/// The state that a sender stores for each of its listeners, including the replay window.
#[test]
fn a_listener_costs_its_sender_less_than_128_bytes() {
    let window = size_of::<ReplayWindow>();
    assert!(window + size_of::<PairSecret>() <= 64);
    assert!(size_of::<(PairSecret, KnownBoot, ReplayWindow)>() <= 80);
}

/// A listener without stable storage.
struct Listener {
    nonce: [u8; 8],
    next: u64,
}

impl Listener {
    fn start(rng: &mut Random) -> Self {
        Self { nonce: rng.array(), next: 0 }
    }

    fn respond(&mut self, pair: &PairSecret, request: u64, state_boot: bool) -> Vec<u8> {
        let secret = pair.response_secret(&self.nonce);
        let stream = epoch(1).pairwise_responses(SENDER, listener(7));
        let keys = RecordKeys::new(suite(), stream, &secret);
        let boot = Boot { nonce: self.nonce, request };
        let form = if state_boot { HeaderForm::Boot(boot) } else { HeaderForm::Last };
        let mut buf = [0; 100];
        let payload = request.to_be_bytes();
        let record = PlainRecord { form, ..PlainRecord::data(self.next, &payload) };
        let len = keys.seal(&record, &mut buf).unwrap();
        self.next += 1;
        buf[..len].to_vec()
    }
}

struct Sender {
    pair: PairSecret,
    known: Option<(KnownBoot, ReplayWindow)>,
    next: u64,
}

impl Sender {
    /// Processes a pairwise response in all steps.
    fn receive(&mut self, datagram: &[u8]) -> Option<Vec<u8>> {
        let datagram = &mut datagram.to_vec();
        let (record, _) = SealedRecord::response(datagram).unwrap();
        let known = self.known.as_ref().map(|(known, _)| known);
        let (boot, mut window) = match record.boot() {
            None => self.known.clone()?,
            Some(boot) => match KnownBoot::status_of(known, &boot, self.next) {
                BootStatus::Known => self.known.clone()?,
                BootStatus::New => (KnownBoot::new(&boot, self.next), ReplayWindow::new()),
                BootStatus::Stale => return None,
            },
        };
        let secret = self.pair.response_secret(boot.nonce());
        let stream = epoch(1).pairwise_responses(SENDER, listener(7));
        let keys = RecordKeys::new(suite(), stream, &secret);
        let record = record.reveal(&keys, window.next());
        if !window.check(record.number()) {
            return None;
        }
        let opened = record.open(&keys, None).ok()?;
        window.commit(opened.number);
        let payload = opened.payload.to_vec();
        let (known, _) = self.known.insert((boot, window));
        known.mark_heard(self.next);
        Some(payload)
    }
}

fn pair() -> PairSecret {
    let [a, b] = [1, 2].map(|byte| PrivateKey::new(&[byte; 32]));
    epoch(1).pair_for_sender((SENDER, &a), (listener(7), &b.public())).unwrap()
}

#[test]
fn a_listener_that_starts_again_is_heard_and_its_past_is_not() {
    let rng = &mut Random::insecure(1);
    let mut sender = Sender { pair: pair(), known: None, next: 1 };
    let mut first = Listener::start(rng);
    let opening = first.respond(&sender.pair, 0, true);
    assert!(sender.receive(&opening).is_some());
    assert!(sender.receive(&opening).is_none(), "replayed");
    let short = first.respond(&sender.pair, 0, false);
    assert!(sender.receive(&short).is_some());

    let mut second = Listener::start(rng);
    let early = second.respond(&sender.pair, 0, true);
    assert!(sender.receive(&early).is_none(), "it states an old request");
    sender.next = 2;
    let opening_2 = second.respond(&sender.pair, 1, true);
    let mut wrong = opening_2.clone();
    wrong[30] ^= 1;
    assert!(sender.receive(&wrong).is_none(), "a nonce changed on the way");
    assert!(sender.receive(&opening_2).is_some());
    assert!(sender.receive(&second.respond(&sender.pair, 1, false)).is_some());
    sender.next = 3;
    for old in [&opening, &short, &opening_2] {
        assert!(sender.receive(old).is_none());
    }
    let ahead = second.respond(&sender.pair, 3, true);
    assert!(sender.receive(&ahead).is_some(), "a known boot needs no request");
    let unsent = Listener::start(rng).respond(&sender.pair, 3, true);
    assert!(sender.receive(&unsent).is_none(), "a request that was not sent yet");
}

#[test]
fn another_boot_is_taken_with_a_request_that_was_sent_since() {
    let boot = Boot { nonce: [1; 8], request: 500 };
    let known = KnownBoot::new(&boot, 510);
    let standing =
        |request| KnownBoot::status_of(Some(&known), &Boot { nonce: [2; 8], request }, 520);
    let expected = [
        (509, BootStatus::Stale),
        (510, BootStatus::New),
        (519, BootStatus::New),
        (520, BootStatus::Stale),
    ];
    assert!(expected.iter().all(|(request, expected)| standing(*request) == *expected));
}

proptest! {
    /// With any sequence of boots, and a network that stores, delays and replays any records, no
    /// response is delivered twice.
    #[test]
    fn no_history_of_boots_delivers_a_response_twice(
        seed in any::<u64>(),
        steps in prop::collection::vec((0..8u8, any::<u16>()), 1..120),
    ) {
        let rng = &mut Random::insecure(seed);
        let mut sender = Sender { pair: pair(), known: None, next: 1 };
        let mut member = Listener::start(rng);
        let (mut seen, mut air, mut delivered) = (0, Vec::new(), BTreeSet::new());
        for (step, choice) in steps {
            match step {
                0 => {
                    member = Listener::start(rng);
                    // An old request may have been replayed to it.
                    seen = u64::from(choice) % sender.next;
                }
                1 => {
                    seen = sender.next;
                    sender.next += 1;
                }
                2 | 3 => air.push(member.respond(&sender.pair, seen, step == 2)),
                _ if air.is_empty() => {}
                _ => {
                    let i = usize::from(choice) % air.len();
                    if sender.receive(&air[i]).is_some() {
                        prop_assert!(delivered.insert(i), "record {} again", i);
                    }
                }
            }
        }
    }
}

/// A sender's keys for group requests, and its keys for the answer to one listener's challenge.
fn sender_keys(challenge: &Challenge) -> (RecordKeys, RecordKeys) {
    let epoch = epoch(1);
    let requests = RecordKeys::new(suite(), epoch.requests(SENDER), &epoch.request_secret(SENDER));
    let stream = epoch.answers(SENDER, listener(7));
    (requests, RecordKeys::new(suite(), stream, &pair().answer_secret(&challenge.0)))
}

fn through<R>(
    keys: &RecordKeys,
    record: &PlainRecord<'_>,
    then: impl FnOnce(Result<OpenedRecord<'_>, OpenError>) -> R,
) -> R {
    let mut buf = [0; 200];
    let len = keys.seal(record, &mut buf).unwrap();
    let by = record.signer.map(SigningKey::public);
    let buf = &mut buf[..len];
    let record = match keys.stream().direction {
        Direction::Requests | Direction::Answers(_) => {
            SealedRecord::request(buf).unwrap().0.reveal(keys, 0)
        }
        _ => SealedRecord::response(buf).unwrap().0.reveal(keys, 0),
    };
    let opened = record.open(keys, by.as_ref());
    then(opened)
}

#[test]
fn a_sync_record_brings_on_who_missed_thousands() {
    let (keys, _) = sender_keys(&Challenge([0; 8]));
    let key = &SigningKey::new(&[9; 32]);
    let stated = |record: &PlainRecord<'_>| {
        through(&keys, record, |opened| synced(keys.stream(), &opened.unwrap()))
    };
    let number = 0x0123_4567_89ab;
    assert_eq!(stated(&sync(number, None)), Some(number + 1));
    assert_eq!(stated(&sync(number, Some(key))), Some(number + 1));
    assert_eq!(stated(&sync(MAX_RECORD_NUMBER, None)), Some(MAX_RECORD_NUMBER + 1));
    assert_eq!(
        stated(&PlainRecord { form: HeaderForm::Last, ..sync(4, None) }),
        None,
        "not in full"
    );
    assert_eq!(stated(&PlainRecord { payload: b"x", ..sync(4, None) }), None);
    assert_eq!(stated(&PlainRecord { kind: GROUP_CHALLENGE, ..sync(4, None) }), None);
    let mut buf = [0; 100];
    assert_eq!(keys.seal(&sync(number, None), &mut buf), Ok(26));
    assert_eq!(keys.seal(&sync(number, Some(key)), &mut buf), Ok(90));

    // A listener's record never states a sender's next number.
    let epoch = epoch(1);
    let secret = epoch.response_secret(SENDER, listener(7));
    let responses = RecordKeys::new(suite(), epoch.responses(SENDER, listener(7)), &secret);
    let stated =
        through(&responses, &sync(4, None), |opened| synced(responses.stream(), &opened.unwrap()));
    assert_eq!(stated, None);
}

#[test]
fn only_the_sender_answers_a_challenge() {
    let rng = &mut Random::insecure(3);
    let (challenge, other) = (Challenge::random(rng), Challenge::random(rng));
    assert_ne!(challenge, other);
    let key = &SigningKey::new(&[9; 32]);
    let (requests, answers) = sender_keys(&challenge);
    let answered = |keys: &RecordKeys, record: &PlainRecord<'_>| {
        through(keys, record, |opened| challenge.answered(keys.stream(), &opened.unwrap()))
    };
    assert_eq!(answered(&answers, &challenge.answer(70_000, None)), Some(70_001));
    assert_eq!(answered(&requests, &challenge.answer(70_000, Some(key))), Some(70_001));
    assert_eq!(answered(&requests, &challenge.answer(70_000, None)), None, "any member can do it");
    assert_eq!(answered(&requests, &other.answer(70_000, Some(key))), None);
    assert_eq!(answered(&answers, &other.answer(70_000, None)), None);
    let shorter = PlainRecord { payload: &challenge.0[..7], ..challenge.answer(1, None) };
    assert_eq!(answered(&answers, &shorter), None);
    for kind in [GROUP_SYNC, ContentType::APPLICATION_DATA] {
        let record = PlainRecord { kind, ..challenge.answer(1, None) };
        assert_eq!(answered(&answers, &record), None);
    }
    let short = PlainRecord { form: HeaderForm::Last, ..challenge.answer(1, Some(key)) };
    assert_eq!(answered(&requests, &short), None, "its number is not in full");

    // Answers under the keys of another challenge do not open.
    let mut buf = [0; 100];
    let len = answers.seal(&challenge.answer(1, None), &mut buf).unwrap();
    let (_, others) = sender_keys(&other);
    let (record, _) = SealedRecord::request(&mut buf[..len]).unwrap();
    assert_eq!(record.reveal(&others, 0).open(&others, None), Err(OpenError::Tag));
}

#[test]
fn a_challenge_arrives_from_listeners_alone() {
    let challenge = Challenge([7; 8]);
    let epoch = epoch(1);
    let boot = Boot { nonce: [3; 8], request: 9 };
    let keys = |stream, secret: &TrafficSecret| RecordKeys::new(suite(), stream, secret);
    let group =
        keys(epoch.responses(SENDER, listener(7)), &epoch.response_secret(SENDER, listener(7)));
    let pairwise =
        keys(epoch.pairwise_responses(SENDER, listener(7)), &pair().response_secret(&boot.nonce));
    let (requests, _) = sender_keys(&challenge);
    let asked = |keys: &RecordKeys, record: &PlainRecord<'_>| {
        through(keys, record, |opened| Challenge::asked(keys.stream(), &opened.unwrap()))
    };
    assert_eq!(asked(&group, &challenge.ask(0, HeaderForm::Full, None)), Some(challenge));
    assert_eq!(asked(&group, &challenge.ask(0, HeaderForm::Last, None)), Some(challenge));
    assert_eq!(asked(&pairwise, &challenge.ask(0, HeaderForm::Boot(boot), None)), Some(challenge));
    assert_eq!(asked(&requests, &challenge.ask(0, HeaderForm::Full, None)), None);
    let longer = PlainRecord { payload: &[7; 9], ..challenge.ask(0, HeaderForm::Full, None) };
    assert_eq!(asked(&group, &longer), None);
    assert_eq!(asked(&group, &PlainRecord { payload: &[7; 8], ..PlainRecord::data(0, &[]) }), None);
}
