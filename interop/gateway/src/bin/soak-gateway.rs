//! Three gateways under load for minutes, one of them killed: do all counters add up?

use clap::{Parser, ValueEnum};
use interop_gateway::Failure;
use interop_gateway::gateways::{self, Setup};
use interop_gateway::interrupt::Interrupt;
use interop_gateway::namespace;
use interop_gateway::soak::{self, Plan, Report};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Carries flows of MACsec frames between three LANs at half the highest rate, with a new key at
/// each interval; kills a gateway in the middle and starts it again. Every frame must be delivered
/// once and unaltered, or counted where it was lost.
#[derive(Parser)]
struct Arguments {
    /// The program lightseal [default: the one in this program's folder].
    #[arg(long, value_name = "FILE")]
    lightseal: Option<PathBuf>,
    /// Duration of the run, in seconds.
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u32).range(4..=86_400))]
    duration: u32,
    /// Number of flows.
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u8).range(1..=240))]
    flows: u8,
    /// The gateways' scheme: sealed, sealed-compressed, identifier and so on.
    #[arg(long, value_name = "NAME", default_value = "sealed")]
    scheme: String,
    /// How gateways read and write packets.
    #[arg(long, value_enum, default_value_t = Io::Packet)]
    io: Io,
    /// Seconds between two keys.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(10..=86_400))]
    rekey: u32,
    /// Seconds for which the killed gateway stays down.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=600))]
    down: u32,
    /// Seed of the frames' contents and of the choice of the gateway that is killed [default:
    /// random].
    #[arg(long)]
    seed: Option<u64>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Io {
    /// Packet sockets and UDP.
    Packet,
    /// AF_XDP on both sides.
    Xdp,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(report) if report.wrong() == 0 => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(why) => why.exit(),
    }
}

/// The known schemes. In addition, `sealed-compressed` is `sealed` with short headers.
const SCHEMES: [&str; 5] =
    ["sealed", "identifier", "identifier-paper", "encryption-paper", "plain"];

fn run(arguments: &Arguments) -> Result<Report, Failure> {
    namespace::sweep();
    let interrupt = Interrupt::watch()?;
    let compress = arguments.scheme == "sealed-compressed";
    let wanted = if compress { "sealed" } else { &arguments.scheme };
    let Some(scheme) = SCHEMES.into_iter().find(|name| *name == wanted) else {
        let known = SCHEMES.join(", ");
        return Err(Failure::NotHere(format!("no scheme {wanted}; there are {known}")));
    };
    let (lan_io, underlay_io) = match arguments.io {
        Io::Packet => ("packet", "udp"),
        Io::Xdp => ("xdp", "xdp"),
    };
    let seed = arguments.seed.unwrap_or_else(soak::any_seed);
    eprintln!("seed {seed}");
    let setup = Setup { scheme, compress, lan_io, underlay_io, ..Setup::SEALED };
    let plan = Plan {
        program: arguments.lightseal.clone().unwrap_or_else(gateways::program),
        setup: Setup { rekey_seconds: Some(arguments.rekey), ..setup },
        flows: arguments.flows,
        duration: Duration::from_secs(arguments.duration.into()),
        down: Duration::from_secs(arguments.down.into()),
        flood: Duration::from_secs(2),
        seed,
    };
    let report = soak::run(&plan, &interrupt)?;
    if arguments.json {
        let mut json = report.json();
        json["seed"] = seed.into();
        json["scheme"] = arguments.scheme.as_str().into();
        println!("{json}");
    } else {
        print!("{report}");
    }
    Ok(report)
}
