//! `lightseal group` with raw public keys and certificates, as processes over loopback.

use crate::group::{Site, all_answer, words};
use crate::program::{Running, eventually, fails, keygen, lightseal};
use serde_json::Value;
use std::net::UdpSocket;

/// A site whose controller has a raw key and trusts an authority.
struct Certified {
    site: Site,
    /// `spki:` and the hash of the controller's key.
    pin: String,
}

impl Certified {
    fn new() -> Self {
        let site = Site::new();
        keygen(&["ca", &site.path("root"), "--subject", "CN=Example Root"]);
        let pin = keygen(&["key", &site.path("controller.key")]);
        site.create("lights", &site.group());
        Self { site, pin }
    }

    fn serve(&self) -> Running {
        let own = format!("key:{}", self.site.path("controller.key"));
        let root = self.site.path("root.pem");
        self.site.serve_with("controller", &["--credential", &own, "--ca", &root])
    }

    /// A raw key, as `--credential` takes it, and its identity.
    fn raw(&self, name: &str) -> (String, String) {
        let path = self.site.path(name);
        let identity = keygen(&["key", &path]);
        (format!("key:{path}"), identity)
    }

    /// A certificate for a device with this name, as `--credential` takes it, and the identity that
    /// it proves.
    fn certificate(&self, file: &str, name: &str, more: &[&str]) -> (String, String) {
        let (path, root) = (self.site.path(file), self.site.path("root"));
        let line = ["certificate", &path, "--ca", &root, "--for", "client", "--name", name];
        keygen(&[&line[..], more].concat());
        (format!("cert:{path}.pem,key:{path}.key"), format!("subject:{name}"))
    }

    fn enrol(&self, device: &str, role: &str, identity: &str) {
        assert_eq!(self.site.admin(&["enrol", device, role, "--identity", identity]), "");
    }

    /// The command line of a member with this credential.
    fn member(
        &self,
        verb: &str,
        device: &str,
        host: u8,
        credential: &str,
        more: &[&str],
    ) -> Vec<String> {
        let controller = self.site.controller();
        let flags = ["--credential", credential, "--pin", &self.pin, "--controller", &controller];
        let mut line = self.site.member(verb, device, host, &[&flags[..], more].concat());
        if let Some(at) = line.iter().position(|word| word == "--token") {
            line.drain(at..at + 2);
        }
        line
    }

    fn listen(&self, device: &str, host: u8, credential: &str) -> Running {
        let line = self.member("listen", device, host, credential, &["--reply", device]);
        let mut listener = Running::start(&words(&line));
        listener.wait_for("listening to");
        listener
    }

    /// Sends a request until these are the answers.
    fn switch(&self) -> (Running, UdpSocket, String) {
        let line = self.site.member("join", "switch", 10, &["--listen", "127.0.0.1:0"]);
        let mut switch = Running::start(&words(&line));
        let port = switch.wait_for("applications send to").rsplit(' ').next().unwrap().to_owned();
        (switch, UdpSocket::bind("127.0.0.1:0").unwrap(), port)
    }

    /// The group's member with this name, in JSON.
    fn entry(&self, device: &str) -> Value {
        let shown = self.site.admin_json(&["show", "lights"]);
        let roster = shown["roster"].as_array().unwrap();
        roster.iter().find(|member| member["device"] == device).unwrap().clone()
    }

    fn credentials(&self, device: &str) -> Vec<String> {
        let devices = self.site.admin_json(&["devices"]);
        let devices = devices.as_array().unwrap();
        let device = devices.iter().find(|known| known["device"] == device).unwrap();
        serde_json::from_value(device["credentials"].clone()).unwrap()
    }
}

#[test]
fn members_with_tokens_raw_keys_and_certificates_are_one_group() {
    if let Err(reason) = skip::multicast() {
        return skip::test(reason);
    }
    let certified = Certified::new();
    let (raw, of_raw) = certified.raw("lamp1.key");
    let (certificate, of_certificate) = certified.certificate("lamp2", "lamp-2.example", &[]);
    certified.site.enrol("switch", "--sender");
    certified.enrol("lamp1", "--listener", &of_raw);
    certified.enrol("lamp2", "--listener", &of_certificate);
    let mut controller = certified.serve();
    let mut lamp1 = certified.listen("lamp1", 11, &raw);
    controller.wait_for(&format!("device \"lamp1\", {of_raw}"));
    let _lamp2 = certified.listen("lamp2", 12, &certificate);
    controller.wait_for("device \"lamp2\", subject:lamp-2.example");
    let (_switch, application, port) = certified.switch();
    all_answer(&application, &port, &["lamp1", "lamp2"]);
    assert_eq!(certified.credentials("switch"), ["psk:switch"]);
    assert_eq!(certified.credentials("lamp1"), [&*of_raw]);
    assert!(certified.site.admin(&["devices"]).contains("subject:lamp-2.example"));
    let log = certified.site.admin(&["log", "--device", "lamp1"]);
    assert!(log.contains(&of_raw), "{log}");

    // The first join has stored where the controller is.
    lamp1.signal("TERM");
    assert_eq!(lamp1.wait(), Some(0));
    let line = certified.member("leave", "lamp1", 11, &raw, &[]);
    let at = line.iter().position(|word| word == "--controller").unwrap();
    let line: Vec<&str> = words(&line)
        .into_iter()
        .enumerate()
        .filter(|(nth, _)| ![at, at + 1].contains(nth))
        .map(|(_, word)| word)
        .collect();
    let at = line.iter().position(|word| *word == "--address").unwrap();
    assert!(lightseal(&[&line[..at], &line[at + 2..]].concat()[1..]).status().unwrap().success());
    all_answer(&application, &port, &["lamp2"]);

    // Another controller than the pinned one gets no request.
    let other = format!("spki:{}", "5a".repeat(32));
    let line = certified.member("listen", "lamp1", 11, &raw, &[]);
    let line: Vec<&str> =
        line.iter().map(|word| if *word == certified.pin { &*other } else { word }).collect();
    fails(&line[1..], &["the peer's public key is not among the accepted ones"]);
}

/// A token is replaced by a raw key while an association lives that was made with it.
#[test]
fn a_replaced_credential_is_refused_and_its_device_keeps_its_membership() {
    if let Err(reason) = skip::multicast() {
        return skip::test(reason);
    }
    let certified = Certified::new();
    certified.site.enrol("switch", "--sender");
    certified.site.enrol("lamp", "--listener");
    let mut controller = certified.serve();
    let (_switch, application, port) = certified.switch();
    let by_token = certified.site.member("listen", "lamp", 11, &["--reply", "lamp"]);
    let mut lamp = Running::start(&words(&by_token));
    lamp.wait_for("listening to");
    controller.wait_for("device \"lamp\", psk:lamp");
    all_answer(&application, &port, &["lamp"]);
    let (before, (_, epoch)) = (certified.entry("lamp"), certified.site.roster());

    let (raw, identity) = certified.raw("lamp.key");
    certified.site.admin(&["replace-credential", "lamp", &identity]);
    // Its association has ended, and it is a member with its keys.
    controller.wait_for("device \"lamp\": closed");
    assert_eq!(certified.credentials("lamp"), [&*identity]);
    assert_eq!((certified.entry("lamp"), certified.site.roster().1), (before.clone(), epoch));
    all_answer(&application, &port, &["lamp"]);

    // With its new credential it goes on where it was: no new epoch, and its place in the group.
    lamp.signal("TERM");
    assert_eq!(lamp.wait(), Some(0));
    let mut lamp = certified.listen("lamp", 11, &raw);
    controller.wait_for(&format!("device \"lamp\", {identity}"));
    all_answer(&application, &port, &["lamp"]);
    assert_eq!((certified.entry("lamp"), certified.site.roster().1), (before.clone(), epoch));

    // The controller knows neither its token nor the key that it got for it.
    lamp.signal("TERM");
    assert_eq!(lamp.wait(), Some(0));
    let mut lamp = Running::start(&words(&by_token));
    lamp.wait_for("it does not accept this device's key: the key was removed");
    lamp.signal("TERM");
    lamp.wait();
    let mut lamp = certified.listen("lamp", 11, &raw);
    all_answer(&application, &port, &["lamp"]);

    // The next one is a certificate, added before the raw key is removed.
    let (certificate, subject) = certified.certificate("second", "lamp.example", &[]);
    certified.site.admin(&["add-credential", "lamp", &subject]);
    assert_eq!(certified.credentials("lamp"), [&*identity, &*subject]);
    all_answer(&application, &port, &["lamp"]);
    lamp.signal("TERM");
    assert_eq!(lamp.wait(), Some(0));
    let mut lamp = certified.listen("lamp", 11, &certificate);
    all_answer(&application, &port, &["lamp"]);
    certified.site.admin(&["remove-credential", "lamp", &identity]);
    fails(
        &[
            "group",
            "admin",
            "--state",
            &certified.site.path("controller"),
            "remove-credential",
            "lamp",
            &identity,
        ],
        &["device \"lamp\" has no credential with the identity spki:"],
    );
    lamp.signal("TERM");
    assert_eq!(lamp.wait(), Some(0));
    let line = certified.member("listen", "lamp", 11, &raw, &["--reply", "lamp"]);
    let mut lamp = Running::start(&words(&line));
    lamp.wait_for("it does not accept this device's credential");
    controller.wait_for(&format!("refused: {identity} belongs to no device"));
    lamp.signal("TERM");
    lamp.wait();

    // A new token replaces the certificate: the device gets a key for it before it tells its start.
    let controller_at = certified.site.controller();
    let token = certified.site.admin(&["new-token", "lamp", "--controller", &controller_at]);
    certified.site.dir.file("lamp.token", &token);
    let mut lamp = Running::start(&words(&by_token));
    lamp.wait_for("listening to");
    all_answer(&application, &port, &["lamp"]);
    assert_eq!(certified.credentials("lamp"), ["psk:lamp"]);
    let after = certified.entry("lamp");
    for key in ["listener_id", "sender_id", "address", "clones"] {
        assert_eq!(after[key], before[key], "{key}");
    }
    let log = certified.site.admin(&["log", "--device", "lamp"]);
    let events: Vec<&str> = [
        "enrolled",
        "token used",
        "joined",
        "credential replaced",
        "credential added",
        "credential removed",
        "credential replaced",
    ]
    .into();
    let mut rest = &*log;
    for event in events {
        rest = rest.split_once(event).unwrap_or_else(|| panic!("{event}: {log}")).1;
    }
    assert_eq!(log.matches("joined").count(), 1, "{log}");
}

#[test]
fn a_certificate_that_still_verifies_does_not_outlive_its_device() {
    if let Err(reason) = skip::multicast() {
        return skip::test(reason);
    }
    let certified = Certified::new();
    let (certificate, subject) = certified.certificate("lamp", "lamp.example", &[]);
    certified.enrol("lamp", "--listener", &subject);
    certified.site.enrol("switch", "--sender");
    let mut controller = certified.serve();
    let mut lamp = certified.listen("lamp", 11, &certificate);
    controller.wait_for("device \"lamp\", subject:lamp.example");
    certified.site.admin(&["revoke", "lamp"]);
    controller.wait_for("device \"lamp\": closed");
    lamp.signal("TERM");
    assert_eq!(lamp.wait(), Some(0));
    let line = certified.member("listen", "lamp", 11, &certificate, &[]);
    let mut lamp = Running::start(&words(&line));
    lamp.wait_for("it does not accept this device's credential");
    drop(lamp);
    let line = certified.member("listen", "lamp-again", 11, &certificate, &[]);
    fails(&words(&line)[1..], &["it does not accept this device's credential"]);
    let said = controller.wait_for("refused: subject:lamp.example with spki:");
    assert!(said.contains("belongs to no device"), "{said}");
    assert_eq!(certified.site.roster().0, [""; 0]);

    // The identity is free: another device gets it.
    certified.enrol("lamp2", "--listener", &subject);
    let _lamp2 = certified.listen("lamp2", 12, &certificate);
    eventually(|| (certified.site.roster().0 == ["lamp2"]).then_some(()));
}

#[test]
fn an_identity_belongs_to_one_device() {
    let certified = Certified::new();
    let (raw, of_raw) = certified.raw("lamp1.key");
    let (certificate, subject) = certified.certificate("lamp2", "lamp-2.example", &[]);
    certified.enrol("lamp1", "--listener", &of_raw);
    certified.enrol("lamp2", "--listener", &subject);
    certified.site.enrol("lamp3", "--listener");
    let state = certified.site.path("controller");
    let admin = ["group", "admin", "--state", &state];
    let refused = |line: &[&str], expected: &str| fails(&[&admin[..], line].concat(), &[expected]);
    let taken = "subject:lamp-2.example is an identity of device \"lamp2\"";
    let enrol = ["enrol", "lamp4", "--listener", "--identity", &subject];
    // Also while no controller runs.
    refused(&enrol, taken);
    let mut controller = certified.serve();
    refused(&enrol, taken);
    refused(&["add-credential", "lamp1", &subject], taken);
    refused(&["replace-credential", "lamp1", &subject], taken);
    let taken = "psk:lamp3 is an identity of device \"lamp3\"";
    refused(&["add-credential", "lamp1", "psk:lamp3"], taken);
    refused(&["add-credential", "lamp3", "psk:lamp3"], taken);
    refused(&["add-credential", "lamp9", "psk:x"], "there is no device \"lamp9\"");
    refused(&["add-credential", "lamp1", "lamp-1"], "an identity is psk:");
    refused(&["enrol", "lamp4", "--listener"], "--controller");
    assert_eq!(certified.credentials("lamp1"), [&*of_raw]);

    // A certificate with the name of one device and the key of another is neither.
    let key = certified.site.path("lamp1.key");
    let (both, _) = certified.certificate("both", "lamp-2.example", &["--key", &key]);
    let both = both.replace(&certified.site.path("both.key"), &key);
    let line = certified.member("listen", "both", 11, &both, &[]);
    fails(&words(&line)[1..], &["it does not accept this device's credential"]);
    let said = controller.wait_for("refused: subject:lamp-2.example with spki:");
    assert!(said.contains("belongs to several devices"), "{said}");
    let _ = (raw, certificate);
}

/// The kind of credential counts, not the name in it alone.
#[test]
fn a_device_is_not_known_by_the_other_kind_of_credential() {
    if let Err(reason) = skip::multicast() {
        return skip::test(reason);
    }
    let certified = Certified::new();
    let (raw, of_raw) = certified.raw("lamp1.key");
    let (_, subject) = certified.certificate("lamp2", "lamp-2.example", &[]);
    certified.enrol("lamp1", "--listener", &of_raw);
    certified.enrol("lamp2", "--listener", &subject);
    certified.site.enrol("lamp3", "--listener");
    let _controller = certified.serve();
    let refused = |credential: &str| {
        let line = certified.member("listen", "any", 11, credential, &[]);
        fails(&words(&line)[1..], &["it does not accept this device's credential"]);
    };
    // The key of lamp2's certificate alone, and certificates with the names of devices.
    refused(&format!("key:{}.key", certified.site.path("lamp2")));
    refused(&certified.certificate("three", "lamp3", &[]).0);
    refused(&certified.certificate("one", "lamp1", &[]).0);
    // A certificate of another authority.
    let (root, own) = (certified.site.path("foreign"), certified.site.path("forged"));
    keygen(&["ca", &root, "--subject", "CN=Foreign Root"]);
    keygen(&["certificate", &own, "--ca", &root, "--for", "client", "--name", "lamp-2.example"]);
    refused(&format!("cert:{own}.pem,key:{own}.key"));
    // The key of lamp1 in a certificate that verifies is the key of lamp1.
    let key = certified.site.path("lamp1.key");
    let (certificate, _) = certified.certificate("any", "any.example", &["--key", &key]);
    let certificate = certificate.replace(&certified.site.path("any.key"), &key);
    let _lamp1 = certified.listen("lamp1", 11, &certificate);
    eventually(|| (certified.site.roster().0 == ["lamp1"]).then_some(()));
    let _ = raw;
}

#[test]
fn a_controller_reads_its_files_again_and_goes_on_with_the_old_ones_if_they_break() {
    if let Err(reason) = skip::multicast() {
        return skip::test(reason);
    }
    let certified = Certified::new();
    let (certificate, subject) = certified.certificate("lamp", "lamp.example", &[]);
    certified.enrol("lamp", "--listener", &subject);
    let mut controller = certified.serve();
    let root = certified.site.path("root.pem");
    let good = std::fs::read_to_string(&root).unwrap();
    std::fs::write(&root, "-----BEGIN CERTIFICATE-----\nbroken\n").unwrap();
    controller.wait_for("going on with what was read before");
    let lamp = certified.listen("lamp", 11, &certificate);
    controller.wait_for("device \"lamp\", subject:lamp.example");
    // Another authority takes the place of the first one: the association ends.
    let other = certified.site.path("other");
    keygen(&["ca", &other, "--subject", "CN=Other Root"]);
    std::fs::copy(format!("{other}.pem"), &root).unwrap();
    controller.wait_for("the trusted authorities and keys again; 1 association ended");
    drop(lamp);
    let line = certified.member("listen", "lamp-again", 12, &certificate, &[]);
    fails(&words(&line)[1..], &["it does not accept this device's credential"]);
    std::fs::write(&root, good).unwrap();
    controller.wait_for("the trusted authorities and keys again");
    let lamp = certified.listen("lamp", 11, &certificate);
    drop(lamp);

    // A file that is broken at the start is an error in one line, and so are contradictions.
    let own = format!("key:{}", certified.site.path("controller.key"));
    let state = certified.site.path("other-controller");
    let start =
        ["group", "controller", "--state", &state, "--listen", "127.0.0.1:0", "--interface", "lo"];
    let wrong = |flags: &[&str], expected: &str| {
        fails(&[&start[..], flags].concat(), &[expected]);
    };
    wrong(&["--ca", &root], "--ca and --pin need a --credential");
    wrong(&["--credential", &own, "--ca", &own[4..]], &own[4..]);
    wrong(&["--credential", "key:/does/not/exist"], "/does/not/exist");
}

#[test]
fn a_controller_with_a_certificate_is_known_by_its_name() {
    if let Err(reason) = skip::multicast() {
        return skip::test(reason);
    }
    let certified = Certified::new();
    let (raw, of_raw) = certified.raw("lamp.key");
    certified.enrol("lamp", "--listener", &of_raw);
    let (path, root) = (certified.site.path("server"), certified.site.path("root"));
    let name = "controller.example";
    keygen(&["certificate", &path, "--ca", &root, "--for", "server", "--name", name]);
    let own = format!("cert:{path}.pem,key:{path}.key");
    let mut controller = certified.site.serve_with("controller", &["--credential", &own]);
    let (root, at) = (format!("{root}.pem"), certified.site.controller());
    let flags = ["--credential", &raw, "--ca", &root, "--controller", &at];
    // Without a name it is the host in --controller, an address that is not in the certificate.
    let line = certified.site.member("listen", "lamp", 11, &flags);
    fails(&words(&line)[1..], &["the peer's certificate is for another name"]);
    let line =
        certified.site.member("listen", "lamp", 11, &[&flags[..], &["--name", name]].concat());
    let mut lamp = Running::start(&words(&line));
    lamp.wait_for("listening to");
    controller.wait_for(&format!("device \"lamp\", {of_raw}"));
}

/// A key of a file of pre-shared keys, with an access list beside.
#[test]
fn a_key_of_a_file_and_an_access_list_work_with_groups_too() {
    if let Err(reason) = skip::multicast() {
        return skip::test(reason);
    }
    let certified = Certified::new();
    let keys = certified.site.dir.file("keys.psk", "sensor-7:000102030405060708090a0b0c0d0e0f\n");
    let list = certified.site.dir.file("list", "psk:sensor-7\npsk:switch\n");
    certified.enrol("lamp", "--listener", "psk:sensor-7");
    certified.site.enrol("switch", "--sender");
    certified.site.enrol("other", "--listener");
    let psks = format!("psk:{keys}");
    let flags = ["--credential", &psks, "--allow", &list];
    let mut controller = certified.site.serve_with("controller", &flags);
    let controller_at = certified.site.controller();
    let flags = ["--credential", &psks, "--controller", &controller_at, "--reply", "lamp"];
    let line = certified.site.member("listen", "lamp", 11, &flags);
    let mut lamp = Running::start(&words(&line));
    lamp.wait_for("listening to");
    controller.wait_for("device \"lamp\", psk:sensor-7");
    let (_switch, application, port) = certified.switch();
    all_answer(&application, &port, &["lamp"]);
    let line = certified.site.member("listen", "other", 12, &[]);
    fails(&words(&line)[1..], &["it does not accept this device's key: the key was removed"]);
    // The list changes, and with it who may connect.
    std::fs::write(&list, "psk:switch\npsk:other\n").unwrap();
    controller.wait_for("it remains a member of lights");
    controller.wait_for("device \"lamp\": closed");
    let said = controller.wait_for("an access list of 2 identities again");
    assert!(said.contains("1 association ended"), "{said}");
    let mut other = Running::start(&words(&line));
    other.wait_for("listening to");
}
