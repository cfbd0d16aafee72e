//! Runs an operation with several secrets under QEMU's emulation, and compares the runs.
//!
//! A plugin, `steps.c`, hashes the addresses of all instructions of an operation, in their order,
//! and those of all memory accesses. Processes that are forked from the same state have the same
//! addresses, so the hashes must be equal. What is compared is what the tracer for x86-64 compares,
//! except for divisions: the plugin does not see their operands.

use crate::alike::{Alike, assert_comparable};
use nix::sys::signal::{Signal, raise};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use std::fmt;
use std::fs;
use std::hint::{black_box, spin_loop};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;

/// The environment variable that names the file to which the plugin writes.
const TRACE: &str = "LIGHTSEAL_TRACE";

/// A difference between runs, which reveals a secret.
#[derive(Debug)]
pub struct Leak {
    /// The kind of difference.
    pub what: What,
}

/// How an operation reveals a secret.
#[derive(Debug, PartialEq)]
pub enum What {
    /// The processes execute different instructions, because of a branch on a secret.
    Path,
    /// The processes use different memory addresses, because of an index derived from a secret.
    Address,
}

impl fmt::Display for Leak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} differs", self.what)
    }
}

/// What the plugin wrote about one run.
#[derive(PartialEq)]
struct Run {
    alike: Alike,
    path_hash: u64,
    address_hash: u64,
}

/// Runs `operation` on the value that `prepare` makes from each of `secrets`, and compares the
/// runs. `prepare` is not traced.
///
/// # Panics
///
/// Panics if this program does not run under the plugin, or if the operation panics.
pub fn compare<T, R>(
    secrets: &[Vec<u8>],
    prepare: impl Fn(&[u8]) -> T,
    operation: impl Fn(&mut T) -> R,
) -> Result<Alike, Leak> {
    assert_comparable(secrets);
    let file = std::env::var(TRACE).expect("the test runs under the plugin");
    let before = fs::read_to_string(&file).expect("the plugin's file").lines().count();
    let mut secret = secrets[0].clone();
    // Nothing is allocated between the forks, so the processes differ in the secret alone.
    for each in secrets {
        secret.copy_from_slice(each);
        perform(&secret, &prepare, &operation);
    }
    let written = fs::read_to_string(&file).expect("the plugin's file");
    let runs: Vec<_> = written.lines().skip(before).map(read).collect();
    assert_eq!(runs.len(), secrets.len(), "an operation panicked");
    for pair in runs.windows(2) {
        if (pair[0].alike.instructions, pair[0].path_hash)
            != (pair[1].alike.instructions, pair[1].path_hash)
        {
            return Err(Leak { what: What::Path });
        }
        if pair[0] != pair[1] {
            return Err(Leak { what: What::Address });
        }
    }
    let alike = runs[0].alike;
    assert!(alike.instructions > 0 && alike.addresses > 0, "the plugin saw nothing");
    Ok(alike)
}

/// Parses a line of the plugin.
fn read(line: &str) -> Run {
    let mut numbers = line.split(' ').map(|number| number.parse().expect("a number"));
    let mut next = || numbers.next().expect("four numbers");
    let (instructions, path_hash, addresses, address_hash) = (next(), next(), next(), next());
    Run { alike: Alike { instructions, addresses }, path_hash, address_hash }
}

/// Runs the operation in a forked process, and waits for its end.
fn perform<T, R>(secret: &[u8], prepare: impl Fn(&[u8]) -> T, operation: impl Fn(&mut T) -> R) {
    // SAFETY: the child takes no lock that another thread of this process may hold, because the
    // tests run one after the other under the plugin.
    match unsafe { fork() }.expect("a process can be forked") {
        ForkResult::Parent { child } => {
            let ended = waitpid(child, None).expect("a child process can be awaited");
            assert!(matches!(ended, WaitStatus::Signaled(_, Signal::SIGKILL, _)), "{ended:?}");
        }
        ForkResult::Child => {
            let _ = catch_unwind(AssertUnwindSafe(|| {
                let mut prepared = prepare(black_box(secret));
                let prepared = black_box(&mut prepared);
                // The marks of the plugin.
                spin_loop();
                black_box(operation(prepared));
                spin_loop();
            }));
            // The child must never return to the test harness, of which it is a copy.
            let _ = raise(Signal::SIGKILL);
            std::process::abort();
        }
    }
}

/// Runs the ignored tests whose names begin with `names` under the plugin. It is skipped if
/// there is no emulator or no compiler.
///
/// # Panics
///
/// Panics if one of the tests fails.
pub fn run_ignored(names: &str) {
    for tool in ["qemu-aarch64", "cc"] {
        if Command::new(tool).arg("--version").output().is_err() {
            return skip::test(format_args!("{tool} is not installed"));
        }
    }
    let folder = std::env::temp_dir().join(format!("lightseal-trace-{}", std::process::id()));
    fs::create_dir(&folder).expect("a folder of this process");
    let (plugin, trace) = (folder.join("steps.so"), folder.join("trace"));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/steps.c");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-fvisibility=hidden", "-O2", "-o"]).arg(&plugin).arg(source);
    let built = cc.status().expect("the compiler runs").success();
    let mut qemu = Command::new("qemu-aarch64");
    qemu.args(["-cpu", "max", "-plugin"]);
    qemu.arg(format!("{},out={}", plugin.display(), trace.display()));
    qemu.arg(std::env::current_exe().expect("this program has a path"));
    qemu.args(["--ignored", "--nocapture", "--test-threads=1", names]).env(TRACE, &trace);
    let run = built.then(|| qemu.output().expect("the emulator runs"));
    let _ = fs::remove_dir_all(&folder);
    let run = run.expect("the plugin is compiled");
    println!("{}", String::from_utf8_lossy(&run.stdout));
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}
