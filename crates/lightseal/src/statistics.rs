//! Statistics as JSON: on request, and on exit if there is a file for them.

use crate::failure::{Context, Failure};
use serde::Serialize;
use std::io::Write;
use std::path::Path;

/// The file's mode before the umask: the statistics may be collected by another user.
const MODE: u32 = 0o666;

/// Writes `statistics` as one JSON object: to the file if one is named, else to standard error. A
/// file is replaced as a whole, so that a reader never sees half of it.
///
/// # Errors
///
/// If the file cannot be written.
pub(crate) fn write(path: Option<&Path>, statistics: &impl Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_string_pretty(statistics).context("statistics")?;
    text.push('\n');
    let Some(path) = path else {
        // If standard error is closed, nobody is there to read them.
        let _ = std::io::stderr().write_all(text.as_bytes());
        return Ok(());
    };
    let written = lightseal_owner_only::file::replace(path, MODE, text.as_bytes(), |_| Ok(()));
    written.map(drop).context(format_args!("statistics file {}", path.display()))
}

/// Checks at the start whether [`write()`] will be able to write the file, not after hours of
/// counting.
///
/// # Errors
///
/// If the file cannot be written.
pub(crate) fn check(path: Option<&Path>) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    let written = lightseal_owner_only::file::try_replace(path);
    written.context(format_args!("statistics file {}", path.display()))
}
