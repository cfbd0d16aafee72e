//! Where the time goes in which tests are built and run.

use super::timeline::{Timed, Timeline};
use crate::Failure;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// How many of the slowest tests and packages are listed.
const LISTED: usize = 10;

/// A linker that calls the usual one and writes how many nanoseconds it took. rustc takes it for a
/// C compiler because of its name, `cc`.
const LINKER: &str = "#!/bin/sh
began=$(date +%s%N)
cc \"$@\"
status=$?
echo $(($(date +%s%N) - began)) >> \"$LIGHTSEAL_LINKS\"
exit $status
";

pub(crate) fn impossible(path: &Path, error: &std::io::Error) -> Failure {
    Failure::NotPossibleHere(format!("{}: {error}", path.display()))
}

/// Measures runs of cargo that build and run tests.
pub(crate) struct Stopwatch {
    /// The target folder of these runs.
    pub(crate) folder: PathBuf,
    began: Instant,
    pub(crate) timeline: Timeline,
    /// How long compilers and linkers worked, by package.
    packages: BTreeMap<String, f64>,
}

impl Stopwatch {
    pub(crate) fn new(folder: &Path) -> Result<Self, Failure> {
        let linker = folder.join("cc");
        std::fs::write(&linker, LINKER).map_err(|error| impossible(&linker, &error))?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(&linker, PermissionsExt::from_mode(0o755))
                .map_err(|error| impossible(&linker, &error))?;
        }
        Ok(Self {
            folder: folder.to_owned(),
            began: Instant::now(),
            timeline: Timeline::new(super::threads()),
            packages: BTreeMap::new(),
        })
    }

    /// Prepares a run of cargo: its own target folder, a report of what it builds, and a linker
    /// that is timed, except for a processor that is emulated.
    pub(crate) fn prepare(&self, command: &mut Command) {
        let variable = format!("CARGO_TARGET_{}_LINKER", host().to_uppercase().replace('-', "_"));
        command.env("CARGO_TARGET_DIR", &self.folder).env(variable, self.folder.join("cc"));
        command.env("LIGHTSEAL_LINKS", self.links());
    }

    fn links(&self) -> PathBuf {
        self.folder.join("links")
    }

    /// Reads a line of a run's output.
    pub(crate) fn read(&mut self, line: &str) {
        self.timeline.read(line, self.began.elapsed());
    }

    /// Called after a run of cargo that built into `target`: adds what it built.
    pub(crate) fn end(&mut self, target: &Path) {
        self.timeline.end(self.began.elapsed());
        let page = target.join("cargo-timings").join("cargo-timing.html");
        let page = std::fs::read_to_string(page).unwrap_or_default();
        for (package, seconds) in units(&page) {
            *self.packages.entry(package).or_default() += seconds;
        }
    }

    pub(crate) fn report(&self) -> String {
        let total = self.began.elapsed().as_secs_f64();
        let [running, examples] =
            [self.timeline.running, self.timeline.examples].map(|time| time.as_secs_f64());
        let building = total - running - examples;
        let worked: f64 = self.packages.values().sum();
        let text = std::fs::read_to_string(self.links()).unwrap_or_default();
        let links: Vec<f64> =
            text.lines().filter_map(|line| line.parse().ok()).map(|ns: f64| ns / 1e9).collect();
        let linked: f64 = links.iter().sum();
        let row = |what: &str, seconds: f64| {
            format!("{seconds:8.1} s {:4.0} %  {what}\n", 100.0 * seconds / total)
        };
        // Compilers and linkers work side by side, so the time of building is shared by work.
        let linking = if worked > 0.0 { building * (linked / worked).min(1.0) } else { 0.0 };
        let mut text = row("building, without linking", building - linking);
        text += &row("linking", linking);
        text += &row("running tests", running);
        text += &row("building and running examples of the documentation", examples);
        text += &row("all", total);
        text += &format!(
            "Compilers and linkers worked {worked:.1} s, side by side; {} links took {linked:.1} s of it. The \
             time of building is shared in this ratio.\n",
            links.len()
        );
        text += &list("slowest tests", self.timeline.tests.clone());
        let packages = self.packages.iter().map(|(name, seconds)| Timed {
            name: name.clone(),
            took: Duration::from_secs_f64(*seconds),
        });
        text + &list("packages that took longest to build", packages.collect())
    }
}

/// The longest of `timed`, a line each.
fn list(title: &str, mut timed: Vec<Timed>) -> String {
    timed.sort_by(|a, b| b.took.cmp(&a.took).then_with(|| a.name.cmp(&b.name)));
    let line = |Timed { name, took }: &Timed| format!("{:8.1} s  {name}\n", took.as_secs_f64());
    let lines: String = timed.iter().take(LISTED).map(line).collect();
    format!("\n{title}\n{lines}")
}

/// The triple of this machine, as rustc names it.
fn host() -> String {
    let said = Command::new("rustc").arg("-vV").output().map(|output| output.stdout);
    let said = String::from_utf8(said.unwrap_or_default()).unwrap_or_default();
    said.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default().to_owned()
}

/// The package and the seconds of each unit of work on a page that `cargo --timings` writes.
fn units(page: &str) -> Vec<(String, f64)> {
    const LIST: &str = "const UNIT_DATA = ";
    let list = page.split_once(LIST).map_or("", |(_, after)| after);
    let list = serde_json::Deserializer::from_str(list).into_iter::<Value>().next();
    let list = list.and_then(Result::ok).unwrap_or_default();
    let unit = |unit: &Value| Some((unit["name"].as_str()?.to_owned(), unit["duration"].as_f64()?));
    list.as_array().into_iter().flatten().filter_map(unit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_has_the_time_of_each_of_its_units() {
        let page = "<script>\nconst UNIT_DATA = [\n  {\"name\": \"net\", \"duration\": 1.5},\n  \
                    {\"name\": \"net\", \"duration\": 0.5}\n];\nconst CONCURRENCY_DATA = [];";
        assert_eq!(units(page), [("net".to_owned(), 1.5), ("net".to_owned(), 0.5)]);
        assert!(units("").is_empty());
    }

    #[test]
    fn the_longest_come_first() {
        let timed =
            |name: &str, ms| Timed { name: name.to_owned(), took: Duration::from_millis(ms) };
        let text = list("tests", vec![timed("b", 200), timed("c", 1200), timed("a", 200)]);
        assert_eq!(text, "\ntests\n     1.2 s  c\n     0.2 s  a\n     0.2 s  b\n");
    }
}
