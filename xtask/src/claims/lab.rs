//! Claims on the lab's commands: a scenario gives the same bytes for any number of threads and
//! shards, memory is bounded, and the report is made in time.

use super::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

pub(super) fn claims() -> Vec<Claim> {
    vec![
        "Number of files of the example scenarios that differ between 1 and 2 threads. Bar: there \
            may be none"
            .claim("lab-threads", AtMost(0.0), Seconds(30))
            .by(threads),
        "Number of bytes in which the merge of three shards differs from the whole: a grid, and a \
            single point whose runs are shared among the shards. Bar: there may be none"
            .claim("lab-shards", AtMost(0.0), Seconds(30))
            .by(shards),
        // Exact statistics keep 16 bytes a run for up to 131 072 runs, in lists whose room doubles.
        // These take 2.4 MiB at 10^5 runs, copies while they grow included, beside the 8.4 MiB that
        // the program of the laboratory takes at 10^4 runs.
        "Peak memory of `lightseal lab run` for 100 000 runs of a point, over that for 10 000 \
            runs. Bar: the derivation in the comment"
            .claim("lab-memory", AtMost(1.3), Seconds(30))
            .by(|| memory(10_000, 100_000)),
        "Peak memory of `lightseal lab run` for 500 000 runs of a point, over that for 200 000 \
            runs. Bar: our own target"
            .claim("lab-memory-flat", AtMost(1.05), Seconds(100))
            .by(|| memory(200_000, 500_000)),
        "Minutes for the whole report: every figure of the registry with default options. Bar: our \
            own target"
            .claim("lab-report", AtMost(15.0), Seconds(600))
            .by(report),
    ]
}

const SCENARIOS: &str = "crates/lab/scenarios";

/// The one scenario that is a grid of points.
const GRID: &str = "sweep.toml";

/// One of the scenarios that are a single point.
const POINT: &str = "x-mac.toml";

/// The scenario that takes the least time for a run.
const TWO_NODES: &str = "network = { topology = 'line', nodes = 2 }\n\
                         link = { layer = 'x-mac', check_interval_ms = 125 }\n\
                         handshake = { profile = 'tinydtls' }\n";

/// Makes an empty directory of this name in target/claims.
pub(super) fn directory(name: &str) -> Result<PathBuf, Failure> {
    let broken = |error: std::io::Error| Failure::Failed(format!("{name}: {error}"));
    let path = Path::new("target/claims").join(name);
    if path.exists() {
        std::fs::remove_dir_all(&path).map_err(broken)?;
    }
    std::fs::create_dir_all(&path).map_err(broken)?;
    Ok(path)
}

fn lab(words: impl AsRef<str>) -> Result<String, Failure> {
    LAB.run(words).text()
}

/// Every file of a directory, by name.
pub(super) fn contents(of: &Path) -> Result<BTreeMap<String, Vec<u8>>, Failure> {
    let broken = |error: std::io::Error| Failure::Failed(format!("{}: {error}", of.display()));
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(of).map_err(broken)? {
        let path = entry.map_err(broken)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        files.insert(name, std::fs::read(&path).map_err(broken)?);
    }
    Ok(files)
}

fn threads() -> Result<Measured, Failure> {
    let mut written = Vec::new();
    for threads in ["1", "2"] {
        let out = directory(&format!("threads-{threads}"))?;
        let how = format!("--runs 40 --out {} --threads {threads} --log --pcap", out.display());
        for scenario in contents(Path::new(SCENARIOS))?.keys().filter(|name| *name != GRID) {
            lab(format!("run {SCENARIOS}/{scenario} {how}"))?;
        }
        written.push(contents(&out)?);
    }
    let names: Vec<&String> = written.iter().flat_map(BTreeMap::keys).collect();
    let differ = |name: &&&String| written[0].get(**name) != written[1].get(**name);
    let different: Vec<&&String> = names.iter().filter(differ).collect();
    let detail = format!("{} files each; different: {different:?}\n", written[0].len());
    if written[0].is_empty() {
        return Err(Failure::Failed("no files were written".into()));
    }
    Ok(Measured { figure: different.len() as f64, detail })
}

fn shards() -> Result<Measured, Failure> {
    let out = directory("shards")?;
    let at = |name: &str| out.join(name).to_string_lossy().into_owned();
    let (mut figure, mut detail) = (0, String::new());
    // The grid has more points than there are shards; the other scenario has a single point, so its
    // runs are shared among the shards.
    for (scenario, options) in [
        (GRID, ""),
        (POINT, ""),
        (POINT, "--rows"),
        (POINT, "--format jsonl"),
        (GRID, "--split runs"),
    ] {
        let sweep = |shard: &str, to: &str| {
            lab(format!("sweep {SCENARIOS}/{scenario} --shard {shard} --out {to} {options}"))
        };
        sweep("1/1", &at("whole"))?;
        let parts = [1, 2, 3].map(|shard| at(&format!("part-{shard}")));
        for (shard, part) in (1..).zip(&parts) {
            sweep(&format!("{shard}/3"), part)?;
        }
        lab(format!("merge {} --out {}", parts.join(" "), at("merged")))?;
        let files = contents(&out)?;
        let (whole, merged) = (&files["whole"], &files["merged"]);
        let differ = whole.iter().zip(merged).filter(|(a, b)| a != b).count();
        figure += differ + whole.len().abs_diff(merged.len());
        detail += &format!("{scenario} {options}: {} bytes\n", whole.len());
    }
    Ok(Measured { figure: figure as f64, detail })
}

/// The peak of memory for `more` runs of a point over that for `few`.
fn memory(few: u32, more: u32) -> Result<Measured, Failure> {
    let (few_mib, more_mib) = (peak_mib(few)?, peak_mib(more)?);
    let detail = format!("{few} runs: {few_mib:.1} MiB; {more} runs: {more_mib:.1} MiB\n");
    Ok(Measured { figure: more_mib / few_mib, detail })
}

/// The peak resident memory of `lab run` in MiB, as the kernel reports it.
fn peak_mib(runs: u32) -> Result<f64, Failure> {
    let broken = |error: std::io::Error| Failure::Failed(format!("lightseal lab run: {error}"));
    let file = directory("memory")?.join("two-nodes.toml");
    std::fs::write(&file, TWO_NODES).map_err(broken)?;
    let mut run = LAB.run(format!("run {} --runs {runs}", file.display())).command()?;
    run.stdout(Stdio::null());
    let mut child = run.spawn().map_err(broken)?;
    let status = format!("/proc/{}/status", child.id());
    let mut peak = None;
    let ended = loop {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        peak = kib.or(peak);
        if let Some(ended) = child.try_wait().map_err(broken)? {
            break ended;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    if !ended.success() {
        return Err(Failure::Failed(format!("lightseal lab run: {ended}")));
    }
    let none =
        || Failure::NotPossibleHere("the kernel does not say how much memory a process has".into());
    peak.map(|kib| kib / 1024.0).ok_or_else(none)
}

fn report() -> Result<Measured, Failure> {
    let page = directory("report")?.join("report.html");
    // The program is built before the clock starts.
    LAB.built()?;
    let begun = Instant::now();
    lab(format!("report --out {}", page.display()))?;
    let minutes = begun.elapsed().as_secs_f64() / 60.0;
    let bytes = std::fs::metadata(&page).map_or(0, |found| found.len());
    Ok(Measured { figure: minutes, detail: format!("{}: {bytes} bytes\n", page.display()) })
}
