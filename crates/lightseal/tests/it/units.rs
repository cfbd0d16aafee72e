//! The systemd units: systemd's own checks of them, and whether what they start becomes ready.
#![cfg(target_os = "linux")]

use crate::group::Site;
use crate::program;
use crate::services::Manager;

use program::{KEY, Running, TempDir, echo, lightseal};
use std::path::{Path, PathBuf};
use std::process::Command;

const UNITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/systemd");
const PROGRAM: &str = "/usr/bin/lightseal";

/// The greatest exposure that `systemd-analyze security` may find, in tenths. A gateway needs packet
/// sockets and the right to load programs into its interface.
fn most_exposure(unit: &str) -> u32 {
    if unit.contains("gateway") { 25 } else { 15 }
}

fn units() -> Vec<PathBuf> {
    let files = std::fs::read_dir(UNITS).unwrap().map(|entry| entry.unwrap().path());
    let mut units: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|is| is == "service")).collect();
    units.sort();
    assert_eq!(units.len(), 5, "{units:?}");
    units
}

/// The words of the command that a unit starts, for the instance `plant`. Paths in /etc lead into
/// `dir`.
fn started(unit: &str, dir: &TempDir, flags: &str) -> Vec<String> {
    let text = std::fs::read_to_string(Path::new(UNITS).join(unit)).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let etc = dir.path("");
    let line = line.replace("/etc/lightseal", etc.trim_end_matches('/'));
    let line = line.replace("%i", "plant").replace("${STATE_DIRECTORY}", &dir.path("state"));
    let line = line.replace("$FLAGS", flags);
    let mut words = line.split_whitespace().map(str::to_owned);
    assert_eq!(words.next().as_deref(), Some(PROGRAM));
    words.collect()
}

#[test]
fn systemd_finds_no_fault_in_the_units_and_little_exposure() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        return skip::test("this machine has no systemd-analyze");
    }
    let dir = TempDir::new();
    for unit in units() {
        let name = unit.file_name().unwrap().to_str().unwrap();
        let text = std::fs::read_to_string(&unit).unwrap();
        // The program need not be installed.
        let text = text.replace(PROGRAM, env!("CARGO_BIN_EXE_lightseal"));
        let copy = dir.file(name, &text);
        let run = |words: &[&str]| {
            let output = Command::new("systemd-analyze").args(words).arg(&copy).output().unwrap();
            let said = [&output.stdout[..], &output.stderr[..]].concat();
            (output.status.success(), String::from_utf8_lossy(&said).into_owned())
        };
        let (passed, said) = run(&["verify", "--man=no"]);
        assert!(passed && !said.contains(name), "{name}: {said}");
        let threshold = format!("--threshold={}", most_exposure(name));
        let words = ["security", "--offline=true", "--no-pager", &threshold];
        let (passed, said) = run(&words);
        if said.contains("unrecognized option") {
            skip::part(name, "this systemd-analyze cannot look at units of no running system");
            continue;
        }
        assert!(passed, "{name}: {said}");
    }
}

/// What is written of each unit's manual page exists.
#[test]
fn the_units_name_manual_pages_that_the_program_writes() {
    let dir = TempDir::new();
    let pages = dir.path("pages");
    std::fs::create_dir(&pages).unwrap();
    let written = lightseal(&["man", &pages]).output().unwrap();
    assert!(written.status.success(), "{written:?}");
    for unit in units() {
        let text = std::fs::read_to_string(&unit).unwrap();
        let page = text.lines().find_map(|line| line.strip_prefix("Documentation=man:")).unwrap();
        let page = page.replace("(1)", ".1");
        assert!(Path::new(&pages).join(&page).exists(), "{page} of {unit:?}");
    }
}

#[test]
fn the_proxies_of_the_units_become_ready() {
    let manager = Manager::new();
    let dir = &manager.dir;
    let keys = dir.file("keys.psk", &format!("sensor-7:{KEY}\n"));
    let configuration = |side: &str, connect: &str| {
        let text = format!(
            "[proxy.{side}]\nlisten = \"127.0.0.1:0\"\nconnect = \"{connect}\"\npsk-file = {keys:?}\n\
             metrics = \"127.0.0.1:0\"\n"
        );
        dir.file("plant.toml", &text);
    };
    let run = |side: &str| -> (Running, String) {
        let words = started(&format!("lightseal-proxy-{side}@.service"), dir, "");
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let mut proxy = manager.start(&words, &[]);
        manager.hears("READY=1");
        let line = proxy.wait_for("carrying");
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        let message = line["message"].as_str().unwrap().to_owned();
        (proxy, message.split_whitespace().nth(1).unwrap().to_owned())
    };
    configuration("server", &echo().to_string());
    let (_server, address) = run("server");
    configuration("client", &address);
    let (mut client, _) = run("client");
    client.signal("TERM");
    manager.hears("STOPPING=1");
    assert_eq!(client.wait(), Some(0));
}

#[test]
fn the_controller_and_the_member_of_the_units_become_ready() {
    let manager = Manager::new();
    let site = Site::new();
    let start = |unit: &str, flags: &str| {
        let mut words = started(unit, &manager.dir, flags);
        // Both commands of this test use one directory for their state otherwise.
        let state = words.iter().position(|word| word == "--state").unwrap() + 1;
        words[state] = site.path(if unit.contains("member") { "lamp-1" } else { "controller" });
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let service = manager.start(&words, &[]);
        manager.hears("READY=1");
        service
    };
    let flags = format!("--listen {} --interface lo", site.controller());
    let _controller = start("lightseal-group-controller.service", &flags);
    site.create("plant", &site.group());
    let token = site.enrol("lamp-1", "--sender");
    let flags = format!(
        "--interface lo --address {} --listen 127.0.0.1:0 --token {token}",
        site.address(2)
    );
    let mut member = start("lightseal-group-member@.service", &flags);
    assert!(manager.hears("STATUS=").contains("a member of group plant"));
    member.signal("TERM");
    manager.hears("STOPPING=1");
    assert_eq!(member.wait(), Some(0));
}
