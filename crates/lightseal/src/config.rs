//! The configuration file, and how its settings are combined with the flags.
//!
//! A section of the file holds the flags of one command under the names of the
//! flags:
//!
//! ```toml
//! [proxy.client]
//! listen = "127.0.0.1:5683"
//! connect = "gateway.example:5684"
//! psk-file = "keys.psk"
//! aggregate = ["agg:8"]
//!
//! [impair]
//! listen = "127.0.0.1:5685"
//! connect = "127.0.0.1:5684"
//! loss = "1%"
//! up = { delay = "20ms" }
//! ```
//!
//! Each setting becomes the flag of its name, unless that flag is also on the
//! command line. A new flag is therefore a new setting without further work,
//! and both are checked in the same way.

use crate::aside::aside;
use crate::cli::Cli;
use crate::failure::{Context, Failure};
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, CommandFactory, FromArgMatches};
use lightseal_cli::program::{matches, one_line};
use std::ffi::OsString;
use std::path::Path;
use toml::{Table, Value};

/// Reads the command line and the configuration file it names.
///
/// # Errors
///
/// If the usage is wrong, or the file cannot be read or has a mistake. Requests for help and for
/// the version are answered, and end the program.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Cli, Failure> {
    let args: Vec<OsString> = args.into_iter().collect();
    // The parser takes more than a hundred kilobytes of stack.
    aside(|| read(&args))
}

fn read(given: &[OsString]) -> Result<Cli, Failure> {
    let mut args = given.to_vec();
    let typed = matches(Cli::command(), &args)?;
    let path = subcommands(&typed);
    let leaf = path.last().map_or(&typed, |(_, leaf)| *leaf);
    let file = leaf.try_get_one::<std::path::PathBuf>("config").ok().flatten();
    if let Some(file) = file {
        let names: Vec<&str> = path.iter().map(|(name, _)| *name).collect();
        let name = format!("configuration file {}", file.display());
        let flags = flags(file, &name, &names, leaf)?;
        let mut alone: Vec<OsString> = vec![args.first().cloned().unwrap_or_default()];
        alone.extend(names.iter().map(OsString::from));
        alone.extend(flags.iter().cloned());
        // The settings are parsed without the command line first, so that a mistake in the file is
        // not blamed on the command line.
        if let Err(error) = Cli::command().try_get_matches_from(alone) {
            return Err(Failure::new(format_args!("{name}: {}", one_line(&error))));
        }
        args.extend(flags);
    }
    Cli::from_arg_matches(&matches(Cli::command(), &args)?)
        .map_err(|error| Failure::new(one_line(&error)))
}

/// The subcommands of a command line, outermost first.
fn subcommands(matches: &ArgMatches) -> Vec<(&str, &ArgMatches)> {
    let mut path = Vec::new();
    let mut at = matches;
    while let Some((name, next)) = at.subcommand() {
        path.push((name, next));
        at = next;
    }
    path
}

/// The flags for the settings in a command's section of the file.
fn flags(
    file: &Path,
    name: &str,
    section: &[&str],
    typed: &ArgMatches,
) -> Result<Vec<OsString>, Failure> {
    let text = std::fs::read_to_string(file).context(name)?;
    let mut table =
        toml::from_str::<Table>(&text).map_err(|error| with_line_number(name, &text, &error))?;
    check_sections(&table, name, section)?;
    for key in section {
        table = match table.remove(*key) {
            Some(Value::Table(inner)) => inner,
            Some(_) => return Err(Failure::new(format_args!("{name}: {key} is not a section"))),
            None => return Ok(Vec::new()),
        };
    }
    let command = subcommand(section);
    let mut flags = Vec::new();
    for (key, value) in table {
        let known = |arg: &&clap::Arg| {
            let aliases = arg.get_all_aliases().unwrap_or_default();
            let named = arg.get_long() == Some(&key) || aliases.contains(&key.as_str());
            named && key != "config" && key != "sample"
        };
        let Some(arg) = command.get_arguments().find(known) else {
            let section = section.join(".");
            return Err(Failure::new(format_args!("{name}: [{section}] has no setting {key}")));
        };
        if typed.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine) {
            continue;
        }
        match (arg.get_action().takes_values(), value) {
            (false, Value::Boolean(false)) => {}
            (false, Value::Boolean(true)) => flags.push(format!("--{key}").into()),
            (false, _) => {
                return Err(Failure::new(format_args!("{name}: {key} must be true or false")));
            }
            // An array is given to such a flag item by item.
            (true, Value::Array(items)) if takes_one_by_one(arg) => {
                for item in items {
                    let Some(item) = as_argument(&item) else {
                        let wrong = format_args!("{name}: {key} cannot have this value");
                        return Err(Failure::new(wrong));
                    };
                    flags.push(format!("--{key}={item}").into());
                }
            }
            (true, value) => match as_argument(&value) {
                Some(value) => flags.push(format!("--{key}={value}").into()),
                None => {
                    return Err(Failure::new(format_args!("{name}: {key} cannot have this value")));
                }
            },
        }
    }
    Ok(flags)
}

/// Checks that every top-level key is a command that takes a configuration file. `section` is the
/// section of the command that runs.
fn check_sections(table: &Table, name: &str, section: &[&str]) -> Result<(), Failure> {
    let expected = section.join(".");
    let unknown = |what: &str| {
        Err(Failure::new(format_args!("{name}: this file has [{what}]; expected [{expected}]")))
    };
    for (key, value) in table {
        match (key.as_str(), value) {
            ("impair" | "macsec", Value::Table(_)) => {}
            ("proxy", Value::Table(proxy)) => {
                let mut sides = proxy.keys().map(String::as_str);
                if let Some(side) = sides.find(|side| !["client", "server"].contains(side)) {
                    return unknown(&format!("proxy.{side}"));
                }
            }
            (_, Value::Table(_)) => return unknown(key),
            _ => {
                return Err(Failure::new(format_args!(
                    "{name}: {key} stands outside of any section; expected [{expected}] above it"
                )));
            }
        }
    }
    Ok(())
}

fn subcommand(path: &[&str]) -> Command {
    let mut command = Cli::command();
    for name in path {
        if let Some(inner) = command.find_subcommand(name) {
            command = inner.clone();
        }
    }
    command
}

/// Whether a flag with several values is given once for each of them.
fn takes_one_by_one(arg: &clap::Arg) -> bool {
    matches!(arg.get_action(), clap::ArgAction::Append) && arg.get_value_delimiter().is_none()
}

/// A value as it would be written on the command line; `None` for values that no flag takes.
fn as_argument(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Boolean(_) | Value::Datetime(_) => None,
        Value::Array(items) => {
            items.iter().map(as_argument).collect::<Option<Vec<_>>>().map(|items| items.join(","))
        }
        Value::Table(table) => {
            let pairs =
                table.iter().map(|(key, value)| Some(format!("{key}={}", as_argument(value)?)));
            pairs.collect::<Option<Vec<_>>>().map(|pairs| pairs.join(","))
        }
    }
}

/// A TOML error with its line number, without the excerpt of the file that the library adds.
fn with_line_number(name: &str, text: &str, error: &toml::de::Error) -> Failure {
    let what = error.message();
    match error.span() {
        Some(span) => {
            let before = text.get(..span.start).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            Failure::new(format_args!("{name}, line {line}: {what}"))
        }
        None => Failure::new(format_args!("{name}: {what}")),
    }
}
