//! Claims on other systems and machines: what a Debian lacks that has nothing yet, what compiles for other
//! targets, what runs on Windows, in Wine, and programs for macOS.

use super::prelude::*;
use super::processors::{about_pairs, wrong_in_pairs};
use crate::process::{capture, command};
use crate::{fresh, mac, targets, wine};

/// Sessions of the demo with their numbers of messages delivered.
const DELIVERED: &str = "  delivered";
/// Their numbers of messages delivered as they were sent.
const IDENTICAL: &str = "  byte for byte as sent";

pub(super) fn claims() -> Vec<Claim> {
    vec![
        "Tests that fail in a minimal Debian that is made for the claim, with both of the README's commands \
            run there from nothing; a demo that fails counts as one. Bar: our own target"
            .claim("fresh", Exactly(0.0), Seconds(2700))
            .by(|| on_a_fresh_machine(false)),
        "As fresh, the tests alone, as another user than root and with all packages already there. Bar: our \
            own target"
            .claim("fresh-user", Exactly(0.0), Seconds(2000))
            .by(|| on_a_fresh_machine(true)),
        "Targets of `cargo xtask targets` for which something does not compile. Bar: our own target"
            .claim("targets", Exactly(0.0), Seconds(1200))
            .by(compiled),
        "Tests for Windows that fail in Wine, AWS-LC included. Bar: our own target"
            .claim("wine-tests", Exactly(0.0), Seconds(900))
            .by(tests),
        "Sessions of the demo, of three, in whose column of the table all messages that were delivered \
            in Wine are as they were sent. Bar: all"
            .claim("wine-demo", Exactly(3.0), Seconds(60))
            .by(demo),
        about_pairs("Windows, in Wine,")
            .claim("wine-proxies", Exactly(0.0), Seconds(150))
            .by(wrong_in_pairs(wine::lightseal)),
        "Programs for macOS, of one for each of its two processors, that are linked here with all commands \
            that macOS has and with AWS-LC, and whose headers are those of such programs. They are not \
            run. Bar: both"
            .claim("macos-linked", Exactly(2.0), Seconds(900))
            .by(linked),
    ]
}

fn on_a_fresh_machine(as_user: bool) -> Result<Measured, Failure> {
    let (failures, detail) = fresh::failures(as_user)?;
    Ok(Measured { figure: failures as f64, detail })
}

fn compiled() -> Result<Measured, Failure> {
    let (faulty, detail) = targets::faulty()?;
    Ok(Measured { figure: faulty as f64, detail })
}

fn linked() -> Result<Measured, Failure> {
    let programs = mac::PROCESSORS.map(mac::linked);
    let programs = programs.into_iter().collect::<Result<Vec<_>, _>>()?;
    let detail = programs.iter().map(mac::Program::text).collect::<Vec<_>>().join("\n");
    Ok(Measured { figure: programs.len() as f64, detail })
}

fn tests() -> Result<Measured, Failure> {
    let outcome = wine::test(&[], false)?;
    Ok(Measured { figure: outcome.failures()?, detail: outcome.text() })
}

fn demo() -> Result<Measured, Failure> {
    let line = wine::lightseal()?;
    let words: Vec<_> = line[1..].iter().map(String::as_str).chain(["demo", "--plain"]).collect();
    // Its exit code must be 0.
    let said = capture(command(&line[0], &words)).map_err(Failure::Failed)?;
    let (table, figure) = judged(&said);
    Ok(Measured { figure, detail: table })
}

/// The table at the end of what the demo prints, and in how many of its columns the messages delivered
/// are many, and all as they were sent.
fn judged(said: &str) -> (String, f64) {
    let begin = said.rfind("messages of 10 bytes in").unwrap_or(said.len());
    let begin = said[..begin].rfind('\n').map_or(0, |at| at + 1);
    let table = said[begin..].trim_end().to_owned();
    let row = |name: &str| {
        let row = table.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        row.split_whitespace().filter_map(|n| n.parse::<u32>().ok()).collect::<Vec<_>>()
    };
    let (delivered, identical) = (row(DELIVERED), row(IDENTICAL));
    let good = delivered.iter().zip(&identical).filter(|(all, same)| all == same && **all > 10_000);
    let figure = good.count() as f64;
    (table, figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_with_other_messages_do_not_count() {
        let said = "8 s  one tag each 7\n20000 messages of 10 bytes in 3.5 s\n\n\
                    \x20                 one tag each   agg:8  agg:16\n\
                    \x20 delivered                   19944  19552   19104\n\
                    \x20 byte for byte as sent       19944  19551   19104\n";
        let (table, figure) = judged(said);
        assert_eq!(figure, 2.0);
        assert!(table.starts_with("20000 messages"), "{table}");
        assert_eq!(judged("nothing").1, 0.0);
    }
}
