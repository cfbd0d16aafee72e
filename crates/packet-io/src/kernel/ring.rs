//! Rings that are shared with the kernel: one side writes, the other reads.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

/// What may be in a ring.
///
/// # Safety
/// Any bytes are a value.
pub(crate) unsafe trait Entry: Copy {}
// SAFETY: an integer.
unsafe impl Entry for u64 {}
// SAFETY: integers.
unsafe impl Entry for libc::xdp_desc {}

/// One ring of an AF_XDP socket, of a power of two of entries. Positions only grow, and wrap at 32
/// bits.
pub(crate) struct Ring<T> {
    map: NonNull<u8>,
    map_len: usize,
    producer: usize,
    consumer: usize,
    flags: usize,
    entries: NonNull<T>,
    mask: u32,
    /// Where this side writes or reads next; the other one learns of it by `publish`.
    next: u32,
    /// How far the other side is known to be.
    other: u32,
}

// SAFETY: the mapping is this value's alone; the kernel's side of it is reached with atomics.
unsafe impl<T: Entry> Send for Ring<T> {}

impl<T: Entry> Ring<T> {
    /// Maps a ring of `entries` that the socket has at `page_offset`.
    ///
    /// `offsets` are the kernel's for it.
    pub(crate) fn map(
        fd: BorrowedFd<'_>,
        page_offset: i64,
        offsets: &libc::xdp_ring_offset,
        entries: u32,
    ) -> io::Result<Self> {
        let [producer, consumer, flags, start] =
            [offsets.producer, offsets.consumer, offsets.flags, offsets.desc].map(|at| at as usize);
        let map_len = start + entries as usize * size_of::<T>();
        // What is read and written below is inside of the mapping and aligned.
        let aligned = [producer, consumer, flags].iter().all(|at| at % 4 == 0 && at + 4 <= start);
        if !entries.is_power_of_two() || !aligned || start % align_of::<T>() != 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags_of_map = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: a new mapping, wherever the kernel puts it.
        let map = unsafe {
            libc::mmap(null_mut(), map_len, protection, flags_of_map, fd.as_raw_fd(), page_offset)
        };
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let map = NonNull::new(map.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: `start` is inside of the mapping, by its length.
        let entries_at = unsafe { map.add(start) }.cast();
        let mask = entries - 1;
        Ok(Self {
            map,
            map_len,
            producer,
            consumer,
            flags,
            entries: entries_at,
            mask,
            next: 0,
            other: 0,
        })
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        // SAFETY: `map` has checked that the three words are inside of the mapping and aligned;
        // it lives as long as self, and both sides use atomics.
        unsafe { self.map.add(at).cast().as_ref() }
    }

    fn entry(&self, position: u32) -> *mut T {
        // SAFETY: masked, so inside of the entries.
        unsafe { self.entries.add((position & self.mask) as usize).as_ptr() }
    }

    /// Whether the kernel wants to be told of what was published.
    pub(crate) fn wants_wakeup(&self) -> bool {
        self.word(self.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    /// For a ring that the kernel reads: how many entries can be written. Asks again where the
    /// kernel is if there is less than `wanted`.
    pub(crate) fn room(&mut self, wanted: u32) -> u32 {
        let size = self.mask + 1;
        if size - self.next.wrapping_sub(self.other) < wanted {
            self.other = self.word(self.consumer).load(Ordering::Acquire);
        }
        size.saturating_sub(self.next.wrapping_sub(self.other))
    }

    /// Writes one entry, if there is room.
    pub(crate) fn push(&mut self, entry: T) -> Option<()> {
        if self.room(1) == 0 {
            return None;
        }
        // SAFETY: the kernel has read what was there (its position was read with Acquire), and
        // does not look again before `publish_written`.
        unsafe { self.entry(self.next).write(entry) };
        self.next = self.next.wrapping_add(1);
        Some(())
    }

    /// Shows the kernel what was written.
    pub(crate) fn publish_written(&mut self) {
        self.word(self.producer).store(self.next, Ordering::Release);
    }

    /// Whether the kernel has not yet read everything.
    pub(crate) fn is_pending(&self) -> bool {
        self.word(self.consumer).load(Ordering::Relaxed) != self.next
    }

    /// For a ring that the kernel writes: reads one entry, if there is one.
    pub(crate) fn pop(&mut self) -> Option<T> {
        if self.other == self.next {
            self.other = self.word(self.producer).load(Ordering::Acquire);
            if self.other == self.next {
                return None;
            }
        }
        // SAFETY: the kernel has written it (its position was read with Acquire), and does not
        // write there again before `publish_read`.
        let entry = unsafe { self.entry(self.next).read() };
        self.next = self.next.wrapping_add(1);
        Some(entry)
    }

    /// Gives the kernel back the room of what was read.
    pub(crate) fn publish_read(&mut self) {
        self.word(self.consumer).store(self.next, Ordering::Release);
    }

    /// Whether the kernel has written something that was not read.
    pub(crate) fn has_more(&self) -> bool {
        self.word(self.producer).load(Ordering::Relaxed) != self.next
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length, and nothing borrows from a value that is
        // dropped.
        unsafe { libc::munmap(self.map.as_ptr().cast(), self.map_len) };
    }
}
