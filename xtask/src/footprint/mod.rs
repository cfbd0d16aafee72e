//! `cargo xtask footprint`: flash, RAM and instructions of images for a Cortex-M3.
//!
//! - [`toolchain`]: the compilers, unpacked in the target folder;
//! - [`images`]: the images of `firmware/footprint`, and how they are built;
//! - [`flash`]: the sizes of an image;
//! - [`emulator`]: runs of images in QEMU, with a counter of instructions;
//! - [`table`]: the figures of an image, and how they are printed.

mod emulator;
mod flash;
mod images;
mod table;
mod toolchain;

use crate::Failure;
use crate::process::target_dir;
use images::{IMAGES, Image, PROFILES, Profile};
use std::fs;
use std::path::{Path, PathBuf};
use table::Row;
use toolchain::Toolchain;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Measure this image only; may be given several times
    #[arg(long, value_name = "NAME",
          value_parser = clap::builder::PossibleValuesParser::new(IMAGES.iter().map(|i| i.name)))]
    image: Vec<String>,
    /// Build with this profile only
    #[arg(long, value_name = "NAME",
          value_parser = clap::builder::PossibleValuesParser::new(PROFILES.iter().map(|p| p.name)))]
    profile: Option<String>,
    /// Print the flash of each crate too
    #[arg(long)]
    crates: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The folder of toolchain, builds and runs.
fn folder() -> PathBuf {
    target_dir().join("footprint")
}

/// Images that are built.
struct Built {
    images: PathBuf,
    /// The folder of their runs, with a folder for each image.
    runs: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let toolchain = Toolchain::get()?;
    let chosen = chosen(&arguments.image);
    let profiles = PROFILES
        .into_iter()
        .filter(|profile| arguments.profile.as_deref().is_none_or(|name| name == profile.name));
    let plugin = emulator::counter()?;
    let mut rows = Vec::new();
    for profile in profiles {
        rows.extend(measure(&toolchain, &images::here(), &plugin, profile, &chosen)?);
    }
    let compiler = toolchain.rust_version()?;
    if arguments.json {
        println!("{}", table::json(&compiler, &rows));
    } else {
        println!("{compiler}\n\n{}", table::text(&rows));
        if arguments.crates {
            print!("\n{}", table::crates(&rows));
        }
    }
    Ok(())
}

/// The named images, or all, with the images whose transcripts they read.
fn chosen(names: &[String]) -> Vec<Image> {
    let named = |name: &str| names.is_empty() || names.iter().any(|n| n == name);
    let is_read =
        |name: &str| IMAGES.iter().any(|image| image.transcript == Some(name) && named(image.name));
    IMAGES.into_iter().filter(|image| named(image.name) || is_read(image.name)).collect()
}

/// Builds and measures images of the work tree `source`.
fn measure(
    toolchain: &Toolchain,
    source: &Path,
    plugin: &Path,
    profile: Profile,
    chosen: &[Image],
) -> Result<Vec<Row>, Failure> {
    let runs = folder().join("runs").join(profile.name);
    fs::create_dir_all(&runs).map_err(|error| Failure::Failed(error.to_string()))?;
    let built = Built { images: images::build(toolchain, source, profile, chosen)?, runs };
    let mut rows = Vec::new();
    for image in chosen {
        let sizes = flash::sizes(toolchain, &built.images.join(image.name))?;
        let run = emulator::measure(&built, plugin, *image)?;
        rows.push(Row::new(profile, *image, &sizes, &run));
    }
    Ok(rows)
}
