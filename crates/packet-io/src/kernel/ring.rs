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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::os::fd::{AsFd, FromRawFd, OwnedFd};

    const ENTRIES: u32 = 4;
    const OFFSETS: libc::xdp_ring_offset =
        libc::xdp_ring_offset { producer: 0, consumer: 64, flags: 68, desc: 128 };

    /// Both sides of one ring, this process being the kernel too.
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
            (side.next, side.other) = (begin, begin);
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
        assert!(writer.push(4).is_none(), "the room is not given back yet");
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
