//! How a program reads its command line, and how it ends.

use crate::failure::Failure;
use clap::error::ErrorKind;
use clap::{ArgMatches, Command, Parser};
use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

/// Parses a command line, and answers requests for help and for the version, which end the program.
///
/// # Errors
///
/// If the usage is wrong.
pub fn matches(command: Command, args: &[OsString]) -> Result<ArgMatches, Failure> {
    command.try_get_matches_from(args).map_err(|error| {
        // A command without its subcommand shows the help.
        if !error.use_stderr()
            || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        {
            error.exit();
        }
        Failure::new(one_line(&error))
    })
}

/// Parses the command line of this process, and answers requests for help and for the version,
/// which end the program.
///
/// # Errors
///
/// If the usage is wrong.
pub fn parse<P: Parser>() -> Result<P, Failure> {
    let args: Vec<OsString> = std::env::args_os().collect();
    let matches = matches(P::command(), &args)?;
    P::from_arg_matches(&matches).map_err(|error| Failure::new(one_line(&error)))
}

/// Returns the exit code of the program `name`, and reports a failure on standard error.
pub fn exit_code(name: &str, result: Result<ExitCode, Failure>) -> ExitCode {
    match result {
        Ok(code) => code,
        // A reader that closes the pipe early has seen enough: that is no failure.
        Err(failure) if failure.is_closed_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            // If this fails, standard error is closed, and the failure cannot be reported.
            let _ = writeln!(std::io::stderr(), "{name}: {failure}");
            ExitCode::from(Failure::EXIT_CODE)
        }
    }
}

/// The part of clap's message that says what is wrong, without the usage, and the flag that was
/// probably meant.
pub fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let mut lines = text.lines().map(str::trim);
    let first: Vec<_> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
    let what = first.join(" ");
    let what = what.trim_start_matches("error: ");
    match lines.find_map(|line| line.strip_prefix("tip: a similar ")) {
        Some(similar) => format!("{what}; a similar {similar}"),
        None => what.to_owned(),
    }
}
