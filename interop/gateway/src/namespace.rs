//! Network namespaces: how they are made, entered and removed.

use crate::Failure;
use crate::daemon::{on_path, output};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

/// The prefix of the names of all our namespaces and scratch directories. Our process ID follows
/// it.
const PREFIX: &str = "lsgw";

/// A name with our prefix that is unique on this machine.
pub fn unique(label: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{PREFIX}-{}-{count}-{label}", std::process::id())
}

/// A network namespace. It is removed with its interfaces when this value is dropped.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Makes a namespace with its loopback interface up. IPv6 is off, so that the kernel sends
    /// nothing by itself.
    ///
    /// # Errors
    /// [`Failure::NotHere`] if namespaces are forbidden.
    pub fn new(label: &str) -> Result<Self, Failure> {
        let name = unique(label);
        output(Command::new("ip").args(["netns", "add", &name]))
            // The name is unique and would make equal failures look different.
            .map_err(|why| why.to_string().replace(&name, "NAME"))
            .map_err(|why| Failure::not_here("no network namespaces", why))?;
        let own = Self { name };
        if Path::new("/proc/sys/net/ipv6").exists() {
            own.set("net/ipv6/conf/all/disable_ipv6", "1")?;
            own.set("net/ipv6/conf/default/disable_ipv6", "1")?;
        }
        own.ip("link set lo up")?;
        Ok(own)
    }

    /// The namespace's name for `ip netns`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file that represents the namespace.
    pub fn path(&self) -> PathBuf {
        Path::new("/run/netns").join(&self.name)
    }

    /// Runs `ip` in this namespace. `words` are its arguments, separated by spaces.
    ///
    /// # Errors
    /// `ip` fails; the text has the last line of its output.
    pub fn ip(&self, words: &str) -> Result<String, Failure> {
        // `ip -n` would mount /sys again, which fails if the root folder is no mount point.
        self.run("ip", words)
    }

    /// Runs any other program in this namespace to its end. `words` are its arguments, separated by
    /// spaces.
    ///
    /// # Errors
    /// The program is missing or fails; the text has the last line of its output.
    pub fn run(&self, program: &str, words: &str) -> Result<String, Failure> {
        if !on_path(program) {
            return Err(Failure::NotHere(format!("{program} is missing")));
        }
        output(self.command(program).args(words.split_whitespace()))
    }

    /// A command that starts a program in this namespace. `nsenter` becomes the program, so that it
    /// is our child process.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.path().display())).arg(program);
        command
    }

    /// Sets a parameter of the kernel's network stack in this namespace.
    ///
    /// # Errors
    /// There is no parameter of this name, or it does not accept the value.
    pub fn set(&self, parameter: &str, value: &str) -> Result<(), Failure> {
        let path = Path::new("/proc/sys").join(parameter);
        let written = self.within(|| fs::write(&path, value))?;
        written.map_err(|error| Failure::broken(path.display(), error))
    }

    /// Runs `act` on a thread in this namespace. Sockets that it opens belong to the namespace.
    ///
    /// # Errors
    /// The namespace cannot be entered.
    pub fn within<T: Send>(&self, act: impl FnOnce() -> T + Send) -> Result<T, Failure> {
        let failed = |error| Failure::not_here(&self.name, error);
        let file = File::open(self.path()).map_err(|error| failed(error.to_string()))?;
        let inside = || {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(act())
        };
        let joined = thread::scope(|scope| scope.spawn(inside).join());
        match joined {
            Ok(done) => done.map_err(|error: rustix::io::Errno| failed(error.to_string())),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// Makes a virtual cable (a veth pair): the interface `own` here and `theirs` in `other`, both
    /// up, with this MTU and without offloads.
    ///
    /// # Errors
    /// `ip` or `ethtool` fails.
    pub fn cable(
        &self,
        own: &str,
        other: &Self,
        theirs: &str,
        mtu_bytes: u32,
    ) -> Result<(), Failure> {
        self.ip(&format!(
            "link add {own} mtu {mtu_bytes} type veth peer name {theirs} mtu {mtu_bytes} netns {}",
            other.name
        ))?;
        for (place, name) in [(self, own), (other, theirs)] {
            place.without_offloads(name)?;
            place.ip(&format!("link set {name} up"))?;
        }
        Ok(())
    }

    /// Turns off everything that a real network card of another machine could not do for an
    /// interface: checksums, segments larger than its MTU and their reassembly.
    ///
    /// # Errors
    /// `ethtool` fails.
    pub fn without_offloads(&self, interface: &str) -> Result<(), Failure> {
        self.run(
            "ethtool",
            &format!(
                "-K {interface} tx off rx off tso off gso off gro off sg off txvlan off rxvlan off"
            ),
        )
        .map(drop)
    }

    /// Kills every program in this namespace, including those that are not our children.
    pub fn kill_all(&self) {
        kill_all(&self.name);
    }

    /// The counters of an interface.
    ///
    /// # Errors
    /// There is no such interface.
    pub fn traffic(&self, interface: &str) -> Result<Traffic, Failure> {
        let text = self.ip(&format!("-j -s link show {interface}"))?;
        Traffic::read(&text).ok_or_else(|| Failure::broken("ip -s link", text))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // It may have been removed already.
        let _ = output(Command::new("ip").args(["netns", "del", &self.name]));
    }
}

/// The counters of an interface. Bytes count from the destination address to the end of the
/// payload, without the frame check sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Frames that the interface received.
    pub received: u64,
    /// Bytes of the received frames.
    pub received_bytes: u64,
    /// Frames that the interface sent.
    pub sent: u64,
    /// Bytes of the sent frames.
    pub sent_bytes: u64,
}

impl Traffic {
    /// Reads the output of `ip -j -s link show`.
    fn read(text: &str) -> Option<Self> {
        let value: serde_json::Value = serde_json::from_str(text).ok()?;
        let number = |pointer: &str| value.pointer(&format!("/0/stats64/{pointer}"))?.as_u64();
        Some(Self {
            received: number("rx/packets")?,
            received_bytes: number("rx/bytes")?,
            sent: number("tx/packets")?,
            sent_bytes: number("tx/bytes")?,
        })
    }

    /// The counts since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            received: self.received.saturating_sub(earlier.received),
            received_bytes: self.received_bytes.saturating_sub(earlier.received_bytes),
            sent: self.sent.saturating_sub(earlier.sent),
            sent_bytes: self.sent_bytes.saturating_sub(earlier.sent_bytes),
        }
    }
}

/// Removes namespaces of processes that no longer exist, with the programs in them. An earlier run
/// that was killed may have left some.
pub fn sweep() {
    let Ok(entries) = fs::read_dir("/run/netns") else { return };
    for entry in entries.flatten() {
        let Some(name) = entry.file_name().to_str().map(str::to_owned) else { continue };
        let Some(id) = owner(&name) else { continue };
        if Path::new(&format!("/proc/{id}")).exists() {
            continue;
        }
        kill_all(&name);
        let _ = output(Command::new("ip").args(["netns", "del", &name]));
    }
}

fn kill_all(name: &str) {
    let inside = output(Command::new("ip").args(["netns", "pids", name])).unwrap_or_default();
    for id in inside.lines().filter_map(|line| line.trim().parse().ok()) {
        if let Some(id) = rustix::process::Pid::from_raw(id) {
            // It may have ended by itself.
            let _ = rustix::process::kill_process(id, rustix::process::Signal::KILL);
        }
    }
}

/// The ID of the process that made a namespace, if the name is one of ours.
fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.strip_prefix('-')?.split('-').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_whose_it_is() {
        assert_eq!(owner(&unique("x")), Some(std::process::id()));
        for other in ["lsgw", "lsgw-", "lsgw-x-1", "other-12-1", "lsgwx-1"] {
            assert_eq!(owner(other), None, "{other}");
        }
    }

    #[test]
    fn counters_are_read_and_subtracted() {
        let text = r#"[{"ifname":"x","stats64":{"rx":{"bytes":700,"packets":7},"tx":{"bytes":90,"packets":1}}}]"#;
        let read = Traffic::read(text).unwrap();
        let expected = Traffic { received: 7, received_bytes: 700, sent: 1, sent_bytes: 90 };
        assert_eq!(read, expected);
        assert_eq!(read.since(read), Traffic::default());
        assert_eq!(Traffic::read("[]"), None);
    }
}
