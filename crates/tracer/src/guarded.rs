//! Memory between pages that cannot be accessed.

use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use std::ffi::c_void;
use std::num::NonZeroUsize;
use std::ptr::NonNull;

/// A whole number of pages, in bytes: one page of x86-64, and the longest page of aarch64.
const PAGE: usize = if cfg!(target_arch = "x86_64") { 4096 } else { 65_536 };

/// Some accessible pages between two inaccessible ones.
pub struct Guarded {
    start: NonNull<c_void>,
    bytes: usize,
}

impl Guarded {
    /// Room for at least `least` bytes, with unspecified content.
    pub fn new(least: usize) -> Self {
        let bytes = least.next_multiple_of(PAGE);
        let all = NonZeroUsize::new(bytes + 2 * PAGE).unwrap();
        // SAFETY: this is new memory at an address chosen by the kernel, so nothing else uses it.
        // The pages between the first and the last then become accessible.
        let start = unsafe {
            let start =
                mmap_anonymous(None, all, ProtFlags::PROT_NONE, MapFlags::MAP_PRIVATE).unwrap();
            let usable = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
            mprotect(start.byte_add(PAGE), bytes, usable).unwrap();
            start
        };
        let mut guarded = Self { start, bytes };
        for (i, byte) in (0u32..).zip(guarded.all_mut()) {
            *byte = (i.wrapping_mul(0x9e37_79b9) >> 24) as u8;
        }
        guarded
    }

    fn all(&self) -> &[u8] {
        // SAFETY: this number of bytes is mapped behind the first page, for as long as `self`
        // lives.
        unsafe { std::slice::from_raw_parts(self.start.byte_add(PAGE).as_ptr().cast(), self.bytes) }
    }

    fn all_mut(&mut self) -> &mut [u8] {
        // SAFETY: this number of bytes is mapped behind the first page, and `self` is borrowed
        // mutably.
        unsafe {
            std::slice::from_raw_parts_mut(self.start.byte_add(PAGE).as_ptr().cast(), self.bytes)
        }
    }

    /// `count` bytes right after the first page, and `count` bytes right before the last.
    pub fn edges(&self, count: usize) -> [&[u8]; 2] {
        [&self.all()[..count], &self.all()[self.bytes - count..]]
    }

    /// As [`edges`](Self::edges): the `count` bytes before the last page, or those after the first.
    pub fn edge_mut(&mut self, count: usize, last: bool) -> &mut [u8] {
        let from = if last { self.bytes - count } else { 0 };
        &mut self.all_mut()[from..][..count]
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: this memory was mapped by `new`, and nothing borrows it any more.
        unsafe { munmap(self.start, self.bytes + 2 * PAGE) }.expect("the memory was mapped");
    }
}
