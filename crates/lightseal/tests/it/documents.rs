//! Runs the blocks of the pages that readers see first. `cargo xtask documents` runs those of all
//! pages.
#![cfg(target_os = "linux")]

use documents::run::{Settings, missing, page};
use std::path::{Path, PathBuf};

fn settings() -> Settings {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let program = PathBuf::from(env!("CARGO_BIN_EXE_lightseal"));
    Settings { root, program, xtask: None, quick: true, list: false }
}

/// Runs the blocks of a page, or only of the session whose block shows `command`.
fn runs(name: &str, command: Option<&str>) {
    if let Some(reason) = missing() {
        return skip::test(reason);
    }
    let settings = settings();
    let text = std::fs::read_to_string(settings.root.join(name)).unwrap();
    let line = command.map(|command| {
        let blocks = documents::markdown::blocks(&text).unwrap();
        let shows = |line: &String| line.starts_with(command);
        blocks.iter().find(|block| block.text.iter().any(shows)).expect("the page shows it").line
    });
    let outcomes = page(&settings, Path::new(name), line).unwrap();
    assert!(outcomes.iter().any(|outcome| outcome.ran > 0));
    for outcome in outcomes {
        assert_eq!(outcome.failure, None, "{}", outcome.block);
        for (command, why) in outcome.left_out {
            if why.starts_with("this machine has no") {
                let first = command.lines().next().unwrap_or_default();
                skip::part(format!("{}: {first}", outcome.block), why);
            }
        }
    }
}

#[test]
fn the_first_gateway_of_its_guide() {
    runs("docs/gateway.md", Some("lightseal gateway check"));
}

#[test]
fn proxies() {
    runs("docs/proxy.md", None);
}

#[test]
fn certificates() {
    runs("docs/certificates.md", None);
}

#[test]
fn a_handshake_by_hand() {
    runs("docs/s_client.md", None);
}

#[test]
fn lightmac() {
    runs("docs/lightmac.md", None);
}

#[test]
fn samples_for_wireshark() {
    // A test of the whole workspace builds the program. A test of this package alone does not.
    if let Some(reason) = settings().missing_laboratory() {
        return skip::test(reason);
    }
    runs("docs/wireshark.md", None);
}
