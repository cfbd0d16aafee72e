//! Reads the output of `cargo test` line by line: errors of the build, programs that run, tests
//! that fail.

/// A test that failed, or a test program that ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    /// The program as cargo names it: `-p net --test relay`.
    pub(crate) program: String,
    /// The test's path in the program; empty if the program itself failed.
    pub(crate) test: String,
    /// The first line of the panic's message, and the panic's place in the source.
    pub(crate) reason: String,
}

/// Numbers of lines that are kept of a build error, from its beginning and from its end.
const FIRST_LINES: usize = 4;
const LAST_LINES: usize = 24;

/// What the output of one or several runs of cargo says.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) passed: u64,
    /// Tests with the attribute `ignore`, with their reasons.
    pub(crate) ignored: Vec<(String, String)>,
    pub(crate) failed: Vec<Failed>,
    /// The text of each build error.
    pub(crate) build_errors: Vec<String>,
    /// The test program that runs; `None` while cargo builds.
    program: Option<Program>,
    /// The lines so far of a build error that is being read.
    error: Option<Vec<String>>,
}

/// What is known of the test program that runs.
#[derive(Debug, Default)]
struct Program {
    name: String,
    /// The program's failed tests.
    failed: Vec<Failed>,
    /// The meaning of the next lines.
    next: Next,
    /// The last panic outside of a test's captured output.
    panic: Option<String>,
}

#[derive(Debug, Default, PartialEq)]
enum Next {
    #[default]
    Anything,
    /// The output of the failed test with this index.
    Output(usize),
    /// The panic message of the failed test with this index, and the panic's place in the source.
    Message(usize, String),
    /// The message of a panic that belongs to no test, and its place in the source.
    ProgramMessage(String),
    /// The reason why the program ended, for the failure with this index.
    Cause(usize),
}

impl Report {
    /// Reads a line. Returns whether it should be shown on the terminal.
    pub(crate) fn read(&mut self, line: &str) -> bool {
        if let Some(name) = started(line) {
            self.end_of_program();
            self.end_of_error();
            self.program = Some(Program { name, ..Program::default() });
            return true;
        }
        let Some(program) = &mut self.program else { return self.read_build(line) };
        if let Some(name) = rerun(line) {
            program.is_called(name);
            return true;
        }
        if let Some(result) = line.strip_prefix("test result: ") {
            self.passed += number(result, "passed");
            program.next = Next::Anything;
            return true;
        }
        if let Some((name, outcome)) =
            line.strip_prefix("test ").and_then(|t| t.split_once(" ... "))
        {
            if let Some(reason) = outcome.strip_prefix("ignored") {
                let reason = reason.trim_start_matches(", ");
                let reason = if reason.is_empty() { "no reason given" } else { reason };
                self.ignored.push((name.to_owned(), reason.to_owned()));
            } else if outcome.starts_with("FAILED") {
                let index = program.index(name);
                program.next = Next::Output(index);
                return true;
            }
            program.next = Next::Anything;
            return false;
        }
        program.read_output(line)
    }

    /// Reads a line that cargo prints while it builds.
    fn read_build(&mut self, line: &str) -> bool {
        let begins = line.starts_with("error:") || line.starts_with("error[");
        let ends = line.starts_with("warning:") || is_progress(line);
        if begins || ends {
            self.end_of_error();
        }
        if begins {
            self.error = Some(Vec::new());
        }
        if let Some(lines) = &mut self.error {
            lines.push(line.to_owned());
        }
        true
    }

    fn end_of_error(&mut self) {
        let Some(mut lines) = self.error.take() else { return };
        lines.retain(|line| !is_of_backtrace(line));
        while lines.last().is_some_and(|line| line.trim().is_empty()) {
            lines.pop();
        }
        if lines.len() > FIRST_LINES + LAST_LINES {
            let gone = lines.len() - FIRST_LINES - LAST_LINES;
            let said = format!("    ({gone} lines)");
            lines.splice(FIRST_LINES..FIRST_LINES + gone, [said]);
        }
        self.build_errors.push(lines.join("\n"));
    }

    fn end_of_program(&mut self) {
        self.failed.extend(self.program.take().into_iter().flat_map(|program| program.failed));
    }

    /// Called at the end of a run of cargo.
    pub(crate) fn end(&mut self) {
        self.end_of_program();
        self.end_of_error();
    }
}

impl Program {
    /// The index of the failed test of this name, which is added if it is new.
    fn index(&mut self, name: &str) -> usize {
        if let Some(index) = self.failed.iter().position(|failed| failed.test == name) {
            return index;
        }
        let (program, reason) = (self.name.clone(), String::new());
        self.failed.push(Failed { program, test: name.to_owned(), reason });
        self.failed.len() - 1
    }

    /// Cargo reported that this program failed, and the name to rerun it by.
    fn is_called(&mut self, name: &str) {
        self.name = name.to_owned();
        if self.failed.is_empty() {
            // None of its tests failed: the program crashed, or has no harness.
            let reason = self.panic.take().unwrap_or_default();
            let program = self.name.clone();
            self.failed.push(Failed { program, test: String::new(), reason });
        }
        self.failed.iter_mut().for_each(|failed| failed.program = name.to_owned());
        self.next = Next::Cause(0);
    }

    fn read_output(&mut self, line: &str) -> bool {
        if let Some(name) = line.strip_prefix("---- ").and_then(|l| l.strip_suffix(" stdout ----"))
        {
            self.next = Next::Output(self.index(name));
            return true;
        }
        match std::mem::take(&mut self.next) {
            Next::Anything => {
                if let Some(place) = panicked_at(line) {
                    self.next = Next::ProgramMessage(place.to_owned());
                }
                false
            }
            Next::ProgramMessage(place) => {
                self.panic = Some(format!("{line} ({place})"));
                true
            }
            Next::Output(index) => {
                let reason = &mut self.failed[index].reason;
                if line == "failures:" {
                    return true;
                }
                self.next = match panicked_at(line) {
                    Some(place) => Next::Message(index, place.to_owned()),
                    None => Next::Output(index),
                };
                // A test that failed without a panic has returned an error or printed the reason.
                let is_error = line.starts_with("Error: ");
                if self.next == Next::Output(index) && (reason.is_empty() || is_error) {
                    line.trim().clone_into(reason);
                }
                true
            }
            Next::Message(index, place) => {
                self.failed[index].reason = format!("{line} ({place})");
                self.next = Next::Output(index);
                true
            }
            Next::Cause(index) => {
                let failed = &mut self.failed[index];
                let cause = line.trim().strip_prefix("process didn't exit successfully: ");
                if let Some(cause) = cause
                    && failed.reason.is_empty()
                {
                    // The status follows the program's path, which is of no interest.
                    let cause = cause.rsplit_once("` ").map_or(cause, |(_, status)| status);
                    failed.reason = format!("the test program ended: {cause}");
                }
                self.next = Next::Cause(index);
                true
            }
        }
    }
}

/// The name of the program that cargo starts now: its file name without the hash, and its source.
pub(super) fn started(line: &str) -> Option<String> {
    let line = line.trim_start();
    if let Some(name) = line.strip_prefix("Doc-tests ") {
        return Some(format!("{name}, examples of the documentation"));
    }
    let (source, path) = line.strip_prefix("Running ")?.strip_suffix(')')?.split_once(" (")?;
    let file = path.rsplit('/').next().unwrap_or(path);
    let name = file.rsplit_once('-').map_or(file, |(name, _)| name);
    Some(format!("{name} ({source})"))
}

/// The name by which cargo reruns a program that has failed.
fn rerun(line: &str) -> Option<&str> {
    let (_, name) = line.strip_prefix("error: ")?.split_once("to rerun pass `")?;
    name.strip_suffix('`')
}

/// The place of a panic in the source.
fn panicked_at(line: &str) -> Option<&str> {
    let (_, place) = line.strip_prefix("thread '")?.split_once("panicked at ")?;
    place.strip_suffix(':')
}

/// The number before the word `what`.
fn number(result: &str, what: &str) -> u64 {
    let part = result.split([';', '.']).find_map(|part| part.trim().strip_suffix(what));
    part.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

/// Whether a line belongs to the backtrace of a build script. Backtraces say less than the message.
fn is_of_backtrace(line: &str) -> bool {
    let line = line.trim_start();
    let digits = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_frame = digits.len() < line.len() && digits.starts_with(": ");
    is_frame || line.starts_with("at /") || line.starts_with("at ./") || line == "stack backtrace:"
}

/// Whether a line is cargo's progress, such as `   Compiling net v0.1.0`, with the verb in the
/// first twelve columns.
fn is_progress(line: &str) -> bool {
    let Some((head, rest)) = line.split_at_checked(12) else { return false };
    let verb = head.trim_start();
    let is_verb = verb.len() > 3 && verb.chars().all(char::is_alphabetic);
    is_verb && verb.starts_with(char::is_uppercase) && rest.starts_with(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The report that was read, and the lines that were shown.
    fn read(text: &str) -> (Report, Vec<&str>) {
        let mut report = Report::default();
        let shown = text.lines().filter(|line| report.read(line)).collect();
        report.end();
        (report, shown)
    }

    #[test]
    fn every_failed_test_of_several_programs_is_named_with_its_reason() {
        let (report, shown) = read(include_str!("samples/failures.txt"));
        let failed = |program: &str, test: &str, reason: &str| {
            let [program, test, reason] = [program, test, reason].map(str::to_owned);
            Failed { program, test, reason }
        };
        let differs = "assertion `left == right` failed: f is wrong (one/src/lib.rs:9:53)";
        let example = "assertion `left == right` failed \
                       (/tmp/rustdoctestNwD8KE/doctest_bundle_2024.rs:6:1)";
        let expected = [
            failed("-p one --lib", "tests::says", "it is (one/src/lib.rs:10:25)"),
            failed("-p one --lib", "tests::differs", differs),
            failed("-p one --test bare", "", "no harness here (one/tests/bare.rs:1:42)"),
            failed("-p one --test vectors", "returns", "Error: \"no file\""),
            failed(
                "-p two --test vectors",
                "",
                "the test program ended: (signal: 6, SIGABRT: process abort signal)",
            ),
            failed("-p one --doc", "one/src/lib.rs - f (line 1)", example),
        ];
        assert_eq!(report.failed, expected);
        assert_eq!(report.passed, 3);
        assert_eq!(report.ignored, [("tests::slow".to_owned(), "needs an hour".to_owned())]);
        assert_eq!(report.build_errors, [""; 0]);
        assert!(shown.contains(&"test tests::says ... FAILED"));
        assert!(shown.contains(&" right: 2"), "what failed is shown whole");
        assert!(!shown.contains(&"test tests::holds ... ok"));
    }

    #[test]
    fn an_error_of_the_compiler_is_kept() {
        let (report, shown) = read(include_str!("samples/compile-error.txt"));
        assert_eq!(report.build_errors.len(), 2, "{:#?}", report.build_errors);
        assert!(
            report.build_errors[0].starts_with("error[E0308]: mismatched types\n --> one/tests")
        );
        assert!(report.build_errors[1].starts_with("error: could not compile `one`"));
        assert!(shown.iter().any(|line| line.contains("Compiling one")));
    }

    #[test]
    fn an_error_of_a_build_script_is_kept_with_its_end() {
        let (report, _) = read(include_str!("samples/build-script.txt"));
        let [error] = &report.build_errors[..] else { panic!("{:#?}", report.build_errors) };
        assert!(error.starts_with("error: failed to run custom build command for `two v0.1.0"));
        assert!(error.contains("failed to execute make"), "{error}");
        assert!(!error.contains("rust_begin_unwind"), "{error}");
    }

    #[test]
    fn a_long_error_keeps_its_beginning_and_its_end() {
        let lines: Vec<_> = (0..100).map(|number| format!("  line {number}")).collect();
        let text = format!("error: failed\n{}\nwarning: build failed", lines.join("\n"));
        let (report, _) = read(&text);
        let [error] = &report.build_errors[..] else { panic!("{:#?}", report.build_errors) };
        assert_eq!(error.lines().count(), FIRST_LINES + LAST_LINES + 1);
        assert!(error.starts_with("error: failed\n  line 0\n") && error.ends_with("line 99"));
        assert!(error.contains("\n    (73 lines)\n"), "{error}");
    }

    #[test]
    fn a_program_without_the_usual_harness_is_read_too() {
        let (report, _) = read(
            "     Running tests/real_macsec.rs (target/debug/deps/real_macsec-0123456789abcdef)\n\
             test bridge/static-128 ... ok (4 frames; 2 s)\n\
             test bridge/mka ... FAILED\n\
             iperf3 reported no rate\n\
             test bridge/vlan ... ok (1 s)\n\
             test result: FAILED. 2 passed; 1 failed; 0 ignored\n\
             error: test failed, to rerun pass `-p interop-gateway --test real_macsec`\n",
        );
        let [failed] = &report.failed[..] else { panic!("{:#?}", report.failed) };
        assert_eq!((&*failed.test, &*failed.reason), ("bridge/mka", "iperf3 reported no rate"));
        assert_eq!(failed.program, "-p interop-gateway --test real_macsec");
        assert_eq!(report.passed, 2);
    }
}
