//! Crates that are made for a check, and depend on unpacked packages alone.

use super::{offline_first, unpacked};
use crate::crates::{Example, Package, PublicCrate};
use crate::process::{cargo, workspace};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The folder for what cargo builds, which all fresh crates share and later runs use again.
pub(super) const BUILT: &str = "built";

/// The time after which a program of an example is ended.
const PATIENCE: Duration = Duration::from_secs(60);

/// A fresh crate for one package.
pub(super) struct FreshCrate<'a> {
    pub(super) place: &'a Path,
    /// The packages that were unpacked.
    pub(super) packages: &'a [&'a Package],
    pub(super) package: &'a Package,
}

impl FreshCrate<'_> {
    /// Builds and runs the example of the package, as the program of a crate that depends on
    /// packages alone.
    pub(super) fn example(&self, public: &PublicCrate) -> Result<(), String> {
        let folder = self.folder();
        let with: Vec<_> = [(public.name, None)].iter().chain(public.with).copied().collect();
        self.manifest(&with)?;
        let sources = folder.join("src/bin");
        create(&sources)?;
        for program in public.example.programs() {
            let name = format!("{program}.rs");
            let from = unpacked(self.place, self.package).join("examples").join(&name);
            fs::copy(&from, sources.join(&name))
                .map_err(|error| format!("{}: {error}", from.display()))?;
        }
        self.cargo(&["build", "--quiet"])?;
        let program = |name: &str| self.place.join(BUILT).join("debug").join(name);
        match public.example {
            Example::Alone(name) => ends_well(Command::new(program(name))),
            Example::Pair(server, client) => meet(&program(server), &program(client)),
        }
    }

    /// Builds the package without an example.
    pub(super) fn build(&self) -> Result<(), String> {
        if !self.package.library {
            // The package is a program, so it is built where it was unpacked.
            let path = unpacked(self.place, self.package).join("Cargo.toml");
            let manifest = fs::read_to_string(&path).map_err(|error| error.to_string())?;
            let manifest = format!("{manifest}\n[workspace]\n{}", self.patches());
            write(&path, &manifest)?;
            return self.cargo_in(path.parent().unwrap_or(self.place), &["check", "--quiet"]);
        }
        self.manifest(&[(&self.package.name, None)])?;
        create(&self.folder().join("src"))?;
        write(&self.folder().join("src/lib.rs"), "")?;
        self.cargo(&["check", "--quiet"])
    }

    fn folder(&self) -> PathBuf {
        self.place.join(format!("fresh-{}", self.package.name))
    }

    /// Writes `Cargo.toml`. The packages are named by version, as a user names them; that they are
    /// not in a registry yet is said in a section of its own.
    fn manifest(&self, with: &[(&str, Option<&str>)]) -> Result<(), String> {
        let mut text = format!(
            "[package]\nname = \"fresh-{}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
             [workspace]\n\n[dependencies]\n",
            self.package.name
        );
        for (name, feature) in with {
            let version = &self.package.version;
            let features = feature.map_or_else(String::new, |name| format!("\"{name}\""));
            text += &format!("{name} = {{ version = \"{version}\", features = [{features}] }}\n");
        }
        text += "\n";
        text += &self.patches();
        create(&self.folder())?;
        write(&self.folder().join("Cargo.toml"), &text)
    }

    fn patches(&self) -> String {
        let mut text = "[patch.crates-io]\n".to_owned();
        for package in self.packages {
            let path = unpacked(self.place, package);
            text += &format!("{} = {{ path = {:?} }}\n", package.name, path.display().to_string());
        }
        text
    }

    fn cargo(&self, arguments: &[&str]) -> Result<(), String> {
        self.cargo_in(&self.folder(), arguments)
    }

    /// Runs cargo in a folder with the versions of other packages that the workspace has, so that
    /// every run builds the same.
    fn cargo_in(&self, folder: &Path, arguments: &[&str]) -> Result<(), String> {
        let (from, to) = (workspace().join("Cargo.lock"), folder.join("Cargo.lock"));
        fs::copy(&from, &to).map_err(|error| format!("{}: {error}", to.display()))?;
        let mut cargo = cargo(arguments);
        cargo.arg("--target-dir").arg(self.place.join(BUILT)).current_dir(folder);
        offline_first(cargo)
    }
}

fn create(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Runs a program, which must end with exit code 0 in time. Its output is in the error.
fn ends_well(mut command: Command) -> Result<(), String> {
    let shown = format!("{:?}", command.get_program());
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| format!("{shown}: {error}"))?;
    let status = wait(&mut child)?;
    if status.success() {
        return Ok(());
    }
    let mut said = String::new();
    if let Some(stderr) = &mut child.stderr {
        let _ = std::io::Read::read_to_string(stderr, &mut said);
    }
    Err(format!("{shown}: {status}: {}", said.trim()))
}

/// Waits for the end of a program, and ends it after [`PATIENCE`].
fn wait(child: &mut Child) -> Result<ExitStatus, String> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            return Ok(status);
        }
        if started.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("a program did not end within {} s", PATIENCE.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Runs a client against its server, which is ended afterwards.
fn meet(server: &Path, client: &Path) -> Result<(), String> {
    let started = Command::new(server).stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut server = started.map_err(|error| format!("{}: {error}", server.display()))?;
    let mut line = String::new();
    let stdout = server.stdout.take().ok_or("the server has no output")?;
    let mut lines = BufReader::new(stdout);
    let read = lines.read_line(&mut line).map_err(|error| error.to_string());
    // What the server prints later is read, so that it never waits for room in the pipe.
    let rest = std::thread::spawn(move || lines.lines().map_while(Result::ok).count());
    let outcome = read.and_then(|_| {
        let address = line.split_whitespace().next_back().ok_or("the server printed no address")?;
        let mut command = Command::new(client);
        command.arg(address);
        ends_well(command)
    });
    let _ = server.kill();
    let _ = server.wait();
    let _ = rest.join();
    outcome
}
