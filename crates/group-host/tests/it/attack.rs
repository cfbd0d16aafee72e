//! Attacks on a controller's registry, with its real store.

use lightseal_core::{Decode, Encode, Instant, Random, Writer};
use lightseal_group::control::{
    Answer, AnswerMessage, GroupName, Reason, Request, RequestMessage, RoleSet,
};
use lightseal_group::controller::Output;
use lightseal_group::{GroupId, Identity, Start};
use lightseal_group_host::service::{CreateRequest, Described, Enrol, Registry};
use lightseal_group_host::store::ControllerStore;
use std::path::PathBuf;
use std::time::Duration;

const LISTENER: RoleSet = RoleSet { sender: false, listener: true };

/// A controller's directory, which is deleted when the test ends.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn registry(&self, now: Instant) -> Registry {
        let store = ControllerStore::open(&self.0).unwrap();
        Registry::open(store, now, Random::insecure(1)).unwrap()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A registry with a group and an attacking device.
struct Site {
    directory: Directory,
    registry: Option<Registry>,
    now: Instant,
    number: u32,
    /// The start with which mallory joined.
    start: Start,
}

impl Site {
    fn new(name: &str) -> Self {
        Self::with(name, "compact")
    }

    fn with(name: &str, profile: &str) -> Self {
        let (directory, now) = (Directory::new(name), Instant::from_micros(5_000_000));
        let registry = Some(directory.registry(now));
        let mut site = Self {
            directory,
            registry,
            now,
            number: 0,
            start: Start { instance: 0, counter: 0, nonce: [0; 8] },
        };
        let create = CreateRequest {
            name: "lights".into(),
            address: "[ff15::1]:5684".parse().unwrap(),
            profile: profile.into(),
            suite: None,
            authenticity: "group".into(),
            responses: "group".into(),
            freshness: "new-epoch".into(),
            batch_ms: 200,
            activation_ms: 2000,
            retention_s: 10,
            renewal_s: 86400,
            most_members: 1000,
        };
        site.registry().create(now, &create).unwrap();
        let enrol = Enrol {
            device: "mallory".into(),
            sender: false,
            listener: true,
            groups: Vec::new(),
            identities: Vec::new(),
            controller: Some("localhost:1".into()),
            uses: None,
            expires_s: None,
        };
        site.registry().enrol(&enrol).unwrap();
        site
    }

    fn registry(&mut self) -> &mut Registry {
        self.registry.as_mut().unwrap()
    }

    fn say(&mut self, said: Request) {
        self.number += 1;
        let mut buf = [0; 700];
        let mut w = Writer::new(&mut buf);
        let asked = match said {
            Request::Join { .. } => RequestMessage::new(self.number, said),
            said => RequestMessage::by(self.start, self.number, said),
        };
        asked.write(&mut w).unwrap();
        let request = w.finish().to_vec();
        let now = self.now;
        self.registry().handle(now, "mallory", &request);
    }

    fn join(&mut self, nonce: u8) {
        let keys = Identity::generate(&mut Random::insecure(3)).public();
        let (name, address) = (GroupName::new("lights").unwrap(), "::1".parse().unwrap());
        self.say(Request::Join { nonce: [nonce; 8], name, roles: LISTENER, address, keys });
    }

    fn answers(&mut self) -> Vec<Answer> {
        let polled = std::iter::from_fn(|| self.registry().poll());
        let answers = polled.filter_map(|(_, output)| match output {
            Output::Answer { answer, .. } => Some(AnswerMessage::decode(&answer).unwrap().answer),
            _ => None,
        });
        answers.collect()
    }

    /// Advances the time by two hours, after which no request waits any more.
    fn wait(&mut self) {
        let end = self.now + Duration::from_secs(7200);
        while let Some(at) = self.registry().wake_at().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            let now = self.now;
            self.registry().handle_timeout(now);
        }
        self.now = end;
    }

    fn roster(&mut self) -> Vec<String> {
        let described = self.registry().show("lights").unwrap();
        described.roster.unwrap().into_iter().map(|member| member.device).collect()
    }

    /// Lets mallory join the group.
    fn admit(&mut self, nonce: u8) -> GroupId {
        self.join(nonce);
        self.wait();
        match &self.answers()[..] {
            [Answer::Admitted(admitted)] => {
                self.start = Start { instance: admitted.instance, counter: 0, nonce: [nonce; 8] };
                admitted.policy.group
            }
            other => panic!("{other:?}"),
        }
    }

    fn restart(&mut self) {
        drop(self.registry.take());
        self.registry = Some(self.directory.registry(self.now));
    }
}

/// A device that wants to escape its eviction alternately leaves and joins: half of the time it is
/// not a member and has a join that waits for its batch.
#[test]
fn a_join_that_waits_is_refused_when_its_device_is_evicted_or_revoked() {
    let mut given = 0;
    for revoked in [false, true] {
        let mut site = Site::new(if revoked { "waiting-revoked" } else { "waiting-evicted" });
        let group = site.admit(1);
        site.say(Request::Leave(group));
        site.wait();
        assert!(matches!(site.answers()[..], [Answer::Noted]));
        assert!(site.roster().is_empty());

        site.join(2);
        let now = site.now;
        if revoked {
            site.registry().revoke(now, "mallory").unwrap();
        } else {
            site.registry().evict(now, "lights", "mallory").unwrap();
        }
        let refused = site.answers();
        assert!(matches!(refused[..], [Answer::Refused(Reason::NotAMember)]), "{refused:?}");
        site.wait();
        given += site.answers().len() + site.roster().len();
        site.restart();
        given += site.roster().len();
        site.join(3);
        site.wait();
        let refused = site.answers();
        let reason = if revoked { Reason::NoSuchGroup } else { Reason::Evicted };
        assert!(matches!(refused[..], [Answer::Refused(is)] if is == reason), "{refused:?}");
    }
    if let Ok(path) = std::env::var("LIGHTSEAL_REPORT") {
        std::fs::write(path, format!("{{\"keys\": {given}}}")).unwrap();
    }
    assert_eq!(given, 0, "answers with keys or a new membership");
}

/// A thief with a device's old credential asks to join, or to leave, in the device's name, and the
/// credential is replaced before that is carried out.
#[test]
fn a_request_that_waits_does_not_outlive_its_credential() {
    for leaves in [false, true] {
        for replaced in [false, true] {
            let mut site = Site::new(&format!("credential-{leaves}-{replaced}"));
            let group = site.admit(1);
            let before = site.registry().show("lights").unwrap();
            site.wait();
            if leaves {
                site.say(Request::Leave(group));
            } else {
                site.join(2);
            }
            if replaced {
                let identity = "subject:mallory.example".parse().unwrap();
                site.registry().replace_credential("mallory", &identity).unwrap();
            }
            site.wait();
            let (answers, after) = (site.answers(), site.registry().show("lights").unwrap());
            assert_eq!(answers.is_empty(), replaced, "{leaves}: {answers:?}");
            let place = |group: &Described| {
                let roster = group.roster.as_ref().unwrap();
                roster.first().map(|member| (member.device.clone(), member.listener_id))
            };
            assert_eq!(place(&before) == place(&after), replaced, "{leaves}: {after:?}");
        }
    }
}

/// In `axiom-1.2` members are identified by their addresses, and no two members may have the same
/// one.
#[test]
fn a_device_cannot_take_the_address_of_another() {
    for (profile, from, trusts, admitted) in [
        ("axiom-1.2", "fd00::7", false, true),
        ("axiom-1.2", "fd00::8", false, false),
        ("axiom-1.2", "fd00::8", true, true),
        ("axiom-1.2", "::1", false, true),
        ("compact", "fd00::8", false, true),
    ] {
        let mut site = Site::with("addresses", profile);
        if trusts {
            site.registry().trust_addresses();
        }
        let keys = Identity::generate(&mut Random::insecure(3)).public();
        let (name, address) = (GroupName::new("lights").unwrap(), "fd00::7".parse().unwrap());
        let said = Request::Join { nonce: [1; 8], name, roles: LISTENER, address, keys };
        let mut buf = [0; 700];
        let mut w = Writer::new(&mut buf);
        RequestMessage::new(1, said).write(&mut w).unwrap();
        let request = w.finish().to_vec();
        let now = site.now;
        site.registry().handle_from(now, "mallory", from.parse().unwrap(), &request);
        site.wait();
        let answers = site.answers();
        match answers[..] {
            [Answer::Admitted(_)] => assert!(admitted, "{profile} {from} {trusts}"),
            [Answer::Refused(Reason::AddressTaken)] => {
                assert!(!admitted, "{profile} {from} {trusts}");
            }
            _ => panic!("{answers:?}"),
        }
    }
}

/// The machine stopped after the device was barred or removed, and before it was evicted from its
/// groups.
#[test]
fn members_that_may_not_be_any_are_evicted_at_the_next_start() {
    let mut site = Site::new("forbidden");
    site.admit(1);
    let epoch = site.registry().show("lights").unwrap().epoch;
    drop(site.registry.take());
    let store = ControllerStore::open(&site.directory.0).unwrap();
    let (name, device) = store.devices().unwrap().remove(0);
    store.remove_device(&name, &device).unwrap();
    drop(store);
    site.registry = Some(site.directory.registry(site.now));
    assert!(site.roster().is_empty());
    assert_eq!(site.registry().show("lights").unwrap().epoch, epoch + 1);
    site.restart();
    assert!(site.roster().is_empty());
}
