//! What the fresh machine gets from this one: the addresses of package registries, mirrors and
//! proxies, read from this machine's own settings, and the Rust toolchain.

use crate::process::{capture, command};
use std::fs;
use std::path::{Path, PathBuf};

/// The Rust toolchain: where it is on this machine, and how the fresh machine sees it.
#[derive(Debug)]
pub(super) struct Toolchain {
    /// The folder that is mounted in the fresh machine: rustup's home, or the toolchain alone.
    pub(super) from: PathBuf,
    /// The toolchain's name in rustup, if rustup is used; rustup may then add targets.
    pub(super) name: Option<String>,
    /// The path of the program rustup.
    pub(super) rustup: Option<PathBuf>,
}

/// The folder in the fresh machine where the toolchain is mounted.
pub(super) const RUST: &str = "/opt/rust";
/// The folder in the fresh machine with the program rustup.
pub(super) const RUSTUP: &str = "/opt/rustup";

impl Toolchain {
    /// The toolchain that runs this program.
    ///
    /// # Errors
    /// The toolchain is part of the system and has no folder of its own that could be mounted.
    pub(super) fn here() -> Result<Self, String> {
        let root = capture(command("rustc", &["--print", "sysroot"]))?;
        let root = PathBuf::from(root.trim());
        if !root.join("bin/cargo").exists() || root.starts_with("/usr") {
            let root = root.display();
            return Err(format!(
                "needs a Rust toolchain of its own, as rustup installs: not {root}"
            ));
        }
        let toolchains = root.parent().filter(|parent| parent.ends_with("toolchains"));
        let home = toolchains.and_then(Path::parent).map(Path::to_path_buf);
        let name = root.file_name().map(|name| name.to_string_lossy().into_owned());
        let rustup = on_path("rustup");
        Ok(match (home, rustup) {
            (Some(home), Some(rustup)) => Self { from: home, name, rustup: Some(rustup) },
            _ => Self { from: root, name: None, rustup: None },
        })
    }

    /// The folder with cargo, as a path in the fresh machine.
    pub(super) fn programs(&self) -> String {
        match &self.name {
            Some(name) => format!("{RUST}/toolchains/{name}/bin"),
            None => format!("{RUST}/bin"),
        }
    }
}

fn on_path(program: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH")?;
    std::env::split_paths(&paths).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// A release of Debian, and the mirror with its packages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) suite: String,
    pub(super) mirror: String,
}

impl Source {
    /// This machine's release and mirror if it is a Debian, otherwise Debian 12 from Debian's own
    /// mirror.
    pub(super) fn here() -> Self {
        let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
        let found = codename(&release).and_then(|suite| {
            let lists = source_files().into_iter().filter_map(|path| fs::read_to_string(path).ok());
            let mirror = lists.into_iter().find_map(|text| mirror(&text, &suite));
            mirror.map(|mirror| Self { suite, mirror })
        });
        found.unwrap_or_else(|| Self {
            suite: "bookworm".into(),
            mirror: "http://deb.debian.org/debian".into(),
        })
    }
}

/// The release's code name, such as `bookworm`, if `release` (`/etc/os-release`) is Debian's.
fn codename(release: &str) -> Option<String> {
    let value = |name: &str| {
        let line = release.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.map(|value| value.trim_matches('"').to_owned())
    };
    value("VERSION_CODENAME").filter(|_| value("ID").as_deref() == Some("debian"))
}

fn source_files() -> Vec<PathBuf> {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    let more = fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten();
    files.extend(more.map(|entry| entry.path()));
    files.sort();
    files
}

/// The address and the suites of each source in an apt list of either format, deb822 or one-line.
fn sources(text: &str) -> Vec<(String, Vec<String>)> {
    let text: String =
        text.lines().filter(|l| !l.starts_with('#')).map(|l| format!("{l}\n")).collect();
    let mut found = Vec::new();
    for stanza in text.split("\n\n") {
        let field = |name: &str| {
            let line = stanza.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.map(|value| value.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        };
        if let (Some(addresses), Some(suites)) = (field("URIs"), field("Suites")) {
            found.extend(addresses.into_iter().map(|address| (address, suites.clone())));
        }
    }
    for line in text.lines() {
        let Some(rest) = line.trim().strip_prefix("deb ") else { continue };
        let rest = match rest.trim_start().strip_prefix('[') {
            Some(options) => options.split_once(']').map_or("", |(_, rest)| rest),
            None => rest,
        };
        let mut words = rest.split_whitespace().map(str::to_owned);
        found.extend(words.next().zip(words.next()).map(|(address, suite)| (address, vec![suite])));
    }
    found
}

/// The address from which this list fetches the release's packages.
fn mirror(text: &str, suite: &str) -> Option<String> {
    let is_main = |(_, suites): &(String, Vec<String>)| suites.iter().any(|name| name == suite);
    sources(text).into_iter().find(is_main).map(|(address, _)| address)
}

/// Whether every source of a list is the release itself or one of its update suites.
fn is_of(text: &str, suite: &str) -> bool {
    let of_release = |name: &String| name.split(['-', '/']).next() == Some(suite);
    let sources = sources(text);
    !sources.is_empty() && sources.iter().all(|(_, suites)| suites.iter().all(of_release))
}

/// Files and folders of the system with name servers, mirrors, proxies and their certificates.
const SYSTEM: &[&str] = &[
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/apt/apt.conf",
    "/etc/apt/apt.conf.d",
    "/etc/apt/preferences",
    "/etc/apt/preferences.d",
    "/etc/apt/keyrings",
    "/etc/apt/trusted.gpg.d",
    "/usr/share/keyrings",
    "/usr/local/share/ca-certificates",
    "/etc/pip.conf",
    "/etc/gitconfig",
];

/// Files below a user's home folder with registries and proxies. Files that may have passwords are
/// not listed.
const HOME: &[&str] = &[
    ".cargo/config.toml",
    ".cargo/config",
    ".config/pip/pip.conf",
    ".pip/pip.conf",
    ".config/go/env",
    ".m2/settings.xml",
];

/// Copies the settings by which packages are reached into the machine whose root folder is `root`,
/// for a user whose home folder is `home` in that machine.
///
/// # Errors
/// A file cannot be copied.
pub(super) fn settings(root: &Path, home: &str, source: &Source) -> Result<(), String> {
    for path in SYSTEM {
        copy(Path::new(path), &below(root, path))?;
    }
    let own: Vec<_> = source_files()
        .into_iter()
        .filter(|path| fs::read_to_string(path).is_ok_and(|text| is_of(&text, &source.suite)))
        .collect();
    if !own.is_empty() {
        let _ = fs::remove_file(root.join("etc/apt/sources.list"));
        for path in own {
            copy(&path, &below(root, &path.to_string_lossy()))?;
        }
    }
    if let Some(ours) = std::env::var_os("HOME") {
        for path in HOME {
            copy(&Path::new(&ours).join(path), &below(root, home).join(path))?;
        }
    }
    // Cargo's home may be outside of the user's home folder.
    if let Some(ours) = std::env::var_os("CARGO_HOME") {
        let theirs = below(root, home).join(".cargo/config.toml");
        copy(&Path::new(&ours).join("config.toml"), &theirs)?;
    }
    Ok(())
}

/// The path on this machine of an absolute path in the fresh machine.
pub(super) fn below(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

/// Copies a file or a folder, following links. Does nothing if it does not exist.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    if !from.exists() {
        return Ok(());
    }
    let failed = |error: std::io::Error| format!("{}: {error}", to.display());
    if from.is_file() {
        fs::create_dir_all(to.parent().unwrap_or(to)).map_err(failed)?;
        // The target may be a dangling link, which a copy would follow.
        let _ = fs::remove_file(to);
        return fs::copy(from, to).map(drop).map_err(failed);
    }
    fs::create_dir_all(to).map_err(failed)?;
    for entry in fs::read_dir(from).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

/// Prefixes of the names of environment variables with registries, proxies and certificates.
const VARIABLES: &[&str] = &[
    "CARGO_HTTP_",
    "CARGO_NET_",
    "CARGO_REGISTRIES_",
    "CARGO_SOURCE_",
    "PIP_",
    "GOPROXY",
    "GONOPROXY",
    "GOSUMDB",
    "GONOSUMDB",
    "GOFLAGS",
    "GOINSECURE",
    "MAVEN_",
    "RUSTUP_DIST_SERVER",
    "RUSTUP_UPDATE_ROOT",
    "SSL_CERT_",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "GIT_SSL_",
];

/// Our environment variables with registries, proxies and certificates. A variable whose value is a
/// path is left out if the machine below `root` does not have that path.
pub(super) fn variables(root: &Path) -> Vec<(String, String)> {
    let is_there = |value: &str| !value.starts_with('/') || below(root, value).exists();
    std::env::vars().filter(|(name, value)| reaches(name) && is_there(value)).collect()
}

fn reaches(name: &str) -> bool {
    // Variables that may have a token or a password are not passed on.
    let is_secret = ["TOKEN", "PASSWORD", "CREDENTIAL"].iter().any(|word| name.contains(word));
    let is_proxy = name.to_ascii_lowercase().ends_with("_proxy");
    !is_secret && (is_proxy || VARIABLES.iter().any(|begin| name.starts_with(begin)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STANZAS: &str = "Types: deb\n# a snapshot\nURIs: http://mirror.example/debian\n\
        Suites: bookworm bookworm-updates\nComponents: main\n\nTypes: deb\n\
        URIs: http://mirror.example/security\nSuites: bookworm-security\n";

    #[test]
    fn the_mirror_is_that_of_the_release() {
        assert_eq!(mirror(STANZAS, "bookworm").as_deref(), Some("http://mirror.example/debian"));
        assert_eq!(mirror(STANZAS, "trixie"), None);
        let line = "deb [arch=amd64 signed-by=/x] https://mirror.example/d trixie main\n";
        assert_eq!(mirror(line, "trixie").as_deref(), Some("https://mirror.example/d"));
        assert_eq!(mirror("# deb http://old.example trixie main", "trixie"), None);
    }

    #[test]
    fn lists_of_others_are_left_behind() {
        assert!(is_of(STANZAS, "bookworm"));
        assert!(!is_of("deb https://other.example nodistro main\n", "bookworm"));
        assert!(!is_of("deb https://other.example tools-bookworm main\n", "bookworm"));
        assert!(!is_of("", "bookworm"));
    }

    #[test]
    fn only_a_debian_names_the_release() {
        let debian = "NAME=\"Debian GNU/Linux\"\nVERSION_CODENAME=bookworm\nID=debian\n";
        assert_eq!(codename(debian).as_deref(), Some("bookworm"));
        assert_eq!(codename(&debian.replace("ID=debian", "ID=ubuntu")), None);
    }

    #[test]
    fn variables_with_secrets_stay_here() {
        for name in ["https_proxy", "NO_PROXY", "PIP_INDEX_URL", "CARGO_NET_OFFLINE", "GOPROXY"] {
            assert!(reaches(name), "{name}");
        }
        for name in ["CARGO_REGISTRIES_X_TOKEN", "HOME", "PATH", "AWS_SECRET", "PIP_PASSWORD"] {
            assert!(!reaches(name), "{name}");
        }
    }
}
