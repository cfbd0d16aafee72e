//! Runs images in QEMU and counts their instructions.

use super::folder;
use crate::Failure;
use crate::process::{command, run};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::LazyLock;

/// The source of the counter, and where it is compiled.
const COUNTER: &str = include_str!("count.c");

/// The longest time in seconds that an image may run.
const LIMIT_S: &str = "120";

/// What an image printed and what the counter counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Run {
    pub(super) steps: Vec<Step>,
    /// Values that the image printed, all of each name.
    pub(super) values: BTreeMap<String, Vec<u64>>,
}

/// A measured step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) name: String,
    pub(super) instructions: u64,
    /// Bytes of stack.
    pub(super) stack: u64,
    /// Bytes of heap that are allocated afterwards.
    pub(super) heap: u64,
    /// The most bytes of heap in the step.
    pub(super) peak: u64,
}

/// The counter, which is compiled once in a process.
pub(super) fn counter() -> Result<PathBuf, Failure> {
    static COMPILED: LazyLock<Result<PathBuf, String>> = LazyLock::new(compile_counter);
    COMPILED.clone().map_err(Failure::NotPossibleHere)
}

fn compile_counter() -> Result<PathBuf, String> {
    let (source, plugin) = (folder().join("count.c"), folder().join("count.so"));
    fs::write(&source, COUNTER).map_err(|error| error.to_string())?;
    let mut cc = command("cc", &["-shared", "-fPIC", "-fvisibility=hidden", "-O2", "-o"]);
    run(cc.arg(&plugin).arg(&source))?;
    Ok(plugin)
}

/// The transcripts that programs write: of an association, and of a group.
const TRANSCRIPTS: [&str; 2] = ["transcript", "members"];

/// A program, and the folder in which it runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Program<'a> {
    pub(super) path: &'a Path,
    /// The program's transcripts are written there, or read from there.
    pub(super) folder: &'a Path,
    /// The folders of other programs, whose transcripts this one reads.
    pub(super) after: &'a [PathBuf],
}

/// Runs a program in its folder.
pub(super) fn measure(plugin: &Path, program: Program<'_>) -> Result<Run, Failure> {
    let Program { path, folder, after } = program;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let broken = |what: String| Failure::Failed(format!("{name}: {what}"));
    fs::create_dir_all(folder).map_err(|error| broken(error.to_string()))?;
    let written = after.iter().flat_map(|from| TRANSCRIPTS.map(|name| (from.join(name), name)));
    for (from, name) in written.filter(|(from, _)| from.exists()) {
        fs::copy(from, folder.join(name)).map_err(|error| broken(error.to_string()))?;
    }
    let counts = folder.join("counts");
    let mut qemu = command("timeout", &[LIMIT_S, "qemu-system-arm", "-M", "mps2-an385"]);
    qemu.args(["-nographic", "-semihosting-config", "enable=on,target=native", "-plugin"]);
    qemu.arg(format!("{},out={}", plugin.display(), counts.display()));
    qemu.arg("-kernel").arg(path).current_dir(folder).stdin(Stdio::null());
    let output = qemu.output().map_err(|error| Failure::NotPossibleHere(error.to_string()))?;
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().chain(errors.lines()).last().unwrap_or_default();
        return Err(broken(format!("{}: {last}", output.status)));
    }
    let counts = fs::read_to_string(&counts).map_err(|error| broken(error.to_string()))?;
    read(&said, &counts).ok_or_else(|| broken("it did not print what was expected".into()))
}

fn read(said: &str, counts: &str) -> Option<Run> {
    let mut counts = counts.lines().map(str::parse::<u64>);
    let mut result = Run::default();
    for line in said.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        match words[..] {
            ["value", name, number] => {
                result.values.entry(name.to_owned()).or_default().push(number.parse().ok()?);
            }
            ["step", name, "stack", stack, "heap", heap, "peak", peak, ..] => {
                result.steps.push(Step {
                    name: name.to_owned(),
                    instructions: counts.next()?.ok()?,
                    stack: stack.parse().ok()?,
                    heap: heap.parse().ok()?,
                    peak: peak.parse().ok()?,
                });
            }
            _ => return None,
        }
    }
    counts.next().is_none().then_some(result)
}

impl Run {
    fn named(&self, name: &str) -> impl Iterator<Item = &Step> {
        self.steps.iter().filter(move |step| step.name == name)
    }

    /// All instructions of the steps with this name; `None` if there are no such steps.
    pub(super) fn instructions(&self, name: &str) -> Option<u64> {
        self.named(name).map(|step| step.instructions).reduce(|sum, more| sum + more)
    }

    /// The mean instructions of the second half of the steps with this name.
    pub(super) fn steady_instructions(&self, name: &str) -> Option<u64> {
        mean(&latter(self.named(name).map(|step| step.instructions).collect()))
    }

    /// The cases that the image compares: for each step `case-NAME` the name, and the mean
    /// instructions of the second half of its steps.
    pub(super) fn cases(&self) -> Vec<(String, u64)> {
        let mut cases = Vec::<(String, u64)>::new();
        for step in &self.steps {
            let Some(case) = step.name.strip_prefix("case-") else { continue };
            if cases.iter().any(|(known, _)| known == case) {
                continue;
            }
            cases.extend(self.steady_instructions(&step.name).map(|mean| (case.to_owned(), mean)));
        }
        cases
    }

    /// The greatest depth of the stack in steps with these names.
    pub(super) fn stack(&self, names: &[&str]) -> Option<u64> {
        names.iter().flat_map(|name| self.named(name)).map(|step| step.stack).max()
    }

    /// The greatest use of the heap in steps with this name.
    pub(super) fn peak(&self, name: &str) -> Option<u64> {
        self.named(name).map(|step| step.peak).max()
    }

    /// The most heap and stack that were in use until each step `peer`: for each number of peers,
    /// from 1.
    pub(super) fn by_peers(&self) -> Vec<u64> {
        let (mut heap, mut stack, mut sums) = (0, 0, Vec::new());
        for step in &self.steps {
            (heap, stack) = (step.peak.max(heap), step.stack.max(stack));
            if step.name == "peer" {
                sums.push(heap + stack);
            }
        }
        sums
    }

    /// The bytes of heap after the last step with this name.
    pub(super) fn heap(&self, name: &str) -> Option<u64> {
        self.named(name).last().map(|step| step.heap)
    }

    /// The bytes of heap after the last step with another name.
    pub(super) fn heap_before(&self, name: &str) -> Option<u64> {
        self.steps.iter().rfind(|step| step.name != name).map(|step| step.heap)
    }

    /// The last value with this name.
    pub(super) fn value(&self, name: &str) -> Option<u64> {
        self.values.get(name)?.last().copied()
    }

    /// The mean of the second half of the values with this name.
    pub(super) fn steady_value(&self, name: &str) -> Option<u64> {
        mean(&latter(self.values.get(name)?.clone()))
    }
}

/// The second half.
fn latter(all: Vec<u64>) -> Vec<u64> {
    let first = all.len() / 2;
    all.into_iter().skip(first).collect()
}

/// The mean, rounded.
fn mean(numbers: &[u64]) -> Option<u64> {
    let count = u64::try_from(numbers.len()).ok()?;
    (numbers.iter().sum::<u64>() + count / 2).checked_div(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_and_counts_are_joined_in_order() {
        let said = "value configuration 500\n\
                    step handshake stack 10 heap 20 peak 30 blocks 1 allocations 2\n\
                    step handshake stack 40 heap 20 peak 25 blocks 1 allocations 2\n";
        let run = read(said, "7\n8\n").expect("well formed");
        assert_eq!(run.instructions("handshake"), Some(15));
        assert_eq!(run.steady_instructions("handshake"), Some(8));
        assert_eq!(run.stack(&["handshake", "seal"]), Some(40));
        assert_eq!((run.peak("handshake"), run.heap("handshake")), (Some(30), Some(20)));
        assert_eq!((run.heap_before("later"), run.heap("later")), (Some(20), None));
        assert_eq!(run.value("configuration"), Some(500));
        assert_eq!(run.instructions("seal"), None);
        assert!(run.cases().is_empty() && run.by_peers().is_empty());
        assert!(read(said, "7\n").is_none(), "a count is missing");
        assert!(read(said, "7\n8\n9\n").is_none(), "a step is missing");
    }

    #[test]
    fn ram_grows_with_peers_and_cases_have_their_means() {
        let said = "step start stack 50 heap 20 peak 30\n\
                    step peer stack 40 heap 25 peak 28\n\
                    step peer stack 60 heap 30 peak 35\n\
                    step case-agg:2 stack 1 heap 30 peak 30\n\
                    step case-agg:2 stack 1 heap 30 peak 30\n\
                    step case-agg:4 stack 1 heap 30 peak 30\n";
        let run = read(said, "1\n2\n3\n4\n6\n9\n").expect("well formed");
        assert_eq!(run.by_peers(), [80, 95]);
        assert_eq!(run.cases(), [("agg:2".to_owned(), 6), ("agg:4".to_owned(), 9)]);
    }
}
