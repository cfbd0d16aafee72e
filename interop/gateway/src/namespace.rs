//! Network namespaces: made, entered and removed.

use crate::Failure;
use crate::daemon::{on_path, output};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

/// What all our namespaces and scratch directories are called, before the number of our process.
const PREFIX: &str = "lsgw";

/// A name with our prefix that nothing else of this machine has.
pub fn unique(label: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{PREFIX}-{}-{count}-{label}", std::process::id())
}

/// A network namespace, which is gone with this, and with it the interfaces in it.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// A new one, its loopback interface up and IPv6 off: nothing speaks in it unasked.
    ///
    /// # Errors
    /// [`Failure::NotHere`] where namespaces are forbidden.
    pub fn new(label: &str) -> Result<Self, Failure> {
        let name = unique(label);
        output(Command::new("ip").args(["netns", "add", &name]))
            // Without the name, which no other failure has.
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

    /// As `ip netns` calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file that stands for it.
    pub fn path(&self) -> PathBuf {
        Path::new("/run/netns").join(&self.name)
    }

    /// `ip` in this namespace, with words that spaces part.
    ///
    /// # Errors
    /// What it says.
    pub fn ip(&self, words: &str) -> Result<String, Failure> {
        // Not `ip -n`: that mounts /sys anew, which fails where the root folder is no mount point.
        self.run("ip", words)
    }

    /// Any other program in this namespace, with words that spaces part, run to its end.
    ///
    /// # Errors
    /// What it says.
    pub fn run(&self, program: &str, words: &str) -> Result<String, Failure> {
        if !on_path(program) {
            return Err(Failure::NotHere(format!("{program} is missing")));
        }
        output(self.command(program).args(words.split_whitespace()))
    }

    /// A program in this namespace, to be started. It stays our child: `nsenter` becomes it.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.path().display())).arg(program);
        command
    }

    /// Sets a parameter of the kernel's network in this namespace.
    ///
    /// # Errors
    /// When there is none of this name, or it does not take the value.
    pub fn set(&self, parameter: &str, value: &str) -> Result<(), Failure> {
        let path = Path::new("/proc/sys").join(parameter);
        let written = self.within(|| fs::write(&path, value))?;
        written.map_err(|error| Failure::broken(path.display(), error))
    }

    /// Does something on a thread in this namespace. Sockets that it opens stay there.
    ///
    /// # Errors
    /// When the namespace cannot be entered.
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

    /// A pair of virtual cables' ends: `own` here and `theirs` in `other`, both up, with this MTU
    /// and nothing left to do for a network card that is none.
    ///
    /// # Errors
    /// What `ip` or `ethtool` say.
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

    /// Takes everything from an interface that a real card of another machine could not do for it:
    /// checksums, segments larger than its MTU and their reassembly.
    ///
    /// # Errors
    /// What `ethtool` says.
    pub fn without_offloads(&self, interface: &str) -> Result<(), Failure> {
        self.run(
            "ethtool",
            &format!(
                "-K {interface} tx off rx off tso off gso off gro off sg off txvlan off rxvlan off"
            ),
        )
        .map(drop)
    }

    /// Kills every program in this namespace, children of others among them.
    pub fn kill_all(&self) {
        kill_all(&self.name);
    }

    /// What an interface has counted.
    ///
    /// # Errors
    /// When there is no such interface.
    pub fn traffic(&self, interface: &str) -> Result<Traffic, Failure> {
        let text = self.ip(&format!("-j -s link show {interface}"))?;
        Traffic::read(&text).ok_or_else(|| Failure::broken("ip -s link", text))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = output(Command::new("ip").args(["netns", "del", &self.name]));
    }
}

/// What an interface has counted; bytes are those from the destination address to the end of the
/// payload, without the frame check sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Frames it received.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Frames it sent.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
}

impl Traffic {
    /// From `ip -j -s link show`.
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

    /// What came since `earlier`.
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

/// Removes what an earlier run left that was killed before it could: namespaces of processes that
/// are no more, with the programs in them.
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

/// Whose namespace of ours it is, by its name.
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
