//! A TAP device: an Ethernet interface of this machine whose wire ends in this process.
//!
//! The host hands over TCP segments much larger than a frame, and is given such, so that its
//! network stack works once for some forty frames:
//!
//! - `split`: a large segment cut into frames;
//! - `join`: frames joined to a large segment;
//! - `headers`: what both know of TCP, and checksums.

mod headers;
mod join;
mod split;

use crate::interface::{Interface, OpenError};
use crate::kernel::device::{self, Device};
use crate::pool::{Frame, HEADROOM, Pool};
use crate::port::{BATCH, LanPort, Source, Statistics};
use join::Joiner;
use split::Split;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The end of a TAP device's wire. The device goes when this is dropped, unless it was made to
/// stay by somebody else.
///
/// Nobody outside sees that TCP segments are handed over in large pieces: [`receive`] gives frames
/// as long as the device's MTU allows, with checksums, and [`transmit`] takes such.
///
/// [`receive`]: LanPort::receive
/// [`transmit`]: LanPort::transmit
pub struct TapPort {
    tun: OwnedFd,
    statistics: Statistics,
    /// A large segment, and what of it is still to be handed out.
    large: Vec<u8>,
    split: Option<Split>,
    joiner: Joiner,
}

/// What the kernel and a TAP device's other end tell each other of a packet: `struct
/// virtio_net_hdr` of linux/virtio_net.h, in the machine's byte order.
#[derive(Clone, Copy, Debug, Default)]
struct VnetHeader {
    flags: u8,
    /// Whether it is a large segment, and of what.
    kind: u8,
    /// Bytes of all headers.
    headers: u16,
    /// Payload in bytes of the segments that a large one stands for.
    size: u16,
    /// What is summed begins here.
    checksum_start: u16,
    /// The sum goes so many bytes behind that.
    checksum_offset: u16,
}

impl VnetHeader {
    const BYTES: usize = 10;
    /// VIRTIO_NET_HDR_F_NEEDS_CSUM.
    const NEEDS_CHECKSUM: u8 = 1;
    /// VIRTIO_NET_HDR_GSO_NONE.
    const WHOLE: u8 = 0;
    /// VIRTIO_NET_HDR_GSO_TCPV4.
    const TCP4: u8 = 1;
    /// VIRTIO_NET_HDR_GSO_TCPV6.
    const TCP6: u8 = 4;

    fn read(bytes: [u8; Self::BYTES]) -> Self {
        let [flags, kind, a, b, c, d, e, f, g, h] = bytes;
        Self {
            flags,
            kind,
            headers: u16::from_ne_bytes([a, b]),
            size: u16::from_ne_bytes([c, d]),
            checksum_start: u16::from_ne_bytes([e, f]),
            checksum_offset: u16::from_ne_bytes([g, h]),
        }
    }

    fn write(self) -> [u8; Self::BYTES] {
        let [a, b] = self.headers.to_ne_bytes();
        let [c, d] = self.size.to_ne_bytes();
        let [e, f] = self.checksum_start.to_ne_bytes();
        let [g, h] = self.checksum_offset.to_ne_bytes();
        [self.flags, self.kind, a, b, c, d, e, f, g, h]
    }
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
        let port = Self {
            tun,
            statistics: Statistics::default(),
            large: vec![0; split::MAX_LEN],
            split: None,
            joiner: Joiner::default(),
        };
        Ok((port, Interface::find(name)?))
    }
}

/// What became of a frame that was to be filled.
enum Filled {
    /// It has a packet.
    Yes(Frame),
    /// A packet was not fit for it.
    No(Frame),
    /// There is nothing to read.
    Idle(Frame),
}

impl TapPort {
    /// Fills a frame with the next piece of a large segment, or with what is read.
    fn fill(&mut self, pool: &mut Pool, mut frame: Frame) -> Result<Filled, (Frame, io::Error)> {
        let max_packet = pool.max_packet();
        if self.split.is_none() {
            let room = &mut pool.buffer_mut(&frame)[HEADROOM..HEADROOM + max_packet];
            let mut header = [0; VnetHeader::BYTES];
            // What is longer than a frame goes where a large segment has its place behind one.
            let large_from = max_packet.min(self.large.len());
            let mut parts = [
                IoSliceMut::new(&mut header),
                IoSliceMut::new(room),
                IoSliceMut::new(&mut self.large[large_from..]),
            ];
            let len = match device::read_parts(self.tun.as_fd(), &mut parts) {
                Ok(Some(len)) => len.saturating_sub(VnetHeader::BYTES),
                Ok(None) => return Ok(Filled::Idle(frame)),
                // A device that is down is read with EIO, and may come up again.
                Err(error) if error.raw_os_error() == Some(libc::EIO) => {
                    return Ok(Filled::Idle(frame));
                }
                Err(error) => return Err((frame, error)),
            };
            let header = VnetHeader::read(header);
            if header.kind == VnetHeader::WHOLE {
                if len > max_packet {
                    self.statistics.too_long += 1;
                    return Ok(Filled::No(frame));
                }
                if header.flags & VnetHeader::NEEDS_CHECKSUM != 0 {
                    let (start, offset) = (header.checksum_start, header.checksum_offset);
                    split::finish_checksum(&mut room[..len], start.into(), offset.into());
                }
                pool.set(&mut frame, HEADROOM..HEADROOM + len);
                return Ok(Filled::Yes(frame));
            }
            let first = len.min(large_from);
            self.large[..first].copy_from_slice(&room[..first]);
            self.split = Split::new(&self.large[..len], &header, max_packet);
            if self.split.is_none() {
                self.statistics.too_long += 1;
                return Ok(Filled::No(frame));
            }
        }
        let Some(split) = &mut self.split else { return Ok(Filled::Idle(frame)) };
        let room = &mut pool.buffer_mut(&frame)[HEADROOM..HEADROOM + max_packet];
        let len = split.next(&self.large, room);
        if split.is_done() {
            self.split = None;
        }
        pool.set(&mut frame, HEADROOM..HEADROOM + len);
        Ok(Filled::Yes(frame))
    }

    /// Writes a batch from the front.
    fn transmit_some(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) -> io::Result<()> {
        let taken = frames.len().min(BATCH);
        self.joiner.clear();
        for number in 0..taken {
            let pool = &*pool;
            self.joiner.add(number, |number| pool.bytes(&frames[number]));
        }
        self.joiner.finish();
        let mut lost = None;
        for run in self.joiner.runs() {
            let (group, lead) = run[0];
            let header =
                pool.with(&mut frames[lead], |packet| self.joiner.lead(group, packet.bytes_mut()));
            let header = header.write();
            let mut parts = [IoSlice::new(&[]); BATCH + 1];
            parts[0] = IoSlice::new(&header);
            for (i, (part, (_, frame))) in parts[1..].iter_mut().zip(run).enumerate() {
                let from = if i == 0 { 0 } else { self.joiner.payload_at(group) };
                *part = IoSlice::new(&pool.bytes(&frames[*frame])[from..]);
            }
            let count = run.len() as u64;
            match device::write_parts(self.tun.as_fd(), &parts[..=run.len()]) {
                Ok(Some(_)) => self.statistics.transmitted += count,
                Err(error) if error.raw_os_error() == Some(libc::EBADFD) => {
                    lost = Some(error);
                    break;
                }
                // Too short for a header, or the device is down, or the host has no room.
                Ok(None) | Err(_) => self.statistics.refused += count,
            }
        }
        pool.release_all(frames.drain(..taken));
        lost.map_or(Ok(()), Err)
    }
}

impl Source for TapPort {
    fn descriptors(&self, visit: &mut dyn FnMut(BorrowedFd<'_>)) {
        visit(self.tun.as_fd());
    }

    fn is_ready(&self) -> bool {
        self.split.is_some()
    }
}

impl LanPort for TapPort {
    fn receive(&mut self, pool: &mut Pool, into: &mut Vec<Frame>) -> io::Result<usize> {
        let mut count = 0;
        let mut attempts = 0;
        while attempts < BATCH
            && let Some(frame) = pool.allocate()
        {
            attempts += 1;
            match self.fill(pool, frame) {
                Ok(Filled::Yes(frame)) => {
                    into.push(frame);
                    count += 1;
                }
                Ok(Filled::No(frame)) => pool.release(frame),
                Ok(Filled::Idle(frame)) => {
                    pool.release(frame);
                    break;
                }
                Err((frame, error)) => {
                    pool.release(frame);
                    return Err(error);
                }
            }
        }
        self.statistics.received += count as u64;
        Ok(count)
    }

    fn transmit(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) -> io::Result<usize> {
        let count = frames.len();
        while !frames.is_empty() {
            self.transmit_some(pool, frames)?;
        }
        Ok(count)
    }

    fn statistics(&self) -> Statistics {
        self.statistics
    }
}
