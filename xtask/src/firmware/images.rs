//! The compiler for the boards, and the images that it makes.

use crate::Failure;
use crate::process::{cargo, run, target_dir, workspace};
use std::path::{Path, PathBuf};

/// The variable that names the folder of the compiler.
const VARIABLE: &str = "LIGHTSEAL_ARM_TOOLCHAIN";

/// The emulator of the boards.
pub(super) const EMULATOR: &str = "qemu-system-arm";

/// The Rust target of the boards' processor.
const TARGET: &str = "thumbv7m-none-eabi";

/// The images, and the program for the host's end.
#[derive(Debug)]
pub(crate) struct Images {
    folder: PathBuf,
    /// The program `board-peer`.
    pub(super) host: PathBuf,
}

impl Images {
    /// Builds everything with the compiler in `toolchain`, or in the folder that the environment
    /// names, or in the target folder.
    pub(crate) fn build(toolchain: Option<PathBuf>, profile: &str) -> Result<Self, Failure> {
        skip::program_there(EMULATOR, "qemu-system-arm").map_err(Failure::NotPossibleHere)?;
        let named = || std::env::var_os(VARIABLE).map(PathBuf::from);
        let usual = || target_dir().join("footprint").join("toolchain");
        let toolchain = toolchain.or_else(named).unwrap_or_else(usual);
        let target = target_dir().join("firmware");
        build_images(&toolchain, profile, &target)?;
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

fn build_images(toolchain: &Path, profile: &str, target: &Path) -> Result<(), Failure> {
    let compiler = toolchain.join("usr/bin/rustc");
    if !compiler.is_file() {
        let reason = format!("no compiler for {TARGET} in {} ({VARIABLE})", toolchain.display());
        return Err(Failure::NotPossibleHere(reason));
    }
    let mut build = cargo(&["build", "--quiet", "--package", "dtls", "--profile", profile]);
    // The parts of Rust's library that the images use are built too, with panics that end the
    // program at once.
    build.args(["-Zbuild-std=core,alloc", "-Zpanic-immediate-abort"]);
    build.arg("--target-dir").arg(target).current_dir(workspace().join("firmware"));
    build.env("RUSTC", compiler).env("RUSTC_BOOTSTRAP", "1");
    build.env("LD_LIBRARY_PATH", libraries(toolchain));
    let linker = toolchain.join("usr/bin/arm-none-eabi-ld");
    build.env("CARGO_TARGET_THUMBV7M_NONE_EABI_LINKER", linker);
    run(build).map_err(Failure::Failed)
}

/// The folder of the compiler's shared libraries, which is named after the host's processor.
fn libraries(toolchain: &Path) -> PathBuf {
    let folder = toolchain.join("usr/lib");
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let found = entries.map(|entry| entry.path()).find(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().ends_with("-linux-gnu"))
    });
    found.unwrap_or(folder)
}
