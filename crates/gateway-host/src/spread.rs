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
}

impl Spread {
    /// `None` if they are as many, or the driver does not say.
    pub(crate) fn of(interface: &Interface, threads: u32) -> Option<Self> {
        let queues = interface.receive_queues().ok()?;
        let interface = interface.name.clone();
        (queues != threads).then_some(Self { interface, queues, threads })
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { interface, queues, threads } = self;
        write!(
            f,
            "interface {interface} receives on {queues} queues and [lan] queues = {threads} \
             (ethtool -L {interface} combined {threads})"
        )
    }
}
