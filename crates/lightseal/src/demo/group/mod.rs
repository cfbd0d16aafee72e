//! `lightseal demo group`: a group with a controller, a client and several servers. One server is
//! evicted while all run, and keeps its old keys.
//!
//! - [`namespaces`]: network namespaces on a bridge, with unmodified CoAP programs behind TUN
//!   devices;
//! - [`inside`]: the demonstration inside this process over loopback, which needs no root;
//! - [`leftovers`]: removes what a demonstration that was killed left behind.

mod inside;
#[cfg_attr(not(unix), path = "no_leftovers.rs")]
mod leftovers;
#[cfg_attr(not(target_os = "linux"), path = "no_namespaces.rs")]
mod namespaces;

use crate::failure::{Context, Failure};
use crate::system::{Signal, Signals};
use clap::Args;
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The beginning of the names of a demonstration's namespaces and directories. The process ID
/// follows.
const NAME_PREFIX: &str = "lightseal-demo-";

#[derive(Clone, Debug, Args)]
pub(crate) struct GroupDemoArgs {
    /// Number of devices that answer.
    #[arg(long, value_name = "N", default_value_t = 4,
          value_parser = clap::value_parser!(u8).range(3..=10))]
    pub(crate) servers: u8,
    /// Format of the group's records: compact or axiom-1.2 (only with namespaces).
    #[arg(long, value_name = "NAME", default_value = "compact")]
    pub(crate) profile: String,
    /// Run inside this process even as root.
    #[arg(long)]
    pub(crate) in_process: bool,
    /// Print the results as JSON instead.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The results of a demonstration.
#[derive(Clone, Debug, Serialize)]
struct Outcome {
    /// `namespaces` or `in-process`.
    form: &'static str,
    /// Number of devices that may answer.
    servers: usize,
    /// Time in milliseconds from the first device's start until the last device was a member.
    joined_ms: u64,
    /// Number of answers to one request of the client.
    answers: usize,
    /// Number of answers to one request of the device that is later evicted, before its eviction.
    answers_to_evicted: usize,
    /// Time in milliseconds from the eviction to the epoch whose keys the evicted device lacks.
    evicted_ms: u64,
    /// Number of answers to one request of the client after the eviction.
    answers_after: usize,
    /// Number of messages that the evicted device read after its eviction, with the keys that it
    /// had.
    evicted_read: usize,
    /// Number of answers that the evicted device got after its eviction.
    evicted_answers: usize,
}

impl Outcome {
    /// A description of the first result that is not as it must be.
    fn fault(&self) -> Option<String> {
        let Self { servers, answers, answers_after, evicted_read, evicted_answers, .. } = self;
        if answers != servers {
            return Some(format!("{answers} of {servers} answered"));
        }
        // Its own server may answer it without going through the group.
        if self.answers_to_evicted < servers - 1 {
            return Some(format!(
                "the later evicted server got {} answers",
                self.answers_to_evicted
            ));
        }
        if *answers_after != servers - 1 {
            return Some(format!("{answers_after} of {} answered in the end", servers - 1));
        }
        if evicted_read + evicted_answers > 0 {
            return Some(format!(
                "the evicted server read {evicted_read} messages and got {evicted_answers} answers"
            ));
        }
        None
    }
}

/// Prints what happens, unless only JSON is wanted.
#[derive(Clone, Copy)]
struct Narration {
    quiet: bool,
}

impl Narration {
    fn say(self, line: impl std::fmt::Display) {
        if !self.quiet {
            // If standard output is closed, nobody is there to read the line.
            let _ = writeln!(std::io::stdout(), "{line}");
        }
    }
}

/// Why a demonstration fails that the user has ended early.
fn interruption() -> Failure {
    Failure::new("interrupted; processes, namespaces and keys of the demonstration are removed")
}

/// Waits for Ctrl-C, SIGTERM or a terminal that is closed.
async fn interrupted(signals: &mut Signals) {
    while signals.next().await == Signal::Statistics {}
}

/// A directory that is removed when this is dropped.
struct TempDir(PathBuf);

impl TempDir {
    fn make() -> Result<Self, Failure> {
        let mut name = [0; 8];
        getrandom::fill(&mut name).context("no randomness")?;
        let id = std::process::id();
        let name = format!("{NAME_PREFIX}{id}-{:016x}", u64::from_le_bytes(name));
        let path = std::env::temp_dir().join(name);
        // The directory must be a new one, since keys are stored in it: a directory that somebody
        // else prepared is refused.
        lightseal_owner_only::file::new_private_directory(&path).context(path.display())?;
        Ok(Self(path))
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs the demonstration, and fails if a result is not as it must be.
///
/// # Errors
/// If something that the demonstration needs is missing, or a result is not as it must be.
pub(crate) async fn run(args: &GroupDemoArgs) -> Result<(), Failure> {
    let narration = Narration { quiet: args.json };
    // From here on signals are handled, so that none ends the process before everything is removed.
    let mut signals = Signals::listen()?;
    leftovers::remove();
    let outcome = match namespaces::site(args) {
        Ok(site) => {
            narration.say("this takes half a minute");
            namespaces::run(site, args.servers.into(), &args.profile, narration, &mut signals)
                .await?
        }
        Err(reason) => {
            narration.say(format_args!("{reason}: everything runs in this process, on loopback"));
            inside::run(args.servers.into(), narration, &mut signals).await?
        }
    };
    let Outcome { servers, answers_after, evicted_read, evicted_answers, .. } = &outcome;
    narration.say(format_args!(
        "{answers_after} of {servers} answer now. The evicted server kept its keys. It read \
         {evicted_read} messages and got {evicted_answers} answers."
    ));
    if args.json {
        let json = serde_json::to_string(&outcome).context("results")?;
        writeln!(std::io::stdout(), "{json}").context("standard output")?;
    }
    outcome.fault().map_or(Ok(()), |fault| Err(Failure::new(fault)))
}
