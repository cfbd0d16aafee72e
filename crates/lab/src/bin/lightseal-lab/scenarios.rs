//! `lightseal-lab scenarios` and `lab drives`: the two evaluations of MAC aggregation in scenarios.

use clap::{Args, ValueEnum};
use lightseal_cli::failure::{Context, Failure};
use lightseal_cli::progress::Progress;
use lightseal_dtls::AdaptRule;
use lightseal_lab::aggregation::robot::{Drive, LossProfile};
use lightseal_lab::aggregation::static_scenarios::{SCENARIOS, Scenario, ScenarioResult};
use lightseal_lab::aggregation::title;
use lightseal_lab::stream::Accounting;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write as _;

#[derive(Clone, Debug, Args)]
pub(crate) struct ScenariosArgs {
    /// Run only the scenario with payloads of this length: 10, 30 or 70 [default: all].
    #[arg(long, value_name = "BYTES", value_parser = payload)]
    payload: Option<usize>,
    /// Number of messages under each scheme.
    #[arg(long, value_name = "N", default_value_t = 100_000,
          value_parser = clap::value_parser!(u32).range(1000..=10_000_000))]
    messages: u32,
    /// Seed of all random losses.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print everything as JSON instead.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct DrivesArgs {
    /// Number of courses, each with another seed.
    #[arg(long, value_name = "N", default_value_t = 9,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    courses: u32,
    /// Seed of the first course.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Rule that chooses the parameters.
    #[arg(long, value_enum, default_value_t = RuleName::Hindsight)]
    rule: RuleName,
    /// Print everything as JSON instead.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum RuleName {
    /// The number of records that each scheme would have verified recently.
    Hindsight,
    /// The loss rate of the last 200 records, as in the paper.
    LossRate,
}

fn payload(text: &str) -> Result<usize, String> {
    let known = SCENARIOS.iter().map(|scenario| scenario.payload_bytes);
    let found = known.into_iter().find(|bytes| bytes.to_string() == text);
    found.ok_or_else(|| "the scenarios have payloads of 10, 30 and 70 bytes".into())
}

/// Runs the static scenarios over sockets.
pub(crate) fn scenarios(args: &ScenariosArgs) -> Result<(), Failure> {
    let asked = |scenario: &&Scenario| args.payload.is_none_or(|p| p == scenario.payload_bytes);
    let progress = Progress::steps(SCENARIOS.iter().filter(asked).count(), args.json);
    let (mut text, mut all) = (String::new(), Vec::new());
    for scenario in SCENARIOS.iter().filter(asked) {
        progress.set_step_name(&format!("{} bytes", scenario.payload_bytes));
        let cells = scenario.run(args.messages as usize, args.seed).context("scenarios")?;
        progress.step();
        describe(scenario, &cells, args.messages, &mut text);
        all.push(as_json(scenario, &cells));
    }
    drop(progress);
    if args.json {
        let value = json!({ "messages": args.messages, "seed": args.seed, "scenarios": all });
        text = serde_json::to_string_pretty(&value).context("scenarios")? + "\n";
    }
    std::io::stdout().lock().write_all(text.as_bytes()).context("standard output")
}

fn describe(scenario: &Scenario, cells: &[ScenarioResult], messages: u32, text: &mut String) {
    let _ = writeln!(
        text,
        "{} bytes, {} a second, {:.2} % lost, {messages} messages: goodput in %, gain in %, with \
         intervals of 95 %",
        scenario.payload_bytes,
        scenario.per_second,
        f64::from(scenario.loss) / 100.0
    );
    for cell in cells {
        let _ = write!(text, "  {:14}", title(cell.scheme));
        for accounting in Accounting::ALL {
            let goodput = cell.log.goodput_interval(accounting);
            let gain = cell.gain_over(&cells[0], accounting);
            let _ = write!(
                text,
                "  {:5} {:5.2} ± {:4.2}, {:+6.2} ± {:4.2}",
                accounting.name(),
                100.0 * goodput.mean,
                100.0 * goodput.half_width,
                100.0 * gain.mean,
                100.0 * gain.half_width
            );
        }
        let _ = writeln!(text, "  lost {:.3}", 100.0 * cell.loss);
    }
}

fn as_json(scenario: &Scenario, cells: &[ScenarioResult]) -> Value {
    let rows = cells.iter().flat_map(|cell| {
        Accounting::ALL.map(|accounting| {
            let goodput = cell.log.goodput_interval(accounting);
            let gain = cell.gain_over(&cells[0], accounting);
            json!({
                "scheme": cell.scheme.to_string(),
                "accounting": accounting.name(),
                "loss_percent": 100.0 * cell.loss,
                "goodput_percent": 100.0 * goodput.mean,
                "goodput_error_percent": 100.0 * goodput.half_width,
                "gain_percent": 100.0 * gain.mean,
                "gain_error_percent": 100.0 * gain.half_width,
            })
        })
    });
    json!({
        "payload_bytes": scenario.payload_bytes,
        "frequency_hertz": scenario.per_second,
        "paper_gain_percent": 100.0 * scenario.paper_gain,
        "rows": rows.collect::<Vec<_>>(),
    })
}

/// A drive, compared with the drive under plain tags on the same course.
struct DriveComparison {
    profile: LossProfile,
    seed: u64,
    family: &'static str,
    /// Goodput by each of [`Accounting::ALL`].
    goodput: [f64; 2],
    gain: [f64; 2],
    /// The share of running averages that reach [`NO_WORSE_SHARE`] times those of plain tags, and
    /// the worst running average, both counted in our bytes.
    windows: f64,
    worst: f64,
    changes: usize,
}

/// The share of plain tags' running average that a running average must reach to count as no worse.
const NO_WORSE_SHARE: f64 = 0.98;

/// Simulates a robot that drives, under plain tags, Agg and R2D2.
pub(crate) fn drives(args: &DrivesArgs) -> Result<(), Failure> {
    let rule = match args.rule {
        RuleName::Hindsight => AdaptRule::Hindsight,
        RuleName::LossRate => AdaptRule::LossRate,
    };
    let mut outcomes = Vec::new();
    for profile in LossProfile::ALL {
        for seed in (0..u64::from(args.courses)).map(|course| args.seed.wrapping_add(course)) {
            let what = format!("hall {}, seed {seed}", profile.name());
            let drives = Progress::show_while(&what, || Drive::all(profile, rule, seed))
                .context("drives")?;
            outcomes.extend(drives.iter().map(|drive| outcome(profile, seed, drive, &drives[0])));
        }
    }
    let text = if args.json {
        let rows: Vec<Value> = outcomes.iter().map(drive_as_json).collect();
        serde_json::to_string_pretty(&json!({ "drives": rows })).context("drives")? + "\n"
    } else {
        drives_as_text(&outcomes)
    };
    std::io::stdout().lock().write_all(text.as_bytes()).context("standard output")
}

fn outcome(profile: LossProfile, seed: u64, drive: &Drive, plain: &Drive) -> DriveComparison {
    let gains = drive.running_gain(plain, Accounting::Ours);
    let good = gains.iter().filter(|gain| **gain >= NO_WORSE_SHARE).count();
    let goodput = Accounting::ALL.map(|accounting| drive.log.goodput(accounting));
    let base = Accounting::ALL.map(|accounting| plain.log.goodput(accounting));
    DriveComparison {
        profile,
        seed,
        family: drive.name(),
        goodput,
        gain: [goodput[0] / base[0], goodput[1] / base[1]],
        windows: good as f64 / gains.len().max(1) as f64,
        worst: gains.iter().copied().fold(f64::INFINITY, f64::min),
        changes: drive.log.schemes.len() - 1,
    }
}

fn drives_as_text(outcomes: &[DriveComparison]) -> String {
    let mut text = String::from(
        "goodput in % and times that of plain tags, ours and the paper's accounting; running \
         averages over 200 packets that reach 0.98 of plain tags', and the worst\n",
    );
    for outcome in outcomes {
        let _ = writeln!(
            text,
            "{:5} seed {:2} {:4}  ours {:.2} {:.3}  paper {:.2} {:.3}  {:6.2} %  worst {:.2}  {:2} \
             changes",
            outcome.profile.name(),
            outcome.seed,
            outcome.family,
            100.0 * outcome.goodput[0],
            outcome.gain[0],
            100.0 * outcome.goodput[1],
            outcome.gain[1],
            100.0 * outcome.windows,
            outcome.worst,
            outcome.changes
        );
    }
    text
}

fn drive_as_json(outcome: &DriveComparison) -> Value {
    json!({
        "hall": outcome.profile.name(),
        "seed": outcome.seed,
        "family": outcome.family,
        "goodput_percent": 100.0 * outcome.goodput[0],
        "gain": outcome.gain[0],
        "paper_goodput_percent": 100.0 * outcome.goodput[1],
        "paper_gain": outcome.gain[1],
        "windows_percent": 100.0 * outcome.windows,
        "worst_window": outcome.worst,
        "changes": outcome.changes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scheme_and_every_drive_has_its_line() {
        let cells = SCENARIOS[0].run(1000, 1).unwrap();
        let mut text = String::new();
        describe(&SCENARIOS[0], &cells, 1000, &mut text);
        assert_eq!(text.lines().count(), 1 + 9);
        assert_eq!(as_json(&SCENARIOS[0], &cells)["rows"].as_array().map(Vec::len), Some(18));
        let drives = Drive::all(LossProfile::Usual, AdaptRule::LossRate, 1).unwrap();
        let plain = outcome(LossProfile::Usual, 1, &drives[0], &drives[0]);
        assert!(plain.gain == [1.0; 2] && plain.windows == 1.0 && plain.changes == 0);
        assert!(drives_as_text(&[plain]).contains("usual seed  1 off "));
    }
}
