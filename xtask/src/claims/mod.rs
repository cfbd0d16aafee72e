//! The registry of claims: one file for each topic.
//!
//! A claim runs a program of this workspace, built with optimisation, and reads the JSON that it
//! prints: most say in the notation of [`expression`] what they read. The source has bars, never
//! measured figures.

mod aggregation;
mod arm;
mod attacks;
mod bad_starts;
mod bogo;
mod captures;
mod choice;
mod claim;
mod coap;
mod command;
mod dialogue;
mod digests;
mod dissector;
mod documents;
mod duty;
mod duty_xmac;
mod expression;
mod firmware;
mod fleet;
mod footprint;
mod gateway;
mod gateway_real;
mod gateway_speed;
mod group;
mod group_attacks;
mod group_kills;
mod group_lab;
mod hostile;
mod instructions;
mod keys;
mod lab;
mod lines;
mod macs;
mod masks;
mod mixed_groups;
mod overload;
mod peers;
mod pki;
mod processors;
mod proxy_speed;
mod reading;
mod reconnect;
mod restart;
mod router;
mod sessions;
mod systems;
mod times;

pub(crate) use claim::{Bar, Claim, Measure, Measured, show};

use crate::Failure;
use crate::program::{LAB, Run};
use std::borrow::Cow;
use std::path::Path;
use std::sync::LazyLock;

/// Every claim, by topic.
pub(crate) fn all() -> impl Iterator<Item = &'static Claim> {
    static ALL: LazyLock<Vec<Claim>> = LazyLock::new(|| topics().into_iter().flatten().collect());
    ALL.iter()
}

fn topics() -> [Vec<Claim>; 43] {
    [
        aggregation::claims(),
        arm::claims(),
        attacks::claims(),
        bogo::claims(),
        captures::claims(),
        choice::claims(),
        coap::claims(),
        command::claims(),
        dialogue::claims(),
        digests::claims(),
        dissector::claims(),
        documents::claims(),
        duty::claims(),
        duty_xmac::claims(),
        firmware::claims(),
        fleet::claims(),
        footprint::claims(),
        gateway::claims(),
        gateway_real::claims(),
        gateway_speed::claims(),
        group::claims(),
        group_attacks::claims(),
        group_kills::claims(),
        group_lab::claims(),
        hostile::claims(),
        instructions::claims(),
        keys::claims(),
        lab::claims(),
        lines::claims(),
        macs::claims(),
        masks::claims(),
        mixed_groups::claims(),
        overload::claims(),
        peers::claims(),
        pki::claims(),
        processors::claims(),
        proxy_speed::claims(),
        reconnect::claims(),
        restart::claims(),
        router::claims(),
        sessions::claims(),
        times::claims(),
        systems::claims(),
    ]
}

/// What the topics use.
mod prelude {
    pub(super) use super::expression::{fill, number, select};
    pub(super) use super::reading::{
        Reading, Reducer, above_one, greatest, least, median, only, pair, percentage, r_squared,
        read, series, sum,
    };
    pub(super) use super::{About, Seconds, in_folder, lab_figure};
    pub(super) use crate::Failure;
    pub(super) use crate::claims::Bar::{AtLeast, AtMost, Exactly};
    pub(super) use crate::claims::{Claim, Measure, Measured};
    pub(super) use crate::program::{
        ASSOCIATIONS, CAMPAIGN, FLOOD, GROUPS, LAB, LIGHTSEAL, LIVENESS, LongTest,
        MANY_ASSOCIATIONS, MIXED, MIXED_GROUPS, PACE, PROXY_SPEED, Program, RECORDS, RESTRICTED,
        Run, beside_lightseal, parsed, python,
    };
    pub(super) use serde_json::{Value, json};
}

/// Expected duration of a measurement, without building the programs.
struct Seconds(u32);

/// What a claim is about, in one sentence for a reader who does not know the code: the figure, its
/// unit, and where the bar comes from.
trait About: Into<Cow<'static, str>> {
    /// The claim, without its measurement.
    fn claim(
        self,
        name: impl Into<Cow<'static, str>>,
        bar: Bar,
        Seconds(seconds): Seconds,
    ) -> Unmeasured {
        Unmeasured { name: name.into(), about: self.into(), bar, seconds }
    }
}

impl About for &'static str {}
impl About for String {}

/// A claim without its measurement.
struct Unmeasured {
    name: Cow<'static, str>,
    about: Cow<'static, str>,
    bar: Bar,
    seconds: u32,
}

impl Unmeasured {
    /// The claim, measured in this way.
    fn by(self, measure: impl Measure + 'static) -> Claim {
        let Self { name, about, bar, seconds } = self;
        Claim { name, about, bar, seconds, measure: Box::new(measure) }
    }
}

/// The run that prints the data of a figure of the lab.
fn lab_figure(name: &str) -> Run {
    LAB.run(format!("figure {name} --print"))
}

/// Measures with a temporary folder of this name, which is removed afterwards.
fn in_folder(
    name: &str,
    measure: fn(&Path) -> Result<Measured, Failure>,
) -> Result<Measured, Failure> {
    let folder = std::env::temp_dir().join(format!("lightseal-{name}-{}", std::process::id()));
    let measured = measure(&folder);
    // The folder is named after this process, so only files of this run are in it.
    let _ = std::fs::remove_dir_all(&folder);
    measured
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_every_claim_is_described() {
        let mut names: Vec<_> = all().map(|claim| &*claim.name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(all().all(|claim| !claim.about.is_empty() && claim.seconds > 0));
    }
}
