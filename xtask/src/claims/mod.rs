//! The registry of claims: one file for each topic.
//!
//! A claim runs a program of this workspace, built with optimisation, and reads the JSON that it
//! prints. The source has bars, never measured figures.

mod aggregation;
mod attacks;
mod bad_starts;
mod captures;
mod choice;
mod coap;
mod command;
mod dialogue;
mod dissector;
mod documents;
mod duty;
mod duty_xmac;
mod gateway;
mod gateway_real;
mod gateway_speed;
mod group;
mod group_attacks;
mod group_kills;
mod group_lab;
mod hostile;
mod instructions;
mod lab;
mod macs;
mod masks;
mod overload;
mod peers;
mod reconnect;
mod sessions;

use crate::claim::{Claim, Unmeasured};
use crate::process::{capture, cargo};
use crate::{Failure, system};
use serde_json::Value;

/// Every claim, by topic.
pub(crate) fn all() -> impl Iterator<Item = &'static Claim> {
    [
        aggregation::CLAIMS,
        attacks::CLAIMS,
        captures::CLAIMS,
        choice::CLAIMS,
        coap::CLAIMS,
        command::CLAIMS,
        dialogue::CLAIMS,
        dissector::CLAIMS,
        documents::CLAIMS,
        duty::CLAIMS,
        duty_xmac::CLAIMS,
        gateway::CLAIMS,
        gateway_real::CLAIMS,
        gateway_speed::CLAIMS,
        group::CLAIMS,
        group_attacks::CLAIMS,
        group_kills::CLAIMS,
        group_lab::CLAIMS,
        hostile::CLAIMS,
        instructions::CLAIMS,
        lab::CLAIMS,
        macs::CLAIMS,
        masks::CLAIMS,
        overload::CLAIMS,
        peers::CLAIMS,
        reconnect::CLAIMS,
        sessions::CLAIMS,
    ]
    .into_iter()
    .flatten()
}

/// Builds and runs `program` of `package` and parses the JSON it prints.
fn run_json(package: &str, program: &str, arguments: &[&str]) -> Result<Value, Unmeasured> {
    run_json_with(&[], package, program, arguments)
}

/// [`run_json`] with features of `package` that are off by default.
fn run_json_with(
    features: &[&str],
    package: &str,
    program: &str,
    arguments: &[&str],
) -> Result<Value, Unmeasured> {
    let text = run_text_with(features, package, program, arguments)?;
    serde_json::from_str(&text)
        .map_err(|error| Unmeasured::Broken(format!("{program} printed no JSON: {error}")))
}

/// Builds and runs `program` of `package` and returns what it prints.
fn run_text(package: &str, program: &str, arguments: &[&str]) -> Result<String, Unmeasured> {
    run_text_with(&[], package, program, arguments)
}

fn run_text_with(
    features: &[&str],
    package: &str,
    program: &str,
    arguments: &[&str],
) -> Result<String, Unmeasured> {
    let fixed = ["run", "--quiet", "--release", "--package", package, "--bin", program];
    let features = features.iter().flat_map(|feature| ["--features", *feature]);
    let line: Vec<_> =
        fixed.into_iter().chain(features).chain(["--"]).chain(arguments.iter().copied()).collect();
    capture(cargo(&line)).map_err(Unmeasured::Broken)
}

/// [`run_json`] of a program of `interop`, which needs system packages.
fn run_peer(program: &str, arguments: &[&str]) -> Result<Value, Unmeasured> {
    system::require_packages().map_err(|failure| match failure {
        Failure::Failed(reason) => Unmeasured::Broken(reason),
        Failure::NotPossibleHere(reason) => Unmeasured::NotHere(reason),
    })?;
    run_json("interop", program, arguments)
}

/// The number at `pointer` (RFC 6901) in the JSON that a program printed.
fn number(value: &Value, pointer: &str) -> Result<f64, Unmeasured> {
    value
        .pointer(pointer)
        .and_then(Value::as_f64)
        .ok_or_else(|| Unmeasured::Broken(format!("there is no number at {pointer}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_every_claim_is_described() {
        let mut names: Vec<_> = all().map(|claim| claim.name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(all().all(|claim| !claim.about.is_empty() && claim.seconds > 0));
    }

    #[test]
    fn a_missing_number_is_an_error() {
        let value = serde_json::json!({ "ratio": 1.5, "name": "x" });
        assert_eq!(number(&value, "/ratio").ok(), Some(1.5));
        assert!(number(&value, "/name").is_err());
        assert!(number(&value, "/none").is_err());
    }
}
