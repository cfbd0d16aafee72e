//! The compilers for the board: Debian's packages, unpacked in the target folder. Nothing is
//! installed, and no rights are needed.

use crate::Failure;
use crate::process::{capture, command, run, succeeds, target_dir};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The packages: a Rust compiler together with the source of its library, which the images build
/// with settings of their own, and a C compiler with linker and library.
const PACKAGES: [&str; 6] = [
    "rustc-web",
    "rust-web-src",
    "gcc-arm-none-eabi",
    "binutils-arm-none-eabi",
    "libnewlib-arm-none-eabi",
    "libnewlib-dev",
];

/// How the packages begin that the Rust compiler needs beside what every Debian has. Their names end
/// with version numbers.
const LIBRARIES: [&str; 2] = ["libstd-rust-web", "libllvm"];

/// Made when everything is unpacked. It lists the packages with their versions.
const COMPLETE: &str = "packages";

/// The linter of the same version as the Rust compiler.
const LINTER: &str = "rust-web-clippy";

/// The emulator, which is a package of its own with many others beside it.
const EMULATOR: &str = "qemu-system-arm";

/// Unpacked compilers.
#[derive(Debug)]
pub(crate) struct Toolchain {
    root: PathBuf,
}

impl Toolchain {
    /// The toolchain, if it was unpacked before and the emulator is installed.
    pub(crate) fn unpacked() -> Result<Self, Failure> {
        if !succeeds(command(EMULATOR, &["--version"])) {
            return Err(Failure::NotPossibleHere(format!("{EMULATOR} is not installed")));
        }
        let root = folder();
        match is_complete(&root) {
            true => Ok(Self { root }),
            false => Err(Failure::NotPossibleHere(
                "the toolchain is not unpacked: `cargo xtask footprint` does it".into(),
            )),
        }
    }

    /// The toolchain, unpacked if it was not unpacked before.
    pub(crate) fn get() -> Result<Self, Failure> {
        let root = folder();
        if !is_complete(&root) {
            unpack(&root).map_err(|error| {
                Failure::NotPossibleHere(format!("the toolchain was not got: {error}"))
            })?;
        }
        Self::unpacked()
    }

    fn programs(&self) -> PathBuf {
        self.root.join("usr/bin")
    }

    /// A program of GCC or binutils, such as `size`.
    pub(crate) fn gnu(&self, program: &str, arguments: &[&str]) -> Command {
        let path = self.programs().join(format!("arm-none-eabi-{program}"));
        command(&path.to_string_lossy(), arguments)
    }

    /// The folders of the C library's headers.
    pub(crate) fn c_headers(&self) -> [PathBuf; 2] {
        ["usr/include/newlib/nano", "usr/include/newlib"].map(|folder| self.root.join(folder))
    }

    /// The folder of the C library for the board's processor.
    pub(crate) fn c_library(&self) -> PathBuf {
        self.root.join("usr/lib/arm-none-eabi/newlib/thumb/v7-m/nofp")
    }

    /// The name and version of the C compiler.
    pub(crate) fn c_version(&self) -> Result<String, Failure> {
        let said = capture(self.gnu("gcc", &["--version"])).map_err(Failure::NotPossibleHere)?;
        Ok(said.lines().next().unwrap_or_default().to_owned())
    }

    /// Makes cargo use the Rust compiler and the linker.
    pub(crate) fn use_rust(&self, cargo: &mut Command) {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let all = std::iter::once(self.programs()).chain(std::env::split_paths(&path));
        if let Ok(all) = std::env::join_paths(all) {
            cargo.env("PATH", all);
        }
        cargo
            .env("RUSTC", self.programs().join("rustc"))
            .env("RUSTC_BOOTSTRAP", "1")
            .env("LD_LIBRARY_PATH", self.libraries())
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .env_remove("RUSTC_WRAPPER")
            .env_remove("RUSTUP_TOOLCHAIN");
    }

    /// Makes cargo lint the packages of its workspace, where a warning is an error. The linter is
    /// unpacked if it was not unpacked before, in a folder of its own.
    pub(crate) fn use_linter(&self, cargo: &mut Command) -> Result<(), Failure> {
        let root = target_dir().join("footprint").join("linter");
        let driver = root.join("usr/bin/clippy-driver");
        if !driver.is_file() {
            download(&root, &[LINTER.to_owned()]).map_err(|error| {
                Failure::NotPossibleHere(format!("{LINTER} was not got: {error}"))
            })?;
        }
        self.use_rust(cargo);
        // What `cargo clippy` sets.
        cargo
            .env("RUSTC_WORKSPACE_WRAPPER", driver)
            .env("CLIPPY_ARGS", "-Dwarnings__CLIPPY_HACKERY__")
            .env("SYSROOT", self.root.join("usr"));
        Ok(())
    }

    fn libraries(&self) -> OsString {
        self.root.join("usr/lib/x86_64-linux-gnu").into_os_string()
    }

    /// The name and version of the Rust compiler.
    pub(crate) fn rust_version(&self) -> Result<String, Failure> {
        let mut rustc = command(&self.programs().join("rustc").to_string_lossy(), &["--version"]);
        rustc.env("LD_LIBRARY_PATH", self.libraries());
        Ok(capture(rustc).map_err(Failure::NotPossibleHere)?.trim().to_owned())
    }
}

/// The folder in which the packages are unpacked.
fn folder() -> PathBuf {
    target_dir().join("footprint").join("toolchain")
}

/// Whether every package is unpacked.
fn is_complete(root: &Path) -> bool {
    let unpacked = fs::read_to_string(root.join(COMPLETE)).unwrap_or_default();
    let is_there =
        |package: &str| unpacked.lines().any(|file| file.split('_').next() == Some(package));
    PACKAGES.into_iter().all(is_there)
}

/// Downloads the packages and unpacks them.
fn unpack(root: &Path) -> Result<(), String> {
    let mut unpacked = download(root, &packages()?)?;
    unpacked.sort_unstable();
    let listed = fs::write(root.join(COMPLETE), unpacked.join("\n") + "\n");
    listed.map_err(|error| error.to_string())
}

/// Downloads packages, unpacks them, and returns the names of their files.
fn download(root: &Path, packages: &[String]) -> Result<Vec<String>, String> {
    let shown = |error: std::io::Error| error.to_string();
    let downloads = root.join("downloads");
    fs::create_dir_all(&downloads).map_err(shown)?;
    eprintln!("downloading {}", packages.join(" "));
    let mut download = command("apt-get", &["download", "-qq", "-o", "APT::Sandbox::User=root"]);
    run(download.args(packages).current_dir(&downloads))?;
    let mut unpacked = Vec::new();
    for file in fs::read_dir(&downloads).map_err(shown)? {
        let file = file.map_err(shown)?;
        run(command("dpkg-deb", &["-x"]).arg(file.path()).arg(root))?;
        unpacked.push(file.file_name().to_string_lossy().into_owned());
    }
    fs::remove_dir_all(&downloads).map_err(shown)?;
    Ok(unpacked)
}

/// The names of all packages, with the libraries of the Rust compiler.
fn packages() -> Result<Vec<String>, String> {
    let needed = [
        "depends",
        "--recurse",
        "--no-recommends",
        "--no-suggests",
        "--no-conflicts",
        "--no-breaks",
        "--no-replaces",
        "--no-enhances",
        PACKAGES[0],
    ];
    let known = capture(command("apt-cache", &needed))?;
    let mut packages: Vec<_> = known
        .lines()
        .filter(|line| LIBRARIES.iter().any(|library| line.starts_with(library)))
        .map(str::to_owned)
        .collect();
    packages.sort_unstable();
    packages.dedup();
    packages.splice(0..0, PACKAGES.map(str::to_owned));
    Ok(packages)
}
