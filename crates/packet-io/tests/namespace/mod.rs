//! Tests in a network of their own: threads with network namespaces that go when they end.

use nix::sched::{CloneFlags, unshare};
use packet_io::{Interface, Offload};
use std::process::Command;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

/// Runs `test` on a thread with an empty network namespace, in which only `lo` is, and up.
/// Where that is not permitted the test is skipped, and says so.
pub(crate) fn alone(test: impl FnOnce() + Send + 'static) {
    let thread = thread::spawn(|| {
        if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
            eprintln!("skipped: no network namespace of its own ({error})");
            return;
        }
        ip("link set lo up");
        test();
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// A second host: a thread in another namespace, which goes with this value and what was opened
/// there.
#[allow(dead_code, reason = "not every test has two hosts")]
pub(crate) struct Host {
    thread: i32,
    jobs: Sender<Job>,
}

#[allow(dead_code, reason = "not every test has two hosts")]
impl Host {
    pub(crate) fn new() -> Self {
        let (tell, told) = channel();
        let (jobs, todo) = channel::<Job>();
        thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).expect("there is one already");
            ip("link set lo up");
            tell.send(nix::unistd::gettid().as_raw()).unwrap();
            todo.into_iter().for_each(|job| job());
        });
        Self { thread: told.recv().unwrap(), jobs }
    }

    /// What `job` returns there. A socket that is opened there stays there.
    pub(crate) fn call<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        let (tell, told) = channel();
        self.jobs.send(Box::new(move || drop(tell.send(job())))).unwrap();
        told.recv().expect("the job ends well")
    }

    /// A wire to the other host, without offloads: `near` here, `far` there, both up.
    pub(crate) fn wire(&self, near: &str, far: &'static str) -> (Interface, Interface) {
        ip(&format!("link add {near} type veth peer name {far} netns {}", self.thread));
        let ends = (up(near), self.call(|| up(far)));
        until_running(near);
        self.call(|| until_running(far));
        ends
    }

    /// A wire between two other hosts, called `name` at both ends, with so many queues at each and
    /// without offloads; the end of the other one.
    #[allow(dead_code, reason = "gateways have several hosts")]
    pub(crate) fn wire_to(
        &self,
        other: &Self,
        name: &'static str,
        mtu: u32,
        queues: u32,
    ) -> Interface {
        let thread = other.thread;
        let end = format!("mtu {mtu} numtxqueues {queues} numrxqueues {queues}");
        self.call(move || {
            ip(&format!("link add {name} {end} type veth peer name {name} netns {thread} {end}"));
        });
        self.call(move || up(name));
        other.call(move || up(name))
    }
}

/// Runs `ip` with these words in the thread's namespace; what it says.
pub(crate) fn ip(words: &str) -> String {
    let output = Command::new("ip").args(words.split(' ')).output().expect("iproute2 is here");
    assert!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Waits until an interface whose other end is up sends: until the kernel has noticed, what is
/// sent is dropped without a word.
pub(crate) fn until_running(name: &str) {
    let running = || {
        let told = ip(&format!("link show dev {name}"));
        told.contains("state UP") && !told.contains("qdisc noop ")
    };
    while !running() {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Two interfaces of this namespace that are connected, without offloads.
#[allow(dead_code, reason = "some tests have wires between hosts")]
pub(crate) fn wire(near: &str, far: &str) -> (Interface, Interface) {
    ip(&format!("link add {near} type veth peer name {far}"));
    // Nothing of the host's own on the wire.
    for end in [near, far] {
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{end}/disable_ipv6"), "1");
    }
    let ends = (up(near), up(far));
    until_running(near);
    until_running(far);
    ends
}

/// Takes an interface up, without offloads.
pub(crate) fn up(name: &str) -> Interface {
    ip(&format!("link set {name} up"));
    let interface = Interface::find(name).unwrap();
    let offloads = [Offload::TransmitChecksums, Offload::Segmentation, Offload::TransmitVlan];
    for offload in offloads {
        interface.set_offload(offload, false).unwrap();
        assert!(!interface.offload(offload).unwrap(), "{offload:?}");
    }
    interface
}
