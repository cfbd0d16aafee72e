//! Measurements of machines, which no run of the lab can repeat elsewhere: read from dated files.
//!
//! A file is JSON: `name` says what was measured, `date`, `commit`, `command` and `machine` when, on what
//! and how; `result` is what the command printed. `cargo xtask measure` writes them.

use crate::Error;
use crate::figure::{Output, Source};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A file of `results/`, its name and its text.
macro_rules! included {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../../results/", $name, ".json")))
    };
}

/// A file larger than this is none of ours.
const MAX_BYTES: u64 = 16 << 20;

/// One stored set of measurements.
#[derive(Clone, Debug, Deserialize)]
pub struct Set {
    /// What was measured.
    pub name: String,
    /// When, as `2026-11-22`.
    pub date: String,
    /// Of which commit.
    pub commit: String,
    /// How it is measured again.
    pub command: String,
    /// On what.
    pub machine: Machine,
    /// What the command printed.
    pub result: Value,
}

/// Where a set was measured.
#[derive(Clone, Debug, Deserialize)]
pub struct Machine {
    /// The processor's model.
    pub processor: String,
    /// How many of its threads are here.
    pub processors: u64,
    /// The operating system's kernel.
    pub kernel: String,
}

/// A paper's table that stored measurements fill.
#[derive(Clone, Copy, Debug)]
pub struct StoredTable {
    /// Unique, figures included.
    pub name: &'static str,
    /// Its title.
    pub title: &'static str,
    /// Where it comes from.
    pub source: Source,
    /// What it shows and how it is measured, in a few sentences.
    pub about: &'static str,
    /// The set's name.
    pub set: &'static str,
    /// Reads it from the set's result, with its plot if it has one; none if that is not what it
    /// should be.
    pub read: fn(&Value) -> Option<Output>,
}

/// Every one.
pub const TABLES: &[StoredTable] = &[
    super::tables::CIPHERS,
    super::tables::MACS,
    super::groups::ROM,
    super::groups::RAM,
    super::groups::BY_SIZE,
    super::tunnel::TUNNELS,
    super::tunnel::ROUND_TRIPS,
    super::tunnel::THROUGHPUT,
];

/// The repository's stored measurements, which are a part of the program: names and texts.
const INCLUDED: [(&str, &str); 4] = [
    included!("gateway-amd-epyc-2026-11-22"),
    included!("group-footprint-intel-xeon-processor-2026-11-22"),
    included!("group-memory-intel-xeon-processor-2026-11-22"),
    included!("lightmac-speed-intel-xeon-processor-2026-11-22"),
];

/// The sets that are a part of the program, sorted by name.
///
/// # Errors
///
/// None that the tests let pass.
pub fn included() -> Result<Vec<Set>, Error> {
    let read = |(name, text): (&str, &str)| {
        let failed =
            |error: serde_json::Error| Error::Io { path: name.into(), error: error.into() };
        serde_json::from_str(text).map_err(failed)
    };
    INCLUDED.into_iter().map(read).collect()
}

/// Reads every `.json` of a directory, sorted by name.
///
/// # Errors
///
/// If one cannot be read, or is no stored set.
pub fn read(directory: &Path) -> Result<Vec<Set>, Error> {
    let failed = |error| Error::Io { path: directory.into(), error };
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|ending| ending == "json") {
            paths.push(path);
        }
    }
    paths.sort();
    paths.iter().map(|path| read_one(path)).collect()
}

fn read_one(path: &Path) -> Result<Set, Error> {
    let failed = |error| Error::Io { path: path.into(), error };
    let mut text = String::new();
    let file = File::open(path).map_err(failed)?;
    file.take(MAX_BYTES).read_to_string(&mut text).map_err(failed)?;
    serde_json::from_str(&text).map_err(|error| failed(error.into()))
}

/// The newest set of this name on each processor, by processor.
pub fn newest_each<'a>(sets: &'a [Set], name: &str) -> Vec<&'a Set> {
    let mut newest: BTreeMap<&str, &Set> = BTreeMap::new();
    for set in sets.iter().filter(|set| set.name == name) {
        let known = newest.entry(&set.machine.processor).or_insert(set);
        if set.date > known.date {
            *known = set;
        }
    }
    newest.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The measurements of this repository.
    fn ours() -> Vec<Set> {
        read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results")).unwrap()
    }

    #[test]
    fn every_table_is_filled_from_what_is_stored() {
        let sets = ours();
        for stored in TABLES {
            let set = newest_each(&sets, stored.set).into_iter().next().expect(stored.name);
            let table = (stored.read)(&set.result).expect(stored.name).table;
            assert!(!table.rows.is_empty(), "{}", stored.name);
            assert!(table.rows.iter().all(|row| row.len() == table.columns.len()));
            assert!((stored.read)(&Value::Null).is_none());
        }
    }

    /// A result that is stored travels in the program from the next build on.
    #[test]
    fn all_that_is_stored_is_included() {
        let text = |sets: Vec<Set>| format!("{sets:?}");
        assert_eq!(text(included().unwrap()), text(ours()));
    }

    #[test]
    fn the_newest_of_each_processor_counts() {
        let mut sets = ours();
        sets.truncate(1);
        let name = sets[0].name.clone();
        for date in ["9999-12-31", "0001-01-01"] {
            sets.push(Set { date: date.into(), ..sets[0].clone() });
        }
        let mut other = sets[0].clone();
        other.machine.processor = "another".into();
        sets.push(other);
        let newest = newest_each(&sets, &name);
        let mut dates: Vec<&str> = newest.iter().map(|set| set.date.as_str()).collect();
        dates.sort_unstable();
        assert_eq!(dates, [sets[0].date.as_str(), "9999-12-31"]);
        assert!(newest_each(&sets, "none").is_empty());
    }

    #[test]
    fn a_file_that_is_no_set_is_named() {
        let directory = std::env::temp_dir().join(format!("lab-stored-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("bad.json"), "{ \"name\": 3 }").unwrap();
        std::fs::write(directory.join("README.md"), "not read").unwrap();
        let error = read(&directory).unwrap_err().to_string();
        std::fs::remove_dir_all(&directory).unwrap();
        assert!(error.contains("bad.json") && error.contains("string"), "{error}");
        assert!(read(&directory).is_err());
    }
}
