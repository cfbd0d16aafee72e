//! Log messages go to standard error, so that standard output remains free for
//! results.
//!
//! A line about a peer has the fields `peer.address` and `peer.identity` for programs that read the
//! log. People find both in the message itself, so lines of text leave the fields out.

use clap::{ArgAction, Args, ValueEnum};
use std::fmt;
use std::io::IsTerminal;
use tracing::field::{Field, Visit};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::filter::{LevelFilter, ParseError, Targets};
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// The environment variable with a log filter, such as `debug` or `warn,lightseal_net=trace`. It takes
/// precedence over the flags.
const VARIABLE: &str = "LIGHTSEAL_LOG";

/// The prefix of fields that repeat for programs what the message says.
const REPEATED: &str = "peer.";

/// The flags that ask for more or fewer log messages, and for their form.
#[derive(Clone, Copy, Debug, Args)]
pub struct LogArgs {
    /// Log more: -v logs each association, -vv logs everything. LIGHTSEAL_LOG in the environment sets
    /// levels by module and goes before flags, such as LIGHTSEAL_LOG=warn,lightseal_net=trace.
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = "Log")]
    pub verbose: u8,
    /// Log only errors.
    #[arg(short, long, global = true, conflicts_with = "verbose", help_heading = "Log")]
    pub quiet: bool,
    /// Form of the log: `text` for people, or `json` for programs, one object in each line. Lines
    /// about a peer have the fields peer.address and peer.identity.
    #[arg(
        long,
        global = true,
        value_name = "FORMAT",
        value_enum,
        default_value_t,
        hide_possible_values = true,
        help_heading = "Log"
    )]
    pub log_format: LogFormat,
}

/// The form of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines of text.
    #[default]
    Text,
    /// One JSON object in each line.
    Json,
}

/// Starts logging at the level that `-v` and `-q` ask for.
pub fn start(verbose: u8, quiet: bool, format: LogFormat) {
    let level = match (quiet, verbose) {
        (true, _) => LevelFilter::ERROR,
        (false, 0) => LevelFilter::INFO,
        (false, 1) => LevelFilter::DEBUG,
        (false, _) => LevelFilter::TRACE,
    };
    let (filter, unreadable) = filter(std::env::var(VARIABLE).ok().as_deref(), level);
    let log = tracing_subscriber::fmt::layer()
        .with_target(false)
        .with_ansi(format == LogFormat::Text && std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        // Otherwise it reports on standard error that standard error is closed, and panics.
        .log_internal_errors(false);
    let filtered = tracing_subscriber::registry().with(filter);
    match format {
        LogFormat::Text => filtered.with(log.fmt_fields(TextFields)).init(),
        LogFormat::Json => filtered.with(log.json().flatten_event(true)).init(),
    }
    if let Some(error) = unreadable {
        tracing::warn!("{VARIABLE}: {error}; the flags set the level");
    }
}

/// The filter that [`VARIABLE`] asks for, or else one of this level. Modules that the variable does not
/// name have this level too. Also returns what is wrong with the variable.
fn filter(variable: Option<&str>, level: LevelFilter) -> (Targets, Option<ParseError>) {
    let flags = Targets::new().with_default(level);
    match variable.filter(|text| !text.is_empty()).map(str::parse::<Targets>) {
        None => (flags, None),
        Some(Ok(asked)) if asked.default_level().is_some() => (asked, None),
        Some(Ok(asked)) => (asked.with_default(level), None),
        Some(Err(error)) => (flags, Some(error)),
    }
}

/// Writes the fields of a line for people: the message first, then the others but those that repeat
/// it.
struct TextFields;

impl<'writer> FormatFields<'writer> for TextFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut line = TextLine { writer, is_empty: true, result: Ok(()) };
        fields.record(&mut line);
        line.result
    }
}

struct TextLine<'writer> {
    writer: Writer<'writer>,
    is_empty: bool,
    result: fmt::Result,
}

impl Visit for TextLine<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.record_debug(field, &format_args!("{value}")),
            _ => self.record_debug(field, &value),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if self.result.is_err() || field.name().starts_with(REPEATED) {
            return;
        }
        let space = if std::mem::take(&mut self.is_empty) { "" } else { " " };
        let writer = &mut self.writer;
        self.result = match (field.name(), writer.has_ansi_escapes()) {
            ("message", _) => write!(writer, "{space}{value:?}"),
            (name, false) => write!(writer, "{space}{name}={value:?}"),
            // The name is in italics, the equals sign is dim.
            (name, true) => write!(writer, "{space}\x1b[3m{name}\x1b[0m\x1b[2m=\x1b[0m{value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::{Arc, Mutex};
    use tracing::Level;

    #[test]
    fn the_variable_names_levels_by_module() {
        let shown = |variable, module: &str, level| {
            filter(variable, LevelFilter::INFO).0.would_enable(module, &level)
        };
        assert!(shown(None, "lightseal", Level::INFO) && !shown(None, "lightseal", Level::DEBUG));
        let only = Some("lightseal_net=trace");
        assert!(shown(only, "lightseal_net::batch", Level::TRACE));
        assert!(shown(only, "lightseal", Level::INFO) && !shown(only, "lightseal", Level::DEBUG));
        let all = Some("warn,lightseal_net=trace");
        assert!(!shown(all, "lightseal", Level::INFO) && shown(Some(""), "lightseal", Level::INFO));
        let (fallback, error) = filter(Some("lightseal=loud"), LevelFilter::INFO);
        assert!(error.is_some() && fallback.would_enable("lightseal", &Level::INFO));
    }

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn log() {
        let peer = "192.0.2.1:5684";
        tracing::info!(peer.address = peer, peer.identity = %"psk:meter", count = 3, "{peer}: up");
    }

    #[test]
    fn people_read_the_peer_in_the_message_and_programs_in_fields() {
        let lines = Lines::default();
        let writer = lines.clone();
        let text = tracing_subscriber::fmt().without_time().with_ansi(false).with_target(false);
        let text = text.with_writer(move || writer.clone()).fmt_fields(TextFields);
        tracing::subscriber::with_default(text.finish(), log);
        let written = std::mem::take(&mut *lines.0.lock().unwrap());
        assert_eq!(String::from_utf8(written).unwrap(), " INFO 192.0.2.1:5684: up count=3\n");

        let writer = lines.clone();
        let json = tracing_subscriber::fmt().with_target(false).json().flatten_event(true);
        let guard = json.with_writer(move || writer.clone()).finish().set_default();
        log();
        drop(guard);
        let written = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        for expected in [
            "\"level\":\"INFO\"",
            "\"message\":\"192.0.2.1:5684: up\"",
            "\"peer.address\":\"192.0.2.1:5684\"",
            "\"peer.identity\":\"psk:meter\"",
            "\"count\":3",
        ] {
            assert!(written.contains(expected), "{expected} is not in {written}");
        }
    }
}
