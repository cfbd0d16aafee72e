//! Properties of an interface that `ioctl(2)` reads and changes, and TAP devices.

use super::socket::Address;
use super::{checked, socket};
use libc::{c_int, c_short, c_ulong};
use std::ffi::CStr;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// An interface by name, and a socket to ask the kernel about it.
pub(crate) struct Device {
    socket: OwnedFd,
    request: libc::ifreq,
}

/// Length in bytes of the header before each packet (`struct virtio_net_hdr`).
const VNET_HEADER_BYTES: c_int = 10;

/// `struct ethtool_value` of linux/ethtool.h.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

/// `ETHTOOL_GCHANNELS` of linux/ethtool.h.
const GET_CHANNELS: u32 = 0x3c;

/// `struct ethtool_channels` of linux/ethtool.h: the possible and the current numbers of queues.
#[repr(C)]
#[derive(Default)]
pub(crate) struct EthtoolChannels {
    command: u32,
    most: [u32; 4],
    /// Number of queues that only receive.
    pub(crate) receive: u32,
    transmit: u32,
    other: u32,
    /// Number of queues that receive and send.
    pub(crate) combined: u32,
}

impl Device {
    /// # Errors
    /// The name is not valid for any interface.
    pub(crate) fn new(name: &str) -> io::Result<Self> {
        let socket = socket::open(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
        Ok(Self { socket, request: request(name)? })
    }

    /// # Safety
    /// The request `number` must use an `ifreq`, and a pointer in it must be valid.
    unsafe fn ask(&mut self, number: libc::Ioctl) -> io::Result<()> {
        let request: *mut libc::ifreq = &mut self.request;
        // SAFETY: the request lives until the call returns; the caller guarantees the rest.
        checked(unsafe { libc::ioctl(self.socket.as_raw_fd(), number, request) }).map(drop)
    }

    pub(crate) fn index(&mut self) -> io::Result<u32> {
        // SAFETY: this request has no pointer, and its answer is an int.
        unsafe {
            self.ask(libc::SIOCGIFINDEX as libc::Ioctl)?;
            Ok(self.request.ifr_ifru.ifru_ifindex as u32)
        }
    }

    pub(crate) fn flags(&mut self) -> io::Result<c_int> {
        // SAFETY: this request has no pointer, and its answer is a short.
        unsafe {
            self.ask(libc::SIOCGIFFLAGS as libc::Ioctl)?;
            Ok(c_int::from(self.request.ifr_ifru.ifru_flags))
        }
    }

    pub(crate) fn mtu(&mut self) -> io::Result<u32> {
        // SAFETY: this request has no pointer, and its answer is an int.
        unsafe {
            self.ask(libc::SIOCGIFMTU as libc::Ioctl)?;
            Ok(self.request.ifr_ifru.ifru_mtu as u32)
        }
    }

    /// Hardware type (ARPHRD_…) and address.
    pub(crate) fn hardware(&mut self) -> io::Result<(u16, [u8; 6])> {
        // SAFETY: this request has no pointer, and its answer is an address.
        let address = unsafe {
            self.ask(libc::SIOCGIFHWADDR as libc::Ioctl)?;
            self.request.ifr_ifru.ifru_hwaddr
        };
        let mut mac = [0; 6];
        for (byte, from) in mac.iter_mut().zip(address.sa_data) {
            *byte = from as u8;
        }
        Ok((address.sa_family, mac))
    }

    /// Reads or sets one value of the driver, and returns the value that the driver leaves in the
    /// structure.
    pub(crate) fn ethtool(&mut self, command: u32, data: u32) -> io::Result<u32> {
        let mut value = EthtoolValue { command, data };
        // SAFETY: callers use only commands with a `struct ethtool_value` (interface.rs).
        unsafe { self.ask_driver(&mut value)? };
        Ok(value.data)
    }

    /// Reads the numbers of the driver's queues.
    pub(crate) fn channels(&mut self) -> io::Result<EthtoolChannels> {
        let mut channels = EthtoolChannels { command: GET_CHANNELS, ..EthtoolChannels::default() };
        // SAFETY: `EthtoolChannels` is the structure of this command.
        unsafe { self.ask_driver(&mut channels)? };
        Ok(channels)
    }

    /// # Safety
    /// `value` must be the structure of the command in its first field, and consist of integers
    /// only.
    unsafe fn ask_driver<T>(&mut self, value: &mut T) -> io::Result<()> {
        let pointer: *mut T = value;
        self.request.ifr_ifru.ifru_data = pointer.cast();
        // SAFETY: the kernel reads and writes a `T`, which lives until the call returns.
        let answer = unsafe { self.ask(libc::SIOCETHTOOL as libc::Ioctl) };
        self.request.ifr_ifru.ifru_data = std::ptr::null_mut();
        answer
    }

    /// Makes or finds the TAP device of that name and attaches the open `/dev/net/tun` to it. The
    /// host may leave checksums and the splitting of TCP segments to the reader.
    pub(crate) fn attach_tap(&mut self, tun: BorrowedFd<'_>) -> io::Result<()> {
        self.request.ifr_ifru.ifru_flags =
            (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as c_short;
        let request: *mut libc::ifreq = &mut self.request;
        // SAFETY: this request has no pointer, and lives until the kernel returns.
        checked(unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETIFF, request) })?;
        let header_bytes: *const c_int = &VNET_HEADER_BYTES;
        // SAFETY: the kernel reads an int.
        checked(unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETVNETHDRSZ, header_bytes) })?;
        let offloads = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6;
        // SAFETY: this request's argument is a number.
        checked(unsafe {
            libc::ioctl(tun.as_raw_fd(), libc::TUNSETOFFLOAD, c_ulong::from(offloads))
        })
        .map(drop)
    }

    /// Changes flags of the interface: those in `mask` become those in `flags`.
    pub(crate) fn set_flags(&mut self, flags: c_int, mask: c_int) -> io::Result<()> {
        let now = self.flags()?;
        self.request.ifr_ifru.ifru_flags = (now & !mask | flags & mask) as c_short;
        // SAFETY: this request has no pointer.
        unsafe { self.ask(libc::SIOCSIFFLAGS as libc::Ioctl) }
    }

    /// Sets the Ethernet address.
    pub(crate) fn set_mac(&mut self, mac: [u8; 6]) -> io::Result<()> {
        let mut sa_data = [0; 14];
        for (to, byte) in sa_data.iter_mut().zip(mac) {
            *to = byte as libc::c_char;
        }
        self.request.ifr_ifru.ifru_hwaddr =
            libc::sockaddr { sa_family: libc::ARPHRD_ETHER, sa_data };
        // SAFETY: this request has no pointer.
        unsafe { self.ask(libc::SIOCSIFHWADDR as libc::Ioctl) }
    }

    /// Sets the MTU in bytes.
    pub(crate) fn set_mtu(&mut self, mtu: u32) -> io::Result<()> {
        self.request.ifr_ifru.ifru_mtu = mtu as c_int;
        // SAFETY: this request has no pointer.
        unsafe { self.ask(libc::SIOCSIFMTU as libc::Ioctl) }
    }
}

fn request(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: zeros are an empty name, and all bytes are valid for each member of the union.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.is_empty() || name.len() >= request.ifr_name.len() || name.contains('\0') {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

/// The name of an interface that has this address.
pub(crate) fn with_address(wanted: IpAddr) -> io::Result<Option<String>> {
    let mut first = std::ptr::null_mut();
    // SAFETY: the function writes one pointer.
    checked(unsafe { libc::getifaddrs(&mut first) })?;
    let (mut next, mut found) = (first, None);
    // SAFETY: each pointer in the list is null or points to an entry, until the list is freed.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        let mut address = Address::EMPTY;
        // SAFETY: the address of an entry is null, or has the length of its family.
        unsafe { address.copy_from(entry.ifa_addr) };
        if address.parse().is_some_and(|address| address.ip() == wanted) {
            // SAFETY: an entry's name ends with a zero byte.
            let name = unsafe { CStr::from_ptr(entry.ifa_name) };
            found = Some(name.to_string_lossy().into_owned());
            break;
        }
    }
    // SAFETY: no reference to the list is used after this.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

/// Reads one packet and returns its length in bytes; `None` if there is none now.
pub(crate) fn read(fd: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<Option<usize>> {
    read_parts(fd, &mut [IoSliceMut::new(into)])
}

/// Writes one packet and returns its length in bytes; `None` if the kernel has no room now.
pub(crate) fn write(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<Option<usize>> {
    write_parts(fd, &[IoSlice::new(bytes)])
}

/// Reads one packet into several buffers, one after the other; `None` if there is none now.
pub(crate) fn read_parts(
    fd: BorrowedFd<'_>,
    into: &mut [IoSliceMut<'_>],
) -> io::Result<Option<usize>> {
    // SAFETY: `IoSliceMut` has the layout of `iovec` (its documentation guarantees it), and the
    // kernel writes no further than the slices.
    let answer =
        unsafe { libc::readv(fd.as_raw_fd(), into.as_mut_ptr().cast(), into.len() as c_int) };
    outcome(answer)
}

/// Writes one packet from several buffers, one after the other; `None` if the kernel has no room
/// now.
pub(crate) fn write_parts(fd: BorrowedFd<'_>, parts: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
    // SAFETY: `IoSlice` has the layout of `iovec` as well, and the kernel reads no further than the
    // slices.
    let answer =
        unsafe { libc::writev(fd.as_raw_fd(), parts.as_ptr().cast(), parts.len() as c_int) };
    outcome(answer)
}

fn outcome(answer: isize) -> io::Result<Option<usize>> {
    match usize::try_from(answer) {
        Ok(len) => Ok(Some(len)),
        Err(_) => {
            let error = io::Error::last_os_error();
            if super::messages::is_idle(&error) { Ok(None) } else { Err(error) }
        }
    }
}

/// Opens `/dev/net/tun` in non-blocking mode.
pub(crate) fn open_tun() -> io::Result<OwnedFd> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    let file =
        options.read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
    file.as_fd().try_clone_to_owned()
}
