//! Runs every trial between real MACsec endpoints in a guest, over everything that can join them.

use clap::Parser;
use interop_gateway::Failure;
use interop_gateway::gateways::{self, Setup};
use interop_gateway::guest::join::{Bridge, Gateways, Join};
use interop_gateway::guest::report::{self, Series};
use interop_gateway::guest::trials::TRIALS;
use interop_gateway::guest::{Guest, Settings, image::Image};
use interop_gateway::interrupt::Interrupt;
use interop_gateway::namespace;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// Connects the MACsec and MKA of Debian's kernel and wpa_supplicant, and prints the outcome of
/// each trial.
#[derive(Parser)]
struct Arguments {
    /// The folder of the guest's image, which is made there if it is missing.
    #[arg(long, value_name = "DIRECTORY")]
    cache: PathBuf,
    /// The program lightseal [default: the one in this program's folder].
    #[arg(long, value_name = "FILE")]
    lightseal: Option<PathBuf>,
    /// Only endpoints that are joined by this: bridge, or a scheme of gateways.
    #[arg(long, value_name = "NAME")]
    join: Option<String>,
    /// Number of endpoints, 2 to 4 [default: 2, and also 3 over sealed gateways].
    #[arg(long, value_parser = clap::value_parser!(u8).range(2..=4))]
    ends: Option<u8>,
    /// Only trials whose name contains this text.
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
    /// Write the results to this file as a page.
    #[arg(long, value_name = "FILE", requires = "when")]
    write: Option<PathBuf>,
    /// Date and commit for that page.
    #[arg(long, value_name = "TEXT")]
    when: Option<String>,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(why) => why.exit(),
    }
}

/// Runs the trials and returns how many failed.
fn run(arguments: &Arguments) -> Result<usize, Failure> {
    namespace::sweep();
    let interrupt = Interrupt::watch()?;
    let program = arguments.lightseal.clone().unwrap_or_else(gateways::program);
    let by = |name, setup| Gateways { name, program: program.clone(), setup };
    let compressed = Setup { compress: true, ..Setup::SEALED };
    let identifier = Setup { scheme: "identifier", ..Setup::SEALED };
    let joins: [&dyn Join; 4] = [
        &Bridge,
        &by("sealed", Setup::SEALED),
        &by("sealed-compressed", compressed),
        &by("identifier", identifier),
    ];
    if let Some(name) = &arguments.join
        && !joins.iter().any(|join| join.name() == name)
    {
        let known: Vec<_> = joins.iter().map(|join| join.name()).collect();
        return Err(Failure::NotHere(format!("no join {name}; there are {}", known.join(", "))));
    }
    let image = Image::prepare(&arguments.cache)?;
    let mut all = Vec::new();
    for join in joins {
        if arguments.join.as_deref().is_some_and(|name| name != join.name()) {
            continue;
        }
        if let Err(why) = join.require() {
            if arguments.join.is_some() {
                return Err(why);
            }
            eprintln!("not joined by {}: {why}", join.name());
            continue;
        }
        let default: &[u8] = if join.name() == "sealed" { &[2, 3] } else { &[2] };
        for &ends in arguments.ends.as_ref().map_or(default, std::slice::from_ref) {
            all.push(series(arguments, ends, &image, join, &interrupt)?);
        }
    }
    let failed = all.iter().map(Series::failed).sum();
    if arguments.json {
        println!("{}", report::json(&image.package, &all));
    }
    if let (Some(path), Some(when)) = (&arguments.write, &arguments.when) {
        let page = report::page(&image.package, when, &all);
        std::fs::write(path, page).map_err(|error| Failure::broken(path.display(), error))?;
    }
    Ok(failed)
}

/// Every trial between endpoints that are joined in one way.
fn series(
    arguments: &Arguments,
    ends: u8,
    image: &Image,
    join: &dyn Join,
    interrupt: &Interrupt,
) -> Result<Series, Failure> {
    let started = Instant::now();
    let ends = usize::from(ends);
    let mut settings = Settings { ends, ..Settings::default() };
    settings.lightseal = arguments.lightseal.clone().unwrap_or(settings.lightseal);
    let mut guest = Guest::boot(image, &settings)?;
    eprintln!("{ends} ends booted in {:.1} s", started.elapsed().as_secs_f64());
    let mut joined = join.join(&guest)?;
    let mut verdicts = Vec::new();
    for trial in TRIALS {
        if !trial.fits(join) || !trial.name.contains(&arguments.only) {
            continue;
        }
        let verdict = trial.run(&mut guest, &mut *joined);
        interrupt.check()?;
        let line = report::line(join.name(), &verdict);
        if arguments.json {
            eprintln!("{line}");
        } else {
            println!("{line}");
        }
        verdicts.push(verdict);
    }
    Ok(Series { joined_by: join.about(), ends, verdicts })
}
