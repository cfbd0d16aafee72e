//! An underlay of UDP datagrams through AF_XDP, with kernel sockets for the datagrams that AF_XDP
//! cannot handle.

use super::attachment::{Attachment, failed};
use super::headers::{self, DatagramAddresses, LONGEST};
use super::next_hops::NextHopCache;
use super::port::{Port, XdpSettings};
use crate::interface::OpenError;
use crate::pool::{Frame, Pool};
use crate::port::{Datagram, Pollable, Refusal, RefusalCause, Refusals, Statistics, Underlay};
use crate::udp::{self, UdpUnderlay};
use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Instant;

/// Number of calls between two that also receive from the kernel's sockets.
const KERNEL_EVERY: u32 = 16;

/// An underlay that exchanges datagrams of one address and queue through AF_XDP, and those of
/// kernel sockets at the same and other addresses.
///
/// Datagrams that the program does not take (fragments, options, other interfaces and queues) are
/// received through the kernel's sockets. Datagrams to a next hop that the kernel does not know
/// yet, or over another interface, are sent through them: the kernel then resolves the next hop's
/// address, and no datagram is lost meanwhile. If the kernel has not heard of a next hop for a
/// while, it gets one datagram from time to time, for the same reason.
pub struct XdpUnderlay {
    port: Port,
    kernel: UdpUnderlay,
    next_hops: NextHopCache,
    /// The address and port whose datagrams the program takes.
    local: SocketAddr,
    /// The address and port to send from, of the same family.
    from: SocketAddr,
    frames: Vec<Frame>,
    slow: Vec<Datagram>,
    refusals: Refusals,
    /// Number of calls since the kernel's sockets were last read, at most [`KERNEL_EVERY`].
    calls: Cell<u32>,
    /// Number of datagrams dropped because the kernel's sockets had no room.
    refused: u64,
    /// Number of frames with contradictory headers.
    mangled: u64,
}

impl XdpUnderlay {
    /// Opens an AF_XDP socket that uses the pool's frames for the datagrams that an attachment
    /// takes, and the kernel sockets of `sockets`, whose `local` must contain the attachment's
    /// address.
    ///
    /// # Errors
    /// The errors of [`XdpLan::open`](super::XdpLan::open) and [`UdpUnderlay::open`].
    pub fn open(
        pool: &mut Pool,
        attachment: &Attachment,
        settings: XdpSettings,
        sockets: &udp::UdpSettings,
    ) -> Result<Self, OpenError> {
        let interface = attachment.interface();
        let misused =
            |message: &str| failed(interface, io::Error::new(io::ErrorKind::InvalidInput, message));
        let local = attachment
            .local()
            .ok_or_else(|| misused("the attached program is not that of an underlay"))?;
        if !sockets.local.contains(&local) {
            return Err(misused(
                "the local addresses of the sockets do not include that of the program",
            ));
        }
        let kernel = UdpUnderlay::open(sockets)?;
        // If the kernel was to choose the port, it is known now.
        let mut from = kernel.sends_from(local.is_ipv4()).unwrap_or(local);
        if from.ip().is_unspecified() {
            from.set_ip(local.ip());
        }
        let next_hops = NextHopCache::open(interface.index, from.ip())
            .map_err(|error| failed(interface, error))?;
        Ok(Self {
            port: Port::open(pool, attachment, settings)?,
            kernel,
            next_hops,
            local,
            from,
            frames: Vec::new(),
            slow: Vec::new(),
            refusals: Refusals::default(),
            calls: Cell::new(KERNEL_EVERY),
            refused: 0,
            mangled: 0,
        })
    }

    /// Number of received frames that were dropped because their headers contradict each other.
    pub fn mangled(&self) -> u64 {
        self.mangled
    }

    /// Number of datagrams that the kernel's sockets sent.
    pub fn sent_by_kernel(&self) -> u64 {
        self.kernel.statistics().transmitted
    }

    /// Puts headers before a payload. Returns the datagram unchanged as an error if the kernel has
    /// to send it.
    fn wrap(
        &mut self,
        pool: &mut Pool,
        datagram: Datagram,
        now: Instant,
    ) -> Result<Frame, Datagram> {
        let Datagram { mut frame, remote, class, from_shared_port } = datagram;
        let next_hop = self.next_hops.next_hop(remote.ip(), now).filter(|next_hop| !next_hop.stale);
        let room = frame.range().start >= LONGEST;
        let (Some(next_hop), true) = (next_hop, room && remote.is_ipv4() == self.from.is_ipv4())
        else {
            return Err(Datagram { frame, remote, class, from_shared_port });
        };
        let own_mac = self.port.attachment().interface().mac;
        let from = if from_shared_port { self.local } else { self.from };
        let addresses = DatagramAddresses { own_mac, next_mac: next_hop.mac, from, to: remote };
        let mut bytes = [0; LONGEST];
        let Some(len) = headers::write(&mut bytes, &addresses, class, pool.bytes(&frame)) else {
            return Err(Datagram { frame, remote, class, from_shared_port });
        };
        let written = pool.with(&mut frame, |packet| packet.prepend_slice(&bytes[..len]));
        debug_assert!(written.is_some(), "there was room");
        Ok(frame)
    }
}

impl Pollable for XdpUnderlay {
    fn descriptors(&self, visit: &mut dyn FnMut(BorrowedFd<'_>)) {
        // The caller is about to sleep, and one of the kernel's sockets may wake it.
        self.calls.set(KERNEL_EVERY);
        visit(self.port.fd());
        self.kernel.descriptors(visit);
    }

    fn is_ready(&self) -> bool {
        self.port.is_ready()
    }
}

impl Underlay for XdpUnderlay {
    fn receive(&mut self, pool: &mut Pool, into: &mut Vec<Datagram>) -> io::Result<usize> {
        let before = into.len();
        self.port.receive(pool, &mut self.frames)?;
        for mut frame in self.frames.drain(..) {
            if let Some(read) = headers::read(pool.bytes(&frame)) {
                let start = frame.range().start;
                pool.set(&mut frame, start + read.payload.start..start + read.payload.end);
                let (remote, class) = (read.from, read.class);
                into.push(Datagram { frame, remote, class, from_shared_port: false });
            } else {
                self.mangled += 1;
                pool.release(frame);
            }
        }
        // Reading the kernel's sockets mostly finds nothing and costs as much as a packet, so it is
        // done after sleep and once in [`KERNEL_EVERY`] calls.
        let since = self.calls.get();
        self.calls.set(if since < KERNEL_EVERY { since + 1 } else { 0 });
        if since >= KERNEL_EVERY {
            self.kernel.receive(pool, into)?;
        }
        Ok(into.len() - before)
    }

    fn transmit(&mut self, pool: &mut Pool, datagrams: &mut Vec<Datagram>) -> io::Result<usize> {
        if datagrams.is_empty() {
            return Ok(0);
        }
        let now = Instant::now();
        let max_payload = {
            let mtu = self.port.attachment().interface().mtu_bytes as usize;
            mtu.saturating_sub(headers::overhead(self.from.ip()))
        };
        let count = self.port.room(pool, datagrams.len()).min(datagrams.len());
        for datagram in datagrams.drain(..count) {
            let bytes = datagram.frame.len();
            if bytes > max_payload && datagram.remote.is_ipv4() == self.from.is_ipv4() {
                let (remote, cause) = (datagram.remote, RefusalCause::TooLong);
                self.refusals.push(Refusal { remote, bytes, cause });
                self.port.refuse();
                pool.release(datagram.frame);
                continue;
            }
            match self.wrap(pool, datagram, now) {
                Ok(frame) => self.port.queue(pool, frame),
                Err(datagram) => self.slow.push(datagram),
            }
        }
        self.port.flush(pool);
        if !self.slow.is_empty() {
            self.kernel.transmit(pool, &mut self.slow)?;
            self.refused += self.slow.len() as u64;
            pool.release_all(self.slow.drain(..).map(|datagram| datagram.frame));
        }
        Ok(count)
    }

    fn refusals(&mut self, into: &mut Vec<Refusal>) {
        self.refusals.drain(into);
        self.kernel.refusals(into);
    }

    fn statistics(&self) -> Statistics {
        let own = Statistics { refused: self.refused, ..Statistics::default() };
        self.port.statistics() + self.kernel.statistics() + own
    }
}
