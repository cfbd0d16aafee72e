//! Whether a gateway's threads are as many as the queues that an interface spreads frames over.

use packet_io::Interface;
use std::fmt;

/// They are not: AF_XDP has a socket for each thread, on one queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spread {
    interface: String,
    /// Receive queues of the interface.
    pub(crate) queues: u32,
    /// The gateway's threads.
    pub(crate) threads: u32,
    /// What `ethtool` calls such queues.
    kind: &'static str,
}

impl Spread {
    /// `None` if they are as many, or the driver does not say.
    pub(crate) fn of(interface: &Interface, threads: u32) -> Option<Self> {
        let queues = interface.receive_queues().ok()?;
        let kind = if interface.receives_apart().ok()? { "rx" } else { "combined" };
        let interface = interface.name.clone();
        (queues != threads).then_some(Self { interface, queues, threads, kind })
    }
}

impl fmt::Display for Spread {
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
