//! The claim on the dissectors of tools/wireshark.

use crate::claim::{Bar, Claim, Measured, Unmeasured};
use crate::claims::{number, run_json};
use crate::process::{command, succeeds, workspace};
use std::path::Path;

pub(super) const CLAIMS: &[Claim] = &[Claim {
    name: "group-dissector",
    about: "Number of records that our Wireshark dissectors show otherwise than the engine wrote \
        them (every form of both group profiles and of DTLS with shared tags), plus Lua \
        errors on noise. Bar: there may be none",
    bar: Bar::AtMost(0.0),
    seconds: 40,
    measure,
}];

fn measure() -> Result<Measured, Unmeasured> {
    if !succeeds(command("tshark", &["--version"])) {
        return Err(Unmeasured::NotHere("needs tshark: apt-get install tshark".into()));
    }
    let folder = std::env::temp_dir().join(format!("lightseal-samples-{}", std::process::id()));
    let measured = measured(&folder);
    // The folder is named after this process, so only files of this run are in it.
    let _ = std::fs::remove_dir_all(&folder);
    measured
}

fn measured(folder: &Path) -> Result<Measured, Unmeasured> {
    let (out, plugins) = (folder.display().to_string(), workspace().join("tools/wireshark"));
    let plugins = plugins.display().to_string();
    let fixed = ["samples", "--noise", "2000", "--json"];
    let arguments = [&fixed[..], &["--out", &out, "--dissect", &plugins]].concat();
    let result = run_json("lightseal-lab", "lightseal-lab", &arguments)?;
    let mut detail = format!("tshark {}\n", result["tshark"].as_str().unwrap_or("?"));
    let (mut figure, mut records) = (0.0, 0.0);
    for sample in result["samples"].as_array().into_iter().flatten() {
        let of = |pointer| number(sample, pointer);
        let errors = of("/tshark/lua_errors")? + of("/noise/lua_errors")?;
        records += of("/records")?;
        figure += of("/tshark/wrong")? + errors;
        detail += &format!(
            "{}: {} of {} records differ; {} records in noise, {errors} Lua errors\n",
            sample["name"].as_str().unwrap_or("?"),
            of("/tshark/wrong")?,
            of("/records")?,
            of("/noise/records")?,
        );
        for failure in sample["tshark"]["failures"].as_array().into_iter().flatten() {
            detail += &format!("  {}\n", failure.as_str().unwrap_or("?"));
        }
    }
    if records < 100.0 {
        return Err(Unmeasured::Broken(format!("only {records} records were written")));
    }
    Ok(Measured { figure, detail })
}
