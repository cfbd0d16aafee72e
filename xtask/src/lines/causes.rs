//! Why lines came or went: the net change of all commits, by what their subjects are about.

use super::BEFORE;
use crate::Failure;
use crate::process::{capture, command};

/// A cause, and parts of subjects by which its commits are known. The first cause that fits counts.
const CAUSES: [(&str, &[&str]); 7] = [
    (
        "faults that reviews found",
        &[
            "client proxy: succ",
            "suppresses",
            "liveness: an outage",
            "status asks only",
            "state their epoch",
            "small order",
            "never follow a name",
            "names of the devices",
            "signals",
        ],
    ),
    (
        "interfaces: checked settings, endpoints, hashes, outcomes",
        &[
            "an endpoint begins",
            "may decide about",
            "configuration that exists",
            "sealed straight",
            "answer a lookup later",
            "lends its associations",
            "buffer that is too small",
            "can grow",
            "may grow",
            "one crate suffices",
            "by constructors",
            "names its hash",
            "covers hashes",
            "plain data",
            "loose flags",
            "one of three values",
            "are enums",
            "consists of a session",
            "what became of it",
            "one call dispatches",
        ],
    ),
    ("lints and measurements of the sources", &["lint", "xtask:", "xtask lines", "claims: each"]),
    (
        "packages, examples, pages and pictures",
        &["readme", "example", "cargo xtask", "can be published", "pictures"],
    ),
    (
        "crates taken apart, tests joined, circles ended",
        &["of its own", "of their own", "leave the product", "one program", "testkit", "circle"],
    ),
    ("names", &["names", "named"]),
    (
        "plain language",
        &["comments", "messages", "plain", "help texts", "descri", "words", "language"],
    ),
];

/// The net change by cause, largest first, a line each.
pub(super) fn text() -> Result<String, Failure> {
    let range = format!("{BEFORE}..HEAD");
    let log = ["log", "--no-merges", "--format=@%s", "--numstat", &range, "--", "*.rs"];
    let log = capture(command("git", &log)).map_err(Failure::NotPossibleHere)?;
    Ok(table(&log))
}

fn table(log: &str) -> String {
    let mut sums = [0; CAUSES.len() + 1];
    let mut cause = CAUSES.len();
    for line in log.lines() {
        if let Some(subject) = line.strip_prefix('@') {
            let subject = subject.to_lowercase();
            let fits = |(_, parts): &(_, &[&str])| parts.iter().any(|part| subject.contains(part));
            cause = CAUSES.iter().position(fits).unwrap_or(CAUSES.len());
        }
        let mut numbers = line.split('\t').map_while(|number| number.parse::<i64>().ok());
        if let (Some(added), Some(removed)) = (numbers.next(), numbers.next()) {
            sums[cause] += added - removed;
        }
    }
    let names = CAUSES.iter().map(|(name, _)| *name).chain(["other causes"]);
    let mut rows: Vec<_> = sums.into_iter().zip(names).collect();
    rows.sort_by_key(|(sum, _)| -sum);
    rows.iter().map(|(sum, name)| format!("{sum:+8}  {name}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_commit_counts_for_the_first_cause_that_fits_its_subject() {
        let log = "@Names of comments\n\n5\t3\ta.rs\n-\t-\tb.rs\n@Else\n\n1\t4\ta.rs\n";
        let text = table(log);
        assert!(text.starts_with("      +2  names\n"), "{text}");
        assert!(text.ends_with("      -3  other causes\n"), "{text}");
    }
}
