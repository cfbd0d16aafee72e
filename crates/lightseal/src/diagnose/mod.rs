//! `lightseal s_client` and `lightseal s_server`: one end of DTLS by hand, to see what two ends
//! negotiate and why they do not agree.
//!
//! - [`args`]: the flags;
//! - [`client`]: connects to a server, sends lines, prints what arrives;
//! - [`server`]: does this for many clients at once;
//! - [`summary`]: what was negotiated, for people and for scripts;
//! - [`witness`]: the certificates that a peer presented;
//! - [`exporter`]: keying material for applications;
//! - [`session_file`]: the session of one run for the next one;
//! - [`inbox`]: what an engine reported and the program has not printed yet;
//! - [`lines`]: standard input by lines;
//! - [`payload`]: received payloads, on standard output.
//!
//! Exit code 0 means that the association was closed in order, 1 that the handshake failed or the
//! peer ended the association with an alert, and 2 that this end could not do its work.

pub(crate) mod args;
pub(crate) mod client;
mod exporter;
mod inbox;
mod lines;
mod payload;
pub(crate) mod server;
mod session_file;
mod summary;
mod witness;

use crate::failure::{Context, Failure};
use args::Style;
use exporter::Exported;
use lightseal_dtls::CloseReason;
use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;
use summary::Summary;

/// The exit code if the handshake failed, or the peer ended the association with an alert.
const FAILED: u8 = 1;

/// The exit code of an association that ended for this reason after it was connected.
fn exit_code(reason: &CloseReason) -> ExitCode {
    match reason {
        CloseReason::Local | CloseReason::Peer | CloseReason::Replaced => ExitCode::SUCCESS,
        _ => ExitCode::from(FAILED),
    }
}

/// Prints a line that says why a handshake or an association failed.
fn complain(what: impl Display) {
    // If this fails, standard error is closed, and the reason cannot be reported.
    let _ = writeln!(std::io::stderr(), "lightseal: {what}");
}

/// Prints text on standard output at once.
fn print(text: &str) -> Result<(), Failure> {
    let mut output = std::io::stdout().lock();
    output.write_all(text.as_bytes()).and_then(|()| output.flush()).context("standard output")
}

/// Prints what was negotiated, and the exported keying material by label, in the style that the user
/// wants. `prefix` begins a brief line, and the full text.
fn show(style: Style, prefix: &str, summary: &Summary, exported: &Exported) -> Result<(), Failure> {
    let mut text = prefix.to_owned();
    match style {
        Style::Full => text += &summary.full(),
        Style::Brief => text += &summary.brief(),
        Style::Payloads | Style::Json => return Ok(()),
    }
    print(&(text + &exported.text()))
}
