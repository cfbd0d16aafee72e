//! Runs the campaigns with published results. Each prints one JSON object.
#![forbid(unsafe_code)]

use attacks::forgery::{self, ATTACKS, SCHEMES};
use attacks::masks::MaskCase;
use attacks::setup::Setup;
use attacks::{
    clones, cuts, drops, fleet, histories, injection, junk, noise, restarts, rivals, strangers,
    tunnel, updates,
};
use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use lightseal_dtls::crypto::CipherSuiteId;
use lightseal_dtls::{NumberMasks, ProtocolVersion, Scheme};
use serde_json::{Value, json};

/// Attack the engines and print the results as JSON. A campaign with equal seed and options gives
/// equal results
#[derive(Parser)]
#[command(name = "campaign")]
struct Arguments {
    /// Seed of all random choices of the campaign
    #[arg(long, default_value_t = 1, global = true)]
    seed: u64,
    #[command(subcommand)]
    campaign: Campaign,
}

#[derive(Subcommand)]
enum Campaign {
    /// Handshakes over a relay that loses, duplicates and reorders datagrams
    Handshakes {
        /// Number of handshakes
        #[arg(long, default_value_t = 10_000)]
        count: usize,
        /// Run all handshakes twice, and count those in batches where a byte or a time differs
        #[arg(long)]
        twice: bool,
        /// The version of DTLS
        #[arg(long, value_enum, default_value_t = Version::V13)]
        version: Version,
    },
    /// Handshakes with every pair of datagrams lost, and with many copies of every datagram
    Drops {
        /// Try only every n-th pair of datagrams
        #[arg(long, default_value_t = 1)]
        stride: usize,
    },
    /// Every message, truncated before each of its bytes, and with each of its bytes changed
    Cuts {
        /// Try only every n-th of these alterations
        #[arg(long, default_value_t = 1)]
        stride: usize,
    },
    /// Random, altered and replayed datagrams against both ends at every stage
    Junk {
        /// Number of junk datagrams
        #[arg(long, default_value_t = 1_000_000)]
        count: usize,
        /// Ends with certificates and raw public keys instead of pre-shared keys
        #[arg(long)]
        certificates: bool,
    },
    /// Attackers without a key: replayed hellos, forged ACKs, and hellos with another host's
    /// address
    Strangers {
        /// Number of associations with replayed hellos, and also number of handshakes with forged
        /// ACKs
        #[arg(long, default_value_t = 200)]
        count: u64,
    },
    /// One association whose ends ask each other for other aggregation schemes, at 20 % loss with
    /// reordering
    Updates {
        /// Number of changes of the scheme
        #[arg(long, default_value_t = 1000)]
        count: u64,
    },
    /// Associations whose processes end at random points and go on from what they had written ahead
    Restarts {
        /// Number of runs
        #[arg(long, default_value_t = 10_000)]
        count: u64,
        /// In place of random points, try every point of a short run, or every n-th
        #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "1")]
        every_point: Option<usize>,
    },
    /// Groups whose members join, leave, are evicted, crash and miss datagrams
    Histories {
        /// Number of histories; each is a group of its own with 250 random events
        #[arg(long, default_value_t = 1000)]
        count: u64,
    },
    /// Several machines that are copies of one device of a group: whether two of them ever seal
    /// with one key and nonce
    Clones {
        /// What is copied from one machine to another
        #[arg(value_enum)]
        copied: CopiedName,
        /// Number of requests: half of them sent by two copies, half by three
        #[arg(long, default_value_t = 10_000)]
        count: u64,
    },
    /// Datagrams of arbitrary bytes to every port of active members of a group and of its
    /// controller
    Noise {
        /// Number of datagrams
        #[arg(long, default_value_t = 1_000_000)]
        count: usize,
    },
    /// How much goodput associations that share tags lose while an attacker sends one junk datagram
    /// for every ten genuine ones
    Injection {
        /// Number of records of each association
        #[arg(long, default_value_t = 20_000)]
        count: u64,
    },
    /// The share of genuine records that is delivered while an attacker sends junk under the number
    /// of each record before the record itself arrives
    Rivals,
    /// After how many records an observer sees that two of them have equal record number masks, in
    /// the worst case: payloads of one byte under Agg(16)
    Masks {
        /// Number of epochs in which each form of masks is observed
        #[arg(long, default_value_t = 2000)]
        epochs: usize,
    },
    /// Attempts to forge records that share tags
    Forgery {
        /// The cipher suite whose tags are attacked
        suite: Suite,
        /// Number of attacks on each scheme
        #[arg(long, default_value_t = 20_000)]
        count: usize,
    },
    /// An observer that sees a gateway's datagrams and tries to sort them into flows
    TunnelObserver {
        #[command(flatten)]
        of: Tunnels,
        /// Number of datagrams
        #[arg(long, default_value_t = 10_000)]
        count: usize,
    },
    /// Bursts of lost datagrams between gateways, and reordered ones
    TunnelLoss {
        #[command(flatten)]
        of: Tunnels,
        /// Number of bursts of each length
        #[arg(long, default_value_t = 100)]
        count: u32,
    },
    /// Forged, replayed and truncated datagrams, and ones with exchanged headers, at a gateway
    TunnelForgeries {
        #[command(flatten)]
        of: Tunnels,
        /// Number of forgeries
        #[arg(long, default_value_t = 1_000_000)]
        count: u64,
    },
    /// A station that sends frames with the address of a station of another LAN: how many frames
    /// that station misses
    TunnelClaims {
        #[command(flatten)]
        of: Tunnels,
    },
    /// A path between gateways whose MTU decreases
    TunnelNarrowing {
        #[command(flatten)]
        of: Tunnels,
    },
    /// How many bytes gateways add to frames
    TunnelBytes {
        #[command(flatten)]
        of: Tunnels,
    },
}

#[derive(Args)]
struct Tunnels {
    /// Only these schemes; none means all of them
    #[arg(long, value_parser = PossibleValuesParser::new(tunnel::schemes()))]
    scheme: Vec<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Version {
    #[value(name = "1.2")]
    V12,
    #[value(name = "1.3")]
    V13,
}

#[derive(Clone, Copy, ValueEnum)]
enum Suite {
    /// AES-128-CTR with LightMAC
    Lightmac,
    /// AES-128-CCM
    Ccm,
    /// HMAC-SHA256, without encryption
    Hmac,
    /// AES-128-GCM, which must not be aggregated
    Gcm,
}

fn main() {
    let arguments = Arguments::parse();
    let seed = arguments.seed;
    let result = match arguments.campaign {
        Campaign::Handshakes { count, twice, version } => handshakes(seed, count, twice, version),
        Campaign::Drops { stride } => drops(seed, stride),
        Campaign::Cuts { stride } => cuts(seed, stride),
        Campaign::Junk { count, certificates } => {
            let setups = if certificates { Setup::certified() } else { Setup::all() };
            junk(setups, seed, count)
        }
        Campaign::Strangers { count } => strangers(seed, count),
        Campaign::Updates { count } => updates(seed, count),
        Campaign::Restarts { count, every_point } => restarts(seed, count, every_point),
        Campaign::Histories { count } => histories(seed, count),
        Campaign::Clones { copied, count } => group_clones(seed, copied, count),
        Campaign::Noise { count } => group_noise(seed, count),
        Campaign::Injection { count } => injection(seed, count),
        Campaign::Rivals => rivals(seed),
        Campaign::Masks { epochs } => masks(seed, epochs),
        Campaign::Forgery { suite, count } => forgery(seed, suite, count),
        Campaign::TunnelObserver { of, count } => tunnel::observer(seed, &of.scheme, count),
        Campaign::TunnelLoss { of, count } => tunnel::loss(seed, &of.scheme, count),
        Campaign::TunnelForgeries { of, count } => tunnel::forgeries(seed, &of.scheme, count),
        Campaign::TunnelClaims { of } => tunnel::claims(&of.scheme),
        Campaign::TunnelNarrowing { of } => tunnel::narrowing(&of.scheme),
        Campaign::TunnelBytes { of } => tunnel::bytes(&of.scheme),
    };
    println!("{result}");
}

fn handshakes(seed: u64, count: usize, twice: bool, version: Version) -> Value {
    let version = match version {
        Version::V12 => ProtocolVersion::Dtls12,
        Version::V13 => ProtocolVersion::Dtls13,
    };
    let report = fleet::run(seed, count, version);
    let differ = if twice { report.differing(&fleet::run(seed, count, version)) } else { 0 };
    json!({
        "handshakes": report.handshakes,
        "complete": report.complete,
        "percent": 100.0 * report.complete as f64 / report.handshakes as f64,
        "failed": report.failed,
        "hung": report.hung,
        "half": report.half,
        "wrong": report.wrong,
        "datagrams": report.datagrams,
        "lost": report.lost,
        "reasons": report.reasons,
        "differ": differ,
        "differ_percent": 100.0 * differ as f64 / report.handshakes as f64,
    })
}

fn drops(seed: u64, stride: usize) -> Value {
    let report = drops::run(seed, stride.max(1));
    json!({
        "kinds": report.kinds,
        "pairs": report.pairs,
        "connected": report.connected,
        "bursts": report.bursts,
        "most_answers": report.most_answers,
        "failures": report.failures,
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

fn junk(setups: Vec<Setup>, seed: u64, count: usize) -> Value {
    let report = junk::run(setups, seed, count);
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

fn strangers(seed: u64, count: u64) -> Value {
    let (replays, acks) = (strangers::replays(seed, count), strangers::acks(seed, count));
    let amplification = strangers::amplification(seed);
    let rows = amplification.iter().map(|row| {
        json!({"kind": row.kind, "hello": row.hello, "sent": row.sent, "factor": row.factor()})
    });
    json!({
        "associations": replays.associations,
        "played": replays.played,
        "ended": replays.ended,
        "most_begun": replays.most_begun,
        "handshakes": acks.handshakes,
        "forged_acks": acks.forged,
        "failed": acks.failed,
        "amplification": rows.collect::<Vec<_>>(),
        "worst_factor": amplification.iter().map(strangers::Amplification::factor).fold(0.0, f64::max),
    })
}

fn updates(seed: u64, count: u64) -> Value {
    let report = updates::run(CipherSuiteId::AES_128_CTR_LIGHTMAC_SHA256, seed, count);
    json!({
        "updates": report.updates,
        "sent": report.sent,
        "delivered": report.delivered,
        "wrong": report.wrong,
        "in_step": u8::from(report.in_step),
        "datagrams": report.datagrams,
        "lost": report.lost,
        "key_updates": report.key_updates,
        "retransmissions": report.retransmissions,
        "seconds": report.seconds,
        "closed": report.closed.map(|reason| reason.to_string()),
    })
}

fn restarts(seed: u64, count: u64, every_point: Option<usize>) -> Value {
    let totals = match every_point {
        Some(stride) => restarts::every_point(seed, stride.max(1)),
        None => restarts::random(seed, count),
    };
    json!({
        "runs": totals.runs,
        "kills": totals.kills,
        "restored": totals.restored,
        "delivered": totals.delivered,
        "lost": totals.lost,
        "shared": totals.shared,
        "shared_delivered": totals.shared_delivered,
        "shared_lost": totals.shared_lost,
        "changes": totals.changes,
        "kills_in_changes": totals.kills_in_changes,
        "records": totals.records,
        "numbers": totals.numbers,
        "payloads": totals.payloads,
        "forgeries": totals.forgeries,
        "handshakes": totals.handshakes,
        "silences": totals.silences,
        "failures": totals.failures,
    })
}

fn histories(seed: u64, count: u64) -> Value {
    let report = histories::run(seed, count);
    let violation = |(seed, what): &(u64, String)| json!({"seed": seed, "what": what});
    json!({
        "histories": report.histories,
        "epochs": report.epochs,
        "sealed": report.sealed,
        "delivered": report.delivered,
        "restarts": report.restarts,
        "naps": report.naps,
        "gone": report.gone,
        "violations": report.violations.iter().map(violation).collect::<Vec<_>>(),
    })
}

#[derive(Clone, Copy, ValueEnum)]
enum CopiedName {
    /// The token: each machine joins by itself
    Token,
    /// The state directory of one of the machines
    State,
}

fn group_clones(seed: u64, copied: CopiedName, count: u64) -> Value {
    let copied = match copied {
        CopiedName::Token => clones::Copied::Token,
        CopiedName::State => clones::Copied::State,
    };
    let reports: Vec<_> = [2, 3]
        .into_iter()
        .map(|machines| {
            let report = clones::run(copied, machines, seed, count.div_ceil(2));
            json!({
                "machines": machines,
                "requests": report.requests,
                "sealed": report.sealed,
                "repeated": report.repeated,
                "delivered": report.delivered,
                "joins": report.joins,
                "starts": report.starts,
                "copies": report.copies,
                "refused": report.refused,
                "restarts": report.restarts,
            })
        })
        .collect();
    json!({ "reports": reports })
}

fn group_noise(seed: u64, count: usize) -> Value {
    let report = noise::run(seed, count);
    json!({
        "datagrams": report.datagrams,
        "short": report.short,
        "unicast": report.unicast,
        "to_controller": report.to_controller,
        "panics": report.panics,
        "deliveries": report.deliveries,
        "touched": report.touched,
        "deaf": report.deaf,
        "failures": report.failures,
    })
}

fn rivals(seed: u64) -> Value {
    let cells: Vec<_> = rivals::campaign(seed)
        .iter()
        .map(|cell| {
            json!({
                "scheme": cell.scheme.to_string(),
                "payload": cell.payload,
                "attack": cell.attack.name(),
                "any_length": cell.any_length,
                "delivered_percent": cell.percent(),
                "forged": cell.forged,
                "most_held_bytes": cell.most_held,
            })
        })
        .collect();
    json!({ "records": rivals::RECORDS, "cells": cells })
}

fn injection(seed: u64, count: u64) -> Value {
    let report = injection::campaign(seed, count);
    let cells: Vec<_> = report
        .cells
        .iter()
        .map(|cell| {
            json!({
                "suite": cell.setup.suite.to_string(),
                "scheme": cell.setup.scheme.to_string(),
                "loss_percent": cell.loss as f64 / 1000.0,
                "clean": cell.clean.goodput(),
                "junk": cell.junk.goodput(),
                "fall_percent": cell.fall_percent(),
                "junk_datagrams": cell.junk.junk,
                "evaluations_per_junk": cell.evaluations_per_junk(),
                "refused": cell.junk.refused,
                "most_held_bytes": cell.clean.most_held.max(cell.junk.most_held),
                "forged": cell.clean.forged + cell.junk.forged,
            })
        })
        .collect();
    let early: Vec<_> = report
        .early
        .iter()
        .map(|early| {
            json!({
                "suite": early.setup.suite.to_string(),
                "scheme": early.setup.scheme.to_string(),
                "bits": early.bits,
                "junk_datagrams": early.run.junk,
                "given": early.run.early,
                "refuted": early.run.refuted,
                "forged": early.run.forged,
                "goodput": early.run.goodput(),
            })
        })
        .collect();
    let floods: Vec<_> = report
        .floods
        .iter()
        .map(|(setup, flood)| {
            json!({
                "scheme": setup.scheme.to_string(),
                "held": flood.held,
                "evaluated": flood.evaluated,
                "evaluations": flood.evaluations,
                "others_verified": flood.others_verified,
                "opener_bytes": flood.opener_bytes,
            })
        })
        .collect();
    json!({
        "worst_fall_percent": report.worst_fall_percent(),
        "worst_fall_percent_of_all": report.worst_fall_percent_of_all(),
        "forged": report.forged(),
        "records": count,
        "cells": cells,
        "early": early,
        "floods": floods,
    })
}

fn masks(seed: u64, epochs: usize) -> Value {
    // There are enough messages for a repeated mask in nearly every epoch; with two bytes in the
    // strong form, one for every number that two bytes can express.
    let cases = [
        ("paper", NumberMasks::Paper, 2, 2048),
        ("standard", NumberMasks::Standard, 2, 2048),
        ("strong", NumberMasks::Strong, 1, 16_384),
        ("strong", NumberMasks::Strong, 2, 65_536),
    ];
    let rows = cases.map(|(name, masks, number_bytes, messages)| {
        let epochs = if messages == 65_536 { epochs.div_ceil(20) } else { epochs };
        let seen = attacks::masks::watch(seed, MaskCase { masks, number_bytes, epochs, messages });
        json!({
            "masks": name,
            "number_bytes": number_bytes,
            "epochs": epochs,
            "messages": messages,
            "repeated": seen.first.len(),
            "half": seen.half(),
            "interval": seen.interval(),
            "mistaken": seen.mistaken,
            "alike": seen.alike,
            "alike_same": seen.alike_same,
            "pairs": seen.pairs,
            "pairs_same": seen.pairs_same,
        })
    });
    json!({ "rows": rows })
}

fn forgery(seed: u64, suite: Suite, count: usize) -> Value {
    let setup = |id| (Setup::new(id, Scheme::Plain), &SCHEMES[..], &ATTACKS[..]);
    let (setup, schemes, attacks) = match suite {
        Suite::Lightmac => setup(CipherSuiteId::AES_128_CTR_LIGHTMAC_SHA256),
        Suite::Ccm => setup(CipherSuiteId::AES_128_CCM_SHA256),
        Suite::Hmac => setup(CipherSuiteId::SHA256_SHA256),
        Suite::Gcm => {
            use attacks::dangerous::{ATTACKS, SCHEMES, setup};
            (setup(), &SCHEMES[..], &ATTACKS[..])
        }
    };
    let report = forgery::run(&setup, schemes, attacks, seed, count);
    json!({
        "attempts": report.attempts,
        "schemes": schemes.len(),
        "forged": report.forged,
        "sent": report.sent,
        "delivered": report.delivered,
        "early": report.early,
        "refuted": report.refuted,
        "failures": report.failures,
    })
}
