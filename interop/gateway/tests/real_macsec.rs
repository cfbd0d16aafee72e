//! Debian's MACsec and MKA in a guest, with endpoints joined by a bridge, and by two of our
//! gateways. If the guest cannot be made, the test is skipped and prints why.
//!
//! The guest is emulated and takes minutes, so the trials run only with `-- --ignored`. The claims
//! `gateway-guest-trials` and `gateway-guest-not-valid` run every trial over every scheme.

use interop_gateway::Failure;
use interop_gateway::gateways::{self, Setup};
use interop_gateway::guest::join::{Bridge, Gateways, Join};
use interop_gateway::guest::trials::{Over, TRIALS, Trial};
use interop_gateway::guest::{Guest, Settings, image::Image};
use interop_gateway::namespace;
use std::path::Path;
use std::process::ExitCode;

/// Trials that are run over gateways. There all suites look alike, and what the bridge shows about
/// both endpoints need not be repeated. `cargo xtask interop-macsec` runs every trial over every
/// scheme.
const OVER_GATEWAYS: [&str; 7] =
    ["static-128", "strict-order", "without-sci", "vlan-outside", "broadcast", "rekey", "mka"];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let gateways = Gateways { name: "sealed", program: gateways::program(), setup: Setup::SEALED };
    let joins: [&dyn Join; 2] = [&Bridge, &gateways];
    let all = || joins.iter().flat_map(|join| chosen(*join).map(|trial| full_name(*join, trial)));
    if words.iter().any(|word| word == "--list") {
        all().for_each(|name| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    if !words.iter().any(|word| ["--ignored", "--include-ignored"].contains(&word.as_str())) {
        let names: Vec<String> = all().collect();
        names.iter().for_each(|name| {
            println!("test {name} ... ignored, minutes in a guest; `cargo xtask claim gateway-guest-trials`");
        });
        println!("test result: ok. 0 passed; 0 failed; {} ignored", names.len());
        return ExitCode::SUCCESS;
    }
    namespace::sweep();
    let (mut passed, mut failed, mut ignored) = (0, 0, 0);
    for join in joins {
        let wanted = |trial: &&Trial| {
            let mut filters = words.iter().filter(|word| !word.starts_with('-')).peekable();
            let name = full_name(join, trial);
            filters.peek().is_none() || filters.any(|filter| name.contains(filter.as_str()))
        };
        let trials: Vec<_> = chosen(join).filter(wanted).collect();
        if trials.is_empty() {
            continue;
        }
        match made(join, &trials) {
            Ok(failures) => {
                failed += failures;
                passed += trials.len() - failures;
            }
            Err(Failure::NotHere(why)) => {
                skip::named(&format!("{}/*", join.name()), why);
                ignored += trials.len();
            }
            Err(why) => {
                println!("test {}/* ... FAILED\n{why}", join.name());
                failed += trials.len();
            }
        }
    }
    let word = if failed == 0 { "ok" } else { "FAILED" };
    println!("test result: {word}. {passed} passed; {failed} failed; {ignored} ignored");
    ExitCode::from(u8::from(failed > 0))
}

fn chosen(join: &dyn Join) -> impl Iterator<Item = &'static Trial> {
    let fitting = TRIALS.iter().filter(|trial| trial.fits(join));
    fitting.filter(|trial| {
        join.is_bridge() || trial.over == Over::Gateways || OVER_GATEWAYS.contains(&trial.name)
    })
}

fn full_name(join: &dyn Join, trial: &Trial) -> String {
    format!("{}/{}", join.name(), trial.name)
}

/// Runs trials between the endpoints of a guest and returns how many failed.
fn made(join: &dyn Join, trials: &[&'static Trial]) -> Result<usize, Failure> {
    join.require()?;
    // `cargo xtask interop-macsec` keeps its image in the same folder.
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("macsec-guest");
    let mut guest = Guest::boot(&Image::prepare(&cache)?, &Settings::default())?;
    let mut joined = join.join(&guest)?;
    let mut failures = 0;
    for trial in trials {
        let name = full_name(join, trial);
        let verdict = trial.run(&mut guest, &mut *joined);
        match verdict.outcome {
            Ok(detail) => println!("test {name} ... ok ({detail}; {:.0} s)", verdict.seconds),
            Err(why) => {
                println!("test {name} ... FAILED\n{why}");
                failures += 1;
            }
        }
    }
    Ok(failures)
}
