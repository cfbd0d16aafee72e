//! `cargo xtask processors`: the tests of the engines on other processors, in emulators.
//!
//! A cross compiler's linker links them, and QEMU's emulation of programs runs them; a kernel that runs
//! them by itself does without the emulator. The tests need no C.

use crate::Failure;
use crate::cross::{self, Machine, Outcome};
use crate::process::{command, succeeds, target_dir, workspace};
use crate::system::on_path;
use clap::Args;
use clap::builder::PossibleValuesParser;
use serde_json::Value;
use std::ffi::OsString;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Only these targets (all of them if none is named)
    #[arg(value_parser = PossibleValuesParser::new(PROCESSORS.map(|processor| processor.target)))]
    only: Vec<String>,
    /// Only the tests of these packages
    #[arg(short, long, value_parser = PossibleValuesParser::new(ENGINES))]
    package: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A kind of processor, and what links and runs its programs.
struct Processor {
    target: &'static str,
    what: &'static str,
    /// Prefix of the cross compiler's programs, and the name of its folder with the C library.
    toolchain: &'static str,
    emulator: &'static str,
    /// Debian's packages with both.
    packages: &'static str,
}

const I686: &str = "i686-unknown-linux-gnu";
/// The variables with what cargo hands to the compiler, and to rustdoc, which links the examples of
/// documents.
const I686_FLAGS: [&str; 2] = [
    "CARGO_TARGET_I686_UNKNOWN_LINUX_GNU_RUSTFLAGS",
    "CARGO_TARGET_I686_UNKNOWN_LINUX_GNU_RUSTDOCFLAGS",
];

const PROCESSORS: [Processor; 4] = [
    Processor {
        target: "s390x-unknown-linux-gnu",
        what: "64 bits, big-endian",
        toolchain: "s390x-linux-gnu",
        emulator: "qemu-s390x",
        packages: "gcc-s390x-linux-gnu qemu-user",
    },
    Processor {
        target: "armv7-unknown-linux-gnueabihf",
        what: "32 bits",
        toolchain: "arm-linux-gnueabihf",
        emulator: "qemu-arm",
        packages: "gcc-arm-linux-gnueabihf qemu-user",
    },
    Processor {
        target: I686,
        what: "32 bits",
        toolchain: "i686-linux-gnu",
        emulator: "qemu-i386",
        packages: "gcc-i686-linux-gnu qemu-user",
    },
    Processor {
        target: "aarch64-unknown-linux-gnu",
        what: "64 bits",
        toolchain: "aarch64-linux-gnu",
        emulator: "qemu-aarch64",
        packages: "gcc-aarch64-linux-gnu qemu-user",
    },
];

impl Processor {
    fn linker(&self) -> String {
        format!("{}-gcc", self.toolchain)
    }

    /// The folder of the C library.
    fn libraries(&self) -> String {
        format!("/usr/{}", self.toolchain)
    }

    /// Whether this kernel runs the target's programs: 64-bit x86 runs those of 32 bits. (QEMU 7.2
    /// loses the thread-local memory of an i386 program in a signal after its second thread.)
    fn runs_natively(&self) -> bool {
        let loader = format!("{}/lib/ld-linux.so.2", self.libraries());
        self.target == I686
            && cfg!(target_arch = "x86_64")
            && succeeds(command(&loader, &["--version"]))
    }

    fn machine(&self) -> Machine {
        let libraries = self.libraries();
        let (runner, environment) = if self.runs_natively() {
            let paths =
                format!("--dynamic-linker={libraries}/lib/ld-linux.so.2,-rpath,{libraries}/lib");
            let flags = OsString::from(format!("-Clink-arg=-Wl,{paths}"));
            (vec![], I686_FLAGS.map(|name| (name, flags.clone())).into())
        } else {
            let runner = vec![self.emulator.into(), "-L".into(), libraries.clone()];
            // A test may start the emulator itself, with a plugin.
            (runner, vec![("QEMU_LD_PREFIX", libraries.into())])
        };
        Machine {
            target: self.target,
            what: self.what,
            linker: self.linker(),
            runner,
            environment,
            folder: "processors",
        }
    }
}

/// The packages without input and output.
pub(crate) const ENGINES: [&str; 9] = [
    "lightmac",
    "lightseal-aes-table",
    "lightseal-aggregation",
    "lightseal-core",
    "lightseal-dtls",
    "lightseal-gateway",
    "lightseal-group",
    "lightseal-macsec",
    "lightseal-present",
];

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let only = &arguments.only;
    let (mut all, mut bad, mut absent) = (Vec::new(), Vec::new(), Vec::new());
    for Processor { target, .. } in PROCESSORS {
        if !only.is_empty() && !only.iter().any(|name| name == target) {
            continue;
        }
        match test(target, &arguments.package, !arguments.json) {
            Ok(outcome) => {
                if !arguments.json {
                    println!("{}", outcome.text());
                }
                if !outcome.failed.is_empty() {
                    bad.push(target);
                }
                all.push(outcome.json());
            }
            Err(Failure::NotPossibleHere(why)) => absent.push(format!("{target}: {why}")),
            Err(failure) => return Err(failure),
        }
    }
    if arguments.json {
        println!("{}", Value::from(all));
    }
    if !bad.is_empty() {
        return Err(Failure::Failed(format!("tests failed on {}", bad.join(", "))));
    }
    if absent.is_empty() { Ok(()) } else { Err(Failure::NotPossibleHere(absent.join("\n"))) }
}

/// The targets on which tests can be run.
pub(crate) fn targets() -> impl Iterator<Item = &'static str> {
    PROCESSORS.into_iter().map(|processor| processor.target)
}

/// A processor, if its programs can be built and run here.
fn available(target: &str) -> Result<Machine, Failure> {
    let processor = PROCESSORS.into_iter().find(|processor| processor.target == target);
    let Some(processor) = processor else {
        return Err(Failure::NotPossibleHere(format!("{target} is not among the processors")));
    };
    let runs = processor.runs_natively() || on_path(processor.emulator);
    if !runs || !on_path(&processor.linker()) {
        return Err(Failure::NotPossibleHere(format!("apt install {}", processor.packages)));
    }
    cross::install(target).map_err(Failure::NotPossibleHere)?;
    Ok(processor.machine())
}

/// Builds the proxy alone for a target, with the cryptography of RustCrypto. Returns
/// the words that run it.
///
/// # Errors
/// If there is no cross compiler or emulator here, or cargo fails.
pub(crate) fn proxy(target: &str) -> Result<Vec<String>, Failure> {
    let words = ["--package", "lightseal", "--no-default-features", "--features", "proxy"];
    built(target, &words, "lightseal")
}

/// As [`proxy`], with the commands for groups. Members in an emulator send to multicast groups on IPv6 too.
///
/// # Errors
/// Also if the cross compiler cannot compile a library.
pub(crate) fn multicast(target: &str) -> Result<Vec<String>, Failure> {
    let words = ["--package", "lightseal", "--no-default-features", "--features", "group,proxy"];
    let machine = available(target)?;
    let mut line = built(target, &words, "lightseal")?;
    if machine.runner.is_empty() {
        return Ok(line);
    }
    let source = workspace().join("xtask/src/processors/setsockopt.c");
    let library = target_dir().join("processors").join(target).join("setsockopt.so");
    let mut compile = command(&machine.linker, &["-shared", "-fPIC", "-O", "-o"]);
    compile.arg(&library).arg(source);
    crate::process::run(compile).map_err(Failure::Failed)?;
    let program = line.len() - 1;
    line.splice(program..program, ["-E".into(), format!("LD_PRELOAD={}", library.display())]);
    Ok(line)
}

/// Builds the laboratory's program for a target, with optimisation. Returns the words that run it.
///
/// # Errors
/// As for [`proxy`].
pub(crate) fn lab(target: &str) -> Result<Vec<String>, Failure> {
    let words = ["--package", "lightseal-lab", "--no-default-features", "--profile", "test"];
    built(target, &words, "lightseal-lab")
}

fn built(target: &str, words: &[&str], name: &str) -> Result<Vec<String>, Failure> {
    available(target)?.built(&[&["--bin", name], words].concat(), name)
}

/// Runs the tests of these packages, of all engines if none is named, on a processor. `shows` says
/// whether what matters of the output is printed meanwhile.
///
/// # Errors
/// If there is no cross compiler or emulator here, or cargo cannot be started.
pub(crate) fn test(target: &str, packages: &[String], shows: bool) -> Result<Outcome, Failure> {
    let some: Vec<_> = packages.iter().map(String::as_str).collect();
    available(target)?.test(if some.is_empty() { &ENGINES } else { &some }, shows)
}
