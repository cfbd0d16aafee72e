//! The lab's commands: scenario files give the same bytes however they are run, and the report is
//! made in time.

use crate::claim::{Bar, Claim, Measured, Unmeasured};
use crate::claims::run_text;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        name: "lab-threads",
        about: "files of all example scenarios that differ between 1 and 2 threads",
        bar: Bar::AtMost(0.0),
        seconds: 30,
        measure: threads,
    },
    Claim {
        name: "lab-shards",
        about: "bytes by which a grid in three shards, merged, differs from the whole",
        bar: Bar::AtMost(0.0),
        seconds: 30,
        measure: shards,
    },
    Claim {
        name: "lab-report",
        about: "minutes for the whole report, every figure of the registry with default options",
        bar: Bar::AtMost(15.0),
        seconds: 600,
        measure: report,
    },
];

const SCENARIOS: &str = "crates/lab/scenarios";

/// The one of them that is a grid.
const GRID: &str = "sweep.toml";

/// An empty directory of this name among the build's files.
fn directory(name: &str) -> Result<PathBuf, Unmeasured> {
    let broken = |error: std::io::Error| Unmeasured::Broken(format!("{name}: {error}"));
    let path = Path::new("target/claims").join(name);
    if path.exists() {
        std::fs::remove_dir_all(&path).map_err(broken)?;
    }
    std::fs::create_dir_all(&path).map_err(broken)?;
    Ok(path)
}

fn lab(arguments: &[&str]) -> Result<String, Unmeasured> {
    run_text("lightseal", "lightseal", &[&["lab"], arguments].concat())
}

/// Every file of a directory, by name.
fn contents(of: &Path) -> Result<BTreeMap<String, Vec<u8>>, Unmeasured> {
    let broken = |error: std::io::Error| Unmeasured::Broken(format!("{}: {error}", of.display()));
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(of).map_err(broken)? {
        let path = entry.map_err(broken)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        files.insert(name, std::fs::read(&path).map_err(broken)?);
    }
    Ok(files)
}

fn threads() -> Result<Measured, Unmeasured> {
    let mut written = Vec::new();
    for threads in ["1", "2"] {
        let out = directory(&format!("threads-{threads}"))?;
        let to = out.to_string_lossy();
        for scenario in contents(Path::new(SCENARIOS))?.keys().filter(|name| *name != GRID) {
            let file = format!("{SCENARIOS}/{scenario}");
            let arguments = ["run", &file, "--runs", "40", "--out", &to, "--threads", threads];
            lab(&[&arguments[..], &["--log", "--pcap"]].concat())?;
        }
        written.push(contents(&out)?);
    }
    let names: Vec<&String> = written.iter().flat_map(BTreeMap::keys).collect();
    let differ = |name: &&&String| written[0].get(**name) != written[1].get(**name);
    let different: Vec<&&String> = names.iter().filter(differ).collect();
    let detail = format!("{} files each; different: {different:?}\n", written[0].len());
    if written[0].is_empty() {
        return Err(Unmeasured::Broken("no files were written".into()));
    }
    Ok(Measured { figure: different.len() as f64, detail })
}

fn shards() -> Result<Measured, Unmeasured> {
    let out = directory("shards")?;
    let at = |name: &str| out.join(name).to_string_lossy().into_owned();
    let grid = format!("{SCENARIOS}/{GRID}");
    lab(&["sweep", &grid, "--out", &at("whole.csv")])?;
    let mut merge = vec!["merge".to_owned()];
    for shard in 1..=3 {
        let part = at(&format!("part-{shard}.csv"));
        lab(&["sweep", &grid, "--shard", &format!("{shard}/3"), "--out", &part])?;
        merge.push(part);
    }
    merge.extend(["--out".into(), at("merged.csv")]);
    lab(&merge.iter().map(String::as_str).collect::<Vec<_>>())?;
    let files = contents(&out)?;
    let (whole, merged) = (&files["whole.csv"], &files["merged.csv"]);
    let differ = whole.iter().zip(merged).filter(|(a, b)| a != b).count();
    let figure = (differ + whole.len().abs_diff(merged.len())) as f64;
    Ok(Measured { figure, detail: format!("{} bytes\n", whole.len()) })
}

fn report() -> Result<Measured, Unmeasured> {
    let page = directory("report")?.join("report.html");
    // Built before the clock starts.
    lab(&["figure", "--list"])?;
    let begun = Instant::now();
    lab(&["report", "--out", &page.to_string_lossy()])?;
    let minutes = begun.elapsed().as_secs_f64() / 60.0;
    let bytes = std::fs::metadata(&page).map_or(0, |found| found.len());
    Ok(Measured { figure: minutes, detail: format!("{}: {bytes} bytes\n", page.display()) })
}
