//! `cargo xtask measure`: measurements on this machine, stored with date, commit and machine.

use crate::Failure;
use crate::process::{capture, command, workspace};
use crate::program::{LAB, Program};
use serde_json::{Value, json};
use std::fs;

/// A set of measurements whose results are stored.
struct MeasurementSet {
    name: &'static str,
    about: &'static str,
    /// The program that measures.
    means: Program,
    /// Its arguments. With them it prints JSON.
    words: &'static str,
}

const LIGHTMAC_SPEED: MeasurementSet = MeasurementSet {
    name: "lightmac-speed",
    about: "LightMAC and its rivals over AES and PRESENT on every kernel: the LightMAC paper's Tables 3, 4",
    means: LAB,
    words: "mac bench --cipher aes-128,present-80 --kernel all --mode lightmac,emac,pmac-parity \
            --bytes 128,256,512,1024,2048,4096,8192 --json",
};

const SETS: &[MeasurementSet] = &[LIGHTMAC_SPEED];

/// Columns that are not stored, since they follow from cycles a byte, message length and clock.
const DERIVED: [&str; 2] = ["ns", "cycles"];

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The set to measure; without it, the sets are listed
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(SETS.iter().map(|set| set.name)))]
    name: Option<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Some(set) = SETS.iter().find(|set| arguments.name.as_deref() == Some(set.name)) else {
        for MeasurementSet { name, about, .. } in SETS {
            println!("{name:20} {about}");
        }
        return Ok(());
    };
    let mut result = set.means.run(set.words).json()?;
    for row in result["rows"].as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut)
    {
        row.retain(|name, _| !DERIVED.contains(&name.as_str()));
    }
    let measured_with = format!("{} {}", set.means.name, set.words);
    let mut stored =
        stored(set.name, set.about, &format!("cargo xtask measure {}", set.name), result)?;
    stored["measured_with"] = json!(measured_with);
    let name = stored_name(set.name, &stored);
    let path = workspace().join("results").join(format!("{name}.json"));
    fs::write(&path, format!("{stored}\n"))
        .map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))?;
    println!("results/{name}.json");
    Ok(())
}

/// The file name of a stored result, without extension: the set, the processor, the date.
pub(crate) fn stored_name(set: &str, stored: &Value) -> String {
    let processor = stored.pointer("/machine/processor").and_then(Value::as_str);
    let date = stored["date"].as_str().unwrap_or_default();
    format!("{set}-{}-{date}", file_name(processor.unwrap_or_default()))
}

/// A processor's model as part of a file name, without trademark signs and clock rates.
fn file_name(processor: &str) -> String {
    let plain = processor.to_lowercase().replace("(r)", " ").replace("(tm)", " ");
    let plain = plain.split('@').next().unwrap_or_default();
    let words = plain.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-")
}

/// A result together with its origin: the set, the command, the date, the commit and the machine.
pub(crate) fn stored(
    name: &str,
    about: &str,
    command: &str,
    result: Value,
) -> Result<Value, Failure> {
    Ok(json!({
        "name": name,
        "about": about,
        "command": command,
        "date": said("date", &["-u", "+%Y-%m-%d"])?,
        "commit": format!("commit {}", commit()?),
        "machine": {
            "processor": processor(),
            "processors": std::thread::available_parallelism().map_or(1, usize::from),
            "kernel": said("uname", &["-sr"])?,
        },
        "result": result,
    }))
}

/// The commit that was measured, with the suffix `-dirty` if the work tree differs from it. Changes
/// in results/ and docs/, where measurements are written, do not count.
pub(crate) fn commit() -> Result<String, Failure> {
    let commit = said("git", &["describe", "--always", "--tags"])?;
    let all_but = [":/", ":!/results", ":!/docs"];
    let status = ["status", "--porcelain", "--untracked-files=no", "--"];
    let differs = !said("git", &[&status[..], &all_but].concat())?.is_empty();
    Ok(if differs { commit + "-dirty" } else { commit })
}

/// Date and commit, as they are written into a page.
pub(crate) fn now() -> Result<String, Failure> {
    Ok(format!("{} at commit {}", said("date", &["-u", "+%Y-%m-%d"])?, commit()?))
}

/// The output of a program, trimmed.
fn said(program: &str, arguments: &[&str]) -> Result<String, Failure> {
    let text = capture(command(program, arguments)).map_err(Failure::NotPossibleHere)?;
    Ok(text.trim().to_owned())
}

/// The processor's model, if the kernel knows it.
pub(crate) fn processor() -> String {
    let known = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    model(&known).unwrap_or("an unknown processor").to_owned()
}

fn model(cpuinfo: &str) -> Option<&str> {
    let fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    fields
        .map(|(name, value)| (name.trim(), value.trim()))
        .find(|field| field.0 == "model name")
        .map(|f| f.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_named_as_the_kernel_does() {
        let text = "processor\t: 0\nmodel\t\t: 7\nmodel name\t: Core i7-6700 @ 3.40GHz\n\nprocessor\t: 1\n";
        assert_eq!(model(text), Some("Core i7-6700 @ 3.40GHz"));
        assert_eq!(model("processor\t: 0\n"), None);
    }

    #[test]
    fn results_are_stored_by_processor() {
        let of = |processor| json!({ "date": "2026-11-22", "machine": { "processor": processor } });
        let name = |processor| stored_name("lightmac-speed", &of(processor));
        assert_eq!(name("AMD EPYC"), "lightmac-speed-amd-epyc-2026-11-22");
        let intel = "Intel(R) Core(TM) i7-6700 CPU @ 3.40GHz";
        assert_eq!(name(intel), "lightmac-speed-intel-core-i7-6700-cpu-2026-11-22");
    }

    #[test]
    fn names_are_unique() {
        for (i, set) in SETS.iter().enumerate() {
            assert!(SETS[..i].iter().all(|other| other.name != set.name));
        }
    }
}
