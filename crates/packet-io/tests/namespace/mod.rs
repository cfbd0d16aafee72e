//! Tests in a network of their own: threads with network namespaces that go when they end.

use nix::sched::{CloneFlags, unshare};
use packet_io::{Interface, Offload};
use std::process::Command;
use std::thread;

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

/// Runs `ip` with these words in the thread's namespace.
pub(crate) fn ip(words: &str) {
    let output = Command::new("ip").args(words.split(' ')).output().expect("iproute2 is here");
    assert!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Two interfaces of this namespace that are connected, without offloads.
pub(crate) fn wire(near: &str, far: &str) -> (Interface, Interface) {
    ip(&format!("link add {near} type veth peer name {far}"));
    // Nothing of the host's own on the wire.
    for end in [near, far] {
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{end}/disable_ipv6"), "1");
    }
    (up(near), up(far))
}

/// Takes an interface up, without offloads.
pub(crate) fn up(name: &str) -> Interface {
    ip(&format!("link set {name} up"));
    let interface = Interface::find(name).unwrap();
    for offload in [Offload::TransmitChecksums, Offload::Segmentation] {
        interface.set_offload(offload, false).unwrap();
        assert!(!interface.offload(offload).unwrap(), "{offload:?}");
    }
    interface
}
