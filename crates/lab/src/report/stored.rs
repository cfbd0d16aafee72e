//! Measurements on real machines, which the lab cannot repeat elsewhere. They are read from dated
//! files.
//!
//! A file is JSON: `name` says what was measured, and `date`, `commit`, `command` and `machine` say
//! when, with which program and where. `result` is what the command printed. `cargo xtask measure`
//! writes these files.

use crate::Error;
use crate::figure::{FigureData, PaperItem};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The name and the text of a file in `results/`. The crate has a link to each of these files,
/// which becomes the file in the package.
macro_rules! included {
    ($name:literal) => {
        ($name, include_str!(concat!("../../results/", $name, ".json")))
    };
}

/// The largest file that is read, in bytes.
const MAX_BYTES: u64 = 16 << 20;

/// One stored set of measurements.
#[derive(Clone, Debug, Deserialize)]
pub struct StoredMeasurement {
    /// The name of the measurement.
    pub name: String,
    /// The date of the measurement, such as `2026-11-22`.
    pub date: String,
    /// The commit that was measured.
    pub commit: String,
    /// The command that repeats the measurement.
    pub command: String,
    /// The machine on which it was measured.
    pub machine: Machine,
    /// The output of the command.
    pub result: Value,
}

/// The machine on which a set was measured.
#[derive(Clone, Debug, Deserialize)]
pub struct Machine {
    /// The model of the processor.
    pub processor: String,
    /// The number of hardware threads available.
    pub processors: u64,
    /// The version of the operating system's kernel.
    pub kernel: String,
}

/// A table of a paper that is filled from stored measurements.
#[derive(Clone, Copy, Debug)]
pub struct StoredTable {
    /// The name, unique among stored tables and figures.
    pub name: &'static str,
    /// The title above the table.
    pub title: &'static str,
    /// The item of the paper that it reproduces.
    pub source: PaperItem,
    /// What the table shows and how it is measured, in a few sentences.
    pub about: &'static str,
    /// The name of the set that it reads.
    pub set: &'static str,
    /// Reads the table and its plot, if it has one, from the set's result. `None` if the result
    /// lacks a value or has one of a wrong type.
    pub read: fn(&Value) -> Option<FigureData>,
}

/// The set of measurements on an emulated device, by `cargo xtask footprint --store`.
pub(super) const FOOTPRINT: &str = "footprint";

/// The row of an image in a profile of the set [`FOOTPRINT`].
pub(super) fn image<'a>(result: &'a Value, image: &str, profile: &str) -> Option<&'a Value> {
    rows(result)?.iter().find(|row| row["image"] == image && row["profile"] == profile)
}

/// The pairs of numbers of an image's RAM by peers: how many peers, and bytes.
pub(super) fn ram(row: &Value) -> Option<Vec<(u64, u64)>> {
    let pairs = row.get("ram_by_peers")?.as_array()?.iter();
    pairs.map(|pair| Some((pair.get(0)?.as_u64()?, pair.get(1)?.as_u64()?))).collect()
}

/// The rows of a result.
pub(super) fn rows(result: &Value) -> Option<&Vec<Value>> {
    result.get("rows")?.as_array()
}

/// The names and texts of the repository's stored measurements, which are compiled into the
/// program.
const INCLUDED: [(&str, &str); 5] = [
    included!("bogo-amd-epyc-2026-11-26"),
    included!("footprint-cortex-m3-2026-11-29"),
    included!("gateway-amd-epyc-2026-11-22"),
    included!("interop-amd-epyc-2026-11-26"),
    included!("lightmac-speed-intel-xeon-processor-2026-11-22"),
];

/// The sets that are compiled into the program, sorted by name.
///
/// # Errors
///
/// None in practice: a test reads all of them.
pub fn included() -> Result<Vec<StoredMeasurement>, Error> {
    let read = |(name, text): (&str, &str)| {
        let failed =
            |error: serde_json::Error| Error::Io { path: name.into(), error: error.into() };
        serde_json::from_str(text).map_err(failed)
    };
    INCLUDED.into_iter().map(read).collect()
}

/// Reads every `.json` file of a directory, sorted by name.
///
/// # Errors
///
/// Fails if a file cannot be read, or is not a stored set.
pub fn read(directory: &Path) -> Result<Vec<StoredMeasurement>, Error> {
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

fn read_one(path: &Path) -> Result<StoredMeasurement, Error> {
    let failed = |error| Error::Io { path: path.into(), error };
    let mut text = String::new();
    let file = File::open(path).map_err(failed)?;
    file.take(MAX_BYTES).read_to_string(&mut text).map_err(failed)?;
    serde_json::from_str(&text).map_err(|error| failed(error.into()))
}

/// The newest set of this name for each processor, sorted by processor.
pub fn newest_each<'a>(sets: &'a [StoredMeasurement], name: &str) -> Vec<&'a StoredMeasurement> {
    let mut newest: BTreeMap<&str, &StoredMeasurement> = BTreeMap::new();
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

    /// The stored measurements of this repository.
    fn ours() -> Vec<StoredMeasurement> {
        read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results")).unwrap()
    }

    #[test]
    fn every_table_is_filled_from_what_is_stored() {
        let sets = ours();
        for stored in super::super::TABLES {
            let set = newest_each(&sets, stored.set).into_iter().next().expect(stored.name);
            let table = (stored.read)(&set.result).expect(stored.name).table;
            assert!(!table.rows.is_empty(), "{}", stored.name);
            assert!(table.rows.iter().all(|row| row.len() == table.columns.len()));
            assert!((stored.read)(&Value::Null).is_none());
        }
    }

    /// Every stored result is compiled into the program from the next build on.
    #[test]
    fn all_that_is_stored_is_included() {
        let text = |sets: Vec<StoredMeasurement>| format!("{sets:?}");
        assert_eq!(text(included().unwrap()), text(ours()));
    }

    #[test]
    fn the_newest_of_each_processor_counts() {
        let mut sets = ours();
        sets.truncate(1);
        let name = sets[0].name.clone();
        for date in ["9999-12-31", "0001-01-01"] {
            sets.push(StoredMeasurement { date: date.into(), ..sets[0].clone() });
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
