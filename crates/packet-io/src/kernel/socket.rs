//! Sockets: how they are opened, their options and their addresses.

use super::checked;
use libc::{c_int, c_void, socklen_t};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// A type whose values may be passed to and read from socket options.
///
/// # Safety
/// All bytes must be a valid value, and no byte may be padding.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: an integer.
unsafe impl Plain for c_int {}
// SAFETY: an int, two shorts and eight bytes, without padding.
unsafe impl Plain for libc::packet_mreq {}
// SAFETY: two ints, without padding.
unsafe impl Plain for libc::tpacket_stats {}
// SAFETY: an array of integers.
unsafe impl Plain for [u32; 9] {}

/// Opens a socket that never blocks and is closed on exec. `protocol` is in network order if the
/// family requires it.
pub(crate) fn open(family: c_int, kind: c_int, protocol: c_int) -> io::Result<OwnedFd> {
    let kind = kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no memory is involved.
    let fd = checked(unsafe { libc::socket(family, kind, protocol) })?;
    // SAFETY: the descriptor was just opened, and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets a socket option.
pub(crate) fn set<T: Plain>(
    fd: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    value: T,
) -> io::Result<()> {
    let value: *const T = &value;
    let len = size_of::<T>() as socklen_t;
    // SAFETY: the kernel reads `len` initialised bytes of a value that lives until the call
    // returns.
    let answer =
        unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, value.cast::<c_void>(), len) };
    checked(answer).map(drop)
}

/// Reads a socket option into a copy of `initial`, of which bytes remain that the kernel does not
/// write.
pub(crate) fn get<T: Plain>(
    fd: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    initial: T,
) -> io::Result<T> {
    let mut value = initial;
    let mut len = size_of::<T>() as socklen_t;
    let pointer: *mut T = &mut value;
    // SAFETY: the kernel writes at most `len` bytes, and all bytes are a valid `T`.
    let answer = unsafe {
        libc::getsockopt(fd.as_raw_fd(), level, name, pointer.cast::<c_void>(), &mut len)
    };
    checked(answer).map(|_| value)
}

/// Binds a packet socket to an interface and a protocol (in host order).
pub(crate) fn bind_link(fd: BorrowedFd<'_>, index: u32, protocol: u16) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol.to_be(),
        sll_ifindex: index as c_int,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let pointer: *const libc::sockaddr_ll = &address;
    let len = size_of::<libc::sockaddr_ll>() as socklen_t;
    // SAFETY: the kernel reads `len` bytes of an address that lives until it returns.
    checked(unsafe { libc::bind(fd.as_raw_fd(), pointer.cast(), len) }).map(drop)
}

/// Whether the interface of a packet socket was removed.
pub(crate) fn is_orphan(fd: BorrowedFd<'_>) -> bool {
    let mut address = [0_u32; 5];
    let mut len = size_of_val(&address) as socklen_t;
    // SAFETY: the kernel writes at most `len` bytes of a `sockaddr_ll`, whose alignment is that of
    // `u32`.
    let answer =
        unsafe { libc::getsockname(fd.as_raw_fd(), address.as_mut_ptr().cast(), &mut len) };
    // The second word is the interface's index, which is not positive once the interface was
    // removed.
    answer < 0 || address[1] as c_int <= 0
}

/// The pending error of a socket, which is cleared.
pub(crate) fn pending_error(fd: BorrowedFd<'_>) -> Option<io::Error> {
    let error = get(fd, libc::SOL_SOCKET, libc::SO_ERROR, 0).unwrap_or(libc::EBADF);
    (error != 0).then(|| io::Error::from_raw_os_error(error))
}

/// Binds an Internet socket.
pub(crate) fn bind(fd: BorrowedFd<'_>, address: SocketAddr) -> io::Result<()> {
    let address = Address::from(address);
    // SAFETY: the kernel reads `address.len()` bytes of the address.
    let answer =
        unsafe { libc::bind(fd.as_raw_fd(), address.bytes.as_ptr().cast(), address.len()) };
    checked(answer).map(drop)
}

/// The address that a socket is bound to.
pub(crate) fn local_address(fd: BorrowedFd<'_>) -> io::Result<SocketAddr> {
    let mut address = Address::EMPTY;
    let mut len = address.bytes.len() as socklen_t;
    // SAFETY: the kernel writes at most `len` bytes.
    let answer =
        unsafe { libc::getsockname(fd.as_raw_fd(), address.bytes.as_mut_ptr().cast(), &mut len) };
    checked(answer)?;
    address.parse().ok_or_else(|| io::Error::other("the socket has no Internet address"))
}

/// Attaches a classic BPF filter: packets for which it returns 0 never reach the socket.
pub(crate) fn attach_filter(
    fd: BorrowedFd<'_>,
    filter: &mut [libc::sock_filter],
) -> io::Result<()> {
    give_program(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, filter)
}

/// Sets the classic BPF program that chooses the socket of a fanout group for each frame.
pub(crate) fn attach_chooser(
    fd: BorrowedFd<'_>,
    chooser: &mut [libc::sock_filter],
) -> io::Result<()> {
    give_program(fd, libc::SOL_PACKET, libc::PACKET_FANOUT_DATA, chooser)
}

/// Sets a socket option whose value is a program.
fn give_program(
    fd: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    filter: &mut [libc::sock_filter],
) -> io::Result<()> {
    let len = u16::try_from(filter.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let program = libc::sock_fprog { len, filter: filter.as_mut_ptr() };
    let pointer: *const libc::sock_fprog = &program;
    let size = size_of::<libc::sock_fprog>() as socklen_t;
    // SAFETY: the kernel reads the program and the `len` instructions that it points to, both of
    // which live until the call returns.
    checked(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, pointer.cast(), size) })
        .map(drop)
}

/// An Internet address in the kernel's representation (`sockaddr_in`, `sockaddr_in6`).
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub(crate) struct Address {
    pub(crate) bytes: [u8; 28],
}

impl Address {
    pub(crate) const EMPTY: Self = Self { bytes: [0; 28] };

    /// Length in bytes of the address for its family.
    pub(crate) fn len(&self) -> socklen_t {
        if self.family() == libc::AF_INET { 16 } else { 28 }
    }

    fn family(&self) -> c_int {
        c_int::from(u16::from_ne_bytes([self.bytes[0], self.bytes[1]]))
    }

    /// Copies an Internet address that the C library wrote.
    ///
    /// # Safety
    /// `from` must be null, or point to an address that begins with its family and has that
    /// family's length.
    pub(crate) unsafe fn copy_from(&mut self, from: *const libc::sockaddr) {
        // SAFETY: the caller guarantees it.
        let len = match unsafe { from.as_ref() }.map(|from| c_int::from(from.sa_family)) {
            Some(libc::AF_INET) => 16,
            Some(libc::AF_INET6) => 28,
            _ => return,
        };
        // SAFETY: `from` has `len` bytes by the caller's guarantee, and `self.bytes` has at least
        // as many.
        unsafe { std::ptr::copy_nonoverlapping(from.cast(), self.bytes.as_mut_ptr(), len) };
    }

    /// The address, if it is an IPv4 or IPv6 address.
    pub(crate) fn parse(&self) -> Option<SocketAddr> {
        let port = u16::from_be_bytes([self.bytes[2], self.bytes[3]]);
        match self.family() {
            libc::AF_INET => {
                let ip: [u8; 4] = self.bytes[4..8].try_into().ok()?;
                Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::from(ip)), port))
            }
            libc::AF_INET6 => {
                let ip: [u8; 16] = self.bytes[8..24].try_into().ok()?;
                let scope = u32::from_ne_bytes(self.bytes[24..28].try_into().ok()?);
                Some(SocketAddrV6::new(Ipv6Addr::from(ip), port, 0, scope).into())
            }
            _ => None,
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        let mut bytes = [0; 28];
        bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
        let family = match address {
            SocketAddr::V4(address) => {
                bytes[4..8].copy_from_slice(&address.ip().octets());
                libc::AF_INET
            }
            SocketAddr::V6(address) => {
                bytes[8..24].copy_from_slice(&address.ip().octets());
                bytes[24..28].copy_from_slice(&address.scope_id().to_ne_bytes());
                libc::AF_INET6
            }
        };
        bytes[..2].copy_from_slice(&(family as u16).to_ne_bytes());
        Self { bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back_as_they_went() {
        for text in ["192.0.2.1:4500", "[2001:db8::1]:65535", "[fe80::1%7]:1"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(Address::from(address).parse(), Some(address), "{text}");
        }
        assert_eq!(Address::EMPTY.parse(), None);
    }
}
