//! `cargo xtask api` and `cargo xtask lint api`: the public items of each crate that others build
//! upon, as a list in the repository.
//!
//! rustdoc writes the items as JSON, and the crate `public-api` makes a list of them. rustdoc has
//! JSON behind a switch for unstable features, so it is started by a script that allows them. The
//! compiler is not, and what it has built stays valid.

use crate::Failure;
use crate::crates::{self, PUBLIC, Package, PublicCrate};
use crate::process::{cargo, features_dir, run_silently, target_dir};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only these crates
    #[arg(value_name = "NAME")]
    only: Vec<String>,
}

/// The name of a crate's list, in the folder of the crate.
const LIST: &str = "public-api.txt";

/// Writes the lists.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let named = |name: &String| crates::public(name).is_some();
    if let Some(unknown) = arguments.only.iter().find(|name| !named(name)) {
        return Err(Failure::Failed(format!("{unknown} is no crate that others build upon")));
    }
    let wanted = |public: &&PublicCrate| {
        arguments.only.is_empty() || arguments.only.iter().any(|name| name == public.name)
    };
    let packages = crates::packages().map_err(Failure::Failed)?;
    for public in PUBLIC.iter().filter(wanted) {
        let items = items(public).map_err(Failure::Failed)?;
        let path = list(&packages, public).map_err(Failure::Failed)?;
        fs::write(&path, &items)
            .map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))?;
        println!("{}: {} items", path.display(), items.lines().count());
    }
    Ok(())
}

/// Compares the lists with the sources. A crate without a list is named and passes.
pub(crate) fn check() -> Result<(), String> {
    let packages = crates::packages()?;
    let mut faults = Vec::new();
    // A crate that is built in the usual target folder may have to wait for other checks, so it comes
    // last.
    let (shared, own): (Vec<_>, Vec<_>) = PUBLIC.iter().partition(|public| public.builds_c);
    for public in own.into_iter().chain(shared) {
        let Ok(listed) = fs::read_to_string(list(&packages, public)?) else {
            println!("lint api: {} has no {LIST}; `cargo xtask api` writes it", public.name);
            continue;
        };
        faults.extend(differences(public.name, &listed, &items(public)?));
    }
    if faults.is_empty() {
        return Ok(());
    }
    faults.push("`cargo xtask api` writes the lists; a removed line needs a new version".into());
    Err(faults.join("\n"))
}

fn list(packages: &[Package], public: &PublicCrate) -> Result<PathBuf, String> {
    let package = packages.iter().find(|package| package.name == public.name);
    let package = package.ok_or_else(|| format!("there is no package {}", public.name))?;
    Ok(package.folder.join(LIST))
}

/// Parts of the lines of functions that follow from the line of a derived trait.
const DERIVED: [&str; 6] = [
    "::clone(&self)",
    "::cmp(&self, ",
    "::eq(&self, ",
    "::fmt(&self, ",
    "::hash<",
    "::partial_cmp(&self, ",
];

/// The public items of a crate with the features that are part of its API, one a line. Items that
/// follow from others are left out: the functions of derived traits, the traits that every type
/// has, and whether a type is `Send` and the like.
fn items(public: &PublicCrate) -> Result<String, String> {
    let rustdoc = rustdoc()?;
    let mut cargo = cargo(&["rustdoc", "--quiet", "--lib", "--no-default-features", "--package"]);
    cargo.arg(public.name).env("RUSTDOC", rustdoc);
    if !public.features.is_empty() {
        cargo.args(["--features", &public.features.join(",")]);
    }
    // The C library is built once, for this check and everything else.
    let folder = if public.builds_c { target_dir() } else { features_dir() };
    cargo.arg("--target-dir").arg(&folder);
    cargo.args(["--", "-Zunstable-options", "--output-format", "json"]);
    run_silently(cargo)?;
    let json = format!("{}.json", public.name.replace('-', "_"));
    let items = public_api::Builder::from_rustdoc_json(folder.join("doc").join(json))
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .build()
        .map_err(|error| format!("{}: {error}", public.name))?;
    let lines = items.items().map(|item| format!("{item}\n"));
    Ok(lines.filter(|line| !DERIVED.iter().any(|part| line.contains(part))).collect())
}

/// A script that starts rustdoc with unstable features.
fn rustdoc() -> Result<PathBuf, String> {
    let folder = target_dir().join("api");
    let path = folder.join("rustdoc");
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let text = "#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec rustdoc \"$@\"\n";
    // A script that is written again has a new date, and cargo would run rustdoc again.
    if fs::read_to_string(&path).is_ok_and(|old| old == text) {
        return Ok(path);
    }
    fs::create_dir_all(&folder).map_err(failed)?;
    fs::write(&path, text).map_err(failed)?;
    executable(&path).map_err(failed)?;
    Ok(path)
}

#[cfg(unix)]
fn executable(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

#[cfg(not(unix))]
fn executable(_: &Path) -> std::io::Result<()> {
    Err(std::io::Error::other("the lists of public items need a system with /bin/sh"))
}

/// The lines that one text has and the other one has not.
fn differences(name: &str, listed: &str, found: &str) -> Vec<String> {
    let (old, new): (BTreeSet<_>, BTreeSet<_>) =
        (listed.lines().collect(), found.lines().collect());
    let removed = old.difference(&new).map(|item| format!("{name}: removed: {item}"));
    let added = new.difference(&old).map(|item| format!("{name}: added: {item}"));
    removed.chain(added).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_the_api_is_shown_item_by_item() {
        let (old, new) = ("pub fn x::a()\npub fn x::b()\n", "pub fn x::b()\npub fn x::c()\n");
        assert!(differences("x", old, old).is_empty());
        let expected = ["x: removed: pub fn x::a()", "x: added: pub fn x::c()"];
        assert_eq!(differences("x", old, new), expected);
    }

    #[test]
    fn the_items_of_the_smallest_crate_are_found() {
        let core = crates::public("lightseal-core").expect("it is in the list");
        let items = items(core).expect("rustdoc writes what public-api reads");
        let has = |text: &str| items.lines().any(|line| line.contains(text));
        assert!(has("pub struct lightseal_core::replay::ReplayWindow"), "{items}");
        assert!(has("pub trait lightseal_core::engine::Engine"), "{items}");
        assert!(has("impl core::clone::Clone for lightseal_core::time::Instant"), "{items}");
        assert!(!has("impl<T> core::any::Any") && !has("::clone(&self)"), "{items}");
    }
}
