//! Rules about the text of our sources.

use crate::process::{capture, command, workspace};
use std::fs;

/// Longer files are split.
const MAX_LINES: usize = 700;

/// What must not stand in a source file, and why. In two halves, so that this
/// file does not find itself.
const MARKS: &[(&str, &str)] = &[
    (concat!("TO", "DO"), "unfinished"),
    (concat!("FIX", "ME"), "unfinished"),
    (concat!("XX", "X"), "unfinished"),
    (concat!("to", "do!("), "unfinished"),
    (concat!("unimple", "mented!("), "unfinished"),
    (concat!("db", "g!("), "left from debugging"),
    (concat!("#[ign", "ore]"), "a test is ignored without a reason"),
];

/// Below the hosts only these crates may hold unsafe code, in this folder alone: their `lib.rs`
/// denies it, and an exception is made there.
const KERNELS: &[(&str, &str)] = &[
    ("lightmac", "crates/lightmac/src/kernel/"),
    ("lightseal-dtls-aws-lc", "crates/dtls-aws-lc/src/kernel/"),
    ("lightseal-owner-only", "crates/owner-only/src/kernel/"),
    ("lightseal-present", "crates/present/src/kernel/"),
];
/// How an exception is made. In two halves, so that this file does not find itself.
const EXCEPTION: &str = concat!("allow(unsafe", "_code)");

pub(super) fn check() -> Result<(), String> {
    let listed = capture(command(
        "git",
        &["ls-files", "--cached", "--others", "--exclude-standard", "--", "*.rs"],
    ))?;
    let mut faults = Vec::new();
    for name in listed.lines() {
        // A file that is deleted and not yet committed is listed as well.
        let Ok(text) = fs::read_to_string(workspace().join(name)) else { continue };
        faults.extend(faults_in(&text).map(|(line, fault)| format!("{name}:{line}: {fault}")));
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

/// Line number and fault.
fn faults_in(text: &str) -> impl Iterator<Item = (usize, String)> {
    let lines = text.lines().count();
    let long = (lines > MAX_LINES)
        .then(|| (lines, format!("{lines} lines, more than {MAX_LINES}: split it")));
    let marked = text.lines().enumerate().flat_map(|(index, line)| {
        let found = MARKS.iter().filter(move |(mark, _)| stands_alone(line, mark));
        found.map(move |(mark, why)| (index + 1, format!("{mark}: {why}")))
    });
    long.into_iter().chain(marked)
}

/// Whether `mark` stands in `line` and is not a part of a longer word.
fn stands_alone(line: &str, mark: &str) -> bool {
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(mark).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + mark.len()..].chars().next();
        let open_ended = !mark.ends_with(in_word);
        !before.is_some_and(in_word) && (open_ended || !after.is_some_and(in_word))
    })
}

/// What the crate `name` in `at`, one of those below the hosts, lacks: attributes of its
/// `lib.rs`, or care where it makes exceptions from them.
///
/// All but a few need no operating system (`no_std`).
pub(super) fn faults_below_hosts(
    name: &str,
    at: &str,
    no_std: bool,
) -> Result<Vec<String>, String> {
    let folder = KERNELS.iter().find(|(known, _)| *known == name).map(|(_, folder)| *folder);
    let safety = if folder.is_some() { "#![deny(unsafe_code)]" } else { "#![forbid(unsafe_code)]" };
    let path = format!("{at}/src/lib.rs");
    let text = fs::read_to_string(workspace().join(&path)).map_err(|e| format!("{path}: {e}"))?;
    let wanted = [no_std.then_some("#![no_std]"), Some(safety)];
    let absent = wanted.into_iter().flatten().filter(|line| !text.lines().any(|l| l == *line));
    let mut faults: Vec<_> =
        absent.map(|attribute| format!("{path}: {attribute} is missing")).collect();
    let sources = format!("{at}/src");
    let listed = capture(command("git", &["ls-files", "--cached", "--others", "--", &sources]))?;
    for file in listed.lines().filter(|file| !folder.is_some_and(|folder| file.starts_with(folder)))
    {
        let text = fs::read_to_string(workspace().join(file)).unwrap_or_default();
        if text.contains(EXCEPTION) {
            faults.push(format!("{file}: unsafe code has no place here"));
        }
    }
    Ok(faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_may_be_700_lines_long_and_no_longer() {
        assert_eq!(faults_in(&"x\n".repeat(MAX_LINES)).count(), 0);
        assert_eq!(faults_in(&"x\n".repeat(MAX_LINES + 1)).count(), 1);
    }

    #[test]
    fn marks_are_found_only_as_words() {
        for (mark, _) in MARKS {
            assert_eq!(faults_in(&format!("a\n// {mark} b")).next().map(|f| f.0), Some(2));
            assert_eq!(faults_in(&format!("a{mark}")).count(), 0, "{mark}");
        }
        assert_eq!(faults_in(concat!("#[ign", "ore = \"why\"]")).count(), 0);
        assert_eq!(faults_in(concat!("M", "TO", "DOS")).count(), 0);
    }
}
