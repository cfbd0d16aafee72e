//! How long tests and test programs run, from the moments at which the lines of their output
//! arrive. Rust's test harness does not print how long a test takes.

use super::output::started;
use std::collections::HashMap;
use std::time::Duration;

/// A test, or a program without the usual harness, and how long it ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Timed {
    pub(crate) name: String,
    pub(crate) took: Duration,
}

/// The times of test programs that ran one after the other.
#[derive(Debug)]
pub(crate) struct Timeline {
    /// The number of tests that the harness runs at the same time.
    threads: usize,
    program: Option<Program>,
    /// The library or command whose unit tests ran last: cargo prints no package.
    package: String,
    pub(crate) tests: Vec<Timed>,
    /// How long test programs ran.
    pub(crate) running: Duration,
    /// How long examples of the documentation were built and run.
    pub(crate) examples: Duration,
}

/// The program that runs.
#[derive(Debug)]
struct Program {
    name: String,
    began: Duration,
    has_examples: bool,
    /// When the harness started the first test.
    first_test: Option<Duration>,
    /// The tests that have ended, in this order, and when they ended.
    ended: Vec<(String, Duration)>,
}

impl Timeline {
    pub(crate) fn new(threads: usize) -> Self {
        let (running, examples) = (Duration::ZERO, Duration::ZERO);
        Self {
            threads,
            program: None,
            package: String::new(),
            tests: Vec::new(),
            running,
            examples,
        }
    }

    /// Reads a line that arrived at `now`.
    pub(crate) fn read(&mut self, line: &str, now: Duration) {
        if let Some(name) = started(line) {
            self.end(now);
            let has_examples = line.trim_start().starts_with("Doc-tests ");
            let (first_test, ended) = (None, Vec::new());
            let name = self.name(&name);
            self.program = Some(Program { name, began: now, has_examples, first_test, ended });
        }
        let Some(program) = &mut self.program else { return };
        if line.starts_with("running ") && line.trim_end_matches('s').ends_with(" test") {
            program.first_test.get_or_insert(now);
        } else if let Some((name, _)) =
            line.strip_prefix("test ").and_then(|test| test.split_once(" ... "))
        {
            let name = name.trim_end_matches(" - should panic");
            program.ended.push((name.to_owned(), now));
        }
    }

    /// A name with the package for a program that [`started`].
    fn name(&mut self, started: &str) -> String {
        let (name, source) = started.split_once(" (").unwrap_or((started, ""));
        if source.starts_with("unittests src/lib.rs") || source.starts_with("unittests src/main.rs")
        {
            name.clone_into(&mut self.package);
            return name.to_owned();
        }
        format!("{} {name}", self.package).trim_start().to_owned()
    }

    /// Called when the last program has ended.
    pub(crate) fn end(&mut self, now: Duration) {
        let Some(program) = self.program.take() else { return };
        let took = now.saturating_sub(program.began);
        if program.has_examples {
            self.examples += took;
            return;
        }
        self.running += took;
        let Some(first) = program.first_test else {
            self.tests.push(Timed { name: program.name, took });
            return;
        };
        for Timed { name, took } in durations(self.threads, first, &program.ended) {
            self.tests.push(Timed { name: format!("{}: {name}", program.name), took });
        }
    }
}

/// The duration of each test. The harness starts tests in the order of their names: as many as it
/// has threads at once, and each further one when another test ends.
fn durations(threads: usize, first: Duration, ended: &[(String, Duration)]) -> Vec<Timed> {
    let mut names: Vec<&str> = ended.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    let start = |place: usize| place.checked_sub(threads).map_or(first, |before| ended[before].1);
    let starts: HashMap<&str, Duration> =
        names.into_iter().enumerate().map(|(place, name)| (name, start(place))).collect();
    let timed = |(name, end): &(String, Duration)| {
        let took = end.saturating_sub(starts[name.as_str()]);
        Timed { name: name.clone(), took }
    };
    ended.iter().map(timed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn a_test_begins_when_an_earlier_one_ends() {
        let mut timeline = Timeline::new(2);
        for (at, line) in [
            (0, "   Compiling net v0.1.0 (/net)"),
            (1000, "     Running unittests src/lib.rs (target/debug/deps/net-0123456789abcdef)"),
            (1010, "running 4 tests"),
            (1110, "test b ... ok"),
            (1110, "test c ... ignored, why"),
            (1310, "test a ... ok"),
            (1510, "test d - should panic ... ok"),
            (1511, "test result: ok. 3 passed; 0 failed; 1 ignored"),
            (1600, "     Running tests/bare.rs (target/debug/deps/bare-0123456789abcdef)"),
            (1900, "   Doc-tests net"),
            (1950, "running 1 test"),
            (2500, "test net/src/lib.rs - f (line 1) ... ok"),
        ] {
            timeline.read(line, ms(at));
        }
        timeline.end(ms(2600));
        let timed = |name: &str, took| Timed { name: name.to_owned(), took: ms(took) };
        let expected = [
            timed("net: b", 100),
            timed("net: c", 0),
            timed("net: a", 300),
            timed("net: d", 400),
            timed("net bare", 300),
        ];
        assert_eq!(timeline.tests, expected);
        assert_eq!((timeline.running, timeline.examples), (ms(900), ms(700)));
    }
}
