//! Claims on the instructions that LightMAC takes for each byte, on aarch64 and, for the step from
//! one length to the next, on this processor's architecture.
//!
//! QEMU's emulation of programs counts them exactly: the example `work` of the crate `lightmac` runs
//! twice, the second time with more repetitions, and the difference is divided by what was repeated.
//! Instruction counts do not depend on the machine's load.

use super::prelude::*;
use crate::process::{capture, cargo, command, run, succeeds, target_dir, workspace};
use crate::system;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

const COUNTED: &str = "counted by QEMU. Bar: our own target";

pub(super) fn claims() -> Vec<Claim> {
    let native =
        [("64", 64, 5.0), ("1k", 1024, 2.2), ("8k", 8192, 2.1)].map(|(name, bytes, bar)| {
            format!(
            "Instructions a byte of LightMAC over AES-128 on aarch64 with the AES extension, s = \
             16, a message of {bytes} B, {COUNTED}"
        )
        .claim(format!("lightmac-arm-aes-{name}"), AtMost(bar), Seconds(2))
        .by(move || alone(&AES, bytes))
        });
    let batch = format!(
        "Instructions a byte of LightMAC over AES-128 on aarch64 with the AES extension, s = 16, \
         batches of messages of 64 B, {COUNTED}"
    )
    .claim("lightmac-arm-aes-batch", AtMost(3.0), Seconds(2))
    .by(|| figure(&AES, "batch", 64));
    let software = "Instructions of LightMAC over AES-128 on aarch64 without AES instructions, s = \
                    16, over those of the crate `aes` for as many blocks in bulk: messages of 1 KiB \
                    to 8 KiB, the worst length, counted by QEMU. Bar: our own target"
        .claim("lightmac-arm-soft", AtMost(1.15), Seconds(10))
        .by(|| over_bulk("alone", &[1024, 2048, 3000, 8192]));
    let software_batch = "Instructions of LightMAC over AES-128 on aarch64 without AES instructions, s \
                          = 16, over those of the crate `aes` for as many blocks in bulk: batches of \
                          messages of 64 B, counted by QEMU. Bar: our own target"
        .claim("lightmac-arm-soft-batch", AtMost(1.15), Seconds(5))
        .by(|| over_bulk("batch", &[64]));
    let present = format!(
        "Instructions a byte of LightMAC over PRESENT-80 on aarch64 with the SHA3 extension, \
         s = 16, a message of 2 KiB, \
         {COUNTED}"
    )
    .claim("lightmac-arm-present", AtMost(20.0), Seconds(2))
    .by(|| alone(&PRESENT, 2048));
    let step =
        "Instructions a byte of LightMAC over AES-128, s = 16, over those of the next shorter \
                power of two: messages of 1 KiB to 64 KiB, each kernel that can be emulated, on \
                aarch64 and x86-64; the worst length, counted by QEMU. Bar: our own target"
            .claim("lightmac-steps", AtMost(1.1), Seconds(60))
            .by(steps);
    native.into_iter().chain([batch, software, software_batch, present, step]).collect()
}

/// How the example is built and run.
#[derive(Clone, Copy)]
struct Work {
    /// Rust's name of the target; `None` for that of this machine.
    target: Option<&'static str>,
    /// The emulator and its options.
    emulator: &'static str,
    cipher: &'static str,
    kernel: &'static str,
    /// Whether the crate `aes` is built without AES instructions.
    soft: bool,
}

const AES: Work = Work {
    target: Some(system::EMULATED_TARGET),
    emulator: "qemu-aarch64",
    cipher: "aes-128",
    kernel: "arm-aes",
    soft: false,
};
const PRESENT: Work = Work { cipher: "present-80", kernel: "neon", ..AES };
const SOFT: Work = Work { kernel: "portable", soft: true, ..AES };

/// Number of messages in a batch of the example.
const MESSAGES: u64 = 64;
/// Repetitions of the shorter run, in which memory is used for the first time.
const FEW: u64 = 2;

impl Work {
    /// Builds the example and returns its path.
    fn built(self) -> Result<PathBuf, Failure> {
        let mut build = cargo(&["build", "--quiet", "--release", "--package", "lightmac"]);
        build.args(["--example", "work"]);
        let mut folder = target_dir();
        if let Some(target) = self.target {
            system::require_emulation().map_err(Failure::NotPossibleHere)?;
            build.args(["--target", target]);
            build.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER", "rust-lld");
        }
        if self.soft {
            // Its compiler flags differ, so in the usual folder each run would build everything.
            folder = folder.join("portable-aes");
            build.env("RUSTFLAGS", "--cfg aes_backend=\"soft\"").arg("--target-dir").arg(&folder);
        }
        run(build).map_err(Failure::Failed)?;
        Ok(folder.join(self.target.unwrap_or_default()).join("release/examples/work"))
    }

    /// Instructions for one repetition of `form` with `bytes` bytes.
    fn instructions(self, form: &str, bytes: u64) -> Result<f64, Failure> {
        let (plugin, program) = (plugin()?, self.built()?);
        let more = (20_000 / bytes).max(2);
        let count = |times: u64| {
            let mut qemu = command(self.emulator, &["-cpu", "max", "-plugin"]);
            qemu.arg(&plugin).arg(&program).args([self.cipher, self.kernel, form]);
            qemu.args([bytes.to_string(), times.to_string()]);
            counted(qemu)
        };
        let (few, many) = (count(FEW)?, count(FEW + more)?);
        Ok(many.saturating_sub(few) as f64 / more as f64)
    }
}

/// Runs the example under the plugin and returns what it counted.
fn counted(mut qemu: Command) -> Result<u64, Failure> {
    let output = qemu.output().map_err(|error| Failure::NotPossibleHere(error.to_string()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let count = said.lines().find_map(|line| line.strip_prefix("executed ")?.parse().ok());
    count.filter(|_| output.status.success()).ok_or_else(|| {
        let last = said.lines().last().unwrap_or("it printed no count");
        Failure::Failed(format!("the example `work` in QEMU: {last}"))
    })
}

/// The plugin that counts, which is compiled once in a process.
fn plugin() -> Result<PathBuf, Failure> {
    static COMPILED: LazyLock<Result<PathBuf, String>> = LazyLock::new(|| {
        if !succeeds(command("cc", &["--version"])) {
            return Err("a C compiler is not installed (package gcc)".into());
        }
        let source = workspace().join("crates/tracer/src/steps.c");
        let plugin = target_dir().join("steps.so");
        let mut cc = command("cc", &["-shared", "-fPIC", "-fvisibility=hidden", "-O2", "-o"]);
        run(cc.arg(&plugin).arg(source))?;
        Ok(plugin)
    });
    COMPILED.clone().map_err(Failure::NotPossibleHere)
}

/// Instructions for each byte.
fn figure(work: &Work, form: &str, bytes: u64) -> Result<Measured, Failure> {
    let messages = if form == "batch" { MESSAGES } else { 1 };
    let instructions = work.instructions(form, bytes)? / messages as f64;
    let detail = format!("{instructions:.0} instructions for {bytes} B");
    Ok(Measured { figure: instructions / bytes as f64, detail })
}

/// Instructions for each byte of one message, beside those of the cipher in bulk.
fn alone(work: &Work, bytes: u64) -> Result<Measured, Failure> {
    let mut measured = figure(work, "alone", bytes)?;
    let bulk = figure(work, "bulk", bytes)?;
    let _ = write!(measured.detail, "; the cipher in bulk: {:.2} a byte", bulk.figure);
    if work.cipher == AES.cipher {
        let model = modelled(&work.built()?);
        let model = model.unwrap_or_else(|reason| format!("not measurable here: {reason}"));
        let _ = write!(
            measured.detail,
            "\nmodelled by llvm-mca for Neoverse V1, eight blocks: {model}"
        );
    }
    Ok(measured)
}

/// The cycles that llvm-mca computes for the loop over eight blocks of a message, without the memory.
fn modelled(program: &Path) -> Result<String, String> {
    const MCA: &str = "llvm-mca-19";
    const OBJDUMP: &str = "llvm-objdump-19";
    for tool in [MCA, OBJDUMP] {
        if !succeeds(command(tool, &["--version"])) {
            return Err(format!("{tool} is not installed (package llvm-19)"));
        }
    }
    let mut objdump = command(OBJDUMP, &["--disassemble", "--no-show-raw-insn"]);
    objdump.arg(program);
    let code = capture(objdump)?;
    let found = shortest_loop(&code).ok_or("the loop was not found in the program")?;
    let file = target_dir().join("loop.s");
    std::fs::write(&file, found).map_err(|error| error.to_string())?;
    let mut mca = command(MCA, &["-mtriple=aarch64", "-mcpu=neoverse-v1", "-iterations=100"]);
    mca.arg(&file);
    let said = capture(mca)?;
    let cycles =
        said.lines().find_map(|line| line.strip_prefix("Total Cycles:")?.trim().parse().ok());
    let cycles: f64 = cycles.ok_or("llvm-mca printed no cycles")?;
    Ok(format!("{:.1} cycles, {:.3} a byte", cycles / 100.0, cycles / 100.0 / (8.0 * 14.0)))
}

/// The instructions of the shortest loop with the rounds of eight blocks of AES-128, without its
/// branches.
fn shortest_loop(code: &str) -> Option<String> {
    const ROUNDS: usize = 80;
    let mut function = Vec::<(&str, &str)>::new();
    let mut shortest = None::<Vec<&str>>;
    for line in code.lines() {
        let Some((address, instruction)) =
            line.trim().split_once(":").filter(|_| line.starts_with(' '))
        else {
            function.clear();
            continue;
        };
        let instruction = instruction.trim();
        function.push((address, instruction));
        let target = instruction.split("0x").nth(1).and_then(|to| to.split_whitespace().next());
        let is_branch = instruction.starts_with("b") || instruction.starts_with("cb");
        let Some(start) = target
            .filter(|_| is_branch)
            .and_then(|target| function.iter().position(|(address, _)| *address == target))
        else {
            continue;
        };
        let body: Vec<_> = function[start..].iter().map(|(_, instruction)| *instruction).collect();
        let rounds = body.iter().filter(|instruction| instruction.starts_with("aese\t")).count();
        if rounds == ROUNDS && shortest.as_ref().is_none_or(|other| body.len() < other.len()) {
            shortest = Some(body);
        }
    }
    let branches = ["b.", "b\t", "cb", "tb", "bl"];
    let kept =
        shortest?.into_iter().filter(|one| !branches.iter().any(|name| one.starts_with(name)));
    Some(kept.map(|instruction| format!("{}\n", instruction.replace("//", "#"))).collect())
}

/// Number of blocks of 16 bytes that LightMAC encrypts for a message, the last call included.
fn blocks(bytes: u64) -> u64 {
    bytes / 14 + 1
}

/// The worst ratio over the cipher in bulk, with AES in software.
fn over_bulk(form: &str, lengths: &[u64]) -> Result<Measured, Failure> {
    let mut worst = Measured { figure: 0.0, detail: String::new() };
    let messages = if form == "batch" { MESSAGES } else { 1 };
    for &bytes in lengths {
        let ours = SOFT.instructions(form, bytes)?;
        let bulk = SOFT.instructions("bulk", 16 * messages * blocks(bytes))?;
        let ratio = ours / bulk;
        let _ = writeln!(worst.detail, "{bytes} B: {ours:.0} over {bulk:.0}, {ratio:.3}");
        worst.figure = worst.figure.max(ratio);
    }
    Ok(worst)
}

/// The kernels whose steps are measured. QEMU does not emulate AVX-512.
fn emulated() -> Vec<Work> {
    let mut all = vec![AES, Work { kernel: "portable", ..AES }, SOFT];
    if cfg!(target_arch = "x86_64") {
        let native = Work { target: None, emulator: "qemu-x86_64", ..AES };
        all.extend(["portable", "aes-ni", "vaes-256"].map(|kernel| Work { kernel, ..native }));
    }
    all
}

fn steps() -> Result<Measured, Failure> {
    let mut worst = Measured { figure: 0.0, detail: String::new() };
    for work in emulated() {
        let mut of_kernel = (0.0, 0);
        for power in 10..16 {
            let power = 1u64 << power;
            let base = work.instructions("alone", power)? / power as f64;
            let between = [power + 9, power * 5 / 4, power * 11 / 8, power * 3 / 2, power * 7 / 4];
            for bytes in between.into_iter().chain([power * 2 - 1, power * 2]) {
                let step = work.instructions("alone", bytes)? / bytes as f64 / base;
                if step > of_kernel.0 {
                    of_kernel = (step, bytes);
                }
            }
        }
        let (step, bytes) = of_kernel;
        let (soft, emulator) = (if work.soft { ", AES in software" } else { "" }, work.emulator);
        let _ = writeln!(worst.detail, "{emulator}, {}{soft}: {step:.3} at {bytes} B", work.kernel);
        worst.figure = worst.figure.max(step);
    }
    if cfg!(target_arch = "x86_64") {
        worst.detail += "vaes-512: not measurable here: qemu-user emulates no AVX-512";
    }
    Ok(worst)
}
