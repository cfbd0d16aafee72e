//! The dissectors of tools/wireshark in tshark, with every form of record and with noise.

use lightseal_lab::capture::samples::{self, Sample, tshark};
use std::fs;
use std::path::{Path, PathBuf};

/// The directory of the plugins.
fn plugins() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/wireshark")
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).expect("the directory can be made");
    folder
}

/// Whether tshark is installed. Without it the test is skipped.
fn is_here() -> bool {
    let version = tshark::version();
    if let Err(error) = &version {
        skip::test(format_args!("no tshark ({error})"));
    }
    version.is_ok()
}

fn all() -> Vec<Sample> {
    samples::all().expect("the engine takes its own suites")
}

#[test]
fn every_form_shows_what_the_engine_wrote() {
    if !is_here() {
        return;
    }
    let mut records = 0;
    for sample in all() {
        let found = tshark::dissect(&sample, &folder("samples"), &plugins()).expect("tshark");
        assert_eq!((found.wrong, found.lua_errors), (0, 0), "{}: {found:#?}", sample.name);
        assert_eq!(found.records, found.expected);
        records += found.records;
    }
    assert!(records > 300, "{records}");
}

#[test]
fn no_bytes_make_a_dissector_fail() {
    if !is_here() {
        return;
    }
    let all = all();
    for (seed, sample) in all.iter().enumerate().step_by(4) {
        let noise = tshark::noise(&all, sample, seed as u64, 1000);
        let found = tshark::dissect(&noise, &folder("noise"), &plugins()).expect("tshark");
        assert!(found.records > 500, "{}: {found:?}", sample.name);
        assert_eq!(found.lua_errors, 0, "{}", sample.name);
    }
}

/// A wrong preference, a wrong byte and a broken plugin are detected, so the tests above are able
/// to fail.
#[test]
fn what_is_wrong_is_found() {
    if !is_here() {
        return;
    }
    let folder = folder("wrong");
    let sample = all().remove(0);
    let mut other = sample.clone();
    other.preferences.push("lsgroup.axiom_suite:0xc0a4".into());
    let found = tshark::dissect(&other, &folder, &plugins()).expect("tshark");
    assert_eq!(found.wrong, found.records, "tags of another length");

    let mut other = sample.clone();
    // Another SenderID, which also changes the nonce.
    other.datagrams[0].payload[5] ^= 1;
    let found = tshark::dissect(&other, &folder, &plugins()).expect("tshark");
    assert_eq!(found.wrong, 1, "{found:?}");
    assert!(found.failures[0].contains("lsgroup.nonce_mismatch"), "{found:?}");

    let plugin = format!("{}.lua", sample.dissector);
    let text = fs::read_to_string(plugins().join(&plugin)).expect("a plugin");
    let broken = text.replace("local function body(", "local function body_of(");
    assert_ne!(text, broken);
    fs::write(folder.join(&plugin), broken).expect("the plugin can be written");
    let found = tshark::dissect(&sample, &folder, &folder).expect("tshark");
    assert!(found.lua_errors > 0, "{found:?}");
}
