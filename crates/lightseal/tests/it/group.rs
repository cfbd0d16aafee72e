//! `lightseal group` over the loopback interface: a controller, its administration, and members.
#![cfg(unix)]

use crate::program;

use lightseal_group::GroupId;
use lightseal_group::numbers::Ledger;
use lightseal_group_host::store::MemberStore;
use program::{Running, TempDir, echo, eventually, fails, lightseal};
use serde_json::Value;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A controller's directory, and addresses that no other test uses.
pub(crate) struct Site {
    pub(crate) dir: TempDir,
    unique: u32,
}

impl Site {
    pub(crate) fn new() -> Self {
        static SITES: AtomicU32 = AtomicU32::new(0);
        // More than there are tests with a site, so that two that run at once never share one.
        const MOST: u32 = 64;
        let number = SITES.fetch_add(1, Ordering::Relaxed) % MOST;
        let unique = std::process::id().wrapping_mul(MOST).wrapping_add(number);
        Self { dir: TempDir::new(), unique }
    }

    pub(crate) fn address(&self, host: u8) -> String {
        format!("127.{}.{}.{host}", 16 + (self.unique >> 8) as u8 % 224, self.unique as u8)
    }

    pub(crate) fn controller(&self) -> String {
        format!("{}:5790", self.address(1))
    }

    pub(crate) fn group(&self) -> String {
        format!("239.254.{}.1:{}", self.unique as u8, 20_000 + self.unique % 10_000)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.dir.path(name)
    }

    /// The output of an administrator's command.
    pub(crate) fn admin(&self, words: &[&str]) -> String {
        let state = self.path("controller");
        let words = [&["group", "admin", "--state", &state], words].concat();
        let output = lightseal(&words).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn admin_json(&self, words: &[&str]) -> Value {
        let text = self.admin(&[words, &["--json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    pub(crate) fn create(&self, name: &str, address: &str) {
        self.admin(&["create", name, "--address", address, "--activation", "200ms"]);
    }

    /// Enrols a device, and returns the path of a file with its token.
    pub(crate) fn enrol(&self, device: &str, role: &str) -> String {
        let token = self.admin(&["enrol", device, role, "--controller", &self.controller()]);
        assert!(token.starts_with("lightseal-1."), "{token}");
        self.dir.file(&format!("{device}.token"), &token)
    }

    pub(crate) fn serve(&self, state: &str) -> Running {
        self.serve_with(state, &[])
    }

    pub(crate) fn serve_with(&self, state: &str, more: &[&str]) -> Running {
        let (state, listen) = (self.path(state), self.controller());
        let words = ["-v", "group", "controller", "--state", &state, "--listen", &listen];
        let mut controller = Running::start(&[&words[..], &["--interface", "lo"], more].concat());
        controller.wait_for("listening for devices on");
        controller
    }

    /// The command line of a member.
    pub(crate) fn member(&self, verb: &str, device: &str, host: u8, more: &[&str]) -> Vec<String> {
        let (state, token) = (self.path(device), self.path(&format!("{device}.token")));
        let address = self.address(host);
        let words = ["-v", "group", verb, "lights", "--state", &state, "--interface", "lo"];
        let words = [&words[..], &["--address", &address], more].concat();
        let mut words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        if Path::new(&token).exists() {
            words.extend(["--token".into(), token]);
        }
        words
    }

    /// The names of the members, and the epoch.
    pub(crate) fn roster(&self) -> (Vec<String>, u64) {
        let shown = self.admin_json(&["show", "lights"]);
        let roster = shown["roster"].as_array().unwrap();
        let name = |member: &Value| member["device"].as_str().unwrap().to_owned();
        let mut names: Vec<_> = roster.iter().map(name).collect();
        names.sort();
        (names, shown["epoch"].as_u64().unwrap())
    }
}

pub(crate) fn words(line: &[String]) -> Vec<&str> {
    line.iter().map(String::as_str).collect()
}

/// Asks until these are all answers to one question.
pub(crate) fn all_answer(application: &UdpSocket, member: &str, expected: &[&str]) {
    application.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    eventually(|| {
        let mut buf = [0; 100];
        // Late answers to the last question are discarded.
        application.set_nonblocking(true).unwrap();
        while application.recv(&mut buf).is_ok() {}
        application.set_nonblocking(false).unwrap();
        let _ = application.send_to(b"on", member);
        let mut answers = Vec::new();
        while let Ok(len) = application.recv(&mut buf) {
            answers.push(String::from_utf8(buf[..len].to_vec()).unwrap());
        }
        answers.sort();
        (answers == expected).then_some(())
    });
}

#[test]
fn a_group_lives_from_its_making_to_its_restoration() {
    if let Err(reason) = program::signals() {
        return skip::test(reason);
    }
    if let Err(reason) = skip::multicast() {
        return skip::test(reason);
    }
    let site = Site::new();
    // The group is created and the devices are enrolled while no controller runs.
    site.create("lights", &site.group());
    for (device, role) in [("switch", "--sender"), ("lamp1", "--listener"), ("lamp2", "--listener")]
    {
        site.enrol(device, role);
    }
    let store = std::fs::metadata(site.path("controller/controller.redb")).unwrap();
    assert_eq!(store.permissions().mode() & 0o777, 0o600);
    let mut controller = site.serve("controller");
    site.create("doors", "239.254.0.1:20000");
    let groups = site.admin_json(&["list"]);
    let name = |group: &Value| group["name"].as_str().unwrap().to_owned();
    let names: Vec<_> = groups.as_array().unwrap().iter().map(name).collect();
    assert_eq!(names, ["doors", "lights"]);
    assert_eq!(groups[1]["address"], site.group());
    assert!(site.admin(&["list"]).contains("lights"));

    let line = site.member("listen", "lamp1", 11, &["--reply", "yes"]);
    let mut lamp1 = Running::start_quietly(&words(&line));
    let service = echo().to_string();
    let relay = site.member("join", "lamp2", 12, &["--service", &service]);
    let mut lamp2 = Running::start(&words(&relay));
    lamp2.wait_for("requests are answered by");
    eventually(|| (site.roster().0 == ["lamp1", "lamp2"]).then_some(()));

    let more = ["--count", "2", "--wait", "25s", "--json", "hello"];
    let output = lightseal(&words(&site.member("send", "switch", 10, &more))).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let mut answers: Vec<_> = text
        .lines()
        .map(|line| {
            let answer: Value = serde_json::from_str(line).unwrap();
            ["name", "text"].map(|key| answer[key].as_str().unwrap().to_owned()).join(": ")
        })
        .collect();
    answers.sort();
    assert_eq!(answers, ["lamp1: yes", "lamp2: hellohello"]);
    assert!(lamp1.wait_for("hello").starts_with("sender "));

    let line = site.member("join", "switch", 10, &["--listen", "127.0.0.1:0"]);
    let mut switch = Running::start(&words(&line));
    let line = switch.wait_for("applications send to");
    let port = line.rsplit(' ').next().unwrap().to_owned();
    let application = UdpSocket::bind("127.0.0.1:0").unwrap();
    all_answer(&application, &port, &["onon", "yes"]);

    let (names, epoch) = site.roster();
    assert_eq!(names, ["lamp1", "lamp2", "switch"]);
    site.admin(&["rekey", "lights"]);
    assert_eq!(site.roster().1, epoch + 1);
    all_answer(&application, &port, &["onon", "yes"]);

    site.admin(&["evict", "lights", "lamp2"]);
    lamp2.wait_for("evicted from the group");
    assert_eq!(site.roster().0, ["lamp1", "switch"]);
    all_answer(&application, &port, &["yes"]);
    lamp2.signal("TERM");
    assert_eq!(lamp2.wait(), Some(0));
    let mut lamp2 = Running::start(&words(&relay));
    lamp2.wait_for("the controller refuses");
    assert_eq!(lamp2.wait(), Some(2));
    site.admin(&["readmit", "lights", "lamp2"]);
    let mut lamp2 = Running::start(&words(&relay));
    lamp2.wait_for("requests are answered by");
    all_answer(&application, &port, &["onon", "yes"]);
    // A member that keeps running comes back by itself.
    site.admin(&["evict", "lights", "lamp2"]);
    lamp2.wait_for("waiting to be readmitted");
    site.admin(&["readmit", "lights", "lamp2"]);
    lamp2.wait_for("requests are answered by");
    all_answer(&application, &port, &["onon", "yes"]);

    // What happened after the copy was made is forgotten, but the members remain.
    let copy = site.path("copy");
    site.admin(&["backup", &copy]);
    site.enrol("later", "--listener");
    controller.signal("TERM");
    assert_eq!(controller.wait(), Some(0));
    std::fs::rename(site.path("controller"), site.path("lost")).unwrap();
    site.admin(&["restore", &copy]);
    let _controller = site.serve("controller");
    let devices = site.admin_json(&["devices"]);
    assert!(devices.as_array().unwrap().iter().all(|device| device["device"] != "later"));
    assert_eq!(site.roster().0, ["lamp1", "lamp2", "switch"]);
    all_answer(&application, &port, &["onon", "yes"]);

    site.admin(&["revoke", "lamp1"]);
    assert_eq!(site.roster().0, ["lamp2", "switch"]);
    all_answer(&application, &port, &["onon"]);
    switch.signal("TERM");
    assert_eq!(switch.wait(), Some(0));
    let left = lightseal(&["group", "leave", "lights", "--state", &site.path("switch")]).status();
    assert!(left.unwrap().success());
    assert_eq!(site.roster().0, ["lamp2"]);
    site.admin(&["remove", "doors"]);
    assert_eq!(site.admin_json(&["list"]).as_array().unwrap().len(), 1);
}

/// A backup from before a device's first join does not know the key that the device has got since.
#[test]
fn a_device_comes_back_by_its_token_after_an_old_backup_is_restored() {
    if let Err(reason) = program::signals() {
        return skip::test(reason);
    }
    if let Err(reason) = skip::multicast() {
        return skip::test(reason);
    }
    let site = Site::new();
    site.create("lights", &site.group());
    for (device, role) in [("switch", "--sender"), ("lamp", "--listener")] {
        site.enrol(device, role);
    }
    let copy = site.path("copy");
    site.admin(&["backup", &copy]);
    let mut controller = site.serve("controller");
    let service = echo().to_string();
    let mut lamp =
        Running::start(&words(&site.member("join", "lamp", 11, &["--service", &service])));
    lamp.wait_for("requests are answered by");
    let line = site.member("join", "switch", 10, &["--listen", "127.0.0.1:0"]);
    let mut switch = Running::start(&words(&line));
    let port = switch.wait_for("applications send to").rsplit(' ').next().unwrap().to_owned();
    let application = UdpSocket::bind("127.0.0.1:0").unwrap();
    all_answer(&application, &port, &["onon"]);

    controller.signal("TERM");
    assert_eq!(controller.wait(), Some(0));
    std::fs::rename(site.path("controller"), site.path("lost")).unwrap();
    site.admin(&["restore", &copy]);
    let _controller = site.serve("controller");
    assert_eq!(site.roster().0, [""; 0]);
    // Each of them asks its controller sooner or later: a new run does at once.
    for member in [lamp, switch] {
        drop(member);
    }
    let mut lamp =
        Running::start(&words(&site.member("join", "lamp", 11, &["--service", &service])));
    lamp.wait_for("The device asks for another key with its token");
    lamp.wait_for("requests are answered by");
    let mut switch = Running::start(&words(&line));
    let port = switch.wait_for("applications send to").rsplit(' ').next().unwrap().to_owned();
    eventually(|| (site.roster().0 == ["lamp", "switch"]).then_some(()));
    all_answer(&application, &port, &["onon"]);
}

fn hex(digits: &[u8]) -> u8 {
    u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap()
}

#[test]
fn a_listener_that_was_killed_hears_again_also_if_its_controller_is_killed_then() {
    if let Err(reason) = skip::multicast() {
        return skip::test(reason);
    }
    let site = Site::new();
    let group = site.group();
    site.admin(&[
        "create",
        "lights",
        "--address",
        &group,
        "--batch",
        "1s",
        "--activation",
        "200ms",
    ]);
    for (device, role) in [("switch", "--sender"), ("lamp", "--listener")] {
        site.enrol(device, role);
    }
    let controller = site.serve("controller");
    let line = site.member("join", "switch", 10, &["--listen", "127.0.0.1:0"]);
    let mut switch = Running::start(&words(&line));
    let port = switch.wait_for("applications send to").rsplit(' ').next().unwrap().to_owned();
    let line = site.member("listen", "lamp", 11, &["--reply", "yes"]);
    let lamp = Running::start(&words(&line));
    let application = UdpSocket::bind("127.0.0.1:0").unwrap();
    all_answer(&application, &port, &["yes"]);

    // This is as if it had been killed after writing down that it is in the next epoch, and before
    // writing that epoch's keys. It asks for another epoch than the one before, and must ask again.
    drop(lamp);
    site.admin(&["rekey", "lights"]);
    let shown = site.admin_json(&["show", "lights"]);
    let id: Vec<u8> = shown["id"].as_str().unwrap().as_bytes().chunks(2).map(hex).collect();
    let store = MemberStore::open(Path::new(&site.path("lamp"))).unwrap();
    let (group, epoch) = (GroupId(id.try_into().unwrap()), shown["epoch"].as_u64().unwrap());
    store.numbers().reserve(&group, epoch, 1024).unwrap();
    drop(store);
    let lamp = Running::start(&words(&line));
    all_answer(&application, &port, &["yes"]);

    drop(lamp);
    let mut lamp = Running::start(&words(&line));
    lamp.wait_for("listening to");
    // The member asks within this time. Its controller would begin the next epoch some seconds
    // later.
    std::thread::sleep(Duration::from_millis(500));
    drop(controller);
    let _controller = site.serve("controller");
    all_answer(&application, &port, &["yes"]);
}

#[test]
fn of_two_devices_with_one_token_or_one_state_one_goes_on_and_all_are_told() {
    let site = Site::new();
    site.create("lights", &site.group());
    site.enrol("switch", "--sender");
    let controller = site.controller();
    // The token has two uses, without which its copy would not work.
    let out = site.path("lamp.token");
    let enrol = ["enrol", "lamp", "--listener", "--controller", &controller, "--uses", "2"];
    assert_eq!(site.admin(&[&enrol[..], &["--out", &out]].concat()), "");
    assert_eq!(std::fs::metadata(&out).unwrap().permissions().mode() & 0o777, 0o600);
    let mut serving = site.serve("controller");

    let mut first = Running::start(&words(&site.member("listen", "lamp", 11, &["--reply", "a"])));
    first.wait_for("listening to");
    let copy = |state: &str| {
        let mut line = site.member("listen", "lamp", 12, &["--reply", "b"]);
        let at = line.iter().position(|word| word == "--state").unwrap() + 1;
        line[at] = site.path(state);
        line
    };
    // A join within a minute after the first one has to wait, unless an administrator allows it.
    site.admin(&["readmit", "lights", "lamp"]);
    let mut second = Running::start(&words(&copy("lamp-copy")));
    second.wait_for("listening to");
    first.wait_for("has taken the place of this one");
    assert_eq!(first.wait(), Some(2));
    serving.wait_for("there is a copy of device \"lamp\"");
    // It does not come back by itself, and a third device finds that the token is used up.
    fails(&words(&site.member("listen", "lamp", 11, &[]))[1..], &["has taken the place"]);
    fails(&words(&copy("lamp-third"))[1..], &["the token is used up"]);
    let shown = site.admin_json(&["show", "lights"]);
    assert_eq!(shown["roster"][0]["clones"], 1);

    // A copy of a running device's state looks like a restart. Then the first device ends.
    std::fs::create_dir(site.path("lamp-state")).unwrap();
    let from = site.path("lamp-copy/member.redb");
    std::fs::copy(from, site.path("lamp-state/member.redb")).unwrap();
    let mut third = Running::start(&words(&copy("lamp-state")));
    third.wait_for("listening to");
    second.wait_for("has taken the place of this one");
    assert_eq!(second.wait(), Some(2));
    let more = ["--count", "1", "--wait", "25s", "on"];
    let output = lightseal(&words(&site.member("send", "switch", 10, &more))).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let log = site.admin(&["log"]);
    for event in ["enrolled", "token used", "joined", "copy refused", "token refused", "rekey"] {
        assert!(log.contains(event), "{event}: {log}");
    }
}

/// A request that is sent once after a crash reaches members that crashed at the same time.
#[test]
fn a_request_that_is_sent_once_after_all_crashed_is_answered_by_all() {
    if let Err(reason) = skip::multicast() {
        return skip::test(reason);
    }
    let site = Site::new();
    // The epochs have their default timing.
    site.admin(&["create", "lights", "--address", &site.group()]);
    for (device, role) in [("switch", "--sender"), ("lamp1", "--listener"), ("lamp2", "--listener")]
    {
        site.enrol(device, role);
    }
    let controller = site.serve("controller");
    let start = || {
        [("lamp1", 11), ("lamp2", 12)].map(|(lamp, host)| {
            let mut running =
                Running::start(&words(&site.member("listen", lamp, host, &["--reply", "yes"])));
            running.wait_for("listening to");
            running
        })
    };
    let lamps = start();
    let send = |wait: &str| {
        let more = ["--count", "2", "--wait", wait, "hello"];
        let output = lightseal(&words(&site.member("send", "switch", 10, &more))).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, errors) = send("25s");
    assert_eq!(code, Some(0), "{errors}");
    // The switch is killed while it waits for an answer that does not come, and all others are
    // killed too.
    let line = site.member("join", "switch", 10, &["--listen", "127.0.0.1:0"]);
    let mut switch = Running::start(&words(&line));
    switch.wait_for("applications send to");
    drop((switch, lamps, controller));
    let _controller = site.serve("controller");
    let _lamps = start();
    let (code, errors) = send("2s");
    assert_eq!(code, Some(0), "{errors}");
}

#[test]
fn mistakes_of_an_administrator_end_with_one_line() {
    if let Err(reason) = program::signals() {
        return skip::test(reason);
    }
    let site = Site::new();
    let state = site.path("controller");
    let fail = |words: &[&str], expected: &[&str]| {
        fails(&[&["group", "admin", "--state", &state], words].concat(), expected);
    };
    fail(&["list"], &["holds no controller"]);
    fail(&["evict", "lights", "lamp"], &["no controller runs with the state directory"]);
    let enrol = ["enrol", "lamp", "--listener", "--controller", "127.0.0.1:9"];
    fail(&enrol, &["--state", "holds no controller"]);
    assert!(!Path::new(&state).exists(), "only `create` makes a controller");
    let group = site.group();
    fail(&["create", "lights", "--address", "10.0.0.1:5"], &["not a multicast address"]);
    let create = ["create", "lights", "--address", &group];
    fail(&[&create[..], &["--profile", "best"]].concat(), &["profile", "compact"]);
    fail(&[&create[..], &["--suite", "rot13"]].concat(), &["ccm-8"]);
    fail(&["create", "lights", "--address", "239.0.0.1"], &["--address"]);
    fail(&[&create[..2], &["--address", &group, "--batch", "soon"]].concat(), &["--batch"]);
    site.create("lights", &group);
    fail(&create, &["\"lights\" already exists"]);
    fail(&["show", "doors"], &["there is no group \"doors\""]);
    fail(&["readmit", "lights", "nobody"], &["there is no device \"nobody\""]);
    fail(&["enrol", "lamp", "--controller", "x:1"], &["--sender|--listener"]);
    fail(&[&enrol[..], &["--group", "doors"]].concat(), &["there is no group \"doors\""]);
    site.admin(&enrol);
    fail(&enrol, &["\"lamp\" already exists"]);
    fail(&["restore", &site.path("nothing")], &["controller.redb"]);
    let _controller = site.serve("controller");
    fail(&["evict", "lights", "nobody"], &["\"nobody\" is not a member of group \"lights\""]);
    fail(&["revoke", "nobody"], &["there is no device \"nobody\""]);
    fail(&["rekey", "doors"], &["there is no group \"doors\""]);
    let copy = site.path("copy");
    site.admin(&["backup", &copy]);
    fail(&["backup", &copy], &["controller.redb"]);
    let serve = ["group", "controller", "--state", &state, "--listen", "127.0.0.1:0"];
    fails(&[&serve[..], &["--interface", "lo"]].concat(), &["another process has it open"]);
    let unusable = ["--interface", "nowhere0", "--credential", "key:/nowhere/key"];
    fails(&[&serve[..], &unusable].concat(), &["/nowhere/key"]);
    let mut waiting = Running::start(&[&serve[..], &["--interface", "nowhere0"]].concat());
    waiting.wait_for("--interface nowhere0: ");
    waiting.signal("TERM");
    assert_eq!(waiting.wait(), Some(0));
}

#[test]
fn mistakes_of_a_member_end_with_one_line() {
    let site = Site::new();
    site.create("lights", &site.group());
    let token = site.enrol("lamp", "--listener");
    let mistyped =
        std::fs::read_to_string(&token).unwrap().replace("lightseal-1.", "lightseal-1.x");
    let mistyped = site.dir.file("mistyped.token", &mistyped);
    let state = site.path("lamp");
    let base = |group| ["group", "listen", group, "--state", &state].to_vec();
    let fail = |group, more: &[&str], expected: &[&str]| {
        fails(&[&base(group)[..], more].concat(), expected);
    };
    // A missing interface is waited for, but not by a command that does one thing and ends.
    let waiting = site.path("waiting");
    let nowhere = ["--interface", "nowhere0", "--token", &token, "--state", &waiting];
    let line = [&["group", "listen", "lights"][..], &nowhere].concat();
    Running::start(&line).wait_for("--interface nowhere0: ");
    let line = [&["group", "send", "lights", "hello"][..], &nowhere].concat();
    fails(&line, &["--interface nowhere0"]);
    fail("lights", &["--interface", "lo"], &["not enrolled"]);
    fail("lights", &["--interface", "lo", "--token", &mistyped], &["not a token, or mistyped"]);
    let missing = site.path("no.token");
    fail("lights", &["--interface", "lo", "--token", &missing], &["no.token"]);
    fail("", &["--interface", "lo", "--token", &token], &["1 to 64 bytes"]);

    let _controller = site.serve("controller");
    fail("doors", &["--interface", "lo", "--token", &token], &["doors", "no such group"]);
    let other = site.enrol("other", "--listener");
    fail("lights", &["--interface", "lo", "--token", &other], &["\"lamp\"", "another token"]);
    let send = ["group", "send", "lights", "--state", &state, "--interface", "lo", "hello"];
    fails(&send, &["refuses"]);
    let join = ["group", "join", "lights", "--state", &state, "--interface", "lo"];
    fails(&join, &["--listen"]);
    let wrong = [&join[..], &["--service", "127.0.0.1:x"]].concat();
    fails(&wrong, &["--service"]);
    let mut lamp = Running::start(&words(&site.member("listen", "lamp", 11, &[])));
    lamp.wait_for("listening to");
    fail("lights", &["--interface", "lo"], &["another process has it open"]);
}

#[test]
fn a_member_whose_controller_is_not_there_says_so() {
    let site = Site::new();
    site.create("lights", &site.group());
    let token = site.enrol("lamp", "--listener");
    let state = site.path("lamp");
    let line = ["group", "listen", "lights", "--state", &state, "--interface", "lo"];
    let controller = site.controller();
    let mut lamp = Running::start(&[&line[..], &["--token", &token]].concat());
    lamp.wait_for(&format!("waits for controller {controller}"));
    lamp.wait_for("does not answer");
    assert_eq!(lamp.wait(), Some(2));
}
