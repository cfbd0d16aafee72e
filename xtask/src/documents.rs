//! `cargo xtask documents`: runs the command blocks of README and docs as they are written.

use crate::Failure;
use crate::process::{cargo, run as run_command, target_dir, workspace};
use documents::run::{Outcome, Settings};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Run only this page, or only the block that begins at this line and the blocks it depends on
    #[arg(value_name = "FILE[:LINE]")]
    only: Vec<String>,
    /// List what would be run, what would be left out, and why
    #[arg(long)]
    list: bool,
    /// Leave out commands that are marked as slow
    #[arg(long)]
    quick: bool,
    /// Run this program as `lightseal` instead of building it, with the `lightseal-lab` beside it
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let program = arguments.program.as_deref().map(std::path::absolute).transpose();
    let program = program.map_err(|error| Failure::NotPossibleHere(error.to_string()))?;
    let Arguments { quick, list, only, .. } = arguments;
    let outcomes = outcomes(program, *quick, *list, only, true)?;
    let failed = outcomes.iter().filter(|outcome| outcome.failure.is_some()).count();
    if failed == 0 {
        Ok(())
    } else {
        Err(Failure::Failed(format!("{failed} blocks do not run as they are written")))
    }
}

/// Runs the blocks. If `show` is set, prints the outcome of each page when it is known.
pub(crate) fn outcomes(
    program: Option<PathBuf>,
    quick: bool,
    list: bool,
    only: &[String],
    show: bool,
) -> Result<Vec<Outcome>, Failure> {
    if !list && let Some(reason) = documents::run::missing() {
        return Err(Failure::NotPossibleHere(reason));
    }
    let program = match program {
        Some(program) => program,
        None if list => PathBuf::new(),
        None => {
            let packages = ["--package", "lightseal", "--package", "lightseal-lab"];
            run_command(cargo(&[&["build", "--quiet", "--release"], &packages[..]].concat()))
                .map_err(Failure::Failed)?;
            target_dir().join("release/lightseal")
        }
    };
    let xtask = std::env::current_exe().ok();
    let settings = Settings { root: workspace(), program, xtask, quick, list };
    let mut outcomes = Vec::new();
    for (page, line) in pages(only)? {
        let of_page = documents::run::page(&settings, &page, line).map_err(Failure::Failed)?;
        if show {
            print!("{}", of_page.iter().map(shown).collect::<String>());
        }
        outcomes.extend(of_page);
    }
    if show {
        println!("{}", summary(&outcomes));
    }
    Ok(outcomes)
}

/// The pages asked for, or all pages if none is named. The line number, if given, selects one
/// block.
fn pages(only: &[String]) -> Result<Vec<(PathBuf, Option<usize>)>, Failure> {
    if only.is_empty() {
        let all = documents::pages(&workspace()).map_err(Failure::Failed)?;
        return Ok(all.into_iter().map(|page| (page, None)).collect());
    }
    let one = |text: &String| match text.rsplit_once(':') {
        Some((page, line)) => {
            let line =
                line.parse().map_err(|_| Failure::Failed(format!("{text}: no line {line:?}")));
            Ok((Path::new(page).to_path_buf(), Some(line?)))
        }
        None => Ok((PathBuf::from(text), None)),
    };
    only.iter().map(one).collect()
}

/// A line for the block, and one line for each reason why commands were left out.
pub(crate) fn shown(outcome: &Outcome) -> String {
    let Outcome { block, ran, left_out, failure } = outcome;
    let commands = if *ran == 1 { "1 command".to_owned() } else { format!("{ran} commands") };
    let mut text = match failure {
        Some(failure) => format!("{block}: FAILED: {failure}\n"),
        None => format!("{block}: {commands}\n"),
    };
    for of_one_reason in left_out.chunk_by(|(_, why), (_, next)| why == next) {
        let (command, why) = &of_one_reason[0];
        let first = command.lines().next().unwrap_or_default();
        let more = match of_one_reason.len() {
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        text += &format!("{block}:   left out `{first}`{more}: {why}\n");
    }
    text
}

/// The line with the numbers of blocks and commands.
pub(crate) fn summary(outcomes: &[Outcome]) -> String {
    let failed = outcomes.iter().filter(|outcome| outcome.failure.is_some()).count();
    let ran: usize = outcomes.iter().map(|outcome| outcome.ran).sum();
    let left_out: usize = outcomes.iter().map(|outcome| outcome.left_out.len()).sum();
    format!(
        "{} blocks, {failed} of them failed; {ran} commands, {left_out} others left out",
        outcomes.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The marks of every page can be parsed, and every command that is left out has a reason.
    #[test]
    fn every_page_can_be_listed() {
        let outcomes = outcomes(None, false, true, &[], false).map_err(|_| "see above").unwrap();
        assert!(outcomes.iter().any(|outcome| outcome.block.starts_with("README.md:")));
        assert!(outcomes.iter().all(|outcome| outcome.failure.is_none()));
        assert!(outcomes.iter().flat_map(|o| &o.left_out).all(|(_, why)| !why.is_empty()));
    }

    #[test]
    fn a_line_behind_a_page_chooses_a_block() {
        let chosen = pages(&["README.md".into(), "docs/lab.md:7".into()]).map_err(|_| "").unwrap();
        assert_eq!(chosen, [("README.md".into(), None), ("docs/lab.md".into(), Some(7))]);
        assert!(pages(&["docs/lab.md:x".into()]).is_err());
    }
}
