//! One AF_XDP socket: moves frames to its rings and back.

use super::attachment::{Attachment, Mode, failed, retry_while_busy};
use crate::interface::OpenError;
use crate::kernel::socket;
use crate::kernel::xdp_socket::XdpSocket;
use crate::pool::{Frame, Pool};
use crate::port::{BATCH, Statistics};
use std::cell::Cell;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// The largest length in bytes of a pool's frame: the kernel accepts frames of a page at most.
const MAX_FRAME: usize = 4096;
/// Length in bytes of an Ethernet header, the shortest frame that can be sent.
const HEADER: usize = 14;
/// Length in bytes of two VLAN tags, which an MTU does not include.
const TAGS: usize = 8;
/// Size of the send buffer, in bytes of the kernel's own packets.
const SEND_BUFFER: i32 = 16 << 20;

/// The settings of an AF_XDP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct XdpSettings {
    /// The receive queue of the interface, from 0 on.
    pub queue: u32,
    /// Number of entries of each ring: a power of two, 64 to 32768. A port uses up to twice as many
    /// of the pool's frames.
    pub ring: u32,
    /// Poll the driver for packets whenever this port receives, instead of waiting for interrupts.
    /// A waiting thread polls it too, for this duration. This needs a driver with queues of its own
    /// (NAPI).
    pub busy_poll: Option<Duration>,
}

impl Default for XdpSettings {
    fn default() -> Self {
        Self::new(0, 1024)
    }
}

impl XdpSettings {
    /// A socket of this queue, with rings of this many entries, which waits for interrupts.
    pub const fn new(queue: u32, ring: u32) -> Self {
        Self { queue, ring, busy_poll: None }
    }
}

pub(super) struct Port {
    socket: XdpSocket,
    attachment: Attachment,
    settings: XdpSettings,
    max_frame: usize,
    statistics: Statistics,
    /// A thread may have waited for the socket since the last call, and an error of the socket may
    /// have ended the wait.
    may_have_slept: Cell<bool>,
}

impl Port {
    pub(super) fn open(
        pool: &mut Pool,
        attachment: &Attachment,
        settings: XdpSettings,
    ) -> Result<Self, OpenError> {
        let interface = attachment.interface();
        Self::set_up(pool, attachment, settings).map_err(|error| failed(interface, error))
    }

    fn set_up(pool: &mut Pool, attachment: &Attachment, settings: XdpSettings) -> io::Result<Self> {
        let interface = attachment.interface();
        if pool.frame_bytes() > MAX_FRAME {
            let message = "the frames of a pool for AF_XDP must have 2048 or 4096 bytes";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        if !settings.ring.is_power_of_two() || !(64..=1 << 15).contains(&settings.ring) {
            let message = "a ring must have 64 to 32768 entries, a power of two";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let flags = |mode| {
            let copy = if mode == Mode::ZeroCopy { libc::XDP_ZEROCOPY } else { libc::XDP_COPY };
            copy | libc::XDP_USE_NEED_WAKEUP
        };
        let mut open = |mode| {
            let XdpSettings { queue, ring, .. } = settings;
            retry_while_busy(|| XdpSocket::open(pool, interface.index, queue, ring, flags(mode)))
        };
        let socket = match open(attachment.mode()) {
            Err(_) if attachment.mode() == Mode::ZeroCopy => open(Mode::Native),
            answer => answer,
        }?;
        let (level, fd) = (libc::SOL_SOCKET, socket.fd());
        let _ = socket::set(fd, level, libc::SO_SNDBUFFORCE, SEND_BUFFER);
        if let Some(time) = settings.busy_poll {
            let micros = i32::try_from(time.as_micros()).unwrap_or(i32::MAX);
            socket::set(fd, level, libc::SO_PREFER_BUSY_POLL, 1)?;
            socket::set(fd, level, libc::SO_BUSY_POLL, micros)?;
            socket::set(fd, level, libc::SO_BUSY_POLL_BUDGET, BATCH as i32)?;
        }
        let max_frame = interface.mtu_bytes as usize + HEADER + TAGS;
        let attachment = attachment.clone();
        let statistics = Statistics::default();
        let may_have_slept = Cell::new(false);
        let mut port = Self { socket, attachment, settings, max_frame, statistics, may_have_slept };
        port.refill(pool);
        port.attachment.put(settings.queue, port.socket.fd())?;
        Ok(port)
    }

    pub(super) fn attachment(&self) -> &Attachment {
        &self.attachment
    }

    /// The descriptor to wait for.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.may_have_slept.set(true);
        self.socket.fd()
    }

    /// Whether there are packets to receive, or packets to send for which the kernel must be asked
    /// again.
    pub(super) fn is_ready(&self) -> bool {
        self.socket.receive.has_more() || self.socket.transmit.is_pending()
    }

    pub(super) fn statistics(&self) -> Statistics {
        let dropped = self.socket.dropped();
        Statistics {
            overruns: self.statistics.overruns + dropped.overruns,
            starved: self.statistics.starved + dropped.starved,
            too_long: self.statistics.too_long + dropped.too_long,
            ..self.statistics
        }
    }

    /// Gives free frames to the kernel to receive into, but keeps an eighth of the pool.
    fn refill(&mut self, pool: &mut Pool) {
        let reserve = pool.capacity() / 8;
        let room = self.socket.fill.room(self.settings.ring) as usize;
        let count = room.min(pool.available().saturating_sub(reserve));
        if count == 0 {
            return;
        }
        for _ in 0..count {
            let Some(frame) = pool.allocate() else { break };
            let given = self.socket.fill.push(pool.give(frame));
            debug_assert!(given.is_some(), "there was room");
        }
        self.socket.fill.publish_written();
    }

    /// Takes back frames whose packets were sent.
    fn take_completions(&mut self, pool: &mut Pool) {
        let mut any = false;
        while let Some(address) = self.socket.completion.pop() {
            any = true;
            if let Some(frame) = pool.take(address, 0) {
                pool.release(frame);
            }
        }
        if any {
            self.socket.completion.publish_read();
        }
    }

    /// Appends received frames, at most [`BATCH`], and returns their number.
    ///
    /// # Errors
    /// The interface was removed.
    pub(super) fn receive(&mut self, pool: &mut Pool, into: &mut Vec<Frame>) -> io::Result<usize> {
        self.take_completions(pool);
        if self.socket.transmit.is_pending() {
            self.flush(pool);
        }
        if self.settings.busy_poll.is_some() {
            self.socket.poll_driver();
        }
        let before = into.len();
        let mut read = 0;
        while read < BATCH
            && let Some(packet) = self.socket.receive.pop()
        {
            read += 1;
            into.extend(pool.take(packet.addr, packet.len));
        }
        if read > 0 {
            self.socket.receive.publish_read();
        }
        self.refill(pool);
        let count = into.len() - before;
        self.statistics.received += count as u64;
        if count == 0
            && self.may_have_slept.replace(false)
            && let Some(error) = socket::pending_error(self.socket.fd())
        {
            return Err(error);
        }
        Ok(count)
    }

    /// Number of frames that can be sent now.
    pub(super) fn room(&mut self, pool: &mut Pool, wanted: usize) -> usize {
        self.take_completions(pool);
        let wanted = u32::try_from(wanted).unwrap_or(u32::MAX).min(self.settings.ring);
        self.socket.transmit.room(wanted) as usize
    }

    /// Whether the frame has a length that the interface can send.
    pub(super) fn fits(&self, frame: &Frame) -> bool {
        (HEADER..=self.max_frame).contains(&frame.len())
    }

    /// Queues a frame, which [`flush`](Self::flush) sends. There must be [`room`](Self::room).
    pub(super) fn queue(&mut self, pool: &mut Pool, frame: Frame) {
        let len = frame.len() as u32;
        let packet = libc::xdp_desc { addr: pool.give(frame), len, options: 0 };
        let queued = self.socket.transmit.push(packet);
        debug_assert!(queued.is_some(), "there was room");
        self.statistics.transmitted += 1;
    }

    /// Counts a frame that does not [`fit`](Self::fits).
    pub(super) fn refuse(&mut self) {
        self.statistics.refused += 1;
    }

    /// Sends the queued frames. Frames that the kernel does not take now are tried again later.
    pub(super) fn flush(&mut self, pool: &mut Pool) {
        self.socket.transmit.publish_written();
        // When the kernel copies, it sends a few dozen packets in each call.
        for _ in 0..=self.settings.ring / 16 {
            if !self.socket.transmit.is_pending() || !self.socket.transmit.wants_wakeup() {
                break;
            }
            match self.socket.send() {
                Ok(()) => {}
                Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => {
                    self.take_completions(pool);
                }
                Err(_) => break,
            }
        }
        self.take_completions(pool);
    }
}
