//! The images of `firmware/footprint`, and how they are built.

use super::folder;
use super::toolchain::Toolchain;
use crate::Failure;
use crate::process::{cargo, run, workspace};
use std::path::{Path, PathBuf};

/// An image.
#[derive(Clone, Copy, Debug)]
pub(super) struct Image {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// The image with both ends that writes the transcript which this image reads.
    pub(super) transcript: Option<&'static str>,
}

const fn image(name: &'static str, about: &'static str) -> Image {
    Image { name, about, transcript: None }
}

const fn solo(name: &'static str, about: &'static str, ends: &'static str) -> Image {
    Image { name, about, transcript: Some(ends) }
}

/// All images. An image with both ends stands before those that read its transcript.
pub(super) const IMAGES: [Image; 9] = [
    image("base", "nothing: what every image has"),
    image("ends-13", "client and server of DTLS 1.3"),
    image("ends-12", "client and server of DTLS 1.2"),
    image("ends-both", "client and server of both versions"),
    solo("client-13", "client of DTLS 1.3", "ends-13"),
    solo("client-12", "client of DTLS 1.2", "ends-12"),
    solo("client-both", "client of both versions", "ends-both"),
    solo("server-13", "server of DTLS 1.3", "ends-13"),
    solo("server-both", "server of both versions", "ends-both"),
];

/// How images are built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Profile {
    pub(super) name: &'static str,
    flags: &'static str,
}

/// Symbols are mangled so that `nm` shows for which types a generic function was made.
const SYMBOLS: &str = "-Csymbol-mangling-version=v0";

/// The profiles of `firmware/Cargo.toml`.
pub(super) const PROFILES: [Profile; 2] = [
    Profile { name: "small", flags: "--cfg sha2_backend_soft=\"compact\"" },
    Profile { name: "fast", flags: "" },
];

/// The Rust target of the board.
const TARGET: &str = "thumbv7m-none-eabi";

/// Builds images of the workspace in `source` and returns the folder in which they are.
pub(super) fn build(
    toolchain: &Toolchain,
    source: &Path,
    profile: Profile,
    images: &[Image],
) -> Result<PathBuf, Failure> {
    let target = folder().join("build");
    let mut build = cargo(&["build", "--quiet", "--package", "footprint"]);
    build.args(["--profile", profile.name, "--target", TARGET, "--target-dir"]).arg(&target);
    build.args(images.iter().flat_map(|image| ["--bin", image.name]));
    build.env("RUSTFLAGS", format!("{SYMBOLS} {}", profile.flags));
    build.current_dir(source.join("firmware"));
    toolchain.use_rust(&mut build);
    run(build).map_err(Failure::Failed)?;
    Ok(target.join(TARGET).join(profile.name))
}

/// The work tree of this program.
pub(super) fn here() -> PathBuf {
    workspace()
}
