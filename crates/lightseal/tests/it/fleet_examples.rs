//! The examples in packaging/fleet, as far as the programs that they are for check them.
#![cfg(target_os = "linux")]

use crate::program::{TempDir, lightseal};
use std::path::Path;
use std::process::Command;
use testkit::namespace::{alone, ip};

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/fleet");

fn example(name: &str) -> String {
    std::fs::read_to_string(Path::new(EXAMPLES).join(name)).unwrap()
}

/// Runs a check of a program and expects that it finds no fault. Returns `false` if the program is not
/// there.
fn accepted(program: &str, words: &[&str]) -> bool {
    let Ok(output) = Command::new(program).args(words).output() else { return false };
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&said));
    true
}

#[test]
fn keepalived_takes_the_configuration() {
    alone(|| {
        ip("link add eth0 type veth peer name other");
        ip("link set eth0 up");
        let dir = TempDir::new();
        // The program need not be installed.
        let text =
            example("keepalived.conf").replace("/usr/bin/lightseal proxy status", "/bin/true");
        let file = dir.file("keepalived.conf", &text);
        if !accepted("keepalived", &["--config-test", "--use-file", &file]) {
            skip::test("this machine has no keepalived");
        }
    });
}

#[test]
fn systemd_takes_the_unit() {
    let dir = TempDir::new();
    let unit = example("lightseal-fleet-rules.service");
    // The program need not be installed, nor its manual page.
    let unit = unit.replace("/usr/bin/lightseal", env!("CARGO_BIN_EXE_lightseal"));
    let unit: String = unit
        .lines()
        .filter(|line| !line.starts_with("Documentation="))
        .fold(String::new(), |text, line| text + line + "\n");
    let file = dir.file("lightseal-fleet-rules.service", &unit);
    if !accepted("systemd-analyze", &["verify", "--man=no", &file]) {
        skip::test("this machine has no systemd-analyze");
    }
}

/// The configurations name settings that exist: what is missing is only the file of keys.
#[test]
fn the_program_takes_the_configurations() {
    let manifest = example("kubernetes.yaml");
    let of_pods = manifest.split("fleet.toml: |\n").nth(1).unwrap().split("---").next().unwrap();
    let of_pods: String =
        of_pods.lines().fold(String::new(), |text, line| text + line.trim() + "\n");
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/fleet.md");
    let page = std::fs::read_to_string(page).unwrap();
    let of_machines = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let of_machines: String =
        of_machines.lines().fold(String::new(), |text, line| text + line.trim() + "\n");
    let dir = TempDir::new();
    for (name, text) in [("pods.toml", of_pods), ("machines.toml", of_machines)] {
        assert!(text.starts_with("[proxy.server]"), "{text}");
        let file = dir.file(name, &text);
        let output = lightseal(&["proxy", "server", "--config", &file]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("keys.psk"), "{said}");
    }
}
