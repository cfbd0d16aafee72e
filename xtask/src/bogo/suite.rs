//! Builds the suite: BoringSSL's runner, and our shim.

use crate::process::{cargo, command, run, target_dir, workspace};
use crate::registry::crate_sources;
use crate::{Failure, system};
use std::fs;
use std::path::{Path, PathBuf};

/// The package that carries BoringSSL's sources with the runner, and its version. It is fetched
/// through cargo; nothing of it is part of this repository.
const PACKAGE: (&str, &str) = ("boring-sys", "5.0.2");

/// The folders of BoringSSL that the runner consists of.
const FOLDERS: [&str; 2] = ["ssl/test/runner", "util/testresult"];

/// Private keys that the package lacks, with the arguments by which `openssl genpkey` makes others
/// of the same kind.
const KEYS: [(&str, &str); 7] = [
    ("rsa_1024_key", "-algorithm RSA -pkeyopt rsa_keygen_bits:1024"),
    ("rsa_2048_key", "-algorithm RSA -pkeyopt rsa_keygen_bits:2048"),
    ("ecdsa_p256_key", "-algorithm EC -pkeyopt ec_paramgen_curve:P-256"),
    ("ecdsa_p384_key", "-algorithm EC -pkeyopt ec_paramgen_curve:P-384"),
    ("ecdsa_p521_key", "-algorithm EC -pkeyopt ec_paramgen_curve:P-521"),
    ("ed25519_key", "-algorithm ed25519"),
    ("channel_id_key", "-algorithm EC -pkeyopt ec_paramgen_curve:P-256"),
];

/// The programs of the suite.
pub(super) struct Suite {
    pub(super) runner: PathBuf,
    pub(super) shim: PathBuf,
}

impl Suite {
    /// Builds both programs.
    ///
    /// # Errors
    /// Something is missing on this machine; the text says what.
    pub(super) fn build() -> Result<Self, Failure> {
        let runner = runner(true).map_err(Failure::NotPossibleHere)?;
        // The profile of tests is optimised: some cases change keys 65,000 times.
        let build = ["build", "--quiet", "--profile", "test", "--package", "interop-bogo"];
        run(cargo(&build)).map_err(Failure::NotPossibleHere)?;
        Ok(Self { runner, shim: target_dir().join("debug").join("bogo-shim") })
    }
}

/// Builds the runner unless it is there.
///
/// # Errors
/// Go, `openssl` or the package is missing; the text says what.
pub(crate) fn runner(may_install: bool) -> Result<PathBuf, String> {
    let folder = target_dir().join("bogo").join(PACKAGE.1);
    let runner = folder.join("runner");
    if runner.is_file() {
        return Ok(runner);
    }
    system::provide_go(may_install)?;
    eprintln!("building BoGo's runner in {} (about a minute)", folder.display());
    let sources = folder.join("boringssl");
    let (name, version) = PACKAGE;
    let package = crate_sources(name, version, &folder.join("fetch"))?;
    copy_sources(&package.join("deps").join("boringssl"), &sources)
        .map_err(|error| error.to_string())?;
    make_keys(&sources.join(FOLDERS[0]))?;
    // The runner appears only when it is complete.
    let unfinished = folder.join("runner-unfinished");
    let mut go = command("go", &["test", "-c", "-o"]);
    go.arg(&unfinished).arg("./ssl/test/runner").current_dir(&sources);
    run(go.env("GOTOOLCHAIN", "local").env("GOFLAGS", "-mod=mod"))?;
    fs::rename(&unfinished, &runner).map_err(|error| error.to_string())?;
    Ok(runner)
}

/// Copies what the runner consists of.
fn copy_sources(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for file in ["go.mod", "go.sum"] {
        fs::copy(from.join(file), to.join(file))?;
    }
    for folder in FOLDERS {
        copy_folder(&from.join(folder), &to.join(folder))?;
    }
    Ok(())
}

fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Makes the private keys that the package lacks.
fn make_keys(folder: &Path) -> Result<(), String> {
    for (name, how) in KEYS {
        let path = folder.join(name).with_extension("pem");
        let how: Vec<&str> = how.split(' ').collect();
        let mut openssl = command("openssl", &["genpkey", "-quiet"]);
        run(openssl.args(how).arg("-out").arg(path))?;
    }
    Ok(())
}

/// The file with the refused cases.
pub(crate) fn config() -> PathBuf {
    workspace().join("interop").join("bogo").join("config.json")
}
