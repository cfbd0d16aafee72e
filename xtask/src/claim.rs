//! `cargo xtask claim`: measures the figures that we publish, and compares them with their bars.

use crate::Failure;
use crate::claims::{self, Bar, Claim, Measured, show};
use crate::measure::processor;
use clap::Args;
use serde_json::json;
use std::process::ExitCode;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The claims to measure; without any, all claims are listed
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(claims::all().map(|claim| &*claim.name)))]
    names: Vec<String>,
    /// Measure every claim
    #[arg(long, conflicts_with_all = ["names", "quick"])]
    all: bool,
    /// Measure the claims that take less than a minute
    #[arg(long, conflicts_with = "names")]
    quick: bool,
    /// Print one JSON object for each claim
    #[arg(long)]
    json: bool,
}

/// A claim is quick below this many seconds.
const QUICK_SECONDS: u32 = 60;

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let chosen = |claim: &&Claim| {
        arguments.all
            || (arguments.quick && claim.seconds < QUICK_SECONDS)
            || arguments.names.iter().any(|name| *name == claim.name)
    };
    if !(arguments.all || arguments.quick) && arguments.names.is_empty() {
        list(arguments.json);
        return ExitCode::SUCCESS;
    }
    let verdicts = claims::all().filter(chosen).map(|claim| {
        let outcome = claim.measure.measure();
        report(claim, &outcome, arguments.json);
        Verdict::of(claim, &outcome)
    });
    ExitCode::from(exit_code(verdicts))
}

fn list(json: bool) {
    for claim in claims::all() {
        if json {
            let Claim { name, about, bar, seconds, .. } = claim;
            println!(
                "{}",
                json!({ "name": name, "about": about, "bar": bar.to_string(), "seconds": seconds })
            );
        } else {
            println!(
                "{:32} {:>4} s  bar {:8} {}",
                claim.name,
                claim.seconds,
                claim.bar.to_string(),
                claim.about
            );
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    Holds,
    FallsShort,
    NotMeasurable,
}

impl Verdict {
    fn of(claim: &Claim, outcome: &Result<Measured, Failure>) -> Self {
        match outcome {
            Ok(measured) if claim.bar.holds(measured.figure) => Self::Holds,
            Ok(_) | Err(Failure::Failed(_)) => Self::FallsShort,
            Err(Failure::NotPossibleHere(_)) => Self::NotMeasurable,
        }
    }
}

/// The exit code: 1 if any claim falls short, else 2 if any could not be measured, else 0.
fn exit_code(verdicts: impl Iterator<Item = Verdict>) -> u8 {
    verdicts.fold(0, |code, verdict| match (code, verdict) {
        (_, Verdict::FallsShort) | (1, _) => 1,
        (_, Verdict::NotMeasurable) => 2,
        (code, Verdict::Holds) => code,
    })
}

fn report(claim: &Claim, outcome: &Result<Measured, Failure>, json: bool) {
    let verdict = Verdict::of(claim, outcome);
    let (figure, detail) = match outcome {
        Ok(measured) => (Some(measured.figure), &measured.detail),
        Err(Failure::Failed(reason) | Failure::NotPossibleHere(reason)) => (None, reason),
    };
    if json {
        let holds = (verdict != Verdict::NotMeasurable).then_some(verdict == Verdict::Holds);
        let (name, bar) = (&claim.name, claim.bar.to_string());
        println!(
            "{}",
            json!({
                "name": name,
                "figure": figure,
                "bar": bar,
                "holds": holds,
                "processor": processor(),
                "detail": detail,
            })
        );
        return;
    }
    if verdict != Verdict::NotMeasurable {
        for line in detail.lines() {
            println!("{}: {line}", claim.name);
        }
        // A program's speed, also relative to its rivals, depends on the processor.
        println!("{}: measured on {}", claim.name, processor());
    }
    println!("{}", last_line(claim, figure, verdict, detail));
}

fn last_line(claim: &Claim, figure: Option<f64>, verdict: Verdict, reason: &str) -> String {
    let Claim { name, bar, .. } = claim;
    let shown = figure.map_or_else(|| "no figure".into(), |figure| show_beside(figure, *bar));
    match verdict {
        Verdict::Holds => format!("{name}: {shown} (bar {bar}) holds"),
        Verdict::FallsShort => format!("{name}: {shown} (bar {bar}) falls short"),
        Verdict::NotMeasurable => {
            format!("{name}: not measurable here: {}", reason.lines().next().unwrap_or_default())
        }
    }
}

/// A figure as by [`show`], but never rounded onto the bar: 0.99996 is not shown as 1.
fn show_beside(figure: f64, bar: Bar) -> String {
    let (Bar::AtLeast(limit) | Bar::AtMost(limit) | Bar::Exactly(limit)) = bar;
    let short = show(figure);
    if short == show(limit) && figure != limit { figure.to_string() } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(bar: Bar) -> Claim {
        let never = || Err(Failure::NotPossibleHere("never called".into()));
        Claim {
            name: "example".into(),
            about: "".into(),
            bar,
            seconds: 1,
            measure: Box::new(never),
        }
    }

    fn line(bar: Bar, outcome: &Result<Measured, Failure>) -> String {
        let claim = claim(bar);
        let figure = outcome.as_ref().ok().map(|measured| measured.figure);
        last_line(&claim, figure, Verdict::of(&claim, outcome), "no radio\nat all")
    }

    fn figure(figure: f64) -> Result<Measured, Failure> {
        Ok(Measured { figure, detail: String::new() })
    }

    #[test]
    fn a_bar_is_met_at_its_value_and_missed_past_it() {
        let least = Bar::AtLeast(1.9);
        assert_eq!(line(least, &figure(1.9)), "example: 1.9 (bar ≥ 1.9) holds");
        assert_eq!(line(least, &figure(1.899)), "example: 1.899 (bar ≥ 1.9) falls short");
        let most = Bar::AtMost(0.0);
        assert_eq!(line(most, &figure(0.0)), "example: 0 (bar ≤ 0) holds");
        assert_eq!(line(most, &figure(1.0)), "example: 1 (bar ≤ 0) falls short");
        let exactly = Bar::Exactly(17.24);
        assert_eq!(line(exactly, &figure(17.24)), "example: 17.24 (bar = 17.24) holds");
        assert_eq!(line(exactly, &figure(17.25)), "example: 17.25 (bar = 17.24) falls short");
    }

    #[test]
    fn what_is_no_number_falls_short() {
        assert!(!Bar::AtLeast(1.0).holds(f64::NAN));
        assert!(!Bar::AtMost(1.0).holds(f64::NAN));
        let broken = Err(Failure::Failed("it crashed".into()));
        assert_eq!(line(Bar::AtLeast(1.0), &broken), "example: no figure (bar ≥ 1) falls short");
    }

    #[test]
    fn a_missing_program_is_said_on_one_line() {
        let outcome = Err(Failure::NotPossibleHere(String::new()));
        assert_eq!(line(Bar::AtMost(0.0), &outcome), "example: not measurable here: no radio");
    }

    #[test]
    fn figures_are_not_rounded_onto_the_bar() {
        assert_eq!(show_beside(0.999_96, Bar::AtLeast(1.0)), "0.99996");
        assert_eq!(show_beside(0.999_96, Bar::AtLeast(2.0)), "1");
        assert_eq!(show(1.234_56), "1.2346");
        assert_eq!(show(1200.0), "1200");
    }

    #[test]
    fn one_failure_decides_the_exit_code() {
        use Verdict::{FallsShort, Holds, NotMeasurable};
        assert_eq!(exit_code([Holds, Holds].into_iter()), 0);
        assert_eq!(exit_code([Holds, NotMeasurable, Holds].into_iter()), 2);
        assert_eq!(exit_code([FallsShort, NotMeasurable].into_iter()), 1);
    }
}
