//! Debian's MACsec and MKA in a guest, its ends joined by a bridge: what the gateway's tests are
//! held against. Where there is no guest to be had, a line says why.

use interop_gateway::Failure;
use interop_gateway::guest::join::{Bridge, Join};
use interop_gateway::guest::trials::TRIALS;
use interop_gateway::guest::{Guest, Settings, image::Image};
use interop_gateway::namespace;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--list") {
        for trial in TRIALS {
            println!("{}: test", trial.name);
        }
        return ExitCode::SUCCESS;
    }
    let chosen = |name: &str| {
        let mut filters = words.iter().filter(|word| !word.starts_with('-')).peekable();
        filters.peek().is_none() || filters.any(|filter| name.contains(filter.as_str()))
    };
    namespace::sweep();
    let mut guest = match boot() {
        Ok(guest) => guest,
        Err(why @ Failure::NotHere(_)) => {
            println!("test real_macsec ... ignored, {why}");
            println!("test result: ok. 0 passed; 0 failed; 1 ignored");
            return ExitCode::SUCCESS;
        }
        Err(why) => {
            println!("test real_macsec ... FAILED\n{why}");
            println!("test result: FAILED. 0 passed; 1 failed; 0 ignored");
            return ExitCode::FAILURE;
        }
    };
    let (mut passed, mut failed) = (0, 0);
    for trial in TRIALS.iter().filter(|trial| chosen(trial.name)) {
        match trial.run(&mut guest).outcome {
            Ok(detail) => {
                println!("test {} ... ok ({detail})", trial.name);
                passed += 1;
            }
            Err(why) => {
                println!("test {} ... FAILED\n{why}", trial.name);
                failed += 1;
            }
        }
    }
    let word = if failed == 0 { "ok" } else { "FAILED" };
    println!("test result: {word}. {passed} passed; {failed} failed; 0 ignored");
    ExitCode::from(u8::from(failed > 0))
}

fn boot() -> Result<Guest, Failure> {
    // Where `cargo xtask interop-macsec` keeps it, too.
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("macsec-guest");
    let guest = Guest::boot(&Image::prepare(&cache)?, &Settings::default())?;
    Bridge.join(&guest)?;
    Ok(guest)
}
