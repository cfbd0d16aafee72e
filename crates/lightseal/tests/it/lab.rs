//! `lightseal lab` runs the program `lightseal-lab`.
#![cfg(unix)]

use crate::program;

use program::TempDir;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A program that prints its name and its arguments, each in brackets, and ends with exit code 7.
const SCRIPT: &str =
    "#!/bin/sh\nprintf '[%s]' \"$(basename \"$(dirname \"$0\")\")\" \"$@\"\nexit 7\n";

/// Makes the directory `name` with a `lightseal-lab` in it.
fn laboratory(dir: &TempDir, name: &str) -> String {
    let path = dir.path(name);
    std::fs::create_dir_all(&path).unwrap();
    let script = dir.file(&format!("{name}/script"), SCRIPT);
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o700)).unwrap();
    copy(script.as_ref(), &format!("{path}/lightseal-lab"));
    path
}

/// Copies a program in a process of its own: a child of a test beside this one would inherit the
/// open file of a copy made here, and a file that is open for writing cannot be executed.
fn copy(from: &Path, to: &str) {
    assert!(Command::new("cp").arg("-p").arg(from).arg(to).status().unwrap().success());
}

/// Runs a copy of `lightseal` in the directory `installed`, with a PATH that holds `elsewhere`.
fn run(dir: &TempDir, args: &[&str]) -> Output {
    let installed = dir.path("installed");
    std::fs::create_dir_all(&installed).unwrap();
    let program = format!("{installed}/lightseal");
    copy(env!("CARGO_BIN_EXE_lightseal").as_ref(), &program);
    let path = format!("{}:/usr/bin:/bin", dir.path("elsewhere"));
    let mut command = Command::new(program);
    command.args(args).env("PATH", path).stdin(Stdio::null()).output().unwrap()
}

/// Exit code and standard output.
fn ran(dir: &TempDir, args: &[&str]) -> (Option<i32>, String) {
    let output = run(dir, args);
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn the_laboratory_beside_the_command_goes_before_one_on_the_path() {
    let dir = TempDir::new();
    laboratory(&dir, "elsewhere");
    assert_eq!(ran(&dir, &["lab"]), (Some(7), "[elsewhere]".into()));
    laboratory(&dir, "installed");
    assert_eq!(ran(&dir, &["lab"]), (Some(7), "[installed]".into()));
}

#[test]
fn arguments_arrive_as_they_were_given() {
    let dir = TempDir::new();
    laboratory(&dir, "installed");
    for (args, expected) in [
        (&["lab", "--help"][..], "[installed][--help]"),
        (&["lab", "figure", "all", "--out", "a b"], "[installed][figure][all][--out][a b]"),
        (&["lab", "figure", "--help", "-v", "--", "-x"], "[installed][figure][--help][-v][--][-x]"),
        (&["lab", "-v", "speed"], "[installed][--verbose][speed]"),
        (&["-vv", "lab", "speed"], "[installed][--verbose][--verbose][speed]"),
        (&["--quiet", "lab", "speed"], "[installed][--quiet][speed]"),
        (&["lab", "run", "--config", "x"], "[installed][run][--config][x]"),
    ] {
        assert_eq!(ran(&dir, args), (Some(7), expected.into()), "{args:?}");
    }
}

#[test]
fn a_missing_laboratory_is_one_line_that_says_how_to_get_it() {
    let dir = TempDir::new();
    for args in [&["lab", "figure", "all"][..], &["lab"], &["lab", "--help"]] {
        let output = run(&dir, args);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), errors.lines().count()), (Some(2), 1), "{errors}");
        for part in ["lightseal: lab: ", "cargo install --path crates/lab", "-p lightseal-lab"] {
            assert!(errors.contains(part), "no {part:?} in {errors}");
        }
    }
}

#[test]
fn the_laboratory_writes_its_own_manual_page() {
    let dir = TempDir::new();
    let into = dir.path("man1");
    assert!(program::lightseal(&["man", &into]).status().unwrap().success());
    let page = std::fs::read_to_string(format!("{into}/lightseal.1")).unwrap();
    assert!(page.replace("\\-", "-").contains("lightseal-lab(1)"), "{page}");
    assert!(!std::fs::exists(format!("{into}/lightseal-lab.1")).unwrap());
}
