//! TOML with the position of every key and value, so that a mistake found later can be shown with
//! its line.

use core::fmt;
use core::ops::Range;
use serde::de::DeserializeOwned;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeArray, DeString, DeTable, DeValue};

/// A mistake in a file: where it is, and what is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The name of the file.
    pub file: String,
    /// The line, counted from 1; 0 for the file as a whole.
    pub line: usize,
    /// The dotted path of the field; empty if the mistake is not about a field.
    pub field: String,
    /// What is wrong with the field, or what its value must be.
    pub reason: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        if !self.field.is_empty() {
            write!(f, ": {}", self.field)?;
        }
        write!(f, ": {}", self.reason)
    }
}

impl std::error::Error for Mistake {}

/// The longest file that is read, in bytes. Traces are long.
const LONGEST: u64 = 16 << 20;

/// The text and the values of a file.
#[derive(Clone, Debug)]
pub(super) struct Document<'t> {
    name: String,
    pub(super) text: &'t str,
    pub(super) root: DeTable<'t>,
}

pub(super) type Value<'t> = Spanned<DeValue<'t>>;

/// Reads a scenario file, or a file that it names. The length is limited.
///
/// # Errors
///
/// Fails when the file cannot be read or is too long.
pub fn read(path: &Path) -> Result<String, Mistake> {
    let failed = |reason: String| Mistake {
        file: path.display().to_string(),
        line: 0,
        field: String::new(),
        reason,
    };
    let len = std::fs::metadata(path).map_err(|error| failed(error.to_string()))?.len();
    if len > LONGEST {
        return Err(failed(format!("is longer than {} MiB", LONGEST >> 20)));
    }
    std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))
}

impl<'t> Document<'t> {
    /// Parses TOML. `name` is the file's name in mistakes.
    pub(super) fn parse(name: &str, text: &'t str) -> Result<Self, Mistake> {
        let mut document = Self { name: name.into(), text, root: DeTable::new() };
        match DeTable::parse(text) {
            Ok(root) => {
                document.root = root.into_inner();
                Ok(document)
            }
            Err(error) => Err(document.refused(&error)),
        }
    }

    /// A mistake at a position of the text.
    pub(super) fn mistake(
        &self,
        at: usize,
        field: impl Into<String>,
        reason: impl Into<String>,
    ) -> Mistake {
        let before = self.text.get(..at).unwrap_or_default();
        let line = 1 + before.matches('\n').count();
        Mistake { file: self.name.clone(), line, field: field.into(), reason: reason.into() }
    }

    /// Converts `root` to the type that it must have.
    pub(super) fn read<T: DeserializeOwned>(&self, root: DeTable<'t>) -> Result<T, Mistake> {
        let root = Spanned::new(0..0, root);
        T::deserialize(toml::Deserializer::from(root)).map_err(|error| self.refused(&error))
    }

    /// An error of the TOML parser as a mistake, with the field that it is about.
    fn refused(&self, error: &toml::de::Error) -> Mistake {
        let at = error.span().map_or(0, |span| span.start);
        let span = error.span().filter(|span| !span.is_empty());
        let mut path = span.map_or(Vec::new(), |span| self.path_at_position(span.start));
        if path.first().is_some_and(|first| first == "sweep") {
            path.remove(0);
        }
        let reason: Vec<&str> = error.message().lines().map(str::trim).collect();
        let reason = reason.join(": ");
        let missing = reason.strip_prefix("missing field `").and_then(|r| r.strip_suffix('`'));
        if let Some(missing) = missing {
            path.push(missing.into());
            return self.mistake(at, path.join("."), "is missing");
        }
        self.mistake(at, path.join("."), user_message(&reason))
    }

    /// The path of the field at a position of the text. If several fields contain the position, it
    /// is the one with the shortest text.
    fn path_at_position(&self, at: usize) -> Vec<String> {
        let mut best = (usize::MAX, Vec::new());
        search(&self.root, at, &mut Vec::new(), &mut best);
        best.1
    }

    /// The position of the value at a dotted path of `root`. If there is no such value, it is the
    /// position of the nearest table above it.
    pub(super) fn position_of(root: &DeTable<'_>, path: &str) -> usize {
        let mut at = 0;
        let mut table = Some(root);
        let mut array: Option<&DeArray<'_>> = None;
        for part in path.split('.') {
            let found = match (table, array) {
                (Some(table), _) => table.get(part),
                (_, Some(array)) => part.parse().ok().and_then(|n: usize| array.get(n)),
                _ => None,
            };
            let Some(value) = found else { break };
            at = value.span().start;
            table = value.get_ref().as_table();
            array = value.get_ref().as_array();
        }
        at
    }
}

/// An error of the TOML parser in the words of people who write TOML.
fn user_message(reason: &str) -> String {
    let unknown = reason.strip_prefix("unexpected keys in table: ");
    if let Some((names, known)) = unknown.and_then(|text| text.split_once(", available keys: ")) {
        return format!("unknown field {names}, expected one of {known}");
    }
    let whole = "expected a whole number that is not negative";
    let types = [
        ("invalid type: map", "invalid type: table"),
        ("invalid type: sequence", "invalid type: list"),
        ("expected a sequence", "expected a list"),
        ("expected f64", "expected a number"),
        ("expected u16", whole),
        ("expected u32", whole),
        ("expected u64", whole),
    ];
    types.iter().fold(reason.to_owned(), |reason, (from, to)| match reason.find(from) {
        // The words are part of a value that the file contains, and not the parser's own.
        Some(at) if from.starts_with("invalid") && at > 0 => reason,
        Some(at) if from.starts_with("expected") && at + from.len() < reason.len() => reason,
        Some(_) => reason.replacen(from, to, 1),
        None => reason,
    })
}

fn search(table: &DeTable<'_>, at: usize, path: &mut Vec<String>, best: &mut (usize, Vec<String>)) {
    for (key, value) in table {
        path.push(key.get_ref().to_string());
        for span in [key.span(), value.span()] {
            if span.contains(&at) && span.len() < best.0 {
                *best = (span.len(), path.clone());
            }
        }
        inside(value, at, path, best);
        path.pop();
    }
}

fn inside(value: &Value<'_>, at: usize, path: &mut Vec<String>, best: &mut (usize, Vec<String>)) {
    match value.get_ref() {
        DeValue::Table(table) => search(table, at, path, best),
        DeValue::Array(array) => {
            for item in array.iter() {
                // The items of a list have no name of their own.
                if item.span().contains(&at) && item.span().len() < best.0 {
                    *best = (item.span().len(), path.clone());
                }
                inside(item, at, path, best);
            }
        }
        _ => {}
    }
}

/// A key that is treated as if it stood at the position of `like`.
pub(super) fn key(name: &str, like: Range<usize>) -> Spanned<DeString<'static>> {
    Spanned::new(like, DeString::from(name.to_owned()))
}
