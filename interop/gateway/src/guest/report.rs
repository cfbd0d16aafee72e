//! The outcomes of trials as lines, JSON and a page.

use super::trials::Verdict;
use serde_json::{Value, json};

/// A series of trials between the same endpoints.
#[derive(Clone, Debug)]
pub struct Series {
    /// What joins the endpoints.
    pub joined_by: String,
    /// Number of endpoints.
    pub ends: usize,
    /// The outcome of each trial.
    pub verdicts: Vec<Verdict>,
}

/// The line of one trial.
pub fn line(series: &str, verdict: &Verdict) -> String {
    let (word, detail) = match &verdict.outcome {
        Ok(detail) => ("ok", detail.clone()),
        Err(why) => ("FAILED", why.to_string()),
    };
    format!("{series} {:16} {word:6} {:5.1} s  {detail}", verdict.trial.name, verdict.seconds)
}

impl Series {
    /// Number of failed trials.
    pub fn failed(&self) -> usize {
        self.verdicts.iter().filter(|verdict| verdict.outcome.is_err()).count()
    }

    fn json(&self) -> Value {
        let trial = |verdict: &Verdict| {
            json!({
                "name": verdict.trial.name,
                "about": verdict.trial.about,
                "ok": verdict.outcome.is_ok(),
                "detail": match &verdict.outcome {
                    Ok(detail) => detail.clone(),
                    Err(why) => why.to_string(),
                },
                "not_valid": verdict.not_valid,
                "seconds": verdict.seconds,
            })
        };
        json!({
            "joined_by": self.joined_by,
            "ends": self.ends,
            "trials": self.verdicts.iter().map(trial).collect::<Vec<_>>(),
        })
    }
}

/// All results as JSON; `kernel` is the guest's kernel package.
pub fn json(kernel: &str, series: &[Series]) -> Value {
    let not_valid: u64 = series.iter().flat_map(|one| &one.verdicts).map(|v| v.not_valid).sum();
    json!({
        "kernel": kernel,
        "failed": series.iter().map(Series::failed).sum::<usize>(),
        "not_valid": not_valid,
        "series": series.iter().map(Series::json).collect::<Vec<_>>(),
    })
}

/// A page with a table for each series. `when` is the date and the commit.
pub fn page(kernel: &str, when: &str, series: &[Series]) -> String {
    let failed: usize = series.iter().map(Series::failed).sum();
    let held: usize = series.iter().map(|series| series.verdicts.len()).sum();
    let mut page = format!(
        "# Real MACsec endpoints\n\n\
        Debian's kernel and `wpa_supplicant` in an emulated machine, each endpoint in a namespace of\n\
        its own behind a TAP device. The heading of each table says what joins the TAP devices. A\n\
        trial fails if an endpoint refuses one frame (InPktsNotValid, InPktsLate and similar\n\
        counters), whatever else happens. Rates are those of an emulated processor and only show\n\
        that TCP works.\n\n\
         Written by `cargo xtask interop-macsec --write docs/macsec-interop.md`, {when}, {kernel}: {} ok, {failed} failed.\n",
        held - failed
    );
    for series in series {
        page += &format!(
            "\n## {} ends joined by {}\n\n| trial | what must hold | outcome |\n|---|---|---|\n",
            series.ends, series.joined_by
        );
        for verdict in &series.verdicts {
            let outcome = match &verdict.outcome {
                Ok(detail) => format!("ok: {detail}"),
                Err(why) => format!("**failed**: {why}"),
            };
            page += &format!("| {} | {} | {outcome} |\n", verdict.trial.name, verdict.trial.about);
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Failure;
    use crate::guest::trials::TRIALS;

    #[test]
    fn failures_are_counted_and_told_everywhere() {
        let verdict = |outcome| Verdict { trial: &TRIALS[0], outcome, not_valid: 0, seconds: 1.25 };
        let series = Series {
            joined_by: "a bridge".into(),
            ends: 2,
            verdicts: vec![
                verdict(Ok("fine".into())),
                verdict(Err(Failure::Broken("lost".into()))),
            ],
        };
        assert_eq!(series.failed(), 1);
        assert!(line("bridge", &series.verdicts[1]).ends_with("FAILED   1.2 s  lost"));
        let page = page("linux-1", "today", std::slice::from_ref(&series));
        assert!(page.contains("1 ok, 1 failed.") && page.contains("| **failed**: lost |"));
        let value = json("linux-1", &[series]);
        assert_eq!(value["series"][0]["trials"][1]["ok"], false);
    }
}
