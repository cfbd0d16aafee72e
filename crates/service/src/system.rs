//! What differs between operating systems: the socket of a service manager. Only systems derived from
//! Unix have one.

#[cfg(not(unix))]
pub(crate) use elsewhere::{monotonic_us, send};
#[cfg(unix)]
pub(crate) use unix::{monotonic_us, send};

#[cfg(unix)]
mod unix {
    use rustix::time::{ClockId, clock_gettime};
    use std::ffi::OsStr;
    use std::io;
    use std::os::unix::net::{SocketAddr, UnixDatagram};
    use std::time::Duration;

    /// The monotonic clock in microseconds.
    pub(crate) fn monotonic_us() -> u64 {
        let now = clock_gettime(ClockId::Monotonic);
        now.tv_sec.unsigned_abs() * 1_000_000 + now.tv_nsec.unsigned_abs() / 1_000
    }

    /// Sends a datagram to the Unix socket `socket`. Waits at most `patience` until there is room for
    /// it; not at all if that is `None`.
    pub(crate) fn send(socket: &OsStr, text: &[u8], patience: Option<Duration>) -> io::Result<()> {
        let sender = UnixDatagram::unbound()?;
        match patience {
            None => sender.set_nonblocking(true)?,
            Some(_) => sender.set_write_timeout(patience)?,
        }
        sender.send_to_addr(text, &address(socket)?).map(drop)
    }

    /// The address that a service manager writes into a variable; a name that begins with `@` is one
    /// without a file, which only Linux has.
    fn address(socket: &OsStr) -> io::Result<SocketAddr> {
        #[cfg(target_os = "linux")]
        if let Some(name) = std::os::unix::ffi::OsStrExt::as_bytes(socket).strip_prefix(b"@") {
            use std::os::linux::net::SocketAddrExt;
            return SocketAddr::from_abstract_name(name);
        }
        SocketAddr::from_pathname(socket)
    }
}

#[cfg(not(unix))]
mod elsewhere {
    use std::ffi::OsStr;
    use std::io;
    use std::time::Duration;

    /// Only service managers that [`send`] reaches ask for this.
    pub(crate) fn monotonic_us() -> u64 {
        0
    }

    /// # Errors
    /// Always: this system has no service manager with a Unix socket.
    pub(crate) fn send(_: &OsStr, _: &[u8], _: Option<Duration>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
