//! Frames of one size in one region of memory, and handles that own them.

use crate::region::Region;
use lightseal_core::PacketBuf;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// Free bytes before a received packet, and before a new one: room for the longest headers that a
/// tunnel or an IPv6 underlay puts before it.
pub const HEADROOM: usize = 192;

/// Free bytes that ports leave after a received packet: room for authentication tags.
pub const TAILROOM: usize = 64;

/// The sizes of a [`Pool`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolSettings {
    /// Length in bytes of a frame, including the room around the packet: a power of two from 2048
    /// to 65536. Packets of up to [`Pool::max_packet`] bytes fit.
    pub frame_bytes: usize,
    /// Number of frames: 1 to 2^20.
    pub frames: usize,
}

impl Default for PoolSettings {
    /// 4096 frames of 4096 bytes, 16 MiB.
    fn default() -> Self {
        Self::new(4096, 4096)
    }
}

impl PoolSettings {
    /// This many frames of `frame_bytes` bytes.
    pub const fn new(frame_bytes: usize, frames: usize) -> Self {
        Self { frame_bytes, frames }
    }
}

/// The current owner of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// The pool's free list.
    Pool,
    /// A [`Frame`] handle.
    Handle,
    /// A ring that the kernel reads or writes.
    #[cfg(target_os = "linux")]
    Ring,
}

/// Frames of one size, which one thread lends and takes back.
///
/// With AF_XDP the kernel writes received packets into this memory and sends from it, so that a
/// packet goes from one interface to another without a copy in this process. Such ports belong to
/// the pool they were opened with. When they are dropped, the frames in their rings are lost to the
/// pool.
///
#[derive(Debug)]
pub struct Pool {
    id: u32,
    frame_bytes: usize,
    region: Region,
    /// Indices of free frames. The last frame released is lent first, because it is still in the
    /// processor's cache.
    free: Vec<u32>,
    owners: Vec<Owner>,
    /// The AF_XDP socket that this memory was registered with first.
    #[cfg(target_os = "linux")]
    pub(crate) registered: Option<std::sync::Arc<std::os::fd::OwnedFd>>,
}

/// The handle of a frame of a [`Pool`], with the position of the packet in it.
///
/// The handle owns the frame, and [`Pool::release`] takes it back. If a handle is dropped, its
/// frame is lost to the pool ([`Pool::lent`] still counts it); nothing worse happens.
#[must_use = "a frame that is not released is lost to its pool"]
#[derive(Debug)]
pub struct Frame {
    pool: u32,
    index: u32,
    start: u32,
    end: u32,
}

impl Frame {
    /// The packet's length in bytes.
    pub const fn len(&self) -> usize {
        (self.end - self.start) as usize
    }

    /// Whether the packet has no bytes.
    pub const fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// The position of the packet in its frame, in bytes.
    pub const fn range(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

impl Pool {
    /// Maps memory for the frames.
    ///
    /// # Errors
    /// Sizes are out of range, or there is not enough memory.
    pub fn new(settings: PoolSettings) -> io::Result<Self> {
        static POOLS: AtomicU32 = AtomicU32::new(0);
        let PoolSettings { frame_bytes, frames } = settings;
        if !frame_bytes.is_power_of_two() || !(2048..=65536).contains(&frame_bytes) {
            let message = "a frame must have 2048 to 65536 bytes, a power of two";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        if !(1..=1 << 20).contains(&frames) {
            let message = "a pool must have 1 to 1048576 frames";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        Ok(Self {
            id: POOLS.fetch_add(1, Ordering::Relaxed),
            frame_bytes,
            region: Region::new(frame_bytes * frames)?,
            free: (0..frames as u32).rev().collect(),
            owners: vec![Owner::Pool; frames],
            #[cfg(target_os = "linux")]
            registered: None,
        })
    }

    /// Number of frames of the pool.
    pub fn capacity(&self) -> usize {
        self.owners.len()
    }

    /// Number of frames that can be lent now.
    pub fn available(&self) -> usize {
        self.free.len()
    }

    /// Number of frames that handles own, including handles that were dropped. It walks through the
    /// list of all frames, so it is meant for tests and infrequent metrics.
    pub fn lent(&self) -> usize {
        self.owners.iter().filter(|owner| **owner == Owner::Handle).count()
    }

    /// Length in bytes of a frame, including the room around the packet.
    pub fn frame_bytes(&self) -> usize {
        self.frame_bytes
    }

    /// The length in bytes of the longest packet that ports receive and [`Pool::allocate_with`]
    /// accepts: a frame without [`HEADROOM`] and [`TAILROOM`].
    pub fn max_packet(&self) -> usize {
        self.frame_bytes - HEADROOM - TAILROOM
    }

    /// Lends an empty frame with [`HEADROOM`] before it; `None` if none is free.
    pub fn allocate(&mut self) -> Option<Frame> {
        let index = self.free.pop()?;
        self.owners[index as usize] = Owner::Handle;
        Some(Frame { pool: self.id, index, start: HEADROOM as u32, end: HEADROOM as u32 })
    }

    /// Lends a frame with these bytes in it; `None` if no frame is free, or if there are more than
    /// [`max_packet`](Self::max_packet) bytes.
    pub fn allocate_with(&mut self, bytes: &[u8]) -> Option<Frame> {
        if bytes.len() > self.max_packet() {
            return None;
        }
        let mut frame = self.allocate()?;
        frame.end += bytes.len() as u32;
        self.buffer_mut(&frame)[HEADROOM..HEADROOM + bytes.len()].copy_from_slice(bytes);
        Some(frame)
    }

    /// Lends a further frame with a copy of the packet at the same position; `None` if none is
    /// free.
    pub fn copy(&mut self, frame: &Frame) -> Option<Frame> {
        let from = self.offset(frame);
        let mut copied = self.allocate()?;
        let to = self.offset(&copied);
        (copied.start, copied.end) = (frame.start, frame.end);
        let packet = frame.range();
        self.region.copy_within(from + packet.start..from + packet.end, to + packet.start);
        Some(copied)
    }

    /// Lends a frame with a copy of a part of the packet; `None` if no frame is free, or if the part
    /// has more than [`max_packet`](Self::max_packet) bytes.
    ///
    /// # Panics
    /// If the frame belongs to another pool, or its packet has no such part.
    pub fn copy_part(&mut self, frame: &Frame, part: Range<usize>) -> Option<Frame> {
        assert!(part.start <= part.end && part.end <= frame.len());
        if part.len() > self.max_packet() {
            return None;
        }
        let from = self.offset(frame) + frame.range().start;
        let mut copied = self.allocate()?;
        copied.end += part.len() as u32;
        let to = self.offset(&copied) + copied.range().start;
        self.region.copy_within(from + part.start..from + part.end, to);
        Some(copied)
    }

    /// Takes a frame back.
    ///
    /// # Panics
    /// If the frame belongs to another pool.
    pub fn release(&mut self, frame: Frame) {
        self.check(&frame);
        self.owners[frame.index as usize] = Owner::Pool;
        self.free.push(frame.index);
    }

    /// Takes all of these frames back.
    ///
    /// # Panics
    /// If one of them belongs to another pool.
    pub fn release_all(&mut self, frames: impl IntoIterator<Item = Frame>) {
        for frame in frames {
            self.release(frame);
        }
    }

    /// The packet's bytes.
    ///
    /// # Panics
    /// If the frame belongs to another pool.
    pub fn bytes(&self, frame: &Frame) -> &[u8] {
        let offset = self.offset(frame);
        self.region.slice(offset + frame.start as usize..offset + frame.end as usize)
    }

    /// The packet with the room around it. If the packet moves or changes its length, the caller
    /// notes its new position with [`set`](Self::set).
    ///
    /// # Panics
    /// If the frame belongs to another pool.
    pub fn packet(&mut self, frame: &mut Frame) -> PacketBuf<'_> {
        let range = frame.range();
        PacketBuf::new(self.buffer_mut(frame), range).expect("a packet lies within its frame")
    }

    /// Notes the position of the packet in its frame.
    ///
    /// # Panics
    /// If the range is not inside of a frame.
    pub fn set(&self, frame: &mut Frame, packet: Range<usize>) {
        assert!(packet.start <= packet.end && packet.end <= self.frame_bytes);
        (frame.start, frame.end) = (packet.start as u32, packet.end as u32);
    }

    /// Lets `change` work on the packet and notes its position afterwards.
    pub fn with<R>(
        &mut self,
        frame: &mut Frame,
        change: impl FnOnce(&mut PacketBuf<'_>) -> R,
    ) -> R {
        let mut packet = self.packet(frame);
        let result = change(&mut packet);
        let range = packet.range();
        self.set(frame, range);
        result
    }

    /// All bytes of the frame, including the room around the packet.
    pub(crate) fn buffer_mut(&mut self, frame: &Frame) -> &mut [u8] {
        let offset = self.offset(frame);
        self.region.slice_mut(offset..offset + self.frame_bytes)
    }

    /// The description of this memory for the kernel.
    #[cfg(target_os = "linux")]
    pub(crate) fn registration(&self) -> libc::xdp_umem_reg {
        let (addr, len) = self.region.address();
        let chunk_size = self.frame_bytes as u32;
        // The kernel leaves 256 bytes free before each received packet anyway
        // (XDP_PACKET_HEADROOM).
        libc::xdp_umem_reg { addr, len, chunk_size, headroom: 0, flags: 0, tx_metadata_len: 0 }
    }

    /// Gives a frame to a ring. Returns where its packet begins in the region, in bytes.
    ///
    /// # Panics
    /// If the frame belongs to another pool.
    #[cfg(target_os = "linux")]
    pub(crate) fn give(&mut self, frame: Frame) -> u64 {
        let offset = self.offset(&frame);
        self.owners[frame.index as usize] = Owner::Ring;
        offset as u64 + u64::from(frame.start)
    }

    /// Takes a frame back from a ring, with the packet of `len` bytes that begins at `address`;
    /// `None` if no ring owns the frame, or the packet does not lie within it.
    #[cfg(target_os = "linux")]
    pub(crate) fn take(&mut self, address: u64, len: u32) -> Option<Frame> {
        let index = u32::try_from(address / self.frame_bytes as u64).ok()?;
        let start = (address % self.frame_bytes as u64) as u32;
        let end = start.checked_add(len).filter(|&end| end as usize <= self.frame_bytes)?;
        let owner = self.owners.get_mut(index as usize).filter(|owner| **owner == Owner::Ring)?;
        *owner = Owner::Handle;
        Some(Frame { pool: self.id, index, start, end })
    }

    fn check(&self, frame: &Frame) {
        assert_eq!(frame.pool, self.id, "a frame stays with its pool");
    }

    fn offset(&self, frame: &Frame) -> usize {
        self.check(frame);
        frame.index as usize * self.frame_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(frames: usize) -> Pool {
        Pool::new(PoolSettings::new(2048, frames)).unwrap()
    }

    #[test]
    fn sizes_have_edges() {
        let new = |frame_bytes, frames| Pool::new(PoolSettings::new(frame_bytes, frames)).is_ok();
        assert!(new(2048, 1) && new(65536, 1));
        assert!(!new(1024, 1) && !new(131_072, 1) && !new(3000, 1));
        assert!(!new(2048, 0) && !new(2048, (1 << 20) + 1));
    }

    #[test]
    fn a_pool_lends_what_it_has_and_takes_it_back() {
        let mut pool = pool(2);
        let (first, second) = (pool.allocate().unwrap(), pool.allocate().unwrap());
        assert!(pool.allocate().is_none() && pool.copy(&first).is_none());
        assert_eq!((pool.available(), pool.lent()), (0, 2));
        pool.release_all([first, second]);
        assert_eq!((pool.available(), pool.lent()), (2, 0));
    }

    #[test]
    fn a_dropped_frame_is_still_counted() {
        let mut pool = pool(2);
        drop(pool.allocate().unwrap());
        assert_eq!((pool.available(), pool.lent(), pool.capacity()), (1, 1, 2));
    }

    #[test]
    fn packets_keep_their_place_and_neighbours_theirs() {
        let mut pool = pool(3);
        let mut first = pool.allocate_with(b"first").unwrap();
        let second = pool.allocate_with(b"second").unwrap();
        pool.with(&mut first, |packet| {
            packet.prepend(b"<").unwrap();
            packet.append(b">").unwrap();
        });
        let copied = pool.copy(&first).unwrap();
        assert_eq!(pool.bytes(&first), b"<first>");
        assert_eq!(pool.bytes(&copied), b"<first>");
        assert_eq!(pool.bytes(&second), b"second");
        assert_eq!((copied.range(), second.len()), (first.range(), 6));
        assert_eq!(first.range().start, HEADROOM - 1);
        pool.release(copied);
        let part = pool.copy_part(&first, 1..4).unwrap();
        assert_eq!((pool.bytes(&part), part.range().start), (&b"fir"[..], HEADROOM));
        assert!(pool.copy_part(&first, 0..7).is_none(), "no frame is free");
        pool.release(part);
        let whole = pool.copy_part(&first, 0..7).unwrap();
        assert_eq!(pool.bytes(&whole), b"<first>");
        pool.release_all([first, second, whole]);
    }

    #[test]
    fn the_longest_packet_fits_and_one_byte_more_does_not() {
        let mut pool = pool(1);
        let longest = vec![7; pool.max_packet()];
        assert!(pool.allocate_with(&vec![7; longest.len() + 1]).is_none());
        assert_eq!(pool.available(), 1);
        let mut frame = pool.allocate_with(&longest).unwrap();
        let room = pool.packet(&mut frame);
        assert_eq!((room.headroom(), room.tailroom()), (HEADROOM, TAILROOM));
        pool.release(frame);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_ring_returns_what_it_was_given_once() {
        let mut pool = pool(2);
        let frame = pool.allocate_with(b"packet").unwrap();
        let address = pool.give(frame);
        assert!(pool.take(2048 * 2, 0).is_none(), "after the end of the region");
        assert!(pool.take(u64::MAX, 0).is_none() && pool.take(address, u32::MAX).is_none());
        assert!(pool.take(address, 2048 - HEADROOM as u32 + 1).is_none(), "longer than its frame");
        assert_eq!((pool.lent(), pool.available()), (0, 1));
        let frame = pool.take(address, 6).unwrap();
        assert_eq!(pool.bytes(&frame), b"packet");
        assert!(pool.take(address, 6).is_none());
        pool.release(frame);
        assert!(pool.take(address, 6).is_none());
    }

    #[test]
    #[should_panic(expected = "a frame stays with its pool")]
    fn a_frame_of_another_pool_is_refused() {
        let (mut pool, mut other) = (pool(1), pool(1));
        let mut frame = pool.allocate().unwrap();
        other.packet(&mut frame);
    }
}
