//! A TAP device: an Ethernet interface of this machine whose other end is this process.
//!
//! The host sends and accepts TCP segments much larger than a frame, so that its network stack runs
//! once for some forty frames:
//!
//! - `split`: splits a large segment into frames;
//! - `join`: joins frames into a large segment;
//! - `headers`: the TCP headers and checksums that both need.

mod headers;
mod join;
mod split;

use crate::interface::{Interface, OpenError};
use crate::kernel::device::{self, Device};
use crate::pool::{Frame, HEADROOM, Pool};
use crate::port::{BATCH, LanPort, Pollable, Statistics};
use join::Joiner;
use split::Split;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The end of a TAP device in this process. The device is removed when this value is dropped,
/// unless somebody else made it persistent.
///
/// Large segments are not visible to users of this port: [`receive`] returns frames no longer than
/// the device's MTU allows, with checksums, and [`transmit`] takes such frames.
///
/// [`receive`]: LanPort::receive
/// [`transmit`]: LanPort::transmit
pub struct TapPort {
    tun: OwnedFd,
    statistics: Statistics,
    /// The last large segment read; `split` says which part of it is still to be received.
    large: Vec<u8>,
    split: Option<Split>,
    joiner: Joiner,
}

/// The header before each packet that the kernel and a TAP device's other end exchange: `struct
/// virtio_net_hdr` of linux/virtio_net.h, in the machine's byte order.
#[derive(Clone, Copy, Debug, Default)]
struct VnetHeader {
    flags: u8,
    /// Whether the packet is a large segment, and of which protocol.
    kind: u8,
    /// Length in bytes of all headers.
    headers: u16,
    /// Payload in bytes of each of the segments that a large one stands for.
    size: u16,
    /// The offset in bytes at which the checksummed part begins.
    checksum_start: u16,
    /// The offset in bytes of the checksum from `checksum_start`.
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
    /// Makes the TAP device `name`, or opens an existing one of that name that no process has open,
    /// sets its MTU in bytes and brings it up.
    ///
    /// # Errors
    /// `/dev/net/tun` is missing, the name is taken, or `CAP_NET_ADMIN` is missing.
    pub fn open(name: &str, mtu_bytes: u32) -> Result<(Self, Interface), OpenError> {
        Self::set_up(name, None, mtu_bytes)
    }

    /// As [`open`](Self::open), but sets this Ethernet address before the device comes up, so that
    /// addresses that the host derives from it, such as IPv6's, are right.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open), or the address is a group address.
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

/// The result of filling a frame. Each variant gives the frame back.
enum ReadOutcome {
    /// The frame holds a packet.
    Packet(Frame),
    /// A packet was read and dropped because it does not fit.
    Dropped(Frame),
    /// There is no packet to read.
    Idle(Frame),
}

impl TapPort {
    /// Fills a frame with the next part of a large segment, or with the next packet that is read.
    fn fill(
        &mut self,
        pool: &mut Pool,
        mut frame: Frame,
    ) -> Result<ReadOutcome, (Frame, io::Error)> {
        let max_packet = pool.max_packet();
        if self.split.is_none() {
            let room = &mut pool.buffer_mut(&frame)[HEADROOM..HEADROOM + max_packet];
            let mut header = [0; VnetHeader::BYTES];
            // The bytes that do not fit in the frame are read to their place in the large segment.
            let large_from = max_packet.min(self.large.len());
            let mut parts = [
                IoSliceMut::new(&mut header),
                IoSliceMut::new(room),
                IoSliceMut::new(&mut self.large[large_from..]),
            ];
            let len = match device::read_parts(self.tun.as_fd(), &mut parts) {
                Ok(Some(len)) => len.saturating_sub(VnetHeader::BYTES),
                Ok(None) => return Ok(ReadOutcome::Idle(frame)),
                // Reading a device that is down fails with EIO. It may come up again.
                Err(error) if error.raw_os_error() == Some(libc::EIO) => {
                    return Ok(ReadOutcome::Idle(frame));
                }
                Err(error) => return Err((frame, error)),
            };
            let header = VnetHeader::read(header);
            if header.kind == VnetHeader::WHOLE {
                if len > max_packet {
                    self.statistics.too_long += 1;
                    return Ok(ReadOutcome::Dropped(frame));
                }
                if header.flags & VnetHeader::NEEDS_CHECKSUM != 0 {
                    let (start, offset) = (header.checksum_start, header.checksum_offset);
                    split::finish_checksum(&mut room[..len], start.into(), offset.into());
                }
                pool.set(&mut frame, HEADROOM..HEADROOM + len);
                return Ok(ReadOutcome::Packet(frame));
            }
            let first = len.min(large_from);
            self.large[..first].copy_from_slice(&room[..first]);
            self.split = Split::new(&self.large[..len], &header, max_packet);
            if self.split.is_none() {
                self.statistics.too_long += 1;
                return Ok(ReadOutcome::Dropped(frame));
            }
        }
        let Some(split) = &mut self.split else { return Ok(ReadOutcome::Idle(frame)) };
        let room = &mut pool.buffer_mut(&frame)[HEADROOM..HEADROOM + max_packet];
        let len = split.next(&self.large, room);
        if split.is_done() {
            self.split = None;
        }
        pool.set(&mut frame, HEADROOM..HEADROOM + len);
        Ok(ReadOutcome::Packet(frame))
    }

    /// Writes the first frames as one batch.
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
                // The frame is too short for a header, the device is down, or the host has no room.
                Ok(None) | Err(_) => self.statistics.refused += count,
            }
        }
        pool.release_all(frames.drain(..taken));
        lost.map_or(Ok(()), Err)
    }
}

impl Pollable for TapPort {
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
                Ok(ReadOutcome::Packet(frame)) => {
                    into.push(frame);
                    count += 1;
                }
                Ok(ReadOutcome::Dropped(frame)) => pool.release(frame),
                Ok(ReadOutcome::Idle(frame)) => {
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
