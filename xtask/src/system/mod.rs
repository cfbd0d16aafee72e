//! Programs and libraries of the system, which cargo cannot fetch.
//!
//! - [`packages`]: the packages that are used, with their names for each package manager;
//! - [`go`]: a Go toolchain for the peer in Go.

mod go;
mod packages;

use crate::Failure;
use crate::process::{capture, cargo, command, prefer, run, succeeds};
use packages::{
    BROWSERS, BUILD, DATABASE, DEBOOTSTRAP, EMULATOR, GUEST, JAVA, Manager, NAMESPACES, NSS, PEERS,
    PIP, Package, STANDBY, TUNNELS,
};
use std::path::Path;
use std::process::Stdio;

/// The Rust target whose programs are run in an emulator. They can be linked without a C compiler
/// for that processor.
pub(crate) const EMULATED_TARGET: &str = "aarch64-unknown-linux-musl";

/// The version of the licence checker, pinned so that all machines give the same result.
const CARGO_DENY: &str = "0.20.2";

/// The version of the program that makes the book of the documents, pinned for the same reason.
const MDBOOK: &str = "0.5.4";

/// System packages that the tests of some packages of the workspace use.
#[derive(Debug)]
pub(crate) struct PackageNeeds {
    packages: &'static [Package],
    used_by: &'static [&'static str],
    /// Whether the package `interop` cannot be built without them.
    builds: bool,
    /// Whether only Linux uses them.
    linux_only: bool,
}

const NEEDS: &[PackageNeeds] = &[
    PackageNeeds { packages: BUILD, used_by: &["interop"], builds: true, linux_only: false },
    PackageNeeds {
        packages: PEERS,
        used_by: &["interop", "lightseal-lab", "lightseal"],
        builds: false,
        linux_only: false,
    },
    PackageNeeds { packages: JAVA, used_by: &["interop"], builds: false, linux_only: false },
    PackageNeeds { packages: NSS, used_by: &["interop"], builds: false, linux_only: false },
    PackageNeeds { packages: BROWSERS, used_by: &["interop"], builds: false, linux_only: true },
    PackageNeeds {
        packages: EMULATOR,
        used_by: &["lightseal-present", "lightmac"],
        builds: false,
        linux_only: false,
    },
    PackageNeeds {
        packages: NAMESPACES,
        used_by: &["lightseal-packet-io", "lightseal-gateway-host", "lightseal", "interop-gateway"],
        builds: false,
        linux_only: true,
    },
    PackageNeeds { packages: DATABASE, used_by: &["lightseal"], builds: false, linux_only: true },
    PackageNeeds {
        packages: GUEST,
        used_by: &["interop-gateway"],
        builds: false,
        linux_only: true,
    },
    PackageNeeds {
        packages: STANDBY,
        used_by: &["interop-gateway"],
        builds: false,
        linux_only: true,
    },
];

/// The needs of the workspace's packages for which `wants` returns true.
pub(crate) fn needs(wants: impl Fn(&str) -> bool) -> Vec<&'static PackageNeeds> {
    let fits = |need: &&PackageNeeds| !need.linux_only || cfg!(target_os = "linux");
    let wanted = |need: &&PackageNeeds| need.used_by.iter().any(|package| wants(package));
    NEEDS.iter().filter(fits).filter(wanted).collect()
}

/// Every system package that the tests use, under its name in Debian.
pub(crate) fn debian_packages() -> Vec<&'static str> {
    let all = NEEDS.iter().flat_map(|need| need.packages).chain(go::PACKAGES);
    let mut names: Vec<_> = all.map(|package| package.debian).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The state of the system after everything that could be installed has been.
#[derive(Debug, Default)]
pub(crate) struct ProvidedSystem {
    /// The names of the packages that were installed.
    pub(crate) installed: Vec<String>,
    /// Why other implementations of DTLS cannot be built, if they cannot.
    pub(crate) no_build: Option<String>,
    /// Lines to print once: what is missing and what is skipped for it.
    pub(crate) remarks: Vec<String>,
}

/// Installs missing packages if that is possible and `may_install` is set, and reports which ones
/// are still missing.
pub(crate) fn provide(needs: &[&PackageNeeds], may_install: bool) -> ProvidedSystem {
    let mut provided = ProvidedSystem::default();
    let mut packages: Vec<Package> = Vec::new();
    for package in needs.iter().flat_map(|need| need.packages) {
        if !packages.iter().any(|known| known.debian == package.debian) {
            packages.push(*package);
        }
    }
    if may_install && can_install() && !missing(&packages).is_empty() {
        // All packages are installed at once, or one by one if the system does not have some of
        // them.
        let installed = install(&packages).unwrap_or_else(|_| {
            packages.iter().filter_map(|package| install(&[*package]).ok()).flatten().collect()
        });
        provided.installed.extend(installed.into_iter().map(str::to_owned));
    }
    if !missing(&packages).is_empty() {
        let said = format!("{}. What uses them is skipped.", tell(&packages));
        provided.remarks.push(said);
    }
    if needs.iter().any(|need| need.builds) {
        provided.no_build = (!missing(BUILD).is_empty()).then(|| tell(BUILD));
        match go::provide(may_install, &mut provided.installed) {
            Ok(folder) => folder.into_iter().for_each(prefer),
            Err(reason) => provided.remarks.push(format!("pion is skipped: {reason}.")),
        }
    }
    provided
}

/// Whether `program` is in the search path or in root's folders.
pub(crate) fn on_path(program: &str) -> bool {
    // A user's search path does not contain the folders with root's programs.
    let roots = ["/usr/sbin", "/sbin"].map(|folder| Path::new(folder).join(program));
    roots.iter().any(|path| path.is_file())
        || std::env::var_os("PATH").is_some_and(|paths| {
            std::env::split_paths(&paths).any(|folder| folder.join(program).is_file())
        })
}

/// Makes sure that other implementations of DTLS can be built and run. For root on a Debian system
/// it installs the packages; otherwise the error names them.
pub(crate) fn require_packages() -> Result<(), Failure> {
    let all = [BUILD, PEERS].concat();
    install(&all).map(drop).map_err(Failure::NotPossibleHere)
}

/// Makes sure that a program with NSS can be built.
pub(crate) fn require_nss() -> Result<(), String> {
    install(NSS).map(drop)
}

/// Makes sure that browsers can be run.
pub(crate) fn require_browsers() -> Result<(), String> {
    install(BROWSERS).map(drop)
}

/// Makes sure that a program in Java can be built and run.
pub(crate) fn require_java() -> Result<(), String> {
    install(JAVA).map(drop)
}

/// Makes sure that a program in Go can be built.
pub(crate) fn require_go() -> Result<(), String> {
    provide_go(true)
}

/// Makes sure that a program in Go can be built, and fetches Go only if that is allowed.
pub(crate) fn provide_go(may_install: bool) -> Result<(), String> {
    let folder = go::provide(may_install, &mut Vec::new())?;
    folder.into_iter().for_each(prefer);
    Ok(())
}

/// Makes sure that packages of PyPI can be fetched.
pub(crate) fn require_pip() -> Result<(), String> {
    provide_pip().map(drop)
}

/// Makes sure that packages of PyPI can be fetched, and returns the names of the system packages
/// that were installed for that.
fn provide_pip() -> Result<Vec<String>, String> {
    let is_there = || succeeds(command("python3", &["-m", "pip", "--version"]));
    if is_there() {
        return Ok(Vec::new());
    }
    let installed = install(PIP)?.into_iter().map(str::to_owned).collect();
    if is_there() { Ok(installed) } else { Err("python3 has no pip".into()) }
}

/// Makes sure that programs for [`EMULATED_TARGET`] can be built and run.
pub(crate) fn require_emulation() -> Result<(), String> {
    install(EMULATOR)?;
    let root = capture(command("rustc", &["--print", "sysroot"])).unwrap_or_default();
    if Path::new(root.trim()).join("lib/rustlib").join(EMULATED_TARGET).is_dir() {
        return Ok(());
    }
    println!("installing the Rust target {EMULATED_TARGET}");
    run(command("rustup", &["target", "add", EMULATED_TARGET]))
        .map_err(|error| format!("needs the Rust target {EMULATED_TARGET} ({error})"))
}

/// Makes sure that the guest with real MACsec can be booted.
pub(crate) fn require_guest() -> Result<(), String> {
    install(GUEST).map(drop)
}

/// Makes sure that other tunnels can be measured.
pub(crate) fn require_tunnels() -> Result<(), String> {
    install(TUNNELS).map(drop)
}

/// Makes sure that a minimal Debian can be made.
pub(crate) fn require_debootstrap() -> Result<(), String> {
    if !is_root() {
        return Err("needs root, for namespaces and mounts".into());
    }
    install(DEBOOTSTRAP).map(drop)
}

/// Whether this program can install packages: it runs as root on a Debian system.
fn can_install() -> bool {
    Manager::here() == Some(Manager::Apt) && is_root()
}

/// Installs those of `packages` that are missing and returns their names. The error names the
/// missing packages.
fn install(packages: &[Package]) -> Result<Vec<&'static str>, String> {
    let missing = missing(packages);
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    if !can_install() {
        return Err(tell(packages));
    }
    let names: Vec<_> = missing.iter().map(|package| package.debian).collect();
    eprintln!("installing system packages: {}", names.join(" "));
    // A package list that cannot be fetched does not matter if the other lists have the packages.
    let _ = apt(&["update"]);
    let mut words = vec!["install", "--yes", "--no-install-recommends"];
    words.extend(&names);
    apt(&words).map_err(|error| format!("{} ({error})", tell(packages)))?;
    if self::missing(packages).is_empty() { Ok(names) } else { Err(tell(packages)) }
}

fn apt(words: &[&str]) -> Result<(), String> {
    let mut apt = command("apt-get", words);
    run(apt.env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null()).stdout(Stdio::null()))
}

/// The missing ones of `packages`, under the names of this system's package manager.
fn tell(packages: &[Package]) -> String {
    told(&missing(packages), Manager::here())
}

fn told(missing: &[&Package], manager: Option<Manager>) -> String {
    let name = |package: &&Package| manager.map_or(Some(package.debian), |m| package.name(m));
    let names: Vec<_> = missing.iter().filter_map(name).collect();
    let others = missing.iter().filter(|package| name(package).is_none());
    let others: Vec<_> = others.map(|package| package.debian).collect();
    let mut parts = Vec::new();
    if !names.is_empty() {
        let install =
            manager.map_or("system packages (here under Debian's names):", Manager::install);
        parts.push(format!("needs {install} {}", names.join(" ")));
    }
    if !others.is_empty() {
        parts.push(format!("without a package here: {}", others.join(" ")));
    }
    parts.join("; ")
}

fn missing(packages: &[Package]) -> Vec<&Package> {
    packages.iter().filter(|package| !package.is_there()).collect()
}

fn is_root() -> bool {
    capture(command("id", &["-u"])).is_ok_and(|id| id.trim() == "0")
}

/// Makes sure that `cargo deny` can be run.
pub(crate) fn require_cargo_deny() -> Result<(), String> {
    if succeeds(cargo(&["deny", "--version"])) {
        return Ok(());
    }
    println!("installing cargo-deny {CARGO_DENY} (a few minutes)");
    run(cargo(&["install", "cargo-deny", "--locked", "--version", CARGO_DENY]))
}

/// Makes sure that `mdbook` can be run.
pub(crate) fn require_mdbook() -> Result<(), String> {
    if succeeds(command("mdbook", &["--version"])) {
        return Ok(());
    }
    println!("installing mdbook {MDBOOK} (a few minutes)");
    let features = ["--no-default-features", "--features", "search"];
    let install = ["install", "mdbook", "--locked", "--version", MDBOOK];
    run(cargo(&[&install[..], &features].concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_as_the_system_names_it() {
        let missing: Vec<_> =
            BUILD.iter().filter(|p| ["g++", "libssl-dev"].contains(&p.debian)).collect();
        let said = |manager| told(&missing, manager);
        assert_eq!(said(Some(Manager::Apt)), "needs apt-get install libssl-dev g++");
        assert_eq!(said(Some(Manager::Dnf)), "needs dnf install openssl-devel gcc-c++");
        assert_eq!(said(Some(Manager::Apk)), "needs apk add openssl-dev g++");
        assert_eq!(said(Some(Manager::Pacman)), "needs pacman -S openssl gcc");
        assert_eq!(said(Some(Manager::Brew)), "needs brew install openssl@3 gcc");
        let there = "needs pkg install gcc; without a package here: libssl-dev";
        assert_eq!(said(Some(Manager::Pkg)), there);
        assert!(said(None).contains("under Debian's names): libssl-dev g++"));
    }

    #[test]
    fn what_no_wanted_package_uses_is_not_needed() {
        let of = |name: &str| needs(|package| package == name);
        assert!(of("lightseal-core").is_empty());
        assert_eq!(of("lightmac").len(), 1);
        assert!(of("interop").iter().any(|need| need.builds));
        let all = needs(|_| true);
        assert_eq!(all.len(), if cfg!(target_os = "linux") { NEEDS.len() } else { 4 });
    }
}
