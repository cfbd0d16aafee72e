//! The program that BoringSSL's test suite BoGo tests: our engine behind the flags and the virtual
//! time of the suite's runner.
//!
//! `cargo xtask bogo` builds the runner and starts it; docs/bogo.md says how the suite is run and
//! what is left out. The runner starts this program once for each case.
//!
//! - [`flags`]: the command line;
//! - [`configuration`]: what the flags mean for our engine;
//! - [`identity`]: certificates and the verifier;
//! - [`keys`]: private keys;
//! - [`association`]: a client or a server, driven in the same way;
//! - [`wire`]: the connection to the runner;
//! - [`exchange`]: what one connection does from its first flight to its end;
//! - [`checks`]: what must hold when the handshake is complete.
#![forbid(unsafe_code)]

mod association;
mod checks;
mod configuration;
mod exchange;
mod flags;
mod identity;
mod keys;
mod wire;

use association::Association;
use exchange::Exchange;
use flags::AllFlags;
use std::process::ExitCode;

/// Why a case did not pass.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The case needs something that this program or the engine does not have.
    Unimplemented(String),
    /// The association failed. Many cases want just that; the runner compares the text.
    Failed(String),
}

/// The exit code that means "not implemented" to the runner.
const UNIMPLEMENTED: u8 = 89;

/// Set by `cargo xtask bogo` when it only lists the cases.
const ONLY_LIST: &str = "LIGHTSEAL_BOGO_ONLY_LIST";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "-is-handshaker-supported") {
        println!("No");
        return ExitCode::SUCCESS;
    }
    if std::env::var_os(ONLY_LIST).is_some() {
        return ExitCode::from(UNIMPLEMENTED);
    }
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Unimplemented(what)) => {
            eprintln!("not implemented: {what}");
            ExitCode::from(UNIMPLEMENTED)
        }
        Err(Failure::Failed(why)) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Vec<String>) -> Result<(), Failure> {
    let flags = AllFlags::parse(arguments.into_iter())?;
    let resumptions: u32 = flags.initial.number("-resume-count")?.unwrap_or(0);
    let mut association = Association::new(&flags.initial)?;
    for connection in 0..=resumptions {
        let is_resumption = connection > 0;
        let flags = if is_resumption { &flags.resume } else { &flags.initial };
        association.begin(flags, connection)?;
        let failed = |failure| match failure {
            Failure::Failed(why) => {
                Failure::Failed(format!("connection {} failed: {why}", connection + 1))
            }
            other => other,
        };
        Exchange::new(flags, &mut association, is_resumption)?.run().map_err(failed)?;
        if association.has_session() && flags.has("-expect-no-session") {
            return Err(Failure::Failed("a session, where none is expected".into()));
        }
    }
    Ok(())
}
