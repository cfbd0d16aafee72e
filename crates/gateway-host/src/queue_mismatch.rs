//! Checks whether a gateway has as many threads as an interface has receive queues.

use lightseal_packet_io::Interface;
use std::fmt;

/// The numbers of receive queues and threads differ. With AF_XDP each thread has a socket on one
/// queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueueMismatch {
    interface: String,
    /// Number of receive queues of the interface.
    pub(crate) queues: u32,
    /// Number of threads of the gateway.
    pub(crate) threads: u32,
    /// The name that `ethtool -L` has for such queues.
    kind: &'static str,
}

impl QueueMismatch {
    /// `None` if the numbers are equal, or if the driver does not report its queues.
    pub(crate) fn of(interface: &Interface, threads: u32) -> Option<Self> {
        let queues = interface.receive_queues().ok()?;
        let kind = if interface.receives_apart().ok()? { "rx" } else { "combined" };
        let interface = interface.name.clone();
        (queues != threads).then_some(Self { interface, queues, threads, kind })
    }
}

impl fmt::Display for QueueMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { interface, queues, threads, kind } = self;
        let s = if *queues == 1 { "" } else { "s" };
        write!(
            f,
            "interface {interface} receives on {queues} queue{s} and [lan] queues = {threads} \
             (ethtool -L {interface} {kind} {threads})"
        )
    }
}
