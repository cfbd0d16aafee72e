//! Claims on the instructions that it takes to seal, open and take a record under shared tags.
//!
//! callgrind counts the instructions of a program that does nothing else, once with few and once
//! with many records; the difference is divided by the number of additional records. Instruction
//! counts do not depend on the machine's load.

use super::prelude::*;
use crate::process::{command, succeeds, target_dir};
use std::path::PathBuf;

pub(super) fn claims() -> Vec<Claim> {
    let schemes = [("agg:8", 1.05), ("r2d2:50", 1.3), ("r2d2:200", 1.6)];
    let native = schemes.map(|(scheme, bar)| {
        format!(
            "Instructions to seal, open and take a record of 30 B under {scheme}, over those with \
             a plain tag, LightMAC suite. Bar: our own target"
        )
        .claim(name(scheme), AtMost(bar), Seconds(10))
        .by(move || over_plain(scheme, Aes::Native))
    });
    let portable = schemes.map(|(scheme, bar)| {
        format!(
            "Instructions to seal, open and take a record of 30 B under {scheme}, over those with \
             a plain tag, LightMAC suite with AES in software, as on a small device. Bar: our own \
             target"
        )
        .claim(name(scheme) + "-portable", AtMost(bar), Seconds(10))
        .by(move || over_plain(scheme, Aes::Portable))
    });
    native.into_iter().chain(portable).collect()
}

fn name(scheme: &str) -> String {
    format!("instructions-{}", scheme.replace(':', "-"))
}

/// How AES is computed.
#[derive(Clone, Copy)]
enum Aes {
    /// With the processor's AES instructions, if it has them.
    Native,
    /// In software, bit-sliced.
    Portable,
}

/// Bytes of payload in a record.
const PAYLOAD_BYTES: &str = "30";
/// Numbers of records of the two runs. Both runs set up keys, so that this part cancels out.
const FEW: u64 = 2_000;
const MANY: u64 = 12_000;

fn over_plain(scheme: &str, aes: Aes) -> Result<Measured, Failure> {
    if !succeeds(command("valgrind", &["--version"])) {
        return Err(Failure::NotPossibleHere("valgrind is not installed".into()));
    }
    let (plain, shared) = (a_record("off", aes)?, a_record(scheme, aes)?);
    let detail =
        format!("{plain:.0} instructions a record with plain tags, {shared:.0} with {scheme}");
    Ok(Measured { figure: shared / plain, detail })
}

/// Instructions that it takes to seal, open and take one record.
fn a_record(scheme: &str, aes: Aes) -> Result<f64, Failure> {
    let (few, many) = (count(scheme, FEW, aes)?, count(scheme, MANY, aes)?);
    if many <= few {
        return Err(Failure::Failed(format!("{MANY} records cost no more than {FEW}")));
    }
    Ok((many - few) as f64 / (MANY - FEW) as f64)
}

/// Instructions of a program that seals, opens and takes this number of records.
fn count(scheme: &str, records: u64, aes: Aes) -> Result<u64, Failure> {
    const RUNNER: &str = "target.'cfg(all())'.runner = ['valgrind', '--tool=callgrind', \
                          '--callgrind-out-file=/dev/null']";
    let records = records.to_string();
    let mut run = RECORDS.cargo();
    run.args(["--config", RUNNER]);
    if let Aes::Portable = aes {
        run.env("RUSTFLAGS", "--cfg aes_backend=\"soft\"").arg("--target-dir").arg(portable_dir());
    }
    let broken = |what: &str| Failure::Failed(format!("records under callgrind: {what}"));
    let output = run
        .args(["--", scheme, &records, PAYLOAD_BYTES])
        .output()
        .map_err(|error| broken(&error.to_string()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(broken(said.lines().last().unwrap_or("failed")));
    }
    let count =
        said.lines().find_map(|line| line.split("Collected : ").nth(1)?.trim().parse().ok());
    count.ok_or_else(|| broken("it printed no count"))
}

/// The target folder of the program with AES in software. Its compiler flags differ, so in the
/// usual folder each run would build everything again.
fn portable_dir() -> PathBuf {
    target_dir().join("portable-aes")
}
