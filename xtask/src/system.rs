//! Programs and libraries that cargo cannot fetch.

use crate::Failure;
use crate::process::{capture, cargo, command, run, succeeds};

/// Debian packages that `interop` needs, and what tells that each is there.
const PACKAGES: &[(&str, Probe)] = &[
    ("autoconf", Probe::Program("autoreconf")),
    ("automake", Probe::Program("automake")),
    ("cmake", Probe::Program("cmake")),
    ("libtool", Probe::Program("libtoolize")),
    ("libclang-dev", Probe::Package),
    ("libssl-dev", Probe::Package),
    ("pkg-config", Probe::Program("pkg-config")),
    ("openssl", Probe::Program("openssl")),
    ("gnutls-bin", Probe::Program("gnutls-cli")),
    ("libcoap3-bin", Probe::Program("coap-client-notls")),
    ("tshark", Probe::Program("tshark")),
];

/// What builds and runs the peer in Java. The one in Go takes a newer Go than Debian's.
const JAVA: &[(&str, Probe)] =
    &[("default-jdk-headless", Probe::Program("javac")), ("maven", Probe::Program("mvn"))];

/// What programs for another processor run on.
const EMULATOR: &[(&str, Probe)] = &[("qemu-user", Probe::Program("qemu-aarch64"))];

/// What the guest with real MACsec runs in; what is inside is downloaded and not installed.
const GUEST: &[(&str, Probe)] = &[
    ("qemu-system-x86", Probe::Program("qemu-system-x86_64")),
    ("iproute2", Probe::Program("ip")),
    ("ethtool", Probe::Program("ethtool")),
];

/// What lets one of two gateways carry.
const STANDBY: &[(&str, Probe)] = &[
    ("iproute2", Probe::Program("ip")),
    ("ethtool", Probe::Program("ethtool")),
    ("keepalived", Probe::Program("keepalived")),
];

/// What the gateway is measured beside, and with.
const TUNNELS: &[(&str, Probe)] = &[
    ("iproute2", Probe::Program("ip")),
    ("ethtool", Probe::Program("ethtool")),
    ("iperf3", Probe::Program("iperf3")),
    ("wireguard-go", Probe::Program("wireguard-go")),
    ("wireguard-tools", Probe::Program("wg")),
];

/// Another processor's Linux. Its programs are linked without a C compiler for it.
pub(crate) const EMULATED_TARGET: &str = "aarch64-unknown-linux-musl";

/// The licence checker, pinned so that two machines judge alike.
const CARGO_DENY: &str = "0.20.2";

enum Probe {
    Program(&'static str),
    Package,
}

impl Probe {
    fn is_there(&self, package: &str) -> bool {
        match self {
            Self::Program(program) => on_path(program),
            Self::Package => {
                // Where dpkg does not exist the build itself is the probe.
                !on_path("dpkg") || succeeds(command("dpkg", &["--status", package]))
            }
        }
    }
}

/// Whether `program` can be found in the search path.
fn on_path(program: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|paths| {
        std::env::split_paths(&paths).any(|folder| folder.join(program).is_file())
    })
}

/// Makes sure that the system packages are installed.
///
/// Root on a Debian system gets them installed; anybody else is told.
pub(crate) fn require_packages() -> Result<(), Failure> {
    install(PACKAGES).map_err(Failure::NotPossibleHere)
}

/// Makes sure that a program in Java can be built and run.
pub(crate) fn require_java() -> Result<(), String> {
    install(JAVA)
}

/// Makes sure that programs for [`EMULATED_TARGET`] can be built and run.
pub(crate) fn require_emulation() -> Result<(), String> {
    install(EMULATOR)?;
    let installed = ["target", "list", "--installed"];
    let has = capture(command("rustup", &installed))
        .is_ok_and(|targets| targets.lines().any(|target| target == EMULATED_TARGET));
    if has {
        return Ok(());
    }
    println!("installing the Rust target {EMULATED_TARGET}");
    run(command("rustup", &["target", "add", EMULATED_TARGET]))
        .map_err(|error| format!("needs the Rust target {EMULATED_TARGET} ({error})"))
}

/// Makes sure that the guest with real MACsec can be booted.
pub(crate) fn require_guest() -> Result<(), String> {
    install(GUEST)
}

/// Makes sure that an active and a standby gateway can be tried.
pub(crate) fn require_standby() -> Result<(), String> {
    install(STANDBY)
}

/// Makes sure that other tunnels can be measured.
pub(crate) fn require_tunnels() -> Result<(), String> {
    install(TUNNELS)
}

/// Installs what is missing of `packages`, or says what is.
fn install(packages: &[(&'static str, Probe)]) -> Result<(), String> {
    let missing = missing(packages);
    if missing.is_empty() {
        return Ok(());
    }
    let tell = || format!("needs system packages: apt-get install {}", missing.join(" "));
    if !(on_path("apt-get") && is_root()) {
        return Err(tell());
    }
    eprintln!("installing system packages: {}", missing.join(" "));
    let mut install = vec!["install", "--yes", "--no-install-recommends"];
    install.extend(&missing);
    for arguments in [&["update"][..], &install] {
        let mut apt = command("apt-get", arguments);
        apt.env("DEBIAN_FRONTEND", "noninteractive").stdout(std::process::Stdio::null());
        run(apt).map_err(|_| tell())?;
    }
    if self::missing(packages).is_empty() { Ok(()) } else { Err(tell()) }
}

fn missing(packages: &[(&'static str, Probe)]) -> Vec<&'static str> {
    let absent = packages.iter().filter(|(package, probe)| !probe.is_there(package));
    absent.map(|(package, _)| *package).collect()
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
