//! The compiler for the boards, and the images that it makes.

use crate::Failure;
use crate::process::{cargo, run, target_dir, workspace};
use crate::toolchain::Toolchain;
use std::path::{Path, PathBuf};

/// The emulator of the boards.
pub(super) const EMULATOR: &str = "qemu-system-arm";

/// The Rust target of the boards' processor.
const TARGET: &str = "thumbv7m-none-eabi";

/// The packages of the images.
const PACKAGES: [&str; 4] = ["dtls", "embassy-client", "group-member", "lightmac-signer"];

/// The images, and the program for the host's end.
#[derive(Debug)]
pub(crate) struct Images {
    folder: PathBuf,
    /// The program `board-peer`.
    pub(super) host: PathBuf,
}

impl Images {
    /// Builds everything.
    pub(crate) fn build(toolchain: &Toolchain, profile: &str) -> Result<Self, Failure> {
        let target = target_dir().join("firmware");
        build_images(toolchain, profile, &target)?;
        let host = ["build", "--quiet", "--package", "attacks", "--bin", "board-peer"];
        run(cargo(&host)).map_err(Failure::Failed)?;
        Ok(Self {
            folder: target.join(TARGET).join(profile),
            host: target_dir().join("debug").join("board-peer"),
        })
    }

    /// The file of an image.
    pub(super) fn image(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

fn build_images(toolchain: &Toolchain, profile: &str, target: &Path) -> Result<(), Failure> {
    let packages = PACKAGES.iter().flat_map(|package| ["--package", package]);
    let mut build = cargo(&["build", "--quiet", "--profile", profile]);
    build.args(packages);
    build.arg("--target-dir").arg(target).current_dir(workspace().join("firmware"));
    toolchain.use_rust(&mut build);
    run(build).map_err(Failure::Failed)
}

/// Lints the sources of all programs for boards. Programs without an allocator are linted apart: the
/// dependencies that they share with the others have features here that need one.
pub(super) fn lint(toolchain: &Toolchain) -> Result<(), Failure> {
    // A folder of its own keeps the images, which are built with another wrapper.
    let target = target_dir().join("firmware-lint");
    let apart = "no-alloc";
    for packages in [["--workspace", "--exclude", apart].as_slice(), &["--package", apart]] {
        let mut check = cargo(&["check", "--quiet", "--all-features"]);
        check.args(packages).arg("--target-dir").arg(&target);
        check.current_dir(workspace().join("firmware"));
        toolchain.use_linter(&mut check)?;
        run(check).map_err(Failure::Failed)?;
    }
    Ok(())
}
