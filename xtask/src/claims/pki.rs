//! Claims on the verification of certificates.

use super::prelude::*;
use crate::process::cargo;
use crate::program::reported;
use crate::vectors;

pub(super) fn claims() -> Vec<Claim> {
    vec![
        "Number of cases of NIST's Public Key Interoperability Test Suite (PKITS) that end neither \
            as NIST says nor for a reason that the test lists. Bar: there may be none"
            .claim("pkits", AtMost(0.0), Seconds(10))
            .by(pkits()),
    ]
}

fn pkits() -> Reading {
    read(run)
        .line("{cases} cases")
        .each("outcomes[]", "{cases} {outcome}")
        .each("wrong[]", "wrong: {}")
        .needs("cases >= 240")
        .figure("#wrong[]")
}

fn run() -> Result<Value, Failure> {
    let folder = vectors::pkits(true).map_err(Failure::NotPossibleHere)?;
    let mut test = cargo(&["test", "--quiet", "--package", "lightseal-pki", "--test", "it"]);
    test.args(["--", "--exact", "pkits::nists_suite"]).env(vectors::PKITS, folder);
    reported(test, vectors::PKITS_REPORT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_case_that_ends_wrong_counts() {
        let outcomes = json!([{ "outcome": "valid, accepted", "cases": 250 }]);
        let mut report = json!({ "cases": 250, "outcomes": outcomes, "wrong": [] });
        let figure = |report: &Value| pkits().judge(report).map(|measured| measured.figure);
        assert!(figure(&report).is_ok_and(|figure| figure == 0.0));
        report["wrong"] = json!(["40101 accepted", "40102 accepted"]);
        assert!(figure(&report).is_ok_and(|figure| figure == 2.0));
        report["cases"] = json!(0);
        assert!(figure(&report).is_err());
    }
}
