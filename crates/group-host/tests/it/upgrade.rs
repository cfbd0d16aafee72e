//! Stores of commits 21b0b5d and 28350a8 can still be opened, and damaged stores cause an error and no
//! panic.

use lightseal_core::{Decode, Encode, Instant, Random, Writer};
use lightseal_group::control::{
    Answer, AnswerMessage, GroupName, Reason, Request, RequestMessage, RoleSet, VERSION_1,
};
use lightseal_group::controller::Output;
use lightseal_group::{Identity, SenderId};
use lightseal_group_host::service::{DescribedMember, Enrol, NewToken, Registry};
use lightseal_group_host::store::{ControllerStore, MemberStore};
use lightseal_group_host::token::Token;
use redb::ReadableTable as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

struct Directory(PathBuf);

impl Directory {
    /// A directory with the store from this fixture file.
    fn with(fixture: &str, name: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let label = format!("lightseal-upgrade-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(label);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join(name), bytes(fixture)).unwrap();
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn bytes(fixture: &str) -> Vec<u8> {
    let path = format!("tests/fixtures/{fixture}.hex");
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    let mut lines = text.lines();
    let number = |text: &str| usize::from_str_radix(text, 16).unwrap();
    let mut bytes = vec![0; number(lines.next().unwrap())];
    for line in lines {
        let (offset, hex) = line.split_once(' ').unwrap();
        for (at, digits) in hex.as_bytes().chunks(2).enumerate() {
            bytes[number(offset) + at] = number(std::str::from_utf8(digits).unwrap()) as u8;
        }
    }
    bytes
}

fn lights() -> GroupName {
    GroupName::new("lights").unwrap()
}

fn ask(
    registry: &mut Registry,
    by_token: bool,
    now: Instant,
    asked: &RequestMessage,
) -> Vec<Answer> {
    ask_as("switch", registry, by_token, now, asked)
}

fn ask_as(
    device: &str,
    registry: &mut Registry,
    by_token: bool,
    now: Instant,
    asked: &RequestMessage,
) -> Vec<Answer> {
    let mut buf = [0; 700];
    let mut w = Writer::new(&mut buf);
    asked.write(&mut w).unwrap();
    if by_token {
        let from = "127.0.0.1".parse().unwrap();
        registry.handle_by_token(now, device, from, w.written());
    } else {
        registry.handle(now, device, w.written());
    }
    registry.handle_timeout(now + Duration::from_secs(1));
    let answers = std::iter::from_fn(|| registry.poll()).filter_map(|(_, output)| match output {
        Output::Answer { answer, .. } => {
            assert_eq!(answer[0], asked.version);
            Some(AnswerMessage::decode(&answer).unwrap().answer)
        }
        _ => None,
    });
    answers.collect()
}

fn join(version: u8, nonce: u8) -> RequestMessage {
    let keys = Identity::generate(&mut Random::insecure(3)).public();
    let (roles, address) =
        (RoleSet { sender: true, listener: false }, "127.77.0.10".parse().unwrap());
    let said = Request::Join { nonce: [nonce; 8], name: lights(), roles, address, keys };
    RequestMessage { version, ..RequestMessage::new(1, said) }
}

/// Earlier controllers admitted such a member. It must not keep its group from being opened.
#[test]
fn a_member_whose_key_has_small_order_is_named_and_can_be_evicted() {
    let directory = Directory::with("controller-21b0b5d", "controller.redb");
    let database = redb::Database::open(directory.0.join("controller.redb")).unwrap();
    let table = redb::TableDefinition::<'_, ([u8; 16], &str), &[u8]>::new("members");
    let transaction = database.begin_write().unwrap();
    {
        let mut members = transaction.open_table(table).unwrap();
        let stored: Vec<_> = members
            .iter()
            .unwrap()
            .map(Result::unwrap)
            .map(|(key, value)| (key.value().0, key.value().1.to_owned(), value.value().to_vec()))
            .filter(|(_, device, _)| device == "lamp1")
            .collect();
        for (group, device, mut member) in stored {
            // The X25519 key stands after the leaf, the nonce and the Ed25519 key.
            member[4 + 8 + 32..][..32].fill(0);
            members.insert((group, &*device), &*member).unwrap();
        }
    }
    transaction.commit().unwrap();
    drop(database);
    let store = ControllerStore::open(&directory.0).unwrap();
    let now = Instant::from_micros(5_000_000);
    let mut registry = Registry::open(store, now, Random::insecure(1)).unwrap();
    let shown = registry.show("lights").unwrap();
    assert_eq!((shown.members, shown.unusable), (2, vec!["lamp1".to_owned()]));
    let shown = registry.evict(now, "lights", "lamp1").unwrap();
    assert_eq!((shown.members, shown.unusable), (1, Vec::new()));
}

#[test]
fn a_controllers_store_opens_and_its_members_join_again_as_others() {
    let directory = Directory::with("controller-21b0b5d", "controller.redb");
    let now = Instant::from_micros(5_000_000);
    let open = || {
        let store = ControllerStore::open(&directory.0).unwrap();
        Registry::open(store, now, Random::insecure(1)).unwrap()
    };
    let mut registry = open();
    let shown = registry.show("lights").unwrap();
    let roster = shown.roster.unwrap();
    let names: Vec<_> = roster.iter().map(|member| &*member.device).collect();
    assert_eq!((names, shown.epoch), (vec!["lamp1", "switch"], 3));
    assert_eq!((roster[1].listener_id, roster[1].sender_id), (2, Some(0)));
    assert_eq!(registry.show("doors").unwrap().profile, "axiom-1.2");
    let devices = registry.list_devices();
    assert_eq!(devices.len(), 4);
    assert_eq!(devices[1].evicted_from, ["lights"]);
    assert!(devices.iter().all(|device| device.uses_left.is_none()));

    // A request of an old program is refused in its own version, so that it can log the reason.
    let refused = ask(&mut registry, true, now, &join(VERSION_1, 9));
    assert!(matches!(refused[..], [Answer::Refused(Reason::NotNow)]), "{refused:?}");
    // A new program uses its token once more.
    let by_token = ask(&mut registry, true, now, &join(2, 9));
    assert!(matches!(by_token[..], [Answer::Refused(Reason::NotUnderstood)]), "{by_token:?}");
    let key = RequestMessage::new(2, Request::Key { nonce: [4; 16] });
    let [Answer::Key(first)] = &ask(&mut registry, true, now, &key)[..] else { panic!() };
    drop(registry);
    let mut registry = open();
    // The answer was lost and the controller has restarted: the repeated request gets the same key.
    let [Answer::Key(again)] = &ask(&mut registry, true, now, &key)[..] else { panic!() };
    assert_eq!(first, again);
    let [Answer::Admitted(admitted)] = &ask(&mut registry, false, now, &join(2, 9))[..] else {
        panic!()
    };
    assert_eq!(admitted.instance, 4);
    assert_ne!(admitted.roles.sender, Some(SenderId(0)));
    assert_ne!(admitted.grant.leaf.get(), 2);
    // Requests of an updated device in the old version, in which copies are not detected, are
    // refused.
    registry.allow_version_1();
    let later = now + Duration::from_secs(100);
    for by_token in [true, false] {
        let old = ask(&mut registry, by_token, later, &join(VERSION_1, 7));
        assert!(matches!(old[..], [Answer::Refused(Reason::NotNow)]), "{old:?}");
    }
    let log = registry.read_log(10, None, Some("switch")).unwrap();
    let events: Vec<_> = log.iter().map(|entry| &*entry.event).collect();
    assert_eq!(events, ["token used", "joined"]);
}

#[test]
fn a_device_that_was_never_updated_is_served_where_the_operator_allows_it() {
    let directory = Directory::with("controller-21b0b5d", "controller.redb");
    let now = Instant::from_micros(5_000_000);
    let store = ControllerStore::open(&directory.0).unwrap();
    let mut registry = Registry::open(store, now, Random::insecure(1)).unwrap();
    registry.allow_version_1();
    let old = ask(&mut registry, true, now, &join(VERSION_1, 7));
    let [Answer::Admitted(old)] = &old[..] else { panic!("{old:?}") };
    assert_eq!(old.instance, 0);
}

fn new_token(registry: &mut Registry, device: &str, uses: Option<u32>, expires_s: Option<u64>) {
    let controller = "127.0.0.1:5780".into();
    let new = NewToken { device: device.into(), controller, uses, expires_s };
    registry.new_token(&new).unwrap();
}

/// Otherwise a copy of its new token would not be noticed, and a token with limits would have none.
#[test]
fn a_change_of_credentials_does_not_bring_version_1_back() {
    let subject = "subject:switch.example".parse().unwrap();
    let own_key = |registry: &mut Registry, now| {
        let key = RequestMessage::new(2, Request::Key { nonce: [4; 16] });
        assert!(matches!(ask(registry, true, now, &key)[..], [Answer::Key(_)]));
    };
    type Change<'a> = &'a dyn Fn(&mut Registry, Instant);
    let changes: [(&str, Change<'_>, bool); 7] = [
        ("a token without limits", &|r, _| new_token(r, "switch", None, None), true),
        ("a token for one device", &|r, _| new_token(r, "switch", Some(1), None), false),
        ("a token for an hour", &|r, _| new_token(r, "switch", None, Some(3600)), false),
        ("an identity", &|r, _| r.add_credential("switch", &subject).unwrap(), false),
        (
            "an identity that is removed again",
            &|r, _| {
                r.add_credential("switch", &subject).unwrap();
                r.remove_credential("switch", &subject).unwrap();
            },
            false,
        ),
        (
            "an own key, and a token without limits",
            &|r, now| {
                own_key(r, now);
                new_token(r, "switch", None, None);
            },
            false,
        ),
        (
            "an own key, an identity, and a token without limits",
            &|r, now| {
                own_key(r, now);
                r.replace_credential("switch", &subject).unwrap();
                new_token(r, "switch", None, None);
            },
            false,
        ),
    ];
    for (what, change, is_served) in changes {
        let directory = Directory::with("controller-21b0b5d", "controller.redb");
        let now = Instant::from_micros(5_000_000);
        let open = || {
            let store = ControllerStore::open(&directory.0).unwrap();
            let mut registry = Registry::open(store, now, Random::insecure(1)).unwrap();
            registry.allow_version_1();
            registry
        };
        let mut registry = open();
        change(&mut registry, now);
        drop(registry);
        let mut registry = open();
        for by_token in [true, false] {
            let answers = ask(&mut registry, by_token, now, &join(VERSION_1, 7));
            match answers[..] {
                [Answer::Admitted(_)] => assert!(is_served, "{what}"),
                [Answer::Refused(Reason::NotNow)] => assert!(!is_served, "{what}"),
                _ => panic!("{what}: {answers:?}"),
            }
        }
    }
}

/// Version 3 of the store does not say which devices were updated: their credentials do.
#[test]
fn a_store_of_version_3_opens_and_its_updated_devices_are_not_served_in_version_1() {
    let directory = Directory::with("controller-28350a8", "controller.redb");
    let now = Instant::from_micros(5_000_000);
    let open = || {
        let store = ControllerStore::open(&directory.0).unwrap();
        let mut registry = Registry::open(store, now, Random::insecure(1)).unwrap();
        registry.allow_version_1();
        registry
    };
    let mut registry = open();
    registry.replace_credential("late", &"subject:late.example".parse().unwrap()).unwrap();
    drop(registry);

    let database = redb::Database::open(directory.0.join("controller.redb")).unwrap();
    let meta = redb::TableDefinition::<'_, &str, u64>::new("meta");
    let devices = redb::TableDefinition::<'_, &str, &[u8]>::new("devices");
    let transaction = database.begin_write().unwrap();
    transaction.open_table(meta).unwrap().insert("version", 3).unwrap();
    {
        let mut devices = transaction.open_table(devices).unwrap();
        let stored: Vec<_> = devices
            .iter()
            .unwrap()
            .map(Result::unwrap)
            .map(|(name, device)| (name.value().to_owned(), device.value().to_vec()))
            .filter(|(name, _)| ["late", "switch"].contains(&&**name))
            .collect();
        for (name, mut device) in stored {
            // The flags stand after the key, the roles and two empty lists of groups.
            let flags = &mut device[32 + 1 + 2 + 2];
            assert!(*flags <= 3, "{name}: {flags}");
            *flags &= 1;
            devices.insert(&*name, &*device).unwrap();
        }
    }
    transaction.commit().unwrap();
    drop(database);

    let mut registry = open();
    for device in ["late", "switch"] {
        new_token(&mut registry, device, None, None);
        let old = ask_as(device, &mut registry, true, now, &join(VERSION_1, 7));
        assert!(matches!(old[..], [Answer::Refused(Reason::NotNow)]), "{device}: {old:?}");
    }
}

/// The store of version 2, without identities of devices.
#[test]
fn a_store_without_identities_opens_and_its_devices_get_credentials_and_keep_their_places() {
    let directory = Directory::with("controller-28350a8", "controller.redb");
    let now = Instant::from_micros(5_000_000);
    let open = || {
        let store = ControllerStore::open(&directory.0).unwrap();
        Registry::open(store, now, Random::insecure(1)).unwrap()
    };
    let places = |registry: &mut Registry| {
        let roster = registry.show("lights").unwrap().roster.unwrap();
        let place = |member: &DescribedMember| {
            (member.device.clone(), member.listener_id, member.sender_id)
        };
        roster.iter().map(place).collect::<Vec<_>>()
    };
    let expected = vec![("lamp1".to_owned(), 0, None), ("switch".to_owned(), 2, Some(0))];
    let credentials = |registry: &Registry| {
        let devices = registry.list_devices();
        let all = devices.iter().flat_map(|device| device.credentials.clone());
        all.map(|identity| identity.to_string()).collect::<Vec<_>>()
    };
    let mut registry = open();
    assert_eq!(places(&mut registry), expected);
    assert_eq!(credentials(&registry), ["psk:lamp1", "psk:lamp2", "psk:late", "psk:switch"]);
    let uses: Vec<_> = registry.list_devices().iter().map(|device| device.uses_left).collect();
    assert_eq!(uses, [Some(0), Some(0), Some(1), Some(0)]);
    let epoch = registry.show("lights").unwrap().epoch;

    let [key, subject]: [lightseal_dtls::Identity; 2] =
        [&format!("spki:{}", "5a".repeat(32)), "subject:switch.example"]
            .map(|s| s.parse().unwrap());
    registry.replace_credential("switch", &key).unwrap();
    registry.add_credential("switch", &subject).unwrap();
    // Another credential does not readmit a device that was evicted.
    registry.replace_credential("lamp2", &"subject:lamp2.example".parse().unwrap()).unwrap();
    assert_eq!(registry.list_devices()[1].evicted_from, ["lights"]);
    registry.add_credential("lamp1", &"subject:lamp.example".parse().unwrap()).unwrap();
    drop(registry);
    let mut registry = open();
    assert_eq!(places(&mut registry), expected);
    assert_eq!(registry.show("lights").unwrap().epoch, epoch);
    let expected = [
        "psk:lamp1",
        "subject:lamp.example",
        "subject:lamp2.example",
        "psk:late",
        &key.to_string(),
        "subject:switch.example",
    ];
    assert_eq!(credentials(&registry), expected);
    // The identities of a revoked device are free, on disk too.
    registry.revoke(now, "switch").unwrap();
    registry.add_credential("late", &key).unwrap();
    registry.remove_credential("late", &"psk:late".parse().unwrap()).unwrap();
    drop(registry);
    let registry = open();
    let known = credentials(&registry);
    assert_eq!(known[3..], [key.to_string()]);
    // A backup has the identities.
    let copy = directory.0.join("copy");
    registry.back_up(&copy).unwrap();
    let devices = ControllerStore::open(&copy).unwrap().devices().unwrap();
    let (name, late) = &devices[2];
    assert_eq!((&**name, late.identities.contains(&key), late.key.is_none()), ("late", true, true));
    let log = registry.read_log(100, None, Some("switch")).unwrap();
    let events: Vec<_> = log.iter().map(|entry| &*entry.event).collect();
    let expected = [
        "enrolled",
        "token used",
        "joined",
        "credential replaced",
        "credential added",
        "revoked",
        "left",
    ];
    assert_eq!(events, expected);
}

#[test]
fn a_store_of_a_later_version_is_refused() {
    let directory = Directory::with("controller-28350a8", "controller.redb");
    drop(ControllerStore::open(&directory.0).unwrap());
    let database = redb::Database::open(directory.0.join("controller.redb")).unwrap();
    let transaction = database.begin_write().unwrap();
    let meta = redb::TableDefinition::<'_, &str, u64>::new("meta");
    let before =
        transaction.open_table(meta).unwrap().insert("version", 5).unwrap().unwrap().value();
    assert_eq!(before, 4);
    transaction.commit().unwrap();
    drop(database);
    let error = ControllerStore::open(&directory.0).map(drop).unwrap_err();
    assert!(error.to_string().contains("another version"), "{error}");
}

#[test]
fn a_used_token_that_is_tried_again_and_again_leaves_the_log_readable() {
    let directory = Directory::with("controller-21b0b5d", "controller.redb");
    let now = Instant::from_micros(5_000_000);
    let store = ControllerStore::open(&directory.0).unwrap();
    let mut registry = Registry::open(store, now, Random::insecure(1)).unwrap();
    let enrol = Enrol {
        device: "lamp9".into(),
        sender: false,
        listener: true,
        groups: Vec::new(),
        identities: Vec::new(),
        controller: Some("127.0.0.1:5780".into()),
        uses: Some(1),
        expires_s: None,
    };
    registry.enrol(&enrol).unwrap();
    for nonce in 0..100 {
        let mut buf = [0; 100];
        let mut w = Writer::new(&mut buf);
        RequestMessage::new(2, Request::Key { nonce: [nonce; 16] }).write(&mut w).unwrap();
        registry.handle_by_token(now, "lamp9", "127.0.0.1".parse().unwrap(), w.written());
    }
    let log = registry.read_log(1000, None, Some("lamp9")).unwrap();
    let refused = log.iter().filter(|entry| entry.event.starts_with("token refused")).count();
    assert_eq!(refused, 7, "1, 2, 4 … 64 times: {log:?}");
}

#[test]
fn a_backup_that_is_restored_twice_goes_on_in_different_epochs() {
    let backup = Directory::with("controller-21b0b5d", "controller.redb");
    let now = Instant::from_micros(5_000_000);
    let epoch_of_restoration = |seed| {
        let directory = Directory::with("controller-21b0b5d", "controller.redb");
        std::fs::remove_file(directory.0.join("controller.redb")).unwrap();
        let rng = &mut Random::insecure(seed);
        let store = ControllerStore::restore(&backup.0, &directory.0, rng).unwrap();
        assert!(store.is_restored().unwrap());
        let mut registry = Registry::open(store, now, Random::insecure(seed)).unwrap();
        registry.show("lights").unwrap().epoch
    };
    let (first, second) = (epoch_of_restoration(1), epoch_of_restoration(2));
    assert!(first.abs_diff(second) > 1 << 15, "{first}, {second}");
    assert!(first.min(second) > 3 + (1 << 20), "{first}, {second}");
}

#[test]
fn members_stores_open_and_ask_for_a_join() {
    for (fixture, device) in [
        ("sender-21b0b5d", "switch"),
        ("listener-21b0b5d", "lamp1"),
        ("listener-killed-21b0b5d", "lamp2"),
    ] {
        let directory = Directory::with(fixture, "member.redb");
        let store = MemberStore::open(&directory.0).unwrap();
        let membership = store.membership(&lights()).unwrap().unwrap();
        assert_eq!(membership.instance, 0, "{fixture}");
        let token = store.value("token").unwrap().unwrap();
        let token = Token::parse(std::str::from_utf8(&token).unwrap()).unwrap();
        assert_eq!(token.device, device);
        assert!(!store.is_replaced(&lights()).unwrap());
        assert_eq!(store.begin_start(&lights(), 7).unwrap().0, 1);
        assert_eq!(store.begin_start(&lights(), 7).unwrap().0, 2);
        assert_eq!(store.begin_start(&lights(), 8).unwrap().0, 1);
    }
}

#[test]
fn a_damaged_store_is_an_error_and_no_panic() {
    // The database panics on some damage, and the panic is caught.
    if let Err(reason) = skip::wine("panics that are caught in less than seconds") {
        return skip::test(reason);
    }
    let directory = Directory::with("listener-21b0b5d", "member.redb");
    let whole = bytes("listener-21b0b5d");
    let path = directory.0.join("member.redb");
    let (mut refused, mut opened) = (0, 0);
    for at in (0..whole.len()).step_by(1009).chain(0..320) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0xff;
        std::fs::write(&path, damaged).unwrap();
        match MemberStore::open(&directory.0).and_then(|store| store.membership(&lights())) {
            Ok(_) => opened += 1,
            Err(_) => refused += 1,
        }
    }
    for cut in [0, 1, 100, 4096, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let _ = MemberStore::open(&directory.0).and_then(|store| store.membership(&lights()));
    }
    assert!(refused > 10 && opened > 10, "{refused} refused, {opened} opened");
}
