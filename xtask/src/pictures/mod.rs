//! `cargo xtask pictures`: draws the pictures of README.md, as SVG in `docs/pictures/`.
//!
//! - [`screen`]: interprets what a program writes to a terminal;
//! - [`window`]: draws a screen as a terminal's window;
//! - [`mod@parts`]: draws the crates in their layers.

mod parts;
mod screen;
mod window;

use crate::Failure;
use crate::layers;
use crate::process::{capture, command, succeeds, workspace};
use crate::program::LIGHTSEAL;
use clap::ValueEnum;
use screen::Screen;
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of the pictures, from the workspace's top folder.
const FOLDER: &str = "docs/pictures";
/// The size of the demo's terminal: the live view with its whole heading and no charts of
/// deliveries.
const COLUMNS: usize = 80;
const ROWS: usize = 25;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only these pictures (all of them if none is named)
    pictures: Vec<Picture>,
    /// Run this program as `lightseal` instead of building it
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Picture {
    /// The demo's live view at the end of a run, which takes 20 seconds
    Demo,
    /// The crates in their layers
    Parts,
}

impl Picture {
    const fn path(self) -> &'static str {
        match self {
            Self::Demo => "demo.svg",
            Self::Parts => "parts.svg",
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let wanted = match arguments.pictures.as_slice() {
        [] => Picture::value_variants(),
        named => named,
    };
    for picture in wanted {
        let drawn = match picture {
            Picture::Demo => demo(arguments.program.as_deref())?,
            Picture::Parts => parts().map_err(Failure::Failed)?,
        };
        let path = Path::new(FOLDER).join(picture.path());
        fs::write(workspace().join(&path), drawn)
            .map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))?;
        println!("{}", path.display());
    }
    Ok(())
}

/// Checks that the picture of the crates shows the crates as they are. The picture of the demo has
/// other figures in each run, so it is not compared.
pub(crate) fn check() -> Result<(), String> {
    let path = Path::new(FOLDER).join(Picture::Parts.path());
    let stored = fs::read_to_string(workspace().join(&path)).unwrap_or_default();
    if stored == parts()? {
        Ok(())
    } else {
        Err(format!("{} is not up to date: cargo xtask pictures parts", path.display()))
    }
}

fn parts() -> Result<String, String> {
    Ok(parts::draw(&layers::layered()?))
}

/// Runs the demo in a terminal of the program `script`, and draws its last screen.
fn demo(program: Option<&Path>) -> Result<String, Failure> {
    if !succeeds(command("script", &["--version"])) {
        let reason = "the program `script` is missing (Debian's package bsdutils)";
        return Err(Failure::NotPossibleHere(reason.into()));
    }
    let program = match program {
        Some(program) => std::path::absolute(program)
            .map_err(|error| Failure::NotPossibleHere(error.to_string()))?,
        None => LIGHTSEAL.built()?,
    };
    let line = format!("stty cols {COLUMNS} rows {ROWS} && exec \"$LIGHTSEAL_PROGRAM\" demo");
    let mut terminal = command("script", &["--quiet", "--return", "--command", &line, "/dev/null"]);
    terminal.env("LIGHTSEAL_PROGRAM", program).env("TERM", "xterm-256color");
    terminal.env_remove("NO_COLOR").stdin(std::process::Stdio::null());
    let output = capture(terminal).map_err(Failure::Failed)?;
    let screen = Screen::last_full(COLUMNS, ROWS, &output)
        .ok_or_else(|| Failure::Failed("the demo has shown no live view".into()))?;
    Ok(window::draw(&screen, "lightseal demo"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_stored_picture_of_the_crates_is_up_to_date() {
        assert_eq!(super::check(), Ok(()));
    }
}
