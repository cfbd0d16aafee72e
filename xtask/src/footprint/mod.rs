//! `cargo xtask footprint`: flash, RAM and instructions of images for a Cortex-M3.
//!
//! - [`crate::toolchain`]: the compilers, unpacked in the target folder;
//! - [`images`]: the images of `firmware/footprint`, and how they are built;
//! - [`flash`]: the sizes of an image;
//! - [`frames`]: the stack frames of its functions;
//! - [`emulator`]: runs of images in QEMU, with a counter of instructions;
//! - [`peers`]: clients of other implementations;
//! - [`table`]: the figures of an image, and how they are printed;
//! - [`stored`]: the figures in `results/`, and the comparison with them.

mod emulator;
mod flash;
pub(crate) mod frames;
mod images;
mod peers;
mod stored;
mod table;

use crate::Failure;
use crate::process::{target_dir, workspace};
use crate::toolchain::Toolchain;
use emulator::Program;
use frames::Frame;
use images::{IMAGES, Image, Input, PROFILES, Profile};
use peers::{PEERS, Peer};
use std::fs;
use std::path::{Path, PathBuf};
use table::Row;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Measure this image only; may be given several times
    #[arg(long, value_name = "NAME",
          value_parser = clap::builder::PossibleValuesParser::new(names()))]
    image: Vec<String>,
    /// Build with this profile only
    #[arg(long, value_name = "NAME",
          value_parser = clap::builder::PossibleValuesParser::new(PROFILES.iter().map(|p| p.name)))]
    profile: Option<String>,
    /// Print the flash of each crate too
    #[arg(long)]
    crates: bool,
    /// Print the stack frames of functions too
    #[arg(long)]
    frames: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Keep what the images printed, and the work tree of the commit that is compared with
    #[arg(long)]
    keep: bool,
    /// Compare with nothing; store the figures in results/ instead, beside those of other images
    #[arg(long)]
    store: bool,
    /// Write the table into docs/devices.md
    #[arg(long, conflicts_with_all = ["image", "profile"])]
    write: bool,
}

/// The names of all images, with those of peers.
fn names() -> impl Iterator<Item = &'static str> {
    IMAGES.iter().map(|image| image.name).chain(PEERS.iter().map(|peer| peer.name))
}

/// The folder of toolchain, builds and runs.
fn folder() -> PathBuf {
    target_dir().join("footprint")
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let bench = Bench::new(Toolchain::get()?)?;
    let plan = Plan::new(&arguments.image, arguments.profile.as_deref());
    let mut rows = bench.measure(&workspace(), &plan)?;
    rows.extend(bench.measure_peers(&plan)?);
    let compiler = bench.toolchain.rust_version()?;
    if !plan.peers.is_empty() {
        eprintln!("peers: {}", bench.toolchain.c_version()?);
    }
    if arguments.json {
        println!("{}", table::json(&compiler, &rows));
    } else {
        println!("{compiler}\n\n{}", table::text(&rows));
        if arguments.crates {
            println!("{}", table::crates(&rows));
        }
        if arguments.frames {
            println!("{}", table::frames(&rows));
        }
    }
    if arguments.write {
        stored::write_document(&table::markdown(&compiler, &rows)?)?;
    }
    let outcome = match arguments.store {
        true => stored::store(&compiler, &rows),
        false => stored::compare(&bench, &plan, &compiler, &rows, arguments.keep),
    };
    if !arguments.keep {
        // What is not removed is overwritten by the next run.
        let _ = fs::remove_dir_all(folder().join("runs"));
    }
    outcome
}

/// The figures of images in one profile.
#[derive(Debug)]
pub(crate) struct Figures(Vec<Row>);

impl Figures {
    /// Measures images with the toolchain that is unpacked already, and other implementations'
    /// clients.
    pub(crate) fn measure(profile: &str, names: &[&str]) -> Result<Self, Failure> {
        let bench = Bench::new(Toolchain::unpacked()?)?;
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let plan = Plan::new(&names, Some(profile));
        let mut rows = bench.measure(&workspace(), &plan)?;
        rows.extend(bench.measure_peers(&plan)?);
        Ok(Self(rows))
    }

    fn row(&self, image: &str) -> Result<&Row, Failure> {
        let row = self.0.iter().find(|row| row.image == image);
        row.ok_or_else(|| Failure::Failed(format!("{image} was not measured")))
    }

    /// The figure of an image with this key.
    pub(crate) fn figure(&self, image: &str, key: &str) -> Result<u64, Failure> {
        let figure = self.row(image)?.figure(key);
        figure.ok_or_else(|| Failure::Failed(format!("{image} has no figure {key}")))
    }

    /// The functions of our crates in an image whose stack frames are over the bar, largest first.
    pub(crate) fn frames_over(&self, image: &str) -> Result<Vec<&Frame>, Failure> {
        Ok(self.row(image)?.frames_over().collect())
    }
}

/// What is measured.
struct Plan {
    profiles: Vec<Profile>,
    images: Vec<Image>,
    peers: Vec<Peer>,
}

impl Plan {
    /// The named images, or all; in one profile, or in all.
    fn new(names: &[String], profile: Option<&str>) -> Self {
        let profiles = PROFILES.into_iter();
        let profiles = profiles.filter(|known| profile.is_none_or(|name| name == known.name));
        let is_named = |name| names.iter().any(|n| n == name);
        let peers = PEERS
            .into_iter()
            .filter(|peer| is_named(peer.name) || names.is_empty() && profile.is_none());
        Self { profiles: profiles.collect(), images: images::named(names), peers: peers.collect() }
    }

    /// The images that a commit has, and no clients of other implementations: those depend on no
    /// commit.
    fn of_commit(&self, has_image: impl Fn(&str) -> bool) -> Self {
        let images = self.images.iter().copied().filter(|image| has_image(image.name));
        Self { profiles: self.profiles.clone(), images: images.collect(), peers: Vec::new() }
    }
}

/// What measures.
struct Bench {
    toolchain: Toolchain,
    /// The counter of instructions.
    plugin: PathBuf,
}

impl Bench {
    fn new(toolchain: Toolchain) -> Result<Self, Failure> {
        Ok(Self { toolchain, plugin: emulator::counter()? })
    }

    /// Builds and measures images of the work tree `source`.
    fn measure(&self, source: &Path, plan: &Plan) -> Result<Vec<Row>, Failure> {
        let mut rows = Vec::new();
        for profile in &plan.profiles {
            let images: Vec<_> =
                plan.images.iter().copied().filter(|image| image.is_in(*profile)).collect();
            if images.is_empty() {
                continue;
            }
            let runs = folder().join("runs").join(profile.name);
            let folder = images::build(&self.toolchain, source, *profile, &images)?;
            for image in &images {
                rows.push(self.row(*profile, *image, &folder, &runs)?);
            }
        }
        Ok(rows)
    }

    /// Measures an image in the folder `images` that is built. Each image runs in a folder in `runs`.
    fn row(
        &self,
        profile: Profile,
        image: Image,
        images: &Path,
        runs: &Path,
    ) -> Result<Row, Failure> {
        let path = images.join(image.name);
        let sizes = flash::sizes(&self.toolchain, &images::bare(&path))?;
        let symbols = flash::symbols(&self.toolchain, &path)?;
        let frames = frames::frames(&self.toolchain, &path, &symbols)?;
        let after: Vec<_> = match image.input {
            Input::Transcripts(writers) => writers.iter().map(|writer| runs.join(writer)).collect(),
            Input::None | Input::Absent => Vec::new(),
        };
        let program = Program { path: &path, folder: &runs.join(image.name), after: &after };
        let run = match image.input {
            Input::Absent => emulator::Run::default(),
            _ => emulator::measure(&self.plugin, program)?,
        };
        let row = Row::new(profile.name, image.name, image.about, &sizes, &run);
        Ok(row.with_crates(sizes.crates).with_frames(frames))
    }

    /// Builds and measures the clients of peers.
    fn measure_peers(&self, plan: &Plan) -> Result<Vec<Row>, Failure> {
        if plan.peers.is_empty() {
            return Ok(Vec::new());
        }
        let sources = peers::Sources::find()?;
        let measured = plan.peers.iter().map(|peer| {
            let toolchain = &self.toolchain;
            let sizes = flash::sizes(toolchain, &peers::build_bare(toolchain, &sources, *peer)?)?;
            let image = peers::build(toolchain, &sources, *peer)?;
            let run = peers::measure(toolchain, &sources, &self.plugin, *peer, &image);
            let run = run.unwrap_or_else(|failure| {
                let (Failure::Failed(reason) | Failure::NotPossibleHere(reason)) = failure;
                eprintln!("{} is sized and not run: {reason}", peer.name);
                emulator::Run::default()
            });
            Ok(Row::new(peers::PROFILE, peer.name, peer.about, &sizes, &run))
        });
        measured.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The compiler and the figures of an image in the profile `small`, with those of the image whose
    /// transcript it reads; `None`, and the test is skipped, if this machine cannot measure.
    fn measured(image: &str) -> Option<(String, Figures)> {
        let compiler = Toolchain::unpacked().and_then(|toolchain| toolchain.rust_version());
        let measured = compiler.and_then(|name| Ok((name, Figures::measure("small", &[image])?)));
        match measured {
            Ok(measured) => Some(measured),
            Err(Failure::NotPossibleHere(reason)) => {
                skip::test(&reason);
                None
            }
            Err(Failure::Failed(reason)) => panic!("{reason}"),
        }
    }

    #[test]
    fn a_client_completes_its_handshake_in_the_emulator_and_has_not_grown() {
        let Some((compiler, figures)) = measured("client-13") else { return };
        for image in ["ends-13", "client-13"] {
            let instructions = figures.figure(image, "handshake_instructions");
            assert!(instructions.is_ok_and(|count| count > 100_000), "{image}");
        }
        match stored::grown(&compiler, &figures.0) {
            Ok(grown) => assert!(grown.is_empty(), "{grown:?}"),
            Err(reason) => skip::part("comparison with the stored figures", reason),
        }
    }

    #[test]
    fn crates_that_need_no_allocator_link_without_one_and_work() {
        let Some((_, figures)) = measured("no-alloc") else { return };
        assert!(figures.figure("no-alloc", "flash_bytes").is_ok_and(|bytes| bytes > 10_000));
    }
}
