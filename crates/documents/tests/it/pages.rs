//! Runs pages that are made for these tests.

use documents::run::{Outcome, Settings, missing, page};
use std::fs;
use std::path::{Path, PathBuf};

/// A repository with one page. Dropping it removes the repository.
struct Repository(PathBuf);

impl Drop for Repository {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs `text`. Returns `None` if this machine cannot run pages.
fn run(text: &str, settings: impl FnOnce(&mut Settings)) -> Option<Vec<Outcome>> {
    if let Some(reason) = missing() {
        skip::test(reason);
        return None;
    }
    let name = format!("documents-{}-{}", std::process::id(), skip::own_name());
    let repository = Repository(std::env::temp_dir().join(name));
    fs::create_dir(&repository.0).unwrap();
    fs::write(repository.0.join("page.md"), text).unwrap();
    let root = repository.0.clone();
    let program = PathBuf::from("/bin/echo");
    let mut with = Settings { root, program, xtask: None, quick: false, list: false };
    settings(&mut with);
    Some(page(&with, Path::new("page.md"), None).unwrap())
}

fn failures(outcomes: &[Outcome]) -> Vec<String> {
    let first = |failure: &String| failure.lines().next().unwrap_or_default().to_owned();
    outcomes.iter().map(|outcome| outcome.failure.as_ref().map(first).unwrap_or_default()).collect()
}

#[test]
fn blocks_share_folder_variables_and_what_stays() {
    let page = "<!-- given: echo one > given -->\n```sh\nword=$(cat given)\nmkdir below && cd below\n```\n\
                <!-- file: made/by.page -->\n```toml\na = 1\n```\n\
                ```sh\n[ $word = one ] && grep -q 'a = 1' made/by.page\n\
                { echo ready; sleep 100; } > log &\ngrep ready log\nlightseal said so\n```\n\
                <!-- output -->\n```text\nsaid so\n```\n\
                <!-- anew -->\n```console\n$ ls\nbin boot\n```\n";
    let Some(outcomes) = run(page, |_| ()) else { return };
    assert_eq!(outcomes.iter().map(|outcome| outcome.ran).collect::<Vec<_>>(), [2, 4, 1]);
    let shown = "printed no line like \"bin boot\", which the page shows";
    assert_eq!(failures(&outcomes), ["", "", shown]);
}

#[test]
fn a_failure_is_told_and_what_follows_is_not_reached() {
    let page = "```sh\ntrue\n```\n```sh\necho why\nfalse\ntrue\n```\n```sh\ntrue\n```\n";
    let Some(outcomes) = run(page, |_| ()) else { return };
    let expected =
        ["", "`false` ended with exit code 1", "not reached, since the block at line 4 failed"];
    assert_eq!(failures(&outcomes), expected);
}

#[test]
fn hosts_reach_each_other_and_nothing_else() {
    let page = "<!-- network: a eth0=192.0.2.1/24; b eth0=192.0.2.2/24 eth1 -->\n\
                ```sh\nip -o addr show dev eth0 | grep 192.0.2.1\n! ip link show eth1\n```\n\
                <!-- host: b -->\n```sh\nip route get 192.0.2.1\nip link show eth1\n\
                ! ip route get 198.51.100.1\n```\n";
    let Some(outcomes) = run(page, |_| ()) else { return };
    assert_eq!(failures(&outcomes), ["", ""]);
}

#[test]
fn what_is_left_out_has_its_reason_and_the_test_command_is_refused() {
    let page = "<!-- not run \"radio\": there is none -->\n<!-- slow \"sleep\": it sleeps -->\n\
                <!-- needs no-such-program \"no-such\" -->\n\
                ```sh\nradio\nsleep 1000\nno-such-program\ncargo xtask claim\ntrue\n```\n";
    let Some(outcomes) = run(page, |settings| settings.quick = true) else { return };
    let reasons: Vec<_> = outcomes[0].left_out.iter().map(|(_, why)| why.as_str()).collect();
    let expected = [
        "there is none",
        "slow: it sleeps",
        "this machine has no no-such-program",
        "maintenance is not part of this run",
    ];
    assert_eq!((outcomes[0].ran, reasons), (1, expected.to_vec()));

    let page = "```sh\ntrue && cargo xtask test\n```\n";
    let Some(outcomes) = run(page, |settings| settings.xtask = Some("/bin/true".into())) else {
        return;
    };
    assert_eq!(failures(&outcomes), ["`true && cargo xtask test` ended with exit code 97"]);
}
