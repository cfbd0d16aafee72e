//! A port for the frames of an interface through a packet socket. It works on every interface and
//! needs no program in the kernel. Frames are copied once in each direction.

use crate::ethertype;
use crate::interface::{Interface, OpenError};
use crate::kernel::messages::{Batch, OutgoingMessage, ReceivedMessage, int};
use crate::kernel::socket;
use crate::pool::{Frame, HEADROOM, Pool};
use crate::port::{BATCH, LanPort, Pollable, Statistics};
use std::cell::Cell;
use std::io;
use std::iter::once;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The settings of a packet socket.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PacketSocketSettings {
    /// Also receive frames for other hosts.
    pub promiscuous: bool,
    /// Receive only frames of these EtherTypes (at most 64), which may follow up to two VLAN tags,
    /// and one more if the kernel removed it. If the list is empty, receive all frames.
    pub ethertypes: Vec<u16>,
    /// Bypass the interface's queueing discipline and hand frames to the driver directly. This is a
    /// little faster where there is one, but nothing shapes or queues the frames.
    pub bypass_queue: bool,
    /// Size in bytes of the socket's receive buffer, and of its send buffer.
    pub buffer_bytes: usize,
}

impl Default for PacketSocketSettings {
    fn default() -> Self {
        Self {
            promiscuous: true,
            ethertypes: Vec::new(),
            bypass_queue: false,
            buffer_bytes: 8 << 20,
        }
    }
}

impl PacketSocketSettings {
    /// The defaults, with these EtherTypes only.
    pub fn for_ethertypes(ethertypes: Vec<u16>) -> Self {
        Self { ethertypes, ..Self::default() }
    }
}

/// A packet socket on one interface.
///
/// Frames that the host itself sends there are not received. Frames that leave another interface of
/// this machine directly (veth, bridges) may be longer than the MTU and lack checksums, unless that
/// interface's offloads are off ([`Interface::set_offload`]). Frames that lack checksums are
/// counted.
pub struct PacketPort {
    socket: OwnedFd,
    batch: Batch,
    spare: Vec<Frame>,
    statistics: Cell<Statistics>,
}

impl PacketPort {
    /// Opens a socket on the interface.
    ///
    /// # Errors
    /// `CAP_NET_RAW` is missing, or the interface no longer exists.
    pub fn open(interface: &Interface, settings: &PacketSocketSettings) -> Result<Self, OpenError> {
        let what = || format!("a packet socket on {}", interface.name);
        ethertype::filter(&settings.ethertypes)
            .and_then(|mut filter| Self::set_up(interface, settings, &mut filter))
            .map_err(|error| OpenError::new(what(), "CAP_NET_RAW", error))
    }

    /// Opens `count` sockets that share the received frames, for as many threads. All frames of one
    /// source address are received by one of the sockets, so they stay in order.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open).
    pub fn open_shared(
        interface: &Interface,
        settings: &PacketSocketSettings,
        count: usize,
    ) -> Result<Vec<Self>, OpenError> {
        if count == 1 {
            return Ok(vec![Self::open(interface, settings)?]);
        }
        let mut ports: Vec<Self> = Vec::new();
        let what = || format!("packet sockets that share {}", interface.name);
        let failed = |error| OpenError::new(what(), "CAP_NET_RAW", error);
        for _ in 0..count {
            let port = Self::set_up(interface, settings, &mut [ethertype::NOTHING]);
            let port = port.map_err(failed)?;
            let first = ports.first().map(|port| port.socket.as_fd());
            join(port.socket.as_fd(), first).map_err(failed)?;
            ports.push(port);
        }
        // The filters are attached last: a socket that was not yet in the group would have received
        // all frames.
        for port in &ports {
            let mut filter = ethertype::filter(&settings.ethertypes).map_err(failed)?;
            socket::attach_filter(port.socket.as_fd(), &mut filter).map_err(failed)?;
        }
        Ok(ports)
    }

    fn set_up(
        interface: &Interface,
        settings: &PacketSocketSettings,
        filter: &mut [libc::sock_filter],
    ) -> io::Result<Self> {
        // A socket with protocol 0 receives nothing. With another protocol it would receive frames
        // of all interfaces until it is bound.
        let socket = socket::open(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
        let fd = socket.as_fd();
        socket::attach_filter(fd, filter)?;
        socket::set(fd, libc::SOL_PACKET, libc::PACKET_AUXDATA, 1)?;
        socket::set(fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
        let bypass = i32::from(settings.bypass_queue);
        socket::set(fd, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, bypass)?;
        set_buffers(fd, settings.buffer_bytes)?;
        socket::bind_link(fd, interface.index, libc::ETH_P_ALL as u16)?;
        if settings.promiscuous {
            let membership = libc::packet_mreq {
                mr_ifindex: interface.index as libc::c_int,
                mr_type: libc::PACKET_MR_PROMISC as u16,
                mr_alen: 0,
                mr_address: [0; 8],
            };
            socket::set(fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, membership)?;
        }
        let batch = Batch::new(BATCH, BATCH);
        Ok(Self { socket, batch, spare: Vec::new(), statistics: Cell::default() })
    }

    fn count(&self, change: impl FnOnce(&mut Statistics)) {
        let mut statistics = self.statistics.get();
        change(&mut statistics);
        self.statistics.set(statistics);
    }
}

/// Makes a socket a member of the fanout group that `first` founded, or the founder of a new one.
fn join(socket: BorrowedFd<'_>, first: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let (level, name) = (libc::SOL_PACKET, libc::PACKET_FANOUT);
    // A fanout group receives outgoing frames even if its sockets ignore them, unless this flag is
    // set. Linux before 6.2 ignores the flag; the sockets' filters then drop these frames.
    let kind = (libc::PACKET_FANOUT_CBPF | libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING) << 16;
    let group = match first {
        // The kernel chooses the group's identifier, so that no other process uses the same one.
        None => kind | libc::PACKET_FANOUT_FLAG_UNIQUEID << 16,
        Some(first) => kind | socket::get(first, level, name, 0_u32)? & 0xFFFF,
    };
    socket::set(socket, level, name, group)?;
    if first.is_none() {
        socket::attach_chooser(socket, &mut ethertype::by_sender())?;
    }
    Ok(())
}

/// Sets the size of a socket's receive and send buffers, as far as this process may.
pub(crate) fn set_buffers(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
    let level = libc::SOL_SOCKET;
    for (forced, name) in
        [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)]
    {
        if socket::set(fd, level, forced, bytes).is_err() {
            socket::set(fd, level, name, bytes)?;
        }
    }
    Ok(())
}

impl Pollable for PacketPort {
    fn descriptors(&self, visit: &mut dyn FnMut(BorrowedFd<'_>)) {
        visit(self.socket.as_fd());
    }
}

impl LanPort for PacketPort {
    fn receive(&mut self, pool: &mut Pool, into: &mut Vec<Frame>) -> io::Result<usize> {
        while self.spare.len() < BATCH
            && let Some(frame) = pool.allocate()
        {
            self.spare.push(frame);
        }
        // If no frames are free, packets wait in the socket; those for which it has no room are
        // overruns.
        let answer = self.batch.receive(self.socket.as_fd(), pool, &self.spare, HEADROOM);
        let count = match answer {
            Ok(count) => count,
            // An interface that is down may come up again; one that was removed will not.
            Err(error) if is_down(&error) && !socket::is_orphan(self.socket.as_fd()) => 0,
            Err(error) => {
                pool.release_all(self.spare.drain(..));
                return Err(error);
            }
        };
        let before = into.len();
        for (i, mut frame) in self.spare.drain(..).enumerate() {
            if i >= count {
                pool.release(frame);
                continue;
            }
            let received = self.batch.received(i);
            if received.truncated {
                self.statistics.get_mut().too_long += 1;
                pool.release(frame);
                continue;
            }
            pool.set(&mut frame, HEADROOM..HEADROOM + received.len);
            let metadata = FrameMetadata::from_control(&received);
            if let Some(tag) = metadata.tag {
                pool.with(&mut frame, |packet| put_tag_back(packet, tag));
            }
            self.statistics.get_mut().unfinished += u64::from(metadata.unfinished);
            into.push(frame);
        }
        let received = into.len() - before;
        self.statistics.get_mut().received += received as u64;
        Ok(received)
    }

    fn transmit(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) -> io::Result<usize> {
        let fd = self.socket.as_fd();
        let mut sent = 0;
        let mut refused = 0;
        let mut lost = None;
        while sent + refused < frames.len() {
            let messages = frames[sent + refused..].iter().map(|frame| OutgoingMessage {
                frames: once(frame),
                to: None,
                class: 0,
                segment: None,
            });
            match self.batch.transmit(fd, pool, messages) {
                Ok(0) => break,
                Ok(count) => sent += count,
                // The driver's queue is full.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => break,
                Err(error) if matches!(error.raw_os_error(), Some(libc::ENXIO | libc::ENODEV)) => {
                    lost = Some(error);
                    break;
                }
                // The frame is longer than the MTU or shorter than a header, or the interface is
                // down. Such a frame can never be sent.
                Err(_) => refused += 1,
            }
        }
        pool.release_all(frames.drain(..sent + refused));
        self.count(|statistics| {
            statistics.transmitted += sent as u64;
            statistics.refused += refused as u64;
        });
        lost.map_or(Ok(sent + refused), Err)
    }

    fn statistics(&self) -> Statistics {
        // The kernel resets its counters when they are read.
        let none = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let (level, name) = (libc::SOL_PACKET, libc::PACKET_STATISTICS);
        if let Ok(counters) = socket::get(self.socket.as_fd(), level, name, none) {
            self.count(|statistics| statistics.overruns += u64::from(counters.tp_drops));
        }
        self.statistics.get()
    }
}

fn is_down(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENETDOWN)
}

/// Metadata that the kernel keeps beside a frame (`struct tpacket_auxdata`).
struct FrameMetadata {
    /// Protocol and control information of a VLAN tag that the kernel removed from the frame.
    tag: Option<[u8; 4]>,
    /// The sender left the checksums to hardware.
    unfinished: bool,
}

impl FrameMetadata {
    fn from_control(received: &ReceivedMessage<'_>) -> Self {
        let mut found = Self { tag: None, unfinished: false };
        for (level, kind, data) in received.control() {
            if (level, kind) != (libc::SOL_PACKET, libc::PACKET_AUXDATA) || data.len() < 20 {
                continue;
            }
            let status = int(data).unwrap_or_default() as u32;
            found.unfinished = status & libc::TP_STATUS_CSUMNOTREADY != 0;
            if status & libc::TP_STATUS_VLAN_VALID != 0 {
                let information = u16::from_ne_bytes([data[16], data[17]]).to_be_bytes();
                let protocol = match status & libc::TP_STATUS_VLAN_TPID_VALID {
                    0 => ethertype::VLAN.to_be_bytes(),
                    _ => u16::from_ne_bytes([data[18], data[19]]).to_be_bytes(),
                };
                found.tag = Some([protocol[0], protocol[1], information[0], information[1]]);
            }
        }
        found
    }
}

/// Inserts a VLAN tag after the addresses, where it was before.
fn put_tag_back(packet: &mut lightseal_core::PacketBuf<'_>, tag: [u8; 4]) {
    const ADDRESSES: usize = 12;
    if packet.len() >= ADDRESSES && packet.prepend(&tag).is_some() {
        packet.bytes_mut()[..ADDRESSES + 4].rotate_left(4);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::PoolSettings;

    #[test]
    fn a_tag_goes_behind_the_addresses() {
        let mut pool = Pool::new(PoolSettings::new(2048, 1)).unwrap();
        let mut frame = pool.allocate_with(b"ddddddssssssttpayload").unwrap();
        pool.with(&mut frame, |packet| put_tag_back(packet, *b"VLAN"));
        assert_eq!(pool.bytes(&frame), b"ddddddssssssVLANttpayload");
        pool.release(frame);
    }

    #[test]
    fn half_a_header_keeps_no_tag() {
        let mut pool = Pool::new(PoolSettings::new(2048, 1)).unwrap();
        let mut frame = pool.allocate_with(b"ddddddsssss").unwrap();
        pool.with(&mut frame, |packet| put_tag_back(packet, *b"VLAN"));
        assert_eq!(pool.bytes(&frame), b"ddddddsssss");
        pool.release(frame);
    }
}
