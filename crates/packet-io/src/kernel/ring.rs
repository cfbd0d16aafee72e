//! Rings that are shared with the kernel: one side writes entries, the other reads them.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

/// A type that may be an entry of a ring.
///
/// # Safety
/// All bytes must be a valid value of the type.
pub(crate) unsafe trait Entry: Copy {}
// SAFETY: all bytes are a valid integer.
unsafe impl Entry for u64 {}
// SAFETY: the structure consists of integers.
unsafe impl Entry for libc::xdp_desc {}

/// One ring of an AF_XDP socket, whose number of entries is a power of two. Positions only
/// increase, and wrap at 32 bits.
pub(crate) struct Ring<T> {
    map: NonNull<u8>,
    map_len: usize,
    producer: usize,
    consumer: usize,
    flags: usize,
    entries: NonNull<T>,
    mask: u32,
    /// The position at which this side writes or reads next. The other side learns it from
    /// `publish_written` or `publish_read`.
    own_position: u32,
    /// The last known position of the other side.
    peer_position: u32,
}

// SAFETY: this value alone owns the mapping, and shares it with the kernel by atomics.
unsafe impl<T: Entry> Send for Ring<T> {}

impl<T: Entry> Ring<T> {
    /// Maps the socket's ring of `entries` at `page_offset`.
    ///
    /// `offsets` are those that the kernel returned for this ring.
    pub(crate) fn map(
        fd: BorrowedFd<'_>,
        page_offset: libc::off64_t,
        offsets: &libc::xdp_ring_offset,
        entries: u32,
    ) -> io::Result<Self> {
        let [producer, consumer, flags, start] =
            [offsets.producer, offsets.consumer, offsets.flags, offsets.desc].map(|at| at as usize);
        let map_len = start + entries as usize * size_of::<T>();
        // All accesses below must lie within the mapping and be aligned.
        let aligned = [producer, consumer, flags].iter().all(|at| at % 4 == 0 && at + 4 <= start);
        if !entries.is_power_of_two() || !aligned || start % align_of::<T>() != 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags_of_map = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: the kernel chooses where to put the new mapping, so no existing one is affected.
        let map = unsafe {
            // The rings lie at offsets that 32-bit processors reach with this call alone.
            libc::mmap64(null_mut(), map_len, protection, flags_of_map, fd.as_raw_fd(), page_offset)
        };
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let map = NonNull::new(map.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: `start` lies within the mapping, because `map_len` includes it.
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
            own_position: 0,
            peer_position: 0,
        })
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        // SAFETY: `map` has checked that the three words lie within the mapping and are aligned.
        // The mapping lives as long as self, and both sides use atomics.
        unsafe { self.map.add(at).cast().as_ref() }
    }

    fn entry(&self, position: u32) -> *mut T {
        // SAFETY: the mask keeps the index within the entries.
        unsafe { self.entries.add((position & self.mask) as usize).as_ptr() }
    }

    /// Whether the kernel needs a system call to notice published entries.
    pub(crate) fn wants_wakeup(&self) -> bool {
        self.word(self.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    /// For a ring that the kernel reads: the number of entries that can be written. Reads the
    /// kernel's position again if the known room is less than `wanted`.
    pub(crate) fn room(&mut self, wanted: u32) -> u32 {
        let size = self.mask + 1;
        if size - self.own_position.wrapping_sub(self.peer_position) < wanted {
            self.peer_position = self.word(self.consumer).load(Ordering::Acquire);
        }
        size.saturating_sub(self.own_position.wrapping_sub(self.peer_position))
    }

    /// Writes one entry, if there is room.
    pub(crate) fn push(&mut self, entry: T) -> Option<()> {
        if self.room(1) == 0 {
            return None;
        }
        // SAFETY: the kernel has read the old entry (its position was read with Acquire), and does
        // not read the new one before `publish_written`.
        unsafe { self.entry(self.own_position).write(entry) };
        self.own_position = self.own_position.wrapping_add(1);
        Some(())
    }

    /// Makes the written entries visible to the kernel.
    pub(crate) fn publish_written(&mut self) {
        self.word(self.producer).store(self.own_position, Ordering::Release);
    }

    /// Whether the kernel has not yet read all entries.
    pub(crate) fn is_pending(&self) -> bool {
        self.word(self.consumer).load(Ordering::Relaxed) != self.own_position
    }

    /// For a ring that the kernel writes: reads the next entry, if there is one.
    pub(crate) fn pop(&mut self) -> Option<T> {
        if self.peer_position == self.own_position {
            self.peer_position = self.word(self.producer).load(Ordering::Acquire);
            if self.peer_position == self.own_position {
                return None;
            }
        }
        // SAFETY: the kernel has written the entry (its position was read with Acquire), and does
        // not overwrite it before `publish_read`.
        let entry = unsafe { self.entry(self.own_position).read() };
        self.own_position = self.own_position.wrapping_add(1);
        Some(entry)
    }

    /// Returns the places of the entries that were read to the kernel.
    pub(crate) fn publish_read(&mut self) {
        self.word(self.consumer).store(self.own_position, Ordering::Release);
    }

    /// Whether the kernel has written entries that were not read.
    pub(crate) fn has_more(&self) -> bool {
        self.word(self.producer).load(Ordering::Relaxed) != self.own_position
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // SAFETY: `map` made the mapping with this length, and nothing borrows from a value that is
        // dropped.
        unsafe { libc::munmap(self.map.as_ptr().cast(), self.map_len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::os::fd::{AsFd, FromRawFd, OwnedFd};

    const ENTRIES: u32 = 4;
    const OFFSETS: libc::xdp_ring_offset =
        libc::xdp_ring_offset { producer: 0, consumer: 64, flags: 68, desc: 128 };

    /// Both sides of one ring; this process also plays the kernel.
    fn sides(begin: u32) -> (Ring<u64>, Ring<u64>) {
        // SAFETY: the name is a string, and the descriptor is new.
        let memory = unsafe {
            let fd = libc::memfd_create(c"ring".as_ptr(), 0);
            assert!(fd >= 0 && libc::ftruncate(fd, 4096) == 0);
            OwnedFd::from_raw_fd(fd)
        };
        let map = || Ring::map(memory.as_fd(), 0, &OFFSETS, ENTRIES).unwrap();
        let (mut writer, mut reader) = (map(), map());
        for side in [&mut writer, &mut reader] {
            (side.own_position, side.peer_position) = (begin, begin);
        }
        writer.publish_written();
        reader.publish_read();
        (writer, reader)
    }

    proptest! {
        #[test]
        fn a_ring_is_a_queue(
            begin in prop_oneof![Just(0_u32), u32::MAX - 9..=u32::MAX],
            steps in proptest::collection::vec((any::<bool>(), 1..6_u32), 1..60),
        ) {
            let (mut writer, mut reader) = sides(begin);
            let mut queue = VecDeque::new();
            let mut next = 0_u64;
            for (write, count) in steps {
                if write {
                    for _ in 0..count {
                        let fits = queue.len() < ENTRIES as usize;
                        prop_assert_eq!(writer.push(next).is_some(), fits);
                        if fits {
                            queue.push_back(next);
                            next += 1;
                        }
                    }
                    prop_assert_eq!(writer.room(ENTRIES), ENTRIES - queue.len() as u32);
                    writer.publish_written();
                } else {
                    for _ in 0..count {
                        prop_assert_eq!(reader.has_more(), !queue.is_empty());
                        prop_assert_eq!(reader.pop(), queue.pop_front());
                    }
                    reader.publish_read();
                }
                prop_assert_eq!(writer.is_pending(), !queue.is_empty());
            }
        }
    }

    #[test]
    fn nothing_is_seen_before_it_is_published() {
        let (mut writer, mut reader) = sides(0);
        for entry in 0..4 {
            writer.push(entry).unwrap();
        }
        assert_eq!(reader.pop(), None);
        writer.publish_written();
        assert_eq!(reader.pop(), Some(0));
        assert!(writer.push(4).is_none(), "the place is not returned yet");
        reader.publish_read();
        assert!(writer.push(4).is_some() && writer.push(5).is_none());
    }

    #[test]
    fn offsets_outside_of_a_ring_are_refused() {
        let memory = std::fs::File::open("/dev/zero").unwrap();
        let map = |offsets| Ring::<u64>::map(memory.as_fd(), 0, &offsets, ENTRIES).is_err();
        assert!(map(libc::xdp_ring_offset { producer: 126, ..OFFSETS }));
        assert!(map(libc::xdp_ring_offset { flags: 128, ..OFFSETS }));
        assert!(map(libc::xdp_ring_offset { desc: 129, ..OFFSETS }));
        assert!(Ring::<u64>::map(memory.as_fd(), 0, &OFFSETS, 3).is_err());
    }
}
