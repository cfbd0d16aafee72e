//! The figures in `results/`, and the comparison of new ones with them.

use super::table::{self, Row};
use super::{Bench, Plan, folder, images};
use crate::Failure;
use crate::measure::{stored, stored_name};
use crate::process::{capture, command, run, workspace};
use serde_json::{Value, json};
use std::fs;

/// The name of the set.
const SET: &str = "footprint";
const ABOUT: &str = "flash, RAM, stack and instructions of DTLS images for a Cortex-M3";
const COMMAND: &str = "cargo xtask footprint --store";
/// The emulated board, which stands in the place of the machine: nothing depends on the host.
const BOARD: &str = "Cortex-M3";

/// Growth by more than this part fails.
const TOLERANCE: f64 = 0.02;

/// The document with the table, and the headings between which the table stands.
const DOCUMENT: &str = "docs/devices.md";
const BEGIN: &str = "## Measured\n";
const END: &str = "## How to read the figures\n";

/// Stores figures with date and commit. Figures of images that were not measured stay, each with the commit
/// of which it is, if they are of the same compiler.
pub(super) fn store(compiler: &str, rows: &[Row]) -> Result<(), Failure> {
    let mut result = table::json(compiler, rows);
    let earlier = newest().filter(|set| set["result"]["compiler"] == compiler);
    if let (Some(earlier), Some(list)) = (earlier, result["rows"].as_array_mut()) {
        let measured = |old: &Value| {
            rows.iter().any(|row| old["profile"] == row.profile && old["image"] == row.image)
        };
        for old in rows_of(&earlier["result"]).iter().filter(|old| !measured(old)) {
            let mut kept = old.clone();
            if kept["commit"].is_null() {
                kept["commit"] = earlier["commit"].clone();
            }
            list.push(kept);
        }
    }
    let mut set = stored(SET, ABOUT, COMMAND, result)?;
    set["machine"]["processor"] = json!(BOARD);
    set["machine"]["processors"] = json!(1);
    let name = stored_name(SET, &set);
    let path = workspace().join("results").join(format!("{name}.json"));
    fs::write(&path, format!("{set}\n"))
        .map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))?;
    println!("results/{name}.json");
    Ok(())
}

/// The newest stored set.
fn newest() -> Option<Value> {
    let named = |name: &str| name.starts_with(&format!("{SET}-")) && name.ends_with(".json");
    let files = fs::read_dir(workspace().join("results")).ok()?.filter_map(Result::ok);
    let mut files: Vec<_> = files
        .filter(|file| named(&file.file_name().to_string_lossy()))
        .map(|file| file.path())
        .collect();
    files.sort();
    serde_json::from_str(&fs::read_to_string(files.last()?).ok()?).ok()
}

/// What grew since figures were stored. The error says why it cannot be told.
#[cfg(test)]
pub(super) fn grown(compiler: &str, rows: &[Row]) -> Result<Vec<String>, String> {
    let set = newest().ok_or("nothing is stored")?;
    let earlier = set["result"]["compiler"].as_str().unwrap_or_default();
    match earlier == compiler {
        true => Ok(growth(&set["result"], rows)),
        false => Err(format!("they are of {earlier}")),
    }
}

/// Compares figures with those that are stored. If those come from another compiler, their commit is
/// measured again.
pub(super) fn compare(
    bench: &Bench,
    plan: &Plan,
    compiler: &str,
    rows: &[Row],
    keep: bool,
) -> Result<(), Failure> {
    let Some(set) = newest() else {
        eprintln!("nothing is stored to compare with");
        return Ok(());
    };
    let earlier = set["result"]["compiler"].as_str().unwrap_or_default();
    let commit = set["commit"].as_str().unwrap_or_default();
    let before = if earlier == compiler {
        set["result"].clone()
    } else {
        eprintln!("the stored figures of {commit} are of {earlier}: measuring them again");
        let stored = |name: &str| rows_of(&set["result"]).iter().any(|row| row["image"] == name);
        again(bench, &plan.of_commit(stored), commit, compiler, keep)?
    };
    let growth = growth(&before, rows);
    match growth.is_empty() {
        true => {
            eprintln!("nothing grew by more than {} % since {commit}", 100.0 * TOLERANCE);
            Ok(())
        }
        false => Err(Failure::Failed(growth.join("\n"))),
    }
}

fn rows_of(result: &Value) -> &[Value] {
    result["rows"].as_array().map_or(&[][..], Vec::as_slice)
}

/// One line for each figure that became worse by more than the tolerance: that grew, or, if it is a
/// number of peers that fit, that shrank.
fn growth(before: &Value, rows: &[Row]) -> Vec<String> {
    let mut lines = Vec::new();
    let stored = rows_of(before);
    for row in rows {
        let fits = |old: &&Value| old["profile"] == row.profile && old["image"] == row.image;
        let Some(old) = stored.iter().find(fits) else { continue };
        for (key, now) in &row.figures {
            let Some(then) = old[*key].as_u64() else { continue };
            let (grew, shrank) = (1.0 + TOLERANCE, 1.0 - TOLERANCE);
            let change = match table::is_number_that_fits(key) {
                false if *now as f64 > then as f64 * grew => "grew",
                true if (*now as f64) < then as f64 * shrank => "shrank",
                _ => continue,
            };
            let (image, profile) = (&row.image, &row.profile);
            lines.push(format!("{image} ({profile}): {key} {change} from {then} to {now}"));
        }
    }
    lines
}

/// Measures a commit, such as `commit ede19f6`, in a work tree of its own.
fn again(
    bench: &Bench,
    plan: &Plan,
    commit: &str,
    compiler: &str,
    keep: bool,
) -> Result<Value, Failure> {
    let commit = commit.trim_start_matches("commit ").trim_end_matches("-dirty");
    let tree = folder().join("earlier");
    let place = tree.to_string_lossy();
    // The work tree of an interrupted run.
    let remove = || capture(command("git", &["worktree", "remove", "--force", &place]));
    if tree.exists() {
        remove().map_err(Failure::Failed)?;
    }
    run(command("git", &["worktree", "add", "--force", "--quiet", "--detach", &place, commit]))
        .map_err(Failure::NotPossibleHere)?;
    let rows = bench.measure(&tree, plan);
    if !keep {
        remove().map_err(Failure::Failed)?;
        images::remove_earlier();
    }
    Ok(table::json(compiler, &rows?))
}

/// Puts the table into its place in the document.
pub(super) fn write_document(table: &str) -> Result<(), Failure> {
    let failed = |what: String| Failure::Failed(format!("{DOCUMENT}: {what}"));
    let path = workspace().join(DOCUMENT);
    let text = fs::read_to_string(&path).map_err(|error| failed(error.to_string()))?;
    let new = replaced(&text, table).ok_or_else(|| failed("there is no place for it".into()))?;
    fs::write(&path, new).map_err(|error| failed(error.to_string()))
}

fn replaced(text: &str, table: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{table}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_named_only_beyond_the_tolerance() {
        let row = |flash| Row::test("small", "client-13", &[("flash_bytes", flash)]);
        let before = table::json("rustc", &[row(1000)]);
        assert!(growth(&before, &[row(1020)]).is_empty());
        assert!(growth(&before, &[row(10)]).is_empty());
        assert_eq!(
            growth(&before, &[row(1021)]),
            ["client-13 (small): flash_bytes grew from 1000 to 1021"]
        );
        let other = Row::test("fast", "client-13", &[("flash_bytes", 5000)]);
        assert!(growth(&before, &[other]).is_empty(), "nothing is stored of it");
        let fit = |number| Row::test("small", "sessions-24", &[("peers_in_16_kb", number)]);
        let before = table::json("rustc", &[fit(24)]);
        assert!(growth(&before, &[fit(30)]).is_empty());
        assert_eq!(growth(&before, &[fit(20)]).len(), 1);
    }

    #[test]
    fn the_written_part_of_a_document_is_replaced() {
        let text = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        let expected = format!("a\n{BEGIN}\nnew\n\n{END}\nb\n");
        assert_eq!(replaced(&text, "new\n").as_deref(), Some(expected.as_str()));
        assert_eq!(replaced("no place", "new"), None);
    }
}
