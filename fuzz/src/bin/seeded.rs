//! Runs fuzz targets without libFuzzer. A seed always gives the same inputs.
#![forbid(unsafe_code)]

use clap::Parser;
use fuzz::targets::{TARGETS, Target, drive, named};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Feed fuzz targets with altered copies of genuine input
#[derive(Parser)]
#[command(name = "seeded")]
struct Arguments {
    /// The targets; none means all of them
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(TARGETS.iter().map(|t| t.name)))]
    targets: Vec<String>,
    /// The seed that determines all inputs
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Stop each target after this many inputs
    #[arg(long)]
    iterations: Option<u64>,
    /// Stop each target after this many seconds
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Feed this one input, in hex, and nothing else
    #[arg(long)]
    input: Option<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let chosen: Vec<&Target> = if arguments.targets.is_empty() {
        TARGETS.iter().collect()
    } else {
        arguments.targets.iter().filter_map(|name| named(name)).collect()
    };
    let mut found = false;
    for target in chosen {
        if let Some(hex) = &arguments.input {
            let byte = |at| u8::from_str_radix(hex.get(at..at + 2).unwrap_or_default(), 16).ok();
            let input: Vec<u8> = (0..hex.len()).step_by(2).map_while(byte).collect();
            (target.run)(&input);
            continue;
        }
        let end = Instant::now() + Duration::from_secs(arguments.seconds);
        let outcome = drive(target, arguments.seed, |iteration| match arguments.iterations {
            Some(iterations) => iteration < iterations,
            None => Instant::now() < end,
        });
        match outcome {
            Ok(inputs) => println!("{}: {inputs} inputs, nothing found", target.name),
            Err(input) => {
                found = true;
                println!("{}: seed {}, {input}", target.name, arguments.seed);
            }
        }
    }
    if found { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
