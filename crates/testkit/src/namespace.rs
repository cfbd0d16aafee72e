//! Tests in networks of their own: threads in network namespaces that disappear when the threads
//! end.

use lightseal_packet_io::xdp::{Attachment, Mode, XdpLan, XdpSettings};
use lightseal_packet_io::{Interface, Offload, OpenError, Pool, PoolSettings};
use nix::sched::{CloneFlags, unshare};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::thread;
use std::time::Duration;

/// Locked for writing while a test runs a program. The lock is held until the program has ended:
/// the call that starts a program returns before the kernel has closed the sockets that the child
/// process got.
static STARTING: RwLock<()> = RwLock::new(());

/// While the returned guard is held, no test runs a program. A child process holds every socket
/// of this process until it executes another program: a port that a test closes and opens again
/// would still be in use.
pub fn no_children() -> RwLockReadGuard<'static, ()> {
    STARTING.read().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `test` on a thread with an empty network namespace, whose only interface is `lo`, which is
/// up. The test is skipped if that is not possible.
pub fn alone(test: impl FnOnce() + Send + 'static) {
    // The thread has the test's name, so that it can also be marked as skipped from there.
    let named = thread::Builder::new().name(skip::own_name());
    let thread = named.spawn(|| match isolated() {
        Ok(()) => test(),
        Err(reason) => skip::test(reason),
    });
    if let Err(panic) = thread.expect("threads can be started").join() {
        std::panic::resume_unwind(panic);
    }
}

/// Moves this thread to a new namespace.
fn enter() -> Result<(), String> {
    unshare(CloneFlags::CLONE_NEWNET)
        .map_err(|error| format!("no network namespaces without root ({})", error.desc()))?;
    ip("link set lo up");
    Ok(())
}

/// Moves this thread to a namespace of its own, or returns what is missing to do so.
fn isolated() -> Result<(), String> {
    skip::program_there("ip", "iproute2")?;
    enter()?;
    let veth = try_ip("link add tried0 type veth peer name tried1");
    veth.map_err(|error| format!("no veth interfaces: {error}"))?;
    ip("link del tried0");
    Ok(())
}

/// As [`alone`], for a test with AF_XDP, which is skipped if the kernel does not offer it to this
/// process.
pub fn alone_with_xdp(test: impl FnOnce() + Send + 'static) {
    alone(|| match xdp() {
        Ok(()) => test(),
        Err(reason) => skip::test(reason),
    });
}

/// Checks that AF_XDP is available to this thread. Only outright refusals by the operating system
/// count; other errors are for the test to find.
fn xdp() -> Result<(), String> {
    use nix::libc::{EACCES, EAFNOSUPPORT, ENOSYS, EOPNOTSUPP, EPERM};
    ip("link add tried0 type veth peer name tried1");
    let interface = up("tried0");
    let opened = Attachment::lan(&interface, &[], Mode::Generic).and_then(|program| {
        let mut pool = Pool::new(PoolSettings::new(4096, 256))
            .map_err(|source| OpenError::System { what: "memory".into(), source })?;
        XdpLan::open(&mut pool, &program, XdpSettings::new(0, 64)).map(drop)
    });
    ip("link del tried0");
    let refused = |error: &std::io::Error| {
        let refusals = [EACCES, EAFNOSUPPORT, ENOSYS, EOPNOTSUPP, EPERM];
        error.raw_os_error().is_some_and(|number| refusals.contains(&number))
    };
    match opened {
        Err(error @ OpenError::NotPermitted { .. }) => Err(format!("no AF_XDP: {error}")),
        Err(OpenError::System { what, source }) if refused(&source) => {
            Err(format!("no AF_XDP: {what}: {source}"))
        }
        _ => Ok(()),
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// A second host: a thread in another namespace, which ends with this value, as do the sockets
/// opened there.
pub struct Host {
    /// The kernel's number of the thread, by which `ip` finds the namespace.
    pub thread: i32,
    jobs: Sender<Job>,
}

impl Host {
    /// # Panics
    /// If namespaces are not permitted. In [`alone`] they are.
    #[expect(clippy::new_without_default, reason = "making a host has effects")]
    pub fn new() -> Self {
        Self::open().unwrap()
    }

    /// # Errors
    /// Namespaces are not permitted: why.
    pub fn open() -> Result<Self, String> {
        let (tell, told) = channel();
        let (jobs, todo) = channel::<Job>();
        thread::spawn(move || match enter() {
            Ok(()) => {
                tell.send(Ok(nix::unistd::gettid().as_raw())).unwrap();
                todo.into_iter().for_each(|job| job());
            }
            Err(reason) => tell.send(Err(reason)).unwrap(),
        });
        told.recv().unwrap().map(|thread| Self { thread, jobs })
    }

    /// Starts `job` on the host. The receiver returns its result.
    pub fn start<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Receiver<T> {
        let (tell, told) = channel();
        self.jobs.send(Box::new(move || drop(tell.send(job())))).unwrap();
        told
    }

    /// Runs `job` on the host and returns its result. A socket that is opened there stays in that
    /// namespace.
    pub fn call<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        self.start(job).recv().expect("the job does not panic")
    }

    /// Runs `ip` on the host.
    pub fn ip(&self, words: &str) {
        let words = words.to_owned();
        self.call(move || ip(&words));
    }

    /// Gives an interface of the host an address, which can be used at once.
    pub fn address(&self, interface: &str, address: &str) {
        let nodad = if address.contains(':') { " nodad" } else { "" };
        self.ip(&format!("addr add {address} dev {interface}{nodad}"));
    }

    /// A wire to this host without offloads: the end `near` in the caller's namespace, the end
    /// `far` on the host, both up.
    pub fn wire(&self, near: &str, far: &'static str) -> (Interface, Interface) {
        ip(&format!("link add {near} type veth peer name {far} netns {}", self.thread));
        let ends = (up(near), self.call(|| up(far)));
        until_running(near);
        self.call(|| until_running(far));
        ends
    }

    /// A wire between two other hosts, called `name` at both ends, with this number of queues at
    /// each end and without offloads. Returns the other host's end.
    pub fn wire_to(&self, other: &Self, name: &'static str, mtu: u32, queues: u32) -> Interface {
        let thread = other.thread;
        let end = format!("mtu {mtu} numtxqueues {queues} numrxqueues {queues}");
        self.call(move || {
            ip(&format!("link add {name} {end} type veth peer name {name} netns {thread} {end}"));
        });
        self.call(move || up(name));
        other.call(move || up(name))
    }
}

/// Runs `ip` with these words in the thread's namespace and returns its output.
pub fn ip(words: &str) -> String {
    try_ip(words).unwrap_or_else(|error| panic!("{error}"))
}

/// As [`ip`], but returns error messages instead of panicking.
pub fn try_ip(words: &str) -> Result<String, String> {
    let mut command = Command::new("ip");
    command.args(words.split(' ')).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = {
        let _starting = STARTING.write().unwrap_or_else(PoisonError::into_inner);
        command.output().expect("iproute2 is installed")
    };
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("ip {words}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

/// Waits until an interface whose other end is up can send: until the kernel has noticed, packets
/// are dropped silently.
pub fn until_running(name: &str) {
    let running = || {
        let told = ip(&format!("link show dev {name}"));
        told.contains("state UP") && !told.contains("qdisc noop ")
    };
    while !running() {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Two interfaces of this namespace that are connected, without offloads.
pub fn wire(near: &str, far: &str) -> (Interface, Interface) {
    ip(&format!("link add {near} type veth peer name {far}"));
    // Without IPv6 the host sends no packets of its own on the wire.
    for end in [near, far] {
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{end}/disable_ipv6"), "1");
    }
    let ends = (up(near), up(far));
    until_running(near);
    until_running(far);
    ends
}

/// Takes an interface up, without offloads. Its address of the link is usable at once: a router asks
/// for the addresses of neighbours with that one, and while it is checked for duplicates, which takes
/// a second or two, what the router forwards over IPv6 waits.
pub fn up(name: &str) -> Interface {
    let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/dad_transmits"), "0");
    ip(&format!("link set {name} up"));
    let interface = Interface::find(name).unwrap();
    let offloads = [Offload::TransmitChecksums, Offload::Segmentation, Offload::TransmitVlan];
    for offload in offloads {
        interface.set_offload(offload, false).unwrap();
        assert!(!interface.offload(offload).unwrap(), "{offload:?}");
    }
    interface
}
