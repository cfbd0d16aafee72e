//! `cargo xtask lines`: lines of Rust now and before the restructuring, by package, by kind of file,
//! by what grew (code, comments or blank lines, in packages of before or in new ones), and by what
//! commits are about.

mod causes;

use crate::Failure;
use crate::process::{capture, command};
use std::collections::BTreeMap;

/// The last commit before comments, names and packages were renewed.
const BEFORE: &str = "f559efd";

/// Folders of packages that have another name since, with their old names.
const RENAMED: [(&str, &str); 1] = [("crates/core", "crates/vocabulary")];

/// What is counted apart: programs that show the use of packages, and the checks of packages that
/// others build upon.
const PACKAGING: [&str; 3] = ["xtask/src/api.rs", "xtask/src/crates.rs", "xtask/src/package/"];

/// Lines of a file or of several files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lines {
    all: i64,
    comments: i64,
    blank: i64,
}

/// Lines before and now.
type Change = [Lines; 2];

/// The lines of all Rust files, by package and by kind.
#[derive(Debug, Default)]
pub(crate) struct Table {
    packages: BTreeMap<String, Change>,
    kinds: BTreeMap<&'static str, Change>,
}

const EXAMPLES: &str = "examples, counted apart";
const CHECKS: &str = "checks of packages, counted apart";
const TESTS: &str = "integration tests";
const SOURCES: &str = "sources with their unit tests";

pub(crate) fn run() -> Result<(), Failure> {
    let table = Table::new()?;
    print!("{}\nnet change by what commits are about\n{}", table.text(), causes::text()?);
    Ok(())
}

impl Table {
    pub(crate) fn new() -> Result<Self, Failure> {
        let mut table = Self::default();
        for (index, commit) in [Some(BEFORE), None].into_iter().enumerate() {
            let [comments, blank] = [counted("^[[:space:]]*//", commit)?, counted("^$", commit)?];
            for (path, all) in counted("", commit)? {
                let [comments, blank] =
                    [&comments, &blank].map(|of| of.get(&path).copied().unwrap_or(0));
                table.add(index, &path, Lines { all, comments, blank });
            }
        }
        Ok(table)
    }

    fn add(&mut self, index: usize, path: &str, lines: Lines) {
        let package = package(path);
        self.packages.entry(package).or_default()[index].add(lines);
        self.kinds.entry(kind(path)).or_default()[index].add(lines);
    }

    /// By how many lines Rust has become less, without what is counted apart.
    pub(crate) fn fewer(&self) -> i64 {
        let counted = [SOURCES, TESTS].iter().filter_map(|kind| self.kinds.get(kind));
        counted.map(|[before, now]| before.all - now.all).sum()
    }

    /// The table for a reader.
    pub(crate) fn text(&self) -> String {
        let row = |name: &str, [before, now]: &Change| {
            format!(
                "{name:36}{:9}{:9}{:+9}{:+12}\n",
                before.all,
                now.all,
                now.all - before.all,
                now.comments - before.comments
            )
        };
        let [mut sum, mut earlier, mut new] = [Change::default(); 3];
        let mut text =
            format!("{:36}{BEFORE:>9}{:>9}{:>9}{:>12}\n", "", "now", "change", "of comments");
        for (name, change) in &self.packages {
            text += &row(name, change);
            let part = if change[0].all == 0 { &mut new } else { &mut earlier };
            for index in 0..2 {
                sum[index].add(change[index]);
                part[index].add(change[index]);
            }
        }
        text.push('\n');
        self.kinds.iter().for_each(|(name, change)| text += &row(name, change));
        text.push('\n');
        text += &row("packages that existed before", &earlier);
        text += &row("packages that are new", &new);
        text.push('\n');
        let only = |part: fn(Lines) -> i64| sum.map(|of| Lines { all: part(of), ..of });
        text +=
            &row("code", &only(|of| of.all - of.comments - of.blank).map(Lines::without_comments));
        text += &row("comments", &only(|of| of.comments));
        text += &row("blank lines", &only(|of| of.blank).map(Lines::without_comments));
        text.push('\n');
        text + &row("all", &sum)
            + &match self.fewer() {
                more @ ..0 => format!("{} lines more, without what is counted apart\n", -more),
                fewer => format!("{fewer} lines fewer, without what is counted apart\n"),
            }
    }
}

impl Lines {
    fn add(&mut self, other: Self) {
        self.all += other.all;
        self.comments += other.comments;
        self.blank += other.blank;
    }

    const fn without_comments(self) -> Self {
        Self { comments: 0, ..self }
    }
}

/// The number of lines of each Rust file that match `pattern`, at `commit` or now.
fn counted(pattern: &str, commit: Option<&str>) -> Result<BTreeMap<String, i64>, Failure> {
    let mut grep = command("git", &["grep", "--count", "--extended-regexp", "-e", pattern]);
    grep.args(commit).args(["--", "*.rs"]);
    let text = capture(grep).map_err(|error| {
        Failure::NotPossibleHere(format!("{error}; the history back to {BEFORE} is needed"))
    })?;
    let line = |line: &str| {
        let (path, count) = line.rsplit_once(':')?;
        let path = path.rsplit_once(':').map_or(path, |(_, path)| path);
        Some((path.to_owned(), count.parse().ok()?))
    };
    Ok(text.lines().filter_map(line).collect())
}

/// The folder of the package that has this file, by its name of today.
fn package(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').collect();
    let folder = match parts[..] {
        ["crates", name, ..] => format!("crates/{name}"),
        ["interop", "gateway", ..] => "interop/gateway".to_owned(),
        _ => parts[0].to_owned(),
    };
    let renamed = RENAMED.iter().find(|(_, old)| *old == folder);
    renamed.map_or(folder, |(new, _)| (*new).to_owned())
}

fn kind(path: &str) -> &'static str {
    if path.contains("/examples/") {
        EXAMPLES
    } else if PACKAGING.iter().any(|part| path.starts_with(part)) {
        CHECKS
    } else if path.contains("/tests/") {
        TESTS
    } else {
        SOURCES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_and_checks_of_packages_are_counted_apart() {
        let mut table = Table::default();
        for (index, path, all) in [
            (0, "crates/vocabulary/src/lib.rs", 100),
            (1, "crates/core/src/lib.rs", 80),
            (1, "crates/core/examples/one.rs", 50),
            (1, "xtask/src/package/mod.rs", 40),
            (0, "interop/gateway/tests/soak.rs", 10),
            (1, "interop/gateway/tests/it/soak.rs", 12),
        ] {
            table.add(index, path, Lines { all, comments: 1, blank: 2 });
        }
        assert_eq!(table.fewer(), 18);
        let before = Lines { all: 100, comments: 1, blank: 2 };
        let now = Lines { all: 130, comments: 2, blank: 4 };
        assert_eq!(table.packages["crates/core"], [before, now]);
        let text = table.text();
        let change = |row: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(row)).expect("a row");
            line.split_whitespace().map(|number| number.parse().expect("a number")).collect()
        };
        let changes: [Vec<i64>; 4] =
            ["packages that existed before", "packages that are new", "code", "comments"]
                .map(change);
        let expected = [[110, 142, 32, 1], [0, 40, 40, 1], [104, 170, 66, 0], [2, 4, 2, 2]];
        assert_eq!(changes, expected.map(|row| row.to_vec()));
        assert_eq!(table.packages.len(), 3);
    }
}
