//! A minimal Debian in a folder: how it is made, entered and removed.

use super::carry::{self, RUST, RUSTUP, Source, Toolchain, below};
use crate::process::{capture, command, run as run_command, succeeds, workspace};
use crate::{Failure, system};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// The packages that the README asks for beside Rust: a C compiler, and git to clone the
/// repository.
const INCLUDED: &str = "ca-certificates,gcc,libc6-dev,git";

/// Free disk space in GiB for the system, everything that is built and everything that is
/// installed.
const LEAST_FREE_GIB: u64 = 12;

/// The name of the user that is not root.
const USER: &str = "tester";

/// The repository's folder below the home folder.
const REPOSITORY: &str = "lightseal";

/// A shell script that mounts /proc, /dev, /sys and the toolchain below the root folder, in a mount
/// namespace of its own, and then becomes the command in that system.
///
/// Arguments: the root folder, whether it shall be a mount point, the toolchain's folder, a folder
/// for the changes that are made to the toolchain, and chroot's arguments.
const ENTER: &str = r#"
set -e
root=$1; is_mount_point=$2; rust=$3; changes=$4
shift 4
if [ "$is_mount_point" = true ]; then mount --bind "$root" "$root"; fi
mount -t proc proc "$root/proc" 2>/dev/null || mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
layers="lowerdir=$rust,upperdir=$changes/new,workdir=$changes/work"
if ! mount -t overlay overlay -o "$layers" "$root/opt/rust" 2>/dev/null; then
    mount --bind "$rust" "$root/opt/rust"
    mount -o remount,bind,ro "$root/opt/rust"
fi
exec chroot "$@"
"#;

/// How the machine is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct MachineOptions {
    pub(super) as_user: bool,
    pub(super) root_is_mount_point: bool,
    pub(super) keep: bool,
}

/// The fresh machine. Its folder is removed when this value is dropped, unless it is to be kept.
pub(super) struct Machine {
    /// The folder with the root folder and the changes to the toolchain.
    folder: PathBuf,
    shape: MachineOptions,
    toolchain: Toolchain,
    /// Set by SIGINT and SIGTERM.
    stop: Arc<AtomicBool>,
}

impl Machine {
    /// Makes the machine.
    ///
    /// # Errors
    /// [`Failure::NotPossibleHere`] if it cannot be made.
    pub(super) fn make(
        folder: PathBuf,
        shape: MachineOptions,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, Failure> {
        let toolchain = Toolchain::here().map_err(Failure::NotPossibleHere)?;
        let failed = |error: std::io::Error| {
            Failure::NotPossibleHere(format!("{}: {error}", folder.display()))
        };
        fs::create_dir_all(folder.parent().unwrap_or(Path::new("."))).map_err(failed)?;
        // The folder must be new, because it is removed in the end with everything in it.
        fs::create_dir(&folder).map_err(failed)?;
        let folder = folder.canonicalize().map_err(failed)?;
        let machine = Self { folder, shape, toolchain, stop };
        machine.has_room()?;
        let source = Source::here();
        eprintln!("a Debian {} in {}", source.suite, machine.root().display());
        machine.bootstrap(&source)?;
        machine.furnish(&source).map_err(Failure::NotPossibleHere)?;
        machine.prepare()?;
        Ok(machine)
    }

    /// The machine's root folder, as a path on this machine.
    pub(super) fn root(&self) -> PathBuf {
        self.folder.join("root")
    }

    /// The path on this machine of a path in the fresh machine's clone of the repository.
    pub(super) fn inside(&self, path: &str) -> PathBuf {
        below(&self.root(), self.home()).join(REPOSITORY).join(path)
    }

    fn home(&self) -> &'static str {
        if self.shape.as_user { "/home/tester" } else { "/root" }
    }

    fn has_room(&self) -> Result<(), Failure> {
        let folder = self.folder.display().to_string();
        let said = capture(command("df", &["--output=avail", "-k", &folder]));
        let free = said.ok().and_then(|said| said.lines().last()?.trim().parse::<u64>().ok());
        match free.map(|kib| kib >> 20) {
            Some(free) if free < LEAST_FREE_GIB => Err(Failure::NotPossibleHere(format!(
                "{folder}: {free} GiB are free, and {LEAST_FREE_GIB} are needed"
            ))),
            _ => Ok(()),
        }
    }

    fn bootstrap(&self, source: &Source) -> Result<(), Failure> {
        let root = self.root().display().to_string();
        let include = format!("--include={INCLUDED}");
        let mut debootstrap = isolated();
        debootstrap.args(["--mount-proc", "debootstrap", "--variant=minbase", &include]);
        debootstrap.args([&source.suite, &root, &source.mirror]);
        // debootstrap fetches with wget, which does not read apt's proxy settings.
        for (variable, setting) in
            [("http_proxy", "Acquire::http::Proxy"), ("https_proxy", "Acquire::https::Proxy")]
        {
            let proxy = capture(command("apt-config", &["shell", "proxy", setting]));
            let proxy = proxy.ok().and_then(|line| Some(line.split('\'').nth(1)?.to_owned()));
            if let Some(proxy) = proxy.filter(|proxy| proxy.contains("://")) {
                debootstrap.env(variable, proxy);
            }
        }
        let mut said = Vec::new();
        if self.watch(debootstrap, &mut |line| said.push(line.to_owned()))? {
            return Ok(());
        }
        let last = said.split_off(said.len().saturating_sub(5));
        Err(Failure::NotPossibleHere(format!("{}\ndebootstrap failed", last.join("\n"))))
    }

    /// Adds everything that Debian does not bring: package settings, the toolchain, the repository.
    fn furnish(&self, source: &Source) -> Result<(), String> {
        let root = self.root();
        let failed = |error: std::io::Error| error.to_string();
        carry::settings(&root, self.home(), source)?;
        for folder in [below(&root, RUST), below(&root, RUSTUP)] {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        for folder in ["new", "work"] {
            fs::create_dir_all(self.changes().join(folder)).map_err(failed)?;
        }
        if let Some(rustup) = &self.toolchain.rustup {
            fs::copy(rustup, below(&root, RUSTUP).join("rustup")).map_err(failed)?;
        }
        let repository = self.inside("").display().to_string();
        let from = workspace().display().to_string();
        let mut clone = command("git", &["clone", "--quiet", "--no-hardlinks", &from, &repository]);
        // No hook or template of this machine gets into the clone.
        clone.env("GIT_TEMPLATE_DIR", "");
        run_command(&mut clone)?;
        let commit = capture(command("git", &["-C", &repository, "log", "-1", "--format=%h %s"]))?;
        eprintln!("commit {}", commit.trim());
        Ok(())
    }

    /// Prepares the machine for the README's commands.
    fn prepare(&self) -> Result<(), Failure> {
        let mut lines = vec!["update-ca-certificates >/dev/null 2>&1".to_owned()];
        if self.shape.as_user {
            let packages = system::debian_packages().join(" ");
            lines.push("apt-get update -qq || true".into());
            let install = "apt-get install --yes --no-install-recommends -qq";
            lines.push(format!("DEBIAN_FRONTEND=noninteractive {install} {packages} >/dev/null"));
            // A user cannot install packages, so root installs all of them now. If an installation
            // fails, the tests report what is missing.
            if self.toolchain.name.is_some() {
                lines.push(format!("rustup target add {} || true", system::EMULATED_TARGET));
            }
            // The home folder exists already, with the copied settings in it.
            lines.push(format!("useradd --home-dir {} --shell /bin/sh {USER}", self.home()));
            lines.push(format!("chown -R {USER}: {}", self.home()));
        }
        for line in lines {
            let mut said = Vec::new();
            let success =
                self.enter("root", "/root", &line, &mut |line| said.push(line.to_owned()))?;
            if !success {
                let said = said.join("\n");
                return Err(Failure::NotPossibleHere(format!("{said}\nfailed there: {line}")));
            }
        }
        Ok(())
    }

    /// Runs a shell command line in the repository and calls `told` with each line that it prints.
    /// Returns whether it succeeded.
    ///
    /// # Errors
    /// The command cannot be started, or a signal asked us to end.
    pub(super) fn run(&self, line: &str, told: &mut dyn FnMut(&str)) -> Result<bool, Failure> {
        let user = if self.shape.as_user { USER } else { "root" };
        let line = format!("cd {}/{REPOSITORY} && {line}", self.home());
        self.enter(user, self.home(), &line, told)
    }

    /// Runs a shell command line as any user, in the root folder.
    fn enter(
        &self,
        user: &str,
        home: &str,
        line: &str,
        told: &mut dyn FnMut(&str),
    ) -> Result<bool, Failure> {
        self.watch(self.entered(user, home, line), told)
    }

    /// Runs a command, calls `told` with each line that it prints, and returns whether it
    /// succeeded. The command is killed when a signal asks us to end.
    fn watch(&self, mut command: Command, told: &mut dyn FnMut(&str)) -> Result<bool, Failure> {
        self.not_stopped()?;
        let failed = |error: std::io::Error| Failure::NotPossibleHere(format!("unshare: {error}"));
        let (reader, writer) = std::io::pipe().map_err(failed)?;
        command.stdin(Stdio::null());
        command.stdout(writer.try_clone().map_err(failed)?).stderr(writer);
        let mut child = command.spawn().map_err(failed)?;
        drop(command);
        let (sender, lines) = channel();
        let reading = thread::spawn(move || {
            for line in BufReader::new(reader).split(b'\n').map_while(Result::ok) {
                let _ = sender.send(String::from_utf8_lossy(&line).into_owned());
            }
        });
        loop {
            match lines.recv_timeout(Duration::from_millis(200)) {
                Ok(line) => told(&line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.stop.load(Ordering::Relaxed) {
                // All processes in its process namespace end with it.
                let _ = child.kill();
            }
        }
        let _ = reading.join();
        let status = child.wait().map_err(failed)?;
        self.not_stopped()?;
        Ok(status.success())
    }

    /// The command that enters the machine.
    fn entered(&self, user: &str, home: &str, line: &str) -> Command {
        let mut command =
            command("unshare", &["--mount", "--pid", "--fork", "--kill-child=SIGKILL"]);
        command.args(["sh", "-c", ENTER, "fresh"]).arg(self.root());
        command.arg(self.shape.root_is_mount_point.to_string());
        command.arg(&self.toolchain.from).arg(self.changes());
        command.arg(format!("--userspec={user}:{user}")).arg(self.root());
        command.args(["/usr/bin/env", "-i"]);
        let system = if user == "root" {
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        } else {
            "/usr/local/bin:/usr/bin:/bin"
        };
        let path = format!("{}:{system}:{RUSTUP}", self.toolchain.programs());
        let mut variables = carry::variables(&self.root());
        let own = [
            ("PATH", path.as_str()),
            ("HOME", home),
            ("USER", user),
            ("LOGNAME", user),
            ("SHELL", "/bin/sh"),
            ("LANG", "C.UTF-8"),
            ("TERM", "dumb"),
            // The machine builds once, so files for an incremental build would only take disk
            // space.
            ("CARGO_INCREMENTAL", "0"),
        ];
        variables.extend(own.map(|(name, value)| (name.to_owned(), value.to_owned())));
        if let Some(name) = &self.toolchain.name {
            variables.push(("RUSTUP_HOME".into(), RUST.into()));
            variables.push(("RUSTUP_TOOLCHAIN".into(), name.clone()));
        }
        command.args(variables.iter().map(|(name, value)| format!("{name}={value}")));
        command.args(["sh", "-c", line]);
        command
    }

    /// The folder with the machine's changes to the toolchain.
    fn changes(&self) -> PathBuf {
        self.folder.join("toolchain")
    }

    fn not_stopped(&self) -> Result<(), Failure> {
        let is_stopped = self.stop.load(Ordering::Relaxed);
        if is_stopped { Err(Failure::NotPossibleHere("interrupted".into())) } else { Ok(()) }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if self.shape.keep {
            return;
        }
        // The mounts were in namespaces that have ended. If there is one in our namespace after
        // all, the files below it belong to something else and must not be removed.
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        if mounted_below(&mounts, &self.folder) {
            eprintln!("{}: something is mounted there, so it stays", self.folder.display());
            return;
        }
        let folder = self.folder.display().to_string();
        // Killed processes may take a moment to end and may still use the folder.
        for _ in 0..10 {
            if succeeds(command("rm", &["-rf", "--one-file-system", "--", &folder])) {
                return;
            }
            thread::sleep(Duration::from_millis(500));
        }
        eprintln!("{folder}: cannot be removed");
    }
}

/// An unshare command with a mount namespace and a process namespace that end with it, including
/// all processes and mounts in them. The caller appends the command to run.
fn isolated() -> Command {
    command("unshare", &["--mount", "--pid", "--fork", "--kill-child=SIGKILL"])
}

/// Whether a file system is mounted at or below this folder.
fn mounted_below(mountinfo: &str, folder: &Path) -> bool {
    let places = mountinfo.lines().filter_map(|line| line.split(' ').nth(4));
    places.into_iter().any(|place| Path::new(place).starts_with(folder))
}

/// A word quoted so that the shell does not change it.
pub(super) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mounted_below_is_found() {
        let text =
            "36 35 98:0 / /a/fresh-1/root/proc rw - proc proc rw\n22 1 8:1 / / rw - ext4 x rw\n";
        assert!(mounted_below(text, Path::new("/a/fresh-1")));
        assert!(!mounted_below(text, Path::new("/a/fresh")));
        assert!(!mounted_below(text, Path::new("/b")));
    }

    #[test]
    fn words_stay_words() {
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
