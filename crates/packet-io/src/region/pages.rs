//! Pages that can be shared with the kernel.

use std::io;
use std::ops::Range;
use std::ptr::{NonNull, copy_nonoverlapping, null_mut};
use std::slice;

/// Anonymous pages, zero at first.
#[derive(Debug)]
pub(crate) struct Region {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: this value alone owns the pages, like a Vec its memory.
unsafe impl Send for Region {}

impl Region {
    /// Maps `len` bytes that begin at a page boundary.
    pub(crate) fn new(len: usize) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        // SAFETY: the kernel chooses where to map the new pages, so no existing mapping is
        // affected.
        let start = unsafe { libc::mmap(null_mut(), len, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, len })
    }

    /// # Panics
    /// If the range does not lie within the region.
    pub(crate) fn slice(&self, range: Range<usize>) -> &[u8] {
        assert!(range.start <= range.end && range.end <= self.len);
        // SAFETY: the range lies within the mapping, which is initialised (zero) and lives as long
        // as self. Nobody can change it through self during this borrow, and the kernel writes only
        // into frames that no handle owns (pool.rs).
        unsafe { slice::from_raw_parts(self.start.as_ptr().add(range.start), range.len()) }
    }

    /// # Panics
    /// If the range does not lie within the region.
    pub(crate) fn slice_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        assert!(range.start <= range.end && range.end <= self.len);
        // SAFETY: as in `slice`, and self is borrowed mutably.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr().add(range.start), range.len()) }
    }

    /// Address and length of the region, for the kernel.
    pub(crate) fn address(&self) -> (u64, u64) {
        (self.start.as_ptr() as u64, self.len as u64)
    }

    /// Copies bytes to another place that does not overlap them.
    ///
    /// # Panics
    /// If one of the ranges does not lie within the region, or if they overlap.
    pub(crate) fn copy_within(&mut self, from: Range<usize>, to: usize) {
        assert!(from.start <= from.end && from.end <= self.len);
        let len = from.len();
        let end = to
            .checked_add(len)
            .filter(|&end| end <= self.len)
            .expect("the range lies within the region");
        assert!(end <= from.start || from.end <= to);
        // SAFETY: both ranges lie within the mapping and do not overlap; self is borrowed mutably.
        unsafe {
            copy_nonoverlapping(
                self.start.as_ptr().add(from.start),
                self.start.as_ptr().add(to),
                len,
            );
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: `new` mapped the pages with this length, and nothing borrows from a value that is
        // dropped. A kernel ring that still uses the pages has pinned them itself.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
