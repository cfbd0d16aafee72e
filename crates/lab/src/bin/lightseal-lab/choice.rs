//! `lightseal-lab choice` and `lightseal lab rules`: the constants for the choice between
//! aggregation schemes, and how good the choice is.

use clap::{Args, ValueEnum};
use lightseal_aggregation::choice::Family;
use lightseal_cli::failure::{Context, Failure};
use lightseal_cli::progress::Progress;
use lightseal_lab::choice::SimulationParameters;
use lightseal_lab::choice::channel::{BURSTY, ChannelFamily, MOVING, ORDINARY};
use lightseal_lab::choice::fit::Fitted;
use lightseal_lab::choice::report::Fit;
use lightseal_lab::choice::session::{ChannelResult, Rule, sessions};
use lightseal_lab::stream::Accounting;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

#[derive(Clone, Debug, Args)]
pub(crate) struct ChoiceArgs {
    #[command(flatten)]
    simulation: Simulation,
    /// Write the data and the plots into this directory, which is created if necessary.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Fail if the constants in this program differ from the fitted ones by more than rounding.
    #[arg(long)]
    check: bool,
    /// Print everything as JSON instead.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct RulesArgs {
    #[command(flatten)]
    simulation: Simulation,
    /// Print everything as JSON instead.
    #[arg(long)]
    json: bool,
}

/// The parameters of the simulation.
#[derive(Clone, Debug, Args)]
struct Simulation {
    /// Seed of all random choices [default: 5; rules: 6].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Number of Gilbert-Elliott channels [default: 10000; rules: 1000].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    channels: Option<u32>,
    /// Number of packets sent over each channel [default: 10000; rules: 6000].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(500..=100_000))]
    packets: Option<u32>,
    /// Number of bytes that a record takes besides payload and tags.
    #[arg(long, value_enum, default_value_t = AccountingName::Ours)]
    accounting: AccountingName,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum AccountingName {
    /// A header of 2 bytes and the content type.
    Ours,
    /// 5 bytes, as in the paper on MAC aggregation.
    Paper,
}

impl Simulation {
    /// The plan that was asked for; values that were not given are those of `usual`.
    fn plan(&self, usual: SimulationParameters) -> SimulationParameters {
        let count = |asked: Option<u32>, usual| asked.map_or(usual, |count| count as usize);
        SimulationParameters {
            seed: self.seed.unwrap_or(usual.seed),
            channels: count(self.channels, usual.channels),
            packets: count(self.packets, usual.packets),
            accounting: match self.accounting {
                AccountingName::Ours => Accounting::Ours,
                AccountingName::Paper => Accounting::Paper,
            },
            ..usual
        }
    }
}

/// Fits the constants, prints them, writes the files, and compares with the constants in this
/// program.
pub(crate) fn choice(args: &ChoiceArgs) -> Result<(), Failure> {
    let plan = args.simulation.plan(SimulationParameters::default());
    let fit = Progress::show_while("simulating channels", || Fit::new(plan));
    let written = match &args.out {
        Some(directory) => fit.write(directory).context("choice")?,
        None => Vec::new(),
    };
    let text = if args.json {
        serde_json::to_string_pretty(&fit_as_json(&fit)).context("choice")? + "\n"
    } else {
        let mut text = fit_as_text(&fit);
        for path in written {
            let _ = writeln!(text, "{}", path.display());
        }
        text
    };
    std::io::stdout().lock().write_all(text.as_bytes()).context("standard output")?;
    if args.check && fit.difference() > 1 {
        return Err(Failure::new(format_args!(
            "the constants in this program differ by up to {}/65536 from these",
            fit.difference()
        )));
    }
    Ok(())
}

/// Every boundary with the names of the two schemes that it separates.
fn boundaries(fit: &Fit) -> impl Iterator<Item = (String, String, &Fitted)> {
    Family::ALL.into_iter().flat_map(|family| {
        let members = family.members();
        let named = fit.boundaries[family as usize].iter().enumerate();
        named.map(move |(i, fitted)| (members[i].to_string(), members[i + 1].to_string(), fitted))
    })
}

const CHANNEL_KINDS: [&str; 2] = ["ordinary", "bursty"];

fn fit_as_text(fit: &Fit) -> String {
    let SimulationParameters { seed, channels, packets, .. } = fit.parameters;
    let mut text = format!(
        "{channels} channels of {packets} packets, seed {seed}, {} bytes a record besides payload \
         and tags\nloss rate = a e^(b/payload) + c, integers a and c in 1/2^32, b in 1/2^16\n",
        fit.parameters.accounting.overhead_bytes()
    );
    for (below, above, fitted) in boundaries(fit) {
        let (curve, constants) = (fitted.curve, fitted.curve.in_integers());
        let _ = writeln!(
            text,
            "{below:>8} to {above:8}  a {:8.5}  b {:8.3}  c {:8.5}  residual {:.5} over {} points  \
             ({}, {}, {})",
            curve.a,
            curve.b,
            curve.c,
            fitted.residual,
            fitted.points.len(),
            constants.a,
            constants.b,
            constants.c
        );
    }
    for family in Family::ALL {
        for (kind, merit) in CHANNEL_KINDS.iter().zip(fit.qualities[family as usize]) {
            let _ = writeln!(
                text,
                "{} on {kind} channels of known loss: the best member on {:.1} %, goodput {:.4} of \
                 the best",
                family.name(),
                100.0 * merit.right,
                merit.goodput
            );
        }
    }
    let _ = writeln!(
        text,
        "differs from the constants in this program by up to {}/65536",
        fit.difference()
    );
    text
}

fn fit_as_json(fit: &Fit) -> Value {
    let boundaries: Vec<_> = boundaries(fit)
        .map(|(below, above, fitted)| {
            let constants = fitted.curve.in_integers();
            json!({
                "below": below,
                "above": above,
                "a": fitted.curve.a,
                "b_bytes": fitted.curve.b,
                "c": fitted.curve.c,
                "integers": [constants.a, constants.b, constants.c],
                "residual": fitted.residual,
                "points": fitted.points.len(),
            })
        })
        .collect();
    let qualities = Family::ALL.into_iter().flat_map(|family| {
        CHANNEL_KINDS.iter().zip(fit.qualities[family as usize]).map(move |(kind, merit)| {
            json!({
                "family": family.name(),
                "channels": kind,
                "right": merit.right,
                "goodput": merit.goodput,
            })
        })
    });
    json!({
        "seed": fit.parameters.seed,
        "channels": fit.parameters.channels,
        "packets": fit.parameters.packets,
        "overhead_bytes": fit.parameters.accounting.overhead_bytes(),
        "boundaries": boundaries,
        "merits": qualities.collect::<Vec<_>>(),
        "difference": fit.difference(),
    })
}

/// The sessions of one family of schemes on one kind of channels.
struct RuleSessions {
    family: Family,
    kind: &'static str,
    sessions: Vec<ChannelResult>,
}

impl RuleSessions {
    /// For each session, the goodput divided by that of the best fixed scheme.
    fn ratios(&self, rule: Rule) -> impl Iterator<Item = f64> {
        let reached =
            move |session: &ChannelResult| session.ruled[rule as usize].goodput / session.best();
        self.sessions.iter().map(reached)
    }

    fn mean(&self, rule: Rule) -> f64 {
        self.ratios(rule).sum::<f64>() / self.sessions.len() as f64
    }

    fn worst(&self, rule: Rule) -> f64 {
        self.ratios(rule).fold(f64::INFINITY, f64::min)
    }

    fn changes(&self, rule: Rule) -> f64 {
        let changes = self.sessions.iter().map(|session| session.ruled[rule as usize].changes);
        f64::from(changes.sum::<u32>()) / self.sessions.len() as f64
    }
}

/// Runs the rules on each kind of channels and compares them.
pub(crate) fn rules(args: &RulesArgs) -> Result<(), Failure> {
    // Another seed than the one with which the constants were fitted.
    let usual = SimulationParameters {
        seed: 6,
        channels: 1000,
        packets: 6000,
        ..SimulationParameters::default()
    };
    let plan = args.simulation.plan(usual);
    let kinds: [&ChannelFamily; 3] = [&ORDINARY, &BURSTY, &MOVING];
    let rows = Family::ALL.into_iter().flat_map(|family| {
        let plan = &plan;
        kinds.into_iter().map(move |kind| RuleSessions {
            family,
            kind: kind.name,
            sessions: sessions(plan, kind, family),
        })
    });
    let rows: Vec<RuleSessions> = Progress::show_while("simulating channels", || rows.collect());
    let text = if args.json {
        serde_json::to_string_pretty(&rules_as_json(&plan, &rows)).context("rules")? + "\n"
    } else {
        rules_as_text(&plan, &rows)
    };
    std::io::stdout().lock().write_all(text.as_bytes()).context("standard output")
}

fn rules_as_text(plan: &SimulationParameters, rows: &[RuleSessions]) -> String {
    let mut text = format!(
        "{} sessions of {} packets, seed {}: goodput over that of the best member kept throughout\n",
        plan.channels, plan.packets, plan.seed
    );
    for row in rows {
        let _ = write!(text, "{:4} {:8}", row.family.name(), row.kind);
        for rule in Rule::ALL {
            let _ = write!(
                text,
                "  {} {:.4} (worst {:.3}, {:.1} changes)",
                rule.name(),
                row.mean(rule),
                row.worst(rule),
                row.changes(rule)
            );
        }
        text.push('\n');
    }
    text
}

fn rules_as_json(plan: &SimulationParameters, rows: &[RuleSessions]) -> Value {
    let rows = rows.iter().flat_map(|row| {
        Rule::ALL.map(|rule| {
            json!({
                "family": row.family.name(),
                "channels": row.kind,
                "rule": rule.name(),
                "goodput": row.mean(rule),
                "worst": row.worst(rule),
                "changes": row.changes(rule),
            })
        })
    });
    json!({
        "seed": plan.seed,
        "sessions": plan.channels,
        "packets": plan.packets,
        "rows": rows.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_boundary_and_rule_has_its_line() {
        let plan =
            SimulationParameters { channels: 200, packets: 600, ..SimulationParameters::default() };
        let fit = Fit::new(plan.clone());
        assert_eq!(fit_as_text(&fit).lines().count(), 2 + 8 + 4 + 1);
        assert_eq!(fit_as_json(&fit)["boundaries"][7]["above"], "off");
        let row = RuleSessions {
            family: Family::R2d2,
            kind: "moving",
            sessions: sessions(&plan, &MOVING, Family::R2d2),
        };
        assert!(rules_as_text(&plan, &[row]).contains("r2d2 moving    loss-rate "));
    }
}
