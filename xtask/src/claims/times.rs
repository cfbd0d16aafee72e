//! Claims on how long building and testing take, each from an empty target folder of its own.

use super::prelude::*;
use crate::times::{Until, from_nothing};

pub(super) fn claims() -> Vec<Claim> {
    let minutes = |what: &str| {
        format!("Minutes from an empty target folder to {what}. Bar: our own target on two cores")
    };
    vec![
        minutes("the first line of `cargo run --release -- demo`")
            .claim("time-demo", AtMost(3.0), Seconds(180))
            .by(|| measured(&["run", "--release", "--", "demo"], Until::FirstLine)),
        minutes("the end of `cargo test` at the top of the workspace")
            .claim("time-cargo-test", AtMost(6.0), Seconds(360))
            .by(|| measured(&["test"], Until::End)),
        minutes("the end of `cargo xtask test`")
            .claim("time-xtask-test", AtMost(20.0), Seconds(1200))
            .by(|| measured(&["xtask", "test"], Until::End)),
        minutes("the end of `.ci/run`")
            .claim("time-ci", AtMost(25.0), Seconds(1500))
            .by(|| measured(&[".ci/run"], Until::End)),
    ]
}

fn measured(words: &[&str], until: Until) -> Result<Measured, Failure> {
    let figure = from_nothing(words, until)?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let detail = format!("{figure:.2} minutes on {processors} processors");
    Ok(Measured { figure, detail })
}
