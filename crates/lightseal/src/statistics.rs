//! Statistics as JSON, on demand and at the end.

use crate::failure::{Context, Failure};
use serde::Serialize;
use std::io::Write;
use std::path::Path;

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
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    let name = std::path::PathBuf::from(name);
    let written = std::fs::write(&name, text).and_then(|()| std::fs::rename(&name, path));
    written.context(format_args!("statistics file {}", path.display()))
}
