//! Peers in Go, Java and C, in the folder `peers/` of this package. They are built when first needed,
//! from packages that are fetched then or installed, and kept in the target folder.
//!
//! The programs take the same arguments and print the same lines. Their sources describe them.

use aws_lc_rs::digest::{SHA256, digest};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A peer in another language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// pion, in Go: <https://github.com/pion/dtls>.
    Pion,
    /// Scandium, in Java: <https://eclipse.dev/californium>.
    Scandium,
    /// NSS of the system, in C: <https://firefox-source-docs.mozilla.org/security/nss>.
    Nss,
}

/// The Maven goal that fetches the jars. Its version is pinned, so that all machines run the same.
const COPY_JARS: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies";
/// The oldest Go, (major, minor), that accepts the `go` line of `go.mod`.
const MIN_GO: (u32, u32) = (1, 24);
/// The first Java version with everything that the program uses.
const MIN_JAVA: u32 = 17;

impl Foreign {
    /// Every peer in another language.
    pub const ALL: [Self; 3] = [Self::Pion, Self::Scandium, Self::Nss];

    /// The implementation's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pion => "pion",
            Self::Scandium => "Scandium",
            Self::Nss => "NSS",
        }
    }

    /// The pinned version, or that of the system's library.
    ///
    /// # Panics
    /// The package's own files do not name the version.
    pub fn version(self) -> String {
        let (file, before, after) = match self {
            Self::Nss => {
                let version = said(Command::new("pkg-config").args(["--modversion", "nss"]));
                return version.unwrap_or_else(|| "not installed".into());
            }
            Self::Pion => ("go.mod", "github.com/pion/dtls/v3 v", "\n"),
            Self::Scandium => ("pom.xml", "<artifactId>scandium</artifactId>", "</version>"),
        };
        let text = fs::read_to_string(self.sources().join(file)).expect("it is in the repository");
        let pinned = text.split_once(before).and_then(|(_, rest)| rest.split_once(after));
        let (pinned, _) = pinned.expect("it is pinned there");
        pinned.rsplit('>').next().unwrap_or(pinned).trim().to_owned()
    }

    /// Builds the program unless it is built already.
    ///
    /// # Errors
    /// What this machine lacks, or why the build failed.
    pub fn build(self) -> Result<(), String> {
        let folder = self.folder();
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        // Several test programs may call this at once: one builds, and the others wait for it.
        let lock = File::create(folder.join("lock")).map_err(|error| error.to_string())?;
        lock.lock().map_err(|error| error.to_string())?;
        let made_of = self.made_of()?;
        let stamp = folder.join("made-of");
        if fs::read_to_string(&stamp).is_ok_and(|before| before == made_of) {
            return Ok(());
        }
        match self {
            Self::Pion => self.build_pion()?,
            Self::Scandium => self.build_scandium()?,
            Self::Nss => self.build_nss()?,
        }
        fs::write(&stamp, made_of).map_err(|error| format!("{}: {error}", stamp.display()))
    }

    /// The command that runs the program, once it has been built.
    pub fn command(self) -> Command {
        let folder = self.folder();
        match self {
            Self::Pion => Command::new(folder.join("pion")),
            Self::Nss => Command::new(folder.join("nss")),
            Self::Scandium => {
                let mut java = Command::new("java");
                // The program is small and runs for seconds, so it should start fast and take
                // little memory.
                java.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m"]);
                java.arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn").arg("-cp");
                java.arg(class_path(&[folder.join("classes"), folder.join("jars").join("*")]));
                java.arg("ScandiumPeer");
                java
            }
        }
    }

    fn sources(self) -> PathBuf {
        let folder = match self {
            Self::Pion => "pion",
            Self::Scandium => "scandium",
            Self::Nss => "nss",
        };
        Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join(folder)
    }

    /// The folder in which the peer is built.
    fn folder(self) -> PathBuf {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
            || Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join("target"),
            PathBuf::from,
        );
        let name = self.sources().file_name().map(PathBuf::from).unwrap_or_default();
        target.join("peers").join(name)
    }

    /// The text of all source files, one after the other.
    fn made_of(self) -> Result<String, String> {
        let files: &[&str] = match self {
            Self::Pion => &["go.mod", "go.sum", "main.go"],
            Self::Scandium => &["pom.xml", "jars.sha256", "ScandiumPeer.java"],
            Self::Nss => &["nss.c"],
        };
        files.iter().map(|file| read(&self.sources().join(file))).collect()
    }

    fn build_nss(self) -> Result<(), String> {
        let flags = said(Command::new("pkg-config").args(["--cflags", "--libs", "nss"]));
        let flags = flags.ok_or("needs NSS with its headers (Debian: libnss3-dev)")?;
        let mut compile = Command::new("cc");
        compile.args(["-O1", "-Wall", "-Wextra"]).arg(self.sources().join("nss.c"));
        run(compile.arg("-o").arg(self.folder().join("nss")).args(flags.split_whitespace()))
    }

    fn build_pion(self) -> Result<(), String> {
        let go = said(Command::new("go").args(["env", "GOVERSION"]).env("GOTOOLCHAIN", "local"));
        let (major, minor) = MIN_GO;
        if go.as_deref().and_then(go_version).is_none_or(|version| version < MIN_GO) {
            let there = go.unwrap_or_else(|| "none".into());
            return Err(format!("needs Go {major}.{minor} or later; there is {there}"));
        }
        let mut build = Command::new("go");
        build.args(["build", "-trimpath", "-buildvcs=false", "-mod=readonly", "-o"]);
        build.arg(self.folder().join("pion")).arg(".").current_dir(self.sources());
        // No other toolchain is fetched and no C is compiled, since neither is needed.
        run(build.env("GOTOOLCHAIN", "local").env("CGO_ENABLED", "0"))
    }

    fn build_scandium(self) -> Result<(), String> {
        let java = said(Command::new("javac").arg("-version"));
        if java.as_deref().and_then(java_version).is_none_or(|version| version < MIN_JAVA) {
            let there = java.unwrap_or_else(|| "none".into());
            return Err(format!("needs a JDK of {MIN_JAVA} or later; there is {there}"));
        }
        if said(Command::new("mvn").arg("--version")).is_none() {
            return Err("needs Maven: there is no mvn".into());
        }
        let (jars, classes) = (self.folder().join("jars"), self.folder().join("classes"));
        for folder in [&jars, &classes] {
            // Files of an earlier version must not be found by this one.
            let _ = fs::remove_dir_all(folder);
        }
        let mut fetch = Command::new("mvn");
        fetch.args(["--batch-mode", "--quiet", COPY_JARS]).current_dir(self.sources());
        run(fetch.arg(format!("-DoutputDirectory={}", jars.display())))?;
        check(&jars, &read(&self.sources().join("jars.sha256"))?)?;
        let mut compile = Command::new("javac");
        compile.args(["-Xlint:all", "-Werror", "-cp"]).arg(class_path(&[jars.join("*")]));
        run(compile.arg("-d").arg(&classes).arg(self.sources().join("ScandiumPeer.java")))
    }
}

/// Checks that `folder` has exactly the files that `sums` lists, with these SHA-256 digests.
fn check(folder: &Path, sums: &str) -> Result<(), String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))? {
        let path = entry.map_err(|error| error.to_string())?.path();
        let content = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut line = String::new();
        for byte in digest(&SHA256, &content).as_ref() {
            write!(line, "{byte:02x}").expect("a string takes anything");
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        found.push(format!("{line}  {name}"));
    }
    let mut expected: Vec<_> = sums.lines().map(str::to_owned).collect();
    found.sort();
    expected.sort();
    if found == expected {
        return Ok(());
    }
    Err(format!("other files than expected were fetched:\n{}", found.join("\n")))
}

fn class_path(entries: &[PathBuf]) -> std::ffi::OsString {
    std::env::join_paths(entries).expect("no colon in the target folder's name")
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The trimmed output of `command`, if it can be run and succeeds.
fn said(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).output().ok().filter(|out| out.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Parses `go1.26.8` as (1, 26).
fn go_version(said: &str) -> Option<(u32, u32)> {
    let mut numbers = said.strip_prefix("go")?.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Parses `javac 17.0.15` as 17.
fn java_version(said: &str) -> Option<u32> {
    said.strip_prefix("javac ")?.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Runs `command`. The error has its output.
fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output =
        command.stdin(Stdio::null()).output().map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    Err(format!("{name}: {}\n{out}{err}", output.status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_understood() {
        assert_eq!(go_version("go1.26.8"), Some((1, 26)));
        assert_eq!(go_version("go1.24rc1"), Some((1, 24)));
        assert_eq!(go_version("devel"), None);
        assert_eq!(java_version("javac 17.0.15"), Some(17));
        assert_eq!(java_version("javac 21"), Some(21));
        assert_eq!(java_version("Java 17"), None);
        assert_eq!(Foreign::Pion.version(), "3.1.15");
        assert_eq!(Foreign::Scandium.version(), "3.14.0");
    }

    #[test]
    fn what_was_fetched_must_be_what_was_pinned() {
        let folder = std::env::temp_dir().join(format!("lightseal-jars-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a place for files");
        fs::write(folder.join("a.jar"), "abc").expect("there is room");
        // The digest is the example of FIPS 180-4.
        let sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a.jar\n";
        assert_eq!(check(&folder, sum), Ok(()));
        assert!(check(&folder, &sum.replace('b', "c")).is_err());
        assert!(check(&folder, "").is_err(), "one more than listed");
        fs::remove_file(folder.join("a.jar")).expect("it is there");
        assert!(check(&folder, sum).is_err(), "one less than listed");
        fs::remove_dir(&folder).expect("it is empty");
    }
}
