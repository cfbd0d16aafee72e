//! `cargo xtask measure`: measurements of this machine, stored with date, commit and machine.

use crate::Failure;
use crate::process::{capture, cargo, command, workspace};
use serde_json::{Value, json};
use std::fs;

/// A set of measurements that is stored.
struct Set {
    name: &'static str,
    about: &'static str,
    /// Of `lightseal`; it prints JSON.
    command: &'static [&'static str],
}

const SETS: &[Set] = &[Set {
    name: "lightmac-speed",
    about: "LightMAC and its rivals over AES and PRESENT on every kernel: the LightMAC paper's Tables 3, 4",
    command: &[
        "mac",
        "bench",
        "--cipher",
        "aes-128,present-80",
        "--kernel",
        "all",
        "--mode",
        "lightmac,emac,pmac-parity",
        "--bytes",
        "128,256,512,1024,2048,4096,8192",
        "--json",
    ],
}];

/// What follows from the cycles a byte, the length and the clock.
const DERIVED: [&str; 2] = ["ns", "cycles"];

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The set to measure; none lists them
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(SETS.iter().map(|set| set.name)))]
    name: Option<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Some(set) = SETS.iter().find(|set| arguments.name.as_deref() == Some(set.name)) else {
        for Set { name, about, .. } in SETS {
            println!("{name:20} {about}");
        }
        return Ok(());
    };
    let program =
        ["run", "--quiet", "--release", "--package", "lightseal", "--bin", "lightseal", "--"];
    let text = capture(cargo(&[&program, set.command].concat())).map_err(Failure::Failed)?;
    let mut result: Value = serde_json::from_str(&text)
        .map_err(|error| Failure::Failed(format!("no JSON was printed: {error}")))?;
    for row in result["rows"].as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut)
    {
        row.retain(|name, _| !DERIVED.contains(&name.as_str()));
    }
    let date = said("date", &["-u", "+%Y-%m-%d"])?;
    let stored = json!({
        "name": set.name,
        "about": set.about,
        "command": format!("cargo xtask measure {}", set.name),
        "measured_with": format!("lightseal {}", set.command.join(" ")),
        "date": date,
        "commit": format!("commit {}", said("git", &["describe", "--always", "--dirty", "--tags"])?),
        "machine": {
            "processor": processor(),
            "processors": std::thread::available_parallelism().map_or(1, usize::from),
            "kernel": said("uname", &["-sr"])?,
        },
        "result": result,
    });
    let path = workspace().join("results").join(format!("{}-{date}.json", set.name));
    fs::write(&path, format!("{stored}\n"))
        .map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))?;
    println!("results/{}-{date}.json", set.name);
    Ok(())
}

/// The line that a program prints.
fn said(program: &str, arguments: &[&str]) -> Result<String, Failure> {
    let text = capture(command(program, arguments)).map_err(Failure::NotPossibleHere)?;
    Ok(text.trim().to_owned())
}

/// Its model, where the kernel tells.
fn processor() -> String {
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
    fn names_are_unique() {
        for (i, set) in SETS.iter().enumerate() {
            assert!(SETS[..i].iter().all(|other| other.name != set.name));
            assert_eq!(set.command.last(), Some(&"--json"));
        }
    }
}
