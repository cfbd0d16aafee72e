//! The published campaigns; each prints one JSON object.
#![forbid(unsafe_code)]

use clap::{Parser, Subcommand};
use fuzz::fleet;
use serde_json::{Value, json};

/// Attacks on the DTLS engine, repeatable from their seed
#[derive(Parser)]
#[command(name = "campaign")]
struct Arguments {
    /// Everything follows from it
    #[arg(long, default_value_t = 1, global = true)]
    seed: u64,
    #[command(subcommand)]
    campaign: Campaign,
}

#[derive(Subcommand)]
enum Campaign {
    /// Handshakes over a relay that loses, doubles and reorders
    Handshakes {
        /// How many
        #[arg(long, default_value_t = 10_000)]
        count: usize,
        /// Run them twice and compare every byte and time
        #[arg(long)]
        twice: bool,
    },
}

fn main() {
    let arguments = Arguments::parse();
    let seed = arguments.seed;
    let result = match arguments.campaign {
        Campaign::Handshakes { count, twice } => handshakes(seed, count, twice),
    };
    println!("{result}");
}

fn handshakes(seed: u64, count: usize, twice: bool) -> Value {
    let report = fleet::run(seed, count);
    let differ = if twice { report.differing(&fleet::run(seed, count)) } else { 0 };
    json!({
        "handshakes": report.handshakes,
        "complete": report.complete,
        "percent": 100.0 * report.complete as f64 / report.handshakes as f64,
        "failed": report.failed,
        "hung": report.hung,
        "wrong": report.wrong,
        "datagrams": report.datagrams,
        "lost": report.lost,
        "reasons": report.reasons,
        "differ": differ,
        "differ_percent": 100.0 * differ as f64 / report.handshakes as f64,
    })
}
