//! Manual pages and scripts for the completion of command lines.

use crate::failure::{Context, Failure};
use clap::{Command, Subcommand};
use clap_complete::Shell;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The subcommands by which a program documents itself.
#[derive(Clone, Debug, Subcommand)]
pub enum ManualCommand {
    /// Write a manual page for each command into a directory.
    Man {
        /// Directory for the pages, which is created if necessary, such as ~/.local/share/man/man1.
        directory: PathBuf,
    },
    /// Print a script that lets a shell complete command lines.
    Completions {
        /// Shell that the script is for.
        shell: Shell,
    },
}

impl ManualCommand {
    /// Writes the pages, or prints the script. `separate` names the subcommands that are programs
    /// of their own and have their own pages.
    ///
    /// # Errors
    ///
    /// If the directory or standard output cannot be written.
    pub fn run(&self, program: Command, separate: &[&str]) -> Result<(), Failure> {
        match self {
            Self::Man { directory } => write_pages(program, directory, separate)
                .context(format_args!("manual pages in {}", directory.display())),
            Self::Completions { shell } => print_completions(program, *shell),
        }
    }
}

fn write_pages(program: Command, directory: &Path, separate: &[&str]) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)?;
    let mut own = program.clone();
    for name in separate {
        own = own.mut_subcommand(*name, |subcommand| subcommand.hide(true));
    }
    clap_mangen::generate_to(own, directory)?;
    // The program's own page names all subcommands, so it is written again.
    let all = program.disable_help_subcommand(true);
    clap_mangen::Man::new(all).generate_to(directory).map(drop)
}

fn print_completions(mut program: Command, shell: Shell) -> Result<(), Failure> {
    let name = program.get_name().to_owned();
    // The script goes into memory first, since `generate` panics when the pipe is closed.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut program, name, &mut script);
    std::io::stdout().write_all(&script).context("standard output")
}
