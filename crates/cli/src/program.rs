//! How a program reads its command line, and how it ends.

use crate::failure::Failure;
use clap::error::ErrorKind;
use clap::{ArgMatches, Command, Parser};
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;

/// Parses a command line, and answers requests for help and for the version, which end the program.
///
/// # Errors
///
/// If the usage is wrong, or the help cannot be written.
pub fn matches(mut command: Command, args: &[OsString]) -> Result<ArgMatches, Failure> {
    command.build();
    wrap_usages(&mut command);
    command.try_get_matches_from(args).map_err(|error| {
        // A command without its subcommand shows the help.
        let shows = !error.use_stderr()
            || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
        if shows { show(&error) } else { Failure::new(one_line(&error)) }
    })
}

/// Writes the help or the version that was asked for and ends the program.
///
/// Returns why it could not be written. A reader that closes the pipe early has seen enough.
fn show(help: &clap::Error) -> Failure {
    match help.print() {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Failure::new(format_args!("standard output: {error}"))
        }
        _ => std::process::exit(help.exit_code()),
    }
}

/// The greatest length of a line of usage, in columns. Clap does not break these lines.
const USAGE_COLUMNS: usize = 80;

/// Breaks the usage of this command and its subcommands into lines.
fn wrap_usages(command: &mut Command) {
    let usage = command.render_usage().to_string();
    if usage.lines().any(|line| line.chars().count() > USAGE_COLUMNS) {
        *command = std::mem::take(command).override_usage(wrapped_usage(&usage));
    }
    command.get_subcommands_mut().for_each(wrap_usages);
}

/// The word before a usage, whose width all its lines but the first are indented by.
const BEFORE: &str = "Usage: ";

/// The usage in lines, without the word before it.
fn wrapped_usage(usage: &str) -> String {
    let lines: Vec<_> = usage.trim_start_matches(BEFORE).lines().map(wrapped_line).collect();
    lines.join(&format!("\n{}", " ".repeat(BEFORE.len())))
}

/// One form of the usage in lines. A flag and its value stay in one line.
fn wrapped_line(form: &str) -> String {
    let mut parts: Vec<String> = Vec::new();
    for word in form.split_whitespace() {
        match parts.last_mut() {
            Some(flag) if word.starts_with('<') && flag.contains("--") && !flag.ends_with('>') => {
                flag.push(' ');
                flag.push_str(word);
            }
            _ => parts.push(word.to_owned()),
        }
    }
    let (mut wrapped, mut column) = (String::new(), BEFORE.len());
    for part in parts {
        let width = part.chars().count();
        match column + 1 + width <= USAGE_COLUMNS {
            _ if wrapped.is_empty() => {}
            true => {
                wrapped.push(' ');
                column += 1;
            }
            false => {
                wrapped.push('\n');
                wrapped.push_str(&" ".repeat(BEFORE.len()));
                column = BEFORE.len();
            }
        }
        wrapped.push_str(&part);
        column += width;
    }
    wrapped
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
            let _ = writeln!(io::stderr(), "{name}: {failure}");
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Arg;

    #[test]
    fn a_long_usage_is_broken_between_flags() {
        let flag = |name| Arg::new(name).long(name).value_name("HOST:PORT").required(true);
        let names = ["listen-on-address", "connect-to-address", "announce-address"];
        let mut command =
            Command::new("test").subcommand(Command::new("run").args(names.map(flag)));
        command.build();
        wrap_usages(&mut command);
        let run = command.find_subcommand_mut("run").expect("a subcommand");
        assert_eq!(
            run.render_usage().to_string(),
            "Usage: test run --listen-on-address <HOST:PORT> --connect-to-address <HOST:PORT>\n       \
             --announce-address <HOST:PORT>"
        );
        assert_eq!(command.render_usage().to_string(), "Usage: test [COMMAND]");
    }
}
