//! The published campaigns; each prints one JSON object.
#![forbid(unsafe_code)]

use clap::{Parser, Subcommand, ValueEnum};
use dtls::Scheme;
use dtls::crypto::CipherSuiteId;
use fuzz::forgery::{self, ATTACKS};
use fuzz::world::Setup;
use fuzz::{cuts, fleet, junk};
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
    /// Every message cut at every byte and with every byte changed
    Cuts {
        /// Try every n-th alteration only
        #[arg(long, default_value_t = 1)]
        stride: usize,
    },
    /// Random, altered and replayed datagrams against both ends at every stage
    Junk {
        /// How many
        #[arg(long, default_value_t = 1_000_000)]
        count: usize,
    },
    /// Attacks on records that share tags
    Forgery {
        /// Whose tags
        suite: Suite,
        /// How many
        #[arg(long, default_value_t = 20_000)]
        count: usize,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum Suite {
    /// AES-128-CTR with LightMAC
    Lightmac,
    /// AES-128-CCM
    Ccm,
    /// AES-128-GCM, which must not be aggregated
    #[cfg(feature = "dangerous-gcm-aggregation")]
    Gcm,
}

fn main() {
    let arguments = Arguments::parse();
    let seed = arguments.seed;
    let result = match arguments.campaign {
        Campaign::Handshakes { count, twice } => handshakes(seed, count, twice),
        Campaign::Cuts { stride } => cuts(seed, stride),
        Campaign::Junk { count } => junk(seed, count),
        Campaign::Forgery { suite, count } => forgery(seed, suite, count),
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

fn cuts(seed: u64, stride: usize) -> Value {
    let report = cuts::run(seed, stride);
    json!({
        "cases": report.cases,
        "messages": report.messages,
        "panics": report.panics,
        "deliveries": report.deliveries,
        "most_held_bytes": report.most_held,
        "most_open_connections": report.most_open,
        "failures": report.failures,
    })
}

fn junk(seed: u64, count: usize) -> Value {
    let report = junk::run(seed, count);
    json!({
        "datagrams": report.datagrams,
        "panics": report.panics,
        "deliveries": report.deliveries,
        "killed": report.killed,
        "most_held_bytes": report.most_held,
        "most_open_connections": report.most_open,
        "failures": report.failures,
    })
}

fn forgery(seed: u64, suite: Suite, count: usize) -> Value {
    let (setup, attacks) = match suite {
        Suite::Lightmac => {
            (Setup::new(CipherSuiteId::AES_128_CTR_LIGHTMAC_SHA256, Scheme::Plain), &ATTACKS[..])
        }
        Suite::Ccm => (Setup::new(CipherSuiteId::AES_128_CCM_SHA256, Scheme::Plain), &ATTACKS[..]),
        #[cfg(feature = "dangerous-gcm-aggregation")]
        Suite::Gcm => (fuzz::dangerous::setup(), &fuzz::dangerous::ATTACKS[..]),
    };
    let report = forgery::run(&setup, attacks, seed, count);
    json!({
        "attempts": report.attempts,
        "forged": report.forged,
        "sent": report.sent,
        "delivered": report.delivered,
        "failures": report.failures,
    })
}
