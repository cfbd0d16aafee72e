//! `cargo xtask times`: where the time goes in which tests are built and run, and how long commands
//! take from an empty target folder.

use crate::process::{cargo, command, target_dir, workspace};
use crate::test::stopwatch::{Stopwatch, impossible};
use crate::{Failure, test};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Instant;

/// Runs tests from an empty target folder and prints where the time goes.
pub(crate) fn run(arguments: &test::Arguments) -> Result<(), Failure> {
    let folder = EmptyFolder::new("times")?;
    let mut stopwatch = Stopwatch::new(&folder.0)?;
    let tested = test::run_timed(arguments, Some(&mut stopwatch));
    print!("\n{}", stopwatch.report());
    tested
}

/// A target folder of its own, which is removed at the end.
struct EmptyFolder(PathBuf);

impl EmptyFolder {
    fn new(name: &str) -> Result<Self, Failure> {
        let folder = target_dir().join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).map_err(|error| impossible(&folder, &error))?;
        let absolute = folder.canonicalize().map_err(|error| impossible(&folder, &error))?;
        Ok(Self(absolute))
    }
}

impl Drop for EmptyFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What ends the time of a command.
#[derive(Clone, Copy)]
pub(crate) enum Until {
    FirstLine,
    End,
}

/// The minutes that a command takes from an empty target folder. `words` are cargo's arguments, or
/// the path of a program of this repository.
pub(crate) fn from_nothing(words: &[&str], until: Until) -> Result<f64, Failure> {
    let folder = EmptyFolder::new("from-nothing")?;
    let mut line = match words {
        [script] if script.contains('/') => {
            command(&workspace().join(script).to_string_lossy(), &[])
        }
        _ => cargo(words),
    };
    line.env("CARGO_TARGET_DIR", &folder.0).stdin(Stdio::null()).stdout(Stdio::piped());
    let failed = |error: std::io::Error| Failure::Failed(format!("{}: {error}", words.join(" ")));
    let began = Instant::now();
    let mut child = line.spawn().map_err(failed)?;
    let output = BufReader::new(child.stdout.take().expect("the output is a pipe"));
    let mut first = None;
    for line in output.split(b'\n') {
        line.map_err(failed)?;
        first.get_or_insert_with(|| began.elapsed());
    }
    let status = child.wait().map_err(failed)?;
    if !status.success() {
        return Err(Failure::Failed(format!("{} ended with {status}", words.join(" "))));
    }
    let took = match until {
        Until::FirstLine => first.ok_or_else(|| Failure::Failed("it printed nothing".into()))?,
        Until::End => began.elapsed(),
    };
    Ok(took.as_secs_f64() / 60.0)
}
