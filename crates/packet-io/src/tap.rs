//! A TAP device: an Ethernet interface of this machine whose wire ends in this process.

use crate::interface::{Interface, OpenError};
use crate::kernel::device::{self, Device};
use crate::pool::{Frame, HEADROOM, Pool, TAILROOM};
use crate::port::{BATCH, LanPort, Source, Statistics};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The end of a TAP device's wire. The device goes when this is dropped, unless it was made to
/// stay by somebody else.
pub struct TapPort {
    tun: OwnedFd,
    statistics: Statistics,
}

impl TapPort {
    /// Makes the TAP device `name`, or takes the one of that name that has nobody at its end, sets
    /// its MTU in bytes and its state to up.
    ///
    /// # Errors
    /// `/dev/net/tun` is missing, the name is taken, or `CAP_NET_ADMIN` is missing.
    pub fn open(name: &str, mtu_bytes: u32) -> Result<(Self, Interface), OpenError> {
        Self::set_up(name, None, mtu_bytes)
    }

    /// As [`open`](Self::open), with this Ethernet address from the first moment on: what the host
    /// derives from an address is right, such as IPv6's.
    ///
    /// # Errors
    /// As for [`open`](Self::open), or the address is one of a group.
    pub fn open_with_mac(
        name: &str,
        mac: [u8; 6],
        mtu_bytes: u32,
    ) -> Result<(Self, Interface), OpenError> {
        Self::set_up(name, Some(mac), mtu_bytes)
    }

    fn set_up(
        name: &str,
        mac: Option<[u8; 6]>,
        mtu_bytes: u32,
    ) -> Result<(Self, Interface), OpenError> {
        let failed = |error| OpenError::new(format!("TAP device {name}"), "CAP_NET_ADMIN", error);
        let tun = device::open_tun().map_err(failed)?;
        let mut device = Device::new(name).map_err(failed)?;
        device.attach_tap(tun.as_fd()).map_err(failed)?;
        if let Some(mac) = mac {
            device.set_mac(mac).map_err(failed)?;
        }
        device.set_mtu(mtu_bytes).map_err(failed)?;
        device.set_flags(libc::IFF_UP, libc::IFF_UP).map_err(failed)?;
        Ok((Self { tun, statistics: Statistics::default() }, Interface::find(name)?))
    }
}

impl Source for TapPort {
    fn descriptors(&self, visit: &mut dyn FnMut(BorrowedFd<'_>)) {
        visit(self.tun.as_fd());
    }
}

impl LanPort for TapPort {
    fn receive(&mut self, pool: &mut Pool, into: &mut Vec<Frame>) -> io::Result<usize> {
        let mut count = 0;
        while count < BATCH
            && let Some(mut frame) = pool.allocate()
        {
            let buffer = pool.buffer_mut(&frame);
            // A longer one is cut to the room: the last byte is there to notice.
            let end = buffer.len() - TAILROOM + 1;
            match device::read(self.tun.as_fd(), &mut buffer[HEADROOM..end]) {
                Ok(Some(len)) if len > pool.max_packet() => {
                    self.statistics.too_long += 1;
                    pool.release(frame);
                }
                Ok(Some(len)) => {
                    pool.set(&mut frame, HEADROOM..HEADROOM + len);
                    into.push(frame);
                    count += 1;
                }
                answer => {
                    pool.release(frame);
                    match answer {
                        // A device that is down is read with EIO, and may come up again.
                        Err(error) if error.raw_os_error() != Some(libc::EIO) => return Err(error),
                        _ => break,
                    }
                }
            }
        }
        self.statistics.received += count as u64;
        Ok(count)
    }

    fn transmit(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) -> io::Result<usize> {
        let mut taken = 0;
        let mut lost = None;
        for frame in frames.iter() {
            match device::write(self.tun.as_fd(), pool.bytes(frame)) {
                Ok(Some(_)) => self.statistics.transmitted += 1,
                Ok(None) => break,
                Err(error) if error.raw_os_error() == Some(libc::EBADFD) => {
                    lost = Some(error);
                    break;
                }
                // Too short for a header, or the device is down.
                Err(_) => self.statistics.refused += 1,
            }
            taken += 1;
        }
        pool.release_all(frames.drain(..taken));
        lost.map_or(Ok(taken), Err)
    }

    fn statistics(&self) -> Statistics {
        self.statistics
    }
}
