//! Statistics as JSON: on demand, and at the end if there is a file for them.

use crate::failure::{Context, Failure};
use serde::Serialize;
use std::io::Write;
use std::path::Path;

/// Whoever collects statistics may be another user, if the umask says so.
const MODE: u32 = 0o666;

/// Writes `statistics` as one JSON object, to a file if one is named and to
/// standard error otherwise. A file is replaced whole, so that a reader never
/// sees half of one.
///
/// # Errors
///
/// If the file cannot be written.
pub(crate) fn write(path: Option<&Path>, statistics: &impl Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_string_pretty(statistics).context("statistics")?;
    text.push('\n');
    let Some(path) = path else {
        // Nobody to tell if standard error is gone.
        let _ = std::io::stderr().write_all(text.as_bytes());
        return Ok(());
    };
    let written = owner_only::file::replace(path, MODE, text.as_bytes(), |_| Ok(()));
    written.map(drop).context(format_args!("statistics file {}", path.display()))
}

/// Finds out whether [`write()`] could write to the file, before hours of counting.
///
/// # Errors
///
/// If it could not.
pub(crate) fn check(path: Option<&Path>) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    let written = owner_only::file::try_replace(path);
    written.context(format_args!("statistics file {}", path.display()))
}
