//! Machines for tests. Each is a thread with a network namespace of its own, which is removed when
//! the thread ends. A program that such a thread starts runs on its machine.
#![allow(dead_code, reason = "not every test binary uses everything")]

use nix::sched::{CloneFlags, unshare};
use std::process::Command;
use std::sync::mpsc::{Sender, channel};
use std::thread;

/// Runs `test` on a machine with nothing but `lo`. If that is not permitted, the test is reported
/// as skipped.
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

/// Runs `ip` on the machine of this thread.
pub(crate) fn ip(words: &str) {
    let done = Command::new("ip").args(words.split_whitespace()).output().unwrap();
    assert!(done.status.success(), "ip {words}: {}", String::from_utf8_lossy(&done.stderr));
}

type Job = Box<dyn FnOnce() + Send>;

/// A second machine.
pub(crate) struct Machine {
    thread: i32,
    jobs: Sender<Job>,
}

impl Machine {
    /// A machine with nothing but `lo`.
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

    /// Runs `job` on this machine and returns its result. A socket or program that the job opens
    /// stays on this machine.
    pub(crate) fn call<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        let (tell, told) = channel();
        self.jobs.send(Box::new(move || drop(tell.send(job())))).unwrap();
        told.recv().expect("the job ends well")
    }

    /// Runs `ip` on this machine.
    pub(crate) fn ip(&self, words: &str) {
        let words = words.to_owned();
        self.call(move || ip(&words));
    }

    /// A wire from `near` on the machine of the current thread to `far` on this machine. Both ends
    /// are up, and `far` has these addresses.
    pub(crate) fn wire(&self, near: &str, far: &str, addresses: &[&str]) {
        ip(&format!("link add {near} type veth peer name {far} netns {}", self.thread));
        ip(&format!("link set {near} up"));
        self.ip(&format!("link set {far} up"));
        for address in addresses {
            self.address(far, address);
        }
    }

    /// Gives an interface of this machine an address, which can be used at once.
    pub(crate) fn address(&self, interface: &str, address: &str) {
        let nodad = if address.contains(':') { "nodad" } else { "" };
        self.ip(&format!("addr add {address} dev {interface} {nodad}"));
    }
}
