//! Programs that run in the background and end with us.

use crate::Failure;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long a program may take to end after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(10);

/// A background program that is ended when this value is dropped.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    log: PathBuf,
}

impl Daemon {
    /// Starts `command` without input. Its output goes to the file `log`.
    ///
    /// # Errors
    /// The program cannot be started, or the file cannot be written.
    pub fn start(command: &mut Command, log: &Path) -> Result<Self, Failure> {
        let failed = |error| Failure::broken(shown(command), error);
        let said = File::create(log).map_err(|error| Failure::broken(log.display(), error))?;
        let also = said.try_clone().map_err(failed)?;
        command.stdin(Stdio::null()).stdout(said).stderr(also);
        let child = command.spawn().map_err(|error| Failure::broken(shown(command), error))?;
        Ok(Self { child, log: log.into() })
    }

    /// The process ID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The program's output so far.
    pub fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Checks that the program is still running.
    ///
    /// # Errors
    /// The program has ended; the text has its status and the last line of its output.
    pub fn runs(&mut self) -> Result<(), Failure> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => {
                let said = self.said();
                let last = said.lines().next_back().unwrap_or("it printed nothing");
                Err(Failure::Broken(format!("a program ended with {status}: {last}")))
            }
            Err(error) => Err(Failure::broken("a program", error)),
        }
    }

    /// Waits until `holds` returns true. It is called every few milliseconds.
    ///
    /// # Errors
    /// The program ends first, or `holds` is false for longer than `patience`.
    pub fn wait_until(
        &mut self,
        what: &str,
        patience: Duration,
        mut holds: impl FnMut() -> bool,
    ) -> Result<(), Failure> {
        let started = Instant::now();
        while !holds() {
            self.runs()?;
            if started.elapsed() > patience {
                return Err(Failure::Broken(format!("not within {patience:?}: {what}")));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Kills the program with SIGKILL, as a crash or a power failure would, and waits for its end.
    pub fn kill(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Asks the program to end with SIGTERM and waits. Kills it if it takes too long.
    pub fn end(mut self) {
        self.ask_to_end();
    }

    fn ask_to_end(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        // An error means that it has just ended by itself.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let started = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && started.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.ask_to_end();
    }
}

/// The processor time of a process's threads so far, user and system, exact to the nanosecond (the
/// scheduler's own account, not sampled by ticks). Threads that have ended are missing; for a
/// process that has ended the result is zero.
pub fn processor_time(id: u32) -> Duration {
    let Ok(tasks) = fs::read_dir(format!("/proc/{id}/task")) else { return Duration::ZERO };
    let time = |task: fs::DirEntry| {
        let line = fs::read_to_string(task.path().join("schedstat")).ok()?;
        line.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
    };
    tasks.flatten().filter_map(time).sum()
}

/// The process IDs of all processes whose name starts with `prefix`.
pub fn processes_named(prefix: &str) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is = |id: &u32| {
        let name = fs::read_to_string(format!("/proc/{id}/comm"));
        name.is_ok_and(|name| name.starts_with(prefix))
    };
    numbers.filter(is).collect()
}

/// Runs `command` to its end and returns its standard output.
///
/// # Errors
/// The command cannot be started, or fails; the text has the command line and the last line of its
/// standard error.
pub fn output(command: &mut Command) -> Result<String, Failure> {
    let done = command.stdin(Stdio::null()).output();
    let done = done.map_err(|error| Failure::not_here(shown(command), error))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    let last = said.trim().lines().next_back().unwrap_or("it printed nothing").to_owned();
    Err(Failure::Broken(format!("{}: {}: {last}", shown(command), done.status)))
}

/// Whether `program` can be found in the search path.
pub fn on_path(program: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|paths| {
        std::env::split_paths(&paths).any(|folder| folder.join(program).is_file())
    })
}

/// The command line, as a person would type it.
fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// A temporary directory for logs and configurations, removed when this value is dropped.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes a new directory that only its owner can read.
    ///
    /// # Errors
    /// The directory cannot be made.
    pub fn new(label: &str) -> Result<Self, Failure> {
        use std::os::unix::fs::DirBuilderExt;
        let path = std::env::temp_dir().join(crate::namespace::unique(label));
        let made = fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| Failure::broken(path.display(), error))?;
        Ok(Self(path))
    }

    /// The path of a file in the directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Files that cannot be removed stay in the system's directory for temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_ends_with_its_handle_and_its_log_is_kept_until_then() {
        let scratch = Scratch::new("daemon").unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo here; exec sleep 60"]);
        let mut daemon = Daemon::start(&mut command, &scratch.file("log")).unwrap();
        let id = daemon.id();
        let log = scratch.file("log");
        let said = || fs::read_to_string(&log).unwrap() == "here\n";
        daemon.wait_until("it speaks", PATIENCE, said).unwrap();
        assert_eq!(daemon.runs(), Ok(()));
        drop(daemon);
        assert!(!Path::new(&format!("/proc/{id}")).exists());
    }

    #[test]
    fn a_program_that_ends_too_soon_is_told_with_its_last_line() {
        let scratch = Scratch::new("daemon").unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo first; echo no such thing >&2; exit 3"]);
        let mut daemon = Daemon::start(&mut command, &scratch.file("log")).unwrap();
        let failure = daemon.wait_until("never", PATIENCE, || false).unwrap_err();
        assert!(failure.to_string().contains("3: no such thing"), "{failure}");
    }

    #[test]
    fn work_counts_as_processor_time() {
        let id = std::process::id();
        let before = processor_time(id);
        let started = Instant::now();
        while processor_time(id) <= before {
            assert!(started.elapsed() < PATIENCE, "work takes no processor time");
        }
        assert_eq!(processor_time(u32::MAX), Duration::ZERO);
    }
}
