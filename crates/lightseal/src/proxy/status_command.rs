//! `lightseal proxy status`.

use super::report::Report;
use super::status_socket::{ask, plain, runtime_directory, sockets_of_user};
use super::status_text::{Rates, line, text};
use crate::failure::{Context, Failure};
use crate::terminal::LiveTerminal;
use crate::units::Quantity;
use clap::Args;
use serde_json::Value;
use std::collections::HashMap;
use std::io::{IsTerminal, Write};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The range of `--every`: often enough to see a change, seldom enough to read it.
const EVERY: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(30);

#[derive(Clone, Debug, Args)]
pub(crate) struct ProxyStatusArgs {
    /// Status socket of the proxy [default: the sockets of all proxies that this user runs].
    #[arg(long, value_name = "PATH")]
    status_socket: Option<PathBuf>,
    /// Show the status again and again, with rates: as a live view in a terminal, else as lines.
    #[arg(long)]
    watch: bool,
    /// Interval of --watch, 100ms to 30s.
    #[arg(long, value_name = "TIME", default_value = "1s", requires = "watch")]
    every: Quantity<Duration>,
    /// Print JSON, one line for each proxy, with the keys of the statistics.
    #[arg(long)]
    json: bool,
}

/// Asks proxies and shows what they answer.
///
/// # Errors
///
/// If no proxy answers.
pub(crate) async fn run(args: &ProxyStatusArgs) -> Result<(), Failure> {
    if !EVERY.contains(&args.every.0) {
        return Err(Failure::new("--every must be 100ms to 30s"));
    }
    let mut live = None;
    if args.watch && !args.json && std::io::stdout().is_terminal() {
        live = LiveTerminal::start();
    }
    let mut before = HashMap::new();
    loop {
        let answers = answers(args).await.inspect_err(|_| {
            live = None; // The terminal is restored before the error is printed.
        })?;
        let now = Instant::now();
        let mut shown = String::new();
        for (socket, value, report) in answers {
            let last = before.insert(socket, (now, report.clone()));
            let rates = last.map(|(at, last): (Instant, Report)| {
                Rates::between(&last, &report, (now - at).as_secs_f64())
            });
            match (args.json, args.watch) {
                (true, _) => {
                    shown += &escaped(&value);
                    shown.push('\n');
                }
                (false, true) if live.is_none() => {
                    shown += &line(&report, rates.unwrap_or_default());
                }
                (false, _) => {
                    if !shown.is_empty() {
                        shown.push('\n');
                    }
                    shown += &text(&report, rates);
                }
            }
        }
        if let Some(live) = &mut live {
            if !live.show(&shown, now + args.every.0) {
                return Ok(());
            }
            continue;
        }
        if let Err(error) = std::io::stdout().write_all(shown.as_bytes()) {
            // A reader that closes the pipe early has seen enough.
            return if args.watch { Ok(()) } else { Err(error).context("standard output") };
        }
        if !args.watch {
            return Ok(());
        }
        tokio::time::sleep(args.every.0).await;
    }
}

/// A value as JSON in which all control characters are escaped. JSON itself asks for that only
/// below U+0020, and terminals obey some others too.
fn escaped(value: &Value) -> String {
    let mut text = String::new();
    for c in value.to_string().chars() {
        match c {
            c if c.is_control() => text += &format!("\\u{:04x}", u32::from(c)),
            c => text.push(c),
        }
    }
    text
}

/// The answer of each proxy, with its socket.
async fn answers(args: &ProxyStatusArgs) -> Result<Vec<(PathBuf, Value, Report)>, Failure> {
    if let Some(socket) = &args.status_socket {
        let (value, report) = ask(socket).await?;
        return Ok(vec![(socket.clone(), value, report)]);
    }
    let directory = runtime_directory();
    let mut answers = Vec::new();
    let mut silent = None;
    for socket in sockets_of_user(&directory)? {
        match ask(&socket).await {
            Ok((value, report)) => answers.push((socket, value, report)),
            Err(failure) => silent = Some(failure),
        }
    }
    if answers.is_empty() {
        let directory = plain(&directory.display().to_string());
        return Err(silent.unwrap_or_else(|| {
            Failure::new(format_args!(
                "no proxy of this user runs (none has a socket in {directory}); --status-socket names \
                 one elsewhere"
            ))
        }));
    }
    Ok(answers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_no_control_characters_and_means_the_same() {
        let value = serde_json::json!({ "identity": "a\n\u{7f}\u{9b}2J\u{e9}" });
        let text = escaped(&value);
        assert!(!text.chars().any(char::is_control), "{text:?}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }
}
