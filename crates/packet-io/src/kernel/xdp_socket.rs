//! Sockets of the address family AF_XDP.

use super::ring::Ring;
use super::{checked, socket};
use crate::pool::Pool;
use libc::{SOL_XDP, c_int, socklen_t};
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::{null, null_mut};
use std::sync::Arc;

// SAFETY: two longs followed by four ints, without padding (linux/if_xdp.h).
unsafe impl socket::Plain for libc::xdp_umem_reg {}
// SAFETY: sixteen longs, without padding.
unsafe impl socket::Plain for libc::xdp_mmap_offsets {}
// SAFETY: six longs, without padding.
unsafe impl socket::Plain for libc::xdp_statistics {}
// SAFETY: an int.
unsafe impl socket::Plain for u32 {}

/// A socket and its four rings.
pub(crate) struct XdpSocket {
    fd: Arc<OwnedFd>,
    /// Frames into which the kernel receives packets.
    pub(crate) fill: Ring<u64>,
    /// Frames whose packets were sent.
    pub(crate) completion: Ring<u64>,
    /// Received packets.
    pub(crate) receive: Ring<libc::xdp_desc>,
    /// Packets to send.
    pub(crate) transmit: Ring<libc::xdp_desc>,
}

impl XdpSocket {
    /// Opens a socket on one queue of an interface, with rings of `entries` (a power of two). It
    /// receives into the pool's frames and sends from them. `flags` are those of `sxdp_flags`; the
    /// second socket of a pool uses the flags of the first.
    pub(crate) fn open(
        pool: &mut Pool,
        interface: u32,
        queue: u32,
        entries: u32,
        flags: u16,
    ) -> io::Result<Self> {
        let fd = Arc::new(socket::open(libc::AF_XDP, libc::SOCK_RAW, 0)?);
        let borrowed = fd.as_fd();
        if pool.registered.is_none() {
            // The kernel writes only into frames that it was given in the fill ring, and reads only
            // those that it was given to send. The pool's list of owners prevents handles to these
            // frames.
            socket::set(borrowed, SOL_XDP, libc::XDP_UMEM_REG, pool.registration())?;
        }
        for ring in [
            libc::XDP_UMEM_FILL_RING,
            libc::XDP_UMEM_COMPLETION_RING,
            libc::XDP_RX_RING,
            libc::XDP_TX_RING,
        ] {
            socket::set(borrowed, SOL_XDP, ring, entries)?;
        }
        // SAFETY: the structure consists of integers, for which zero is valid.
        let offsets: libc::xdp_mmap_offsets = unsafe { zeroed() };
        let offsets = socket::get(borrowed, SOL_XDP, libc::XDP_MMAP_OFFSETS, offsets)?;
        let fill = libc::XDP_UMEM_PGOFF_FILL_RING as i64;
        let completion = libc::XDP_UMEM_PGOFF_COMPLETION_RING as i64;
        let receive = libc::off64_t::from(libc::XDP_PGOFF_RX_RING);
        let transmit = libc::off64_t::from(libc::XDP_PGOFF_TX_RING);
        let opened = Self {
            fill: Ring::map(borrowed, fill, &offsets.fr, entries)?,
            completion: Ring::map(borrowed, completion, &offsets.cr, entries)?,
            receive: Ring::map(borrowed, receive, &offsets.rx, entries)?,
            transmit: Ring::map(borrowed, transmit, &offsets.tx, entries)?,
            fd: fd.clone(),
        };
        let (flags, shared) = match &pool.registered {
            Some(first) => (libc::XDP_SHARED_UMEM, first.as_raw_fd() as u32),
            None => (flags, 0),
        };
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: flags,
            sxdp_ifindex: interface,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: shared,
        };
        let len = size_of::<libc::sockaddr_xdp>() as socklen_t;
        let pointer: *const libc::sockaddr_xdp = &address;
        // SAFETY: the kernel reads `len` bytes of an address that lives until the call returns.
        checked(unsafe { libc::bind(fd.as_raw_fd(), pointer.cast(), len) })?;
        pool.registered.get_or_insert(fd);
        Ok(opened)
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Asks the kernel to send the packets in the transmit ring. It may stop before all are sent.
    pub(crate) fn send(&self) -> io::Result<()> {
        let fd = self.fd.as_raw_fd();
        // SAFETY: no memory is handed over.
        let answer = unsafe { libc::sendto(fd, null(), 0, libc::MSG_DONTWAIT, null(), 0) };
        checked(answer as c_int).map(drop)
    }

    /// Asks the kernel to poll the driver for packets.
    pub(crate) fn poll_driver(&self) {
        let fd = self.fd.as_raw_fd();
        let (none, no_address) = (null_mut(), null_mut());
        // SAFETY: no memory is handed over. The result does not matter, because the ring shows what
        // was received.
        unsafe { libc::recvfrom(fd, none, 0, libc::MSG_DONTWAIT, no_address, null_mut()) };
    }

    /// Number of packets that the kernel dropped.
    pub(crate) fn dropped(&self) -> Dropped {
        // SAFETY: the structure consists of integers, for which zero is valid.
        let none: libc::xdp_statistics = unsafe { zeroed() };
        let Ok(told) = socket::get(self.fd(), SOL_XDP, libc::XDP_STATISTICS, none) else {
            return Dropped::default();
        };
        let starved = told.rx_fill_ring_empty_descs;
        // A packet that found the fill ring empty is counted in both counters.
        let too_long = told.rx_dropped.saturating_sub(starved);
        Dropped { overruns: told.rx_ring_full, starved, too_long }
    }
}

/// Packets that the kernel dropped.
#[derive(Clone, Copy, Default)]
pub(crate) struct Dropped {
    /// The receive ring was full.
    pub(crate) overruns: u64,
    /// The fill ring was empty.
    pub(crate) starved: u64,
    /// The packets were longer than a frame.
    pub(crate) too_long: u64,
}
