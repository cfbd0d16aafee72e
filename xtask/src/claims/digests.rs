//! Claims on the lab's results on other processors, which are emulated: they have the same bytes there as
//! on this machine.

use super::lab::{contents, directory};
use super::prelude::*;
use crate::process::{command, run_silently};
use crate::processors;
use crate::wine;
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn claims() -> Vec<Claim> {
    let emulated = |target: &'static str| {
        let processor = target.split('-').next().unwrap_or(target);
        claim(processor, target, move || processors::lab(target))
    };
    vec![
        emulated("s390x-unknown-linux-gnu"),
        emulated("aarch64-unknown-linux-gnu"),
        claim("windows", "x86_64-pc-windows-gnu", wine::lab),
        "Merged files of the lab with other bytes than the whole sweep: half of the work was done on \
            s390x, a big-endian processor that is emulated, the other half on this one, and each merges \
            both. Points are shared, or the runs of each. Bar: our own target"
            .claim("digest-shards", Exactly(0.0), Seconds(60))
            .by(|| shards("s390x-unknown-linux-gnu")),
    ]
}

fn claim(
    short: &str,
    target: &'static str,
    program: impl Fn() -> Result<Vec<String>, Failure> + Send + Sync + 'static,
) -> Claim {
    format!(
        "Files of the lab with other bytes on {target}, in an emulator or Wine, than on this machine: a \
         sweep, runs with their captures, and figures of the four papers whose figures the lab makes. \
         Bar: our own target"
    )
    .claim(format!("digest-{short}"), Exactly(0.0), Seconds(240))
    .by(move || {
        let own = vec![LAB.built()?.to_string_lossy().into_owned()];
        let [ours, theirs] = [written("own", &own)?, written(target, &program()?)?];
        let names: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
        let different = |name: &&String| ours.get(*name) != theirs.get(*name);
        let different: Vec<&String> = names.into_iter().filter(different).collect();
        let detail = format!(
            "{} files, SHA-256 of all {} here and {} there; different: {different:?}\n",
            ours.len(),
            digest(&ours),
            digest(&theirs),
        );
        Ok(Measured { figure: different.len() as f64, detail })
    })
}

/// What the lab is asked for, besides where to write. Together these runs call every mathematical
/// function that the lab uses.
const RUNS: [&str; 4] = [
    "figure lightmac-figure-1 aggregation-figure-6a aggregation-figure-10b group-overhead \
     group-figure-10 duty-figure-2a duty-table-1 duty-engset duty-streams --runs 2 --messages 500 --out",
    "run crates/lab/scenarios/lossy.toml --runs 5 --log --pcap --out",
    "run crates/lab/scenarios/beacon.toml --runs 5 --log --pcap --out",
    "run crates/lab/scenarios/tsch.toml --runs 5 --log --pcap --out",
];

/// The files that a program of the lab writes, which `line` runs.
fn written(name: &str, line: &[String]) -> Result<BTreeMap<String, Vec<u8>>, Failure> {
    let out = directory(&format!("digest-{name}"))?;
    let to = out.to_string_lossy();
    RUNS.iter().try_for_each(|words| call(line, &format!("{words} {to}")))?;
    call(line, &format!("{SWEEP} --out {to}/sweep.csv"))?;
    let files = contents(&out)?;
    let _ = std::fs::remove_dir_all(&out);
    if files.is_empty() {
        return Err(Failure::Failed("no files were written".into()));
    }
    Ok(files)
}

const SWEEP: &str = "sweep crates/lab/scenarios/sweep.toml --runs 5";

/// Runs a program of the lab, which `line` runs, with these arguments.
fn call(line: &[String], words: &str) -> Result<(), Failure> {
    let (program, before) =
        line.split_first().ok_or_else(|| Failure::Failed("no program".into()))?;
    let words = before.iter().map(String::as_str).chain(words.split_whitespace());
    run_silently(command(program, &words.collect::<Vec<_>>())).map_err(Failure::Failed)
}

fn shards(target: &str) -> Result<Measured, Failure> {
    let ours = vec![LAB.built()?.to_string_lossy().into_owned()];
    let theirs = processors::lab(target)?;
    let out = directory("digest-shards")?;
    let to = out.to_string_lossy();
    for split in ["points", "runs"] {
        let sweep = format!("{SWEEP} --split {split}");
        call(&ours, &format!("{SWEEP} --out {to}/{split}-whole"))?;
        call(&ours, &format!("{sweep} --shard 1/2 --out {to}/{split}-1"))?;
        call(&theirs, &format!("{sweep} --shard 2/2 --out {to}/{split}-2"))?;
        for (line, by) in [(&ours, "us"), (&theirs, "them")] {
            call(line, &format!("merge {to}/{split}-1 {to}/{split}-2 --out {to}/{split}-by-{by}"))?;
        }
    }
    let files = contents(&out)?;
    let (mut figure, mut detail) = (0.0, String::new());
    for split in ["points", "runs"] {
        let whole = &files[&format!("{split}-whole")];
        for by in ["us", "them"] {
            let is_whole = files[&format!("{split}-by-{by}")] == *whole;
            figure += f64::from(u8::from(!is_whole));
            detail +=
                &format!("{split}, merged by {by}: {} bytes, equal: {is_whole}\n", whole.len());
        }
    }
    Ok(Measured { figure, detail })
}

/// SHA-256 of all files with their names, in hexadecimal.
fn digest(files: &BTreeMap<String, Vec<u8>>) -> String {
    let mut all = Sha256::new();
    for (name, bytes) in files {
        all.update(format!("{name} {}\n", bytes.len()));
        all.update(bytes);
    }
    all.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
