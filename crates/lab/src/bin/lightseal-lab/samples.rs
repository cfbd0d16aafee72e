//! `lightseal-lab samples`: captures for tests of dissectors.

use clap::Args;
use lightseal_cli::failure::{Context, Failure};
use lightseal_cli::progress::Progress;
use lightseal_lab::capture::samples::{self, Sample, tshark};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufWriter, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, Args)]
pub(crate) struct SamplesArgs {
    /// Write the captures into this directory, which is created if necessary.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Have tshark dissect the captures with the plugins in this directory (tools/wireshark), and
    /// report how its results differ from what the engine wrote.
    #[arg(long, value_name = "DIR")]
    dissect: Option<PathBuf>,
    /// Also have it dissect this number of altered and made-up datagrams, under the preferences of
    /// each capture.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "dissect", value_parser = clap::value_parser!(u32).range(..=100_000))]
    noise: u32,
    /// Print JSON instead.
    #[arg(long)]
    json: bool,
}

/// Writes a capture for each profile, suite and kind of scheme.
pub(crate) fn run(args: &SamplesArgs) -> Result<(), Failure> {
    std::fs::create_dir_all(&args.out).context(args.out.display())?;
    let version = match &args.dissect {
        Some(_) => Some(tshark::version().context("tshark")?),
        None => None,
    };
    let all = samples::all().context("the samples")?;
    let mut rows = Vec::new();
    // Lines on the terminal show the progress by themselves.
    let progress = Progress::steps(all.len(), !args.json && std::io::stdout().is_terminal());
    for (seed, sample) in all.iter().enumerate() {
        progress.set_step_name(&sample.name);
        let path = args.out.join(format!("{}.pcap", sample.name));
        let file = File::create(&path).context(path.display())?;
        sample.write(BufWriter::new(file)).context(path.display())?;
        let mut row = json!({
            "name": sample.name,
            "capture": path,
            "dissector": sample.dissector,
            "preferences": sample.preferences,
            "datagrams": sample.datagrams.len(),
            "records": sample.datagrams.iter().map(|sent| sent.records.len()).sum::<usize>(),
        });
        if let Some(plugins) = &args.dissect {
            row["tshark"] = dissected(sample, &args.out, plugins)?;
            if args.noise > 0 {
                let noise = tshark::noise(&all, sample, seed as u64, args.noise as usize);
                row["noise"] = dissected(&noise, &args.out, plugins)?;
            }
        }
        if !args.json {
            print(&row, sample).context("standard output")?;
        }
        rows.push(row);
        progress.step();
    }
    drop(progress);
    if args.json {
        let all = json!({ "tshark": version, "samples": rows });
        writeln!(std::io::stdout(), "{all}").context("standard output")?;
    }
    Ok(())
}

fn dissected(sample: &Sample, folder: &Path, plugins: &Path) -> Result<Value, Failure> {
    let found = tshark::dissect(sample, folder, plugins).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Failure::new(format_args!("there is no {error}")),
        _ => Failure::new(error),
    })?;
    Ok(json!({
        "records": found.records,
        "wrong": found.wrong,
        "failures": found.failures,
        "lua_errors": found.lua_errors,
    }))
}

fn print(row: &Value, sample: &Sample) -> std::io::Result<()> {
    let out = &mut std::io::stdout().lock();
    let preferences: String =
        sample.preferences.iter().map(|preference| format!(" -o {preference}")).collect();
    let capture = row["capture"].as_str().unwrap_or_default();
    writeln!(
        out,
        "tshark -X lua_script:tools/wireshark/{}.lua{preferences} -r {capture}",
        sample.dissector
    )?;
    if let Some(wrong) = row["tshark"]["wrong"].as_u64() {
        writeln!(out, "  {wrong} of {} records differ from what was written", row["records"])?;
    }
    if let Some(errors) = row["noise"]["lua_errors"].as_u64() {
        let records = &row["noise"]["records"];
        writeln!(out, "  {errors} errors of the dissector on {records} records of noise")?;
    }
    Ok(())
}
