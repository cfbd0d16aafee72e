//! `cargo xtask test`: every test there is, and one line that counts them.

use crate::process::cargo;
use crate::{Failure, system};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// One run of cargo that ends in its own `test result` lines, which are counted.
struct Step {
    name: &'static str,
    arguments: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
    /// Makes sure that it can run here; where it cannot, the error says why, and the
    /// step is skipped.
    require: fn() -> Result<(), String>,
}

/// What is run, in this order. A fuzz smoke run is a test with a fixed seed and is
/// listed here like any other.
const STEPS: &[Step] = &[
    Step {
        name: "the workspace",
        arguments: &["test", "--workspace", "--no-fail-fast"],
        environment: &[],
        require: nothing,
    },
    // What is compiled in only to be broken.
    Step {
        name: "the forgery of aggregated GCM tags",
        arguments: &[
            "test",
            "--package",
            "dtls",
            "--package",
            "fuzz",
            "--features",
            "dtls/dangerous-gcm-aggregation,fuzz/dangerous-gcm-aggregation",
            "--test",
            "dangerous",
            "--test",
            "forgery",
        ],
        environment: &[],
        require: nothing,
    },
    // What no x86 processor of today runs by itself: AES without instructions for it. In
    // release, so that constant time is also checked of the code that ships. Other flags
    // get a folder of their own, or each run would compile everything again.
    Step {
        name: "LightMAC over AES in software, in release",
        arguments: &[
            "test",
            "--package",
            "lightmac",
            "--release",
            "--test",
            "aes_kernels",
            "--test",
            "constant_time",
            "--test",
            "vectors",
            "--target-dir",
            "target/aes-in-software",
        ],
        environment: &[("RUSTFLAGS", "--cfg aes_backend=\"soft\"")],
        require: nothing,
    },
    // musl, because with it Rust brings all that a program is linked from.
    Step {
        name: "LightMAC on aarch64, emulated",
        arguments: &[
            "test",
            "--package",
            "lightmac",
            "--lib",
            "--tests",
            "--target",
            system::EMULATED_TARGET,
        ],
        environment: &[
            ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER", "rust-lld"),
            // Every instruction that the emulator knows, AES among them.
            ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER", "qemu-aarch64 -cpu max"),
            // Cases are about ten times slower here, and were tried above.
            ("PROPTEST_CASES", "24"),
            ("CARGO_PROFILE_DEV_DEBUG", "0"),
            ("CARGO_PROFILE_TEST_DEBUG", "0"),
        ],
        require: system::require_emulation,
    },
];

/// For a step that runs wherever cargo does.
fn nothing() -> Result<(), String> {
    Ok(())
}

pub(crate) fn run() -> Result<(), Failure> {
    system::require_packages()?;
    let mut total = Count::default();
    let mut broken = Vec::new();
    // Without it the tests that need it say so, one by one.
    if let Err(reason) = system::require_java() {
        println!("not testing with Scandium: {reason}");
    }
    if let Err(reason) = system::require_guest() {
        println!("not testing with real MACsec: {reason}");
    }
    if let Err(reason) = system::require_standby() {
        println!("not testing an active and a standby gateway: {reason}");
    }
    let program = std::env::current_exe().ok();
    let folder = program.as_deref().and_then(Path::parent);
    for Step { name, arguments, environment, require } in STEPS {
        if let Err(reason) = require() {
            println!("not testing {name}: {reason}");
            total.skipped.push(format!("{name}: {reason}"));
            continue;
        }
        println!("testing {name}: cargo {}", arguments.join(" "));
        let mut command = cargo(arguments);
        command.envs(environment.iter().copied());
        // The workspace's tests build it before they run; to build it for itself alone is to
        // build what it depends on once more, with fewer features.
        if let Some(folder) = folder {
            command.env("LIGHTSEAL_PROGRAM", folder.join("lightseal"));
        }
        let (count, success) = counted(command).map_err(Failure::Failed)?;
        // Cargo also fails when a test does not compile, which no line counts.
        if !success && count.failed == 0 {
            broken.push(*name);
        }
        total.add(&count);
    }
    for skipped in &total.skipped {
        println!("skipped: {skipped}");
    }
    println!("{} passed, {} failed, {} skipped", total.passed, total.failed, total.skipped.len());
    if !broken.is_empty() {
        return Err(Failure::Failed(format!("did not run to its end: {}", broken.join(", "))));
    }
    if total.failed > 0 {
        return Err(Failure::Failed(format!("{} tests failed", total.failed)));
    }
    if total.passed == 0 {
        return Err(Failure::Failed("no test ran".into()));
    }
    Ok(())
}

/// What the test programs said of themselves.
#[derive(Debug, Default, PartialEq)]
struct Count {
    passed: u64,
    failed: u64,
    /// Name and reason of each.
    skipped: Vec<String>,
}

impl Count {
    fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped.extend_from_slice(&other.skipped);
    }

    /// Takes in one line that a test program printed.
    fn read(&mut self, line: &str) {
        if let Some(result) = line.strip_prefix("test result: ") {
            let number = |what: &str| {
                let part = result.split([';', '.']).find_map(|part| part.trim().strip_suffix(what));
                part.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
            };
            self.passed += number("passed");
            self.failed += number("failed");
        } else if let Some((name, reason)) =
            line.strip_prefix("test ").and_then(|test| test.split_once(" ... ignored"))
        {
            let reason = reason.trim_start_matches(", ");
            let reason = if reason.is_empty() { "no reason given" } else { reason };
            self.skipped.push(format!("{name}: {reason}"));
        }
    }
}

/// Runs `command`, shows what it prints and counts; also whether it succeeded.
fn counted(mut command: Command) -> Result<(Count, bool), String> {
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
    let stdout = child.stdout.take().expect("its standard output was piped");
    let mut count = Count::default();
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line.map_err(|error| error.to_string())?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        count.read(&line);
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    Ok((count, status.success()))
}

#[cfg(test)]
mod tests {
    use super::Count;

    #[test]
    fn result_lines_are_counted_and_nothing_else() {
        let mut count = Count::default();
        for line in [
            "running 9 tests",
            "test wire::cut ... ok",
            "test slow ... ignored, needs an hour",
            "test result: ok. 7 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.1s",
            "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.0s",
            "7 passed",
        ] {
            count.read(line);
        }
        assert_eq!((count.passed, count.failed), (8, 2));
        assert_eq!(count.skipped, ["slow: needs an hour"]);
    }
}
