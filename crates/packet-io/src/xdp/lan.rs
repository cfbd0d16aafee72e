//! A port for the frames of an interface through AF_XDP.

use super::attachment::{Attachment, failed};
use super::port::{Port, XdpSettings};
use crate::interface::OpenError;
use crate::kernel::socket;
use crate::pool::{Frame, Pool};
use crate::port::{LanPort, Pollable, Statistics};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A port for the frames of one queue of an interface.
pub struct XdpLan {
    port: Port,
    /// A packet socket whose membership keeps the interface promiscuous.
    _membership: OwnedFd,
}

impl XdpLan {
    /// Opens a socket that uses the pool's frames, and makes the interface receive frames for other
    /// hosts too. The port must be used with the pool it was opened with.
    ///
    /// # Errors
    /// `CAP_NET_RAW` is missing, the queue does not exist or is in use, or the pool's frames are
    /// longer than a page.
    pub fn open(
        pool: &mut Pool,
        attachment: &Attachment,
        settings: XdpSettings,
    ) -> Result<Self, OpenError> {
        let port = Port::open(pool, attachment, settings)?;
        let interface = attachment.interface();
        let membership = promiscuous(interface.index).map_err(|error| failed(interface, error))?;
        Ok(Self { port, _membership: membership })
    }
}

/// A packet socket that receives nothing and only makes the interface promiscuous.
fn promiscuous(interface: u32) -> io::Result<OwnedFd> {
    let opened = socket::open(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
    let membership = libc::packet_mreq {
        mr_ifindex: interface as libc::c_int,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    socket::set(opened.as_fd(), libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, membership)?;
    Ok(opened)
}

impl Pollable for XdpLan {
    fn descriptors(&self, visit: &mut dyn FnMut(BorrowedFd<'_>)) {
        visit(self.port.fd());
    }

    fn is_ready(&self) -> bool {
        self.port.is_ready()
    }
}

impl LanPort for XdpLan {
    fn receive(&mut self, pool: &mut Pool, into: &mut Vec<Frame>) -> io::Result<usize> {
        self.port.receive(pool, into)
    }

    fn transmit(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) -> io::Result<usize> {
        if frames.is_empty() {
            return Ok(0);
        }
        let count = self.port.room(pool, frames.len()).min(frames.len());
        for frame in frames.drain(..count) {
            if self.port.fits(&frame) {
                self.port.queue(pool, frame);
            } else {
                self.port.refuse();
                pool.release(frame);
            }
        }
        self.port.flush(pool);
        Ok(count)
    }

    fn statistics(&self) -> Statistics {
        self.port.statistics()
    }
}
