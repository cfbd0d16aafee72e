//! The cases of the suite: which version they test, which of them are refused, and how they ended.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// How a case ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Passed,
    /// The text is what the runner printed.
    Failed(String),
    /// The shim does not implement something that the case needs.
    NotImplemented,
    /// The case tests something that we refuse on purpose. The text is the reason.
    Refused(String),
}

/// The versions that a case may test.
pub(super) const VERSIONS: [(&str, &str, &str); 2] =
    [("dtls12", "DTLS 1.2", "TLS12"), ("dtls13", "DTLS 1.3", "TLS13")];

/// Whether a case tests a version, by the case's name: one without any version in its name runs
/// with the newest one that both ends have, and counts for both.
fn tests(case: &str, version: &str) -> bool {
    let named =
        |version: &str| case.contains(version) || case.contains(&version.replace('1', "-1"));
    named(version) || !VERSIONS.iter().any(|(_, _, other)| named(other))
}

/// Patterns with a reason each.
#[derive(Debug, Default)]
pub(super) struct Reasons(Vec<(String, String)>);

impl Reasons {
    /// Reads a member of the configuration.
    pub(super) fn read(config: &Value, member: &str) -> Self {
        let entries = config[member].as_object().into_iter().flatten();
        let entry = |(pattern, reason): (&String, &Value)| {
            (pattern.clone(), reason.as_str().unwrap_or_default().to_owned())
        };
        Self(entries.map(entry).collect())
    }

    /// The reason of the first pattern that matches.
    pub(super) fn of(&self, case: &str) -> Option<&str> {
        let found = self.0.iter().find(|(pattern, _)| matches(pattern, case));
        found.map(|(_, reason)| reason.as_str())
    }

    /// The patterns that match none of the cases.
    pub(super) fn unused(&self, cases: &[String]) -> Vec<&str> {
        let unused = |entry: &&(String, String)| !cases.iter().any(|case| matches(&entry.0, case));
        self.0.iter().filter(unused).map(|(pattern, _)| pattern.as_str()).collect()
    }
}

/// Whether a pattern with `*` for any text matches the whole of a name.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => name.strip_prefix(start).is_some_and(|mut tail| {
            loop {
                if matches(rest, tail) {
                    return true;
                }
                let mut letters = tail.chars();
                if letters.next().is_none() {
                    return false;
                }
                tail = letters.as_str();
            }
        }),
    }
}

/// Reads a line that says how a case ended, such as `PASSED (NAME)`.
pub(super) fn verdict(line: &str) -> Option<(&str, Verdict)> {
    let (word, rest) = line.split_once(" (")?;
    let verdict = match word {
        "PASSED" => Verdict::Passed,
        "UNIMPLEMENTED" => Verdict::NotImplemented,
        "FAILED" => Verdict::Failed(String::new()),
        _ => return None,
    };
    Some((rest.strip_suffix(')')?, verdict))
}

/// All verdicts of a run.
#[derive(Debug, Default)]
pub(super) struct Verdicts(pub(super) BTreeMap<String, Verdict>);

/// How many cases ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) passed: u32,
    pub(super) failed: u32,
    pub(super) refused: u32,
}

impl Counts {
    /// The passed ones among those that are not refused, in per cent.
    pub(super) fn percent(self) -> f64 {
        let run = self.passed + self.failed;
        if run == 0 { 0.0 } else { 100.0 * f64::from(self.passed) / f64::from(run) }
    }
}

impl Verdicts {
    /// How the cases ended whose name passes `filter`.
    pub(super) fn count(&self, filter: impl Fn(&str) -> bool) -> Counts {
        let mut counts = Counts::default();
        for (_, verdict) in self.0.iter().filter(|(name, _)| filter(name)) {
            match verdict {
                Verdict::Passed => counts.passed += 1,
                Verdict::Failed(_) | Verdict::NotImplemented => counts.failed += 1,
                Verdict::Refused(_) => counts.refused += 1,
            }
        }
        counts
    }

    /// How the cases of a version ended.
    pub(super) fn of_version(&self, version: &str) -> Counts {
        self.count(|name| tests(name, version))
    }

    /// Each reason for which cases are refused, with the number of these cases.
    pub(super) fn refused(&self) -> BTreeMap<&str, u32> {
        let mut reasons = BTreeMap::new();
        for verdict in self.0.values() {
            if let Verdict::Refused(reason) = verdict {
                *reasons.entry(reason.as_str()).or_default() += 1;
            }
        }
        reasons
    }

    /// The cases that failed.
    pub(super) fn failed(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().filter_map(|(name, verdict)| match verdict {
            Verdict::Failed(text) => Some((name.as_str(), text.as_str())),
            Verdict::NotImplemented => Some((name.as_str(), "not implemented by the shim")),
            Verdict::Passed | Verdict::Refused(_) => None,
        })
    }

    /// Everything, for other programs.
    pub(super) fn json(&self, known: &Reasons) -> Value {
        let shown = |counts: Counts| {
            let Counts { passed, failed, refused } = counts;
            json!({
                "passed": passed, "failed": failed, "refused": refused, "percent": counts.percent(),
            })
        };
        let versions: Map<_, _> = VERSIONS
            .iter()
            .map(|(key, _, version)| ((*key).to_owned(), shown(self.of_version(version))))
            .collect();
        let failed = self.failed().map(|(name, _)| json!({ "case": name, "why": known.of(name) }));
        let refused = self.refused();
        let refused = refused.iter().map(|(why, cases)| json!({ "why": why, "cases": cases }));
        json!({
            "all": shown(self.count(|_| true)),
            "versions": versions,
            "failed": failed.collect::<Vec<_>>(),
            "unexplained": self.failed().filter(|(name, _)| known.of(name).is_none()).count(),
            "refused": refused.collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        assert!(matches("*-TLS1-*", "DTLS-TLS1-RSA"));
        assert!(!matches("*-TLS1-*", "DTLS-TLS12-RSA"));
        assert!(matches("ALPN*DTLS", "ALPNServer-DTLS"));
        assert!(!matches("ALPN", "ALPNServer"));
        assert!(matches("*", ""));
    }

    #[test]
    fn a_case_counts_for_the_versions_in_its_name_or_for_all() {
        assert!(tests("Resume-Client-TLS12-TLS13-DTLS", "TLS12"));
        assert!(tests("Resume-Client-TLS12-TLS13-DTLS", "TLS13"));
        assert!(!tests("DTLS13-SendExtraFinished", "TLS12"));
        assert!(tests("MTU-DTLS", "TLS12") && tests("MTU-DTLS", "TLS13"));
    }

    #[test]
    fn refused_cases_count_neither_as_passed_nor_as_failed() {
        let refused = Verdict::Refused("no".into());
        let all = [("a-TLS12", Verdict::Passed), ("b", Verdict::NotImplemented), ("c", refused)];
        let verdicts = Verdicts(all.map(|(name, verdict)| (name.to_owned(), verdict)).into());
        let counts = verdicts.of_version("TLS12");
        assert_eq!(counts, Counts { passed: 1, failed: 1, refused: 1 });
        assert_eq!(counts.percent(), 50.0);
        assert_eq!(verdicts.of_version("TLS13").passed, 0);
        assert_eq!(verdict("PASSED (a-DTLS)"), Some(("a-DTLS", Verdict::Passed)));
        assert_eq!(verdict("\tstderr: (x)"), None);
    }
}
