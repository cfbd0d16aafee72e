//! `lightseal-lab sessions`: servers with few session slots.

use clap::Args;
use clap::builder::RangedU64ValueParser;
use lightseal_cli::failure::{Context, Failure};
use lightseal_cli::progress::Progress;
use lightseal_cli::units::Quantity;
use lightseal_cli::when_full::when_full;
use lightseal_dtls::WhenFull;
use lightseal_lab::sessions::{ClientPopulation, Measured};
use lightseal_lab::statistics::Interval;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write as _;
use std::num::NonZeroUsize;
use std::time::Duration;

/// Maximum number of slots, and of clients.
const MOST: u64 = 100_000;
/// Limits of the mean session duration, which bound the virtual time.
const SESSIONS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(100 * 3600)];
/// Maximum mean number of messages in a session.
const MAX_MESSAGES: u32 = 1000;

#[derive(Clone, Debug, Args)]
pub(crate) struct SessionsArgs {
    /// Number of session slots of the server.
    #[arg(long, value_name = "R", default_value_t = 3,
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=MOST))]
    slots: usize,
    /// Number of clients that come and go.
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=MOST))]
    clients: usize,
    /// Mean duration of a session divided by the mean idle time of a client, 0.001 to 1000.
    #[arg(long, value_name = "RHO", default_value = "0.5", value_parser = load)]
    rho: f64,
    /// What the server does when all slots are taken: `refuse`, `evict-oldest`, or
    /// `evict-idle:TIME` for a client that was silent for that time.
    #[arg(long, value_name = "POLICY", default_value = "refuse", value_parser = when_full)]
    policy: WhenFull,
    /// Mean duration of a session.
    #[arg(long, value_name = "TIME", default_value = "1h")]
    session: Quantity<Duration>,
    /// Mean interval at which a client in a session sends a message [default: never].
    #[arg(long, value_name = "TIME")]
    talk: Option<Quantity<Duration>>,
    /// Expected number of clients' attempts.
    #[arg(long, value_name = "K", default_value_t = 100_000,
          value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    attempts: u32,
    /// Seed of all random choices.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print everything as JSON instead.
    #[arg(long)]
    json: bool,
}

fn load(text: &str) -> Result<f64, &'static str> {
    let load = text.parse().ok().filter(|load| (0.001..=1000.0).contains(load));
    load.ok_or("expected a number from 0.001 to 1000")
}

impl SessionsArgs {
    fn population(&self) -> Result<ClientPopulation, Failure> {
        let session = self.session.0;
        if !(SESSIONS[0]..=SESSIONS[1]).contains(&session) {
            return Err(Failure::new("--session must be 1s to 100h"));
        }
        if self.talk.is_some_and(|talk| talk.0 < session / MAX_MESSAGES) {
            return Err(Failure::new("--talk must be at least a thousandth of --session"));
        }
        let count = |n| NonZeroUsize::new(n).ok_or_else(|| Failure::new("at least 1"));
        Ok(ClientPopulation {
            when_full: self.policy,
            session,
            message_interval: self.talk.map(|talk| talk.0),
            attempts: self.attempts as usize,
            seed: self.seed,
            ..ClientPopulation::new(count(self.slots)?, count(self.clients)?, self.rho)
        })
    }
}

/// Counts the attempts and prints the counts beside the formula.
pub(crate) fn run(args: &SessionsArgs) -> Result<(), Failure> {
    let population = args.population()?;
    let measured =
        Progress::show_while("simulating clients", || population.run()).context("sessions")?;
    let text = if args.json {
        serde_json::to_string_pretty(&as_json(&population, &measured)).context("sessions")? + "\n"
    } else {
        as_text(&population, &measured)
    };
    std::io::stdout().lock().write_all(text.as_bytes()).context("standard output")
}

/// The policy as it is written on the command line.
fn policy(when_full: WhenFull) -> String {
    match when_full {
        WhenFull::Refuse => "refuse".into(),
        WhenFull::EvictOldest => "evict-oldest".into(),
        WhenFull::EvictIdle(least) => format!("evict-idle:{}s", least.as_secs_f64()),
        other => format!("{other:?}"),
    }
}

fn as_text(population: &ClientPopulation, measured: &Measured) -> String {
    let mut text = format!(
        "{} slots, {} clients, rho = {}, {}: {} attempts, seed {}, in % with intervals of 95 %\n",
        population.slots,
        population.clients,
        population.load,
        policy(population.when_full),
        measured.attempts,
        population.seed
    );
    let counted = |interval: Interval| {
        format!("counted {:6.2} ± {:4.2}", 100.0 * interval.mean, 100.0 * interval.half_width)
    };
    let formula = population.formula();
    let lines = [
        ("time with all slots taken", Some(formula.time_congestion()), measured.time_congestion),
        ("attempts that find it so", Some(formula.call_congestion()), measured.call_congestion),
        ("attempts refused", None, measured.refused_share),
        ("sessions cut short", None, measured.cut_short),
    ];
    for (what, formula, interval) in lines {
        let formula = formula.map_or(String::new(), |f| format!("formula {:6.2}", 100.0 * f));
        let _ = writeln!(text, "  {what:25}  {formula:14}  {}", counted(interval));
    }
    text
}

fn as_json(population: &ClientPopulation, measured: &Measured) -> Value {
    let formula = population.formula();
    let counted = |interval: Interval| json!({ "percent": 100.0 * interval.mean, "error_percent": 100.0 * interval.half_width });
    json!({
        "slots": population.slots,
        "clients": population.clients,
        "rho": population.load,
        "policy": policy(population.when_full),
        "session_seconds": population.session.as_secs_f64(),
        "talk_seconds": population.message_interval.map(|talk| talk.as_secs_f64()),
        "seed": population.seed,
        "formula": {
            "time_congestion_percent": 100.0 * formula.time_congestion(),
            "call_congestion_percent": 100.0 * formula.call_congestion(),
        },
        "counted": {
            "attempts": measured.attempts,
            "refused": measured.refused,
            "evicted": measured.evicted,
            "time_congestion": counted(measured.time_congestion),
            "call_congestion": counted(measured.call_congestion),
            "refused_share": counted(measured.refused_share),
            "cut_short": counted(measured.cut_short),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_written_as_they_are_read() {
        for text in ["refuse", "evict-oldest", "evict-idle:0.5s", "evict-idle:7200s"] {
            assert_eq!(policy(when_full(text).unwrap()), text);
        }
    }

    #[test]
    fn loads_are_numbers_within_reason() {
        assert_eq!(load("0.5"), Ok(0.5));
        for wrong in ["0", "-1", "NaN", "inf", "1001", ""] {
            assert!(load(wrong).is_err(), "{wrong}");
        }
    }
}
