//! An XDP program on an interface, and the maps it uses.

use super::programs::{self, Maps, counter};
use crate::ethertype;
use crate::interface::{Interface, Offload, OpenError};
use crate::kernel::bpf::{self, Instruction};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// The largest number of queues of one interface that may have sockets.
const MAX_QUEUES: u32 = 256;

/// Where an XDP program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// In the kernel's network stack, on every interface. The kernel copies each packet.
    Generic,
    /// In the driver, before the kernel makes a packet of its own. The kernel copies each packet.
    Native,
    /// In the driver, which receives into the pool's frames and sends from them.
    ZeroCopy,
}

impl Mode {
    /// This mode, and those to try in turn if an interface does not support it.
    pub(super) fn and_lesser(self) -> impl Iterator<Item = Self> {
        let all = [Self::ZeroCopy, Self::Native, Self::Generic];
        all.into_iter().skip_while(move |mode| *mode != self)
    }

    /// For `BPF_LINK_CREATE`: `XDP_FLAGS_SKB_MODE` or `XDP_FLAGS_DRV_MODE` of linux/if_link.h.
    fn attach_flags(self) -> u32 {
        match self {
            Self::Generic => 1 << 1,
            Self::Native | Self::ZeroCopy => 1 << 2,
        }
    }
}

/// Counters of packets that a program left to the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassedCounters {
    /// Packets that the program is not to take.
    pub foreign: u64,
    /// Packets too short for their headers.
    pub short: u64,
    /// Packets received on a queue that has no port.
    pub unserved: u64,
}

/// An XDP program on an interface. Clones of this value are the same program, which is removed when
/// the last of them and the last port is dropped.
#[derive(Clone, Debug)]
pub struct Attachment(Arc<Attached>);

#[derive(Debug)]
struct Attached {
    interface: Interface,
    local: Option<SocketAddr>,
    mode: Mode,
    sockets: OwnedFd,
    counters: OwnedFd,
    _link: OwnedFd,
}

impl Attachment {
    /// Attaches a program that takes frames of these EtherTypes (at most 64), behind up to two VLAN
    /// tags, or all frames if none is listed. If the interface does not support the mode, the next
    /// lesser one is used.
    ///
    /// # Errors
    /// `CAP_BPF` or `CAP_NET_ADMIN` is missing, or the interface has another XDP program.
    pub fn lan(interface: &Interface, ethertypes: &[u16], mode: Mode) -> Result<Self, OpenError> {
        if ethertypes.len() > ethertype::MAX {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "more than 64 EtherTypes");
            return Err(failed(interface, error));
        }
        Self::attach(interface, None, mode, |maps| programs::lan(ethertypes, maps))
    }

    /// Attaches a program that takes UDP datagrams to this address and port: over IPv4 without
    /// options and fragments, over IPv6 without extension headers.
    ///
    /// # Errors
    /// The errors of [`lan`](Self::lan), or the address or port is unspecified.
    pub fn underlay(
        interface: &Interface,
        local: SocketAddr,
        mode: Mode,
    ) -> Result<Self, OpenError> {
        if local.ip().is_unspecified() || local.port() == 0 {
            let message = format!("{local} lacks a specific address or port to send from");
            return Err(failed(interface, io::Error::new(io::ErrorKind::InvalidInput, message)));
        }
        Self::attach(interface, Some(local), mode, |maps| programs::underlay(local, maps))
    }

    fn attach(
        interface: &Interface,
        local: Option<SocketAddr>,
        mode: Mode,
        program: impl FnOnce(Maps<'_>) -> Vec<Instruction>,
    ) -> Result<Self, OpenError> {
        let attach = || -> io::Result<Attached> {
            let sockets = bpf::sockets(MAX_QUEUES)?;
            let counters = bpf::counters(counter::COUNT)?;
            let maps = Maps { sockets: sockets.as_fd(), counters: counters.as_fd() };
            let program = bpf::load(&program(maps))?;
            let (mode, link) =
                retry_while_busy(|| attach_at_best(program.as_fd(), interface.index, mode))?;
            // A program does not see tags that the driver removes. Errors are ignored: some drivers
            // always remove tags, some never do.
            let _ = interface.set_offload(Offload::ReceiveVlan, false);
            let interface = interface.clone();
            Ok(Attached { interface, local, mode, sockets, counters, _link: link })
        };
        attach().map(|attached| Self(Arc::new(attached))).map_err(|error| failed(interface, error))
    }

    /// The interface.
    pub fn interface(&self) -> &Interface {
        &self.0.interface
    }

    /// The mode in which the program runs.
    pub fn mode(&self) -> Mode {
        self.0.mode
    }

    /// The address and port whose datagrams an underlay's program takes.
    pub(super) fn local(&self) -> Option<SocketAddr> {
        self.0.local
    }

    /// Counters of the packets left to the kernel since the program was attached.
    pub fn passed(&self) -> PassedCounters {
        let counter = |index| bpf::counter(self.0.counters.as_fd(), index).unwrap_or_default();
        PassedCounters {
            foreign: counter(counter::FOREIGN),
            short: counter(counter::SHORT),
            unserved: counter(counter::UNSERVED),
        }
    }

    /// Hands packets of this queue to this socket from now on.
    pub(super) fn put(&self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        bpf::put_socket(self.0.sockets.as_fd(), queue, socket)
    }
}

/// The error of an attachment or a port that could not be opened, in one line.
pub(super) fn failed(interface: &Interface, error: io::Error) -> OpenError {
    let what = format!("AF_XDP on {}", interface.name);
    let error = if error.raw_os_error() == Some(libc::EBUSY) {
        io::Error::other("another XDP program or socket is in use")
    } else {
        error
    };
    OpenError::new(what, "CAP_BPF, CAP_NET_ADMIN and CAP_NET_RAW", error)
}

/// Tries for half a second to open something that is in use: the kernel takes a moment to release
/// what a process has left behind.
pub(super) fn retry_while_busy<T>(mut open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 0..25 {
        match open() {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                thread::sleep(Duration::from_millis(20));
            }
            answer => return answer,
        }
    }
    open()
}

/// Attaches a program in the best mode that the interface supports.
fn attach_at_best(
    program: BorrowedFd<'_>,
    interface: u32,
    mode: Mode,
) -> io::Result<(Mode, OwnedFd)> {
    let mut error = io::Error::from(io::ErrorKind::Unsupported);
    for mode in mode.and_lesser() {
        match bpf::attach(program, interface, mode.attach_flags()) {
            Ok(link) => return Ok((mode, link)),
            Err(now) if matches!(now.raw_os_error(), Some(libc::EBUSY | libc::EPERM)) => {
                return Err(now);
            }
            Err(now) => error = now,
        }
    }
    Err(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lesser_modes_come_after() {
        let lesser = |mode: Mode| mode.and_lesser().collect::<Vec<_>>();
        assert_eq!(lesser(Mode::Generic), [Mode::Generic]);
        assert_eq!(lesser(Mode::ZeroCopy), [Mode::ZeroCopy, Mode::Native, Mode::Generic]);
    }
}
